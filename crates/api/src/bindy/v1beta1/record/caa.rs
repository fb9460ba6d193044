//! `CAARecord`.

use bindery_core::record::DataProblem;
use bindery_core::{Caa, RecordData};

record_kind! {
    CaaRecordSpec, "CaaRecord", "CAARecord", "caarecords", "caa",
    "Who may issue certificates for a name.",
    columns ["Tag" ".spec.tag" "string", "Value" ".spec.value" "string"],
    required ["name", "flags", "tag", "value"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// 128 makes the property critical, 0 does not.
        #[schemars(schema_with = "schema::number::<0, 255>")]
        pub flags: i64,

        /// The property: issue, issuewild, iodef or another made of letters and digits.
        #[schemars(schema_with = "schema::caa_tag")]
        pub tag: String,

        /// The property's value, such as letsencrypt.org.
        #[schemars(length(max = 4096))]
        pub value: String,
    }
}

record_spec!(CaaRecordSpec, CaaRecord, Caa, |spec, reading| {
    let flags = reading.number("spec.flags", spec.flags, u8::MAX);
    let tag = reading.take("spec.tag", caa_tag(&spec.tag));
    flags.zip(tag).and_then(|(flags, tag)| {
        let value = spec.value.as_bytes().into();
        let caa = Box::new(Caa { flags, tag, value });
        reading
            .data("spec.value", RecordData::Caa(caa))
            .map(|data| vec![data])
    })
});

fn caa_tag(tag: &str) -> Result<Box<str>, DataProblem> {
    let good = (1..=255).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    if good {
        Ok(tag.into())
    } else {
        Err(DataProblem::BadTag { text: tag.into() })
    }
}
