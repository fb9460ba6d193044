//! What the answers of a sidecar, and its silence, mean for a condition. Nothing here asks anybody.

use std::time::Duration;

use bindery_core::{Fault, FaultKind, Reason};
use thiserror::Error;

use crate::wire::ErrorAnswer;

/// An answer that says that a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The code of HTTP.
    pub code: u16,
    /// What the sidecar says; its whole text where it is not the usual object.
    pub said: ErrorAnswer,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
}

/// Why a request to a sidecar was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SidecarFault {
    /// It answered that it does not do it.
    #[error("{} ({})", .0.said.error, .0.code)]
    Answered(Answered),
    /// There is no connection to it; nothing was done.
    #[error("cannot connect to Bindcar API at {address}: {why}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Why not.
        why: String,
    },
    /// The connection ended before the answer; it may have been done.
    #[error("the connection to Bindcar API at {address} ended before the answer: {why}")]
    CutOff {
        /// Where it is.
        address: String,
        /// How.
        why: String,
    },
    /// No answer came in time; it may have been done.
    #[error("cannot connect to Bindcar API at {address}: no answer within {limit:?}")]
    TimedOut {
        /// Where it is.
        address: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer is not what such a request is answered with.
    #[error("the answer of Bindcar API at {address} cannot be read: {why}")]
    Malformed {
        /// Where it is.
        address: String,
        /// Why not.
        why: String,
    },
}

/// The reason of a condition for a code of HTTP that is no success.
///
/// ```
/// use bindery_core::Reason;
/// assert_eq!(bindery_sidecar::reason_of(404), Reason::ZoneNotFound);
/// assert_eq!(bindery_sidecar::reason_of(418), Reason::BindcarUnreachable);
/// ```
#[must_use]
pub const fn reason_of(code: u16) -> Reason {
    match code {
        400 => Reason::BindcarBadRequest,
        401 | 403 => Reason::BindcarAuthFailed,
        404 => Reason::ZoneNotFound,
        500 => Reason::BindcarInternalError,
        501 => Reason::BindcarNotImplemented,
        502..=504 => Reason::GatewayError,
        _ => Reason::BindcarUnreachable,
    }
}

impl Answered {
    /// The reason of a condition: the one that the sidecar names, or else that of the code.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let named = self.said.reason.as_deref().and_then(Reason::from_word);
        named.unwrap_or_else(|| reason_of(self.code))
    }

    /// What it means, with the code, as the end of a sentence about a pod.
    fn failure(&self) -> String {
        let what = match self.code {
            400 => "reports an invalid request to Bindcar API",
            401 | 403 => "reports that Bindcar authentication failed",
            404 => "reports that zone or resource is not found in BIND9",
            500 => "reports an internal error of Bindcar API",
            501 => "reports an operation not supported by Bindcar",
            502..=504 => "reports a gateway error reaching Bindcar",
            _ => "reports an unexpected HTTP error from Bindcar",
        };
        let more = match (self.said.error.as_str(), &self.said.details) {
            ("", None) => String::new(),
            ("", Some(details)) => format!(": {details}"),
            (error, None) => format!(": {error}"),
            (error, Some(details)) => format!(": {error}: {details}"),
        };
        format!("{what} ({}){more}", self.code)
    }
}

impl SidecarFault {
    /// What the sidecar tells beside the error: mostly the words of `named`.
    #[must_use]
    pub fn details(&self) -> Option<&str> {
        match self {
            Self::Answered(answered) => answered.said.details.as_deref(),
            Self::Unreachable { .. }
            | Self::CutOff { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. } => None,
        }
    }

