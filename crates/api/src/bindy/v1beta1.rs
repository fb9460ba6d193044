//! Version `v1beta1`: `DNSZone` and the record kinds, in the spellings of every bindy so far.

mod record;
mod status;
mod zone;

pub use record::*;
pub use status::{
    RecordReference, RecordStatus, RemovalsStatus, ServerStatus, ZoneReference, ZoneStatus,
};
pub use zone::{
    DnsZone, DnsZoneSpec, LabelSelector, NameServer, Requirement, SelectorSource, SoaRecord,
};
