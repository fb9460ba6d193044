//! Pods become the servers of zones: which pods each group has, told to the engine when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_api::DnsZoneSpec;
use bindery_api::convert::read_selector;
use bindery_core::selector::{Labels, Selector};
use bindery_core::{Group, ServerId, ServerInfo, ServerRole};
use bindery_engine::ServerHandle;
use bindery_sources::clusters::{DNS_PORT, TRANSFER_KEY};
use kube::api::DynamicObject;

use super::store::{ObjectPlace, Sort};
use super::{PodAccess, PodKey, PodPlace, SecretText, ServerContext, ServerWork, Sidecar};

/// Which other namespaces may select an instance: names, or `*`.
const ALLOWED_NAMESPACES: &str = "bindy.firestoned.io/allow-zone-namespaces";

/// A pod that has an address.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct LivePod {
    pub(super) place: ObjectPlace,
    pub(super) ip: String,
}

/// An instance with its pods, as groups are made of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) role: ServerRole,
    /// Its number, which makes the order of servers the same each time.
    pub(super) index: usize,
    /// The clusters that it is in.
    pub(super) groups: BTreeSet<Group>,
    pub(super) pods: Vec<LivePod>,
    pub(super) sidecar_port: u16,
    pub(super) key: PodKey,
    /// The key that its zones name.
    pub(super) zone_key: Option<String>,
    /// Whether its sidecar takes addresses of peers without keys.
    pub(super) takes_addresses: bool,
    /// The policy of zones that say `default`.
    pub(super) default_policy: Option<&'static str>,
    pub(super) token: SecretText,
}

/// All members and what was made of them.
#[derive(Default)]
pub(super) struct Fleets {
    members: BTreeMap<ObjectPlace, Member>,
    /// What was told last of each group.
    groups: BTreeMap<Group, Vec<Opened>>,
    /// Pods of members that are in no group: they serve no zone yet, and are asked how they are.
    idle: BTreeMap<ObjectPlace, Vec<Opened>>,
    /// How zones select instances. One that no zone has any more stays: its servers may still have the zone.
    selections: BTreeMap<Group, Selection>,
}

impl Fleets {
    /// The clusters that an instance is in.
    pub(super) fn groups_of(&self, instance: &ObjectPlace) -> BTreeSet<Group> {
        let member = self.members.get(instance);
        member.map(|one| one.groups.clone()).unwrap_or_default()
    }
}

/// How zones of a namespace select instances.
struct Selection {
    namespace: String,
    selectors: Vec<Selector>,
    /// The groups of the clusters that they name beside.
    clusters: BTreeSet<Group>,
}

/// The addresses of the pods of a group.
#[derive(Default)]
struct Peers {
    primaries: Vec<String>,
    secondaries: Vec<String>,
}

#[derive(Clone)]
struct Opened {
    info: ServerInfo,
    place: PodPlace,
    access: PodAccess,
}

/// The group of a cluster.
pub(super) fn cluster_group(place: &ObjectPlace) -> Group {
    Group::named(&format!("{}/{}", place.namespace, place.name))
}

/// The group of a cluster-wide declaration.
pub(super) fn provider_group(name: &str) -> Group {
    Group::named(&format!("*/{name}"))
}

/// A group is there, with servers or without: zones that name it wait for them.
pub(super) fn ensure_group(shared: &ServerContext, group: &Group) {
    let is_new = !shared.fleets().groups.contains_key(group);
    if is_new {
        shared.fleets().groups.insert(group.clone(), Vec::new());
        shared
            .engine
            .set_servers(group, std::iter::empty().collect());
    }
}

/// The groups of everything that is declared are there.
pub(super) fn ensure_declared(shared: &ServerContext) {
    let groups: Vec<Group> = {
        let store = shared.store();
        let clusters = store
            .all(Sort::Cluster)
            .map(|one| cluster_group(&ObjectPlace::of(one)));
        let wide = [Sort::Provider, Sort::GlobalCluster].into_iter();
        let wide = wide.flat_map(|sort| store.all(sort));
        let wide = wide.map(|one| provider_group(&ObjectPlace::of(one).name));
        clusters.chain(wide).collect()
    };
    for group in groups {
        ensure_group(shared, &group);
    }
}

