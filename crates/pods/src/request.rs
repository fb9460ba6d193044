//! Requests to the Kubernetes API, and what became of those that failed.

use std::time::Duration;

use kube::api::{PatchParams, PostParams};

/// Who writes, as it stands in the managed fields.
const FIELD_MANAGER: &str = "bindery-pods";

/// How long a request may take. API servers end requests of their own after a minute.
const ANSWER_MAX: Duration = Duration::from_secs(65);

/// A request that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestFault {
    #[error("listing {kind} failed")]
    List {
        kind: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("watching {kind} failed")]
    Watch {
        kind: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("creating {object} failed")]
    Create {
        object: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("writing {object} failed")]
    Write {
        object: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("deleting {object} failed")]
    Delete {
        object: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("a request about {what} got no answer in time")]
    Await { what: String },
}

/// What kind of fault it was; what to do follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultClass {
    /// Try again.
    Transient,
    /// It is not as was thought, or is there already: look again.
    Conflict,
    /// It is not there.
    Missing,
    /// The history that a watch wants to begin at is gone; list again.
    Expired,
    /// The API server refuses.
    Denied,
}

impl RequestFault {
    pub(crate) fn class(&self) -> FaultClass {
        let source = match self {
            Self::List { source, .. }
            | Self::Watch { source, .. }
            | Self::Create { source, .. }
            | Self::Write { source, .. }
            | Self::Delete { source, .. } => source,
            Self::Await { .. } => return FaultClass::Transient,
        };
        let kube::Error::Api(status) = &**source else {
            return FaultClass::Transient;
        };
        match status.code {
            404 => FaultClass::Missing,
            409 => FaultClass::Conflict,
            410 => FaultClass::Expired,
            400 | 401 | 403 | 405 | 413 | 415 | 422 => FaultClass::Denied,
            _ => FaultClass::Transient,
        }
    }

    /// All of it in one line.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            // What `#[source]` gives of a box is the box.
            let inner = error.downcast_ref::<Box<kube::Error>>();
            if let Some(kube::Error::Api(status)) = inner.map(|inner| &**inner) {
                return format!("{line}: {}", status.message);
            }
            line = format!("{line}: {error}");
            cause = error.source();
        }
        line
    }
}

/// A request that hangs must not hold its object for ever.
pub(crate) async fn in_time<T>(
    what: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
    wrap: impl FnOnce(Box<kube::Error>) -> RequestFault,
) -> Result<T, RequestFault> {
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(answer) => answer.map_err(|source| wrap(Box::new(source))),
        Err(_) => Err(RequestFault::Await {
            what: what.to_owned(),
        }),
    }
}

pub(crate) fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

pub(crate) fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
