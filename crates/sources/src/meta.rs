//! The part of an object's metadata that decisions need, and nothing more.

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_api::{KindInfo, Role, Scope, role};
use bindery_core::ownership::{Evidence, Trust};
use bindery_core::{Adoption, Group, Name, ObjectRef, Ownership, Record, RecordKey, ZoneKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::recording::MetadataPatch;
use crate::seal::{self, Opened};

/// The finalizer that holds an object until its records are gone from DNS.
pub const FINALIZER: &str = "bindery.dev/dns";
/// The annotation with the zone-file lines that an object has, or is about to have, in DNS; those on a
/// cluster with a name after a line that names it. On a zone, the zones that it has on servers.
pub const PUBLISHED: &str = "bindery.dev/published";
/// The annotation with a check value over what [`PUBLISHED`] says, for this very object. Where that is wiped, it
/// tells whether what the object asks for is what was written.
pub const PUBLISHED_CHECK: &str = "bindery.dev/published-check";
/// The annotation by which an author lets Bindery take over records that it did not write.
pub const ADOPT: &str = "bindery.dev/adopt";
/// The annotation by which an author lets an object go though its records cannot be removed.
pub const ABANDON: &str = "bindery.dev/abandon";
/// The annotation on a zone that lets a held plan through: its digest.
pub const ALLOW_PLAN: &str = "bindery.dev/allow-plan";
/// The annotation that a folder of manifests puts on a zone which none of its files declares any longer,
/// with the file that did: the zone is kept until somebody deletes it by name.
pub const NO_LONGER_DECLARED: &str = "bindery.dev/no-longer-declared";
/// The annotation on endpoints that says on which cluster their zones are, where several have the name.
pub const CLUSTER: &str = "bindery.dev/cluster";
/// The annotation with the name of the zone that a record is in, as bindy's users know it.
pub const ZONE: &str = "bindy.firestoned.io/zone";

/// What begins a line before the lines on a cluster; a comment in a zone file.
const ON_CLUSTER: &str = "; on cluster ";

/// Whether an object is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Nobody asked for its deletion.
    Alive,
    /// It goes as soon as its finalizers are gone.
    Deleting,
}

/// What is kept of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Which object it is.
    pub object: Arc<ObjectRef>,
    /// Its resource version. Kubernetes orders versions of one kind as whole numbers.
    pub version: u64,
    /// Its generation.
    pub generation: i64,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is to stay.
    pub life: Life,
    /// Whether it has [`FINALIZER`].
    pub has_finalizer: bool,
    /// The lines that the object may have in DNS, as far as Bindery knows: by what it wrote into
    /// [`PUBLISHED`] and into the status, and what it remembers. On a zone, its zones on servers.
    pub published: Box<str>,
    annotation: Annotation,
    confirmed: Confirmed,
    /// The text of [`ZONE`], which many share.
    pub zone: Option<Arc<str>>,
    /// What [`ADOPT`] says.
    pub adoption: Adoption,
    /// Whether [`ABANDON`] says that it may go without its records being removed.
    pub abandoned: bool,
    /// What few objects have.
    uncommon: Option<Box<Uncommon>>,
}

/// How the annotation [`PUBLISHED`] compares with what the object is known to own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotation {
    /// It was read and is not compared yet.
    Unresolved(Trust),
    /// It records just that.
    Current,
    /// It has to be written anew.
    Outdated,
    /// It has to be written anew, because somebody else changed it.
    Tampered,
}

/// Which of the owned records the status confirms: they were seen in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confirmed {
    Nothing,
    /// All that are owned, as nearly always.
    All,
    /// Those among the uncommon fields.
    Listed,
}

/// What few objects have: of a hundred thousand, every field would be felt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uncommon {
    others: Box<[Box<str>]>,
    allowed: Option<Box<str>>,
    undeclared: Option<Box<str>>,
    cluster: Option<Box<str>>,
    confirmed: Box<str>,
    /// What [`PUBLISHED_CHECK`] says, where [`PUBLISHED`] says nothing.
    check: Option<Box<str>>,
}

