//! `MXRecord`.

use bindery_core::RecordData;

record_kind! {
    MxRecordSpec, "MxRecord", "MXRecord", "mxrecords", "mx",
    "A mail server of a name.",
    columns ["Priority" ".spec.priority" "integer", "Mail Server" ".spec.mailServer" "string"],
    required ["name", "priority", "mailServer"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// Mail servers of lower priority are tried first.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The full name of the mail server. A single dot says that the name takes no mail.
        #[schemars(schema_with = "schema::name")]
        pub mail_server: String,
    }
}

record_spec!(MxRecordSpec, MxRecord, Mx, |spec, reading| {
    let preference = reading.number("spec.priority", spec.priority, u16::MAX);
    let exchange = reading.target("spec.mailServer", &spec.mail_server);
    preference.zip(exchange).map(|(preference, exchange)| {
        vec![RecordData::Mx {
            preference,
            exchange,
        }]
    })
});
