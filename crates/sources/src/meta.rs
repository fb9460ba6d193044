//! The part of an object's metadata that decisions need, and nothing more.

use std::sync::Arc;

use bindery_core::{Adoption, Group, Kind, Name, ObjectRef, Record, ZoneKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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
pub(crate) const ON_CLUSTER: &str = "; on cluster ";

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
    /// The text of [`PUBLISHED`]; empty where there is none.
    pub published: Box<str>,
    /// The text of [`ZONE`].
    pub zone: Option<Box<str>>,
    /// What [`ADOPT`] says.
    pub adoption: Adoption,
    /// Whether [`ABANDON`] says that it may go without its records being removed.
    pub abandoned: bool,
    /// What few objects have.
    rare: Option<Box<Rare>>,
}

/// What few objects have: of a hundred thousand, every field would be felt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rare {
    others: Box<[Box<str>]>,
    allowed: Option<Box<str>>,
    undeclared: Option<Box<str>>,
    cluster: Option<Box<str>>,
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
        };
        Some(Self {
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
            published: note(PUBLISHED).unwrap_or_default().into(),
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

    /// The lines that the object may have in DNS, and on which servers. A line that cannot be read was
    /// not written by us.
    #[must_use]
    pub fn lines(&self) -> Vec<(Group, Record)> {
        let mut group = Group::UNNAMED;
        let mut lines = Vec::new();
        for line in self.published.lines() {
            if let Some(name) = line.strip_prefix(ON_CLUSTER) {
                group = Group::named(name);
            } else if let Ok(record) = line.parse() {
                lines.push((group.clone(), record));
            }
        }
        lines
    }

    /// The zones that a zone object may have on servers.
    #[must_use]
    pub fn places(&self) -> Vec<ZoneKey> {
        let place = |line: &str| {
            let (name, group) = match line.split_once(' ') {
                Some((name, cluster)) => (name, Group::named(cluster)),
                None => (line, Group::UNNAMED),
            };
            let name = Name::parse(name).ok()?;
            Some(ZoneKey { name, group })
        };
        self.published.lines().filter_map(place).collect()
    }

    /// Whether anything but the version differs.
    #[must_use]
    pub fn same_but_version(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.version = self.version;
        *self == other
    }
}
