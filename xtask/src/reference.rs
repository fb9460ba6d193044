//! The page that explains every field of every kind, written from the schemas of the CRDs.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

const HEAD: &str = "\
# Reference

Every kind that Bindery reads and every field of it. Written from the types in `crates/api` by
`cargo xtask crd`; do not edit. `kubectl explain dnszone.spec` says the same.
";

/// How deep nested fields are shown.
const DEPTH_MAX: usize = 8;

/// The page for a JSON list of definitions.
///
/// # Errors
/// When the list is not one of CRDs.
pub(crate) fn page(crds: &str) -> Result<String> {
    let crds: Vec<Value> = serde_json::from_str(crds).context("the generator printed no JSON")?;
    let mut page = HEAD.to_owned();
    page.push('\n');
    for crd in &crds {
        let kind = text(crd, "/spec/names/kind");
        writeln!(page, "- [{kind}](#{})", kind.to_lowercase())?;
    }
    for crd in &crds {
        kind(&mut page, crd)?;
    }
    Ok(page)
}

fn kind(page: &mut String, crd: &Value) -> Result<()> {
    let names = crd.pointer("/spec/names").context("a CRD has names")?;
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    for version in versions.context("a CRD has versions")? {
        let schema = version
            .pointer("/schema/openAPIV3Schema")
            .context("a version has a schema")?;
        writeln!(page, "\n## {}\n", text(names, "/kind"))?;
        writeln!(page, "{}\n", text(schema, "/description"))?;
        write!(
            page,
            "`{}/{}`",
            text(crd, "/spec/group"),
            text(version, "/name")
        )?;
        write!(page, ", {}", text(crd, "/spec/scope").to_lowercase())?;
        writeln!(page, "; with `kubectl`: {}.", spellings(names))?;
        for part in ["spec", "status"] {
            let Some(fields) = schema.pointer(&format!("/properties/{part}")) else {
                continue;
            };
            let mut rows = Vec::new();
            collect(&mut rows, "", fields, 0);
            if !rows.is_empty() {
                writeln!(
                    page,
                    "\n| {part} | type | meaning |\n|---|---|---|\n{}",
                    rows.join("\n")
                )?;
            }
            rules(page, part, fields)?;
        }
    }
    Ok(())
}

/// The words that kubectl takes for a kind.
fn spellings(names: &Value) -> String {
    let short = names.pointer("/shortNames").and_then(Value::as_array);
    let short = short.into_iter().flatten().filter_map(Value::as_str);
    let all = std::iter::once(text(names, "/plural")).chain(short);
    all.map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// One row per field, depth first, a parent before its children.
fn collect(rows: &mut Vec<String>, path: &str, schema: &Value, depth: usize) {
    let properties = schema.pointer("/properties").and_then(Value::as_object);
    let required = schema.pointer("/required").and_then(Value::as_array);
    for (name, field) in properties.into_iter().flatten() {
        let here = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let must = required.is_some_and(|names| names.iter().any(|known| known == name));
        let mark = if must { " (required)" } else { "" };
        rows.push(format!(
            "| `{here}`{mark} | {} | {} |",
            type_of(field),
            meaning(field)
        ));
        if depth < DEPTH_MAX && known_shape(field).is_none() {
            let items = field.pointer("/items");
            let below = if items.is_some() {
                format!("{here}[]")
            } else {
                here
            };
            collect(rows, &below, items.unwrap_or(field), depth + 1);
        }
    }
}

/// Shapes that every reader of Kubernetes manifests knows, so that their fields need no rows.
fn known_shape(field: &Value) -> Option<&'static str> {
    if field.pointer("/properties/matchExpressions").is_some() {
        return Some("label selector");
    }
    field
        .pointer("/items/properties/lastTransitionTime")
        .map(|_| "list of conditions")
}

fn type_of(field: &Value) -> String {
    if let Some(shape) = known_shape(field) {
        return shape.to_owned();
    }
    let name = text(field, "/type");
    if field.pointer("/x-kubernetes-int-or-string").is_some() {
        return "integer or string".to_owned();
    }
    if let Some(items) = field.pointer("/items") {
        return format!("list of {}", type_of(items));
    }
    if let Some(values) = field.pointer("/additionalProperties") {
        return format!("map of {}", type_of(values));
    }
    if name.is_empty() {
        "any".to_owned()
    } else {
        name.to_owned()
    }
}

/// What a field means and what its values are bound to.
fn meaning(field: &Value) -> String {
    let mut parts = vec![cell(text(field, "/description"))];
    if let Some(values) = field.pointer("/enum").and_then(Value::as_array) {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", plain(value)))
            .collect();
        parts.push(format!("One of {}.", values.join(", ")));
    }
    if let Some(value) = field.pointer("/default") {
        parts.push(format!("Default `{}`.", cell(&plain(value))));
    }
    let range = (field.pointer("/minimum"), field.pointer("/maximum"));
    match range {
        (Some(low), Some(high)) => parts.push(format!("{} to {}.", plain(low), plain(high))),
        (Some(low), None) => parts.push(format!("At least {}.", plain(low))),
        (None, Some(high)) => parts.push(format!("At most {}.", plain(high))),
        (None, None) => {}
    }
    if let Some(count) = field.pointer("/maxItems") {
        parts.push(format!("At most {} items.", plain(count)));
    }
    if let Some(length) = field.pointer("/maxLength") {
        parts.push(format!("At most {} characters.", plain(length)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// The rules that the API server checks beyond single fields.
fn rules(page: &mut String, part: &str, schema: &Value) -> Result<()> {
    let rules = schema
        .pointer("/x-kubernetes-validations")
        .and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        if index == 0 {
            writeln!(
                page,
                "\nThe API server refuses a {part} that breaks one of these rules:\n"
            )?;
        }
        writeln!(page, "- {}", text(rule, "/message"))?;
    }
    Ok(())
}

/// A string at a path, or nothing.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A value as one would write it in YAML; whole numbers without a fraction.
fn plain(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) if number.fract() == 0.0 => format!("{number:.0}"),
        (None, _) => value.to_string(),
    }
}

/// Text that stays within its cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = r#"[{"spec": {"group": "example.com", "scope": "Namespaced",
      "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["w"]},
      "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"description": "A widget.",
        "properties": {"spec": {"required": ["size"], "properties": {
            "parts": {"type": "array", "description": "Its\n| parts.", "maxItems": 3,
              "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "size": {"type": "integer", "minimum": 0.0, "maximum": 2147483647.0, "default": 1}},
          "x-kubernetes-validations": [{"rule": "x", "message": "size fits parts"}]}}}}}]}}]"#;

    #[test]
    fn each_field_has_its_row_and_each_rule_its_line() {
        let page = page(CRD).unwrap();
        for line in [
            "- [Widget](#widget)",
            "`example.com/v1`, namespaced; with `kubectl`: `widgets`, `w`.",
            "| `parts` | list of object | Its \\| parts. At most 3 items. |",
            "| `parts[].name` | string |  |",
            "| `size` (required) | integer | Default `1`. 0 to 2147483647. |",
            "- size fits parts",
        ] {
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
    }
}
