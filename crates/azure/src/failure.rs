//! What an answer of Azure means that is not the one that was hoped for.

use bindery_core::{Fault, FaultKind};
use http::StatusCode;

use crate::transport::AzureReply;
use crate::wire::{ErrorBody, ErrorDetail, Outcome};

/// How much of Azure's words is kept.
const SAID_LEN_MAX: usize = 600;

/// The code of a removal while addresses are bound.
const OVERLAY: &str = "ServiceWithOverlayMappingsCannotBeDeleted";

/// Whether a request asks or changes something: an error says less about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Question,
    Change,
}

/// The fault that an answer tells of. `what` is what was tried.
pub(crate) fn fault(what: &str, reply: &AzureReply, act: Attempt) -> Fault {
    let said = said(reply);
    let wait = reply.retry_after();
    let status = reply.status;
    let kind = known_kind(&said).unwrap_or_else(|| kind_of_status(status, wait.is_some(), act));
    let words = words(&said);
    let number = status.as_u16();
    let fault = Fault::new(kind, format!("{what}: {number} {words}")).with_code(number);
    match wait {
        Some(wait) => fault.with_retry_after(wait),
        None => fault,
    }
}

/// The fault of an operation that ended badly, or of an answer that is an error although its status is not.
pub(crate) fn failed(what: &str, error: &ErrorBody) -> Fault {
    let kind = known_kind(error).unwrap_or(match error.code.as_str() {
        "InternalServerError" | "InternalError" | "GatewayTimeout" | "OperationPreempted" => {
            FaultKind::Lost
        }
        _ => FaultKind::Refused,
    });
    Fault::new(kind, format!("{what}: {}", words(error)))
}

/// The fault of an answer that cannot be read.
pub(crate) fn malformed(what: &str, error: &serde_json::Error) -> Fault {
    let text = format!("{what}: the answer cannot be understood: {error}");
    Fault::new(FaultKind::Malformed, text)
}

/// The error that an answer has, whatever its status.
pub(crate) fn error_in(outcome: Outcome) -> Option<ErrorBody> {
    let failed = outcome.status.as_deref().is_some_and(|status| {
        let ends = ["Failed", "Canceled", "Cancelled"];
        ends.iter().any(|one| status.eq_ignore_ascii_case(one))
    });
    let error = outcome.error.filter(|error| !error.code.is_empty());
    error.or_else(|| failed.then(ErrorBody::default))
}

fn said(reply: &AzureReply) -> ErrorBody {
    let outcome: Result<Outcome, _> = serde_json::from_slice(&reply.body);
    let error = outcome.ok().and_then(|outcome| outcome.error);
    error.unwrap_or_else(|| {
        // A proxy, or a part of Azure that speaks no JSON.
        let text = String::from_utf8_lossy(&reply.body);
        ErrorBody {
            message: text.trim().to_owned(),
            ..ErrorBody::default()
        }
    })
}

/// What codes mean that say more than their status.
fn known_kind(error: &ErrorBody) -> Option<FaultKind> {
    let is_said = error.message.contains(OVERLAY)
        || error.details.iter().any(|one| {
            let ErrorDetail { code, message } = one;
            code == OVERLAY || message.contains(OVERLAY)
        });
    let code = error.code.as_str();
    if code == OVERLAY || is_said {
        return Some(FaultKind::Conflict);
    }
    match code {
        // Somebody else changes it at the moment; nothing was written.
        "AnotherOperationInProgress"
        | "RetryableError"
        | "ReferencedResourceNotProvisioned"
        | "TooManyRequests"
        | "SubscriptionRequestsThrottled"
        | "OperationNotAllowedWhileUpdating" => Some(FaultKind::Throttled),
        "AuthorizationFailed" | "LinkedAuthorizationFailed" | "InvalidAuthenticationToken" => {
            Some(FaultKind::Denied)
        }
        // Somebody may raise it, or free something: another spec does not help.
        _ if code.contains("Quota") || code.ends_with("LimitReached") => Some(FaultKind::Refused),
        _ if code.starts_with("InUse") || code.ends_with("CannotBeDeleted") => {
            Some(FaultKind::Refused)
        }
        _ => None,
    }
}

fn kind_of_status(status: StatusCode, asks_to_wait: bool, act: Attempt) -> FaultKind {
    match status.as_u16() {
        400 | 422 => FaultKind::Invalid,
        401 => FaultKind::Denied,
        403 | 405 => FaultKind::Refused,
        404 => FaultKind::Missing,
        409 | 412 => FaultKind::Conflict,
        413 => FaultKind::TooLarge,
        429 => FaultKind::Throttled,
        503 if asks_to_wait => FaultKind::Throttled,
        // Nobody says whether it was done.
        408 | 500..=599 if act == Attempt::Change => FaultKind::Lost,
        408 | 500..=599 => FaultKind::ServerFailed,
        _ => FaultKind::Malformed,
    }
}

