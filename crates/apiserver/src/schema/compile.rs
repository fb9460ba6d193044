//! From the JSON of a schema to its compiled form.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::schema::formats::Format;
use crate::schema::node::{
    Additional, Bound, Junctors, ListType, MapType, Node, NumberBounds, Pattern, SizeBounds, Type,
};
use crate::schema::rules::{self, Rule};
use crate::schema::{CauseReason, FieldCause, validate};

/// Compiled regular expressions may take this much memory each, so that no pattern can exhaust it.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// Compiles a schema whose structure was found sound.
///
/// # Errors
/// Rules that do not compile and defaults that the schema itself refuses.
pub(crate) fn root(schema: &Value) -> Result<Node, Vec<FieldCause>> {
    let mut causes = Vec::new();
    let mut root = node(schema, "openAPIV3Schema", &mut causes);
    // The server itself checks these three; what a schema says of metadata is only name patterns.
    for name in ["apiVersion", "kind"] {
        root.properties.entry(name.to_owned()).or_insert(Node {
            kind: Type::String,
            ..Node::default()
        });
    }
    let metadata = root.properties.entry("metadata".to_owned()).or_default();
    metadata.kind = Type::Object;
    metadata.keeps_unknown = true;
    if causes.is_empty() {
        Ok(root)
    } else {
        Err(causes)
    }
}

/// A pattern as the real server's regular expressions read it.
///
/// # Errors
/// What is wrong with it, in the words of our regular expression compiler.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&ascii_classes(pattern))
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string())
}

fn node(schema: &Value, path: &str, causes: &mut Vec<FieldCause>) -> Node {
    let Some(object) = schema.as_object() else {
        return Node::open();
    };
    let flag = |name: &str| object.get(name).and_then(Value::as_bool) == Some(true);
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let int_or_string = flag("x-kubernetes-int-or-string");
    let mut compiled = Node {
        kind: if int_or_string {
            Type::IntOrString
        } else {
            type_of(text("type"))
        },
        nullable: flag("nullable"),
        format: if int_or_string {
            None
        } else {
            Format::of(text("type"), text("format"))
        },
        properties: properties(object, path, causes),
        additional: additional(object, path, causes),
        items: object
            .get("items")
            .map(|items| Box::new(node(items, &format!("{path}.items"), causes))),
        required: strings(object.get("required")),
        default: object.get("default").cloned(),
        keeps_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        list_type: match text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map(strings(object.get("x-kubernetes-list-map-keys"))),
            _ => ListType::Atomic,
        },
        map_type: match text("x-kubernetes-map-type") {
            "atomic" => MapType::Atomic,
            _ => MapType::Granular,
        },
        allowed: object
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        number: number_bounds(object),
        size: size_bounds(object),
        pattern: pattern(text("pattern"), path, causes),
        junctors: junctors(object, path, causes),
        ..Node::default()
    };
    compiled.rules = rules::compile(object, &compiled, path, causes);
    summarize(&mut compiled);
    if let Some(default) = &compiled.default {
        let refused = validate::check(&compiled, default, None);
        causes.extend(refused.into_iter().map(|cause| FieldCause {
            field: format!("{path}.default"),
            ..cause
        }));
    }
    compiled
}

fn properties(
    object: &Map<String, Value>,
    path: &str,
    causes: &mut Vec<FieldCause>,
) -> std::collections::BTreeMap<String, Node> {
    let Some(Value::Object(properties)) = object.get("properties") else {
        return std::collections::BTreeMap::new();
    };
    properties
        .iter()
        .map(|(name, schema)| {
            let below = format!("{path}.properties[{name}]");
            (name.clone(), node(schema, &below, causes))
        })
        .collect()
}

fn additional(object: &Map<String, Value>, path: &str, causes: &mut Vec<FieldCause>) -> Additional {
    match object.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Anything,
        Some(schema @ Value::Object(_)) => {
            let below = format!("{path}.additionalProperties");
            Additional::Shape(Box::new(node(schema, &below, causes)))
        }
        _ => Additional::Unsaid,
    }
}

