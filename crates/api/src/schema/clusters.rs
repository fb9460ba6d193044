//! Schemas of fields that declare name servers. Whatever reaches named.conf is checked here and once more when it
//! is written.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// The name of an object.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "minLength": 1, "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    })
}

/// Names of objects.
pub(crate) fn object_names(generator: &mut SchemaGenerator) -> Schema {
    let items = object_name(generator);
    json_schema!({ "type": "array", "nullable": true, "maxItems": 16, "items": items })
}

/// The name of a cluster; empty for none.
pub(crate) fn cluster_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
    })
}

/// What a server does.
pub(crate) fn server_role(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["primary", "secondary"] })
}

/// A version of BIND, which becomes the tag of an image.
pub(crate) fn version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "maxLength": 128, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
    })
}

/// An image.
pub(crate) fn image(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "minLength": 1, "maxLength": 1024,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._/:@-]*$",
    })
}

/// When an image is pulled.
pub(crate) fn pull_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "enum": ["Always", "IfNotPresent", "Never"],
    })
}

/// How much is logged.
pub(crate) fn log_level(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "maxLength": 256, "pattern": "^[A-Za-z0-9_:=,]+$",
    })
}

/// One element of an address list of named.conf.
fn address_element() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": 256, "pattern": "^!?[A-Za-z0-9_.:/-]+$",
    })
}

/// Addresses, networks and names of access lists, as named.conf lists them.
pub(crate) fn address_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "nullable": true, "maxItems": 256, "items": address_element(),
    })
}

/// Access lists by name.
pub(crate) fn acls(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "array", "maxItems": 256, "items": address_element() },
        "x-kubernetes-validations": [{
            "rule": "self.all(name, name.matches('^[A-Za-z][A-Za-z0-9_-]{0,62}$'))",
            "message": "the name of an access list has letters, digits, - and _ only",
        }],
    })
}

/// The algorithm of a TSIG key.
pub(crate) fn key_algorithm(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true,
        "enum": ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"],
    })
}

/// The algorithm of a DNSSEC key.
pub(crate) fn dnssec_algorithm(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "maxLength": 32, "pattern": "^[A-Za-z0-9-]+$",
    })
}

/// How long a key is used.
pub(crate) fn lifetime(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "pattern": "^(unlimited|[1-9][0-9]{0,5}[smhdwy]?)$",
    })
}

/// The salt of NSEC3.
pub(crate) fn salt(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "maxLength": 64, "pattern": "^(-|([0-9A-Fa-f]{2})*)$",
    })
}

/// After how long a key is replaced.
pub(crate) fn rotation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "nullable": true, "pattern": "^[1-9][0-9]{0,4}[hdw]$" })
}

/// Where a server keeps its zones.
pub(crate) fn storage_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "enum": ["emptyDir", "persistentVolumeClaim"],
    })
}

/// How much storage.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "maxLength": 32,
        "pattern": "^[0-9]+([.][0-9]+)?([KMGTPE]i?|[kmunpe]|[eE][+-]?[0-9]+)?$",
    })
}

/// Who may mount a volume.
pub(crate) fn access_modes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "nullable": true, "maxItems": 4,
        "items": {
            "type": "string",
            "enum": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
        },
    })
}

/// An object of Kubernetes, whose schema would be many times ours; it is checked when it is used.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A list of such objects.
pub(crate) fn open_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "nullable": true, "maxItems": 64,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}