impl Meta {
    /// What is kept of this object's metadata; `None` where it has no name, UID or version, or no namespace
    /// though its kind has them, which no API server gives out.
    #[must_use]
    pub fn read(row: &KindInfo, meta: &ObjectMeta) -> Option<Self> {
        let namespace = match row.scope {
            Scope::Namespaced => meta.namespace.as_deref()?,
            Scope::Cluster => "",
        };
        let object = ObjectRef {
            kind: row.kind,
            namespace: namespace.into(),
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
        };
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let note = |key| meta.annotations.as_ref()?.get(key).map(String::as_str);
        let others = finalizers.iter().filter(|one| *one != FINALIZER);
        let (trust, published) = match note(PUBLISHED).map(|text| seal::open(&object, text)) {
            Some(Opened::Own(lines)) => (Trust::Own, lines),
            Some(Opened::Former(lines)) => (Trust::Former, lines),
            Some(Opened::Unsealed(lines)) => (Trust::Unsealed, lines),
            Some(Opened::Broken) | None => (Trust::Nothing, ""),
        };
        let check = note(PUBLISHED_CHECK).filter(|_| trust == Trust::Nothing);
        let uncommon = Uncommon {
            others: others.map(|one| one.as_str().into()).collect(),
            allowed: note(ALLOW_PLAN).map(Into::into),
            undeclared: note(NO_LONGER_DECLARED).map(Into::into),
            cluster: note(CLUSTER).map(Into::into),
            confirmed: Box::default(),
            check: check.map(Into::into),
        };
        Some(Self {
            published: published.into(),
            annotation: Annotation::Unresolved(trust),
            confirmed: Confirmed::Nothing,
            object: Arc::new(object),
            version: meta.resource_version.as_deref()?.parse().ok()?,
            generation: meta.generation.unwrap_or_default(),
            created: meta
                .creation_timestamp
                .as_ref()
                .map_or(0, |time| time.0.as_second()),
            life: match meta.deletion_timestamp {
                Some(_) => Life::Deleting,
                None => Life::Alive,
            },
            has_finalizer: finalizers.iter().any(|one| one == FINALIZER),
            zone: note(ZONE).map(Into::into),
            abandoned: note(ABANDON) == Some("true"),
            uncommon: (uncommon != Uncommon::default()).then(|| Box::new(uncommon)),
            adoption: match note(ADOPT) {
                Some("true") => Adoption::Take,
                Some(_) | None => Adoption::Refuse,
            },
        })
    }

    /// How it is known what the object owns. Every kind that is read today is ours, or made for a controller
    /// like ours, so that its objects take an annotation and a finalizer. What reads objects that are not
    /// ours to write into, such as Services, answers something else here.
    #[must_use]
    pub const fn ownership(&self) -> Ownership {
        Ownership::Object
    }

    /// The finalizers of others.
    #[must_use]
    pub fn other_finalizers(&self) -> &[Box<str>] {
        self.uncommon
            .as_ref()
            .map_or(&[], |uncommon| &uncommon.others)
    }

    /// What [`ALLOW_PLAN`] says.
    #[must_use]
    pub fn allowed_plan(&self) -> Option<&str> {
        self.uncommon.as_ref()?.allowed.as_deref()
    }

    /// What [`NO_LONGER_DECLARED`] says: the file that declared the object once.
    #[must_use]
    pub fn undeclared(&self) -> Option<&str> {
        self.uncommon.as_ref()?.undeclared.as_deref()
    }

