//! `ARecord`.

use bindery_core::RecordData;

use super::addresses;
use crate::convert::ipv4;

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::either_ipv4()))]
    ARecordSpec, "ARecord", "ARecord", "arecords", "a",
    "IPv4 addresses of a name.",
    columns ["Addresses" ".status.addresses" "string"],
    required ["name"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The IPv4 address, when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv4")]
        pub ipv4_address: Option<String>,

        /// The IPv4 addresses, when there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv4_list")]
        pub ipv4_addresses: Option<Vec<String>>,
    }
}

record_spec!(ARecordSpec, ARecord, A, |spec, reading| {
    let (one, many) = (spec.ipv4_address.as_deref(), spec.ipv4_addresses.as_deref());
    addresses(
        reading,
        ["ipv4Address", "ipv4Addresses"],
        (one, many),
        |text| ipv4(text).map(RecordData::A),
    )
});
