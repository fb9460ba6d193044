//! `SVCBRecord`, and what it shares with `HTTPSRecord` (RFC 9460).

use std::collections::BTreeMap;

use bindery_core::record::{DataProblem, SvcParam, SvcParams, Svcb, unescaped};
use bindery_core::{Problem, RecordData};

use crate::convert::{Reading, ipv4, ipv6};

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::alias_has_no_params()))]
    SvcbRecordSpec, "SvcbRecord", "SVCBRecord", "svcbrecords", "svcb",
    "Where a service is and how to speak to it.",
    columns ["Priority" ".spec.priority" "integer", "Target" ".spec.target" "string"],
    required ["name", "priority", "target"],
    name r#"The name inside the zone, with the labels of the service, such as "_dns.resolver"."#,
    {
        /// Records of lower priority are tried first. 0 makes the name an alias of the target.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The full name of the host. A single dot stands for the record's own name.
        #[schemars(schema_with = "schema::name")]
        pub target: String,

        /// How to speak to the service; nothing for an alias.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub params: Option<ServiceParams>,
    }
}

record_spec!(SvcbRecordSpec, SvcbRecord, Svcb, |spec, reading| {
    svcb(reading, spec.priority, &spec.target, spec.params.as_ref())
        .and_then(|svcb| reading.data("spec.params", RecordData::Svcb(svcb)))
        .map(|data| vec![data])
});

/// The parameters of a service.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = schema::no_default_alpn_needs_alpn()))]
pub struct ServiceParams {
    /// Keys of parameters that a client has to understand, such as alpn or key65400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::param_keys")]
    pub mandatory: Option<Vec<String>>,

    /// The protocols that are spoken, such as h2 and h3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::protocols")]
    pub alpn: Option<Vec<String>>,

    /// True where the protocol that goes without saying (http/1.1 for HTTPS) is not spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_default_alpn: Option<bool>,

    /// The port, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 65_535>")]
    pub port: Option<i64>,

    /// IPv4 addresses of the target, for clients that do not know them yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ipv4_list")]
    pub ipv4hint: Option<Vec<String>>,

    /// The configuration of Encrypted Client Hello, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::base64")]
    pub ech: Option<String>,

    /// IPv6 addresses of the target, for clients that do not know them yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ipv6_list")]
    pub ipv6hint: Option<Vec<String>>,

    /// The path of DNS over HTTPS, as a template with the variable dns: /dns-query{?dns}.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::dohpath")]
    pub dohpath: Option<String>,

    /// Parameters that have no field here: their keys as key and number, their values as a zone file
    /// writes them, with \DDD for bytes that are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::other_params")]
    pub other: Option<BTreeMap<String, String>>,
}

/// The data of an SVCB or HTTPS record, or nothing and every field that is wrong.
pub(super) fn svcb(
    reading: &mut Reading,
    priority: i64,
    target: &str,
    params: Option<&ServiceParams>,
) -> Option<Box<Svcb>> {
    let priority = reading.number("spec.priority", priority, u16::MAX);
    let target = reading.target("spec.target", target);
    let params = match params {
        None => Some(SvcParams::default()),
        Some(params) => params.read(reading),
    };
    let svcb = Svcb {
        priority: priority?,
        target: target?,
        params: params?,
    };
    param(reading, svcb.check())?;
    Some(Box::new(svcb))
}

impl ServiceParams {
    fn read(&self, reading: &mut Reading) -> Option<SvcParams> {
        let before = reading.problems.len();
        let mut params = Vec::new();
        if let Some(keys) = &self.mandatory {
            let keys = each(reading, "mandatory", keys, SvcParam::key_number);
            params.push(keys.map(SvcParam::mandatory));
        }
        if let Some(protocols) = &self.alpn {
            let protocols = each(reading, "alpn", protocols, protocol);
            params.push(protocols.map(SvcParam::Alpn));
        }
        if self.no_default_alpn == Some(true) {
            params.push(Some(SvcParam::NoDefaultAlpn));
        }
        if let Some(port) = self.port {
            let port = reading.number("spec.params.port", port, u16::MAX);
            params.push(port.map(SvcParam::Port));
        }
        if let Some(hints) = &self.ipv4hint {
            let hints = each(reading, "ipv4hint", hints, ipv4);
            params.push(hints.map(SvcParam::Ipv4Hint));
        }
        if let Some(hints) = &self.ipv6hint {
            let hints = each(reading, "ipv6hint", hints, ipv6);
            params.push(hints.map(SvcParam::Ipv6Hint));
        }
        for (key, text) in [("ech", &self.ech), ("dohpath", &self.dohpath)] {
            if let Some(text) = text {
                params.push(param(reading, SvcParam::parse(key, Some(text.as_bytes()))));
            }
        }
        for (key, text) in self.other.iter().flatten() {
            let value = unescaped(text).and_then(|value| other(key, &value));
            let read = reading.take(format!("spec.params.other.{key}"), value);
            params.push(read);
        }
        let params: Option<Vec<SvcParam>> = params.into_iter().collect();
        params
            .filter(|_| reading.problems.len() == before)
            .and_then(|params| param(reading, SvcParams::new(params)))
    }
}