/// Takes in how a zone selects instances.
pub(super) fn select(shared: &ServerContext, zone: &DynamicObject) {
    let spec: DnsZoneSpec = serde_json::from_value(zone.data["spec"].clone()).unwrap_or_default();
    let Some(selection) = spec.selection() else {
        return;
    };
    let namespace = zone.metadata.namespace.as_deref().unwrap_or_default();
    let group = Group::named(&format!("{namespace}/{selection}"));
    if shared.fleets().selections.contains_key(&group) {
        return;
    }
    let read = |selector| read_selector(selector, "spec.bind9InstancesFrom").ok();
    let clusters = spec.clusters();
    let clusters = clusters.iter().flat_map(|(_, name)| {
        [
            cluster_group(&ObjectPlace::new(namespace, name)),
            provider_group(name),
        ]
    });
    let selection = Selection {
        namespace: namespace.to_owned(),
        selectors: spec.instance_selectors().filter_map(read).collect(),
        clusters: clusters.collect(),
    };
    shared.fleets().selections.insert(group.clone(), selection);
    ensure_group(shared, &group);
    let instances: Vec<ServerWork> = shared
        .store()
        .all(Sort::Instance)
        .map(|one| ServerWork::Instance(ObjectPlace::of(one)))
        .collect();
    shared.touch(instances);
}

/// The groups whose zones select an instance that is in these clusters already.
pub(super) fn selected(
    shared: &ServerContext,
    instance: &DynamicObject,
    clusters: &BTreeSet<Group>,
) -> BTreeSet<Group> {
    let metadata = &instance.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let allowed = metadata.annotations.as_ref();
    let allowed = allowed.and_then(|all| all.get(ALLOWED_NAMESPACES));
    let is_allowed = |asking: &str| {
        let mut allowed = allowed.iter().flat_map(|list| list.split(','));
        asking == namespace || allowed.any(|one| one.trim() == "*" || one.trim() == asking)
    };
    let labels: Labels = metadata
        .labels
        .clone()
        .unwrap_or_default()
        .into_iter()
        .collect();
    let fleets = shared.fleets();
    let matches = fleets.selections.iter().filter(|(_, selection)| {
        let is_selected = selection.selectors.iter().any(|one| one.matches(&labels));
        let is_named = !selection.clusters.is_disjoint(clusters);
        is_named || (is_selected && is_allowed(&selection.namespace))
    });
    matches.map(|(group, _)| group.clone()).collect()
}

/// Takes in what an instance is now; `None` where it is gone or going. What its groups are told of is what
/// changed.
pub(super) fn set_member(shared: &ServerContext, instance: &ObjectPlace, member: Option<&Member>) {
    let mut fleets = shared.fleets();
    let before = match member {
        Some(member) => fleets.members.insert(instance.clone(), member.clone()),
        None => fleets.members.remove(instance),
    };
    if before.as_ref() == member {
        return;
    }
    let mut groups = BTreeSet::new();
    for one in before.iter().chain(member) {
        groups.extend(one.groups.iter().cloned());
    }
    for group in groups {
        rebuild(shared, &mut fleets, &group);
    }
    let known = fleets.idle.remove(instance).unwrap_or_default();
    if let Some(member) = member.filter(|member| member.groups.is_empty()) {
        let opened = open_pods(shared, &known, member, &Peers::default());
        fleets.idle.insert(instance.clone(), opened);
    }
}

/// The sidecars of the pods of an instance.
pub(super) fn sidecars(
    shared: &ServerContext,
    instance: &ObjectPlace,
) -> Vec<(ObjectPlace, Arc<dyn Sidecar>)> {
    let fleets = shared.fleets();
    let Some(member) = fleets.members.get(instance) else {
        return Vec::new();
    };
    let opened: Vec<&Opened> = member
        .groups
        .iter()
        .filter_map(|group| fleets.groups.get(group))
        .chain(fleets.idle.get(instance))
        .flatten()
        .collect();
    let sidecar = |pod: &LivePod| {
        let id = server_name(pod);
        let found = opened.iter().find(|one| one.info.id.as_str() == id)?;
        Some((pod.place.clone(), Arc::clone(&found.access.sidecar)))
    };
    member.pods.iter().filter_map(sidecar).collect()
}

