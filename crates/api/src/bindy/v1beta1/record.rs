//! The record kinds, each in its own file: its fields, and what record data they make.
//!
//! Every field has a default on the Rust side, so that one odd object in a cluster cannot keep the
//! others from being read; what must be there is said by the schema and by the conversion.

use bindery_core::record::{DataProblem, from_hex};
use bindery_core::{Problem, RecordData};

use crate::convert::Reading;

/// Declares one kind: what all kinds share stands here once, the rest at the call.
macro_rules! record_kind {
    (
        $(#[$meta:meta])*
        $spec:ident, $root:tt, $kind:tt, $plural:tt, $short:tt, $doc:tt,
        columns [$($column:tt $path:tt $type:tt),*],
        required $required:tt,
        name $name_doc:tt,
        { $($fields:tt)* }
    ) => {
        use kube::CustomResource;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        use crate::bindy::v1beta1::RecordStatus;
        use crate::schema;

        #[doc = concat!("What ", $kind, " is to publish.")]
        #[derive(CustomResource, Deserialize, Serialize, JsonSchema)]
        #[derive(Clone, Debug, Default, PartialEq)]
        #[kube(
            group = "bindy.firestoned.io",
            version = "v1beta1",
            kind = $kind,
            root = $root,
            plural = $plural,
            shortname = $short,
            namespaced,
            status = "RecordStatus",
            derive = "PartialEq",
            derive = "Default",
            doc = $doc,
            printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
            printcolumn(name = "Zone", type_ = "string", json_path = ".status.zoneRef.zoneName"),
            $(printcolumn(name = $column, type_ = $type, json_path = $path),)*
            printcolumn(name = "TTL", type_ = "integer", json_path = ".spec.ttl"),
            printcolumn(
                name = "Ready",
                type_ = "string",
                json_path = ".status.conditions[?(@.type=='Ready')].status"
            ),
            printcolumn(
                name = "Reason",
                type_ = "string",
                json_path = ".status.conditions[?(@.type=='Ready')].reason",
                priority = 1
            ),
            printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
        )]
        #[serde(rename_all = "camelCase", default)]
        #[schemars(extend("required" = $required))]
        $(#[$meta])*
        pub struct $spec {
            #[doc = $name_doc]
            #[schemars(schema_with = "schema::record_name")]
            pub name: String,

            $($fields)*

            /// How long resolvers may keep the record, in seconds. Default: the zone's ttl.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "schema::ttl")]
            pub ttl: Option<i64>,

            /// The DNSZone object that the record belongs to, whatever the zone selects.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub zone_ref: Option<String>,
        }
    };
}

/// Says what record data the fields of a kind make.
macro_rules! record_spec {
    ($spec:ident, $kind:ident, $type:ident, |$self:ident, $reading:ident| $data:expr) => {
        impl crate::RecordSpec for $spec {
            const KIND: bindery_core::Kind = bindery_core::Kind::$kind;
            const TYPE: bindery_core::RecordType = bindery_core::RecordType::$type;

            fn name(&self) -> &str {
                &self.name
            }

            fn ttl(&self) -> Option<i64> {
                self.ttl
            }

            fn zone_ref(&self) -> Option<&str> {
                self.zone_ref.as_deref().filter(|name| !name.is_empty())
            }

            fn data(&self) -> Result<Vec<bindery_core::RecordData>, Vec<bindery_core::Problem>> {
                let $self = self;
                let mut reading = crate::convert::Reading::default();
                let $reading = &mut reading;
                let data = $data;
                reading.end(data)
            }
        }
    };
}

mod a;
mod aaaa;
mod caa;
mod cname;
mod https;
mod mx;
mod ns;
mod ptr;
mod srv;
mod sshfp;
mod svcb;
mod tlsa;
mod txt;

pub use a::{ARecord, ARecordSpec};
pub use aaaa::{AaaaRecord, AaaaRecordSpec};
pub use caa::{CaaRecord, CaaRecordSpec};
pub use cname::{CnameRecord, CnameRecordSpec};
pub use https::{HttpsRecord, HttpsRecordSpec};
pub use mx::{MxRecord, MxRecordSpec};
pub use ns::{NsRecord, NsRecordSpec};
pub use ptr::{PtrRecord, PtrRecordSpec};
pub use srv::{SrvRecord, SrvRecordSpec};
pub use sshfp::{SshfpRecord, SshfpRecordSpec};
pub use svcb::{ServiceParams, SvcbRecord, SvcbRecordSpec};
pub use tlsa::{TlsaRecord, TlsaRecordSpec};
pub use txt::{TxtRecord, TxtRecordSpec};

/// The addresses of a record that gives either one or a list of them.
fn addresses(
    reading: &mut Reading,
    [one_field, many_field]: [&str; 2],
    given: (Option<&str>, Option<&[String]>),
    parse: impl Fn(&str) -> Result<RecordData, DataProblem>,
) -> Option<Vec<RecordData>> {
    match given {
        (Some(one), None) => {
            let data = reading.take(format!("spec.{one_field}"), parse(one))?;
            Some(vec![data])
        }
        (None, Some(many)) if !many.is_empty() => many
            .iter()
            .enumerate()
            .map(|(at, text)| reading.take(format!("spec.{many_field}[{at}]"), parse(text)))
            // Every bad address is reported, not only the first.
            .collect::<Vec<_>>()
            .into_iter()
            .collect(),
        (None, _) | (Some(_), Some(_)) => {
            let message = format!("set exactly one of {one_field} and {many_field}");
            reading.problems.push(Problem::invalid("spec", message));
            None
        }
    }
}

/// The bytes of hexadecimal digits. Of a digest whose number is known, the length is known too: a list of
/// numbers, lengths in bytes and names says which.
fn digest(
    number: Option<u8>,
    text: &str,
    known: &[(u8, usize, &'static str)],
) -> Result<Box<[u8]>, String> {
    let bytes = from_hex(text).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or("is not hexadecimal: write pairs of the digits 0 to 9 and a to f")?;
    let digest = known.iter().find(|(one, ..)| Some(*one) == number);
    match digest {
        Some((_, len, name)) if bytes.len() != *len => {
            let (found, digits) = (bytes.len() * 2, len * 2);
            Err(format!(
                "has {found} digits, and {name} has {digits}: write the whole digest"
            ))
        }
        Some(_) | None => Ok(bytes),
    }
}
