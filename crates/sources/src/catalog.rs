//! All declared objects, and which of them have to be decided again when one changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_api::{DesiredRecord, DesiredZone, EndpointResult, Role, Spec, role};
use bindery_core::compact::SharedTexts;
use bindery_core::selector::{LabelIndex, Labels, Selector};
use bindery_core::{Group, Id, Kind, Name, ObjectRef, Problem, SmallSet, ZoneKey, compact};

use crate::groups::{GroupChoice, Groups};
use crate::meta::Meta;
use crate::names::NameIndex;
use crate::reading::Object;
use crate::recording::MetadataPatch;
use crate::zones::{ZoneBook, ZoneEntry, ZoneView};

/// All declared objects in a lean form.
///
/// Guarantees: what is decided depends on the newest version of each object and not on the order in
/// which they were seen; a change costs what it concerns.
#[derive(Debug, Default)]
pub struct Catalog {
    pub(crate) groups: Groups,
    pub(crate) zones: ZoneBook,
    pub(crate) records: BTreeMap<Id, Box<RecordEntry>>,
    pub(crate) endpoints: BTreeMap<Id, EndpointEntry>,
    /// Objects that vanished while they still owned records in DNS.
    pub(crate) tombstones: BTreeMap<Id, Meta>,
    labels: LabelIndex<Id>,
    by_zone_ref: BTreeMap<(Arc<str>, Box<str>), BTreeSet<Id>>,
    names: NameIndex,
    /// Namespaces, and names of zones, that many objects have.
    texts: SharedTexts,
}

#[derive(Debug)]
pub(crate) struct RecordEntry {
    pub(crate) meta: Meta,
    pub(crate) desired: DesiredRecord,
    /// The zone objects whose selectors match its labels.
    pub(crate) selected_by: SmallSet<Id>,
}

#[derive(Debug)]
pub(crate) struct EndpointEntry {
    pub(crate) meta: Meta,
    pub(crate) desired: Box<[EndpointResult]>,
}

impl Catalog {
    /// An empty catalog of objects whose zones are on these groups of servers.
    #[must_use]
    pub fn new(groups: Groups) -> Self {
        Self {
            groups,
            ..Self::default()
        }
    }

    /// Takes in which groups of servers there are, and returns the objects to decide again.
    pub fn set_groups(&mut self, groups: Groups) -> BTreeSet<Id> {
        let mut affected = BTreeSet::new();
        self.groups = groups;
        let zones: Vec<Id> = self.zones.ids().cloned().collect();
        for id in zones {
            let Some(entry) = self.zones.get(&id) else {
                continue;
            };
            let desired = match (&entry.unplaced, &entry.desired) {
                (Some(desired), _) => Ok((**desired).clone()),
                (None, desired) => desired.clone(),
            };
            let meta = entry.meta.clone();
            self.upsert_zone(meta, desired, &mut affected);
        }
        affected
    }

    /// Takes in an object as it was seen, and returns the objects to decide again. A version that is
    /// not newer than the known one changes nothing.
    pub fn upsert(&mut self, object: Object) -> BTreeSet<Id> {
        let Object {
            mut meta,
            labels,
            spec,
        } = object;
        if let Some(known) = self.meta(&meta.object) {
            if known.version >= meta.version {
                return BTreeSet::new();
            }
            meta.object = Id::clone(&known.object);
        } else {
            self.share_namespace(&mut meta.object);
        }
        if let Some(zone) = &mut meta.zone {
            self.texts.share(zone);
        }
        meta.resolve(self.meta(&meta.object));
        let mut affected = self.remove_namesakes(&meta.object);
        match spec {
            Spec::Zone(desired) => self.upsert_zone(meta, desired, &mut affected),
            Spec::Record(desired) => self.upsert_record(meta, desired, &labels, &mut affected),
            Spec::Endpoints(desired) => self.upsert_endpoints(meta, desired, &mut affected),
        }
        affected
    }

    /// Puts everything into little room.
    pub fn compact(&mut self) {
        compact(&mut self.records);
        compact(&mut self.endpoints);
        self.labels.compact();
    }