fn server_name(pod: &LivePod) -> String {
    format!("{}/{}", pod.place.namespace, pod.place.name)
}

/// The addresses of the pods of a group, each with the key that shows who asks: pods of one machine all ask from
/// the same address.
fn peers(members: &[&Member], role: ServerRole) -> Vec<String> {
    let of_role = members.iter().filter(|member| member.role == role);
    let pods = of_role.flat_map(|member| &member.pods);
    pods.map(|pod| format!("{}:{DNS_PORT} key {TRANSFER_KEY}", pod.ip))
        .collect()
}

/// Opens what the pods of a member are spoken to through.
fn open_pods(
    shared: &ServerContext,
    before: &[Opened],
    member: &Member,
    peers: &Peers,
) -> Vec<Opened> {
    let (copies, notify) = match member.role {
        ServerRole::Primary => (None, peers.secondaries.clone()),
        ServerRole::Secondary => (Some(peers.primaries.clone()), Vec::new()),
    };
    let places = member.pods.iter().map(|pod| PodPlace {
        pod: server_name(pod),
        ip: pod.ip.clone(),
        sidecar_port: member.sidecar_port,
        primaries: copies.clone(),
        notify: notify.clone(),
        key: member.key.clone(),
        zone_key: member.zone_key.clone(),
        takes_addresses: member.takes_addresses,
        default_policy: member.default_policy,
        token: member.token.clone(),
    });
    let opened = places.filter_map(|place| open(shared, before, place, member.role));
    opened.collect()
}

fn rebuild(shared: &ServerContext, fleets: &mut Fleets, group: &Group) {
    let is_in = |member: &&Member| member.groups.contains(group);
    let mut members: Vec<&Member> = fleets.members.values().filter(is_in).collect();
    members.sort_by_key(|member| (member.role, member.index));
    let peers = Peers {
        primaries: peers(&members, ServerRole::Primary),
        secondaries: peers(&members, ServerRole::Secondary),
    };
    let before = fleets.groups.get(group).cloned().unwrap_or_default();
    let opened = members
        .into_iter()
        .flat_map(|member| open_pods(shared, &before, member, &peers));
    let opened: Vec<Opened> = opened.collect();
    let is_known = fleets.groups.contains_key(group);
    if !is_known || !is_same(&before, &opened) {
        tell(shared, group, &opened);
    }
    fleets.groups.insert(group.clone(), opened);
}

/// Opens what a pod is spoken to through, unless it is open.
fn open(
    shared: &ServerContext,
    before: &[Opened],
    place: PodPlace,
    role: ServerRole,
) -> Option<Opened> {
    let known = before.iter().find(|one| one.place == place);
    let access = match known {
        Some(known) => Ok(known.access.clone()),
        None => shared.ports.open(&place),
    };
    let access = match access {
        Ok(access) => access,
        Err(why) => {
            tracing::warn!(pod = place.pod, why, "a pod cannot be spoken to");
            return None;
        }
    };
    let info = ServerInfo {
        id: ServerId::new(&place.pod),
        address: format!("{}:{DNS_PORT}", place.ip).into(),
        role,
    };
    Some(Opened {
        info,
        place,
        access,
    })
}

fn is_same(before: &[Opened], after: &[Opened]) -> bool {
    let mut pairs = before.iter().zip(after);
    let same =
        |(one, other): (&Opened, &Opened)| one.info == other.info && one.place == other.place;
    before.len() == after.len() && pairs.all(same)
}

/// Tells the engine which servers a group has.
fn tell(shared: &ServerContext, group: &Group, opened: &[Opened]) {
    let names: Vec<&str> = opened.iter().map(|one| one.info.id.as_str()).collect();
    let (cluster, servers) = (group.name().unwrap_or_default(), names.join(", "));
    tracing::info!(cluster, servers, "the name servers changed");
    let handles = opened.iter().map(|one| ServerHandle {
        info: one.info.clone(),
        server: Arc::clone(&one.access.server),
        host: Some(Arc::clone(&one.access.host)),
    });
    shared.engine.set_servers(group, handles.collect());
}
