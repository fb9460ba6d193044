//! Rules in the Common Expression Language (`x-kubernetes-validations`).

mod bind;
mod expression;
mod functions;

#[cfg(test)]
mod tests;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::{Map, Value};

use crate::schema::go_text::{bad_value, quote};
use crate::schema::node::{Additional, ListType, Node, Type};
use crate::schema::path::{NO_FIELD, Path};
use crate::schema::rules::expression::Expression;
use crate::schema::{CauseReason, FieldCause};

/// Longest message that an expression may give, as in the real server.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// Steps that nested loops of one rule may take.
///
/// The real server counts the cost of each step; we bound the number of items to the power of the
/// nesting, which is what makes a rule expensive. One step takes about a microsecond.
const LOOP_STEPS_MAX: u64 = 1_000_000;

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    expression: Expression,
    message_expression: Option<Expression>,
    /// What the author wants to be said, or the rule itself.
    message: Message,
    reason: CauseReason,
    /// The field to name, relative to where the rule stands.
    field: String,
    optional_old_self: bool,
}

#[derive(Debug)]
enum Message {
    Given(String),
    RuleText(String),
}

/// Compiles the rules of one schema node.
pub(crate) fn compile(
    schema: &Map<String, Value>,
    node: &Node,
    path: &str,
    causes: &mut Vec<FieldCause>,
) -> Vec<Rule> {
    let rules = schema.get("x-kubernetes-validations");
    let rules = rules.and_then(Value::as_array).into_iter().flatten();
    let mut compiled = Vec::new();
    for (index, rule) in rules.enumerate() {
        let below = format!("{path}.x-kubernetes-validations[{index}]");
        let scope = expression::Scope {
            node,
            is_resource: path == "openAPIV3Schema" || node.embedded,
        };
        match compile_one(rule, &scope, &below) {
            Ok(rule) => compiled.push(rule),
            Err(cause) => causes.push(cause),
        }
    }
    compiled
}

fn compile_one(
    rule: &Value,
    scope: &expression::Scope<'_>,
    path: &str,
) -> Result<Rule, FieldCause> {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let invalid = |name: &str, why: String| FieldCause {
        reason: CauseReason::FieldValueInvalid,
        message: format!("Invalid value: {}: {why}", go_rule(rule)),
        field: format!("{path}.{name}"),
    };
    let expression =
        Expression::compile(text("rule"), scope).map_err(|why| invalid("rule", why))?;
    if expression.is_surely_no_bool(scope) {
        let why = "cel expression must evaluate to a bool".to_owned();
        return Err(invalid("rule", why));
    }
    let message_expression = match text("messageExpression") {
        "" => None,
        source => Some(
            Expression::compile(source, scope)
                .map_err(|why| invalid("messageExpression", format!("messageExpression {why}")))?,
        ),
    };
    let optional_old_self = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    if optional_old_self && !expression.uses_old_self() {
        return Err(FieldCause {
            reason: CauseReason::FieldValueInvalid,
            message: "Invalid value: true: may not be set if oldSelf is not used in rule".into(),
            field: format!("{path}.optionalOldSelf"),
        });
    }
    let field = match text("fieldPath") {
        "" => String::new(),
        written => field_path(written, scope.node).ok_or_else(|| FieldCause {
            reason: CauseReason::FieldValueInvalid,
            message: format!("Invalid value: {}: must be a valid path", quote(written)),
            field: format!("{path}.fieldPath"),
        })?,
    };
    Ok(Rule {
        expression,
        message_expression,
        message: match text("message").trim() {
            "" => Message::RuleText(text("rule").trim().to_owned()),
            given => Message::Given(given.to_owned()),
        },
        reason: match text("reason") {
            "FieldValueForbidden" => CauseReason::FieldValueForbidden,
            "FieldValueRequired" => CauseReason::FieldValueRequired,
            "FieldValueDuplicate" => CauseReason::FieldValueDuplicate,
            _ => CauseReason::FieldValueInvalid,
        },
        field,
        optional_old_self,
    })
}

/// All rules that the object breaks.
pub(crate) fn check(node: &Node, new: &Value, old: Option<&Value>) -> Vec<FieldCause> {
    let mut causes = Vec::new();
    let at = Place {
        new,
        old,
        unchanged: old.map(|old| (new, old)),
    };
    walk(node, at, Path::root(), &mut causes);
    causes
}

