//! Names of the Kubernetes objects that ask for something.

use std::fmt;
use std::sync::Arc;

use crate::kind::Kind;

/// An object, shared by everybody who speaks of it.
pub type Id = Arc<ObjectRef>;

/// One object: kind, namespace, name and UID, so that a recreated object is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name. It comes before the namespace, which tells few objects apart, since objects are
    /// compared all the time.
    pub name: Box<str>,
    /// Its namespace, which many share; empty where it belongs to the whole cluster.
    pub namespace: Arc<str>,
    /// Its UID.
    pub uid: Uid,
}

/// What tells an object from others that had or will have its name.
///
/// API servers give out UUIDs, which are kept as the number that they are; other texts as they are.
/// The empty text comes before everything else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Text(Box<str>),
    Uuid([u8; 16]),
}

/// Where hyphens stand in a UUID, and how long it is.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_LEN: usize = 36;

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(match uuid(text.as_bytes()) {
            Some(bytes) => Form::Uuid(bytes),
            None => Form::Text(text.into()),
        })
    }
}

/// The bytes of a UUID as servers write it; `None` for what would not be written the same again.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_LEN || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digits = text.iter().enumerate();
    let mut next = || {
        let (_, byte) = digits.find(|(at, _)| !HYPHENS.contains(at))?;
        digit(*byte)
    };
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = next()? << 4 | next()?;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            Form::Text(text) => return f.write_str(text),
            Form::Uuid(bytes) => bytes,
        };
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ObjectRef {
    /// As kubectl would take it, with the namespace where it has one: `arecord/default/www`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str().to_ascii_lowercase();
        if self.namespace.is_empty() {
            return write!(f, "{kind}/{}", self.name);
        }
        write!(f, "{kind}/{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_written_as_it_was_read() {
        for text in [
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            "0F8FAD5B-d9cb-469f-a165-70867728950e",
            "0f8fad5b0d9cb0469f0a165070867728950e",
            "0f8fad5b-d9cb-469f-a165-70867728950",
            "0f8fad5b-d9cb-469f-a165-7086772895-e",
            "1",
            "",
        ] {
            let uid = Uid::from(text);
            assert_eq!(
                (uid.to_string(), format!("{uid:?}")),
                (text.into(), text.into())
            );
        }
    }

    #[test]
    fn the_empty_uid_comes_first() {
        let none = Uid::from("");
        assert!(none < Uid::from("00000000-0000-0000-0000-000000000000"));
        assert!(none < Uid::from("1"));
    }

    #[test]
    fn a_uuid_is_a_number() {
        let uuid = Uid::from("0f8fad5b-d9cb-469f-a165-70867728950e");
        assert!(matches!(uuid.0, Form::Uuid([0x0f, .., 0x0e])));
    }

    #[test]
    fn an_object_is_shown_with_kind_namespace_and_name() {
        let www = ObjectRef {
            kind: Kind::ARecord,
            namespace: "default".into(),
            name: "www".into(),
            uid: "1".into(),
        };
        assert_eq!(www.to_string(), "arecord/default/www");
        let everywhere = ObjectRef {
            namespace: "".into(),
            ..www
        };
        assert_eq!(everywhere.to_string(), "arecord/www");
    }
}
