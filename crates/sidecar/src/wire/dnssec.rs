//! How a zone is signed, and what its parent is to know.

use serde::{Deserialize, Serialize};

/// How a zone is signed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnssecState {
    /// By which policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Whether it is.
    pub signed: bool,
    /// With what.
    pub keys: Vec<DnssecKeyState>,
}

/// How a key of a zone is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the wire format of bindcar has them"
)]
pub struct DnssecKeyState {
    /// Its tag.
    pub tag: u16,
    /// Its algorithm, such as `ECDSAP256SHA256`.
    pub algorithm: String,
    /// `KSK`, `ZSK` or `CSK`.
    pub role: String,
    /// Whether it is in the zone.
    pub published: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_since: Option<String>,
    /// Whether it signs keys.
    pub key_signing: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_signing_since: Option<String>,
    /// Whether it signs the zone.
    pub zone_signing: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_signing_since: Option<String>,
    /// When another takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rollover: Option<String>,
    /// Whether it has been taken out of the zone.
    pub removed: bool,
    /// Where it is going: `omnipresent` or `hidden`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Where the key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnskey_state: Option<String>,
    /// Where the parent's digest is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ds_state: Option<String>,
    /// Where the zone's signatures are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_rrsig_state: Option<String>,
    /// Where the keys' signatures are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rrsig_state: Option<String>,
}

/// What a signed zone's parent is to publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DsAnswer {
    /// Always true.
    pub success: bool,
    /// The zone.
    pub zone: String,
    /// One for each key that signs keys.
    pub ds_records: Vec<DsRecord>,
}

/// The digest of a key (RFC 4034 section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DsRecord {
    /// The key's tag.
    pub key_tag: u16,
    /// The number of its algorithm.
    pub algorithm: u8,
    /// 2: SHA-256.
    pub digest_type: u8,
    /// The digest in hexadecimal.
    pub digest: String,
    /// The record as the parent writes it.
    pub rr: String,
}

/// What somebody saw at the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DsSeen {
    /// Of which key.
    pub key_tag: u16,
    /// What.
    pub ds: DsPlace,
}

/// Whether a parent has a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DsPlace {
    /// It does now.
    Published,
    /// It does no more.
    Withdrawn,
}

impl DsPlace {
    /// The word for `named` and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Withdrawn => "withdrawn",
        }
    }
}