/// A list of values, each of them read; every bad one is reported, and a list of none.
fn each<T>(
    reading: &mut Reading,
    key: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, DataProblem>,
) -> Option<Vec<T>> {
    if texts.is_empty() {
        let message = "is empty: write at least one value, or leave the parameter out";
        reading.problems.push(Problem::invalid(field(key), message));
        return None;
    }
    let read = texts.iter().enumerate().map(|(at, text)| {
        let field = format!("{}[{at}]", field(key));
        reading.take(field, read(text))
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

/// A protocol has 1 to 255 bytes (RFC 7301 section 3.1).
fn protocol(text: &str) -> Result<Box<[u8]>, DataProblem> {
    if (1..=255).contains(&text.len()) {
        return Ok(text.as_bytes().into());
    }
    Err(DataProblem::BadParam {
        key: "alpn".into(),
        why: "has a protocol of no or too many characters: write some such as h2",
    })
}

/// A parameter without a field of its own; one with a field would have two spellings.
fn other(key: &str, value: &[u8]) -> Result<SvcParam, DataProblem> {
    if !key.starts_with("key") {
        return Err(DataProblem::BadParam {
            key: key.into(),
            why: "is not key and a number: write one such as key65400, or use the field of its name",
        });
    }
    SvcParam::parse(key, Some(value))
}

/// Keeps the value, or notes the problem at the field of the parameter that it names.
fn param<T>(reading: &mut Reading, result: Result<T, DataProblem>) -> Option<T> {
    let at = match &result {
        Err(DataProblem::BadParam { key, .. }) => field(key),
        Ok(_) | Err(_) => "spec.params".to_owned(),
    };
    reading.take(at, result)
}

/// The field of a parameter.
fn field(key: &str) -> String {
    let name = match key {
        "no-default-alpn" => "noDefaultAlpn",
        "mandatory" | "alpn" | "port" | "ipv4hint" | "ech" | "ipv6hint" | "dohpath" => key,
        _ => return format!("spec.params.other.{key}"),
    };
    format!("spec.params.{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::tests::check_record;

    #[test]
    fn a_service_has_all_its_parameters() {
        check_record::<SvcbRecordSpec>(
            json!({
                "name": "_dns.resolver", "priority": 1, "target": "resolver.example.net", "ttl": 60,
                "params": {
                    "mandatory": ["key65400", "alpn"], "alpn": ["h2", "a,b"], "noDefaultAlpn": true,
                    "port": 8443, "ipv4hint": ["192.0.2.1", "192.0.2.2"], "ipv6hint": ["2001:DB8::1"],
                    "ech": "AEX+DQ==", "dohpath": "/dns-query{?dns}",
                    "other": { "key65400": "a\\001\\\"b", "key65401": "" },
                },
            }),
            "_dns.resolver Some(60) SVCB 1 resolver.example.net. mandatory=alpn,key65400 \
             alpn=\"h2,a\\\\,b\" no-default-alpn port=8443 ipv4hint=192.0.2.1,192.0.2.2 ech=AEX+DQ== \
             ipv6hint=2001:db8::1 key7=\"/dns-query{?dns}\" key65400=\"a\\001\\\"b\" key65401",
        );
    }

    #[test]
    fn an_alias_has_a_target_and_nothing_else() {
        let alias = json!({ "name": "_dns", "priority": 0, "target": "dns.example.net." });
        check_record::<SvcbRecordSpec>(alias, "_dns None SVCB 0 dns.example.net.");
        check_record::<SvcbRecordSpec>(
            json!({ "name": "_dns", "priority": 0, "target": "a.b.", "params": { "port": 1 } }),
            "spec.params.port: port says nothing beside priority 0, which makes an alias: remove it, or \
             write another priority",
        );
    }

    #[test]
    fn every_bad_parameter_is_named_by_its_field() {
        let check = |params: serde_json::Value, expected: &str| {
            let spec = json!({ "name": "_x", "priority": 1, "target": ".", "params": params });
            check_record::<SvcbRecordSpec>(spec, expected);
        };
        check(json!({}), "_x None SVCB 1 .");
        check(
            json!({
                "mandatory": ["alp"], "alpn": ["", "h2"], "port": 65536, "ipv4hint": ["::1"],
                "ipv6hint": [],
            }),
            "spec.params.mandatory[0]: alp is not a key: write one such as alpn, port or key65400; \
             spec.params.alpn[0]: alpn has a protocol of no or too many characters: write some such as h2; \
             spec.params.port: is 65536: write a whole number from 0 to 65535; \
             spec.params.ipv4hint[0]: \"::1\" is not an IPv4 address: write one such as 192.0.2.1; \
             spec.params.ipv6hint: is empty: write at least one value, or leave the parameter out",
        );
        check(
            json!({
                "ech": "*", "other": { "alpn": "h2", "key65400": "\\999", "key70000": "" },
            }),
            "spec.params.ech: ech is not base64: write what the server gives out; \
             spec.params.other.alpn: alpn is not key and a number: write one such as key65400, or use the \
             field of its name; \
             spec.params.other.key65400: \"\\\\999\" has quotes that do not close or a bad escape: write a \
             quote as \\\" and a backslash as \\\\; \
             spec.params.other.key70000: key70000 is not a key: write one such as alpn, port or key65400",
        );
        check(
            json!({ "noDefaultAlpn": true }),
            "spec.params.noDefaultAlpn: no-default-alpn needs alpn: write the protocols too",
        );
        check(
            json!({ "mandatory": ["port"], "alpn": ["h2"] }),
            "spec.params.mandatory: mandatory names a key that is not set: name keys that are, and not \
             mandatory itself",
        );
        check(
            json!({ "port": 1, "other": { "key3": "\\000\\001" } }),
            "spec.params.port: port stands twice: write it once",
        );
    }
}
