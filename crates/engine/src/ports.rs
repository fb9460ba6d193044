//! What the engine needs of the world, declared here and implemented by adapters.
//!
//! A [`Provider`] must read a zone and apply changes, and may have more capabilities;
//! [`Completed`](crate::Completed) makes up for those that it lacks. A [`NameServer`] has all of them
//! by itself.

use std::collections::BTreeMap;

use bindery_core::{
    Change, Fault, Name, Record, RecordKey, RecordSet, Serial,
    delta::{Delta, Difference},
    zones::{ReadBack, SigningAnswer, SigningPolicy, ZoneContent},
};
use futures::future::BoxFuture;

/// Every record set of a zone.
pub type ZoneSets = BTreeMap<RecordKey, RecordSet>;

/// Whatever holds zones: a name server, the API of a DNS service, a webhook. The two methods without a
/// default are all that it must have.
///
/// Cancellation: dropping a future may leave changes applied or not; the engine never drops one except
/// when the process ends, and reads the zone again when it starts.
///
/// Errors: the message of a fault names the provider, since people read it beside those of others.
pub trait Provider: Send + Sync + 'static {
    /// Reads a whole zone. A provider with [`Self::serials`] includes its SOA.
    fn read_zone<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneSets, Fault>>;

    /// Applies changes in the order given, all of them or none, with their preconditions.
    ///
    /// Limits: [`bindery_core::FaultKind::TooLarge`] where they are too many at once.
    fn apply<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Its zones have serials. Without, the engine counts versions as it sees them.
    fn serials(&self) -> Option<&dyn Serials> {
        None
    }

    /// It can be asked for single record sets. Without, the engine reads the whole zone.
    fn lookups(&self) -> Option<&dyn Lookups> {
        None
    }

    /// It knows what changed between serials. Without, the engine reads the whole zone.
    fn differences(&self) -> Option<&dyn Differences> {
        None
    }

    /// It can be made what another one is, with its serial. Without, it is no follower.
    fn mirroring(&self) -> Option<&dyn Mirroring> {
        None
    }

    /// It creates and deletes zones. Without, somebody else does.
    fn hosting(&self) -> Option<&dyn ZoneHost> {
        None
    }
}

/// Zones with serials: each change makes a newer one.
pub trait Serials: Send + Sync {
    /// A zone's SOA, which has the serial.
    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>>;
}

/// Questions about single record sets.
pub trait Lookups: Send + Sync {
    /// The sets in the order asked for; `None` where there is none.
    fn look_up<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<Vec<Option<RecordSet>>, Fault>>;
}

/// Differences between versions, as IXFR has them.
pub trait Differences: Send + Sync {
    /// What became of a zone since it had this serial.
    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>>;
}

/// Zones that are copies of those of another server.
pub trait Mirroring: Send + Sync {
    /// See [`NameServer::mirror`].
    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>>;
}

/// An authoritative name server that takes updates, with every capability: what the engine works with.
///
/// Cancellation: dropping a future may leave an update applied or not; the engine never drops one
/// except when the process ends, and reads the zone again when it starts.
///
/// Errors: the message of a fault names the server, since people read it beside those of others.
pub trait NameServer: Send + Sync + 'static {
    /// Transfers a whole zone.
    fn transfer<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneContent, Fault>>;

    /// What became of a zone since it had this serial.
    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>>;

    /// Makes a zone here what it has become elsewhere, as ONE atomic message: from the SOA `from`,
    /// which must be the very one that it has here, to that of `steps`.
    ///
    /// Limits: [`bindery_core::FaultKind::TooLarge`] where the steps do not fit into one message.
    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// A zone's SOA.
    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>>;

    /// The serial of a zone's SOA.
    fn serial<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Serial, Fault>>;

    /// Applies changes in the order given as ONE atomic message, with their preconditions.
    ///
    /// Limits: [`bindery_core::FaultKind::TooLarge`] where they do not fit into one message.
    fn update<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Reads record sets back as they are served, with the serial.
    fn read<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<ReadBack, Fault>>;
}

/// Creates and deletes zones, where Bindery manages the server.
pub trait ZoneHost: Send + Sync + 'static {
    /// Makes sure that the zone exists. A zone that is served already is left as it is; a new one
    /// starts with `records`, its SOA and NS among them, and so does one that the server has and cannot
    /// load, whose files are put aside. A secondary may start with them too, or fetch the zone; without
    /// records it fetches it.
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Tries to serve a zone that the server has and cannot load from what of its own files can still be
    /// read, and says whether that worked. What it serves then may be an older version.
    fn mend<'a>(&'a self, _zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Has a secondary look for news of a zone at once.
    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>>;

    /// Has a primary sign the zone by a policy that it has, or no longer; where it does so already, nothing
    /// changes. It answers at once and signs by and by.
    fn sign<'a>(
        &'a self,
        _zone: &'a Name,
        _policy: &'a SigningPolicy,
    ) -> BoxFuture<'a, Result<SigningAnswer, Fault>> {
        Box::pin(std::future::ready(Ok(SigningAnswer::Unsupported)))
    }

    /// Deletes the zone with everything in it; a zone that is not there is no fault.
    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>>;
}
