//! The part of `JSONPath` that resource definitions use for printer columns.

use serde_json::Value;

/// Longest path that is read.
const LENGTH_MAX: usize = 1024;

/// A path through an object: `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a JSON path that is understood here: {why}")]
pub struct JsonPathProblem {
    /// The path.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Index(i64),
    Any,
    Where(Condition),
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    path: Vec<Step>,
    compare: Option<(Compare, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// What in it is not understood.
    pub fn parse(text: &str) -> Result<Self, JsonPathProblem> {
        let problem = |why| JsonPathProblem {
            text: text.to_owned(),
            why,
        };
        if text.len() > LENGTH_MAX {
            return Err(problem("it is too long"));
        }
        let inner = text.trim();
        let inner = inner
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(inner);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        steps(inner).map(Self).map_err(problem)
    }

    /// The first value that the path leads to.
    #[must_use]
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        first(&self.0, value)
    }
}

fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match (step, value) {
        (Step::Member(name), Value::Object(object)) => first(rest, object.get(name)?),
        (Step::Index(index), Value::Array(list)) => first(rest, list.get(place(*index, list)?)?),
        (Step::Any, Value::Array(list)) => list.iter().find_map(|item| first(rest, item)),
        (Step::Any, Value::Object(object)) => object.values().find_map(|item| first(rest, item)),
        (Step::Where(condition), Value::Array(list)) => list
            .iter()
            .filter(|item| condition.holds(item))
            .find_map(|item| first(rest, item)),
        _ => None,
    }
}

fn place(index: i64, list: &[Value]) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => list
            .len()
            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

impl Condition {
    fn holds(&self, item: &Value) -> bool {
        let found = first(&self.path, item);
        let Some((compare, wanted)) = &self.compare else {
            return found.is_some();
        };
        let Some(found) = found else {
            return false;
        };
        let order = match (found, wanted) {
            (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
            _ => found
                .as_f64()
                .zip(wanted.as_f64())
                .and_then(|(one, other)| one.partial_cmp(&other)),
        };
        match compare {
            Compare::Equal => found == wanted || order.is_some_and(std::cmp::Ordering::is_eq),
            Compare::Unequal => found != wanted && !order.is_some_and(std::cmp::Ordering::is_eq),
            Compare::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Compare::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Compare::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Compare::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

fn steps(text: &str) -> Result<Vec<Step>, &'static str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '.' if rest.starts_with("..") => return Err("recursive descent is not supported"),
            '.' if rest == "." && found.is_empty() => break,
            '.' | '[' => {}
            _ if found.is_empty() => {}
            _ => return Err("a step must begin with . or ["),
        }
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            found.push(bracketed(after[..end].trim())?);
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let (name, remaining) = member(after);
            match name.as_str() {
                "" => return Err("a name is missing"),
                "*" => found.push(Step::Any),
                _ => found.push(Step::Member(name)),
            }
            rest = remaining;
        }
    }
    Ok(found)
}

/// A name up to the next step; a backslash takes the character after it literally.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[index..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket closes, outside of quotes.
fn closing(text: &str) -> Result<usize, &'static str> {
    let mut quote = None;
    let mut depth = 0;
    for (index, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Ok(index),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    Err("a bracket is not closed")
}

fn bracketed(text: &str) -> Result<Step, &'static str> {
    if text == "*" {
        return Ok(Step::Any);
    }
    if let Ok(index) = text.parse() {
        return Ok(Step::Index(index));
    }
    if let Some(name) = unquoted(text) {
        return Ok(Step::Member(name));
    }
    let condition = text
        .strip_prefix("?(")
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or("a bracket holds neither an index, a name nor a condition")?;
    condition_of(condition.trim()).map(Step::Where)
}

fn condition_of(text: &str) -> Result<Condition, &'static str> {
    const OPERATORS: [(&str, Compare); 6] = [
        ("==", Compare::Equal),
        ("!=", Compare::Unequal),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];
    let path = |text: &str| {
        let inner = text.trim().strip_prefix('@');
        // Conditions inside of conditions are not needed by anybody, and bound the recursion.
        let inner = inner.filter(|inner| !inner.contains('?'));
        inner.ok_or("a condition must begin with @").and_then(steps)
    };
    for (sign, compare) in OPERATORS {
        if let Some((left, right)) = text.split_once(sign) {
            let right = right.trim();
            let wanted = match unquoted(right) {
                Some(text) => Value::String(text),
                None => serde_json::from_str(right).map_err(|_| "a value cannot be read")?,
            };
            return Ok(Condition {
                path: path(left)?,
                compare: Some((compare, wanted)),
            });
        }
    }
    Ok(Condition {
        path: path(text)?,
        compare: None,
    })
}

fn unquoted(text: &str) -> Option<String> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner.replace("\\.", "."))
    })
}
