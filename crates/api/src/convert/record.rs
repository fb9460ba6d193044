//! What every record kind has in common: a name, a TTL and data.

use std::fmt::Debug;
use std::str::FromStr;

use bindery_core::record::DataProblem;
use bindery_core::{Kind, Problem, RecordData, RecordType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reading;

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

/// Reads an IPv4 address.
pub(crate) fn ipv4<T: FromStr>(text: &str) -> Result<T, DataProblem> {
    text.parse()
        .map_err(|_| DataProblem::NotIpv4 { text: text.into() })
}

/// Reads an IPv6 address.
pub(crate) fn ipv6<T: FromStr>(text: &str) -> Result<T, DataProblem> {
    text.parse()
        .map_err(|_| DataProblem::NotIpv6 { text: text.into() })
}
