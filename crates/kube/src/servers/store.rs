//! The objects of clusters as they were last seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bindery_sources::clusters::{INSTANCE_LABEL, PART_OF, PART_OF_LABEL};
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::ServerWork;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    Provider,
    GlobalCluster,
    Cluster,
    Instance,
    StatefulSet,
    Pod,
    Service,
    ConfigMap,
    Secret,
    /// Zones are looked at for the instances that they select, and not kept.
    Zone,
}

impl Sort {
    pub(super) const ALL: [Self; 10] = [
        Self::Provider,
        Self::GlobalCluster,
        Self::Cluster,
        Self::Instance,
        Self::StatefulSet,
        Self::Pod,
        Self::Service,
        Self::ConfigMap,
        Self::Secret,
        Self::Zone,
    ];

    /// Kind and group with version.
    pub(super) const fn kind(self) -> (&'static str, &'static str) {
        const BINDY: &str = "bindy.firestoned.io/v1beta1";
        match self {
            Self::Provider => ("ClusterBind9Provider", BINDY),
            Self::GlobalCluster => ("Bind9GlobalCluster", BINDY),
            Self::Cluster => ("Bind9Cluster", BINDY),
            Self::Instance => ("Bind9Instance", BINDY),
            Self::StatefulSet => ("StatefulSet", "apps/v1"),
            Self::Pod => ("Pod", "v1"),
            Self::Service => ("Service", "v1"),
            Self::ConfigMap => ("ConfigMap", "v1"),
            Self::Secret => ("Secret", "v1"),
            Self::Zone => ("DNSZone", BINDY),
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        let (kind, version) = self.kind();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }

    /// Whether its objects belong to the whole cluster.
    pub(super) const fn is_cluster_wide(self) -> bool {
        matches!(self, Self::Provider | Self::GlobalCluster)
    }

    /// Which of its objects are looked at. Of kinds that everybody has, only ours.
    pub(super) fn selector(self) -> Option<String> {
        match self {
            Self::Provider | Self::GlobalCluster | Self::Cluster | Self::Instance | Self::Zone => {
                None
            }
            Self::StatefulSet | Self::Pod | Self::Service | Self::ConfigMap | Self::Secret => {
                Some(format!("{PART_OF_LABEL}={PART_OF}"))
            }
        }
    }
}

/// How many of those that went are remembered: an answer is late by seconds.
const GONE_MAX: usize = 1000;

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectPlace {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl ObjectPlace {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(super) fn of(object: &DynamicObject) -> Self {
        Self::new(
            object.metadata.namespace.as_deref().unwrap_or_default(),
            object.metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

/// Everything that was seen.
#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<(Sort, ObjectPlace), Arc<DynamicObject>>,
    /// Who went last: an answer to a write that comes after the word of the end brings nobody back.
    gone: VecDeque<String>,
}

impl Store {
    pub(super) fn get(&self, sort: Sort, place: &ObjectPlace) -> Option<Arc<DynamicObject>> {
        self.objects.get(&(sort, place.clone())).cloned()
    }

    /// The objects of a sort in a namespace.
    pub(super) fn in_namespace<'a>(
        &'a self,
        sort: Sort,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<DynamicObject>> {
        let from = (sort, ObjectPlace::new(namespace, ""));
        let all = self.objects.range(from..);
        all.take_while(move |((one, place), _)| *one == sort && &*place.namespace == namespace)
            .map(|(_, object)| object)
    }

    /// The objects of a sort.
    pub(super) fn all(&self, sort: Sort) -> impl Iterator<Item = &Arc<DynamicObject>> {
        let from = (sort, ObjectPlace::new("", ""));
        let all = self.objects.range(from..);
        all.take_while(move |((one, _), _)| *one == sort)
            .map(|(_, object)| object)
    }

    /// Takes in an object, and returns what it concerns. An older version than the one that is known, such as
    /// the answer to a write that the watch told of already, counts for nothing.
    pub(super) fn put(&mut self, sort: Sort, object: DynamicObject) -> BTreeSet<ServerWork> {
        if object
            .metadata
            .uid
            .as_ref()
            .is_some_and(|uid| self.gone.contains(uid))
        {
            return BTreeSet::new();
        }
        let place = ObjectPlace::of(&object);
        let keys = concerned(sort, &object);
        let key = (sort, place);
        let version = |object: &DynamicObject| -> Option<u64> {
            object.metadata.resource_version.as_deref()?.parse().ok()
        };
        if let Some(known) = self.objects.get(&key) {
            let is_same = known.metadata.uid == object.metadata.uid;
            if is_same && version(known) > version(&object) {
                return BTreeSet::new();
            }
        }
        self.objects.insert(key, Arc::new(object));
        keys
    }

    /// An object is gone.
    pub(super) fn drop_object(
        &mut self,
        sort: Sort,
        object: &DynamicObject,
    ) -> BTreeSet<ServerWork> {
        self.objects.remove(&(sort, ObjectPlace::of(object)));
        self.note_gone(object);
        concerned(sort, object)
    }

    fn note_gone(&mut self, object: &DynamicObject) {
        self.gone.extend(object.metadata.uid.clone());
        let surplus = self.gone.len().saturating_sub(GONE_MAX);
        self.gone.drain(..surplus);
    }

    /// Of a sort there are only these, in a namespace or everywhere.
    pub(super) fn keep(
        &mut self,
        sort: Sort,
        namespace: Option<&str>,
        places: &BTreeSet<ObjectPlace>,
    ) -> BTreeSet<ServerWork> {
        let is_gone = |(one, place): &(Sort, ObjectPlace)| {
            *one == sort
                && namespace.is_none_or(|namespace| *place.namespace == *namespace)
                && !places.contains(place)
        };
        let gone: Vec<(Sort, ObjectPlace)> = self
            .objects
            .keys()
            .filter(|key| is_gone(key))
            .cloned()
            .collect();
        let mut keys = BTreeSet::new();
        for key in gone {
            if let Some(object) = self.objects.remove(&key) {
                self.note_gone(&object);
                keys.extend(concerned(sort, &object));
            }
        }
        keys
    }
}

/// What is to be looked at again because of an object.
fn concerned(sort: Sort, object: &DynamicObject) -> BTreeSet<ServerWork> {
    let place = ObjectPlace::of(object);
    let namespace = Arc::clone(&place.namespace);
    let here = |name: &str| ObjectPlace {
        namespace: Arc::clone(&namespace),
        name: name.into(),
    };
    let owners = object.metadata.owner_references.iter().flatten();
    let providers = owners.filter_map(|owner| {
        let sort = match owner.kind.as_str() {
            "ClusterBind9Provider" => Sort::Provider,
            "Bind9GlobalCluster" => Sort::GlobalCluster,
            _ => return None,
        };
        Some(ServerWork::Provider(sort, owner.name.as_str().into()))
    });
    let mut keys: BTreeSet<ServerWork> = providers.collect();
    match sort {
        Sort::Provider | Sort::GlobalCluster => {
            keys.insert(ServerWork::Provider(sort, place.name));
        }
        Sort::Cluster => {
            keys.insert(ServerWork::Cluster(place));
        }
        Sort::Zone => {}
        Sort::Instance => {
            if let Some(cluster) = object.data["spec"]["clusterRef"].as_str() {
                keys.insert(ServerWork::Cluster(here(cluster)));
            }
            keys.insert(ServerWork::Instance(place));
        }
        Sort::StatefulSet | Sort::Pod | Sort::Service | Sort::ConfigMap | Sort::Secret => {
            let labels = object.metadata.labels.as_ref();
            let instance = labels.and_then(|labels| labels.get(INSTANCE_LABEL));
            keys.extend(instance.map(|name| ServerWork::Instance(here(name))));
        }
    }
    keys
}

/// An object as one value, for what is compared with it.
pub(super) fn whole(object: &DynamicObject) -> Value {
    let mut value = object.data.clone();
    value["metadata"] = serde_json::to_value(&object.metadata).unwrap_or_default();
    if let Some(types) = &object.types {
        value["apiVersion"] = types.api_version.clone().into();
        value["kind"] = types.kind.clone().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(uid: &str, version: &str) -> DynamicObject {
        let object = json!({
            "metadata": {
                "name": "dns-0", "namespace": "dns", "uid": uid, "resourceVersion": version,
            },
            "spec": { "clusterRef": "dns" },
        });
        serde_json::from_value(object).expect("a fixture is an object")
    }

    #[test]
    fn a_late_answer_brings_nobody_back() {
        let mut store = Store::default();
        let place = ObjectPlace::new("dns", "dns-0");
        store.put(Sort::Instance, instance("a", "1"));
        let keys = store.drop_object(Sort::Instance, &instance("a", "3"));
        assert!(keys.contains(&ServerWork::Cluster(ObjectPlace::new("dns", "dns"))));
        assert!(store.put(Sort::Instance, instance("a", "2")).is_empty());
        assert!(store.get(Sort::Instance, &place).is_none());
        // Another one of its name is another one.
        assert!(!store.put(Sort::Instance, instance("b", "4")).is_empty());
        assert!(store.get(Sort::Instance, &place).is_some());
    }

    #[test]
    fn an_older_version_counts_for_nothing() {
        let mut store = Store::default();
        store.put(Sort::Instance, instance("a", "5"));
        assert!(store.put(Sort::Instance, instance("a", "4")).is_empty());
    }
}
