//! Pods in memory, with servers and sidecars that do as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bindery_kube::{
    AwaitedZones, KeyText, PodAccess, PodKey, PodPlace, PodPorts, SecretText, Sidecar,
    SidecarAnswer, Verdict,
};
use bindery_sources::clusters::{ConfigFiles, SidecarView};
use bindery_testkit::{FakeNameServer, Faultless};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

/// Pods in memory: who is asked, and what fails.
#[derive(Clone, Default)]
pub(crate) struct FakePods(Arc<Mutex<Pods>>);

#[derive(Default)]
pub(crate) struct Pods {
    servers: BTreeMap<String, FakeNameServer>,
    /// Those that copy, by pod and by whom they copy from.
    copies: BTreeMap<(String, Vec<String>), FakeNameServer>,
    addresses: BTreeMap<String, String>,
    pub(crate) sidecars: BTreeMap<String, SidecarView>,
    /// Pods that do not become ready.
    pub(crate) unready: BTreeSet<String>,
    /// What named-checkconf says.
    pub(crate) refusal: Option<String>,
    /// The fingerprints of the keys that each pod has loaded.
    loaded: BTreeMap<String, Vec<String>>,
    /// Whether pods do not load what their Secrets have.
    pub(crate) stays_loaded: bool,
    /// Whether sidecars do not tell which keys are loaded, as bindcar.
    pub(crate) tells_nothing: bool,
    /// Pods that were spoken to with a key that they did not have.
    pub(crate) refused: Vec<String>,
    /// How many keys were made.
    made: usize,
}

struct FakeSidecar(FakePods, String);

impl Sidecar for FakeSidecar {
    fn ask<'a>(&'a self, _awaited: AwaitedZones<'a>) -> BoxFuture<'a, SidecarAnswer> {
        let pods = self.0.lock();
        let said = pods.sidecars.get(&self.1).cloned();
        let keys = pods.loaded.get(&self.1).cloned();
        let keys = keys.filter(|_| !pods.tells_nothing);
        drop(pods);
        Box::pin(std::future::ready(SidecarAnswer {
            view: said.unwrap_or(SidecarView::Answers),
            keys,
            // These pods sign nothing, so that they have no key to keep.
            signing_keys: None,
        }))
    }

    fn signing_keys(&self) -> BoxFuture<'_, Result<BTreeMap<String, SecretText>, String>> {
        Box::pin(std::future::ready(Ok(BTreeMap::new())))
    }
}

impl PodPorts for FakePods {
    fn check<'a>(&'a self, _files: &'a ConfigFiles) -> BoxFuture<'a, Result<Verdict, String>> {
        let refusal = self.lock().refusal.clone();
        let verdict = refusal.map_or(Verdict::Accepted, Verdict::Refused);
        Box::pin(std::future::ready(Ok(verdict)))
    }

    fn make_key(&self, name: &str, algorithm: &str) -> Result<PodKey, String> {
        let mut pods = self.lock();
        pods.made += 1;
        Ok(PodKey {
            name: name.to_owned(),
            algorithm: algorithm.to_owned(),
            secret: SecretText::new(format!("secret-{}", pods.made)),
        })
    }

    fn key_file(&self, key: &PodKey) -> Result<KeyText, String> {
        Ok(KeyText {
            file: SecretText::new(format!("key {} {{ }};", key.name)),
            fingerprint: fingerprint(&key.name, key.secret.expose()),
        })
    }

    fn make_token(&self) -> SecretText {
        SecretText::new("token".to_owned())
    }

    fn open(&self, place: &PodPlace) -> Result<PodAccess, String> {
        let mut pods = self.lock();
        let used = fingerprint(&place.key.name, place.key.secret.expose());
        let has = pods.loaded.get(&place.pod);
        if has.is_some_and(|keys| !keys.contains(&used)) {
            pods.refused.push(format!("{} {used}", place.pod));
        }
        let primaries: Vec<FakeNameServer> = place
            .primaries
            .iter()
            .flatten()
            .filter_map(|primary| {
                let (ip, _) = primary.split_once(':')?;
                let pod = pods.addresses.iter().find(|(_, one)| *one == ip)?.0;
                pods.servers.get(pod).cloned()
            })
            .collect();
        let server = match &place.primaries {
            // One that copies from others is another.
            Some(names) => {
                let made = FakeNameServer::following(Faultless, primaries);
                let key = (place.pod.clone(), names.clone());
                pods.copies.entry(key).or_insert(made).clone()
            }
            None => pods.servers.entry(place.pod.clone()).or_default().clone(),
        };
        if place.primaries.is_some() {
            pods.servers.insert(place.pod.clone(), server.clone());
        }
        Ok(PodAccess {
            server: Arc::new(server.clone()),
            host: Arc::new(server),
            sidecar: Arc::new(FakeSidecar(self.clone(), place.pod.clone())),
        })
    }
}

