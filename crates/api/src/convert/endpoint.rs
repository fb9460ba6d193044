//! Endpoints of external-dns to record data.

use std::sync::Arc;

use bindery_core::record::DataProblem;
use bindery_core::{Name, Problem, Reason, RecordData, RecordKey, RecordType, Text};

use super::Reading;
use crate::externaldns::v1alpha1::{DnsEndpointSpec, Endpoint};

/// What one endpoint declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredEndpoint {
    /// Its position in `spec.endpoints`.
    pub index: usize,
    /// Full name and type.
    pub key: RecordKey,
    /// The TTL, unless the zone's is to be used.
    pub ttl: Option<u32>,
    /// The data, of one type; never empty. Shared with whoever asks for it.
    pub data: Arc<[RecordData]>,
    /// Fields that it sets and that this version does not act on.
    pub ignored: Ignored,
}

/// Fields of an endpoint that are not acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    set_identifier: bool,
    provider_specific: bool,
}

impl Ignored {
    fn of(endpoint: &Endpoint) -> Self {
        let identifier = endpoint.set_identifier.as_deref().unwrap_or_default();
        let settings = endpoint.provider_specific.as_deref().unwrap_or_default();
        Self {
            set_identifier: !identifier.is_empty(),
            provider_specific: !settings.is_empty(),
        }
    }

    /// Their names within the endpoint.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("setIdentifier", self.set_identifier),
            ("providerSpecific", self.provider_specific),
        ];
        let set = fields.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(field, _)| field)
    }
}

/// Types of records that exist and that Bindery does not publish; others are misspelled.
const KNOWN_ELSEWHERE: [&str; 15] = [
    "AFSDB",
    "ALIAS",
    "ANAME",
    "APL",
    "CERT",
    "DNAME",
    "DS",
    "HINFO",
    "LOC",
    "NAPTR",
    "OPENPGPKEY",
    "RP",
    "SMIMEA",
    "SPF",
    "URI",
];

/// Types of records that a server makes when it signs a zone.
const SIGNING: [&str; 7] = [
    "CDNSKEY",
    "CDS",
    "DNSKEY",
    "NSEC",
    "NSEC3",
    "NSEC3PARAM",
    "RRSIG",
];

impl DnsEndpointSpec {
    /// Each endpoint on its own, or every field of it that is wrong; null entries are skipped.
    #[must_use]
    pub fn declared(&self) -> Vec<Result<DeclaredEndpoint, Vec<Problem>>> {
        self.endpoints
            .iter()
            .enumerate()
            .filter_map(|(index, endpoint)| Some(declared(index, endpoint.as_ref()?)))
            .collect()
    }
}

fn declared(index: usize, endpoint: &Endpoint) -> Result<DeclaredEndpoint, Vec<Problem>> {
    let at = format!("spec.endpoints[{index}]");
    let mut reading = Reading::default();
    let name = Name::parse(endpoint.dns_name.as_deref().unwrap_or_default());
    let name = reading.take(format!("{at}.dnsName"), name);
    // external-dns takes anything below one for "not set".
    let ttl = endpoint.record_ttl.filter(|ttl| *ttl > 0);
    let ttl = reading.ttl(format!("{at}.recordTTL"), ttl);
    let rtype = record_type(&mut reading, &at, endpoint.record_type.as_deref());
    let data = rtype.and_then(|rtype| {
        targets(
            &mut reading,
            &at,
            rtype,
            endpoint.targets.as_deref().unwrap_or_default(),
        )
    });
    let declared = name
        .zip(rtype)
        .zip(data)
        .map(|((name, rtype), data)| DeclaredEndpoint {
            index,
            key: RecordKey::new(name, rtype),
            ttl,
            data: data.into(),
            ignored: Ignored::of(endpoint),
        });
    reading.end(declared)
}

fn record_type(reading: &mut Reading, at: &str, text: Option<&str>) -> Option<RecordType> {
    let field = format!("{at}.recordType");
    let text = text.unwrap_or_default();
    if text.is_empty() {
        let message = "is missing: write one such as A, AAAA, CNAME or TXT";
        reading.problems.push(Problem::invalid(field, message));
        return None;
    }
    let mut unsupported = |rtype: &str| {
        reading.problems.push(Problem {
            field: field.clone(),
            reason: Reason::Unsupported,
            message: format!("{rtype} records cannot be declared by an endpoint: remove it"),
        });
        None
    };
    let upper = text.to_ascii_uppercase();
    let parsed: Result<RecordType, _> = text.parse();
    if SIGNING.contains(&&*upper) || parsed.as_ref().is_ok_and(|rtype| rtype.is_signing()) {
        reading.problems.push(Problem {
            field,
            reason: Reason::Unsupported,
            message: format!(
                "{upper} records are made by the server that signs a zone: remove it, and set dnssecPolicy \
                 of the DNSZone to have the zone signed"
            ),
        });
        return None;
    }
    match parsed {
        Ok(rtype @ (RecordType::Soa | RecordType::Other(_))) => unsupported(&rtype.to_string()),
        Err(_) if KNOWN_ELSEWHERE.contains(&&*upper) => unsupported(&upper),
        read => reading.take(field, read),
    }
}

fn targets(
    reading: &mut Reading,
    at: &str,
    rtype: RecordType,
    targets: &[String],
) -> Option<Vec<RecordData>> {
    let field = format!("{at}.targets");
    if targets.is_empty() {
        let message = "is empty: write where the name points";
        reading.problems.push(Problem::invalid(field, message));
        return None;
    }
    let read: Vec<Option<RecordData>> = targets
        .iter()
        .enumerate()
        .map(|(at, text)| reading.take(format!("{field}[{at}]"), target(rtype, text)))
        .collect();
    let mut data: Vec<RecordData> = read.into_iter().collect::<Option<_>>()?;
    data.sort_unstable();
    data.dedup();
    if rtype == RecordType::Cname && data.len() > 1 {
        let message = "an alias has one target: remove the others";
        reading.problems.push(Problem::invalid(field, message));
        return None;
    }
    Some(data)
}

/// One target: text as it stands or in quotes for TXT, the zone-file form for all other types.
fn target(rtype: RecordType, text: &str) -> Result<RecordData, DataProblem> {
    let is_quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    if rtype == RecordType::Txt && !is_quoted {
        return RecordData::Txt(Text::from_bytes(text.as_bytes())).checked_len();
    }
    RecordData::parse(rtype, text)?.checked_parts()
}
