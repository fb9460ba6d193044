//! The part of an object's metadata that decisions need, and nothing more.

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_core::{Adoption, Group, Kind, Name, ObjectRef, Record, RecordKey, ZoneKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::seal::{self, Opened};

/// The finalizer that holds an object until its records are gone from DNS.
pub const FINALIZER: &str = "bindery.dev/dns";
/// The annotation with the zone-file lines that an object has, or is about to have, in DNS; those on a
/// cluster with a name after a line that names it. On a zone, the zones that it has on servers.
pub const PUBLISHED: &str = "bindery.dev/published";
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
    /// Whether it carries [`FINALIZER`].
    pub held: bool,
    /// The lines that the object may have in DNS, as far as Bindery knows: by what it wrote into
    /// [`PUBLISHED`] and into the status, and what it remembers. On a zone, its zones on servers.
    pub published: Box<str>,
    written: Written,
    had: Had,
    /// The text of [`ZONE`].
    pub zone: Option<Box<str>>,
    /// What [`ADOPT`] says.
    pub adoption: Adoption,
    /// Whether [`ABANDON`] says that it may go without its records being removed.
    pub abandoned: bool,
    /// What few objects have.
    rare: Option<Box<Rare>>,
}

/// How the annotation that stands compares with what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// It was read and not compared yet.
    Read(Worth),
    /// It says just that.
    Alike,
    /// It has to be written anew.
    Otherwise,
    /// So it has, because somebody else changed it.
    Tampered,
}

/// What an annotation is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    Nothing,
    Own,
    Former,
    Unsealed,
}

/// Which lines the status says to have been in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Had {
    Nothing,
    /// Those that are published, as nearly always.
    All,
    /// Those among the rare fields.
    Listed,
}

/// What few objects have: of a hundred thousand, every field would be felt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rare {
    others: Box<[Box<str>]>,
    allowed: Option<Box<str>>,
    undeclared: Option<Box<str>>,
    cluster: Option<Box<str>>,
    had: Box<str>,
}

impl Meta {
    /// What is kept of this object's metadata; `None` where it has no name, namespace or UID, which
    /// no API server gives out.
    #[must_use]
    pub fn read(kind: Kind, meta: &ObjectMeta) -> Option<Self> {
        let object = ObjectRef {
            kind,
            namespace: meta.namespace.as_deref()?.into(),
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
        };
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let note = |key| meta.annotations.as_ref()?.get(key).map(String::as_str);
        let others = finalizers.iter().filter(|one| *one != FINALIZER);
        let rare = Rare {
            others: others.map(|one| one.as_str().into()).collect(),
            allowed: note(ALLOW_PLAN).map(Into::into),
            undeclared: note(NO_LONGER_DECLARED).map(Into::into),
            cluster: note(CLUSTER).map(Into::into),
            had: Box::default(),
        };
        let (worth, published) = match note(PUBLISHED).map(|text| seal::open(&object, text)) {
            Some(Opened::Own(lines)) => (Worth::Own, lines),
            Some(Opened::Former(lines)) => (Worth::Former, lines),
            Some(Opened::Unsealed(lines)) => (Worth::Unsealed, lines),
            Some(Opened::Broken) | None => (Worth::Nothing, ""),
        };
        Some(Self {
            published: published.into(),
            written: Written::Read(worth),
            had: Had::Nothing,
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
            held: finalizers.iter().any(|one| one == FINALIZER),
            zone: note(ZONE).map(Into::into),
            abandoned: note(ABANDON) == Some("true"),
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
            adoption: match note(ADOPT) {
                Some("true") => Adoption::Take,
                Some(_) | None => Adoption::Refuse,
            },
        })
    }

