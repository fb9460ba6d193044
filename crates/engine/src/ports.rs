//! What the engine needs of the world, declared here and implemented by adapters.

use bindery_core::{
    Change, Fault, Name, Record, RecordKey, Serial,
    delta::{Delta, Difference},
    zones::{ReadBack, ZoneContent},
};
use futures::future::BoxFuture;

/// An authoritative name server that takes updates.
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

    /// Deletes the zone with everything in it; a zone that is not there is no fault.
    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>>;
}