    /// Many objects share a namespace, and one copy of it.
    fn share_namespace(&mut self, object: &mut Id) {
        let mut namespace = Arc::clone(&object.namespace);
        self.texts.share(&mut namespace);
        if Arc::ptr_eq(&namespace, &object.namespace) {
            return;
        }
        // Whoever read the object may still hold it, so it may have to be another one.
        if let Some(object) = Id::get_mut(object) {
            object.namespace = namespace;
        } else {
            let read = ObjectRef::clone(object);
            *object = Id::new(ObjectRef { namespace, ..read });
        }
    }

    /// Takes out an object that was seen to be gone, and returns the objects to decide again.
    ///
    /// What it still has in DNS is taken away as if its finalizer had run.
    pub fn remove(&mut self, object: &ObjectRef) -> BTreeSet<Id> {
        let mut affected = BTreeSet::new();
        let Some(meta) = self.meta(object) else {
            return affected;
        };
        let id = Id::clone(&meta.object);
        affected.insert(Id::clone(&id));
        let gone = match role(object.kind) {
            Role::Zone => {
                self.change_zone(&id, None, &mut affected);
                None
            }
            Role::Record => self.take_record(&id).map(|entry| entry.meta),
            Role::Endpoints => self.take_endpoints(&id).map(|entry| entry.meta),
        };
        if let Some(meta) = gone.filter(|meta| !meta.published.is_empty()) {
            self.tombstones.insert(id, meta);
        }
        affected
    }

    /// Notes that an object owns these lines and no others; its annotation is about to say so.
    pub fn set_owned(&mut self, object: &ObjectRef, lines: &str) {
        if let Some(meta) = self.meta_mut(object) {
            meta.set_owned(lines);
        }
    }

    /// Goes on as if a patch had been written into an object. The object itself does not learn of it.
    pub fn suppose(&mut self, object: &ObjectRef, patch: &MetadataPatch) {
        if let Some(meta) = self.meta_mut(object) {
            meta.suppose(patch);
        }
    }

    /// Takes in the answer to a write that changed nothing, so that what stands is known to be as it should.
    pub fn confirm(&mut self, answer: &Meta) {
        if let Some(known) = self.meta_mut(&answer.object)
            && known.version == answer.version
        {
            known.confirm(answer.clone());
        }
    }

    fn meta_mut(&mut self, object: &ObjectRef) -> Option<&mut Meta> {
        match role(object.kind) {
            Role::Zone => self.zones.meta_mut(object),
            Role::Endpoints => self.endpoints.get_mut(object).map(|one| &mut one.meta),
            Role::Record => self.records.get_mut(object).map(|one| &mut one.meta),
        }
    }

    /// Forgets an object that vanished and of which nothing is left in DNS.
    pub fn purge(&mut self, object: &ObjectRef) {
        self.tombstones.remove(object);
    }

    /// The metadata of a known object that has not vanished.
    #[must_use]
    pub fn meta(&self, object: &ObjectRef) -> Option<&Meta> {
        let zone = || self.zones.get(object).map(|entry| &entry.meta);
        let record = || self.records.get(object).map(|entry| &entry.meta);
        let endpoints = || self.endpoints.get(object).map(|entry| &entry.meta);
        match role(object.kind) {
            Role::Zone => zone(),
            Role::Endpoints => endpoints(),
            Role::Record => record(),
        }
    }

    /// The object of this kind and name, whatever its UID.
    #[must_use]
    pub fn named(&self, kind: Kind, namespace: &str, name: &str) -> Option<Id> {
        let from = ObjectRef {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: "".into(),
        };
        let same = |id: &&Id| id.kind == kind && *id.namespace == *namespace && *id.name == *name;
        let first = match role(kind) {
            Role::Zone => self
                .zones
                .named(&from.namespace, name)
                .map(|zone| &zone.meta.object),
            Role::Endpoints => self.endpoints.range(from..).next().map(|(id, _)| id),
            Role::Record => self.records.range(from..).next().map(|(id, _)| id),
        };
        first.filter(same).cloned()
    }

    /// All objects: records and endpoints first, zones last, vanished ones not.
    pub fn ids(&self) -> impl Iterator<Item = &Id> {
        let claimants = self.records.keys().chain(self.endpoints.keys());
        claimants.chain(self.zones.ids())
    }

