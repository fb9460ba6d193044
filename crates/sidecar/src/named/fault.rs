//! Why `named` did not do something.

use std::io;
use std::sync::Arc;

use bindery_bind::rndc::{RndcFault, RndcReason};
use bindery_core::{Fault, FaultKind, Name};
use thiserror::Error;

/// Why `named` did not do something.
#[derive(Debug, Clone, Error)]
pub(crate) enum NamedFault {
    /// It has no such zone.
    #[error("zone not found: {zone}")]
    NoSuchZone {
        /// The zone.
        zone: Name,
    },
    /// It has such a zone already.
    #[error("zone already exists: {zone}")]
    Exists {
        /// The zone.
        zone: Name,
    },
    /// It cannot do that with the zone.
    #[error("named does not {act} zone {zone}")]
    Refused {
        /// What it was to do.
        act: &'static str,
        /// The zone.
        zone: Name,
        /// What it said.
        said: String,
    },
    /// The zone takes updates, so its file cannot be read again.
    #[error("zone {zone} takes updates and is not read again; freeze it first")]
    Dynamic {
        /// The zone.
        zone: Name,
    },
    /// Its control channel does not work.
    #[error("named cannot be asked")]
    Control(#[source] RndcFault),
    /// It would take a longer command than it reads.
    #[error("the configuration of zone {zone} would be longer than named reads")]
    TooLong {
        /// The zone.
        zone: Name,
    },
    /// What it says of a zone cannot be read.
    #[error("what named says of zone {zone} cannot be read")]
    Unreadable {
        /// The zone.
        zone: Name,
    },
    /// A file cannot be written or removed.
    #[error("the files of zone {zone} cannot be {act}")]
    Disk {
        /// What was to be done.
        act: &'static str,
        /// The zone.
        zone: Name,
        /// Why not.
        #[source]
        source: Arc<io::Error>,
    },
    /// There is no key to sign updates with.
    #[error("this sidecar has no key for updates; start it with --tsig-key-file")]
    NoUpdateKey,
    /// An update or a query failed.
    #[error("named does not answer the update")]
    Dns(#[source] DnsFault),
    /// It took an update and did not do it.
    #[error("named has not taken the record {record}: another one stands in its way")]
    Ignored {
        /// The record.
        record: String,
    },
}

/// A fault of DNS as an error.
#[derive(Debug, Clone, Error)]
#[error("{}", .0.message)]
pub(crate) struct DnsFault(pub(crate) Fault);

pub(super) fn about(zone: &Name, act: &'static str, fault: RndcFault) -> NamedFault {
    let zone = zone.clone();
    match fault {
        RndcFault::Failed { text, reason } => match reason {
            Some(RndcReason::NotFound) => NamedFault::NoSuchZone { zone },
            Some(RndcReason::Exists) => NamedFault::Exists { zone },
            Some(RndcReason::DynamicZone) => NamedFault::Dynamic { zone },
            Some(RndcReason::NotLoaded | RndcReason::NotPrimary | RndcReason::Frozen) | None => {
                NamedFault::Refused {
                    act,
                    zone,
                    said: text,
                }
            }
        },
        RndcFault::Connection { .. }
        | RndcFault::Denied { .. }
        | RndcFault::Signature
        | RndcFault::Malformed => NamedFault::Control(fault),
    }
}

pub(super) fn dns(zone: &Name, fault: Fault) -> NamedFault {
    if fault.kind == FaultKind::Missing {
        return NamedFault::NoSuchZone { zone: zone.clone() };
    }
    NamedFault::Dns(DnsFault(fault))
}

pub(super) fn disk(act: &'static str, zone: &Name, source: io::Error) -> NamedFault {
    NamedFault::Disk {
        act,
        zone: zone.clone(),
        source: Arc::new(source),
    }
}
