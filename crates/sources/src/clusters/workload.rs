//! The objects that carry out an instance: `ConfigMap`, Services, `StatefulSet`.

use std::collections::BTreeMap;

use bindery_api::{Bind9InstanceSpec, BindcarConfig, RndcSecretRef, ServerSet, StorageConfig};
use serde_json::{Value, json};

use super::files::given_files;
use super::hierarchy::owner;
use super::labels::{INSTANCE_LABEL, workload_labels};
use super::named_conf::{ALIVE_PORT, CONTROL_PORT, DNS_PORT, KEYS_FOLDER as KEYS_PREFIX};
use super::signing_keys::SigningKeys;

/// Where the sidecar listens, unless it is told otherwise.
const SIDECAR_PORT: i64 = 8080;
/// The version of BIND where nobody asks for one.
const VERSION_DEFAULT: &str = "9.18";
/// The user of both containers.
const USER: i64 = 101;
/// What both containers find where.
const CONFIG_FOLDER: &str = "/etc/bind";
const KEYS_FOLDER: &str = "/etc/bind/keys";
const DATA_FOLDER: &str = "/var/cache/bind";
const SIGNING_FOLDER: &str = "/etc/bind/signing-keys";
/// The volume of keys that sign zones.
const SIGNING_VOLUME: &str = "signing-keys";
/// The Secret of the key with which the servers of a namespace copy from each other.
pub const TRANSFER_SECRET: &str = "bindery-transfer-key";
/// The name of that key.
pub const TRANSFER_KEY: &str = "bindery-transfer";
/// The name of the first key that is made for a server, as in bindy; later ones have a number behind it.
pub const KEY_NAME: &str = "bindy-operator";
/// The files of keys that a pod finds in its folder of keys, as the Secret of its instance has them.
const KEY_FILES: [&str; 6] = [
    "rndc.key",
    "previous.key",
    "further.key",
    "keys.conf",
    "rndc.conf",
    "api-token",
];
/// The pod template changes with the configuration, so that pods are replaced.
const CONFIG_HASH_ANNOTATION: &str = "bindery.dev/config-hash";

/// The pods of somebody else's sidecar, which reads its key when it starts, are replaced with the key.
const KEY_ANNOTATION: &str = "bindery.dev/key";

/// The files of a configuration, by name.
pub type ConfigFiles = BTreeMap<String, String>;

/// An instance with what its pods need.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Who it is.
    pub uid: &'a str,
    /// What it declares.
    pub spec: &'a Bind9InstanceSpec,
    /// The servers of its role, as its cluster declares them.
    pub set: Option<&'a ServerSet>,
    /// The generated configuration.
    pub files: &'a ConfigFiles,
    /// The image of the sidecar, and of `named` where nobody names one.
    pub image: &'a str,
    /// By which the key that is used is told from others.
    pub key: &'a str,
    /// Where keys that sign zones are taken from.
    pub signing: Option<&'a SigningKeys>,
    /// Whether zones are signed with those alone.
    pub makes_no_keys: bool,
}

/// The Secret of an instance: its key, which may be a copy of one that somebody gives, and the token of its
/// sidecar.
#[must_use]
pub fn key_secret_name(instance: &str, spec: &Bind9InstanceSpec) -> String {
    let key = spec.rndc_key.as_ref();
    let named = key.and_then(|key| key.secret.as_ref()?.metadata.as_ref()?.name.clone());
    named.unwrap_or_else(|| format!("{instance}-rndc-key"))
}

/// The Secret that somebody gives an instance's key in.
#[must_use]
pub fn given_secret(spec: &Bind9InstanceSpec) -> Option<&RndcSecretRef> {
    let key = spec.rndc_key.as_ref();
    let given = key.and_then(|key| key.secret_ref.as_ref());
    let config = spec.config.as_ref();
    let older = spec.rndc_secret_ref.as_ref();
    given
        .or(older)
        .or_else(|| config.and_then(|config| config.rndc_secret_ref.as_ref()))
}

