//! What goes in and out of the state machine of zones: declarations and completions, steps and limits.

use std::{sync::Arc, time::Duration};

use super::{Noted, Signing, SigningAnswer, SigningPolicy};
use crate::{
    backoff::Backoff,
    content::ZoneContent,
    delta::Delta,
    fault::Fault,
    fleet::{FollowerTask, Pace, Visit},
    guard::WritePolicy,
    name::Name,
    object::Id,
    plan::Plan,
    record::{Record, RecordKey, RecordSet, Serial},
    server::ServerId,
};

/// Where a zone's data comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosting {
    /// Bindery creates and deletes the zone on the server, starting with these records.
    Served(Vec<Record>),
    /// The zone is somebody else's; Bindery writes records into it and nothing more.
    Elsewhere,
}

/// A zone that an object declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDeclaration {
    /// The apex.
    pub zone: Name,
    /// The object.
    pub owner: Id,
    /// Its generation.
    pub generation: i64,
    /// Who creates the zone.
    pub hosting: Hosting,
    /// Whether what others write into the zone is removed.
    pub tenancy: Tenancy,
    /// Which changes Bindery makes in it at all. The kinds that publish from sources will set it; today
    /// every zone is kept in sync.
    pub writes: WritePolicy,
    /// The digest of the held plan that its author lets through.
    pub allowed: Option<Arc<str>>,
    /// What is known of its serials from before this process: what its servers lost meanwhile must not take
    /// them back.
    pub serial_floor: SerialFloor,
    /// Whether it is to go, and by whose word.
    pub going: Option<Going>,
    /// The servers of its group that it is on; `None` for all of them.
    pub servers: Option<Arc<[ServerId]>>,
    /// How it is to be signed.
    pub signing: Signing,
    /// The removals that are written down; `None` where nobody writes them down.
    pub noted: Option<Arc<Noted>>,
}

/// Which serials a zone may have had before this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialFloor {
    /// None: its object did not have it before.
    #[default]
    New,
    /// Its object had it, or was about to, and nobody was told a serial.
    Untold,
    /// This was the newest that was told.
    Told(Serial),
    /// The same of a leader that had an older version and was on its way beyond.
    Fallen(Serial),
}

impl SerialFloor {
    /// The newest serial that was told.
    #[must_use]
    pub fn serial(&self) -> Option<Serial> {
        match self {
            Self::New | Self::Untold => None,
            Self::Told(told) | Self::Fallen(told) => Some(*told),
        }
    }
}

/// By whose word a zone is to go, or what an object has in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Going {
    /// Its author asked for exactly this. What others wrote into it goes only with leave.
    Asked,
    /// It is served elsewhere from now on. What others wrote into it goes only with leave.
    Moved,
    /// Something else takes it along. With anything in it, it goes only with leave.
    Along,
    /// Nobody knows, or nobody declares it any more: it stays as it is.
    Unsaid,
}

/// Who may write into a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// Others too; what they write stays.
    #[default]
    Shared,
    /// Nobody but Bindery.
    Exclusive,
}

/// Some record sets as queries show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    /// The serial of the SOA.
    pub serial: Serial,
    /// The sets in the order asked for; `None` where there is none.
    pub sets: Vec<Option<RecordSet>>,
}

/// Something to be carried out for one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make sure that the zone exists (where it is ours to create) and transfer it.
    Open(Option<Vec<Record>>),
    /// Transfer the zone again, since it may differ from what we know.
    Read,
    /// Ask what changed since this serial, at which the zone is known, and read these sets back from it:
    /// where they are many, that is cheaper than to ask for each.
    ReadChanges(Serial, Vec<RecordKey>),
    /// Ask for the serial, to notice what others wrote.
    Check,
    /// Send the changes of this plan as one atomic update.
    Commit(Plan),
    /// Read these sets back from the server.
    Verify(Vec<RecordKey>),
    /// Give the zone this SOA, whose serial is newer than the one it has.
    Renew(Record),
    /// Have the server sign the zone by this policy, or no longer.
    Sign(SigningPolicy),
    /// Ask the other servers what they still have of the zone, which the leader lost: it has only this
    /// serial.
    Rescue(Serial),
    /// Bring another server up to date, or see whether it is.
    Follow(FollowerTask),
    /// Delete the zone from the server.
    Close,
}

