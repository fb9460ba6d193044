//! Values printed as the real server prints them, because clients compare its messages.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A string in double quotes with Go's escapes.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                write!(out, "\\x{:02x}", c as u32).expect("writing to a string cannot fail");
            }
            c if is_unprintable(c) && (c as u32) < 0x1_0000 => {
                write!(out, "\\u{:04x}", c as u32).expect("writing to a string cannot fail");
            }
            c if is_unprintable(c) => {
                write!(out, "\\U{:08x}", c as u32).expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A float as Go's `%v` prints it: shortest digits, exponent form from 1e6 on and below 1e-4.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".to_owned()
        } else if value > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A number as Go's `%v` prints it.
pub(crate) fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(value)) => float(value),
        (None, None) => value.to_string(),
    }
}

/// A refused value as it stands in a message.
pub(crate) fn bad_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => quote(value),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn is_unprintable(c: char) -> bool {
    let code = c as u32;
    (0x80..0xa0).contains(&code)
        || matches!(code, 0xad | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff)
        || (c != ' ' && c.is_whitespace())
}
