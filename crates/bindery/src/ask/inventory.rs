//! Listed objects with what is decided for each, by the code that the controllers use.

use std::collections::{BTreeMap, BTreeSet};

use bindery_api::{Role, info, role};
use bindery_core::{Group, Kind, Name, ObjectRef, ZoneKey};
use bindery_sources::{
    Catalog, Decision, Groups, Id, IsAvailable, Life, Meta, MetadataPatch, Precedence, ZoneView,
};

use super::listed_object::ListedObject;

/// All listed objects and the catalog of them.
#[derive(Default)]
pub(super) struct Inventory {
    catalog: Catalog,
    objects: BTreeMap<Id, ListedObject>,
    /// Which object has which zone.
    places: BTreeMap<Group, BTreeMap<Name, Id>>,
}

impl Inventory {
    /// The inventory of these objects. One without name, namespace or UID is left out; no API has such.
    pub(super) fn new(objects: Vec<ListedObject>) -> Self {
        let mut inventory = Self {
            catalog: Catalog::new(groups(&objects)),
            ..Self::default()
        };
        for listed in objects {
            inventory.enter(listed);
        }
        inventory.places = inventory.owned_zones();
        inventory
    }

    fn owned_zones(&self) -> BTreeMap<Group, BTreeMap<Name, Id>> {
        let mut places: BTreeMap<Group, BTreeMap<Name, Id>> = BTreeMap::new();
        for (id, _) in self.zones() {
            let zone = self.zone(id);
            let has_it = |zone: &ZoneView<'_>| {
                matches!(zone.precedence, Precedence::Active | Precedence::Deleting)
            };
            if let Some(ZoneKey { name, group }) = zone.filter(has_it).and_then(|zone| zone.key()) {
                places.entry(group).or_default().insert(name, Id::clone(id));
            }
        }
        places
    }

    fn enter(&mut self, listed: ListedObject) {
        if let Some(object) = listed.read() {
            self.objects.insert(Id::clone(&object.meta.object), listed);
            self.catalog.upsert(object);
        }
    }

    /// All zone objects.
    pub(super) fn zones(&self) -> impl Iterator<Item = (&Id, &ListedObject)> {
        let objects = self.objects.iter();
        objects.filter(|(id, _)| role(id.kind) == Role::Zone)
    }

    /// All records and endpoints.
    pub(super) fn claimants(&self) -> impl Iterator<Item = (&Id, &ListedObject)> {
        let objects = self.objects.iter();
        objects.filter(|(id, _)| role(id.kind) != Role::Zone)
    }

    /// An object as it was listed.
    pub(super) fn listed(&self, object: &ObjectRef) -> Option<&ListedObject> {
        self.objects.get(object)
    }

    /// The object of this kind and name.
    pub(super) fn named(&self, kind: Kind, namespace: &str, name: &str) -> Option<Id> {
        self.catalog.named(kind, namespace, name)
    }

    /// A zone with what was made of it.
    pub(super) fn zone(&self, object: &ObjectRef) -> Option<ZoneView<'_>> {
        self.catalog.zone(object)
    }

    /// The metadata of an object.
    pub(super) fn meta(&self, object: &ObjectRef) -> Option<&Meta> {
        self.catalog.meta(object)
    }

    /// What is decided for a record or an endpoint.
    pub(super) fn decide(&self, object: &ObjectRef, free: IsAvailable<'_>) -> Option<Decision> {
        self.catalog.decide(object, free)
    }

    /// The zone objects that an object is in. What is being deleted asks for none; then it is in those
    /// where it still has something.
    pub(super) fn zones_of(&self, object: &ObjectRef) -> Vec<Id> {
        let zones = self
            .decide(object, &|_, _| false)
            .map(|decision| decision.zones);
        match (zones, self.meta(object)) {
            (Some(zones), Some(meta)) if zones.is_empty() && meta.life == Life::Deleting => {
                self.carried_in(meta)
            }
            (zones, _) => zones.unwrap_or_default(),
        }
    }

    /// The zones in which an object has lines, as it carries them.
    fn carried_in(&self, meta: &Meta) -> Vec<Id> {
        let lines = meta.owned_records().into_iter();
        let zones = lines.filter_map(|(group, record)| {
            let zones = self.places.get(&group)?;
            record
                .name
                .suffixes()
                .find_map(|apex| zones.get(apex))
                .cloned()
        });
        let zones: BTreeSet<Id> = zones.collect();
        zones.into_iter().collect()
    }

    /// Goes on as if a patch had been written into an object. Only this inventory learns of it.
    pub(super) fn suppose(&mut self, object: &ObjectRef, patch: &MetadataPatch) {
        self.catalog.suppose(object, patch);
    }

    /// The catalog of the objects, with what is decided for each.
    pub(super) fn into_catalog(self) -> Catalog {
        self.catalog
    }
}

/// The groups of servers that zones say they are on; only the Bindery that serves them knows all.
fn groups(objects: &[ListedObject]) -> Groups {
    let zones = objects
        .iter()
        .filter(|listed| role(listed.kind) == Role::Zone);
    let places = zones
        .filter_map(|zone| Meta::read(info(zone.kind), &zone.metadata))
        .flat_map(|meta| meta.owned_zones());
    let groups: Vec<Group> = places.map(|ZoneKey { group, .. }| group).collect();
    if groups.is_empty() {
        return Groups::default();
    }
    groups.into_iter().collect()
}
