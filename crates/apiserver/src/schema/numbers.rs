//! Checking of numbers: ranges of formats, bounds and multiples.

use serde_json::{Number, Value};

use crate::schema::CauseReason;
use crate::schema::formats::Format;
use crate::schema::go_text::{bad_value, float};
use crate::schema::node::{Bound, Node, Type};
use crate::schema::path::Path;
use crate::schema::validate::Findings;

/// The largest integer up to which floats are exact.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

/// Notes what is wrong with a number.
pub(crate) fn numeric(node: &Node, number: &Number, path: Path<'_>, found: &mut Findings) {
    found.matches += 1;
    let as_float = number.as_f64().unwrap_or(f64::NAN);
    if node.kind == Type::Integer {
        let format = node.format.map(Format::as_str);
        let in_range = match (number.as_i64(), format) {
            (Some(int), Some("int32")) => i32::try_from(int).is_ok(),
            (Some(_), _) => true,
            (None, Some("int32")) => is_integer(number) && as_float.abs() <= f64::from(i32::MAX),
            (None, _) => is_integer(number),
        };
        if !in_range {
            let name = path.dotted();
            let shape = format.map_or_else(
                || "(default format)".to_owned(),
                |format| format!("with format {format}"),
            );
            found.general(&format!(
                "Checked value must be of type integer {shape} in {name}"
            ));
        }
    }
    let bad = || bad_value(&Value::Number(number.clone()));
    if let Some(factor) = node.number.multiple_of.filter(|factor| *factor < 1.0)
        && number.is_i64()
    {
        // The real server cuts the factor to an integer for integers, and then finds it too small.
        let name = path.dotted();
        let why = format!("factor MultipleOf declared for {name} must be positive: 0");
        let message = format!("Invalid value: {}: {why}", whole(factor));
        found.push(CauseReason::FieldValueInvalid, path, message);
    } else if let Some(factor) = node.number.multiple_of
        && !is_multiple(number, factor)
    {
        let detail = format!("should be a multiple of {}", bound_text(number, factor));
        found.invalid(path, &bad(), &detail);
    }
    if let Some(minimum) = node.number.minimum
        && below(number, minimum)
    {
        let words = if minimum.exclusive {
            "should be greater than"
        } else {
            "should be greater than or equal to"
        };
        let detail = format!("{words} {}", bound_text(number, minimum.value));
        found.invalid(path, &bad(), &detail);
    }
    if let Some(maximum) = node.number.maximum
        && above(number, maximum)
    {
        let words = if maximum.exclusive {
            "should be less than"
        } else {
            "should be less than or equal to"
        };
        let detail = format!("{words} {}", bound_text(number, maximum.value));
        found.invalid(path, &bad(), &detail);
    }
}

/// Whether a number is whole and exact.
pub(crate) fn is_integer(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number
            .as_f64()
            .is_some_and(|value| value.fract() == 0.0 && value.abs() <= EXACT_FLOAT_MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the real server compares integers with the bound cut to an integer"
)]
fn whole(bound: f64) -> i64 {
    bound as i64
}

fn below(number: &Number, bound: Bound) -> bool {
    match number.as_i64() {
        Some(int) if bound.exclusive => int <= whole(bound.value),
        Some(int) => int < whole(bound.value),
        None => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            value < bound.value || (bound.exclusive && value <= bound.value)
        }
    }
}

fn above(number: &Number, bound: Bound) -> bool {
    match number.as_i64() {
        Some(int) if bound.exclusive => int >= whole(bound.value),
        Some(int) => int > whole(bound.value),
        None => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            value > bound.value || (bound.exclusive && value >= bound.value)
        }
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    match number.as_i64() {
        Some(int) => int.checked_rem(whole(factor)) == Some(0),
        None => (number.as_f64().unwrap_or(f64::NAN) / factor).fract() == 0.0,
    }
}

fn bound_text(number: &Number, bound: f64) -> String {
    if number.is_i64() {
        whole(bound).to_string()
    } else {
        float(bound)
    }
}

/// The format that messages give a number.
pub(crate) fn number_format(number: &Number) -> &'static str {
    if number.is_i64() { "int64" } else { "float64" }
}