/// The `ConfigMap` of an instance.
#[must_use]
pub fn config_name(instance: &str) -> String {
    format!("{instance}-config")
}

/// The objects of an instance in the order in which they are applied.
#[must_use]
pub fn workload(wanted: &Workload<'_>) -> Vec<Value> {
    let mut objects = vec![config_map(wanted), service(wanted), pods_service(wanted)];
    objects.extend(api_service(wanted));
    objects.push(stateful_set(wanted));
    objects
}

fn metadata(wanted: &Workload<'_>, name: &str) -> Value {
    json!({
        "name": name,
        "namespace": wanted.namespace,
        "labels": workload_labels(wanted.name, wanted.spec),
        "ownerReferences": [owner("Bind9Instance", wanted.name, wanted.uid)],
    })
}

/// The files that change only by a new configuration.
fn config_files<'a>(wanted: &Workload<'a>) -> BTreeMap<&'a str, &'a str> {
    let files = wanted.files.iter();
    let files = files.filter(|(name, _)| !name.starts_with(KEYS_PREFIX));
    files
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect()
}

fn config_map(wanted: &Workload<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(wanted, &config_name(wanted.name)),
        "data": config_files(wanted),
    })
}

/// The Service for those who ask. The sidecar is not on it, so that nobody publishes it by accident.
fn service(wanted: &Workload<'_>) -> Value {
    let mut metadata = metadata(wanted, wanted.name);
    let config = wanted.set.and_then(|set| set.service.as_ref());
    if let Some(config) = config.filter(|config| !config.annotations.is_empty()) {
        metadata["annotations"] = json!(config.annotations);
    }
    let mut spec = json!({});
    if let Some(Value::Object(given)) = config.and_then(|config| config.spec.clone()) {
        spec = Value::Object(given);
    }
    spec["selector"] = json!({ INSTANCE_LABEL: wanted.name, "app": "bind9" });
    spec["ports"] = json!([
        { "name": "dns-udp", "port": 53, "targetPort": DNS_PORT, "protocol": "UDP" },
        { "name": "dns-tcp", "port": 53, "targetPort": DNS_PORT, "protocol": "TCP" },
    ]);
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })
}

/// The Service of the sidecars, for others than Bindery, where somebody asks for one. Whom it chooses and where its
/// ports lead is not the author's to say.
fn api_service(wanted: &Workload<'_>) -> Option<Value> {
    let config = wanted.spec.bindcar_config.as_ref()?;
    let Some(Value::Object(given)) = config.service_spec.clone() else {
        return None;
    };
    let mut spec = Value::Object(given);
    spec["selector"] = json!({ INSTANCE_LABEL: wanted.name, "app": "bind9" });
    let target = sidecar_port(wanted.spec);
    let given = spec["ports"].as_array().cloned().unwrap_or_default();
    let mut ports: Vec<Value> = given.into_iter().filter(Value::is_object).collect();
    if ports.is_empty() {
        ports.push(json!({ "port": 80 }));
    }
    let is_one = ports.len() == 1;
    for port in &mut ports {
        port["targetPort"] = json!(target);
        port["protocol"] = json!("TCP");
        if is_one && port["name"].is_null() {
            port["name"] = json!("http");
        }
    }
    spec["ports"] = json!(ports);
    Some(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(wanted, &format!("{}-api", wanted.name)),
        "spec": spec,
    }))
}

/// The Service that gives each pod its name, ready or not.
fn pods_service(wanted: &Workload<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(wanted, &format!("{}-pods", wanted.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": { INSTANCE_LABEL: wanted.name, "app": "bind9" },
            "ports": [{
                "name": "http", "port": sidecar_port(wanted.spec), "protocol": "TCP",
                "targetPort": sidecar_port(wanted.spec),
            }],
        },
    })
}

