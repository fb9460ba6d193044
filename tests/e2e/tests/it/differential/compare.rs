//! Whether two answers say the same, but for what no two servers share.

use std::collections::BTreeSet;

use bindery_e2e::http::Answer;
use serde_json::{Value, json};

/// How two answers differ, by path.
pub(crate) fn difference(real: &Answer, embedded: &Answer) -> Option<String> {
    // What the real server calls its own fault (500) is a refusal of the client's request here.
    if real.code == 500 && (400..500).contains(&embedded.code) {
        return None;
    }
    let mut lines = Vec::new();
    if real.code == embedded.code {
        compare("", &normal(real), &normal(embedded), &mut lines);
    } else {
        lines.push(format!("real {} {}", real.code, real.text));
        lines.push(format!("embedded {} {}", embedded.code, embedded.text));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn compare(path: &str, real: &Value, embedded: &Value, lines: &mut Vec<String>) {
    match (real, embedded) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (theirs.get(name), ours.get(name)) {
                    (Some(theirs), Some(ours)) => compare(&path, theirs, ours, lines),
                    (Some(theirs), None) => lines.push(format!("{path}: only real has {theirs}")),
                    (None, Some(ours)) => lines.push(format!("{path}: only embedded has {ours}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{index}]"), theirs, ours, lines);
            }
        }
        _ if real == embedded => {}
        _ => lines.push(format!("{path}: real {real}, embedded {embedded}")),
    }
}

/// The answer without identities and times, and with lists of no order sorted.
fn normal(answer: &Answer) -> Value {
    let mut value = answer.json.clone();
    if value["kind"] == "Status" {
        let mut causes: Vec<String> = value["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            // Of a bad value at the scale path the real server complains twice.
            .filter(|cause| {
                cause["field"] != ".spec.replicas" || cause["reason"] != "FieldValueInvalid"
            })
            .map(|cause| {
                format!(
                    "{} {} {}",
                    cause["reason"], cause["field"], cause["message"]
                )
            })
            .collect();
        causes.sort();
        return json!({"reason": value["reason"], "causes": causes});
    }
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in ["uid", "creationTimestamp", "resourceVersion", "time"] {
                fields.remove(field);
            }
            if fields.get("continue").is_some_and(|token| token == "") {
                fields.remove("continue");
            }
            if let Some(time) = fields.get_mut("deletionTimestamp") {
                *time = json!("some time");
            }
            if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                entries.sort_by_key(|entry| {
                    format!(
                        "{}{}{}",
                        entry["manager"], entry["operation"], entry["subresource"]
                    )
                });
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
