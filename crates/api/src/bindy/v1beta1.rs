//! Version `v1beta1`: clusters of name servers, `DNSZone` and the record kinds, in the spellings of every bindy so far.

mod cluster;
mod record;
mod status;
mod zone;

pub use cluster::*;
pub use record::*;
pub use status::{
    DnssecStatus, RecordReference, RecordStatus, RemovalsStatus, ServerStatus, ZoneReference,
    ZoneStatus,
};
pub use zone::{
    DnsZone, DnsZoneSpec, LabelSelector, NameServer, Requirement, SelectorSource, SoaRecord,
};
