//! What makes a schema structural: every value has a type, and logic only narrows.

use serde_json::{Map, Value};

use crate::schema::go_text::{bad_value, quote};
use crate::schema::{CauseReason, DEPTH_MAX, FieldCause};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];
/// Keywords that shape the object and so must stand outside of logic, with what is asked instead.
const SHAPING: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

/// Everything that keeps the schema from being structural, sorted as the real server sorts it.
pub(crate) fn problems(schema: &Value) -> Vec<FieldCause> {
    let line = |cause: &FieldCause| format!("{}: {}", cause.field, cause.message);
    for phase in [Phase::Keywords, Phase::Shape] {
        let mut found = Problems {
            phase,
            causes: Vec::new(),
        };
        found.node(schema, "openAPIV3Schema", Level::Root, 0);
        if !found.causes.is_empty() {
            found.causes.sort_by_key(line);
            return found.causes;
        }
    }
    Vec::new()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The shape is only looked at when all keywords are in order, as in the real server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Keywords,
    Shape,
}

struct Problems {
    phase: Phase,
    causes: Vec<FieldCause>,
}

impl Problems {
    fn push(&mut self, reason: CauseReason, field: String, message: String) {
        self.causes.push(FieldCause {
            reason,
            message,
            field,
        });
    }

    fn required(&mut self, field: String, detail: &str) {
        let message = format!("Required value: {detail}");
        self.push(CauseReason::FieldValueRequired, field, message);
    }

    fn forbidden(&mut self, field: String, detail: &str) {
        let message = format!("Forbidden: {detail}");
        self.push(CauseReason::FieldValueForbidden, field, message);
    }

    fn invalid(&mut self, field: String, value: &Value, detail: &str) {
        let message = format!("Invalid value: {}: {detail}", bad_value(value));
        self.push(CauseReason::FieldValueInvalid, field, message);
    }

