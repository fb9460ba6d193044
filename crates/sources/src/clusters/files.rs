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
        signs_requests: has_foreign_sidecar(spec),
    })?;
    // What somebody gives stands beside what is generated.
    for given in given_files(spec) {
        files.remove(given.file);
    }
    Ok(files)
}

/// Whether the sidecar is somebody else's, which takes addresses of peers without a key.
#[must_use]
pub fn has_foreign_sidecar(spec: &Bind9InstanceSpec) -> bool {
    let sidecar = spec.bindcar_config.as_ref();
    sidecar.is_some_and(|config| config.image.is_some())
}

/// A file of a configuration that somebody gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenFile<'a> {
    /// Its name, in the folder of the configuration and in the `ConfigMap`.
    pub file: &'static str,
    /// The field that names the `ConfigMap`.
    pub field: &'static str,
    /// The `ConfigMap`.
    pub config_map: &'a str,
}

/// The files that somebody gives.
#[must_use]
pub fn given_files(spec: &Bind9InstanceSpec) -> Vec<GivenFile<'_>> {
    let Some(given) = &spec.config_map_refs else {
        return Vec::new();
    };
    let files = [
        ("named.conf", "namedConf", &given.named_conf),
        (
            "named.conf.options",
            "namedConfOptions",
            &given.named_conf_options,
        ),
        (
            "named.conf.zones",
            "namedConfZones",
            &given.named_conf_zones,
        ),
    ];
    let files = files.into_iter().filter_map(|(file, field, config_map)| {
        let config_map = config_map.as_deref()?;
        Some(GivenFile {
            file,
            field,
            config_map,
        })
    });
    files.collect()
}