    /// The reason of a condition.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Answered(answered) => answered.reason(),
            Self::Unreachable { .. }
            | Self::CutOff { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. } => Reason::BindcarUnreachable,
        }
    }

    /// The code of HTTP, where there was an answer.
    #[must_use]
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Answered(answered) => Some(answered.code),
            Self::Unreachable { .. }
            | Self::CutOff { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. } => None,
        }
    }

    /// The message of a condition about the pod, in one line.
    #[must_use]
    pub fn message(&self, pod: &str) -> String {
        let failure = match self {
            Self::Answered(answered) => answered.failure(),
            Self::Unreachable { .. } | Self::TimedOut { .. } => self.to_string(),
            Self::CutOff { .. } | Self::Malformed { .. } => {
                format!("cannot connect to Bindcar API: {self}")
            }
        };
        format!("Pod {pod} {failure}")
    }

    /// The fault as the engine knows faults.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let kind = match self {
            Self::Unreachable { .. } => FaultKind::Unreachable,
            Self::CutOff { .. } | Self::TimedOut { .. } => FaultKind::Lost,
            Self::Malformed { .. } => FaultKind::Malformed,
            Self::Answered(answered) => match answered.code {
                400 | 415 | 422 => FaultKind::Invalid,
                401 => FaultKind::Denied,
                403 | 405 | 501 => FaultKind::Refused,
                404 => FaultKind::Missing,
                409 | 412 => FaultKind::Conflict,
                413 => FaultKind::TooLarge,
                429 => FaultKind::Throttled,
                500..=599 => FaultKind::ServerFailed,
                _ => FaultKind::Malformed,
            },
        };
        let mut fault = Fault::new(kind, self.to_string());
        fault.code = self.code();
        if let Self::Answered(answered) = self {
            fault.retry_after = answered.retry_after;
        }
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, body: &str) -> SidecarFault {
        SidecarFault::Answered(Answered {
            code,
            said: serde_json::from_str(body).unwrap(),
            retry_after: None,
        })
    }

    #[test]
    fn every_code_has_the_reason_that_the_table_gives_it() {
        let table = [
            (400, "BindcarBadRequest"),
            (401, "BindcarAuthFailed"),
            (403, "BindcarAuthFailed"),
            (404, "ZoneNotFound"),
            (500, "BindcarInternalError"),
            (501, "BindcarNotImplemented"),
            (502, "GatewayError"),
            (503, "GatewayError"),
            (504, "GatewayError"),
            (302, "BindcarUnreachable"),
            (409, "BindcarUnreachable"),
            (418, "BindcarUnreachable"),
            (429, "BindcarUnreachable"),
            (505, "BindcarUnreachable"),
        ];
        for (code, reason) in table {
            let fault = answered(code, r#"{"error": "no", "details": null}"#);
            assert_eq!(fault.reason().as_str(), reason, "{code}");
            let message = fault.message("primary-0");
            assert!(message.starts_with("Pod primary-0 reports "), "{message}");
            assert!(message.contains(&format!(" ({code}): no")), "{message}");
        }
    }

    #[test]
    fn silence_is_a_sidecar_that_cannot_be_reached() {
        let address = "127.0.0.1:8080".to_owned();
        let why = "connection refused".to_owned();
        let refused = SidecarFault::Unreachable { address, why };
        assert_eq!(refused.reason(), Reason::BindcarUnreachable);
        assert_eq!(
            refused.message("primary-0"),
            "Pod primary-0 cannot connect to Bindcar API at 127.0.0.1:8080: connection refused"
        );
        let late = SidecarFault::TimedOut {
            address: "127.0.0.1:8080".to_owned(),
            limit: Duration::from_secs(5),
        };
        assert_eq!(late.reason(), Reason::BindcarUnreachable);
        assert_eq!(late.fault().kind, FaultKind::Lost);
    }

    #[test]
    fn a_reason_that_the_sidecar_names_counts_more_than_the_code() {
        let body =
            r#"{"error": "no", "details": "bad auth", "reason": "RNDCAuthenticationFailed"}"#;
        let fault = answered(500, body);
        assert_eq!(fault.reason(), Reason::RNDCAuthenticationFailed);
        assert!(fault.message("p").ends_with("(500): no: bad auth"));
        let body = r#"{"error": "no", "details": null, "reason": "Something"}"#;
        assert_eq!(answered(500, body).reason(), Reason::BindcarInternalError);
    }
}