    fn unsupported(&mut self, field: String, value: &str, options: &[&str]) {
        let options: Vec<String> = options.iter().map(|option| quote(option)).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            quote(value),
            options.join(", ")
        );
        self.push(CauseReason::FieldValueNotSupported, field, message);
    }

    fn node(&mut self, schema: &Value, path: &str, level: Level, depth: usize) {
        if depth > DEPTH_MAX {
            let detail = format!("must not be nested deeper than {DEPTH_MAX} levels");
            self.forbidden(path.to_owned(), &detail);
            return;
        }
        let Some(schema) = schema.as_object() else {
            self.invalid(path.to_owned(), schema, "must be an object");
            return;
        };
        match self.phase {
            Phase::Keywords => {
                self.keywords(schema, path);
                self.lists(schema, path);
                self.maps(schema, path);
                self.rules(schema, path);
            }
            Phase::Shape => {
                self.types(schema, path, level);
                self.logic(schema, path, depth);
                if level == Level::Root {
                    self.metadata(schema, path);
                }
            }
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                let below = format!("{path}.properties[{name}]");
                self.node(property, &below, Level::Field, depth + 1);
            }
        }
        if let Some(items @ Value::Object(_)) = schema.get("items") {
            self.node(items, &format!("{path}.items"), Level::Item, depth + 1);
        }
        if let Some(extra @ Value::Object(_)) = schema.get("additionalProperties") {
            let below = format!("{path}.additionalProperties");
            self.node(extra, &below, Level::Field, depth + 1);
        }
    }

    fn keywords(&mut self, schema: &Map<String, Value>, path: &str) {
        for name in UNSUPPORTED {
            if schema.get(name).is_some_and(says_something) {
                self.forbidden(
                    format!("{path}.{name}"),
                    &format!("{name} is not supported"),
                );
            }
        }
        let kind = text(schema, "type");
        if kind == "null" {
            self.forbidden(
                format!("{path}.type"),
                "type cannot be set to null, use nullable as an alternative",
            );
        } else if !kind.is_empty() && !TYPES.contains(&kind) {
            self.unsupported(format!("{path}.type"), kind, &TYPES);
        }
        if flag(schema, "uniqueItems") {
            self.forbidden(
                format!("{path}.uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
        if schema.get("items").is_some_and(Value::is_array) {
            self.forbidden(
                format!("{path}.items"),
                "items must be a schema object and not an array",
            );
        }
        let keeps = "x-kubernetes-preserve-unknown-fields";
        if schema.get(keeps) == Some(&Value::Bool(false)) {
            self.invalid(
                format!("{path}.{keeps}"),
                &Value::Bool(false),
                "must be true or undefined",
            );
        }
    }

    fn types(&mut self, schema: &Map<String, Value>, path: &str, level: Level) {
        let kind = text(schema, "type");
        let field = format!("{path}.type");
        if kind == "array" && !schema.contains_key("items") {
            self.required(format!("{path}.items"), "must be specified");
        }
        if schema.contains_key("additionalProperties") && level == Level::Root {
            let field = format!("{path}.additionalProperties");
            self.forbidden(field, "must not be used at the root");
        }
        let embedded = flag(schema, "x-kubernetes-embedded-resource");
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        let keeps = flag(schema, "x-kubernetes-preserve-unknown-fields");
        if embedded && kind != "object" {
            self.required(
                field,
                "must be object if x-kubernetes-embedded-resource is true",
            );
        } else if kind.is_empty() && !int_or_string && !keeps {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(field, detail);
        } else if level == Level::Root && !kind.is_empty() && kind != "object" {
            let kind = Value::String(kind.to_owned());
            self.invalid(field, &kind, "must be object at the root");
        }
        if int_or_string && keeps {
            self.invalid(
                format!("{path}.x-kubernetes-preserve-unknown-fields"),
                &Value::Bool(true),
                "must be false if x-kubernetes-int-or-string is true",
            );
        }
        let no_properties = schema
            .get("properties")
            .is_none_or(|value| !says_something(value));
        if embedded && !keeps && no_properties {
            self.required(
                format!("{path}.properties"),
                "must not be empty if x-kubernetes-embedded-resource is true without \
                 x-kubernetes-preserve-unknown-fields",
            );
        }
    }

    fn lists(&mut self, schema: &Map<String, Value>, path: &str) {
        let kind = text(schema, "type");
        let list_type = text(schema, "x-kubernetes-list-type");
        let field = format!("{path}.x-kubernetes-list-type");
        if !list_type.is_empty() {
            if kind.is_empty() {
                self.required(
                    format!("{path}.type"),
                    "must be array if x-kubernetes-list-type is specified",
                );
            } else if kind != "array" {
                self.invalid(
                    format!("{path}.type"),
                    &Value::String(kind.to_owned()),
                    "must be array if x-kubernetes-list-type is specified",
                );
            }
            if !["atomic", "set", "map"].contains(&list_type) {
                self.unsupported(field.clone(), list_type, &["atomic", "set", "map"]);
            }
        }
        let keys = schema.get("x-kubernetes-list-map-keys");
        let has_keys = keys.is_some_and(says_something);
        if has_keys && list_type.is_empty() {
            self.required(
                field,
                "must be map if x-kubernetes-list-map-keys is non-empty",
            );
        } else if has_keys && list_type != "map" {
            self.invalid(
                field,
                &Value::String(list_type.to_owned()),
                "must be map if x-kubernetes-list-map-keys is non-empty",
            );
        } else if list_type == "map" {
            self.list_map(schema, path);
        }
    }

    fn list_map(&mut self, schema: &Map<String, Value>, path: &str) {
        let keys = schema.get("x-kubernetes-list-map-keys");
        let keys_field = format!("{path}.x-kubernetes-list-map-keys");
        let Some(Value::Array(names)) = keys.filter(|keys| says_something(keys)) else {
            self.required(
                keys_field,
                "must not be empty if x-kubernetes-list-type is map",
            );
            return;
        };
        let Some(Value::Object(items)) = schema.get("items") else {
            return;
        };
        let kind = text(items, "type");
        if kind != "object" {
            self.invalid(
                format!("{path}.items.type"),
                &Value::String(kind.to_owned()),
                "must be object if parent array's x-kubernetes-list-type is map",
            );
            return;
        }
        let required = items.get("required").and_then(Value::as_array);
        for name in names {
            let key = name.as_str().unwrap_or_default();
            let property = items.get("properties").and_then(|all| all.get(key));
            let Some(property) = property else {
                self.invalid(
                    keys_field.clone(),
                    &Value::Array(names.clone()),
                    "entries must all be names of item properties",
                );
                continue;
            };
            let is_required = required.is_some_and(|required| required.contains(name));
            if !is_required && property.get("default").is_none() {
                self.required(
                    format!("{path}.items.properties[{key}].default"),
                    "this property is in x-kubernetes-list-map-keys, so it must have a default \
                     or be a required property",
                );
            }
        }
    }

    fn maps(&mut self, schema: &Map<String, Value>, path: &str) {
        let field = format!("{path}.additionalProperties");
        let extra = schema.get("additionalProperties");
        let has_properties = schema.get("properties").is_some_and(says_something);
        let narrows = extra.is_some_and(|extra| extra != &Value::Bool(true));
        if has_properties && narrows {
            self.forbidden(
                field,
                "additionalProperties and properties are mutual exclusive",
            );
        }
        let map_type = text(schema, "x-kubernetes-map-type");
        if !map_type.is_empty() && !["atomic", "granular"].contains(&map_type) {
            self.unsupported(
                format!("{path}.x-kubernetes-map-type"),
                map_type,
                &["atomic", "granular"],
            );
        }
    }

    fn rules(&mut self, schema: &Map<String, Value>, path: &str) {
        let rules = schema.get("x-kubernetes-validations");
        let rules = rules.and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            let below = format!("{path}.x-kubernetes-validations[{index}]");
            let text = |name: &str| rule.get(name).and_then(Value::as_str);
            if text("rule").unwrap_or_default().trim().is_empty() {
                self.required(format!("{below}.rule"), "rule is not specified");
            }
            if let Some(message) = text("message") {
                let field = format!("{below}.message");
                let value = Value::String(message.to_owned());
                if message.trim().is_empty() && !message.is_empty() {
                    self.invalid(field, &value, "must be non-empty if specified");
                } else if message.contains('\n') {
                    self.invalid(field, &value, "must not contain line breaks");
                }
            } else if text("rule").is_some_and(|rule| rule.trim().contains('\n')) {
                self.required(
                    format!("{below}.message"),
                    "message must be specified if rule contains line breaks",
                );
            }
            if let Some(reason) = text("reason").filter(|reason| !REASONS.contains(reason)) {
                self.unsupported(format!("{below}.reason"), reason, &REASONS);
            }
        }
    }

    fn metadata(&mut self, schema: &Map<String, Value>, path: &str) {
        let metadata = schema.get("properties").and_then(|all| all.get("metadata"));
        let Some(Value::Object(metadata)) = metadata else {
            return;
        };
        let only_names = metadata
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(|names| {
                names
                    .keys()
                    .all(|name| name == "name" || name == "generateName")
            });
        let only_known = metadata
            .keys()
            .all(|key| ["type", "properties", "description", "default"].contains(&key.as_str()));
        if !only_names || !only_known {
            self.forbidden(
                format!("{path}.properties[metadata]"),
                "must not specify anything other than name and generateName, but metadata is \
                 implicitly specified",
            );
        }
    }

    fn logic(&mut self, schema: &Map<String, Value>, path: &str, depth: usize) {
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        for name in ["allOf", "anyOf", "oneOf"] {
            let Some(Value::Array(nodes)) = schema.get(name) else {
                continue;
            };
            if name == "anyOf" && int_or_string && is_int_or_string(nodes) {
                continue;
            }
            for (index, node) in nodes.iter().enumerate() {
                let below = format!("{path}.{name}[{index}]");
                let is_pattern = node
                    .get("anyOf")
                    .and_then(Value::as_array)
                    .is_some_and(|nodes| is_int_or_string(nodes));
                if !(name == "allOf" && int_or_string && index == 0 && is_pattern) {
                    self.narrowing(node, &below, depth + 1);
                }
            }
        }
        if let Some(node) = schema.get("not") {
            self.narrowing(node, &format!("{path}.not"), depth + 1);
        }
    }

    /// A schema inside of logic may only narrow what stands outside.
    fn narrowing(&mut self, schema: &Value, path: &str, depth: usize) {
        let Some(schema) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else {
            self.invalid(path.to_owned(), &Value::Null, "must be an object");
            return;
        };
        for (name, detail) in SHAPING {
            if schema.get(name).is_some_and(says_something) {
                self.forbidden(format!("{path}.{name}"), detail);
            }
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                let below = format!("{path}.properties[{name}]");
                self.narrowing(property, &below, depth + 1);
            }
        }
        if let Some(items) = schema.get("items") {
            self.narrowing(items, &format!("{path}.items"), depth + 1);
        }
        self.logic(schema, path, depth);
    }
}

fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a keyword is really set; empty values count as absent, as in Go.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn is_int_or_string(nodes: &[Value]) -> bool {
    let is_type = |node: &Value, name: &str| node == &serde_json::json!({ "type": name });
    matches!(nodes, [first, second] if is_type(first, "integer") && is_type(second, "string"))
}
