//! One object in one line.

use bindery_api::{Role, role, trimmed_metadata};
use bindery_core::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde::Deserialize;

/// The lines that an object has in DNS, or is about to have.
const PUBLISHED: &str = "bindery.dev/published";

/// What the view reads of an object, and no more: it looks at every change of all of them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ShownObject {
    #[serde(default, deserialize_with = "trimmed_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    zone_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    zone: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

bindery_api::dynamic_resource!(ShownObject);

/// Which object a line is about. Zones come first, then records, then endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) role: Role,
    pub(crate) kind: Kind,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    Failing,
    Pending,
    Ready,
}

/// What is to be said about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRow {
    pub(crate) health: Health,
    /// `Ready`, `Programmed`, or the reason why not.
    pub(crate) word: Box<str>,
    pub(crate) detail: Box<str>,
    /// Whether something is held back until somebody says that it is meant.
    pub(crate) held: bool,
}

impl RowKey {
    /// The key of an object of `kind`.
    pub(crate) fn new(kind: Kind, object: &ShownObject) -> Self {
        Self {
            role: role(kind),
            kind,
            namespace: object.namespace().unwrap_or_default().into(),
            name: object.name_any().into(),
        }
    }

    /// The object as users write it.
    pub(crate) fn text(&self) -> String {
        let kind = self.kind.as_str().to_lowercase();
        match &*self.namespace {
            "" => format!("{kind}/{}", self.name),
            namespace => format!("{kind}/{namespace}/{}", self.name),
        }
    }
}

