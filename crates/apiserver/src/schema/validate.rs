//! Checking of a value against a compiled schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema::go_text::{bad_value, quote};
use crate::schema::node::{Additional, Junctors, ListType, Node, Type};
use crate::schema::numbers::{is_integer, number_format, numeric};
use crate::schema::path::{NO_FIELD, Path};
use crate::schema::{CauseReason, FieldCause};

/// Everything about the value that the schema refuses.
///
/// Where an update leaves a value as it was, its mistakes are let pass (the real server calls
/// this ratcheting): a stricter schema must not make old objects unwritable.
pub(crate) fn check(node: &Node, new: &Value, old: Option<&Value>) -> Vec<FieldCause> {
    let mut found = Findings::default();
    value(node, new, old, Path::root(), &mut found);
    without_repeats(found.causes)
}

/// What was found wrong so far.
#[derive(Default)]
pub(crate) struct Findings {
    causes: Vec<FieldCause>,
    /// Checks passed so far; chooses the alternative whose errors are shown.
    pub(crate) matches: u32,
}

impl Findings {
    pub(crate) fn push(&mut self, reason: CauseReason, path: Path<'_>, message: String) {
        self.causes.push(FieldCause {
            reason,
            message,
            field: path.dotted_field(),
        });
    }

    pub(crate) fn invalid(&mut self, path: Path<'_>, bad: &str, detail: &str) {
        let name = path.dotted();
        let message = format!("Invalid value: {bad}: {name} in body {detail}");
        self.push(CauseReason::FieldValueInvalid, path, message);
    }

    fn wrong_type(&mut self, path: Path<'_>, wanted: &str, got: &str) {
        let (name, got) = (path.dotted(), quote(got));
        let message =
            format!("Invalid value: {got}: {name} in body must be of type {wanted}: {got}");
        self.push(CauseReason::FieldValueTypeInvalid, path, message);
    }

    pub(crate) fn general(&mut self, detail: &str) {
        self.causes.push(FieldCause {
            reason: CauseReason::FieldValueInvalid,
            message: format!("Invalid value: \"\": {detail}"),
            field: NO_FIELD.to_owned(),
        });
    }
}

fn value(node: &Node, new: &Value, old: Option<&Value>, path: Path<'_>, found: &mut Findings) {
    if old == Some(new) {
        return;
    }
    kind(node, new, path, found);
    if new.is_null() {
        allowed(node, new, path, found);
    } else {
        if let Some(combined) = &node.junctors {
            junctors(combined, new, old, path, found);
        }
        found.matches += 5;
        match new {
            Value::String(text) => string(node, text, path, found),
            Value::Number(number) => numeric(node, number, path, found),
            Value::Array(list) => items(node, list, old, path, found),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        allowed(node, new, path, found);
        if let Value::Object(object) = new {
            members(node, object, old, path, found);
        }
    }
}

fn kind(node: &Node, new: &Value, path: Path<'_>, found: &mut Findings) {
    if node.kind == Type::Any {
        return;
    }
    found.matches += 1;
    let fits = match (node.kind, new) {
        (_, Value::Null) => node.nullable,
        (Type::Any, _)
        | (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_))
        | (Type::String | Type::IntOrString, Value::String(_)) => true,
        (Type::Integer | Type::IntOrString, Value::Number(number)) => is_integer(number),
        // The real server's check of formats lets a list through where a formatted string belongs.
        (Type::String, Value::Array(_)) => node.format.is_some(),
        (
            Type::Object
            | Type::Array
            | Type::Boolean
            | Type::Number
            | Type::Integer
            | Type::String
            | Type::IntOrString,
            _,
        ) => false,
    };
    if fits {
        found.matches += 1;
        return;
    }
    match (&node.format, new) {
        (Some(format), Value::Bool(_) | Value::Object(_)) => {
            found.wrong_type(path, format.as_str(), "");
        }
        (Some(format), Value::Number(number)) => {
            found.wrong_type(path, format.as_str(), number_format(number));
        }
        _ => found.wrong_type(path, node.kind.as_str(), json_type(new)),
    }
}

fn string(node: &Node, text: &str, path: Path<'_>, found: &mut Findings) {
    if let Some(cause) = text_shape(node, text) {
        match cause {
            TextFault::Long(max) => {
                let unit = if max == 1 { "byte" } else { "bytes" };
                let message = format!("Too long: may not be more than {max} {unit}");
                found.push(CauseReason::FieldValueTooLong, path, message);
            }
            TextFault::Short(min) => found.invalid(
                path,
                &quote(text),
                &format!("should be at least {min} chars long"),
            ),
            TextFault::Pattern(pattern) => {
                found.invalid(path, &quote(text), &format!("should match '{pattern}'"));
            }
        }
    }
    if let Some(format) = node.format
        && !format.accepts(text)
    {
        found.wrong_type(path, format.as_str(), text);
    }
}

enum TextFault<'a> {
    Long(u64),
    Short(u64),
    Pattern(&'a str),
}

fn text_shape<'a>(node: &'a Node, text: &str) -> Option<TextFault<'a>> {
    let size = &node.size;
    if size.max_length.is_some() || size.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(max) = size.max_length.filter(|max| length > *max) {
            return Some(TextFault::Long(max));
        }
        if let Some(min) = size.min_length.filter(|min| length < *min) {
            return Some(TextFault::Short(min));
        }
    }
    let pattern = node.pattern.as_ref()?;
    (!pattern.regex.is_match(text)).then_some(TextFault::Pattern(&pattern.text))
}

