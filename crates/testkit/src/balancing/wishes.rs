//! The user of load balancers: creates, changes and deletes Services, slices, nodes and pods at random.

use bindery_api::DnsEndpoint;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Client, Error, Resource,
    api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{azure::AzureInside, weather::Random};

/// The label by which a pod asks for a gateway.
pub(super) const LABEL: &str = "bindery.dev/egress-gateway";
/// The annotation by which a Service asks for a name.
pub(super) const HOSTNAME: &str = "external-dns.kubernetes.io/hostname";
/// Where names are cached for as long.
const TTL: &str = "external-dns.kubernetes.io/ttl";

const SERVICES: usize = 3;
const SLICES: usize = 4;
const NODES: usize = 3;
const PODS: usize = 4;

/// Somebody who uses load balancers.
pub(super) struct BalancerUser {
    client: Client,
    random: Random,
    /// Pods that there were, so that none has the address of another.
    pods_len: u8,
    /// Somebody also takes finalizers away, clears statuses, and changes things at Azure.
    is_rude: bool,
}

impl BalancerUser {
    pub(super) fn new(client: Client, seed: u64) -> Self {
        Self {
            client,
            random: Random::new(seed ^ 0x7e4a_4700),
            pods_len: 0,
            is_rude: seed % 3 == 2,
        }
    }

    /// Whether names must have addresses at any time: nobody takes away what they stand on.
    pub(super) fn is_strict(&self) -> bool {
        !self.is_rude
    }

