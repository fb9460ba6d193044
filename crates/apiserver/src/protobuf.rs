//! Bodies in Kubernetes' protobuf form, which `kubectl create configmap` and its like send.
//!
//! `kubectl` does not fall back to JSON for them. Only the kinds and fields that its generators write are
//! known, of Namespace, `ConfigMap`, Secret, `ServiceAccount` and Service. Anything else is refused with its
//! place, so nothing is lost silently; clients that send JSON are served in full.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// What every protobuf body of Kubernetes begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may be nested; the known ones reach four.
const DEPTH_MAX: usize = 16;

/// How one field of a message is read.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Bool,
    Number,
    IntOrString,
    Message(Message),
    Texts,
    Messages(Message),
    TextMap,
    BytesMap,
    /// Written by the server only.
    Ignored,
}

type Message = &'static [(u64, &'static str, Field)];

const META: Message = &[
    (1, "name", Field::Text),
    (2, "generateName", Field::Text),
    (3, "namespace", Field::Text),
    (4, "selfLink", Field::Ignored),
    (5, "uid", Field::Text),
    (6, "resourceVersion", Field::Text),
    (7, "generation", Field::Ignored),
    (8, "creationTimestamp", Field::Ignored),
    (11, "labels", Field::TextMap),
    (12, "annotations", Field::TextMap),
    (14, "finalizers", Field::Texts),
];
const REFERENCES: Message = &[(1, "name", Field::Text)];
const CONFIG_MAP: Message = &[
    (1, "metadata", Field::Message(META)),
    (2, "data", Field::TextMap),
    (3, "binaryData", Field::BytesMap),
    (4, "immutable", Field::Bool),
];
const SECRET: Message = &[
    (1, "metadata", Field::Message(META)),
    (2, "data", Field::BytesMap),
    (3, "type", Field::Text),
    (4, "stringData", Field::TextMap),
    (5, "immutable", Field::Bool),
];
const NAMESPACE: Message = &[
    (1, "metadata", Field::Message(META)),
    (
        2,
        "spec",
        Field::Message(&[(1, "finalizers", Field::Texts)]),
    ),
    (3, "status", Field::Ignored),
];
const SERVICE_ACCOUNT: Message = &[
    (1, "metadata", Field::Message(META)),
    (3, "imagePullSecrets", Field::Messages(REFERENCES)),
    (4, "automountServiceAccountToken", Field::Bool),
];
const SERVICE_PORT: Message = &[
    (1, "name", Field::Text),
    (2, "protocol", Field::Text),
    (3, "port", Field::Number),
    (4, "targetPort", Field::IntOrString),
    (5, "nodePort", Field::Number),
];
const SERVICE_SPEC: Message = &[
    (1, "ports", Field::Messages(SERVICE_PORT)),
    (2, "selector", Field::TextMap),
    (3, "clusterIP", Field::Text),
    (4, "type", Field::Text),
    (5, "externalIPs", Field::Texts),
    (7, "sessionAffinity", Field::Text),
    (8, "loadBalancerIP", Field::Text),
    (10, "externalName", Field::Text),
    (11, "externalTrafficPolicy", Field::Text),
    (12, "healthCheckNodePort", Field::Number),
    (13, "publishNotReadyAddresses", Field::Bool),
];
const SERVICE: Message = &[
    (1, "metadata", Field::Message(META)),
    (2, "spec", Field::Message(SERVICE_SPEC)),
    (3, "status", Field::Ignored),
];
/// Reads a body.
///
/// # Errors
/// What cannot be read, as a sentence for the client.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("the body does not begin as protobuf does")?;
    let mut wire = Wire { rest: envelope };
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &b""[..]);
    while let Some((number, part)) = wire.next()? {
        match (number, part) {
            (1, Part::Bytes(bytes)) => {
                let mut wire = Wire { rest: bytes };
                while let Some((number, part)) = wire.next()? {
                    match number {
                        1 => api_version = part.text()?,
                        _ => kind = part.text()?,
                    }
                }
            }
            (2, Part::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = known(&api_version, &kind).ok_or_else(|| {
        format!("{kind} is not read from protobuf here; send it as JSON (kubectl create -f)")
    })?;
    let mut value = read(raw, message, &kind, DEPTH_MAX)?;
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    Ok(value)
}

fn known(api_version: &str, kind: &str) -> Option<Message> {
    match (api_version, kind) {
        ("v1", "ConfigMap") => Some(CONFIG_MAP),
        ("v1", "Secret") => Some(SECRET),
        ("v1", "Namespace") => Some(NAMESPACE),
        ("v1", "ServiceAccount") => Some(SERVICE_ACCOUNT),
        ("v1", "Service") => Some(SERVICE),
        _ => None,
    }
}

fn read(bytes: &[u8], message: Message, path: &str, depth: usize) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("messages are nested too deep")?;
    let mut wire = Wire { rest: bytes };
    let mut object = Map::new();
    while let Some((number, part)) = wire.next()? {
        let Some((_, name, field)) = message.iter().find(|(known, _, _)| *known == number) else {
            if part.is_empty() {
                continue;
            }
            return Err(format!(
                "field {number} of {path} is not read from protobuf here; send JSON"
            ));
        };
        let path = format!("{path}.{name}");
        match field {
            Field::Text => insert_text(&mut object, name, part.text()?),
            Field::Bool if part.number()? != 0 => {
                object.insert((*name).to_owned(), json!(true));
            }
            Field::Bool | Field::Ignored => {}
            Field::Number => {
                let value = part.number()?;
                if value != 0 {
                    object.insert((*name).to_owned(), json!(value));
                }
            }
            Field::IntOrString => {
                if let Some(value) = int_or_string(part.bytes()?)? {
                    object.insert((*name).to_owned(), value);
                }
            }
            Field::Message(message) => {
                object.insert(
                    (*name).to_owned(),
                    read(part.bytes()?, message, &path, depth)?,
                );
            }
            Field::Texts => push(&mut object, name, json!(part.text()?)),
            Field::Messages(message) => {
                push(
                    &mut object,
                    name,
                    read(part.bytes()?, message, &path, depth)?,
                );
            }
            Field::TextMap => {
                let (key, bytes) = entry(part.bytes()?)?;
                enter(&mut object, name, key, text(bytes)?);
            }
            Field::BytesMap => {
                let (key, bytes) = entry(part.bytes()?)?;
                enter(&mut object, name, key, STANDARD.encode(bytes));
            }
        }
    }
    Ok(Value::Object(object))
}

fn insert_text(object: &mut Map<String, Value>, name: &str, text: String) {
    if !text.is_empty() {
        object.insert(name.to_owned(), Value::String(text));
    }
}

fn enter(object: &mut Map<String, Value>, name: &str, key: String, text: String) {
    let map = object.entry(name).or_insert_with(|| json!({}));
    if let Some(map) = map.as_object_mut() {
        map.insert(key, Value::String(text));
    }
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) {
    let list = object.entry(name).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}

fn entry(bytes: &[u8]) -> Result<(String, &[u8]), String> {
    let mut wire = Wire { rest: bytes };
    let (mut key, mut value) = (String::new(), &b""[..]);
    while let Some((number, part)) = wire.next()? {
        match number {
            1 => key = part.text()?,
            _ => value = part.bytes()?,
        }
    }
    Ok((key, value))
}

fn int_or_string(bytes: &[u8]) -> Result<Option<Value>, String> {
    let mut wire = Wire { rest: bytes };
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    while let Some((field, part)) = wire.next()? {
        match field {
            1 => is_text = part.number()? == 1,
            2 => number = part.number()?,
            _ => text = part.text()?,
        }
    }
    Ok(match (is_text, number) {
        (true, _) => Some(json!(text)),
        (false, 0) => None,
        (false, number) => Some(json!(number)),
    })
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".to_owned())
}

/// The fields of a message, one by one.
struct Wire<'a> {
    rest: &'a [u8],
}

