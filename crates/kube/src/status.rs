//! Statuses: what is kept of the one that stands in an object, and when it is written anew.

mod writing;

pub(crate) use writing::{FirstReport, first_report, write_status};

use std::hash::{DefaultHasher, Hash, Hasher};

use bindery_api::{Role, role, time_text};
use bindery_core::{Condition, ConditionStatus, ConditionType, Kind, Moment, Reason, Uid};
use serde_json::{Map, Value, json};

/// Fields that hold times, which do not make a status another one.
const TIMES: [&str; 3] = ["lastTransitionTime", "lastUpdated", "lastReconciledAt"];

/// What is kept of a status as it was read from an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedStatus {
    /// Of everything but times and the conditions of others.
    pub(crate) digest: u64,
    /// Since when each of our conditions has its status.
    conditions: Box<[KnownCondition]>,
    /// Whether others write conditions too.
    pub(crate) has_others: bool,
    /// The time of the last change in DNS.
    pub(crate) updated: Option<Moment>,
    /// A number for the hash of what was published.
    pub(crate) hash: Option<u64>,
}

/// One of our conditions as it was read from a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownCondition {
    kind: ConditionType,
    status: ConditionStatus,
    /// `None` where an older or newer Bindery used a word that we do not know.
    reason: Option<Reason>,
    since: Moment,
}

impl ObservedStatus {
    /// What is kept of a status.
    pub(crate) fn read(status: &Value) -> Self {
        let all = status["conditions"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        Self {
            digest: digest(status),
            conditions: all.iter().filter_map(condition).collect(),
            has_others: all.iter().any(|one| condition_type(one).is_none()),
            updated: status["lastUpdated"].as_str().and_then(moment),
            hash: status["recordHash"].as_str().map(short),
        }
    }

    /// Whether nothing was ever said.
    pub(crate) fn is_blank(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Since when a condition has this status, if it is `now` that it is written.
    pub(crate) fn since(&self, condition: &Condition, now: Moment) -> Moment {
        self.conditions
            .iter()
            .find(|one| (one.kind, one.status) == (condition.kind, condition.status))
            .map_or(now, |one| one.since)
    }

    /// Why a condition holds, where it does.
    pub(crate) fn holds(&self, kind: ConditionType) -> Option<Reason> {
        let mut conditions = self.conditions.iter();
        let one = conditions.find(|one| one.kind == kind)?;
        one.reason.filter(|_| one.status == ConditionStatus::True)
    }

    /// What the main condition of an object of this kind says.
    pub(crate) fn main_condition(&self, kind: Kind) -> Option<MainCondition> {
        let find = |kind| self.conditions.iter().find(|one| one.kind == kind);
        let is_good = |one: &KnownCondition| one.status == ConditionStatus::True;
        let main = match role(kind) {
            Role::Endpoints => find(ConditionType::Accepted)
                .filter(|accepted| !is_good(accepted))
                .or_else(|| find(ConditionType::Programmed)),
            Role::Zone | Role::Record => find(ConditionType::Ready),
        };
        main.and_then(|main| {
            Some(MainCondition {
                good: is_good(main),
                reason: main.reason?,
            })
        })
    }
}

/// The main condition of an object, without its message: Ready, or of a `DNSEndpoint` the first of
/// Accepted and Programmed that is not true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MainCondition {
    pub(crate) good: bool,
    pub(crate) reason: Reason,
}

impl MainCondition {
    pub(crate) fn of(condition: &Condition) -> Self {
        Self {
            good: condition.status == ConditionStatus::True,
            reason: condition.reason,
        }
    }
}

/// The status that was last written, and what the API server made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastWritten {
    pub(crate) wanted: u64,
    pub(crate) stored: u64,
}

/// An object's status: as it was last read and as it was last written.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusCache {
    pub(crate) observed: ObservedStatus,
    pub(crate) last_written: Option<LastWritten>,
    /// A write is on its way, so what is seen may be older than what is told.
    pub(crate) writing: bool,
}

impl StatusCache {
    /// Whether this status has to be written. A field that the server does not keep is not written
    /// over and over.
    pub(crate) fn differs(&self, wanted: u64) -> bool {
        match self.last_written {
            Some(last) => last.wanted != wanted || last.stored != self.observed.digest,
            None => self.observed.digest != wanted,
        }
    }

    /// Whether the object has a condition of ours, or is about to.
    pub(crate) fn is_reported(&self) -> bool {
        self.last_written.is_some() || !self.observed.is_blank()
    }

    /// Whether something else stands there than what we wrote last.
    pub(crate) fn is_overwritten(&self) -> bool {
        let last = self.last_written.filter(|_| !self.writing);
        last.is_some_and(|last| last.stored != self.observed.digest)
    }
}

/// Conditions as they stand in a status.
pub(crate) fn conditions(conditions: &[Condition], seen: &ObservedStatus, now: Moment) -> Value {
    let written = conditions.iter().map(|condition| {
        json!({
            "type": condition.kind.as_str(),
            "status": condition.status.as_str(),
            "reason": condition.reason.as_str(),
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": time_text(seen.since(condition, now)),
        })
    });
    Value::Array(written.collect())
}