fn stateful_set(wanted: &Workload<'_>) -> Value {
    let spec = wanted.spec;
    let labels = workload_labels(wanted.name, spec);
    let (data, claims) = storage(spec.storage.as_ref());
    let mut volumes = vec![
        config_volume(wanted),
        keys_volume(wanted),
        json!({ "name": "tmp", "emptyDir": {} }),
    ];
    volumes.extend(data);
    volumes.extend(wanted.signing.map(signing_volume));
    volumes.extend(spec.volumes.iter().cloned());
    let pull = spec.image.as_ref().map(|image| &image.image_pull_secrets);
    let secrets: Vec<Value> = pull
        .into_iter()
        .flatten()
        .map(|name| json!({ "name": name }))
        .collect();
    let mut set = json!({
        "replicas": spec.replicas.unwrap_or(1),
        "serviceName": format!("{}-pods", wanted.name),
        "podManagementPolicy": "Parallel",
        "updateStrategy": { "type": "RollingUpdate" },
        "selector": { "matchLabels": { INSTANCE_LABEL: wanted.name, "app": "bind9" } },
        "template": {
            "metadata": {
                "labels": labels,
                "annotations": { CONFIG_HASH_ANNOTATION: hash(&config_files(wanted)) },
            },
            "spec": {
                "terminationGracePeriodSeconds": 10,
                "automountServiceAccountToken": false,
                "securityContext": {
                    "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER, "runAsNonRoot": true,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "volumes": volumes,
                "containers": [named(wanted), sidecar(wanted)],
            },
        },
    });
    let sidecar = spec.bindcar_config.as_ref();
    if sidecar.is_some_and(|config| config.image.is_some()) {
        set["template"]["metadata"]["annotations"][KEY_ANNOTATION] = json!(wanted.key);
    } else {
        // Ours sends a signal to a named that has other keys.
        set["template"]["spec"]["shareProcessNamespace"] = json!(true);
    }
    if !secrets.is_empty() {
        set["template"]["spec"]["imagePullSecrets"] = json!(secrets);
    }
    if !claims.is_empty() {
        set["volumeClaimTemplates"] = json!(claims);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(wanted, wanted.name),
        "spec": set,
    })
}

/// The configuration: what is generated, and what somebody gives.
fn config_volume(wanted: &Workload<'_>) -> Value {
    let name = config_name(wanted.name);
    let given: Vec<Value> = given_files(wanted.spec)
        .into_iter()
        .map(|given| {
            let items = [json!({ "key": given.file, "path": given.file })];
            json!({ "configMap": { "name": given.config_map, "items": items } })
        })
        .collect();
    if given.is_empty() {
        return json!({ "name": "config", "configMap": { "name": name } });
    }
    let mut sources = vec![json!({ "configMap": { "name": name } })];
    sources.extend(given);
    json!({ "name": "config", "projected": { "sources": sources } })
}

/// The keys: its own, and the one that the servers of the namespace copy with.
fn keys_volume(wanted: &Workload<'_>) -> Value {
    let own = key_secret_name(wanted.name, wanted.spec);
    let file = |name: &str| json!({ "key": name, "path": name });
    json!({
        "name": "keys",
        "projected": {
            "defaultMode": 288,
            "sources": [
                { "secret": { "name": own, "items": KEY_FILES.map(file) } },
                { "secret": { "name": TRANSFER_SECRET, "items": [file("transfer.key")] } },
            ],
        },
    })
}

/// The keys that sign zones, which the sidecar copies to where `named` looks for its own.
fn signing_volume(keys: &SigningKeys) -> Value {
    let is_optional = matches!(keys, SigningKeys::Kept(_));
    json!({
        "name": SIGNING_VOLUME,
        "secret": {
            "secretName": keys.secret(), "optional": is_optional, "defaultMode": 288,
        },
    })
}

