//! `PTRRecord`.

use bindery_core::RecordData;

record_kind! {
    PtrRecordSpec, "PtrRecord", "PTRRecord", "ptrrecords", "ptr",
    "The name of an address.",
    columns ["Target" ".spec.target" "string"],
    required ["name", "target"],
    name "The host part of the address inside the zone, such as 1 in 2.0.192.in-addr.arpa.",
    {
        /// The full name that the address has.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}

record_spec!(PtrRecordSpec, PtrRecord, Ptr, |spec, reading| {
    reading
        .target("spec.target", &spec.target)
        .map(|name| vec![RecordData::Ptr(name)])
});
