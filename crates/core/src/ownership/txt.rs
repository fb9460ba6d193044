//! The TXT registry: a record beside each set says whose the set is. This is its place; it is not built yet.
//!
//! It comes with the sources whose objects are not ours to annotate: Services, Nodes, Ingresses. What has to
//! be written here then:
//!
//! - *Is this ours?* A set is, if the zone has a registry record for it with our owner id. So ownership is
//!   read from the zone's content, per set, and the object has no part in it.
//! - *What travels with the change?* The registry record: it comes with the first value of its set and goes
//!   with the last, in the same message, so that no set stands without one.
//! - *What must be durable first?* Nothing, because the zone itself remembers.
//!
//! Until then nothing of an object that wants it is written: a set without its registry record would be
//! taken for a stranger's by the next start.

use crate::{
    fault::{Fault, FaultKind},
    plan::Change,
    record::Record,
};

/// Why nothing can be owned by a registry yet.
pub(super) fn refusal() -> Fault {
    Fault::new(
        FaultKind::Invalid,
        "ownership by TXT records in the zone (a registry) is not supported yet: let the object record what \
         it owns",
    )
}

/// An object owns no line by itself: the zone tells.
pub(super) fn owned() -> Vec<Record> {
    Vec::new()
}

/// The registry record that has to go with a change.
pub(super) fn companions(_change: &Change) -> Result<Vec<Change>, Fault> {
    Err(refusal())
}
