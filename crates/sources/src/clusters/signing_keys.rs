//! Where the keys come from that sign zones, and where they are kept; and what of a spec is not acted on.

use std::collections::{BTreeMap, BTreeSet};

use bindery_api::{Bind9Config, Bind9InstanceSpec, SigningConfig};

/// The Secret whose keys the servers of an instance take for zones that they have none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKeys {
    /// One that somebody gives; there is no server without it.
    Given(String),
    /// The one that the keys of the instance are kept in. In the beginning there is none.
    Kept(String),
}

impl SigningKeys {
    /// The keys of an instance with this configuration.
    #[must_use]
    pub fn of(instance: &str, spec: &Bind9InstanceSpec, config: &Bind9Config) -> Option<Self> {
        let signing = own(spec, config)?;
        let from = signing.keys_from.as_ref();
        if let Some(secret) = from.and_then(|from| from.secret_ref.as_ref()) {
            return Some(Self::Given(secret.name.clone()));
        }
        let is_kept = signing.export_to_secret.unwrap_or(true);
        is_kept.then(|| Self::Kept(kept_name(instance)))
    }

    /// The name of the Secret.
    #[must_use]
    pub fn secret(&self) -> &str {
        match self {
            Self::Given(name) | Self::Kept(name) => name,
        }
    }
}

/// The Secret that the keys of an instance are to be kept in.
#[must_use]
pub fn kept_keys(instance: &str, spec: &Bind9InstanceSpec, config: &Bind9Config) -> Option<String> {
    let signing = own(spec, config)?;
    let is_given = signing.keys_from.is_some();
    let is_kept = signing.export_to_secret.unwrap_or(!is_given);
    is_kept.then(|| kept_name(instance))
}

/// Whether a zone is signed only with keys that somebody gives.
#[must_use]
pub fn makes_no_keys(spec: &Bind9InstanceSpec, config: &Bind9Config) -> bool {
    own(spec, config).is_some_and(|signing| signing.auto_generate == Some(false))
}

/// The keys that are kept from now on: those that a server has, and those of zones that it has no key of at all. A
/// server that just lost its folder takes nothing away.
#[must_use]
pub fn keys_to_keep<T: Clone>(
    kept: &BTreeMap<String, T>,
    present: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let zones: BTreeSet<&str> = present.keys().filter_map(|name| zone_in(name)).collect();
    let is_unknown = |name: &str| zone_in(name).is_none_or(|zone| !zones.contains(zone));
    let mut keys = kept.clone();
    keys.retain(|name, _| is_unknown(name));
    keys.extend(
        present
            .iter()
            .map(|(name, text)| (name.clone(), text.clone())),
    );
    keys
}

/// What an instance asks for and does not get, field by field, with what to do instead.
#[must_use]
pub fn not_acted_on(
    namespace: &str,
    spec: &Bind9InstanceSpec,
    config: &Bind9Config,
) -> Vec<String> {
    let mut told = Vec::new();
    if !spec.primary_servers.is_empty() {
        told.push(
            "primaryServers: zones are copied from the primaries of their own servers; give zones whose primaries \
             others run in configMapRefs.namedConfZones"
                .to_owned(),
        );
    }
    told.extend(of_signing(namespace, spec, config));
    told
}

/// The same of a configuration alone, as a cluster has it.
#[must_use]
pub fn not_acted_on_by_any(namespace: &str, config: &Bind9Config) -> Vec<String> {
    let spec = Bind9InstanceSpec {
        bindcar_config: config.bindcar_config.clone(),
        ..Bind9InstanceSpec::default()
    };
    of_signing(namespace, &spec, config)
}

fn of_signing(namespace: &str, spec: &Bind9InstanceSpec, config: &Bind9Config) -> Vec<String> {
    let mut told = Vec::new();
    let Some(signing) = signing(config) else {
        return told;
    };
    let from = signing.keys_from.as_ref();
    if from.is_some_and(|from| from.persistent_volume.is_some()) {
        told.push(
            "dnssec.signing.keysFrom.persistentVolume: keys lie beside the zones; have spec.storage stay".to_owned(),
        );
    }
    let secret = from.and_then(|from| from.secret_ref.as_ref());
    let elsewhere = secret.and_then(|secret| secret.namespace.as_deref());
    if elsewhere.is_some_and(|elsewhere| elsewhere != namespace) {
        told.push(format!(
            "dnssec.signing.keysFrom.secretRef.namespace: a pod has Secrets of its own namespace, {namespace}"
        ));
    }
    let asks = secret.is_some()
        || signing.export_to_secret == Some(true)
        || signing.auto_generate == Some(false);
    if asks && has_foreign_sidecar(spec) {
        told.push(
            "dnssec.signing: keysFrom, exportToSecret and autoGenerate need the sidecar of Bindery; leave out \
             bindcarConfig.image"
                .to_owned(),
        );
    }
    told
}

/// The keys are ours to hand on: zones are signed here, by a primary, beside our sidecar.
fn own<'a>(spec: &Bind9InstanceSpec, config: &'a Bind9Config) -> Option<&'a SigningConfig> {
    signing(config).filter(|_| spec.role != "secondary" && !has_foreign_sidecar(spec))
}