fn junctors(
    object: &Map<String, Value>,
    path: &str,
    causes: &mut Vec<FieldCause>,
) -> Option<Box<Junctors>> {
    let mut nodes = |name: &str| -> Vec<Node> {
        let schemas = object.get(name).and_then(Value::as_array);
        schemas
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, schema)| node(schema, &format!("{path}.{name}[{index}]"), causes))
            .collect()
    };
    let combined = Junctors {
        all_of: nodes("allOf"),
        any_of: nodes("anyOf"),
        one_of: nodes("oneOf"),
        not: object
            .get("not")
            .map(|schema| node(schema, &format!("{path}.not"), causes)),
    };
    let is_empty = combined.all_of.is_empty()
        && combined.any_of.is_empty()
        && combined.one_of.is_empty()
        && combined.not.is_none();
    (!is_empty).then(|| Box::new(combined))
}

/// Notes on each node what lies below it, so that whole subtrees can be passed over.
fn summarize(node: &mut Node) {
    let mut rules = !node.rules.is_empty();
    let mut transitions = node.rules.iter().any(Rule::is_transition);
    let mut unique = node.list_type != ListType::Atomic;
    let mut defaults = false;
    let shape = match &node.additional {
        Additional::Shape(shape) => Some(&**shape),
        Additional::Unsaid | Additional::Anything => None,
    };
    let combined = node.junctors.iter().flat_map(|combined| &combined.all_of);
    for below in node
        .properties
        .values()
        .chain(shape)
        .chain(node.items.as_deref())
    {
        rules |= below.rules_below;
        transitions |= below.transitions_below;
        unique |= below.unique_below;
        defaults |= below.defaults_below || below.default.is_some();
    }
    for below in combined {
        rules |= below.rules_below;
        transitions |= below.transitions_below;
    }
    node.rules_below = rules;
    node.transitions_below = transitions;
    node.unique_below = unique;
    // Nulls of properties that are not nullable are dropped on the same walk.
    node.defaults_below = defaults || !node.properties.is_empty();
}

fn number_bounds(object: &Map<String, Value>) -> NumberBounds {
    let number = |name: &str| object.get(name).and_then(Value::as_f64);
    let flag = |name: &str| object.get(name).and_then(Value::as_bool) == Some(true);
    let bound = |name: &str, exclusive: &str| {
        number(name).map(|value| Bound {
            value,
            exclusive: flag(exclusive),
        })
    };
    NumberBounds {
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: number("multipleOf").filter(|factor| *factor > 0.0),
    }
}

fn size_bounds(object: &Map<String, Value>) -> SizeBounds {
    let count = |name: &str| object.get(name).and_then(Value::as_u64);
    SizeBounds {
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    }
}

fn pattern(text: &str, path: &str, causes: &mut Vec<FieldCause>) -> Option<Pattern> {
    if text.is_empty() {
        return None;
    }
    match regex(text) {
        Ok(regex) => Some(Pattern {
            text: text.to_owned(),
            regex,
        }),
        Err(error) => {
            causes.push(FieldCause {
                reason: CauseReason::FieldValueInvalid,
                message: format!(
                    "Invalid value: {}: must be a valid regular expression, but isn't: {error}",
                    crate::schema::go_text::quote(text)
                ),
                field: format!("{path}.pattern"),
            });
            None
        }
    }
}

fn type_of(name: &str) -> Type {
    match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Go's `\d`, `\w`, `\s` and `\b` know ASCII only, ours know Unicode.
fn ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let Some(next) = chars.next() else {
                    out.push('\\');
                    break;
                };
                match (next, in_class) {
                    ('d', false) => out.push_str("[0-9]"),
                    ('w', false) => out.push_str("[0-9A-Za-z_]"),
                    ('s', false) => out.push_str("[\\t\\n\\f\\r ]"),
                    ('D', false) => out.push_str("[^0-9]"),
                    ('W', false) => out.push_str("[^0-9A-Za-z_]"),
                    ('S', false) => out.push_str("[^\\t\\n\\f\\r ]"),
                    ('b', false) => out.push_str("(?-u:\\b)"),
                    ('d', true) => out.push_str("0-9"),
                    ('w', true) => out.push_str("0-9A-Za-z_"),
                    ('s', true) => out.push_str("\\t\\n\\f\\r "),
                    (next, _) => {
                        out.push('\\');
                        out.push(next);
                    }
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                // A bracket right at the start stands for itself.
                let rest = chars.as_str();
                let negated = rest.starts_with('^');
                if negated {
                    chars.next();
                    out.push('^');
                }
                if chars.as_str().starts_with(']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            // Inside a class Go takes these literally where our syntax nests classes.
            '[' if chars.as_str().starts_with(':') => out.push('['),
            '[' => out.push_str("\\["),
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}
