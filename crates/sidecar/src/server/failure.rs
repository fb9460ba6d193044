//! A request that is not carried out: its code, and what is told.

use std::error::Error as _;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bindery_bind::rndc::RndcFault;
use bindery_core::{FaultKind, Reason};
use http::{HeaderValue, StatusCode, header};

use crate::content::ContentProblem;
use crate::named::NamedFault;
use crate::statement::ValueProblem;
use crate::wire::ErrorAnswer;

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotDone {
    pub(super) code: StatusCode,
    pub(super) error: String,
    pub(super) details: Option<String>,
    pub(super) reason: Option<Reason>,
    pub(super) retry_after: Option<Duration>,
}

impl NotDone {
    pub(super) fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self {
            code,
            error: error.into(),
            details: None,
            reason: None,
            retry_after: None,
        }
    }

    pub(super) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn with_details(self, details: impl Into<String>) -> Self {
        let details = Some(details.into());
        Self { details, ..self }
    }

    /// The same with how long to wait before it is tried again.
    pub(super) fn after(self, wait: Duration) -> Self {
        let retry_after = Some(wait);
        Self {
            retry_after,
            ..self
        }
    }
}

impl IntoResponse for NotDone {
    fn into_response(self) -> Response {
        let said = ErrorAnswer {
            error: self.error,
            details: self.details,
            reason: self.reason.map(|reason| reason.as_str().to_owned()),
        };
        let mut response = json(self.code, &said);
        if let Some(wait) = self.retry_after {
            // Whole seconds, and at least one.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.code == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// An answer in JSON.
pub(super) fn json(code: StatusCode, value: &impl serde::Serialize) -> Response {
    let text = serde_json::to_vec(value).expect("our answers have text for keys");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl From<ContentProblem> for NotDone {
    fn from(problem: ContentProblem) -> Self {
        Self::bad_request(format!("invalid request: {problem}"))
    }
}

impl From<ValueProblem> for NotDone {
    fn from(problem: ValueProblem) -> Self {
        Self::bad_request(format!("invalid request: {problem}"))
    }
}

impl From<NamedFault> for NotDone {
    fn from(fault: NamedFault) -> Self {
        let source = fault.source().map(ToString::to_string);
        let code = match &fault {
            NamedFault::NoSuchZone { .. } => StatusCode::NOT_FOUND,
            NamedFault::Exists { .. } | NamedFault::Dynamic { .. } | NamedFault::Ignored { .. } => {
                StatusCode::CONFLICT
            }
            NamedFault::Refused { .. } | NamedFault::TooLong { .. } => StatusCode::BAD_REQUEST,
            NamedFault::NoUpdateKey => StatusCode::NOT_IMPLEMENTED,
            NamedFault::Control(RndcFault::Connection { source, .. })
                if source.kind() == std::io::ErrorKind::TimedOut =>
            {
                StatusCode::GATEWAY_TIMEOUT
            }
            NamedFault::Control(RndcFault::Connection { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            NamedFault::Control(_) | NamedFault::Unreadable { .. } | NamedFault::Disk { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            NamedFault::Dns(fault) => dns_code(fault.0.kind),
        };
        let mut failure = Self::new(code, fault.to_string());
        failure.details = source;
        if let NamedFault::Refused { said, .. } = &fault {
            failure.details = Some(said.clone());
        }
        if let NamedFault::Control(RndcFault::Denied { .. } | RndcFault::Signature) = &fault {
            failure.reason = Some(Reason::RNDCAuthenticationFailed);
        }
        failure
    }
}

/// The code for a fault of an update.
fn dns_code(kind: FaultKind) -> StatusCode {
    match kind {
        FaultKind::Unreachable | FaultKind::Throttled => StatusCode::SERVICE_UNAVAILABLE,
        FaultKind::Lost => StatusCode::GATEWAY_TIMEOUT,
        // The zone takes no updates, or none by this key.
        FaultKind::Refused | FaultKind::Invalid | FaultKind::TooLarge => StatusCode::BAD_REQUEST,
        FaultKind::Missing => StatusCode::NOT_FOUND,
        FaultKind::Conflict => StatusCode::CONFLICT,
        FaultKind::ServerFailed
        | FaultKind::Denied
        | FaultKind::Malformed
        | FaultKind::Behind
        | FaultKind::Held => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