    /// A zone object with what was made of it.
    #[must_use]
    pub fn zone(&self, object: &ObjectRef) -> Option<ZoneView<'_>> {
        self.zones.view(object)
    }

    /// The zone object that is active under a name on its servers.
    #[must_use]
    pub fn active_zone(&self, zone: &ZoneKey) -> Option<&Id> {
        self.zones
            .active(zone.name.as_wire(), Some(&zone.group))
            .map(|entry| &entry.meta.object)
    }

    /// Every object that declares a zone of this name, active or not.
    pub fn namesakes(&self, zone: &Name) -> impl Iterator<Item = &Id> {
        self.zones.namesakes(zone)
    }

    /// The name that a record object declares, as its author wrote it.
    #[must_use]
    pub fn record_name(&self, object: &ObjectRef) -> Option<&str> {
        self.records.get(object).map(|entry| &*entry.desired.name)
    }

    fn remove_namesakes(&mut self, object: &ObjectRef) -> BTreeSet<Id> {
        match self.named(object.kind, &object.namespace, &object.name) {
            Some(id) if id.uid != object.uid => self.remove(&id),
            Some(_) | None => BTreeSet::new(),
        }
    }

    fn upsert_record(
        &mut self,
        meta: Meta,
        desired: DesiredRecord,
        labels: &Labels,
        affected: &mut BTreeSet<Id>,
    ) {
        let id = Id::clone(&meta.object);
        let selected_by = self.zones.selecting(&id.namespace, labels);
        if let Some(known) = self.records.get_mut(&id)
            && known.meta.same_but_version(&meta)
            && known.desired == desired
        {
            known.meta.version = meta.version;
            if known.selected_by == selected_by {
                self.labels.insert(Id::clone(&id), &id.namespace, labels);
                return;
            }
        }
        let before = self.take_record(&id).map(|entry| entry.desired);
        // What the engine was given is shared with it; what was read again would be another copy.
        let desired = before.filter(|one| *one == desired).unwrap_or(desired);
        self.labels.insert(Id::clone(&id), &id.namespace, labels);
        if let Some(zone) = &desired.zone_ref {
            let key = (id.namespace.clone(), zone.clone());
            self.by_zone_ref
                .entry(key)
                .or_default()
                .insert(Id::clone(&id));
        }
        affected.insert(Id::clone(&id));
        let entry = RecordEntry {
            meta,
            desired,
            selected_by,
        };
        self.records.insert(id, Box::new(entry));
    }

    fn take_record(&mut self, id: &Id) -> Option<RecordEntry> {
        let entry = self.records.remove(id)?;
        self.labels.remove(id, &id.namespace);
        if let Some(zone) = &entry.desired.zone_ref {
            let key = (id.namespace.clone(), zone.clone());
            if let Some(ids) = self.by_zone_ref.get_mut(&key) {
                ids.remove(id);
                if ids.is_empty() {
                    self.by_zone_ref.remove(&key);
                }
            }
        }
        Some(*entry)
    }

    fn upsert_endpoints(
        &mut self,
        meta: Meta,
        desired: Box<[EndpointResult]>,
        affected: &mut BTreeSet<Id>,
    ) {
        let id = Id::clone(&meta.object);
        if let Some(known) = self.endpoints.get_mut(&id)
            && known.meta.same_but_version(&meta)
            && known.desired == desired
        {
            known.meta.version = meta.version;
            return;
        }
        let before = self.take_endpoints(&id).map(|entry| entry.desired);
        let desired = before.filter(|one| *one == desired).unwrap_or(desired);
        for wanted in desired.iter().flatten() {
            self.names.insert(&wanted.key.name, &id);
        }
        affected.insert(Id::clone(&id));
        self.endpoints.insert(id, EndpointEntry { meta, desired });
    }

    fn take_endpoints(&mut self, id: &Id) -> Option<EndpointEntry> {
        let entry = self.endpoints.remove(id)?;
        for wanted in entry.desired.iter().flatten() {
            self.names.remove(&wanted.key.name, id);
        }
        Some(entry)
    }

    fn upsert_zone(
        &mut self,
        meta: Meta,
        desired: Result<DesiredZone, Box<[Problem]>>,
        affected: &mut BTreeSet<Id>,
    ) {
        let id = Id::clone(&meta.object);
        let (group, desired, unplaced) = match desired {
            Ok(desired) => match self.groups.place(&choice(&meta, &desired)) {
                Ok(group) => (group, Ok(desired), None),
                Err(problem) => {
                    let unplaced = Some(Box::new(desired));
                    (Group::UNNAMED, Err([problem].into()), unplaced)
                }
            },
            Err(problems) => (Group::UNNAMED, Err(problems), None),
        };
        if let Some(known) = self.zones.get(&id)
            && known.desired == desired
            && known.group == group
            && known.meta.life == meta.life
            && known.meta.created == meta.created
        {
            // Nothing that concerns others changed, and the zone itself only where it was edited.
            if !known.meta.same_but_version(&meta) {
                affected.insert(Id::clone(&id));
            }
            self.zones.remove(&id);
            self.zones.insert(ZoneEntry {
                meta,
                group,
                desired,
                unplaced,
            });
            return;
        }
        affected.insert(Id::clone(&id));
        self.change_zone(
            &id,
            Some(ZoneEntry {
                meta,
                group,
                desired,
                unplaced,
            }),
            affected,
        );
    }

    /// Puts a zone in place of the known one and finds everything that this concerns.
    fn change_zone(&mut self, id: &Id, entry: Option<ZoneEntry>, affected: &mut BTreeSet<Id>) {
        let before = self.zones.remove(id);
        let desired = [before.as_ref(), entry.as_ref()];
        let desired = desired
            .into_iter()
            .flatten()
            .filter_map(|one| one.desired.as_ref().ok());
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut selectors: Vec<Selector> = Vec::new();
        for desired in desired {
            names.insert(desired.name.clone());
            selectors.extend(desired.selectors.iter().cloned());
        }
        let broken = |entry: Option<&ZoneEntry>| entry.is_some_and(ZoneEntry::is_broken);
        if broken(before.as_ref()) != broken(entry.as_ref()) {
            // Objects without a zone wait while some zone is broken.
            affected.extend(self.labels.find(&id.namespace, &Selector::default()));
            affected.extend(self.endpoints.keys().cloned());
        }
        if let Some(entry) = entry {
            self.zones.insert(entry);
        }
        self.reselect(id, &selectors, affected);
        // Who declares the same name may become active, or is told of another winner.
        for name in names {
            let namesakes: Vec<Id> = self.zones.namesakes(&name).cloned().collect();
            for other in namesakes {
                if other != *id {
                    let selectors = self
                        .zones
                        .get(&other)
                        .and_then(|entry| entry.desired.as_ref().ok())
                        .map_or_else(Vec::new, |desired| desired.selectors.to_vec());
                    self.reselect(&other, &selectors, affected);
                }
            }
            affected.extend(self.names.under(&name).cloned());
        }
    }

    /// Looks again at the records that a zone selects, selected before, or that name it.
    fn reselect(&mut self, zone: &Id, selectors: &[Selector], affected: &mut BTreeSet<Id>) {
        affected.insert(Id::clone(zone));
        let now: Vec<Selector> = self
            .zones
            .get(zone)
            .and_then(|entry| entry.desired.as_ref().ok())
            .map_or_else(Vec::new, |desired| desired.selectors.to_vec());
        for selector in selectors {
            for record in self.labels.find(&zone.namespace, selector) {
                if let Some(entry) = self.records.get_mut(&record) {
                    entry.selected_by.retain(|other| other != zone);
                }
                affected.insert(record);
            }
        }
        for selector in &now {
            for record in self.labels.find(&zone.namespace, selector) {
                if let Some(entry) = self.records.get_mut(&record) {
                    entry.selected_by.insert(Id::clone(zone));
                }
                affected.insert(record);
            }
        }
        let key = (zone.namespace.clone(), Box::from(&*zone.name));
        affected.extend(self.by_zone_ref.get(&key).into_iter().flatten().cloned());
    }
}

/// How a zone object chooses its servers.
fn choice<'a>(meta: &'a Meta, desired: &'a DesiredZone) -> GroupChoice<'a> {
    let has = |zone: &ZoneKey| zone.name == desired.name && zone.group == Group::UNNAMED;
    GroupChoice {
        namespace: &meta.object.namespace,
        clusters: &desired.clusters,
        selection: desired.selection.as_deref(),
        is_settled: !desired.clusters.is_empty() && meta.owned_zones().iter().any(has),
    }
}
