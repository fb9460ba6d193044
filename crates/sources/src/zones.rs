//! Zone objects: which of them is active, which select what, and who comes second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_api::DesiredZone;
use bindery_core::selector::Index;
use bindery_core::zones::{SigningPolicy, Tenancy};
use bindery_core::{Group, Id, Name, Problem, Record, SmallSet, ZoneKey};

use crate::meta::{Life, Meta};

/// What may be in zones that their authors have to correct.
#[derive(Debug)]
struct Broken {
    namespace: Arc<str>,
    /// The zones that it has on servers; `None` where it does not say.
    places: Option<Vec<ZoneKey>>,
}

/// Which zone object counts where several declare the same name: the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// It is the one that is served under its name.
    Active,
    /// An older object declares the same name.
    Duplicate(Id),
    /// Its author has to correct it.
    Invalid(Vec<Problem>),
    /// It is being deleted, and no other object declares its name.
    Deleting,
    /// It is being deleted, and this object is active instead.
    Superseded(Id),
}

/// A zone object with what was made of it.
#[derive(Clone, Debug)]
pub struct ZoneView<'a> {
    /// Its metadata.
    pub meta: &'a Meta,
    /// The zone's name, where it is valid.
    pub name: Option<&'a Name>,
    /// The servers that it is to be on.
    pub group: &'a Group,
    /// The records it starts with where Bindery serves it: SOA, NS and glue.
    pub records: &'a [Record],
    /// Whether what others write into it is removed.
    pub tenancy: Tenancy,
    /// By which policy it is to be signed.
    pub signing: &'a SigningPolicy,
    /// Fields that it sets and that are acted on only where Bindery serves the zone.
    pub hosted_only: &'a [&'static str],
    /// What it is among the others.
    pub precedence: Precedence,
}

