//! `CNAMERecord`.

use bindery_core::RecordData;

record_kind! {
    CnameRecordSpec, "CnameRecord", "CNAMERecord", "cnamerecords", "cname",
    "An alias of another name.",
    columns ["Target" ".spec.target" "string"],
    required ["name", "target"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The full name that this name is an alias of. The trailing dot is optional.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}

record_spec!(CnameRecordSpec, CnameRecord, Cname, |spec, reading| {
    reading
        .target("spec.target", &spec.target)
        .map(|name| vec![RecordData::Cname(name)])
});