impl FakePods {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pods> {
        self.0.lock().expect("nobody panics under the lock")
    }

    /// The server of a pod.
    pub(crate) fn server(&self, pod: &str) -> FakeNameServer {
        self.lock()
            .servers
            .get(pod)
            .cloned()
            .expect("it was opened")
    }

    /// Runs pods of `StatefulSets`, as a controller and a kubelet would.
    pub(crate) async fn run(self, client: Client) {
        let sets = api(&client, "apps", "StatefulSet");
        loop {
            let found = sets.list(&ListParams::default()).await;
            for set in found.map(|list| list.items).unwrap_or_default() {
                self.run_set(&client, &set).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await; // pause between polls
        }
    }

    pub(crate) async fn run_set(&self, client: &Client, set: &DynamicObject) {
        let metadata = &set.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let set_name = metadata.name.as_deref().unwrap_or_default();
        let pods: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &resource("", "Pod"));
        let replicas = set.data["spec"]["replicas"].as_u64().unwrap_or(1);
        for ordinal in 0..replicas {
            let pod_name = format!("{set_name}-{ordinal}");
            if pods
                .get_opt(&pod_name)
                .await
                .expect("the API answers")
                .is_none()
            {
                let template = &set.data["spec"]["template"];
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "name": pod_name, "labels": template["metadata"]["labels"],
                        "ownerReferences": [{
                            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set_name,
                            "uid": metadata.uid, "controller": true,
                        }],
                    },
                    "spec": template["spec"],
                });
                let pod: DynamicObject = serde_json::from_value(pod).expect("it is an object");
                let made = pods.create(&PostParams::default(), &pod).await;
                made.expect("the pod is valid");
            }
            self.load_keys(client, (namespace, set_name), &pod_name)
                .await;
            self.run_pod(&pods, namespace, &pod_name).await;
        }
    }

    /// A pod has what its Secret has.
    pub(crate) async fn load_keys(
        &self,
        client: &Client,
        (namespace, set): (&str, &str),
        pod: &str,
    ) {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(&format!("{set}-rndc-key")).await;
        let Some(data) = found.ok().flatten().and_then(|secret| secret.data) else {
            return;
        };
        let text = |name: String| {
            let bytes = data.get(&name)?;
            String::from_utf8(bytes.0.clone()).ok()
        };
        let key = |prefix: &str| {
            let (name, secret) = (format!("{prefix}key-name"), format!("{prefix}secret"));
            Some(fingerprint(&text(name)?, &text(secret)?))
        };
        let keys = ["", "next-", "previous-"].into_iter().filter_map(key);
        let mut pods = self.lock();
        if !pods.stays_loaded {
            pods.loaded
                .insert(format!("{namespace}/{pod}"), keys.collect());
        }
    }

    pub(crate) async fn run_pod(&self, pods: &Api<DynamicObject>, namespace: &str, pod: &str) {
        let key = format!("{namespace}/{pod}");
        let (ip, ready) = {
            let mut known = self.lock();
            let next = format!("10.0.0.{}", known.addresses.len() + 1);
            let ip = known.addresses.entry(key.clone()).or_insert(next).clone();
            (ip, !known.unready.contains(&key))
        };
        let status = json!({ "status": {
            "phase": "Running", "podIP": ip,
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        }});
        let params = PatchParams::default();
        let _ = pods
            .patch_status(pod, &params, &Patch::Merge(&status))
            .await;
    }
}

fn fingerprint(name: &str, secret: &str) -> String {
    format!("{name}/{secret}")
}

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

pub(crate) fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(group, kind))
}
