//! Rules in the Common Expression Language (`x-kubernetes-validations`).

use serde_json::{Map, Value};

use crate::schema::node::Node;
use crate::schema::path::NO_FIELD;
use crate::schema::{Cause, CauseReason};

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule;

pub(crate) fn compile(
    _schema: &Map<String, Value>,
    _node: &Node,
    _path: &str,
    _causes: &mut Vec<Cause>,
) -> Vec<Rule> {
    Vec::new()
}

pub(crate) fn check(_node: &Node, _new: &Value, _old: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}

/// Says that rules were left out because of other mistakes.
pub(crate) fn skipped() -> Cause {
    Cause {
        reason: CauseReason::FieldValueInvalid,
        message: "Invalid value: null: some validation rules were not checked because the object \
                  was invalid; correct the existing errors to complete validation"
            .to_owned(),
        field: NO_FIELD.to_owned(),
    }
}