fn signing(config: &Bind9Config) -> Option<&SigningConfig> {
    let signing = config.dnssec.as_ref()?.signing.as_ref();
    signing.filter(|signing| signing.enabled == Some(true))
}

fn has_foreign_sidecar(spec: &Bind9InstanceSpec) -> bool {
    let sidecar = spec.bindcar_config.as_ref();
    sidecar.is_some_and(|config| config.image.is_some())
}

fn kept_name(instance: &str) -> String {
    format!("{instance}-dnssec-keys")
}

/// The zone of a key, from the name of one of its files in a Secret: `Kexample.com._013_12345.key`.
fn zone_in(name: &str) -> Option<&str> {
    let mut parts = name.rsplitn(3, '_').skip(2);
    parts.next()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value, signing: &Value) -> (Bind9InstanceSpec, Bind9Config) {
        let config = json!({ "dnssec": { "signing": signing } });
        (
            serde_json::from_value(spec).expect("a fixture is a spec"),
            serde_json::from_value(config).expect("a fixture is a configuration"),
        )
    }

    #[test]
    fn keys_are_kept_unless_somebody_gives_them_or_says_no() {
        let check = |signing: Value, taken: Option<&str>, kept: Option<&str>| {
            let (spec, config) = of(json!({ "role": "primary" }), &signing);
            let keys = SigningKeys::of("dns-0", &spec, &config);
            assert_eq!(keys.as_ref().map(SigningKeys::secret), taken, "{signing}");
            assert_eq!(
                kept_keys("dns-0", &spec, &config).as_deref(),
                kept,
                "{signing}"
            );
        };
        let own = Some("dns-0-dnssec-keys");
        let given = json!({ "secretRef": { "name": "mine" } });
        check(json!({ "enabled": true }), own, own);
        check(
            json!({ "enabled": true, "exportToSecret": false }),
            None,
            None,
        );
        check(
            json!({ "enabled": true, "keysFrom": given }),
            Some("mine"),
            None,
        );
        check(
            json!({ "enabled": true, "keysFrom": given, "exportToSecret": true }),
            Some("mine"),
            own,
        );
        check(
            json!({ "keysFrom": given, "exportToSecret": true }),
            None,
            None,
        );
    }

    #[test]
    fn only_a_primary_beside_our_sidecar_has_keys() {
        for spec in [
            json!({ "role": "secondary" }),
            json!({ "role": "primary", "bindcarConfig": { "image": "bindcar:1" } }),
        ] {
            let signing = json!({ "enabled": true, "autoGenerate": false });
            let (spec, config) = of(spec, &signing);
            assert_eq!(SigningKeys::of("dns-0", &spec, &config), None);
            assert_eq!(kept_keys("dns-0", &spec, &config), None);
            assert!(!makes_no_keys(&spec, &config));
        }
    }

    #[test]
    fn what_a_server_lost_is_kept_and_what_it_let_go_is_not() {
        let keys = |names: &[&str]| -> BTreeMap<String, u8> {
            names.iter().map(|name| ((*name).to_owned(), 0)).collect()
        };
        let kept = keys(&[
            "Ka.test._013_00001.key",
            "Ka.test._013_00002.key",
            "K_b.test._013_00003.key",
        ]);
        assert_eq!(keys_to_keep(&kept, &keys(&[])), kept);
        let present = keys(&["Ka.test._013_00002.key", "Ka.test._013_00004.key"]);
        let wanted = keys(&[
            "Ka.test._013_00002.key",
            "Ka.test._013_00004.key",
            "K_b.test._013_00003.key",
        ]);
        assert_eq!(keys_to_keep(&kept, &present), wanted);
    }

    #[test]
    fn what_is_not_acted_on_is_told_with_its_field() {
        let check = |spec: Value, signing: Value, begins: &[&str]| {
            let (spec, config) = of(spec, &signing);
            let told = not_acted_on("dns", &spec, &config);
            assert_eq!(told.len(), begins.len(), "{told:?}");
            for (told, begins) in told.iter().zip(begins) {
                assert!(told.starts_with(begins), "{told}");
            }
        };
        let here = json!({ "secretRef": { "name": "mine", "namespace": "dns" } });
        let there = json!({ "secretRef": { "name": "mine", "namespace": "other" } });
        let foreign = json!({ "bindcarConfig": { "image": "bindcar:1" } });
        check(json!({}), json!({ "enabled": true, "keysFrom": here }), &[]);
        check(
            json!({ "primaryServers": ["192.0.2.1"] }),
            json!({ "enabled": true, "keysFrom": there }),
            &[
                "primaryServers: ",
                "dnssec.signing.keysFrom.secretRef.namespace: ",
            ],
        );
        check(
            json!({}),
            json!({ "enabled": true, "keysFrom": { "persistentVolume": {} } }),
            &["dnssec.signing.keysFrom.persistentVolume: "],
        );
        check(
            foreign.clone(),
            json!({ "enabled": true, "autoGenerate": false }),
            &["dnssec.signing: "],
        );
        check(foreign, json!({ "enabled": true }), &[]);
    }
}
