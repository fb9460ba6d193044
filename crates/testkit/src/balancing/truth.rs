//! What must be true in the end: of Azure, of Services and pods, and of names.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bindery_core::Name;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Resource, ResourceExt as _,
    api::{Api, DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    BalancerWorld, foreign_content, path,
    wishes::{HOSTNAME, LABEL},
};

/// What is kept until nothing of a Service or a pod is left at Azure.
const FINALIZERS: [&str; 2] = ["bindery.dev/load-balancer", "bindery.dev/egress"];

/// Everything that there is in the API.
struct Objects {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    names: Vec<DynamicObject>,
}

/// What Azure is to have.
#[derive(Default)]
struct Wanted {
    /// Resources, as the ends of their paths.
    resources: BTreeSet<String>,
    services: BTreeSet<String>,
    /// `LOCATION ADDRESS SERVICE`.
    bound: BTreeSet<String>,
}

impl BalancerWorld {
    /// No name in DNS leads to an address that nobody has.
    pub(super) fn check_names(&self) -> Result<(), String> {
        let addresses = self.public_addresses();
        for line in self.lines() {
            let target = line.rsplit(' ').next().unwrap_or_default();
            if !addresses.values().any(|one| one == target) {
                return Err(format!("a name without an address: {line}"));
            }
        }
        Ok(())
    }

    /// Everything that is not as it is to be.
    pub(super) async fn wrongs(&self) -> Result<Vec<String>, String> {
        let objects = self.objects().await;
        let objects = objects.map_err(|error| format!("listing: {error}"))?;
        let wanted = objects.wanted();
        let mut wrongs = Vec::new();
        self.judge_azure(&wanted, &mut wrongs);
        self.judge_services(&objects, &wanted, &mut wrongs);
        for pod in &objects.pods {
            let is_served = egress(pod).is_some();
            if is_kept(pod) != is_served || pod.metadata.deletion_timestamp.is_some() {
                let (name, finalizers) = (pod.name_any(), pod.finalizers());
                wrongs.push(format!("Pod {name} has finalizers {finalizers:?}"));
            }
        }
        Ok(wrongs)
    }

    fn judge_azure(&self, wanted: &Wanted, wrongs: &mut Vec<String>) {
        let foreign = foreign_content();
        let state = self.azure.lock();
        let ours = state
            .resources
            .keys()
            .filter(|path| !path.contains("/servicegateways/") && !path.ends_with("/stray-pip"));
        let ours = ours.map(|path| path.split("network/").last().unwrap_or(path).to_owned());
        differ("resources", &wanted.resources, &ours.collect(), wrongs);
        let content = state.gateways.get(&path("serviceGateways/servicegateway"));
        let content = content.cloned().unwrap_or_default();
        let mut services: BTreeSet<String> = content.services.keys().cloned().collect();
        let theirs = services.remove("theirs");
        differ("services", &wanted.services, &services, wrongs);
        let mut bound = BTreeSet::new();
        for (location, addresses) in &content.locations {
            for (address, services) in addresses {
                let line = |service| format!("{location} {address} {service}");
                bound.extend(services.iter().map(line));
            }
        }
        let are_theirs = foreign.locations.iter().all(|(location, _)| {
            let line = format!("{location} 10.9.0.1 theirs");
            bound.remove(&line)
        });
        differ("bound", &wanted.bound, &bound, wrongs);
        let stray = state
            .resources
            .contains_key(&path("publicIPAddresses/stray-pip"));
        if !(theirs && are_theirs && stray) {
            wrongs.push("something of others is gone".to_owned());
        }
    }

    fn judge_services(&self, objects: &Objects, wanted: &Wanted, wrongs: &mut Vec<String>) {
        let addresses = self.public_addresses();
        let mut lines = BTreeSet::new();
        let mut named = BTreeSet::new();
        for service in &objects.services {
            let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
            let address = addresses.get(&format!("{uid}-pip")).cloned();
            let address = address.filter(|_| is_balanced(service));
            let shown = json!(service.status.clone().unwrap_or_default());
            let ingress = &shown["loadBalancer"]["ingress"][0]["ip"];
            if *ingress != json!(address) {
                wrongs.push(format!("Service {name} shows {ingress}, has {address:?}"));
            }
            if is_kept(service) != address.is_some() || service.meta().deletion_timestamp.is_some()
            {
                let finalizers = service.finalizers();
                wrongs.push(format!("Service {name} has finalizers {finalizers:?}"));
            }
            let is_programmed = is_programmed(&shown);
            if is_programmed != address.is_some() {
                let conditions = &shown["conditions"];
                wrongs.push(format!("Service {name} says {conditions}"));
            }
            let object = format!("service-{name}");
            let published = objects.names.iter().find(|one| one.name_any() == object);
            let hostname = service.annotations().get(HOSTNAME);
            let line = hostname
                .zip(address)
                .map(|(hostname, address)| format!("{hostname}. 60 IN A {address}"));
            let suffix = format!(" {uid}");
            let has_endpoints = wanted.bound.iter().any(|one| one.ends_with(&suffix));
            match (line, published) {
                (Some(line), Some(_)) => {
                    named.insert(object);
                    lines.insert(line);
                }
                (Some(line), None) if has_endpoints => {
                    wrongs.push(format!("Service {name} has not published {line}"));
                }
                (Some(_), None) => {}
                (None, _) => {
                    let annotations = service.annotations().keys();
                    let ours: Vec<&String> = annotations
                        .filter(|key| key.starts_with("bindery.dev/names"))
                        .collect();
                    if !ours.is_empty() {
                        wrongs.push(format!("Service {name} has annotations {ours:?}"));
                    }
                }
            }
        }
        let stand = objects
            .names
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        differ("DNSEndpoints", &named, &stand, wrongs);
        differ("names", &lines, &self.lines(), wrongs);
    }

