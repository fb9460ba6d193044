//! JSON bodies, with the fields that occur twice in one object.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How many duplicate fields are remembered; more help nobody.
const DUPLICATES_LEN_MAX: usize = 32;

/// Reads JSON and returns it with the paths of duplicate fields. Of duplicates the last one counts, as
/// in the real server.
///
/// # Errors
/// What serde says about malformed JSON; nesting deeper than 128 levels is malformed.
pub(crate) fn parse(body: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let reader = Reader {
        path: Path::Root,
        duplicates: &duplicates,
    };
    let value = reader.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates.into_inner()))
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => write!(out, "{name}"),
            Self::Field(parent, name) => write!(out, "{parent}.{name}"),
            Self::Item(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path::Item(&self.path, list.len());
            let reader = Reader {
                path,
                duplicates: self.duplicates,
            };
            match items.next_element_seed(reader)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = Path::Field(&self.path, &name);
            let reader = Reader {
                path,
                duplicates: self.duplicates,
            };
            let value = fields.next_value_seed(reader)?;
            if object.contains_key(&name) {
                let mut duplicates = self.duplicates.try_borrow_mut().map_err(A::Error::custom)?;
                if duplicates.len() < DUPLICATES_LEN_MAX {
                    duplicates.push(path.to_string());
                }
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_named_by_path() {
        let body = br#"{"a":1,"b":[{"c":1,"c":2}],"a":{"d":null}}"#;
        let (value, duplicates) = parse(body).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": {"d": null}, "b": [{"c": 2}]})
        );
        assert_eq!(duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn a_body_nested_too_deep_is_refused() {
        let body = "[".repeat(10_000);
        assert!(parse(body.as_bytes()).is_err());
    }
}