    /// What [`CLUSTER`] says.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.uncommon.as_ref()?.cluster.as_deref()
    }

    /// Whether nothing tells what the object has, though something was written for it.
    #[must_use]
    pub fn is_wiped(&self) -> bool {
        self.has_finalizer && self.published.is_empty() && self.check().is_some()
    }

    /// Whether these lines are what was written for the object, of which nothing else tells any more.
    pub(crate) fn recognises(&self, lines: &str) -> bool {
        let check = seal::check_text(&self.object, lines);
        self.is_wiped() && !lines.is_empty() && self.check() == Some(&check)
    }

    fn check(&self) -> Option<&str> {
        self.uncommon.as_ref()?.check.as_deref()
    }

    /// The records that the object owns, that is has or may have in DNS, and on which servers.
    #[must_use]
    pub fn owned_records(&self) -> Vec<(Group, Record)> {
        parse_records(&self.published)
    }

    /// The sets that were seen in DNS, by what the status says, where these are the lines that the object may
    /// have.
    pub(crate) fn confirmed(&self, known: &[(Group, Record)]) -> BTreeSet<(Group, RecordKey)> {
        let key = |(group, line): &(Group, Record)| (group.clone(), line.key());
        match self.confirmed {
            Confirmed::Nothing => BTreeSet::new(),
            Confirmed::All => known.iter().map(key).collect(),
            Confirmed::Listed => parse_records(self.confirmed_text())
                .iter()
                .map(key)
                .collect(),
        }
    }

    /// What is known, sealed as it stands in annotation and status; `None` where it is nothing.
    #[must_use]
    pub fn sealed(&self) -> Option<String> {
        let text = &self.published;
        (!text.is_empty()).then(|| seal::seal(&self.object, text))
    }

    /// The lines that were seen in DNS, by what the status says.
    #[must_use]
    pub fn confirmed_text(&self) -> &str {
        match self.confirmed {
            Confirmed::Nothing => "",
            Confirmed::All => &self.published,
            Confirmed::Listed => self
                .uncommon
                .as_ref()
                .map_or("", |uncommon| &uncommon.confirmed),
        }
    }

    fn set_confirmed(&mut self, text: &str) {
        if let Some(uncommon) = &mut self.uncommon {
            uncommon.confirmed = Box::default();
        }
        self.confirmed = if text.is_empty() {
            Confirmed::Nothing
        } else if *text == *self.published {
            Confirmed::All
        } else {
            self.uncommon.get_or_insert_default().confirmed = text.into();
            Confirmed::Listed
        };
        if self.uncommon.as_deref() == Some(&Uncommon::default()) {
            self.uncommon = None;
        }
    }

    /// Takes in what the object's status says to have been in DNS. An annotation without a seal is of an
    /// earlier version only where a controller has spoken and holds the object.
    #[must_use]
    pub fn with_status(mut self, status: &Value) -> Self {
        if let Some(text) = status["published"].as_str()
            && let Opened::Own(lines) = seal::open(&self.object, text)
        {
            self.set_confirmed(lines);
        }
        let spoken = self.has_finalizer && !status["observedGeneration"].is_null();
        if self.annotation == Annotation::Unresolved(Trust::Unsealed) && !spoken {
            let confirmed = self.confirmed_text().to_owned();
            self.published = Box::default();
            self.set_confirmed(&confirmed);
            self.annotation = Annotation::Unresolved(Trust::Nothing);
        }
        self
    }

    /// Makes of what was read and of what is remembered what is known: nothing that Bindery wrote is
    /// forgotten because somebody else edited the annotation, and nothing becomes Bindery's by that.
    pub(crate) fn resolve(&mut self, known: Option<&Self>) {
        let Annotation::Unresolved(trust) = self.annotation else {
            return;
        };
        let confirmed: Box<str> = self.confirmed_text().into();
        let noted = std::mem::take(&mut self.published);
        let evidence = Evidence {
            memory: known.map(|known| &*known.published),
            annotation: &*noted,
            trust,
            status: (!confirmed.is_empty()).then_some(&*confirmed),
        };
        let (before, more) = evidence.owned();
        let before = before.unwrap_or_default();
        self.published = self.union(before, more.unwrap_or_default());
        let is_ours = match trust {
            Trust::Own => true,
            // It is sealed when something else has to be written.
            Trust::Unsealed => known.is_none() && confirmed.is_empty(),
            Trust::Nothing => self.published.is_empty(),
            Trust::Former => false,
        };
        self.annotation = if is_ours && *noted == *self.published {
            Annotation::Current
        } else if self.is_changed((known, before), (trust, &noted)) {
            Annotation::Tampered
        } else {
            Annotation::Outdated
        };
        self.set_confirmed(&confirmed);
    }

    /// Whether somebody else changed an annotation that is not as it should be, or we are about to.
    fn is_changed(
        &self,
        (known, before): (Option<&Self>, &str),
        (trust, noted): (Trust, &str),
    ) -> bool {
        let is_left = match (trust, known) {
            // Of a restored object, or as a crash left it.
            (Trust::Own | Trust::Former, None) => true,
            // We let some of it go, and it says so soon.
            (Trust::Own, Some(_)) => *self.union(before, noted) == *noted,
            // Of an earlier version.
            (Trust::Unsealed, None) => *noted == *self.published,
            (Trust::Nothing, None) | (Trust::Nothing | Trust::Former | Trust::Unsealed, _) => false,
        };
        !before.is_empty() && !is_left
    }

    /// From now on the object owns these lines and no others.
    pub(crate) fn set_owned(&mut self, lines: &str) {
        let confirmed = self.confirmed_text().to_owned();
        self.published = lines.into();
        self.annotation = Annotation::Outdated;
        self.set_confirmed(&confirmed);
    }

    /// Goes on as if a patch had been written.
    pub(crate) fn suppose(&mut self, patch: &MetadataPatch) {
        self.has_finalizer = patch.has_finalizer();
        if let Some(lines) = patch.owned() {
            self.set_owned(lines);
            self.annotation = Annotation::Current;
        }
        self.zone = patch.zone_after(self.zone.as_deref()).map(Into::into);
        self.version += 1;
    }

    /// Compares the annotation again, as the answer to a write shows it.
    pub(crate) fn confirm(&mut self, mut answer: Self) {
        answer.resolve(Some(self));
        if answer.published == self.published {
            self.annotation = answer.annotation;
        }
    }

    /// Whether the annotation records what the object owns.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        matches!(
            self.annotation,
            Annotation::Current | Annotation::Unresolved(Trust::Own | Trust::Unsealed)
        )
    }

    /// Whether somebody else changed the annotation, so that it is written back.
    #[must_use]
    pub fn is_tampered(&self) -> bool {
        self.annotation == Annotation::Tampered
    }

    fn union(&self, one: &str, other: &str) -> Box<str> {
        if one == other || other.is_empty() {
            return one.into();
        }
        if one.is_empty() {
            return other.into();
        }
        match role(self.object.kind) {
            Role::Zone => {
                let all = parse_zones(one).chain(parse_zones(other));
                owned_zones_text(&all.collect()).into()
            }
            Role::Record | Role::Endpoints => {
                // A value is ours whatever its TTL: where both have it, it counts once, as the other says.
                let mut all = parse_records(other);
                let value = |(group, record): &(Group, Record)| {
                    (group.clone(), record.key(), record.data.clone())
                };
                let known: BTreeSet<_> = all.iter().map(value).collect();
                let more = parse_records(one).into_iter();
                all.extend(more.filter(|record| !known.contains(&value(record))));
                text(all).into()
            }
        }
    }

    /// The zones that a zone object owns, that is has or may have on servers.
    #[must_use]
    pub fn owned_zones(&self) -> Vec<ZoneKey> {
        parse_zones(&self.published).collect()
    }

    /// Whether anything but the version differs.
    #[must_use]
    pub fn same_but_version(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.version = self.version;
        *self == other
    }
}

