//! What went wrong, in words that say what to do.

use bindery_core::{Fault, FaultKind, Name};
use domain::tsig::ValidationError;

use super::{Server, u64_of};
use crate::key::Key;
use crate::wire::{Message, rcode, rtype};

impl Server {
    fn key_name(&self) -> String {
        self.key
            .as_ref()
            .map_or_else(|| "(no key)".to_owned(), Key::name)
    }

    /// Nothing was written.
    pub(super) fn unreachable(&self, reason: &str) -> Fault {
        Fault::new(
            FaultKind::Unreachable,
            format!(
                "name server {} cannot be reached: {reason}; check that it runs and that TCP to \
                 this port is open",
                self.address
            ),
        )
    }

    /// The outcome is unknown.
    pub(super) fn lost(&self, reason: &str) -> Fault {
        Fault::new(
            FaultKind::Lost,
            format!("name server {} did not answer: {reason}", self.address),
        )
    }

    pub(super) fn malformed(&self) -> Fault {
        Fault::new(
            FaultKind::Malformed,
            format!(
                "name server {} sent an answer that is not valid DNS",
                self.address
            ),
        )
    }

    pub(super) fn too_long(&self) -> Fault {
        Fault::new(
            FaultKind::TooLarge,
            format!("the message to {} would exceed 65535 bytes", self.address),
        )
    }

    pub(super) fn no_such_zone(&self, zone: &Name) -> Fault {
        Fault::new(
            FaultKind::Missing,
            format!(
                "name server {} does not serve zone {zone}; add it there as a primary zone, or let \
                 it answer queries for it from here",
                self.address
            ),
        )
    }

    /// A query was answered with an error.
    pub(super) fn query_refused(&self, zone: &Name, code: u8) -> Fault {
        match code {
            // Servers without recursion refuse names of zones that they do not have.
            rcode::REFUSED | rcode::NOTAUTH | rcode::NXDOMAIN => self.no_such_zone(zone),
            rcode::SERVFAIL => self.refusal(
                code,
                &format!("cannot serve zone {zone}; look for the zone in its log"),
            ),
            _ => self.refusal(code, &format!("did not answer a query in zone {zone}")),
        }
    }

    /// A transfer was answered with an error.
    pub(super) fn transfer_refused(&self, zone: &Name, code: u8) -> Fault {
        match code {
            rcode::NOTAUTH | rcode::NXDOMAIN => self.no_such_zone(zone),
            rcode::REFUSED => self.refusal(
                code,
                &format!(
                    "does not let key \"{key}\" transfer zone {zone}; allow it there, in \
                     named.conf with `allow-transfer {{ key \"{key}\"; }};`",
                    key = self.key_name()
                ),
            ),
            _ => self.refusal(code, &format!("did not transfer zone {zone}")),
        }
    }

    /// An update was answered with an error.
    pub(super) fn update_refused(&self, zone: &Name, code: u8) -> Fault {
        let prerequisite = |what: &str| {
            let message = format!("zone {zone} on {} has changed: {what}", self.address);
            Fault::new(FaultKind::Conflict, message).with_code(code)
        };
        match code {
            rcode::YXRRSET => prerequisite("a record set exists that should not (YXRRSET)"),
            rcode::NXRRSET => prerequisite("a record set is not as expected (NXRRSET)"),
            rcode::YXDOMAIN => prerequisite("a name exists that should not (YXDOMAIN)"),
            rcode::NXDOMAIN => prerequisite("a name that should exist does not (NXDOMAIN)"),
            rcode::NOTAUTH => self.no_such_zone(zone),
            rcode::REFUSED => self.refusal(
                code,
                &format!(
                    "does not let key \"{key}\" update zone {zone}; allow it there, in \
                     named.conf with `allow-update {{ key \"{key}\"; }};` or an `update-policy`",
                    key = self.key_name()
                ),
            ),
            rcode::NOTZONE => {
                self.refusal(code, &format!("says that a name is not in zone {zone}"))
            }
            rcode::NOTIMP => self.refusal(
                code,
                &format!("does not take updates of zone {zone}; it must be a dynamic primary zone"),
            ),
            _ => self.refusal(
                code,
                &format!("did not apply an update of zone {zone}; its log says why"),
            ),
        }
    }

    fn refusal(&self, code: u8, what: &str) -> Fault {
        let kind = match code {
            rcode::SERVFAIL => FaultKind::ServerFailed,
            _ => FaultKind::Refused,
        };
        let code_name = rcode::name(code);
        let message = format!("name server {} {what} ({code_name})", self.address);
        Fault::new(kind, message).with_code(code)
    }

