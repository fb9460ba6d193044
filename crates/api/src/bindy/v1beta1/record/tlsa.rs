//! `TLSARecord` (RFC 6698).

use bindery_core::RecordData;
use bindery_core::record::Tlsa;

use super::digest;

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::tlsa_rules()))]
    TlsaRecordSpec, "TlsaRecord", "TLSARecord", "tlsarecords", "tlsa",
    "The certificate or key of a TLS server, or its digest.",
    columns [
        "Usage" ".spec.usage" "integer",
        "Selector" ".spec.selector" "integer",
        "Matching Type" ".spec.matchingType" "integer"
    ],
    required ["name", "usage", "selector", "matchingType", "certificateData"],
    name r#"The name inside the zone, with port and protocol in front: "_443._tcp.www"."#,
    {
        /// Which certificate is meant: 0 and 1 want it to be trusted otherwise too, 2 is an authority's,
        /// 3 the server's own.
        #[schemars(schema_with = "schema::number::<0, 255>")]
        pub usage: i64,

        /// 0 for the whole certificate, 1 for its public key.
        #[schemars(schema_with = "schema::number::<0, 255>")]
        pub selector: i64,

        /// 0 for the data itself, 1 for its SHA-256, 2 for its SHA-512.
        #[schemars(schema_with = "schema::number::<0, 255>")]
        pub matching_type: i64,

        /// The data or its digest, in hexadecimal digits.
        #[schemars(schema_with = "schema::hex")]
        pub certificate_data: String,
    }
}

/// How many bytes the digest of each matching type has (RFC 6698 section 2.1.3).
const DIGESTS: [(u8, usize, &str); 2] = [(1, 32, "SHA-256"), (2, 64, "SHA-512")];

record_spec!(TlsaRecordSpec, TlsaRecord, Tlsa, |spec, reading| {
    let usage = reading.number("spec.usage", spec.usage, u8::MAX);
    let selector = reading.number("spec.selector", spec.selector, u8::MAX);
    let matching_type = reading.number("spec.matchingType", spec.matching_type, u8::MAX);
    let field = "spec.certificateData";
    let data = digest(matching_type, &spec.certificate_data, &DIGESTS);
    let data = reading.take(field, data);
    match (usage, selector, matching_type, data) {
        (Some(usage), Some(selector), Some(matching_type), Some(data)) => {
            let tlsa = Box::new(Tlsa {
                usage,
                selector,
                matching_type,
                data,
            });
            let data = reading.data(field, RecordData::Tlsa(tlsa));
            data.map(|data| vec![data])
        }
        _ => None,
    }
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert::tests::check_record;

    #[test]
    fn a_digest_is_whole_and_data_has_any_length() {
        let sha256 = "0123456789ABCDEF".repeat(4);
        check_record::<TlsaRecordSpec>(
            json!({
                "name": "_443._tcp.www", "usage": 3, "selector": 1, "matchingType": 1,
                "certificateData": sha256,
            }),
            &format!("_443._tcp.www None TLSA 3 1 1 {}", sha256.to_lowercase()),
        );
        check_record::<TlsaRecordSpec>(
            json!({
                "name": "_25._tcp", "usage": 2, "selector": 0, "matchingType": 0, "certificateData": "3082",
            }),
            "_25._tcp None TLSA 2 0 0 3082",
        );
    }

    #[test]
    fn every_bad_field_is_named() {
        check_record::<TlsaRecordSpec>(
            json!({
                "name": "_443._tcp", "usage": 256, "selector": -1, "matchingType": 2,
                "certificateData": "c0ffee",
            }),
            "spec.usage: is 256: write a whole number from 0 to 255; \
             spec.selector: is -1: write a whole number from 0 to 255; \
             spec.certificateData: has 6 digits, and SHA-512 has 128: write the whole digest",
        );
        check_record::<TlsaRecordSpec>(
            json!({
                "name": "_443._tcp", "usage": 3, "selector": 1, "matchingType": 0, "certificateData": "abc",
            }),
            "spec.certificateData: is not hexadecimal: write pairs of the digits 0 to 9 and a to f",
        );
    }
}
