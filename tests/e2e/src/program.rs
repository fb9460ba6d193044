//! Where the programs are that `cargo xtask tools` puts on a machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};

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

/// The peer of the sidecar's battery; `xtask` builds the same.
const BINDCAR_VERSION: &str = "0.9.0";

/// The binary, built once beside the test that asks, in the same profile.
///
/// # Errors
/// When it cannot be built, with what the compiler says.
pub fn bindery() -> Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|message| anyhow!("{message}"))
}

/// The bindcar that `cargo xtask setup` built.
///
/// # Errors
/// When there is none, with the command that makes one.
pub fn bindcar() -> Result<PathBuf> {
    let built = cached("bindcar", BINDCAR_VERSION)?;
    if built.is_file() {
        return Ok(built);
    }
    bail!("missing {}: run `cargo xtask setup` once", built.display())
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

/// Builds the binary beside this test, in the same profile.
fn build() -> Result<PathBuf> {
    let this = env::current_exe().context("a test has a path")?;
    let folder = this
        .parent()
        .and_then(Path::parent)
        .context("a test lies in deps")?;
    let target = folder
        .parent()
        .context("a profile lies in the target folder")?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "bindery"]);
    command.arg("--target-dir").arg(target);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    // What cargo tells this test of its package would have build scripts run anew, and all that is
    // built on them be built again.
    for (name, _) in env::vars_os() {
        let shown = name.to_string_lossy();
        if shown.starts_with("CARGO_PKG_") || shown.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let built = built.context("cannot run cargo")?;
    let errors = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "bindery cannot be built:\n{errors}");
    Ok(folder.join("bindery"))
}