    /// The signature of an answer does not hold, or the server did not accept ours.
    ///
    /// What the answer says is only a hint then, but it is the best there is.
    pub(super) fn bad_signature(&self, error: ValidationError, answer: &[u8]) -> Fault {
        let key = self.key_name();
        let server = &self.address;
        let hint = Message::parse(answer).unwrap_or_default();
        if matches!(error, ValidationError::ServerUnsigned) && hint.head.rcode == rcode::FORMERR {
            // A message that cannot be read has no signature that could be answered.
            return self.refusal(rcode::FORMERR, "could not read a message");
        }
        let message = match Complaint::of(error, &hint) {
            Complaint::Key => format!(
                "name server {server} does not know key \"{key}\" (BADKEY); give it the same \
                 key, name and algorithm included"
            ),
            Complaint::Signature => format!(
                "key \"{key}\" has another secret on name server {server} (BADSIG); give both \
                 sides the same"
            ),
            Complaint::Time(theirs) => {
                let apart = theirs.map_or_else(
                    || "more than 300".to_owned(),
                    |theirs| theirs.abs_diff((self.clock)()).to_string(),
                );
                format!(
                    "the clock of name server {server} differs from ours by {apart} seconds, \
                     and 300 are allowed (BADTIME); set both by NTP"
                )
            }
            Complaint::Unsigned => format!(
                "name server {server} answered {} without a signature; check that it has key \
                 \"{key}\"",
                rcode::name(hint.head.rcode)
            ),
            Complaint::Other => {
                format!("name server {server} signed its answer wrongly: {error}")
            }
        };
        Fault::new(FaultKind::Denied, message)
    }

    /// Whether the kept connection is gone, so that asking again is asking anew.
    pub(super) async fn is_gone(&self, fault: &Fault) -> bool {
        match fault.kind {
            FaultKind::Lost | FaultKind::Unreachable => {
                let kept = self.link.lock().await;
                // An overdue answer has had its time; a closed connection is worth another try.
                kept.as_ref().is_some_and(|link| link.is_broken())
            }
            FaultKind::Throttled
            | FaultKind::ServerFailed
            | FaultKind::Refused
            | FaultKind::Denied
            | FaultKind::Conflict
            | FaultKind::Missing
            | FaultKind::Invalid
            | FaultKind::TooLarge
            | FaultKind::Malformed
            | FaultKind::Behind
            | FaultKind::Held => false,
        }
    }
}

/// What is wrong with a signature.
enum Complaint {
    Key,
    Signature,
    /// With the server's time, if it said.
    Time(Option<u64>),
    Unsigned,
    Other,
}

impl Complaint {
    fn of(error: ValidationError, answer: &Message) -> Self {
        match tsig_error(answer) {
            Some((rcode::BADKEY, _)) => return Self::Key,
            Some((rcode::BADSIG, _)) => return Self::Signature,
            Some((rcode::BADTIME, theirs)) => return Self::Time(theirs),
            Some(_) | None => {}
        }
        match error {
            ValidationError::ServerBadKey | ValidationError::BadKey => Self::Key,
            ValidationError::ServerBadSig | ValidationError::BadSig => Self::Signature,
            ValidationError::ServerBadTime { server, .. } => Self::Time(Some(u64_of(server))),
            ValidationError::BadTime => Self::Time(None),
            ValidationError::ServerUnsigned => Self::Unsigned,
            ValidationError::BadAlg
            | ValidationError::BadOther
            | ValidationError::BadTrunc
            | ValidationError::FormErr
            | ValidationError::TooManyUnsigned => Self::Other,
        }
    }
}

/// The error and the time in an answer's TSIG record (RFC 8945 section 4.2).
fn tsig_error(answer: &Message) -> Option<(u16, Option<u64>)> {
    let row = answer
        .additional
        .last()
        .filter(|row| row.rtype == rtype::TSIG)?;
    let (_, rest) = Name::read_wire(&row.rdata).ok()?;
    let mac_len = rest.get(8..10)?.first_chunk::<2>()?;
    let after_mac = rest.get(10 + usize::from(u16::from_be_bytes(*mac_len))..)?;
    let error = after_mac.get(2..4)?.first_chunk::<2>()?;
    let other = after_mac.get(6..).filter(|other| other.len() == 6);
    let time = other.map(|other| {
        other
            .iter()
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    });
    Some((u16::from_be_bytes(*error), time))
}
