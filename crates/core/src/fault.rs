//! Faults of the world: what another side, or the way to it, did not do.
//!
//! The kinds say what a fault means for what happens next, whichever protocol it came by:
//!
//! | kind | DNS | an HTTP API |
//! |---|---|---|
//! | `Unreachable`, `Lost` | no connection, no answer | the same |
//! | `Throttled` | – | 429 |
//! | `ServerFailed` | SERVFAIL | 5xx |
//! | `Refused` | REFUSED, NOTIMP, NOTZONE, FORMERR | 403, 405 |
//! | `Denied` | BADKEY, BADSIG, BADTIME | 401 |
//! | `Conflict` | YXRRSET, NXRRSET, YXDOMAIN, NXDOMAIN | 409, 412 |
//! | `Missing` | NOTAUTH | 404 |
//! | `Invalid` | – | 400, 422 |
//! | `TooLarge` | over 65,535 bytes | 413 |

use std::{fmt, time::Duration};

/// What kind of fault it was; retries, metrics and reasons derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The other side could not be reached; nothing was written.
    Unreachable,
    /// The message was sent and no answer came; it may or may not have been applied.
    Lost,
    /// The other side has too much to do; nothing was written.
    Throttled,
    /// The other side failed for reasons of its own.
    ServerFailed,
    /// The other side does not do what was asked.
    Refused,
    /// The key was not accepted, or the answer's signature was wrong.
    Denied,
    /// What was to be changed is not as expected; nothing was written.
    Conflict,
    /// The parent is not there: a zone, a load balancer.
    Missing,
    /// What was asked for can never be done; only asking for something else helps.
    Invalid,
    /// The message would be larger than the protocol allows.
    TooLarge,
    /// The answer could not be understood.
    Malformed,
    /// A server beside the leader does not have the newest data yet.
    Behind,
    /// It would remove too much, so it waits for a person.
    Held,
}

/// A fault with a message that says what happened and what to do.
///
/// Nobody decides by its message: that is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The code that the protocol has for it, such as a DNS response code or an HTTP status.
    pub code: Option<u16>,
    /// How long the other side asked to wait at least before the next attempt.
    pub retry_after: Option<Duration>,
    /// What happened and what to do, for a person.
    pub message: String,
}

impl Fault {
    /// A fault of a kind.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            retry_after: None,
            message: message.into(),
        }
    }

    /// The same with the protocol's code.
    #[must_use]
    pub fn with_code(self, code: impl Into<u16>) -> Self {
        let code = Some(code.into());
        Self { code, ..self }
    }

    /// The same, and the other side asked to wait that long.
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        let retry_after = Some(wait);
        Self {
            retry_after,
            ..self
        }
    }

    /// Whether it is of this kind and has this code.
    #[must_use]
    pub fn is(&self, kind: FaultKind, code: impl Into<u16>) -> bool {
        self.kind == kind && self.code == Some(code.into())
    }
}

impl FaultKind {
    /// Whether a batch that failed like this may hold one guilty child, so that halving it helps.
    #[must_use]
    pub fn may_be_one_child(self) -> bool {
        match self {
            Self::ServerFailed
            | Self::Refused
            | Self::Conflict
            | Self::Invalid
            | Self::TooLarge => true,
            Self::Unreachable
            | Self::Lost
            | Self::Throttled
            | Self::Denied
            | Self::Missing
            | Self::Malformed
            | Self::Behind
            | Self::Held => false,
        }
    }

    /// Whether the other side did not answer, so that nothing is known of it.
    #[must_use]
    pub fn is_silence(self) -> bool {
        matches!(self, Self::Unreachable | Self::Lost)
    }

    /// Whether the other side answered that it does not do it, or cannot.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::ServerFailed)
    }

    /// Whether the other side has nothing to serve: it does not know the parent, or lost its data.
    #[must_use]
    pub fn is_nothing_there(self) -> bool {
        matches!(self, Self::Missing | Self::ServerFailed)
    }

    /// Whether trying the same again is in vain.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self == Self::Invalid
    }

    /// A short word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Throttled => "throttled",
            Self::ServerFailed => "server-failed",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Conflict => "conflict",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::TooLarge => "too-large",
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

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [FaultKind; 13] = [
        FaultKind::Unreachable,
        FaultKind::Lost,
        FaultKind::Throttled,
        FaultKind::ServerFailed,
        FaultKind::Refused,
        FaultKind::Denied,
        FaultKind::Conflict,
        FaultKind::Missing,
        FaultKind::Invalid,
        FaultKind::TooLarge,
        FaultKind::Malformed,
        FaultKind::Behind,
        FaultKind::Held,
    ];

    #[test]
    fn every_kind_means_what_its_row_says() {
        // May be one child, silence, a refusal, nothing there, terminal.
        let rows = ALL.map(|kind| {
            let facts = [
                kind.may_be_one_child(),
                kind.is_silence(),
                kind.is_refusal(),
                kind.is_nothing_there(),
                kind.is_terminal(),
            ];
            let facts: String = facts
                .map(|fact| if fact { 'x' } else { '.' })
                .iter()
                .collect();
            format!("{facts} {}", kind.as_str())
        });
        let wanted = [
            ".x... unreachable",
            ".x... lost",
            "..... throttled",
            "x.xx. server-failed",
            "x.x.. refused",
            "..... denied",
            "x.... conflict",
            "...x. missing",
            "x...x invalid",
            "x.... too-large",
            "..... malformed",
            "..... behind",
            "..... held",
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn a_fault_is_known_by_kind_and_code() {
        let wait = Duration::from_secs(7);
        let fault = Fault::new(FaultKind::Throttled, "too many requests");
        assert!(!fault.is(FaultKind::Throttled, 429_u16));
        let fault = fault.with_code(429_u16).with_retry_after(wait);
        assert!(fault.is(FaultKind::Throttled, 429_u16) && fault.retry_after == Some(wait));
        assert!(!fault.is(FaultKind::Refused, 429_u16) && !fault.is(FaultKind::Throttled, 1_u16));
        assert_eq!(fault.to_string(), "too many requests");
    }
}
