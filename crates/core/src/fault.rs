//! Faults of the world: what a name server or the way to it did not do.

use std::fmt;

/// What kind of fault it was; retries, metrics and reasons derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The server could not be reached; nothing was written.
    Unreachable,
    /// The message was sent and no answer came; it may or may not have been applied.
    Lost,
    /// The server refused, with this response code.
    Refused(u16),
    /// A prerequisite did not hold, with this response code; nothing was written.
    Prerequisite(u16),
    /// The server has no such zone.
    NoSuchZone,
    /// The key was not accepted, or the answer's signature was wrong.
    BadKey,
    /// The message would be longer than DNS allows.
    TooLong,
    /// The answer could not be understood.
    Malformed,
    /// A server beside the leader does not have the newest data yet.
    Behind,
    /// It would remove too much, so it waits for a person.
    Held,
}

/// A fault with a message that says what happened and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// What happened and what to do, for a person.
    pub message: String,
}

impl Fault {
    /// A fault of a kind.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl FaultKind {
    /// Whether a batch that failed like this may hold one guilty set, so that halving it helps.
    #[must_use]
    pub fn may_be_one_set(self) -> bool {
        match self {
            Self::Refused(_) | Self::Prerequisite(_) | Self::TooLong => true,
            Self::Unreachable
            | Self::Lost
            | Self::NoSuchZone
            | Self::BadKey
            | Self::Malformed
            | Self::Behind
            | Self::Held => false,
        }
    }

    /// Whether the server did not answer, so that nothing is known of it.
    #[must_use]
    pub fn is_silence(self) -> bool {
        matches!(self, Self::Unreachable | Self::Lost)
    }

    /// A short word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Refused(_) => "refused",
            Self::Prerequisite(_) => "prerequisite",
            Self::NoSuchZone => "no-such-zone",
            Self::BadKey => "bad-key",
            Self::TooLong => "too-long",
            Self::Malformed => "malformed",
            Self::Behind => "behind",
            Self::Held => "held",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
