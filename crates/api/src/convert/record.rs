//! Record kinds to record data.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use bindery_core::record::DataProblem;
use bindery_core::{Caa, Kind, Problem, RecordData, RecordType, Text};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reading;
use crate::bindy::v1beta1 as api;

/// What a record object declares, before its zone is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredRecord {
    /// The name as its author wrote it.
    pub name: String,
    /// The TTL, unless the zone's is to be used.
    pub ttl: Option<u32>,
    /// The data, of one type; never empty.
    pub data: Vec<RecordData>,
}

/// The spec of a record kind.
pub trait RecordSpec: Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;
    /// The type of its records.
    const TYPE: RecordType;

    /// The name as its author wrote it.
    fn name(&self) -> &str;

    /// The TTL as its author wrote it.
    fn ttl(&self) -> Option<i64>;

    /// The zone object that it names.
    fn zone_ref(&self) -> Option<&str>;

    /// The data, or every field that is wrong.
    ///
    /// # Errors
    /// Every problem, by field.
    fn data(&self) -> Result<Vec<RecordData>, Vec<Problem>>;

    /// Name, TTL and data, or every field that is wrong.
    ///
    /// # Errors
    /// Every problem, by field.
    fn declared(&self) -> Result<DeclaredRecord, Vec<Problem>> {
        let mut reading = Reading::default();
        let ttl = reading.ttl("spec.ttl", self.ttl());
        let data = match self.data() {
            Ok(data) => Some(data),
            Err(problems) => {
                reading.problems.extend(problems);
                None
            }
        };
        let name = self.name().to_owned();
        reading.end(data.map(|data| DeclaredRecord { name, ttl, data }))
    }
}

macro_rules! record_spec {
    ($spec:ident, $kind:ident, $type:ident, |$self:ident, $reading:ident| $data:expr) => {
        impl RecordSpec for api::$spec {
            const KIND: Kind = Kind::$kind;
            const TYPE: RecordType = RecordType::$type;

            fn name(&self) -> &str {
                &self.name
            }

            fn ttl(&self) -> Option<i64> {
                self.ttl
            }

            fn zone_ref(&self) -> Option<&str> {
                self.zone_ref.as_deref().filter(|name| !name.is_empty())
            }

            fn data(&self) -> Result<Vec<RecordData>, Vec<Problem>> {
                let $self = self;
                let mut reading = Reading::default();
                let $reading = &mut reading;
                let data = $data;
                reading.end(data)
            }
        }
    };
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

record_spec!(AaaaRecordSpec, AaaaRecord, Aaaa, |spec, reading| {
    let (one, many) = (spec.ipv6_address.as_deref(), spec.ipv6_addresses.as_deref());
    addresses(
        reading,
        ["ipv6Address", "ipv6Addresses"],
        (one, many),
        |text| ipv6(text).map(RecordData::Aaaa),
    )
});

record_spec!(CnameRecordSpec, CnameRecord, Cname, |spec, reading| {
    reading
        .target("spec.target", &spec.target)
        .map(|name| vec![RecordData::Cname(name)])
});

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

record_spec!(NsRecordSpec, NsRecord, Ns, |spec, reading| {
    reading
        .target("spec.nameserver", &spec.nameserver)
        .map(|name| vec![RecordData::Ns(name)])
});

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

record_spec!(PtrRecordSpec, PtrRecord, Ptr, |spec, reading| {
    reading
        .target("spec.target", &spec.target)
        .map(|name| vec![RecordData::Ptr(name)])
});

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

/// Reads an IPv4 address.
pub(super) fn ipv4<T: FromStr>(text: &str) -> Result<T, DataProblem> {
    text.parse()
        .map_err(|_| DataProblem::NotIpv4 { text: text.into() })
}

/// Reads an IPv6 address.
pub(super) fn ipv6<T: FromStr>(text: &str) -> Result<T, DataProblem> {
    text.parse()
        .map_err(|_| DataProblem::NotIpv6 { text: text.into() })
}

fn caa_tag(tag: &str) -> Result<Box<str>, impl Display> {
    let good = (1..=255).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric());
    if good {
        Ok(tag.into())
    } else {
        Err(DataProblem::BadTag { text: tag.into() })
    }
}
