//! The generated configuration of a cluster's servers on a real `named-checkconf` and a real `named`:
//! `cargo test -p bindery-e2e --test named_conf`.
//!
//! It must *never* leave a server behind: each ends with its test.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time on the machine as it is"
)]

mod checked;
mod running;
mod server;

use bindery_api::ClusterConfig;
use bindery_core::ServerRole;
use bindery_sources::clusters::{KeySlot, NamedConf, NamedKey};

/// The configuration of a server of a cluster, from the cluster's spec in YAML.
fn conf(role: ServerRole, cluster: &str) -> NamedConf {
    let cluster: ClusterConfig = serde_saphyr::from_str(cluster).expect("a spec");
    let servers = match role {
        ServerRole::Primary => cluster.primary,
        ServerRole::Secondary => cluster.secondary,
    };
    NamedConf {
        role,
        version: cluster.version,
        global: cluster.global,
        own: None,
        acls: cluster.acls,
        allow_transfer: servers.unwrap_or_default().allow_transfer,
        keys: vec![key(KeySlot::Current, "bindery")],
        has_own_zones_file: false,
        signs_requests: false,
    }
}

fn key(slot: KeySlot, name: &str) -> NamedKey {
    let name = name.to_owned();
    NamedKey { slot, name }
}
