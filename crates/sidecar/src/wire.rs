//! What goes over HTTP: the JSON of bindcar 0.9, and a few fields of ours that it does not have.

mod dnssec;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

pub use self::dnssec::{DnssecKeyState, DnssecState, DsAnswer, DsPlace, DsRecord, DsSeen};
pub use crate::expected::{ExpectedZone, ExpectedZones};

/// A new zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewZone {
    /// Its name.
    pub zone_name: String,
    /// `primary` or `secondary`.
    pub zone_type: String,
    /// What is in it, and who gets it.
    pub zone_config: NewZoneConfig,
    /// The key that updates must be signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_key_name: Option<String>,
}

/// What a new zone holds, and who gets it. Of a secondary only the last five fields count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewZoneConfig {
    /// The TTL of records that have none of their own.
    pub ttl: u32,
    /// Start of authority.
    pub soa: NewSoa,
    /// The name servers of the zone.
    pub name_servers: Vec<String>,
    /// Their addresses, where they lie in the zone.
    pub name_server_ips: BTreeMap<String, String>,
    /// Everything else in the zone.
    #[serde(default)]
    pub records: Vec<NewRecord>,
    /// Who is told of changes: `ADDRESS`, or `ADDRESS:PORT`, which bindcar takes at creation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also_notify: Option<Vec<String>>,
    /// Who may have the whole zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_transfer: Option<Vec<String>>,
    /// From whom a secondary gets the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<Vec<String>>,
    /// The policy that it is signed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnssec_policy: Option<String>,
    /// Whether signatures are kept apart from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_signing: Option<bool>,
}

/// Start of authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSoa {
    /// The primary name server.
    pub primary_ns: String,
    /// Who is responsible: a name, or an address of mail.
    pub admin_email: String,
    /// The first version. Without one it is the day as `YYYYMMDD01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Seconds between checks by secondaries.
    #[serde(default = "default_refresh")]
    pub refresh: u32,
    /// Seconds before a failed check is tried again.
    #[serde(default = "default_retry")]
    pub retry: u32,
    /// Seconds after which secondaries without contact stop answering.
    #[serde(default = "default_expire")]
    pub expire: u32,
    /// Seconds for which "no such name" may be remembered.
    #[serde(default = "default_negative_ttl")]
    pub negative_ttl: u32,
}

/// One record of a new zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRecord {
    /// Relative to the zone; `@` is the zone itself.
    pub name: String,
    /// Its type, such as `A`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its data as a zone file has it.
    pub value: String,
    /// Seconds; the zone's without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// What stands before the value of an MX or SRV record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// A record to add to a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedRecord {
    /// Relative to the zone; `@` is the zone itself.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its data.
    pub value: String,
    /// Seconds.
    #[serde(default = "default_record_ttl")]
    pub ttl: u32,
    /// What stands before the value of an MX or SRV record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// A record whose data is to be another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedRecord {
    /// Relative to the zone; `@` is the zone itself.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data that it has.
    pub current_value: String,
    /// The data that it shall have.
    pub new_value: String,
    /// Seconds.
    #[serde(default = "default_record_ttl")]
    pub ttl: u32,
    /// What stands before both values of an MX or SRV record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// A record, or all of one type at a name, to take out of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedRecord {
    /// Relative to the zone; `@` is the zone itself.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its data; without it all records of the type go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What is to be different about a zone; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZonePatch {
    /// Who is told of changes. bindcar takes bare addresses only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also_notify: Option<Vec<String>>,
    /// Who may have the whole zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_transfer: Option<Vec<String>>,
    /// Who may change it; where the list is empty, whom the configuration of the server names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_update: Option<Vec<String>>,
    /// From whom a secondary gets the zone; bindcar does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<Vec<String>>,
    /// The policy that it is signed by; `none` takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnssec_policy: Option<String>,
    /// Whether signatures are kept apart from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_signing: Option<bool>,
}

/// What came of a request about a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneAnswer {
    /// Always true; what failed has a code.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// What `named` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// What came of a request about a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordAnswer {
    /// Always true; what failed has a code.
    pub success: bool,
    /// What was done.
    pub message: String,
    /// To which record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

/// The zones that there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneNames {
    /// Their names.
    pub zones: Vec<String>,
    /// How many.
    pub count: usize,
}

/// One zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneSummary {
    /// Its name.
    pub name: String,
    /// `primary` or `secondary`.
    pub zone_type: String,
    /// The serial that is served; none where the zone is not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

/// How a zone is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneStatusAnswer {
    /// Always true.
    pub success: bool,
    /// What was asked.
    pub message: String,
    /// The words of `named`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// How it is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<DnssecState>,
    /// Whether there is data to answer from; bindcar does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<bool>,
    /// The serial that is served; bindcar does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
}

/// How `named` is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedStatus {
    /// Its own words.
    pub status: String,
    /// The fingerprints of the keys that it has, where the sidecar follows a folder of keys; bindcar does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// By which the keys that it signs zones with are told from others; bindcar does not say it.
    #[serde(
        default,
        rename = "signingKeys",
        skip_serializing_if = "Option::is_none"
    )]
    pub signing_keys: Option<String>,
}

/// The keys that `named` signs zones with. No `Debug`: they are secret.
#[derive(Default, Serialize, Deserialize)]
pub struct SigningKeyFiles {
    /// The text of their files, by the names that these have in a Secret.
    files: BTreeMap<String, String>,
}

impl SigningKeyFiles {
    /// These files.
    #[must_use]
    pub fn new(files: &BTreeMap<String, Zeroizing<String>>) -> Self {
        let files = files
            .iter()
            .map(|(name, text)| (name.clone(), text.to_string()));
        Self {
            files: files.collect(),
        }
    }

    /// The files by name.
    #[must_use]
    pub fn into_files(mut self) -> BTreeMap<String, Zeroizing<String>> {
        let files = std::mem::take(&mut self.files).into_iter();
        files
            .map(|(name, text)| (name, Zeroizing::new(text)))
            .collect()
    }
}

impl Drop for SigningKeyFiles {
    fn drop(&mut self) {
        self.files.values_mut().for_each(String::zeroize);
    }
}

/// That the sidecar runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthAnswer {
    /// `healthy`.
    pub status: String,
    /// Its version.
    pub version: String,
}

/// Whether the server may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyAnswer {
    /// Whether it may.
    pub ready: bool,
    /// What was looked at: `NAME: ok`, or `NAME: error` and why.
    pub checks: Vec<String>,
}

/// What is told when a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: String,
    /// More about it: mostly the words of `named`.
    #[serde(default)]
    pub details: Option<String>,
    /// The reason of a condition, where the code alone does not tell it; bindcar does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn default_refresh() -> u32 {
    3_600
}

fn default_retry() -> u32 {
    600
}

fn default_expire() -> u32 {
    604_800
}

fn default_negative_ttl() -> u32 {
    86_400
}

fn default_record_ttl() -> u32 {
    3_600
}
