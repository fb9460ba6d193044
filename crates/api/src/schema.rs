//! Schemas of single fields, so that a bad value is refused with its path and a clear sentence.

mod clusters;
mod pools;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub(crate) use clusters::*;
pub(crate) use pools::*;

/// Longest text of a name: 255 bytes, each of which may be written as an escape of four.
const NAME_TEXT_LEN_MAX: u32 = 1020;

/// Reads `null` as no list, since external-dns's users may have written it.
pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A name inside a zone, where nothing stands for the zone itself.
pub(crate) fn record_name(_: &mut SchemaGenerator) -> Schema {
    name_with(json!([]), 0)
}

/// A full name.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    name_with(json!([]), 1)
}

/// A full name that may be left out.
pub(crate) fn optional_name(generator: &mut SchemaGenerator) -> Schema {
    nullable(name(generator))
}

/// The name of a zone.
pub(crate) fn zone_name(_: &mut SchemaGenerator) -> Schema {
    let rules = json!([
        { "rule": "!self.contains('*')", "message": "a zone's name cannot contain a wildcard" },
        { "rule": "!self.contains('@')", "message": "a zone's name cannot contain @" },
    ]);
    name_with(rules, 1)
}

/// A mailbox, with @ or in DNS form.
pub(crate) fn mailbox(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "minLength": 1,
        "maxLength": 320,
        "x-kubernetes-validations": [no_blanks()],
    })
}

/// A TTL.
pub(crate) fn ttl(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer", "format": "int64", "nullable": true, "minimum": 0, "maximum": 2_147_483_647,
    })
}

/// A whole number in a range; it may be left out where the field says so.
pub(crate) fn number<const MIN: u32, const MAX: u32>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": MIN, "maximum": MAX })
}

/// What older manifests say and what is so anyway.
pub(crate) fn only_true(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "boolean", "enum": [true] })
}

/// An IPv4 address. The format alone would let leading zeros and IPv4 inside IPv6 through.
pub(crate) fn ipv4(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "format": "ipv4",
        "maxLength": 15,
        "x-kubernetes-validations": [{
            "rule": "!self.matches('(^|[.])0[0-9]|:')",
            "message": "must be an IPv4 address without leading zeros, such as 192.0.2.1",
        }],
    })
}

/// An IPv6 address.
pub(crate) fn ipv6(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "ipv6" })
}

/// IPv4 addresses.
pub(crate) fn ipv4_list(generator: &mut SchemaGenerator) -> Schema {
    let items = ipv4(generator);
    json_schema!({ "type": "array", "minItems": 1, "maxItems": 1000, "items": items })
}

/// IPv6 addresses.
pub(crate) fn ipv6_list(generator: &mut SchemaGenerator) -> Schema {
    let items = ipv6(generator);
    json_schema!({ "type": "array", "minItems": 1, "maxItems": 1000, "items": items })
}

/// The rule that an A record gives its addresses in one way.
pub(crate) fn either_ipv4() -> Value {
    json!([{
        "rule": "has(self.ipv4Address) != has(self.ipv4Addresses)",
        "message": "set exactly one of ipv4Address and ipv4Addresses",
    }])
}

/// The rule that an AAAA record gives its addresses in one way.
pub(crate) fn either_ipv6() -> Value {
    json!([{
        "rule": "has(self.ipv6Address) != has(self.ipv6Addresses)",
        "message": "set exactly one of ipv6Address and ipv6Addresses",
    }])
}

/// The strings of a TXT record.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 1000,
        "items": { "type": "string", "maxLength": 60_000 },
    })
}

/// The property of a CAA record.
pub(crate) fn caa_tag(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9]+$",
    })
}

/// The protocols of a service (RFC 7301 section 3.1).
pub(crate) fn protocols(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 100,
        "items": { "type": "string", "minLength": 1, "maxLength": 255 },
    })
}

/// Keys of parameters of a service (RFC 9460 section 2.1).
pub(crate) fn param_keys(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 100,
        "items": { "type": "string", "maxLength": 63, "pattern": "^[a-z0-9-]+$" },
    })
}

/// Parameters of a service whose keys have no name (RFC 9460 section 2.1).
pub(crate) fn other_params(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 4096 },
        "x-kubernetes-validations": [{
            "rule": "self.all(key, key.startsWith('key') && size(key) <= 8)",
            "message": "each key is key and a number, such as key65400; other parameters have fields",
        }],
    })
}

/// The path of DNS over HTTPS (RFC 9461 section 5).
pub(crate) fn dohpath(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 1024,
        "x-kubernetes-validations": [{
            "rule": "self.startsWith('/') && self.contains('dns')",
            "message": "must be a path with the variable dns, such as /dns-query{?dns}",
        }],
    })
}