    /// A zone, and the nodes.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        let kind = GroupVersionKind::gvk("bindy.firestoned.io", "v1beta1", "DNSZone");
        let zones: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            "default",
            &ApiResource::from_gvk(&kind),
        );
        let zone = json!({
            "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "DNSZone",
            "metadata": {"name": "example", "namespace": "default"},
            "spec": {"zoneName": "example.com", "ttl": 300},
        });
        let zone = serde_json::from_value(zone).map_err(Error::SerdeError)?;
        zones.create(&PostParams::default(), &zone).await?;
        for at in 0..NODES {
            self.place_node(at).await?;
        }
        Ok(())
    }

    /// Does something, and says what.
    pub(super) async fn act(&mut self, azure: &AzureInside) -> Result<String, Error> {
        let done = match self.random.below(if self.is_rude { 32 } else { 25 }) {
            0..=3 => self.create_service().await,
            4 | 5 => self.delete_service().await,
            6..=8 => self.change_service().await,
            9..=13 => self.write_slice().await,
            14 => self.delete_slice().await,
            15 | 16 => self.move_node().await,
            17..=20 => self.create_pod().await,
            21 | 22 => self.delete_pod().await,
            23 | 24 => self.change_pod().await,
            25 | 26 => self.strip().await,
            27 => self.clear_status().await,
            28 | 29 => self.spoil_names().await,
            _ => Ok(self.meddle(azure)),
        };
        match done {
            // It is there already, or it is not there.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(format!("in vain: {}", status.message))
            }
            done => done,
        }
    }

    /// What was asked for by mistake is asked for no more.
    pub(super) async fn mend(&mut self) -> Result<(), Error> {
        let services: Api<Service> = self.all();
        for one in services.list(&ListParams::default()).await?.items {
            let name = one.metadata.name.unwrap_or_default();
            let patch = json!({"spec": {"sessionAffinity": "None"}});
            self.merge::<Service>(&name, &patch).await?;
        }
        Ok(())
    }

    async fn create_service(&mut self) -> Result<String, Error> {
        let name = self.name("s", SERVICES);
        let kind = if self.random.percent(85) {
            "LoadBalancer"
        } else {
            "ClusterIP"
        };
        let mut annotations = json!({});
        if self.random.percent(60) {
            annotations = json!({HOSTNAME: format!("{name}.example.com"), TTL: "60"});
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"type": kind, "ports": [self.port()]},
        });
        self.create::<Service>(service).await?;
        Ok(format!("create Service {name} {kind}"))
    }

    async fn delete_service(&mut self) -> Result<String, Error> {
        let name = self.name("s", SERVICES);
        self.delete::<Service>(&name).await?;
        Ok(format!("delete Service {name}"))
    }

    async fn change_service(&mut self) -> Result<String, Error> {
        let name = self.name("s", SERVICES);
        let patch = match self.random.below(7) {
            0 | 1 => json!({"spec": {"type": "ClusterIP"}}),
            2 | 3 => json!({"spec": {"type": "LoadBalancer"}}),
            4 => json!({"spec": {"ports": [self.port()]}}),
            5 => {
                let host = self.random.percent(50);
                let host = host.then(|| format!("{name}.example.com"));
                json!({"metadata": {"annotations": {HOSTNAME: host, TTL: "60"}}})
            }
            _ => {
                let affinity = *self.random.pick(&["None", "ClientIP"]);
                json!({"spec": {"sessionAffinity": affinity}})
            }
        };
        self.merge::<Service>(&name, &patch).await?;
        Ok(format!("change Service {name}: {patch}"))
    }

    async fn write_slice(&mut self) -> Result<String, Error> {
        let name = self.name("e", SLICES);
        let service = self.name("s", SERVICES);
        let endpoints: Vec<Value> = (0..self.random.below(4))
            .map(|_| {
                let address = format!("10.0.0.{}", 1 + self.random.below(5));
                let node = format!("n{}", self.random.below(NODES));
                let is_ready = self.random.percent(75);
                json!({"addresses": [address], "nodeName": node, "conditions":
                    {"ready": is_ready, "serving": true, "terminating": !is_ready}})
            })
            .collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default",
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": endpoints,
        });
        let told = format!("write EndpointSlice {name} of {service}: {endpoints:?}");
        match self.create::<EndpointSlice>(slice.clone()).await {
            Err(Error::Api(status)) if status.code == 409 => {
                self.merge::<EndpointSlice>(&name, &slice).await?;
            }
            done => done?,
        }
        Ok(told)
    }

    async fn delete_slice(&mut self) -> Result<String, Error> {
        let name = self.name("e", SLICES);
        self.delete::<EndpointSlice>(&name).await?;
        Ok(format!("delete EndpointSlice {name}"))
    }

    /// A node goes, comes back, or has another address.
    async fn move_node(&mut self) -> Result<String, Error> {
        let at = self.random.below(NODES);
        if self.random.percent(25) {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let name = format!("n{at}");
            nodes.delete(&name, &DeleteParams::default()).await?;
            return Ok(format!("delete Node {name}"));
        }
        self.place_node(at).await
    }

    async fn place_node(&mut self, at: usize) -> Result<String, Error> {
        let name = format!("n{at}");
        // No two nodes have the same one.
        let address = format!("192.0.2.{}", 10 * (at + 1) + self.random.below(3));
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let node = serde_json::from_value(node).map_err(Error::SerdeError)?;
        match nodes.create(&PostParams::default(), &node).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            done => {
                done?;
            }
        }
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let params = PatchParams::default();
        nodes
            .patch_status(&name, &params, &Patch::Merge(&status))
            .await?;
        Ok(format!("Node {name} is at {address}"))
    }

    async fn create_pod(&mut self) -> Result<String, Error> {
        let name = self.name("p", PODS);
        let label = format!("out{}", self.random.below(2));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {LABEL: label}},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        });
        self.create::<Pod>(pod).await?;
        self.pods_len += 1;
        let address = format!("10.0.1.{}", self.pods_len);
        let host = format!("192.0.2.{}", 10 * (1 + self.random.below(NODES)));
        self.pod_status(
            &name,
            &json!({
                "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                "hostIP": host, "hostIPs": [{"ip": host}],
            }),
        )
        .await?;
        Ok(format!("create Pod {name} of {label} at {address}"))
    }

    async fn delete_pod(&mut self) -> Result<String, Error> {
        let name = self.name("p", PODS);
        self.delete::<Pod>(&name).await?;
        Ok(format!("delete Pod {name}"))
    }

    async fn change_pod(&mut self) -> Result<String, Error> {
        let name = self.name("p", PODS);
        if self.random.percent(25) {
            self.pod_status(&name, &json!({"phase": "Succeeded"}))
                .await?;
            return Ok(format!("Pod {name} has ended"));
        }
        let label = self.random.below(3);
        let label = (label < 2).then(|| format!("out{label}"));
        let patch = json!({"metadata": {"labels": {LABEL: label}}});
        self.merge::<Pod>(&name, &patch).await?;
        if self.random.percent(40) {
            let number = self.random.below(100).to_string();
            let patch = json!({"metadata": {"annotations": {"other": number}}});
            self.merge::<Pod>(&name, &patch).await?;
        }
        Ok(format!("Pod {name} has the label {label:?}"))
    }

    /// Somebody takes finalizers away.
    async fn strip(&mut self) -> Result<String, Error> {
        let none = json!({"metadata": {"finalizers": null}});
        let name = if self.random.percent(50) {
            let name = self.name("s", SERVICES);
            self.merge::<Service>(&name, &none).await?;
            name
        } else {
            let name = self.name("p", PODS);
            self.merge::<Pod>(&name, &none).await?;
            name
        };
        Ok(format!("strip {name}"))
    }

    async fn clear_status(&mut self) -> Result<String, Error> {
        let name = self.name("s", SERVICES);
        let services: Api<Service> = self.all();
        let none = json!({"status": {"loadBalancer": {"ingress": null}, "conditions": null}});
        let params = PatchParams::default();
        services
            .patch_status(&name, &params, &Patch::Merge(&none))
            .await?;
        Ok(format!("clear the status of {name}"))
    }

    /// Somebody deletes the names of a Service, or has them lead elsewhere.
    async fn spoil_names(&mut self) -> Result<String, Error> {
        let name = format!("service-{}", self.name("s", SERVICES));
        if self.random.percent(50) {
            self.delete::<DnsEndpoint>(&name).await?;
            return Ok(format!("delete DNSEndpoint {name}"));
        }
        let elsewhere = json!({"spec": {"endpoints": []}});
        self.merge::<DnsEndpoint>(&name, &elsewhere).await?;
        Ok(format!("empty DNSEndpoint {name}"))
    }

    /// Somebody changes what is ours at Azure.
    fn meddle(&mut self, azure: &AzureInside) -> String {
        let mut state = azure.lock();
        let gateway = super::path("serviceGateways/servicegateway");
        let Some(content) = state.gateways.get_mut(&gateway) else {
            return String::new();
        };
        let ours: Vec<String> = content.services.keys().cloned().collect();
        let ours: Vec<String> = ours.into_iter().filter(|name| name != "theirs").collect();
        let location = [192, 0, 2, 10].into();
        if self.random.percent(50) {
            content.locations.remove(&location);
            return format!("somebody takes away what is bound at {location}");
        }
        if ours.is_empty() {
            return "somebody finds nothing".to_owned();
        }
        let service = self.random.pick(&ours).clone();
        let bound = content.locations.entry(location).or_default();
        let address = [10, 0, 2, 7].into();
        bound.entry(address).or_default().insert(service.clone());
        format!("somebody binds {address} to {service}")
    }

    fn name(&mut self, letter: &str, len: usize) -> String {
        format!("{letter}{}", self.random.below(len))
    }

    fn port(&mut self) -> Value {
        let port = 80 + self.random.below(3);
        json!({"name": "http", "port": port, "targetPort": 8080, "protocol": "TCP"})
    }

    async fn pod_status(&self, name: &str, status: &Value) -> Result<(), Error> {
        let pods: Api<Pod> = self.all();
        let body = json!({ "status": status });
        let params = PatchParams::default();
        pods.patch_status(name, &params, &Patch::Merge(&body))
            .await?;
        Ok(())
    }

    fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create<K>(&self, object: Value) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).map_err(Error::SerdeError)?;
        self.all().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn merge<K>(&self, name: &str, patch: &Value) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let params = PatchParams::default();
        let api: Api<K> = self.all();
        api.patch(name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn delete<K>(&self, name: &str) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.all();
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}
