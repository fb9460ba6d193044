//! `NSRecord`.

use bindery_core::RecordData;

record_kind! {
    NsRecordSpec, "NsRecord", "NSRecord", "nsrecords", "nsr",
    "A name server of a delegated name.",
    columns ["Nameserver" ".spec.nameserver" "string"],
    required ["name", "nameserver"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The full name of the name server.
        #[schemars(schema_with = "schema::name")]
        pub nameserver: String,
    }
}

record_spec!(NsRecordSpec, NsRecord, Ns, |spec, reading| {
    reading
        .target("spec.nameserver", &spec.nameserver)
        .map(|name| vec![RecordData::Ns(name)])
});
