//! Endpoints of external-dns to record data.

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
    /// The data, of one type; never empty.
    pub data: Vec<RecordData>,
}

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
            data,
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
    let rtype: RecordType = reading.take(field.clone(), text.parse())?;
    if matches!(rtype, RecordType::Soa | RecordType::Other(_)) {
        reading.problems.push(Problem {
            field,
            reason: Reason::Unsupported,
            message: format!("{rtype} records cannot be declared by an endpoint: remove it"),
        });
        return None;
    }
    Some(rtype)
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
    RecordData::parse(rtype, text)
}