/// Bytes in base64.
pub(crate) fn base64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "maxLength": 65_535, "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        "minLength": 4,
    })
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 2, "maxLength": 65_535, "pattern": "^([0-9A-Fa-f]{2})+$",
    })
}

/// The rule that an alias has no parameters (RFC 9460 section 2.4.2).
pub(crate) fn alias_has_no_params() -> Value {
    json!([{
        "rule": "self.priority != 0 || !has(self.params)",
        "message": "priority 0 makes an alias, which takes no params: remove them, or write another priority",
        "fieldPath": ".params",
    }])
}

/// The rule that `no-default-alpn` stands beside `alpn` (RFC 9460 section 7.1.1).
pub(crate) fn no_default_alpn_needs_alpn() -> Value {
    json!([{
        "rule": "!has(self.noDefaultAlpn) || !self.noDefaultAlpn || has(self.alpn)",
        "message": "needs alpn: write the protocols too",
        "fieldPath": ".noDefaultAlpn",
    }])
}

/// The rules that the name of a TLSA record begins with port and protocol (RFC 6698 section 3), and that its
/// digest is whole (section 2.1.3).
pub(crate) fn tlsa_rules() -> Value {
    let name = json!({
        "rule": "self.name.startsWith('_') || self.name.startsWith('*')",
        "message": "a TLSA record's name begins with port and protocol, such as _443._tcp.www",
        "fieldPath": ".name",
    });
    let sha256 = digest_rule("matchingType", 1, "certificateData", (64, "SHA-256"));
    let sha512 = digest_rule("matchingType", 2, "certificateData", (128, "SHA-512"));
    json!([name, sha256, sha512])
}

/// The rules that the fingerprint of an SSHFP record is whole (RFC 4255 section 3.1.2, RFC 6594 section 3.2).
pub(crate) fn sshfp_rules() -> Value {
    let sha1 = digest_rule("fingerprintType", 1, "fingerprint", (40, "SHA-1"));
    let sha256 = digest_rule("fingerprintType", 2, "fingerprint", (64, "SHA-256"));
    json!([sha1, sha256])
}

fn digest_rule(number: &str, value: u8, field: &str, (digits, name): (usize, &str)) -> Value {
    json!({
        "rule": format!("self.{number} != {value} || size(self.{field}) == {digits}"),
        "message": format!("{name} has {digits} hexadecimal digits: write the whole digest"),
        "fieldPath": format!(".{field}"),
    })
}

/// The name of a DNSSEC policy.
pub(crate) fn dnssec_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$",
    })
}

/// A list of bounded length, so that rules on its items have a bounded cost.
pub(crate) fn list<T: JsonSchema, const MAX: usize>(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<T>();
    json_schema!({ "type": "array", "nullable": true, "maxItems": MAX, "items": items })
}

/// The endpoints of a `DNSEndpoint`, in which external-dns skips null.
pub(crate) fn endpoints(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<crate::externaldns::v1alpha1::Endpoint>();
    json_schema!({ "type": "array", "nullable": true, "items": nullable(items) })
}

/// A time as Kubernetes writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Conditions as `metav1.Condition`, of which each writer owns its types.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string", "description": "What it speaks of.", "maxLength": 316,
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "description": "Why, as one word.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string", "description": "Why, as a sentence.", "maxLength": 32768,
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation that it was decided for.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
            },
        },
    })
}

/// The servers of a zone, known by their addresses.
pub(crate) fn servers(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<crate::bindy::v1beta1::ServerStatus>();
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["address"],
        "items": items,
    })
}

fn nullable(mut schema: Schema) -> Schema {
    schema.insert("nullable".to_owned(), Value::Bool(true));
    schema
}

fn no_blanks() -> Value {
    json!({
        "rule": r"!self.matches('[\\x00-\\x20\\x7f]')",
        "message": "must not contain blanks or control characters",
    })
}

/// A name: limits are checked here where no escapes make counting hard, and always in the core.
fn name_with(more: Value, min: u32) -> Schema {
    let mut rules = vec![
        json!({
            "rule": r"self.contains('\\') || (size(self) <= 254 && self.split('.').all(label, size(label) <= 63))",
            "message": "a name has at most 254 characters, and each of its labels at most 63",
        }),
        json!({
            "rule": "!self.contains('..') && (self == '.' || !self.startsWith('.'))",
            "message": "a name must not have an empty label: remove the extra dot",
        }),
        no_blanks(),
    ];
    if let Value::Array(more) = more {
        rules.extend(more);
    }
    json_schema!({
        "type": "string",
        "minLength": min,
        "maxLength": NAME_TEXT_LEN_MAX,
        "x-kubernetes-validations": rules,
    })
}
