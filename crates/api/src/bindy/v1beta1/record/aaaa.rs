//! `AAAARecord`.

use bindery_core::RecordData;

use super::addresses;
use crate::convert::ipv6;

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::either_ipv6()))]
    AaaaRecordSpec, "AaaaRecord", "AAAARecord", "aaaarecords", "aaaa",
    "IPv6 addresses of a name.",
    columns ["Addresses" ".status.addresses" "string"],
    required ["name"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The IPv6 address, when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv6")]
        pub ipv6_address: Option<String>,

        /// The IPv6 addresses, when there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv6_list")]
        pub ipv6_addresses: Option<Vec<String>>,
    }
}

record_spec!(AaaaRecordSpec, AaaaRecord, Aaaa, |spec, reading| {
    let (one, many) = (spec.ipv6_address.as_deref(), spec.ipv6_addresses.as_deref());
    addresses(
        reading,
        ["ipv6Address", "ipv6Addresses"],
        (one, many),
        |text| ipv6(text).map(RecordData::Aaaa),
    )
});
