//! The configuration of an instance, from its own spec and that of its cluster.

use bindery_api::{Bind9InstanceSpec, ClusterConfig};
use bindery_core::{Problem, ServerRole};

use super::named_conf::{KeySlot, NamedConf, NamedKey, render};
use super::workload::{ConfigFiles, KEY_NAME, TRANSFER_KEY};

/// The files of an instance's configuration that nobody gives. Which keys it has is not among them: what stands in
/// the folder of keys is for the check alone, so that a key can be replaced without another configuration.
///
/// # Errors
/// Every field that named.conf cannot have.
pub fn instance_files(
    spec: &Bind9InstanceSpec,
    cluster: Option<&ClusterConfig>,
) -> Result<ConfigFiles, Vec<Problem>> {
    let role = match spec.role.as_str() {
        "secondary" => ServerRole::Secondary,
        _ => ServerRole::Primary,
    };
    let set = cluster.and_then(|cluster| match role {
        ServerRole::Primary => cluster.primary.as_ref(),
        ServerRole::Secondary => cluster.secondary.as_ref(),
    });
    let named = |slot, name: &str| NamedKey {
        slot,
        name: name.to_owned(),
    };
    let given = spec.config_map_refs.as_ref();
    let mut files = render(&NamedConf {
        role,
        version: spec.version.clone(),
        global: cluster.and_then(|cluster| cluster.global.clone()),
        own: spec.config.clone(),
        acls: cluster
            .map(|cluster| cluster.acls.clone())
            .unwrap_or_default(),
        allow_transfer: set
            .map(|set| set.allow_transfer.clone())
            .unwrap_or_default(),
        keys: vec![
            named(KeySlot::Current, KEY_NAME),
            named(KeySlot::Transfer, TRANSFER_KEY),
        ],
        has_own_zones_file: given.is_some_and(|given| given.named_conf_zones.is_some()),
    })?;
    // What somebody gives stands beside what is generated.
    for (name, config_map) in given_files(spec) {
        if config_map.is_some() {
            files.remove(name);
        }
    }
    Ok(files)
}

/// The files that somebody may give, each with the `ConfigMap` that has it.
pub(super) fn given_files(spec: &Bind9InstanceSpec) -> [(&'static str, Option<&str>); 3] {
    let given = spec.config_map_refs.as_ref();
    let of = |get: fn(&bindery_api::ConfigMapRefs) -> &Option<String>| {
        given.and_then(|given| get(given).as_deref())
    };
    [
        ("named.conf", of(|given| &given.named_conf)),
        ("named.conf.options", of(|given| &given.named_conf_options)),
        ("named.conf.zones", of(|given| &given.named_conf_zones)),
    ]
}
