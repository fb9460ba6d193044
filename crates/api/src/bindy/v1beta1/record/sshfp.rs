//! `SSHFPRecord` (RFC 4255).

use bindery_core::RecordData;
use bindery_core::record::Sshfp;

use super::digest;

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::sshfp_rules()))]
    SshfpRecordSpec, "SshfpRecord", "SSHFPRecord", "sshfprecords", "sshfp",
    "The fingerprint of a host's SSH key.",
    columns [
        "Algorithm" ".spec.algorithm" "integer",
        "Fingerprint Type" ".spec.fingerprintType" "integer"
    ],
    required ["name", "algorithm", "fingerprintType", "fingerprint"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The algorithm of the key: 1 for RSA, 2 for DSA, 3 for ECDSA, 4 for Ed25519, 6 for Ed448.
        #[schemars(schema_with = "schema::number::<1, 255>")]
        pub algorithm: i64,

        /// 1 for SHA-1, 2 for SHA-256.
        #[schemars(schema_with = "schema::number::<1, 255>")]
        pub fingerprint_type: i64,

        /// The fingerprint in hexadecimal digits, as ssh-keygen -r prints it.
        #[schemars(schema_with = "schema::hex")]
        pub fingerprint: String,
    }
}

/// How many bytes the fingerprint of each type has (RFC 4255 section 3.1.2, RFC 6594 section 3.2).
const FINGERPRINTS: [(u8, usize, &str); 2] = [(1, 20, "SHA-1"), (2, 32, "SHA-256")];

record_spec!(SshfpRecordSpec, SshfpRecord, Sshfp, |spec, reading| {
    let algorithm = reading.nonzero("spec.algorithm", spec.algorithm, u8::MAX);
    let fingerprint_type = reading.nonzero("spec.fingerprintType", spec.fingerprint_type, u8::MAX);
    let field = "spec.fingerprint";
    let fingerprint = digest(fingerprint_type, &spec.fingerprint, &FINGERPRINTS);
    let fingerprint = reading.take(field, fingerprint);
    match (algorithm, fingerprint_type, fingerprint) {
        (Some(algorithm), Some(fingerprint_type), Some(fingerprint)) => {
            let sshfp = Box::new(Sshfp {
                algorithm,
                fingerprint_type,
                fingerprint,
            });
            let data = reading.data(field, RecordData::Sshfp(sshfp));
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
    fn a_fingerprint_is_published_as_ssh_keygen_prints_it() {
        let sha256 = "0123456789abcdef".repeat(4);
        check_record::<SshfpRecordSpec>(
            json!({ "name": "host", "algorithm": 4, "fingerprintType": 2, "fingerprint": sha256 }),
            &format!("host None SSHFP 4 2 {sha256}"),
        );
    }

    #[test]
    fn every_bad_field_is_named() {
        check_record::<SshfpRecordSpec>(
            json!({ "name": "host", "algorithm": 0, "fingerprintType": 1, "fingerprint": "c0ffee" }),
            "spec.algorithm: is 0: write a whole number from 1 to 255; \
             spec.fingerprint: has 6 digits, and SHA-1 has 40: write the whole digest",
        );
        check_record::<SshfpRecordSpec>(
            json!({ "name": "host", "algorithm": 4, "fingerprintType": 256, "fingerprint": "" }),
            "spec.fingerprintType: is 256: write a whole number from 1 to 255; \
             spec.fingerprint: is not hexadecimal: write pairs of the digits 0 to 9 and a to f",
        );
    }
}