/// Says that rules were left out because of other mistakes.
pub(crate) fn skipped() -> FieldCause {
    FieldCause {
        reason: CauseReason::FieldValueInvalid,
        message: "Invalid value: null: some validation rules were not checked because the object \
                  was invalid; correct the existing errors to complete validation"
            .to_owned(),
        field: NO_FIELD.to_owned(),
    }
}

/// A value under check and what it was.
#[derive(Clone, Copy)]
struct Place<'a> {
    new: &'a Value,
    old: Option<&'a Value>,
    /// The nearest value that can be compared with what it was; if it did not change, neither are
    /// broken rules held against it.
    unchanged: Option<(&'a Value, &'a Value)>,
}

impl<'a> Place<'a> {
    fn below(self, new: &'a Value, old: Option<&'a Value>) -> Self {
        Self {
            new,
            old: old.filter(|old| !old.is_null()),
            unchanged: old.map(|old| (new, old)).or(self.unchanged),
        }
    }
}

fn walk(node: &Node, at: Place<'_>, path: Path<'_>, causes: &mut Vec<FieldCause>) {
    if !node.rules_below || at.new.is_null() {
        return;
    }
    let is_unchanged = at.unchanged.is_some_and(|(new, old)| new == old);
    if is_unchanged && !node.transitions_below {
        return;
    }
    if !node.rules.is_empty() {
        here(node, at, path, causes);
    }
    for part in node.junctors.iter().flat_map(|combined| &combined.all_of) {
        walk(part, at, path, causes);
    }
    match at.new {
        Value::Object(object) => {
            for (name, member) in object {
                let old = at.old.and_then(|old| old.get(name));
                if let Some(property) = node.properties.get(name) {
                    walk(property, at.below(member, old), path.field(name), causes);
                } else if let Additional::Shape(shape) = &node.additional {
                    walk(shape, at.below(member, old), path.key(name), causes);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else {
                return;
            };
            for (index, item) in list.iter().enumerate() {
                let old = counterpart(&node.list_type, item, at.old);
                walk(items, at.below(item, old), path.index(index), causes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn here(node: &Node, at: Place<'_>, path: Path<'_>, causes: &mut Vec<FieldCause>) {
    let is_resource = path.is_root() || node.embedded;
    let mut context = functions::base().new_inner_scope();
    context.add_variable_from_value("self", bind::value(node, at.new, is_resource));
    let old = at.old.map(|old| bind::value(node, old, is_resource));
    let largest = bind::largest(at.new);
    for rule in &node.rules {
        let uses_old = rule.expression.uses_old_self();
        if uses_old {
            match (&old, rule.optional_old_self) {
                (None, false) => continue,
                (Some(old), false) => context.add_variable_from_value("oldSelf", old.clone()),
                (old, true) => {
                    let optional = old
                        .clone()
                        .map_or_else(OptionalValue::none, OptionalValue::of);
                    let optional = CelValue::Opaque(std::sync::Arc::new(optional));
                    context.add_variable_from_value("oldSelf", optional);
                }
            }
        }
        if rule.steps(largest) > LOOP_STEPS_MAX {
            causes.push(unfinished(
                node,
                path,
                "validation failed due to running out of cost budget, no further validation \
                 rules will be run",
            ));
            return;
        }
        match rule.expression.run(&context) {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => {
                let passes = !uses_old && at.unchanged.is_some_and(|(new, old)| new == old);
                if !passes {
                    causes.push(rule.broken(node, at.new, path, &context));
                }
            }
            Err(error) => causes.push(unfinished(node, path, &rule.failure(&error))),
        }
    }
}

impl Rule {
    /// Whether it compares with the old value.
    pub(crate) fn is_transition(&self) -> bool {
        self.expression.uses_old_self()
    }

    fn steps(&self, largest: u64) -> u64 {
        let depth = self.expression.loop_depth();
        if depth < 2 {
            return 0;
        }
        largest.saturating_pow(depth)
    }

    fn broken(
        &self,
        node: &Node,
        value: &Value,
        path: Path<'_>,
        context: &Context<'_>,
    ) -> FieldCause {
        let detail = self
            .message_expression
            .as_ref()
            .and_then(|expression| expression.run(context).ok())
            .and_then(|result| {
                let CelValue::String(text) = result else {
                    return None;
                };
                Some(text.trim().to_owned())
            })
            .filter(|text| {
                !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n')
            })
            .unwrap_or_else(|| match &self.message {
                Message::Given(given) => given.clone(),
                Message::RuleText(rule) => format!("failed rule: {rule}"),
            });
        let shown = match node.kind {
            Type::Object | Type::Array => String::new(),
            Type::Any
            | Type::String
            | Type::Integer
            | Type::Number
            | Type::Boolean
            | Type::IntOrString => format!(": {}", bad_value(value)),
        };
        let message = match self.reason {
            CauseReason::FieldValueForbidden => format!("Forbidden: {detail}"),
            CauseReason::FieldValueRequired => format!("Required value: {detail}"),
            CauseReason::FieldValueDuplicate => format!("Duplicate value{shown}"),
            CauseReason::FieldValueInvalid
            | CauseReason::FieldValueNotSupported
            | CauseReason::FieldValueTypeInvalid
            | CauseReason::FieldValueTooLong
            | CauseReason::FieldValueTooMany
            | CauseReason::FieldValueNotFound
            | CauseReason::InternalError
            | CauseReason::FieldManagerConflict => format!("Invalid value{shown}: {detail}"),
        };
        FieldCause {
            reason: self.reason,
            message,
            field: joined(&path.bracketed_field(), &self.field),
        }
    }

    fn failure(&self, error: &ExecutionError) -> String {
        let (Message::Given(text) | Message::RuleText(text)) = &self.message;
        let words = expression::words(error);
        if words.starts_with("no such overload") {
            format!(
                "'{words}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {text}"
            )
        } else {
            format!("{words} evaluating rule: {text}")
        }
    }
}

fn unfinished(node: &Node, path: Path<'_>, detail: &str) -> FieldCause {
    FieldCause {
        reason: CauseReason::FieldValueInvalid,
        message: format!("Invalid value: {}: {detail}", quote(node.kind.as_str())),
        field: path.bracketed_field(),
    }
}

fn joined(place: &str, field: &str) -> String {
    match (place, field) {
        (place, "") => place.to_owned(),
        (NO_FIELD, field) => field.to_owned(),
        (place, field) if field.starts_with('[') => format!("{place}{field}"),
        (place, field) => format!("{place}.{field}"),
    }
}

fn counterpart<'a>(
    list_type: &ListType,
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let (ListType::Map(keys), Some(Value::Array(list))) = (list_type, old) else {
        return None;
    };
    list.iter()
        .find(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
}

/// `.spec['a']` as it stands in answers, if the schema has such a field.
fn field_path(written: &str, node: &Node) -> Option<String> {
    let mut out = String::new();
    let mut here = node;
    let mut rest = written;
    while !rest.is_empty() {
        let (name, remaining) = if let Some(after) = rest.strip_prefix("['") {
            let (name, remaining) = after.split_once("']")?;
            (name.replace("\\'", "'"), remaining)
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        if let Some(property) = here.properties.get(&name) {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
            here = property;
        } else if let Additional::Shape(shape) = &here.additional {
            out.push('[');
            out.push_str(&name);
            out.push(']');
            here = shape;
        } else {
            return None;
        }
        rest = remaining;
    }
    (!out.is_empty()).then_some(out)
}

/// A rule as the real server prints it in its refusals.
fn go_rule(rule: &Value) -> String {
    let none = Value::Null;
    let blank = Value::String(String::new());
    let fields = [
        ("Rule", "rule", &blank),
        ("Message", "message", &blank),
        ("MessageExpression", "messageExpression", &blank),
        ("Reason", "reason", &none),
        ("FieldPath", "fieldPath", &blank),
        ("OptionalOldSelf", "optionalOldSelf", &none),
    ];
    let printed: Vec<String> = fields
        .iter()
        .map(|(printed, name, absent)| {
            format!("\"{printed}\":{}", rule.get(*name).unwrap_or(absent))
        })
        .collect();
    // Go writes these three so that JSON may stand inside of HTML.
    let text = format!("{{{}}}", printed.join(","));
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
