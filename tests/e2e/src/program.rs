//! Where the programs are that `cargo xtask tools` puts on a machine.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const KUBERNETES_MODULE: &str = include_str!("../../../tools/kubernetes/go.mod");
const ETCD_MODULE: &str = include_str!("../../../tools/etcd/go.mod");

/// The newest that can be built from its module as it is; `xtask` builds the same.
const EXTERNAL_DNS_VERSION: &str = "0.21.0";

/// The programs of a real control plane.
pub struct ControlPlane {
    /// The store.
    pub etcd: PathBuf,
    /// The API server.
    pub apiserver: PathBuf,
    /// Garbage collection and namespace deletion.
    pub controller_manager: PathBuf,
}

impl ControlPlane {
    /// Finds the three programs that `cargo xtask tools` built.
    ///
    /// # Errors
    /// One message that lists all that are missing, with the command that makes them.
    pub fn find() -> Result<Self> {
        let kubernetes = required(KUBERNETES_MODULE, "k8s.io/kubernetes");
        let plane = Self {
            etcd: cached("etcd", required(ETCD_MODULE, "go.etcd.io/etcd/server/v3"))?,
            apiserver: cached("kube-apiserver", kubernetes)?,
            controller_manager: cached("kube-controller-manager", kubernetes)?,
        };
        let missing: Vec<_> = [&plane.etcd, &plane.apiserver, &plane.controller_manager]
            .into_iter()
            .filter(|path| !path.is_file())
            .map(|path| path.display().to_string())
            .collect();
        if !missing.is_empty() {
            bail!(
                "missing {}: run `cargo xtask tools` once",
                missing.join(", ")
            );
        }
        Ok(plane)
    }
}

/// A program on PATH or in the folders of system programs.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The kubectl that a user has, else the one that `cargo xtask tools` built.
///
/// # Errors
/// When there is none, with the command that makes one.
pub fn kubectl() -> Result<PathBuf> {
    if let Some(path) = on_path("kubectl") {
        return Ok(path);
    }
    let built = cached("kubectl", required(KUBERNETES_MODULE, "k8s.io/kubernetes"))?;
    if built.is_file() {
        return Ok(built);
    }
    bail!("missing kubectl: run `cargo xtask tools` once")
}

/// The external-dns that `cargo xtask bench` built, a peer of the benchmark.
///
/// # Errors
/// When there is none, with the command that makes one.
pub fn external_dns() -> Result<PathBuf> {
    let built = cached("external-dns", EXTERNAL_DNS_VERSION)?;
    if built.is_file() {
        return Ok(built);
    }
    bail!("missing external-dns: run `cargo xtask bench -- --only memory`, which builds it once")
}

fn cached(name: &str, version: &str) -> Result<PathBuf> {
    let cache = match env::var_os("BINDERY_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => {
            PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache/bindery")
        }
    };
    Ok(cache
        .join("tools")
        .join(format!("{name}-{version}"))
        .join(name))
}

fn required(module_file: &'static str, module: &str) -> &'static str {
    module_file
        .lines()
        .filter_map(|line| {
            line.trim_start_matches("require ")
                .trim()
                .strip_prefix(module)
        })
        .find_map(|rest| rest.trim().strip_prefix('v'))
        .expect("the go.mod beside this code requires the module")
}
