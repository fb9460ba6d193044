//! `SRVRecord`.

use bindery_core::RecordData;

record_kind! {
    SrvRecordSpec, "SrvRecord", "SRVRecord", "srvrecords", "srv",
    "Host and port of a service.",
    columns ["Target" ".spec.target" "string", "Port" ".spec.port" "integer"],
    required ["name", "priority", "weight", "port", "target"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// Targets of lower priority are tried first.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The share of a target among those of the same priority.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub weight: i64,

        /// The port of the service.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub port: i64,

        /// The full name of the host. A single dot says that there is no such service.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}

record_spec!(SrvRecordSpec, SrvRecord, Srv, |spec, reading| {
    let priority = reading.number("spec.priority", spec.priority, u16::MAX);
    let weight = reading.number("spec.weight", spec.weight, u16::MAX);
    let port = reading.number("spec.port", spec.port, u16::MAX);
    let target = reading.target("spec.target", &spec.target);
    match (priority, weight, port, target) {
        (Some(priority), Some(weight), Some(port), Some(target)) => Some(vec![RecordData::Srv {
            priority,
            weight,
            port,
            target,
        }]),
        _ => None,
    }
});
