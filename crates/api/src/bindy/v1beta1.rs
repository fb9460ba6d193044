//! Version `v1beta1`: `DNSZone` and nine record kinds, in the spellings of every bindy so far.

mod record;
mod status;
mod zone;

pub use record::{
    ARecord, ARecordSpec, AaaaRecord, AaaaRecordSpec, CaaRecord, CaaRecordSpec, CnameRecord,
    CnameRecordSpec, MxRecord, MxRecordSpec, NsRecord, NsRecordSpec, PtrRecord, PtrRecordSpec,
    SrvRecord, SrvRecordSpec, TxtRecord, TxtRecordSpec,
};
pub use status::{
    RecordReference, RecordStatus, RemovalsStatus, ServerStatus, ZoneReference, ZoneStatus,
};
pub use zone::{
    DnsZone, DnsZoneSpec, LabelSelector, NameServer, Requirement, SelectorSource, SoaRecord,
};