impl ObjectRow {
    /// What the object's status says.
    pub(crate) fn new(role: Role, object: &ShownObject) -> Self {
        let row = Self::plain(role, object);
        let conditions = object.status.conditions.iter();
        let mut held =
            conditions.filter(|found| found.r#type == "Guarded" && found.status == "True");
        let Some(held) = held.next() else {
            return row;
        };
        let message = held.message.replace('\n', " ");
        let (word, detail) = match row.health {
            Health::Ready => (held.reason.as_str().into(), message),
            // What else is wrong comes first.
            Health::Failing | Health::Pending if row.detail.is_empty() => (row.word, message),
            Health::Failing | Health::Pending => (row.word, format!("{}; {message}", row.detail)),
        };
        Self {
            health: row.health.min(Health::Pending),
            word,
            detail: detail.into(),
            held: true,
        }
    }

    fn plain(role: Role, object: &ShownObject) -> Self {
        let silent = Condition::default();
        let said = condition(role, &object.status.conditions).unwrap_or(&silent);
        let is_current = said.observed_generation == object.metadata.generation;
        if object.metadata.deletion_timestamp.is_some() {
            // What still holds it is of interest, how good it was is not.
            let held = said.status == "False";
            let detail = if held {
                said.message.clone()
            } else {
                String::new()
            };
            return Self {
                health: Health::Pending,
                word: "Deleting".into(),
                detail: detail.into(),
                held: false,
            };
        }
        let (health, word, detail) = match &*said.status {
            // What is said about an older version of the object says nothing about this one.
            "True" | "False" if !is_current => {
                (Health::Pending, "Pending".to_owned(), String::new())
            }
            "True" => (Health::Ready, said.r#type.clone(), detail(role, object)),
            "False" => (Health::Failing, said.reason.clone(), said.message.clone()),
            _ => (Health::Pending, "Pending".to_owned(), said.message.clone()),
        };
        // Reasons of work under way are no cause for alarm.
        let under_way = ["Pending", "Progressing", "ZoneNotReady"].contains(&word.as_str());
        let health = if health == Health::Failing && under_way {
            Health::Pending
        } else {
            health
        };
        Self {
            health,
            word: word.into(),
            detail: detail.replace('\n', " ").into(),
            held: false,
        }
    }
}

/// The condition that sums the others up.
fn condition(role: Role, conditions: &[Condition]) -> Option<&Condition> {
    let find = |kind: &str| conditions.iter().find(|found| found.r#type == kind);
    match role {
        Role::Zone | Role::Record => find("Ready"),
        Role::Endpoints => {
            let refused = find("Accepted").filter(|accepted| accepted.status == "False");
            refused.or_else(|| find("Programmed"))
        }
    }
}

fn detail(role: Role, object: &ShownObject) -> String {
    let annotations = object.annotations();
    let published = annotations.get(PUBLISHED).map(|lines| published(lines));
    match role {
        Role::Zone => object.spec.zone_name.clone().unwrap_or_default(),
        Role::Record => {
            let zone = object.status.zone.as_deref().unwrap_or_default();
            format!("{zone} {}", published.unwrap_or_default())
                .trim()
                .to_owned()
        }
        Role::Endpoints => published.unwrap_or_default(),
    }
}

/// Zone-file lines without TTL and class, one name and type after the other.
fn published(lines: &str) -> String {
    let mut text = String::new();
    let mut last = None;
    for line in lines.lines().filter(|line| !line.starts_with(';')) {
        let mut words = line.splitn(5, ' ');
        let (Some(name), _, _, Some(rtype), Some(data)) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) else {
            continue;
        };
        if last == Some((name, rtype)) {
            text.push(' ');
            text.push_str(data);
        } else {
            let comma = if text.is_empty() { "" } else { ", " };
            text.extend([comma, name, " ", rtype, " ", data]);
        }
        last = Some((name, rtype));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, metadata: &str, status: &str) -> String {
        let text = format!(
            "{{apiVersion: v1, kind: {kind}, spec: {{zoneName: example.com}}, \
             metadata: {{name: x, namespace: default, generation: 2, {metadata}}}, \
             status: {status}}}"
        );
        let object: ShownObject = serde_saphyr::from_str(&text).expect("a fixture is YAML");
        let kind = Kind::ALL.into_iter().find(|one| one.as_str() == kind);
        let key = RowKey::new(kind.expect("a kind of ours"), &object);
        let row = ObjectRow::new(key.role, &object);
        format!("{} {} {}", key.text(), row.word, row.detail)
    }

    #[test]
    fn a_record_shows_its_zone_and_what_is_published() {
        let annotations = "annotations: {bindery.dev/published: \
            \"www.example.com. 300 IN A 192.0.2.1\\nwww.example.com. 300 IN A 192.0.2.2\"}";
        let status = "{zone: example.com, conditions: \
            [{type: Ready, status: 'True', reason: R, message: m, observedGeneration: 2}]}";
        assert_eq!(
            check("ARecord", annotations, status),
            "arecord/default/x Ready example.com www.example.com. A 192.0.2.1 192.0.2.2"
        );
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_reason() {
        let status = "{conditions: [{type: Ready, status: 'False', reason: Conflict, \
            message: \"taken by b\", observedGeneration: 2}]}";
        assert_eq!(
            check("ARecord", "", status),
            "arecord/default/x Conflict taken by b"
        );
        assert_eq!(check("ARecord", "", "{}"), "arecord/default/x Pending ");
    }

    #[test]
    fn what_was_said_about_an_older_version_does_not_count() {
        let status = "{conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}";
        assert_eq!(check("ARecord", "", status), "arecord/default/x Pending ");
    }

    #[test]
    fn an_endpoint_that_is_not_accepted_says_so() {
        let status = "{conditions: [\
            {type: Programmed, status: 'True', reason: P, message: m, observedGeneration: 2},\
            {type: Accepted, status: 'False', reason: NoMatchingZone, message: 'no zone', \
             observedGeneration: 2}]}";
        assert_eq!(
            check("DNSEndpoint", "", status),
            "dnsendpoint/default/x NoMatchingZone no zone"
        );
    }

    #[test]
    fn a_zone_that_is_held_says_so_and_is_not_well() {
        let held = "{type: Guarded, status: 'True', reason: Held, message: 'removing 30 is held'}";
        let ready = |status: &str| {
            format!(
                "{{conditions: [{held}, {{type: Ready, status: '{status}', reason: Timeout, \
                 message: 'no answer', observedGeneration: 2}}]}}"
            )
        };
        assert_eq!(
            check("DNSZone", "", &ready("True")),
            "dnszone/default/x Held removing 30 is held"
        );
        assert_eq!(
            check("DNSZone", "", &ready("False")),
            "dnszone/default/x Timeout no answer; removing 30 is held"
        );
        let deleting = "deletionTimestamp: '2026-01-01T00:00:00Z'";
        assert_eq!(
            check("DNSZone", deleting, &ready("True")),
            "dnszone/default/x Deleting removing 30 is held"
        );
    }

    #[test]
    fn a_zone_shows_its_name() {
        let status = "{conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}";
        assert_eq!(
            check("DNSZone", "", status),
            "dnszone/default/x Ready example.com"
        );
    }
}
