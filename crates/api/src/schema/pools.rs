//! Schemas of address pools. What an address is, the core says; here stands what keeps nonsense out at once.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The longest text: two IPv6 addresses (39 characters each) and what stands between them.
const RANGE_LEN_MAX: u32 = 96;

/// Networks, ranges and addresses.
pub(crate) fn pool_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 256,
        "items": {
            "type": "string",
            "minLength": 2,
            "maxLength": RANGE_LEN_MAX,
            "pattern": "^[0-9A-Fa-f.:]+(/[0-9]{1,3}| ?- ?[0-9A-Fa-f.:]+)?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(one, one.contains(':') || one.contains('.'))",
            "message": "write networks such as 192.0.2.0/24, or ranges such as 192.0.2.10-192.0.2.20",
        }],
    })
}