/// The content of one field.
#[derive(Clone, Copy)]
enum Part<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

impl<'a> Part<'a> {
    fn is_empty(self) -> bool {
        match self {
            Self::Number(number) => number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    fn number(self) -> Result<i64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err("bytes where a number belongs".to_owned()),
        }
    }

    fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err("a number where bytes belong".to_owned()),
        }
    }

    fn text(self) -> Result<String, String> {
        text(self.bytes()?)
    }
}

impl<'a> Wire<'a> {
    fn next(&mut self) -> Result<Option<(u64, Part<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let part = match tag & 7 {
            0 => Part::Number(self.varint()?.cast_signed()),
            2 => {
                let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let (bytes, rest) = self
                    .rest
                    .split_at_checked(len)
                    .ok_or("the body is cut off")?;
                self.rest = rest;
                Part::Bytes(bytes)
            }
            other => return Err(format!("wire type {other} is not used by Kubernetes")),
        };
        Ok(Some((tag >> 3, part)))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or("the body is cut off")?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is too long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        bytes.extend_from_slice(content);
        bytes
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let typed = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &typed), field(2, raw)].concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let entry = [field(1, b"key"), field(2, b"value")].concat();
        let raw = [field(1, &field(1, b"a")), field(2, &entry)].concat();
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"key": "value"},
        });
        assert_eq!(decode(&body("ConfigMap", &raw)), Ok(expected));
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_place() {
        let raw = field(1, &field(13, b"owner"));
        let refused = decode(&body("ConfigMap", &raw)).unwrap_err();
        assert!(
            refused.contains("field 13 of ConfigMap.metadata"),
            "{refused}"
        );
        assert!(decode(&body("Pod", b"")).unwrap_err().contains("Pod"));
    }

    #[test]
    fn a_body_that_is_cut_off_is_refused() {
        let whole = body("ConfigMap", &field(1, &field(1, b"a")));
        for len in 4..whole.len() - 1 {
            let cut = decode(&whole[..len]);
            assert!(
                cut.is_err() || cut.is_ok_and(|value| value["metadata"].is_null()),
                "{len}"
            );
        }
    }
}