/// The volume of the zones, or the claim of it for each pod.
fn storage(config: Option<&StorageConfig>) -> (Option<Value>, Vec<Value>) {
    let claim = config
        .filter(|config| config.storage_type.as_deref() == Some("persistentVolumeClaim"))
        .map(|config| config.persistent_volume_claim.clone().unwrap_or_default());
    let Some(claim) = claim else {
        let empty = config.and_then(|config| config.empty_dir.clone());
        let empty = empty.unwrap_or_else(|| json!({}));
        return (
            Some(json!({ "name": "data", "emptyDir": empty })),
            Vec::new(),
        );
    };
    if let Some(name) = claim.claim_name {
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": name } });
        return (Some(volume), Vec::new());
    }
    let modes = if claim.access_modes.is_empty() {
        vec!["ReadWriteOnce".to_owned()]
    } else {
        claim.access_modes
    };
    let mut spec = json!({
        "accessModes": modes,
        "resources": { "requests": { "storage": claim.size.as_deref().unwrap_or("1Gi") } },
    });
    if let Some(class) = claim.storage_class_name {
        spec["storageClassName"] = json!(class);
    }
    let template = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data" }, "spec": spec,
    });
    (None, vec![template])
}

fn mounts() -> Vec<Value> {
    vec![
        json!({ "name": "config", "mountPath": CONFIG_FOLDER, "readOnly": true }),
        json!({ "name": "keys", "mountPath": KEYS_FOLDER, "readOnly": true }),
        json!({ "name": "data", "mountPath": DATA_FOLDER }),
        json!({ "name": "tmp", "mountPath": "/tmp" }),
    ]
}

fn guarded(mut container: Value, pull: Option<&str>) -> Value {
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    if let Some(pull) = pull {
        container["imagePullPolicy"] = json!(pull);
    }
    container
}