impl Step {
    /// Its name, as it stands in the table of activities.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "Open",
            Self::Read => "Read",
            Self::ReadChanges(..) => "ReadChanges",
            Self::Check => "Check",
            Self::Commit(_) => "Commit",
            Self::Verify(_) => "Verify",
            Self::Renew(_) => "Renew",
            Self::Sign(_) => "Sign",
            Self::Rescue(_) => "Rescue",
            Self::Follow(_) => "Follow",
            Self::Close => "Close",
        }
    }
}

/// What became of an update, set by set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages that the server acknowledged; each makes one serial.
    pub messages: u32,
    /// Sets that the server acknowledged, or that stand differently than was known: they are read
    /// back.
    pub to_verify: Vec<RecordKey>,
    /// Sets whose answer was lost: they are read back too, since nobody knows.
    pub lost: Option<(Fault, Vec<RecordKey>)>,
    /// Sets that the server refused one by one.
    pub refused: Vec<(RecordKey, Fault)>,
    /// Sets that never left, and why.
    pub unsent: Option<(Fault, Vec<RecordKey>)>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// [`Step::Open`] or [`Step::Read`] ended.
    Read(Result<ZoneContent, Fault>),
    /// [`Step::ReadChanges`] that reads these keys back ended.
    ChangesRead(Vec<RecordKey>, Result<Delta, Fault>),
    /// [`Step::Check`] ended.
    Checked(Result<Serial, Fault>),
    /// [`Step::Commit`] ended.
    Sent(Sent),
    /// [`Step::Verify`] of these keys ended.
    Verified(Vec<RecordKey>, Result<ReadBack, Fault>),
    /// [`Step::Renew`] ended.
    Renewed(Record, Result<(), Fault>),
    /// [`Step::Sign`] with this policy ended.
    Signed(SigningPolicy, Result<SigningAnswer, Fault>),
    /// [`Step::Rescue`] ended: the newest version that another server has, if it is newer than the leader's, or
    /// that some server did not say.
    Rescued(Result<Option<ZoneContent>, Fault>),
    /// [`Step::Follow`] of this server ended; it has this serial.
    Followed(Visit, Result<Serial, Fault>),
    /// [`Step::Follow`] of this primary ended without a write: it has these records, at this serial, and
    /// the leader does not.
    Differs(Visit, Serial, Vec<Record>),
    /// [`Step::Close`] ended.
    Closed(Result<(), Fault>),
}

/// Bounds of one update message and of the patience between attempts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Record sets in one message. 500 gives nearly all of a server's rate at under 10 ms each.
    pub sets_per_message_max: usize,
    /// Bytes in one message, names uncompressed; below 65,535 to leave room for signature and SOA.
    pub message_len_max: usize,
    /// Sets from which on they are read back by asking what changed: a question costs as much as some
    /// thirty records of a transfer.
    pub sets_by_changes_min: usize,
    /// How long a zone or a set that failed waits.
    pub retry: Backoff,
    /// How often an idle zone's serial is looked at.
    pub check_interval: Duration,
    /// How often all of an idle zone is read, where zones are few and small: a serial may be right by chance.
    pub audit_interval: Duration,
    /// How other servers are followed.
    pub pace: Pace,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sets_per_message_max: 500,
            message_len_max: 60_000,
            sets_by_changes_min: 200,
            retry: Backoff {
                first: Duration::from_millis(250),
                max: Duration::from_secs(15),
            },
            check_interval: Duration::from_secs(30),
            audit_interval: Duration::from_mins(5),
            pace: Pace::default(),
        }
    }
}