impl ZoneView<'_> {
    /// The zone on its servers, where it is valid.
    #[must_use]
    pub fn key(&self) -> Option<ZoneKey> {
        Some(ZoneKey {
            name: self.name?.clone(),
            group: self.group.clone(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct ZoneEntry {
    pub(crate) meta: Meta,
    /// The servers that it is to be on, where it is valid.
    pub(crate) group: Group,
    pub(crate) desired: Result<DesiredZone, Box<[Problem]>>,
    /// What it asks for, where only its servers are not known.
    pub(crate) unplaced: Option<Box<DesiredZone>>,
}

impl ZoneEntry {
    /// Whether it is to stay and its author has to correct it.
    pub(crate) fn is_broken(&self) -> bool {
        self.desired.is_err() && self.meta.life == Life::Alive
    }
}

/// All zone objects.
#[derive(Debug, Default)]
pub(crate) struct ZoneBook {
    entries: BTreeMap<Id, ZoneEntry>,
    by_object: BTreeMap<(Arc<str>, Box<str>), Id>,
    /// Valid zones, by name.
    by_name: BTreeMap<Name, BTreeSet<Id>>,
    /// Valid zones that are to stay, by name; the first on its servers is active.
    ranks: BTreeMap<Name, BTreeSet<Rank>>,
    selectors: Index<Id>,
    /// Zones that are to stay and that their authors have to correct.
    broken: BTreeMap<Id, Broken>,
}

/// The earlier object wins; among objects of one second, the one whose name comes first.
type Rank = (i64, Arc<str>, Box<str>, Id);

impl ZoneBook {
    pub(crate) fn get(&self, id: &bindery_core::ObjectRef) -> Option<&ZoneEntry> {
        self.entries.get(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &Id> {
        self.entries.keys()
    }

    pub(crate) fn named(&self, namespace: &Arc<str>, name: &str) -> Option<&ZoneEntry> {
        let key = (Arc::clone(namespace), Box::from(name));
        self.entries.get(self.by_object.get(&key)?)
    }

    /// The object that is active under this name, on these servers or, where none are given, the oldest
    /// on any.
    pub(crate) fn active(&self, name: &[u8], group: Option<&Group>) -> Option<&ZoneEntry> {
        let ranks = self.ranks.get(name)?.iter();
        let mut entries = ranks.filter_map(|(.., id)| self.entries.get(id));
        entries.find(|entry| group.is_none_or(|group| entry.group == *group))
    }

    /// The same; where none is active, one that is being deleted and may be served on.
    pub(crate) fn serving(&self, name: &[u8], group: Option<&Group>) -> Option<&ZoneEntry> {
        let leaving = || {
            let namesakes = self.by_name.get(name)?.iter();
            let mut entries = namesakes.filter_map(|id| self.entries.get(id));
            entries.find(|entry| {
                group.is_none_or(|group| entry.group == *group)
                    && self.precedence(entry) == Precedence::Deleting
            })
        };
        self.active(name, group).or_else(leaving)
    }

    /// Whether a zone is the one that is served under its name.
    pub(crate) fn is_serving(&self, zone: &ZoneEntry, desired: &DesiredZone) -> bool {
        let serving = self.serving(desired.name.as_wire(), Some(&zone.group));
        serving.is_some_and(|serving| serving.meta.object == zone.meta.object)
    }

    /// The zone objects that a record with these labels is selected by.
    pub(crate) fn selecting(
        &self,
        namespace: &str,
        labels: &bindery_core::selector::Labels,
    ) -> SmallSet<Id> {
        self.selectors.find(namespace, labels).into_iter().collect()
    }

    /// The zone on these servers that its author has to correct and that this name is in.
    pub(crate) fn broken_zone(&self, group: Option<&Group>, name: &Name) -> Option<&ZoneKey> {
        let places = self.broken.values().filter_map(|one| one.places.as_ref());
        let fits = |place: &&ZoneKey| {
            group.is_none_or(|group| place.group == *group) && name.is_in(&place.name)
        };
        let places = places.flatten().filter(fits);
        places.max_by_key(|place| place.name.as_wire().len())
    }

    /// Whether some zone of this namespace is broken and does not say which zones it has, so that what is in
    /// them is not known.
    pub(crate) fn is_unknown_in(&self, namespace: &str) -> bool {
        let mut broken = self.broken.values();
        broken.any(|one| one.places.is_none() && *one.namespace == *namespace)
    }

    /// Whether some zone is broken.
    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    pub(crate) fn meta_mut(&mut self, id: &bindery_core::ObjectRef) -> Option<&mut Meta> {
        self.entries.get_mut(id).map(|entry| &mut entry.meta)
    }

    /// All objects that declare this name, those that are being deleted among them.
    pub(crate) fn namesakes(&self, name: &Name) -> impl Iterator<Item = &Id> {
        self.by_name.get(name).into_iter().flatten()
    }

    pub(crate) fn insert(&mut self, entry: ZoneEntry) {
        let id = Id::clone(&entry.meta.object);
        self.by_object
            .insert((id.namespace.clone(), id.name.clone()), Id::clone(&id));
        if entry.is_broken() {
            let places = entry.meta.owned_zones();
            // Objects of earlier versions do not say which zones they have.
            let is_told = !places.is_empty() || !entry.meta.has_finalizer;
            let broken = Broken {
                namespace: Arc::clone(&id.namespace),
                places: is_told.then_some(places),
            };
            self.broken.insert(Id::clone(&id), broken);
        }
        if let Ok(desired) = &entry.desired {
            let selectors = desired.selectors.to_vec();
            self.selectors
                .insert(Id::clone(&id), &id.namespace, selectors);
            let namesakes = self.by_name.entry(desired.name.clone()).or_default();
            namesakes.insert(Id::clone(&id));
            if entry.meta.life == Life::Alive {
                let ranks = self.ranks.entry(desired.name.clone()).or_default();
                ranks.insert(rank(&entry.meta));
            }
        }
        self.entries.insert(id, entry);
    }

    pub(crate) fn remove(&mut self, id: &Id) -> Option<ZoneEntry> {
        let entry = self.entries.remove(id)?;
        self.by_object
            .remove(&(id.namespace.clone(), id.name.clone()));
        self.selectors.remove(id);
        self.broken.remove(id);
        let Ok(desired) = &entry.desired else {
            return Some(entry);
        };
        if let Some(ranks) = self.ranks.get_mut(&desired.name) {
            ranks.remove(&rank(&entry.meta));
            if ranks.is_empty() {
                self.ranks.remove(&desired.name);
            }
        }
        if let Some(namesakes) = self.by_name.get_mut(&desired.name) {
            namesakes.remove(id);
            if namesakes.is_empty() {
                self.by_name.remove(&desired.name);
            }
        }
        Some(entry)
    }

    pub(crate) fn view(&self, id: &bindery_core::ObjectRef) -> Option<ZoneView<'_>> {
        let entry = self.entries.get(id)?;
        Some(ZoneView {
            meta: &entry.meta,
            name: entry.desired.as_ref().ok().map(|desired| &desired.name),
            group: &entry.group,
            records: entry
                .desired
                .as_ref()
                .map_or(&[], |desired| &desired.records),
            tenancy: entry
                .desired
                .as_ref()
                .map_or(Tenancy::Shared, |desired| desired.tenancy),
            signing: entry
                .desired
                .as_ref()
                .map_or(&SigningPolicy::Unsaid, |desired| &desired.signing),
            hosted_only: entry
                .desired
                .as_ref()
                .map_or(&[], |desired| &desired.hosted_only),
            precedence: self.precedence(entry),
        })
    }

    pub(crate) fn precedence(&self, entry: &ZoneEntry) -> Precedence {
        let desired = match (&entry.desired, entry.meta.life) {
            (Ok(desired), _) => desired,
            (Err(_), Life::Deleting) => return Precedence::Deleting,
            (Err(problems), Life::Alive) => return Precedence::Invalid(problems.to_vec()),
        };
        let active = self
            .active(desired.name.as_wire(), Some(&entry.group))
            .map(|entry| &entry.meta.object);
        match (active, entry.meta.life) {
            (Some(active), Life::Deleting) => Precedence::Superseded(Id::clone(active)),
            (None, Life::Deleting) => Precedence::Deleting,
            (Some(active), Life::Alive) if *active != entry.meta.object => {
                Precedence::Duplicate(Id::clone(active))
            }
            (Some(_) | None, Life::Alive) => Precedence::Active,
        }
    }
}

fn rank(meta: &Meta) -> Rank {
    let object = &meta.object;
    (
        meta.created,
        object.namespace.clone(),
        object.name.clone(),
        Id::clone(object),
    )
}
