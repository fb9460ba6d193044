//! `TXTRecord`.

use bindery_core::{RecordData, Text};

record_kind! {
    TxtRecordSpec, "TxtRecord", "TXTRecord", "txtrecords", "txt",
    "Text of a name.",
    columns [],
    required ["name", "text"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The character-strings of one TXT record, in order. One longer than 255 bytes is cut.
        #[schemars(schema_with = "schema::text")]
        pub text: Vec<String>,
    }
}

record_spec!(TxtRecordSpec, TxtRecord, Txt, |spec, reading| {
    let text = match spec.text.as_slice() {
        [] => Err("is empty: write at least one string"),
        strings => Ok(Text::from_strings(strings)),
    };
    reading
        .take("spec.text", text)
        .and_then(|text| reading.data("spec.text", RecordData::Txt(text)))
        .map(|data| vec![data])
});
