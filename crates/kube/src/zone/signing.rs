//! What a zone's status says about signing.

use bindery_core::zones::{SigningPolicy, SigningReport, SigningTrouble};
use bindery_core::{ConditionStatus, Name, Reason};
use serde_json::{Value, json};

use super::conditions::{Statement, reason};
use super::observe::Observed;
use crate::context::Management;

/// Why a zone is not signed as its author wants it, and what to do.
pub(super) fn trouble(observed: &Observed) -> Option<(Reason, String)> {
    let SigningPolicy::Named(policy) = &observed.signing else {
        return None;
    };
    observed.owned()?;
    if !is_managed(observed) {
        let message = "spec.dnssecPolicy: not acted on, since Bindery does not manage the server: \
                       have its own configuration sign the zone";
        return Some((Reason::Unsupported, message.to_owned()));
    }
    let said = match &report(observed)?.trouble {
        None => return None,
        Some(SigningTrouble::Unsupported) => (
            Reason::Unsupported,
            "the server of this zone cannot sign, so it is served unsigned: use servers with named"
                .to_owned(),
        ),
        Some(SigningTrouble::NoPolicy(said)) => (
            Reason::PolicyNotFound,
            format!(
                "the server cannot sign by the policy {policy} ({said}): use \"default\", or declare it with \
                 spec.global.dnssec.signing of the cluster"
            ),
        ),
        Some(SigningTrouble::SeveralPrimaries(count)) => (
            Reason::SeveralPrimaries,
            format!(
                "the zone is not signed: {count} primaries have it, and each would sign it with keys of its \
                 own, which resolvers take for a forgery: give it one primary and any number of secondaries"
            ),
        ),
        Some(SigningTrouble::Failing(fault)) => (reason(fault), fault.to_string()),
    };
    let (reason, message) = said;
    Some((reason, format!("spec.dnssecPolicy: {message}")))
}

/// Whether Bindery could have the server of a zone sign it.
fn is_managed(observed: &Observed) -> bool {
    let config = observed.owned().and_then(|owned| owned.config.as_ref());
    config.is_none_or(|config| config.management == Management::Managed)
}

/// Whether a zone is signed, where it is or is to be.
pub(super) fn signed(observed: &Observed) -> Option<Statement> {
    let is_named = matches!(observed.signing, SigningPolicy::Named(_));
    let report = report(observed)?;
    if !report.is_known || !(is_named || report.has_keys) {
        return None;
    }
    let status = if report.is_complete {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    if let Some((reason, message)) = trouble(observed) {
        return Some((status, reason, message));
    }
    let (reason, message) = match (&observed.signing, report.is_complete) {
        (SigningPolicy::Named(_), false) => (Reason::Progressing, "it is being signed".to_owned()),
        (SigningPolicy::Named(_), true) => (Reason::Signed, parent(observed, report)),
        (SigningPolicy::Unsigned, _) => (
            Reason::Progressing,
            "its keys are taken out; named waits with that for keys whose DS it was told of: once the zone \
             above has no DS any more, say so with rndc dnssec -checkds withdrawn"
                .to_owned(),
        ),
        (SigningPolicy::Unsaid, _) if !is_managed(observed) => {
            (Reason::Signed, parent(observed, report))
        }
        (SigningPolicy::Unsaid, _) => (
            Reason::Signed,
            format!(
                "{}; spec.dnssecPolicy is not set, and the zone stays signed: where it is not to be, take its DS \
                 out of the zone above, wait as long as its TTL, then set spec.dnssecPolicy to \"none\"",
                parent(observed, report)
            ),
        ),
    };
    Some((status, reason, message))
}

/// What the zone above is to have.
fn parent(observed: &Observed, report: &SigningReport) -> String {
    let ds = records(observed, report).join(" and ");
    let left_out = match report.left_out {
        0 => String::new(),
        count => format!(
            "; {count} more primaries do not have the zone, since only one signs it: take their names out of \
             its NS records"
        ),
    };
    format!("signed; the zone above is to have {ds}{left_out}")
}

/// What the status has of it.
pub(super) fn status(observed: &Observed) -> Value {
    let Some(report) = report(observed).filter(|report| report.is_known) else {
        // Until the zone was read, what was told before is all that the next process has.
        return observed.told_signing.clone();
    };
    let is_named = matches!(observed.signing, SigningPolicy::Named(_));
    if !is_named && !report.has_keys {
        return Value::Null;
    }
    let mut status = json!({ "signed": report.is_complete });
    let event = observed.owned().and_then(|owned| owned.event.as_ref());
    let leader = event.and_then(|event| event.leader.as_ref());
    if let Some(leader) = leader.filter(|_| report.has_keys) {
        status["signer"] = leader.id.as_str().into();
    }
    if let Some(first) = report.ds.first() {
        status["dsRecords"] = records(observed, report).into();
        status["keyTag"] = first.key_tag.into();
        status["algorithm"] = first.algorithm_name().into();
    }
    status
}

fn records(observed: &Observed, report: &SigningReport) -> Vec<String> {
    let zone = observed.wanted.as_ref().map(|zone| &zone.name);
    let zone = zone.map(Name::to_string).unwrap_or_default();
    let ds = report.ds.iter();
    ds.map(|ds| format!("{zone} IN DS {ds}")).collect()
}

fn report(observed: &Observed) -> Option<&SigningReport> {
    let event = observed.owned()?.event.as_ref()?;
    Some(&event.signing)
}