    /// The addresses of public IPs by their names.
    fn public_addresses(&self) -> BTreeMap<String, String> {
        let state = self.azure.lock();
        let ips = state.resources.iter().filter_map(|(path, value)| {
            let name = path.split("/publicipaddresses/").nth(1)?;
            let address = value["properties"]["ipAddress"].as_str()?;
            Some((name.to_owned(), address.to_owned()))
        });
        ips.collect()
    }

    /// The addresses in DNS.
    fn lines(&self) -> BTreeSet<String> {
        let zone = Name::parse("example.com").expect("it is a name");
        let lines = self.server.lines(&zone).into_iter();
        let lines = lines.filter(|line| line.contains(" IN A ") && !line.starts_with("ns1."));
        lines.collect()
    }

    async fn objects(&self) -> Result<Objects, kube::Error> {
        let kind = GroupVersionKind::gvk("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
        let resource = ApiResource::from_gvk(&kind);
        let names: Api<DynamicObject> = Api::all_with(self.api.client(), &resource);
        Ok(Objects {
            services: self.list().await?,
            slices: self.list().await?,
            nodes: self.list().await?,
            pods: self.list().await?,
            names: names.list(&ListParams::default()).await?.items,
        })
    }

    async fn list<K>(&self) -> Result<Vec<K>, kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.api.client());
        Ok(api.list(&ListParams::default()).await?.items)
    }
}

impl Objects {
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        for service in self.services.iter().filter(|one| is_balanced(one)) {
            let uid = service.uid().unwrap_or_default();
            wanted.resources.insert(format!("loadbalancers/{uid}"));
            wanted
                .resources
                .insert(format!("publicipaddresses/{uid}-pip"));
            wanted.services.insert(uid.clone());
            for (address, location) in self.endpoints(&service.name_any()) {
                wanted.bound.insert(format!("{location} {address} {uid}"));
            }
        }
        for (label, address, location) in self.pods.iter().filter_map(egress) {
            wanted.resources.insert(format!("natgateways/{label}"));
            wanted
                .resources
                .insert(format!("publicipaddresses/{label}-pip"));
            wanted.bound.insert(format!("{location} {address} {label}"));
            wanted.services.insert(label);
        }
        wanted
    }

    /// The endpoints of a Service that get traffic, and where they are.
    fn endpoints(&self, service: &str) -> Vec<(String, IpAddr)> {
        let mut all = Vec::new();
        for slice in &self.slices {
            if slice.labels().get("kubernetes.io/service-name") != Some(&service.to_owned()) {
                continue;
            }
            for endpoint in slice.endpoints.iter().flatten() {
                let conditions = endpoint.conditions.as_ref();
                let is_ready = conditions.and_then(|one| one.ready).unwrap_or(true);
                let address = endpoint.addresses.first().cloned().unwrap_or_default();
                all.push((is_ready, address, endpoint.node_name.clone()));
            }
        }
        let has_ready = all.iter().any(|(is_ready, ..)| *is_ready);
        let serving = all.into_iter().filter(|one| one.0 || !has_ready);
        let placed =
            serving.filter_map(|(_, address, node)| Some((address, self.location(&node?)?)));
        placed.collect()
    }

    fn location(&self, node: &str) -> Option<IpAddr> {
        let node = self.nodes.iter().find(|one| one.name_any() == node)?;
        let addresses = node.status.as_ref()?.addresses.as_ref()?;
        addresses.first()?.address.parse().ok()
    }
}

fn is_balanced(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind == Some("LoadBalancer") && service.metadata.deletion_timestamp.is_none()
}

/// The label, the address and the location of a pod with a gateway.
fn egress(pod: &Pod) -> Option<(String, String, String)> {
    let status = pod.status.as_ref()?;
    let lives = status.phase.as_deref() == Some("Running");
    let is_there = lives && pod.metadata.deletion_timestamp.is_none();
    let label = pod.labels().get(LABEL).filter(|_| is_there)?;
    Some((
        label.clone(),
        status.pod_ip.clone()?,
        status.host_ip.clone()?,
    ))
}

fn is_kept(object: &impl Resource) -> bool {
    let finalizers = object.meta().finalizers.iter().flatten();
    finalizers
        .into_iter()
        .any(|one| FINALIZERS.contains(&one.as_str()))
}

fn is_programmed(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Programmed" && one["status"] == "True")
}

fn differ(
    what: &str,
    wanted: &BTreeSet<String>,
    found: &BTreeSet<String>,
    wrongs: &mut Vec<String>,
) {
    let missing = wanted.difference(found);
    wrongs.extend(missing.map(|one| format!("{what}: {one} is missing")));
    let extra = found.difference(wanted);
    wrongs.extend(extra.map(|one| format!("{what}: {one} is too much")));
}