    /// The finalizers of others.
    #[must_use]
    pub fn others(&self) -> &[Box<str>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.others)
    }

    /// What [`ALLOW_PLAN`] says.
    #[must_use]
    pub fn allowed(&self) -> Option<&str> {
        self.rare.as_ref()?.allowed.as_deref()
    }

    /// What [`NO_LONGER_DECLARED`] says: the file that declared the object once.
    #[must_use]
    pub fn undeclared(&self) -> Option<&str> {
        self.rare.as_ref()?.undeclared.as_deref()
    }

    /// What [`CLUSTER`] says.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.rare.as_ref()?.cluster.as_deref()
    }

    /// The lines that the object may have in DNS, and on which servers.
    #[must_use]
    pub fn lines(&self) -> Vec<(Group, Record)> {
        lines(&self.published)
    }

    /// The sets that were seen in DNS, by what the status says, where these are the lines that the object may
    /// have.
    pub(crate) fn had(&self, known: &[(Group, Record)]) -> BTreeSet<(Group, RecordKey)> {
        let key = |(group, line): &(Group, Record)| (group.clone(), line.key());
        match self.had {
            Had::Nothing => BTreeSet::new(),
            Had::All => known.iter().map(key).collect(),
            Had::Listed => lines(self.had_text()).iter().map(key).collect(),
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
    pub fn had_text(&self) -> &str {
        match self.had {
            Had::Nothing => "",
            Had::All => &self.published,
            Had::Listed => self.rare.as_ref().map_or("", |rare| &rare.had),
        }
    }

    fn set_had(&mut self, text: &str) {
        if let Some(rare) = &mut self.rare {
            rare.had = Box::default();
        }
        self.had = if text.is_empty() {
            Had::Nothing
        } else if *text == *self.published {
            Had::All
        } else {
            self.rare.get_or_insert_default().had = text.into();
            Had::Listed
        };
        if self.rare.as_deref() == Some(&Rare::default()) {
            self.rare = None;
        }
    }

    /// Takes in what the object's status says to have been in DNS. An annotation without a seal is of an
    /// earlier version only where a controller has spoken and holds the object.
    #[must_use]
    pub fn recalling(mut self, status: &Value) -> Self {
        if let Some(text) = status["published"].as_str()
            && let Opened::Own(lines) = seal::open(&self.object, text)
        {
            self.set_had(lines);
        }
        let spoken = self.held && !status["observedGeneration"].is_null();
        if self.written == Written::Read(Worth::Unsealed) && !spoken {
            let had = self.had_text().to_owned();
            self.published = Box::default();
            self.set_had(&had);
            self.written = Written::Read(Worth::Nothing);
        }
        self
    }

    /// Makes of what was read and of what is remembered what is known: nothing that Bindery wrote is
    /// forgotten because somebody else edited the annotation, and nothing becomes Bindery's by that.
    pub(crate) fn resolve(&mut self, known: Option<&Self>) {
        let Written::Read(worth) = self.written else {
            return;
        };
        let had: Box<str> = self.had_text().into();
        let noted = std::mem::take(&mut self.published);
        let before: &str = known.map_or(&had, |known| &known.published);
        self.published = match (worth, known) {
            (Worth::Own, _) | (Worth::Former, None) => self.union(before, &noted),
            (Worth::Unsealed, None) if had.is_empty() => noted.clone(),
            (Worth::Nothing | Worth::Former | Worth::Unsealed, _) => before.into(),
        };
        let is_ours = match worth {
            Worth::Own => true,
            // It is sealed when something else has to be written.
            Worth::Unsealed => known.is_none() && had.is_empty(),
            Worth::Nothing => self.published.is_empty(),
            Worth::Former => false,
        };
        self.written = if is_ours && *noted == *self.published {
            Written::Alike
        } else if self.is_changed((known, before), (worth, &noted)) {
            Written::Tampered
        } else {
            Written::Otherwise
        };
        self.set_had(&had);
    }

    /// Whether somebody else changed an annotation that is not as it should be, or we are about to.
    fn is_changed(
        &self,
        (known, before): (Option<&Self>, &str),
        (worth, noted): (Worth, &str),
    ) -> bool {
        let is_left = match (worth, known) {
            // Of a restored object, or as a crash left it.
            (Worth::Own | Worth::Former, None) => true,
            // We let some of it go, and it says so soon.
            (Worth::Own, Some(_)) => *self.union(before, noted) == *noted,
            // Of an earlier version.
            (Worth::Unsealed, None) => *noted == *self.published,
            (Worth::Nothing, None) | (Worth::Nothing | Worth::Former | Worth::Unsealed, _) => false,
        };
        !before.is_empty() && !is_left
    }

    /// From now on these lines and no others are known.
    pub(crate) fn keep(&mut self, lines: &str) {
        let had = self.had_text().to_owned();
        self.published = lines.into();
        self.written = Written::Otherwise;
        self.set_had(&had);
    }

    /// Compares the annotation again, as the answer to a write shows it.
    pub(crate) fn confirm(&mut self, mut answer: Self) {
        answer.resolve(Some(self));
        if answer.published == self.published {
            self.written = answer.written;
        }
    }

    /// Whether the annotation says what is known.
    #[must_use]
    pub fn is_noted(&self) -> bool {
        matches!(
            self.written,
            Written::Alike | Written::Read(Worth::Own | Worth::Unsealed)
        )
    }

    /// Whether somebody else changed the annotation, so that it is written back.
    #[must_use]
    pub fn is_tampered(&self) -> bool {
        self.written == Written::Tampered
    }

    fn union(&self, one: &str, other: &str) -> Box<str> {
        if one == other || other.is_empty() {
            return one.into();
        }
        if one.is_empty() {
            return other.into();
        }
        if self.object.kind == Kind::DnsZone {
            let all = places(one).chain(places(other));
            return places_text(&all.collect()).into();
        }
        let all = lines(one).into_iter().chain(lines(other));
        text(all.collect()).into()
    }

    /// The zones that a zone object may have on servers.
    #[must_use]
    pub fn places(&self) -> Vec<ZoneKey> {
        places(&self.published).collect()
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
pub fn lines(text: &str) -> Vec<(Group, Record)> {
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

fn places(text: &str) -> impl Iterator<Item = ZoneKey> {
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
pub(crate) fn places_text(places: &BTreeSet<ZoneKey>) -> String {
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