/// A status with the conditions of others, as they stand in the object, added.
pub(crate) fn keep_others(status: &mut Value, standing: &Value) {
    let others = standing["conditions"].as_array().into_iter().flatten();
    let others: Vec<Value> = others
        .filter(|one| condition_type(one).is_none())
        .cloned()
        .collect();
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.extend(others);
    }
}

/// The body of a merge patch that makes a status this one, for this object and no namesake of it.
pub(crate) fn body(uid: &Uid, version: Option<u64>, status: &Value) -> Value {
    let mut metadata = json!({ "uid": uid.to_string() });
    if let Some(version) = version {
        metadata["resourceVersion"] = version.to_string().into();
    }
    json!({ "metadata": metadata, "status": status })
}

/// A number for what a status says, whatever the times in it.
pub(crate) fn digest(status: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Value::Object(fields) = status {
        let ours = fields.get("conditions").and_then(Value::as_array);
        for one in ours.into_iter().flatten() {
            if condition_type(one).is_some() {
                feed(one, &mut hasher);
            }
        }
        feed_fields(fields, &["conditions"], &mut hasher);
    }
    hasher.finish()
}

/// A number for a text, where keeping the text would cost more than it is worth.
pub(crate) fn short(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn feed(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => feed_fields(fields, &[], hasher),
        Value::Array(items) => items.iter().for_each(|item| feed(item, hasher)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.to_string().hash(hasher);
        }
    }
}

fn feed_fields(fields: &Map<String, Value>, but: &[&str], hasher: &mut DefaultHasher) {
    let mut fields: Vec<(&String, &Value)> = fields
        .iter()
        .filter(|(key, value)| {
            !value.is_null() && !TIMES.contains(&key.as_str()) && !but.contains(&key.as_str())
        })
        .collect();
    fields.sort_by_key(|(key, _)| *key);
    for (key, value) in fields {
        key.hash(hasher);
        feed(value, hasher);
    }
}

fn condition(value: &Value) -> Option<KnownCondition> {
    let status = match value["status"].as_str()? {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let since = moment(value["lastTransitionTime"].as_str()?)?;
    Some(KnownCondition {
        kind: condition_type(value)?,
        status,
        reason: value["reason"].as_str().and_then(Reason::from_word),
        since,
    })
}

fn condition_type(value: &Value) -> Option<ConditionType> {
    ConditionType::from_word(value["type"].as_str()?)
}

/// A time as it stands in a status.
pub(crate) fn moment(text: &str) -> Option<Moment> {
    let time: k8s_openapi::jiff::Timestamp = text.parse().ok()?;
    Some(Moment(time.as_second()))
}

#[cfg(test)]
mod tests {
    use bindery_core::Reason;

    use super::*;

    fn ready(status: ConditionStatus) -> Condition {
        Condition {
            kind: ConditionType::Ready,
            status,
            reason: Reason::ReconcileSucceeded,
            message: "served".to_owned(),
            observed_generation: 1,
        }
    }

    fn status(condition: &Condition, seen: &ObservedStatus, now: i64) -> Value {
        let conditions = conditions(std::slice::from_ref(condition), seen, Moment(now));
        json!({ "conditions": conditions, "zone": "example.com", "addresses": null })
    }

    #[test]
    fn times_and_nulls_and_others_do_not_make_another_status() {
        let first = status(
            &ready(ConditionStatus::True),
            &ObservedStatus::default(),
            10,
        );
        let mut second = status(
            &ready(ConditionStatus::True),
            &ObservedStatus::default(),
            99,
        );
        let audited = json!({"type": "Audited", "status": "True"});
        second["conditions"]
            .as_array_mut()
            .expect("a list")
            .push(audited);
        second["lastUpdated"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(digest(&first), digest(&second));
        assert!(ObservedStatus::read(&second).has_others);
        second["zone"] = "example.net".into();
        assert_ne!(digest(&first), digest(&second));
    }

    #[test]
    fn a_condition_keeps_the_time_since_when_it_is_so() {
        let seen = ObservedStatus::read(&status(
            &ready(ConditionStatus::True),
            &ObservedStatus::default(),
            10,
        ));
        let same = status(&ready(ConditionStatus::True), &seen, 50);
        assert_eq!(
            same["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:10Z"
        );
        let other = status(&ready(ConditionStatus::False), &seen, 50);
        assert_eq!(
            other["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:50Z"
        );
    }

    #[test]
    fn what_the_server_drops_is_not_written_over_and_over() {
        let mut memory = StatusCache::default();
        assert!(memory.differs(7));
        memory.last_written = Some(LastWritten {
            wanted: 7,
            stored: 3,
        });
        memory.observed.digest = 3;
        assert!(!memory.differs(7));
        assert!(memory.differs(8));
        memory.observed.digest = 4;
        assert!(memory.differs(7));
    }

    #[test]
    fn conditions_of_others_are_kept() {
        let standing = json!({"conditions": [
            {"type": "Audited", "status": "True"}, {"type": "Ready", "status": "False"},
        ]});
        let mut wanted = status(&ready(ConditionStatus::True), &ObservedStatus::default(), 1);
        keep_others(&mut wanted, &standing);
        let types: Vec<&str> = wanted["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|condition| condition["type"].as_str())
            .collect();
        assert_eq!(types, ["Ready", "Audited"]);
    }
}