/// The lines of a text, and on which servers. A line that cannot be read was not written by us.
#[must_use]
pub fn parse_records(text: &str) -> Vec<(Group, Record)> {
    let mut group = Group::UNNAMED;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(ON_CLUSTER) {
            group = Group::named(name);
        } else if let Ok(record) = line.parse() {
            lines.push((group.clone(), record));
        }
    }
    lines
}

fn parse_zones(text: &str) -> impl Iterator<Item = ZoneKey> {
    text.lines().filter_map(|line| {
        let (name, group) = match line.split_once(' ') {
            Some((name, cluster)) => (name, Group::named(cluster)),
            None => (line, Group::UNNAMED),
        };
        let name = Name::parse(name).ok()?;
        Some(ZoneKey { name, group })
    })
}

/// Zones on servers as a text, the same for the same zones.
pub(crate) fn owned_zones_text(places: &BTreeSet<ZoneKey>) -> String {
    let line = |place: &ZoneKey| match place.group.name() {
        Some(cluster) => format!("{} {cluster}", place.name),
        None => place.name.to_string(),
    };
    places.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Lines as they stand in the status of an object.
#[must_use]
pub fn sealed(object: &ObjectRef, lines: Vec<(Group, Record)>) -> String {
    seal::seal(object, &text(lines))
}

/// Lines as a text, the same for the same lines.
pub(crate) fn text(mut lines: Vec<(Group, Record)>) -> String {
    lines.sort();
    lines.dedup();
    let mut text: Vec<String> = Vec::with_capacity(lines.len());
    let mut above = &Group::UNNAMED;
    for (group, record) in &lines {
        if group != above {
            let name = group.name().unwrap_or_default();
            text.push(format!("{ON_CLUSTER}{name}"));
            above = group;
        }
        text.push(record.to_string());
    }
    text.join("\n")
}