/// Azure's own words, cut where they get too long to read.
fn words(error: &ErrorBody) -> String {
    let mut text = [error.code.as_str(), error.message.as_str()]
        .into_iter()
        .filter(|one| !one.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    for detail in &error.details {
        let known = text.contains(&detail.message);
        if !known && !detail.message.is_empty() {
            text.push_str("; ");
            text.push_str(&detail.message);
        }
    }
    if text.is_empty() {
        "without a reason".clone_into(&mut text);
    }
    if let Some((end, _)) = text.char_indices().nth(SAID_LEN_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn reply(status: u16, body: &str) -> AzureReply {
        AzureReply {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        }
    }

    fn kind(status: u16, code: &str) -> FaultKind {
        let body = format!(r#"{{"error":{{"code":"{code}","message":"as the test says"}}}}"#);
        fault("try", &reply(status, &body), Attempt::Change).kind
    }

    #[test]
    fn every_status_and_code_has_its_kind() {
        for (status, code, wanted) in [
            (400, "InvalidRequestFormat", FaultKind::Invalid),
            (422, "Unprocessable", FaultKind::Invalid),
            (400, "PublicIPCountLimitReached", FaultKind::Refused),
            (400, "MaxPublicIpCountLimitReached", FaultKind::Refused),
            (403, "QuotaExceeded", FaultKind::Refused),
            (403, "RequestDisallowedByPolicy", FaultKind::Refused),
            (403, "AuthorizationFailed", FaultKind::Denied),
            (401, "ExpiredAuthenticationToken", FaultKind::Denied),
            (404, "ResourceNotFound", FaultKind::Missing),
            (409, "Whatever", FaultKind::Conflict),
            (409, "AnotherOperationInProgress", FaultKind::Throttled),
            (429, "TooManyRequests", FaultKind::Throttled),
            (400, OVERLAY, FaultKind::Conflict),
            (
                400,
                "InUsePublicIpAddressCannotBeDeleted",
                FaultKind::Refused,
            ),
            (500, "InternalServerError", FaultKind::Lost),
            (503, "ServiceUnavailable", FaultKind::Lost),
            (504, "GatewayTimeout", FaultKind::Lost),
            (413, "RequestEntityTooLarge", FaultKind::TooLarge),
            (418, "", FaultKind::Malformed),
        ] {
            assert_eq!(kind(status, code), wanted, "{status} {code}");
        }
        let asked = fault("read", &reply(502, "bad gateway"), Attempt::Question);
        assert_eq!(asked.kind, FaultKind::ServerFailed);
        assert_eq!(asked.message, "read: 502 bad gateway");
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        for (name, value, millis) in [
            ("retry-after", "7", 7_000),
            ("retry-after-ms", "250", 250),
            ("x-ms-retry-after-ms", "30", 30),
            ("retry-after", "999999", 3_600_000),
        ] {
            let mut reply = reply(503, "");
            let value = value.parse().expect("a value");
            reply.headers.insert(name, value);
            let fault = fault("try", &reply, Attempt::Change);
            assert_eq!(fault.kind, FaultKind::Throttled);
            let wait = fault.retry_after.expect("it asks for one");
            assert_eq!(wait.as_millis(), millis, "{name}");
        }
    }

    #[test]
    fn an_overlay_is_found_wherever_azure_says_so() {
        let body = format!(
            r#"{{"error":{{"code":"BadRequest","message":"no","details":[{{"code":"{OVERLAY}","message":"m"}}]}}}}"#
        );
        let fault = fault("remove", &reply(400, &body), Attempt::Change);
        assert_eq!(fault.kind, FaultKind::Conflict);
        assert_eq!(fault.message, "remove: 400 BadRequest: no; m");
    }

    #[test]
    fn an_error_with_a_good_status_is_an_error() {
        let read = |text: &str| error_in(serde_json::from_str(text).expect("JSON"));
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"status":"Succeeded"}"#), None);
        assert!(read(r#"{"status":"Failed"}"#).is_some());
        let error = read(r#"{"error":{"code":"DuplicateLocationsInRequest"}}"#);
        let fault = failed("bind", &error.expect("it is one"));
        assert_eq!(fault.kind, FaultKind::Refused);
    }
}
