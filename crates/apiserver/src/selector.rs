//! Label and field selectors of lists, watches and deletions.

use serde_json::Value;

use super::failure::Failure;
use super::kinds::Kind;
use super::object::Stored;

/// What a list or watch is narrowed to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors of a query for a kind.
    pub(crate) fn parse(
        kind: &Kind,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Failure> {
        let labels = parse_labels(labels.unwrap_or_default())
            .map_err(|why| Failure::bad_request(format!("unable to parse requirement: {why}")))?;
        let fields = parse_fields(kind, fields.unwrap_or_default())?;
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(stored))
            && self.fields_match(stored)
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        let mut parsed = None;
        self.fields.iter().all(|term| {
            let equal = match term.path.as_str() {
                "metadata.name" => *stored.id.name == *term.value,
                "metadata.namespace" => *stored.id.namespace == *term.value,
                path => {
                    let value: &Value = parsed.get_or_insert_with(|| stored.value());
                    field_text(value, path) == term.value
                }
            };
            equal == term.equal
        })
    }
}

impl Requirement {
    fn matches(&self, stored: &Stored) -> bool {
        let value = stored.label(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::In(values) => {
                value.is_some_and(|value| values.iter().any(|wanted| wanted == value))
            }
            Operator::NotIn(values) => {
                value.is_none_or(|value| !values.iter().any(|wanted| wanted == value))
            }
            Operator::Greater(than) => number().is_some_and(|number| number > *than),
            Operator::Less(than) => number().is_some_and(|number| number < *than),
        }
    }
}

/// The value at a dotted path as a selector compares it; what is missing is the empty string.
fn field_text(value: &Value, path: &str) -> String {
    // The event's reporter stands in two places, depending on who wrote it.
    if path == "source" {
        let first = &value["source"]["component"];
        let second = &value["reportingComponent"];
        return first
            .as_str()
            .or(second.as_str())
            .unwrap_or_default()
            .to_owned();
    }
    let found = path
        .split('.')
        .try_fold(value, |value, segment| value.get(segment));
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    split_outside_parentheses(text)
        .into_iter()
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .map(parse_requirement)
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

fn parse_requirement(term: &str) -> Result<Requirement, String> {
    let found = |key: &str, operator| {
        let key = key.trim();
        check_label_key(key)?;
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    };
    if let Some(key) = term.strip_prefix('!') {
        return found(key, Operator::Absent);
    }
    if let Some((head, list)) = term.split_once('(') {
        let list = list
            .trim_end()
            .strip_suffix(')')
            .ok_or_else(|| format!("found '', expected: ',' or ')' in {term:?}"))?;
        let values: Vec<String> = list
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        for value in &values {
            check_label_value(value)?;
        }
        let (key, word) = head
            .trim()
            .rsplit_once(char::is_whitespace)
            .unwrap_or(("", head));
        return match word {
            "in" => found(key, Operator::In(values)),
            "notin" => found(key, Operator::NotIn(values)),
            other => Err(format!(
                "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        };
    }
    for (sign, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = term.split_once(sign) {
            let value = value.trim();
            check_label_value(value)?;
            let values = vec![value.to_owned()];
            let operator = if negated {
                Operator::NotIn(values)
            } else {
                Operator::In(values)
            };
            return found(key, operator);
        }
    }
    for (sign, greater) in [('>', true), ('<', false)] {
        if let Some((key, value)) = term.split_once(sign) {
            let number = value.trim().parse();
            let number =
                number.map_err(|_| "for 'Gt', 'Lt' operators, the value must be an integer")?;
            let operator = if greater {
                Operator::Greater(number)
            } else {
                Operator::Less(number)
            };
            return found(key, operator);
        }
    }
    found(term, Operator::Exists)
}

fn check_label_key(key: &str) -> Result<(), String> {
    match super::metadata::label_key_problem(key) {
        None => Ok(()),
        Some(why) => Err(format!("key: Invalid value: {key:?}: {why}")),
    }
}

fn check_label_value(value: &str) -> Result<(), String> {
    match super::metadata::label_value_problem(value) {
        None => Ok(()),
        Some(why) => Err(format!("values[0]: Invalid value: {value:?}: {why}")),
    }
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<FieldTerm>, Failure> {
    let mut terms = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (path, value, true)
        } else {
            let message = format!("invalid selector: {text:?}; can't understand {term:?}");
            return Err(Failure::bad_request(message));
        };
        let known = matches!(path, "metadata.name" | "metadata.namespace")
            || kind.selectable.iter().any(|selectable| selectable == path);
        if !known {
            return Err(Failure::bad_request(unknown_field(kind, path)));
        }
        terms.push(FieldTerm {
            path: path.to_owned(),
            value: value.to_owned(),
            equal,
        });
    }
    Ok(terms)
}

fn unknown_field(kind: &Kind, path: &str) -> String {
    if kind.custom.is_none() && kind.selectable.is_empty() {
        format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(labels: &[(&str, &str)], selector: &str) -> bool {
        let labels: serde_json::Map<String, Value> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect();
        let value = serde_json::json!({"metadata": {"labels": labels}});
        let id = super::super::object::ObjectId {
            resource: "x".into(),
            namespace: "a".into(),
            name: "b".into(),
        };
        let stored = Stored::new(id.into(), 1, &value);
        let labels = parse_labels(selector).unwrap();
        Selector {
            labels,
            fields: Vec::new(),
        }
        .matches(&stored)
    }

    #[test]
    fn every_operator_selects_what_it_says() {
        let labels = [("app", "web"), ("rank", "7")];
        for selector in [
            "",
            "app",
            "app=web",
            "app == web",
            "app!=db",
            "!tier",
            "tier!=x",
            "app in (db, web)",
            "app notin (db)",
            "tier notin (x)",
            "rank>6",
            "rank<8,app",
            "app in (web),rank in (7)",
        ] {
            assert!(check(&labels, selector), "{selector}");
        }
        for selector in [
            "tier",
            "app=db",
            "!app",
            "app in (db)",
            "app notin (web)",
            "rank>7",
        ] {
            assert!(!check(&labels, selector), "{selector}");
        }
    }

    #[test]
    fn a_selector_with_an_unknown_operator_is_refused() {
        for selector in [
            "app within (a)",
            "app in (a",
            "rank>x",
            "a b",
            "-a=b",
            "a=b!",
        ] {
            assert!(parse_labels(selector).is_err(), "{selector}");
        }
    }
}