fn items(node: &Node, list: &[Value], old: Option<&Value>, path: Path<'_>, found: &mut Findings) {
    if let Some(shape) = &node.items {
        for (index, item) in list.iter().enumerate() {
            let before = counterpart(&node.list_type, item, old);
            value(shape, item, before, path.index(index), found);
        }
    }
    let count = list.len() as u64;
    if let Some(min) = node.size.min_items.filter(|min| count < *min) {
        let detail = format!("should have at least {min} items");
        found.invalid(path, &count.to_string(), &detail);
    }
    if let Some(max) = node.size.max_items.filter(|max| count > *max) {
        found.push(CauseReason::FieldValueTooMany, path, too_many(count, max));
    }
}

fn members(
    node: &Node,
    object: &Map<String, Value>,
    old: Option<&Value>,
    path: Path<'_>,
    found: &mut Findings,
) {
    let count = object.len() as u64;
    if let Some(min) = node.size.min_properties.filter(|min| count < *min) {
        let detail = format!("should have at least {min} properties");
        found.invalid(path, &count.to_string(), &detail);
    }
    if let Some(max) = node.size.max_properties.filter(|max| count > *max) {
        found.push(CauseReason::FieldValueTooMany, path, too_many(count, max));
    }
    for (name, member) in object {
        let before = old.and_then(|old| old.get(name));
        if let Some(property) = node.properties.get(name) {
            value(property, member, before, path.field(name), found);
        } else if let Additional::Shape(shape) = &node.additional {
            value(shape, member, before, path.key(name), found);
        }
    }
    for name in &node.required {
        if !object.contains_key(name) {
            let message = "Required value".to_owned();
            found.push(CauseReason::FieldValueRequired, path.field(name), message);
        }
    }
    if node.embedded {
        for name in ["apiVersion", "kind"] {
            if object
                .get(name)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                let message = "Required value".to_owned();
                found.push(CauseReason::FieldValueRequired, path.field(name), message);
            }
        }
    }
}

fn allowed(node: &Node, new: &Value, path: Path<'_>, found: &mut Findings) {
    if node.allowed.is_empty() || node.allowed.iter().any(|option| same(option, new)) {
        return;
    }
    let options: Vec<String> = node
        .allowed
        .iter()
        .map(|option| {
            option
                .as_str()
                .map_or_else(|| quote(&option.to_string()), quote)
        })
        .collect();
    let message = format!(
        "Unsupported value: {}: supported values: {}",
        bad_value(new),
        options.join(", ")
    );
    found.push(CauseReason::FieldValueNotSupported, path, message);
}

fn junctors(
    combined: &Junctors,
    new: &Value,
    old: Option<&Value>,
    path: Path<'_>,
    found: &mut Findings,
) {
    let attempt = |node: &Node| {
        let mut trial = Findings::default();
        value(node, new, old, path, &mut trial);
        trial
    };
    if !combined.any_of.is_empty() {
        match best(&combined.any_of, attempt) {
            (0, failures) => {
                let name = quote(&path.dotted());
                found.general(&format!("{name} must validate at least one schema (anyOf)"));
                found.causes.extend(failures.causes);
            }
            (_, success) => found.matches += success.matches,
        }
    }
    if !combined.one_of.is_empty() {
        let (passed, shown) = best(&combined.one_of, attempt);
        if passed == 1 {
            found.matches += shown.matches;
        } else {
            let count = if passed == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {passed} valid alternatives")
            };
            let name = quote(&path.dotted());
            found.general(&format!(
                "{name} must validate one and only one schema (oneOf). {count}"
            ));
            found.causes.extend(shown.causes);
        }
    }
    let mut failed = 0;
    for node in &combined.all_of {
        let trial = attempt(node);
        failed += usize::from(!trial.causes.is_empty());
        found.matches += trial.matches;
        found.causes.extend(trial.causes);
    }
    if failed > 0 {
        let none = if failed == combined.all_of.len() {
            ". None validated"
        } else {
            ""
        };
        let name = quote(&path.dotted());
        found.general(&format!(
            "{name} must validate all the schemas (allOf){none}"
        ));
    }
    if let Some(node) = &combined.not
        && attempt(node).causes.is_empty()
    {
        let name = quote(&path.dotted());
        found.general(&format!("{name} must not validate the schema (not)"));
    }
}

/// How many alternatives passed, and the first success or else the most nearly matching failure.
fn best(options: &[Node], attempt: impl Fn(&Node) -> Findings) -> (usize, Findings) {
    let mut passed = 0;
    let mut success: Option<Findings> = None;
    let mut failure: Option<Findings> = None;
    for node in options {
        let trial = attempt(node);
        if trial.causes.is_empty() {
            passed += 1;
            success.get_or_insert(trial);
        } else if failure
            .as_ref()
            .is_none_or(|best| trial.matches > best.matches)
        {
            failure = Some(trial);
        }
    }
    (passed, success.or(failure).unwrap_or_default())
}

/// The old element that this element continues; only elements of map lists have one.
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

fn without_repeats(mut causes: Vec<FieldCause>) -> Vec<FieldCause> {
    if causes.len() > 1 {
        let mut seen = BTreeSet::new();
        causes.retain(|cause| seen.insert((cause.field.clone(), cause.message.clone())));
    }
    causes
}

fn too_many(count: u64, max: u64) -> String {
    let unit = if max == 1 { "item" } else { "items" };
    format!("Too many: {count}: must have at most {max} {unit}")
}

fn same(option: &Value, new: &Value) -> bool {
    match (option, new) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => option == new,
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