fn named(wanted: &Workload<'_>) -> Value {
    let image = wanted.spec.image.as_ref();
    let given = image.and_then(|image| image.image.clone());
    let version = wanted.spec.version.as_deref();
    let image_name = given.unwrap_or_else(|| match version {
        None => wanted.image.to_owned(),
        Some(_) => format!(
            "internetsystemsconsortium/bind9:{}",
            version.unwrap_or(VERSION_DEFAULT)
        ),
    });
    let mut mounts = mounts();
    mounts.extend(wanted.spec.volume_mounts.iter().cloned());
    let container = json!({
        "name": "bind9",
        "image": image_name,
        "command": ["named", "-f", "-c", format!("{CONFIG_FOLDER}/named.conf")],
        "env": [{ "name": "TZ", "value": "UTC" }],
        "ports": [
            { "name": "dns-tcp", "containerPort": DNS_PORT, "protocol": "TCP" },
            { "name": "dns-udp", "containerPort": DNS_PORT, "protocol": "UDP" },
            { "name": "rndc", "containerPort": CONTROL_PORT, "protocol": "TCP" },
            { "name": "alive", "containerPort": ALIVE_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": alive(wanted.files),
        "readinessProbe": {
            "tcpSocket": { "port": DNS_PORT }, "periodSeconds": 2, "timeoutSeconds": 2,
        },
        "volumeMounts": mounts,
    });
    let pull = image.and_then(|image| image.image_pull_policy.as_deref());
    guarded(container, pull)
}

/// A process that is stopped still has its connections accepted, so that named itself must answer. A
/// configuration of somebody's own may have no place to ask.
fn alive(files: &ConfigFiles) -> Value {
    let asks = files
        .values()
        .any(|file| file.contains("statistics-channels"));
    let check = if asks {
        // Short, however many zones there are.
        json!({ "httpGet": { "path": "/xml/v3/status", "port": ALIVE_PORT } })
    } else {
        json!({ "tcpSocket": { "port": DNS_PORT } })
    };
    let mut probe = json!({
        "initialDelaySeconds": 2, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 4,
    });
    if let (Value::Object(probe), Value::Object(check)) = (&mut probe, check) {
        probe.extend(check);
    }
    probe
}

fn sidecar_port(spec: &Bind9InstanceSpec) -> i64 {
    let config = spec.bindcar_config.as_ref();
    config
        .and_then(|config| config.port)
        .unwrap_or(SIDECAR_PORT)
}

/// The variables of the sidecar, without those that somebody adds.
fn variables(wanted: &Workload<'_>, config: &BindcarConfig) -> Vec<Value> {
    let spec = wanted.spec;
    let port = sidecar_port(spec);
    let secret = key_secret_name(wanted.name, spec);
    let of_secret = |variable: &str, key: &str| {
        json!({
            "name": variable,
            "valueFrom": { "secretKeyRef": { "name": secret, "key": key } },
        })
    };
    let of_pod = |variable: &str, path: &str| json!({ "name": variable, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let plain = |variable: &str, value: &str| json!({ "name": variable, "value": value });
    let mut env = vec![
        of_pod("POD_NAME", "metadata.name"),
        of_pod("POD_IP", "status.podIP"),
        plain("BIND_ZONE_DIR", DATA_FOLDER),
        plain("API_PORT", &port.to_string()),
        plain("BIND_API_ADDRESS", "$(POD_IP)"),
        plain("RNDC_SERVER", &format!("$(POD_IP):{CONTROL_PORT}")),
        plain("NSUPDATE_SERVER", "$(POD_IP)"),
        plain("NSUPDATE_PORT", &DNS_PORT.to_string()),
        // Ours reads keys and token there, again and again.
        plain("BINDERY_KEYS_DIR", KEYS_FOLDER),
        plain("TMPDIR", "/tmp"),
        plain("RUST_LOG", config.log_level.as_deref().unwrap_or("info")),
    ];
    if wanted.signing.is_some() {
        env.push(plain("BINDERY_SIGNING_KEYS_DIR", SIGNING_FOLDER));
    }
    if wanted.makes_no_keys {
        env.push(plain("BINDERY_MAKE_NO_SIGNING_KEYS", "true"));
    }
    if config.image.is_some() {
        // Somebody else's reads them once, from its environment.
        env.extend([
            of_secret("RNDC_KEY_NAME", "key-name"),
            of_secret("RNDC_ALGORITHM", "algorithm"),
            of_secret("RNDC_SECRET", "secret"),
            of_secret("NSUPDATE_KEY_NAME", "key-name"),
            of_secret("NSUPDATE_ALGORITHM", "algorithm"),
            of_secret("NSUPDATE_SECRET", "secret"),
            of_secret("BIND_API_TOKEN", "api-token"),
        ]);
    }
    env
}

fn sidecar(wanted: &Workload<'_>) -> Value {
    let spec = wanted.spec;
    let default = BindcarConfig::default();
    let config = spec.bindcar_config.as_ref().unwrap_or(&default);
    let port = sidecar_port(spec);
    let mut env = variables(wanted, config);
    env.extend(config.env_vars.iter().cloned());
    let mut mounts = mounts();
    if wanted.signing.is_some() {
        let keys = json!({ "name": SIGNING_VOLUME, "mountPath": SIGNING_FOLDER, "readOnly": true });
        mounts.push(keys);
    }
    let mut container = json!({
        "name": "api",
        "image": config.image.as_deref().unwrap_or(wanted.image),
        "command": ["bindery", "sidecar", "--wait-for-expected"],
        "env": env,
        "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }],
        "livenessProbe": {
            "httpGet": { "path": "/api/v1/health", "port": port },
            "initialDelaySeconds": 2, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 4,
        },
        "readinessProbe": {
            "httpGet": { "path": "/api/v1/ready", "port": port },
            "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 2,
        },
        "volumeMounts": mounts,
    });
    if let Some(resources) = &config.resources {
        container["resources"] = resources.clone();
    }
    if config.image.is_some() {
        // Somebody else's sidecar starts by itself.
        if let Value::Object(container) = &mut container {
            container.remove("command");
        }
    }
    guarded(container, config.image_pull_policy.as_deref())
}

/// A number for a configuration (FNV-1a): it only has to tell versions of one apart.
fn hash(files: &BTreeMap<&str, &str>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for (name, text) in files {
        for byte in name.bytes().chain([0]).chain(text.bytes()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
