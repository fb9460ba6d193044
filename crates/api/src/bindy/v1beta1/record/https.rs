//! `HTTPSRecord`.

use bindery_core::RecordData;

use super::svcb::{ServiceParams, svcb};

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::alias_has_no_params()))]
    HttpsRecordSpec, "HttpsRecord", "HTTPSRecord", "httpsrecords", "https",
    "Where the web server of a name is and how to speak to it.",
    columns ["Priority" ".spec.priority" "integer", "Target" ".spec.target" "string"],
    required ["name", "priority", "target"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// Records of lower priority are tried first. 0 makes the name an alias of the target, which
        /// may stand at the zone itself, where a CNAME cannot.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The full name of the host. A single dot stands for the record's own name.
        #[schemars(schema_with = "schema::name")]
        pub target: String,

        /// How to speak to the web server; nothing for an alias.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub params: Option<ServiceParams>,
    }
}

record_spec!(HttpsRecordSpec, HttpsRecord, Https, |spec, reading| {
    svcb(reading, spec.priority, &spec.target, spec.params.as_ref())
        .and_then(|svcb| reading.data("spec.params", RecordData::Https(svcb)))
        .map(|data| vec![data])
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::tests::check_record;

    #[test]
    fn a_web_server_and_an_alias_of_the_zone_itself() {
        check_record::<HttpsRecordSpec>(
            json!({
                "name": "www", "priority": 1, "target": ".",
                "params": { "alpn": ["h2", "h3"], "ipv4hint": ["192.0.2.1"] },
            }),
            "www None HTTPS 1 . alpn=\"h2,h3\" ipv4hint=192.0.2.1",
        );
        let alias = json!({ "name": "@", "priority": 0, "target": "cdn.example.net" });
        check_record::<HttpsRecordSpec>(alias, "@ None HTTPS 0 cdn.example.net.");
    }

    #[test]
    fn every_bad_field_is_named() {
        check_record::<HttpsRecordSpec>(
            json!({ "name": "@", "priority": -1, "target": "web", "params": { "port": -1 } }),
            "spec.priority: is -1: write a whole number from 0 to 65535; \
             spec.target: \"web\" is a single label: write the full name, or end it with a dot if you \
             mean the top-level name; \
             spec.params.port: is -1: write a whole number from 0 to 65535",
        );
    }
}
