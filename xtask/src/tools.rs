//! Puts the programs that the tests drive on this machine: built from Go modules or crates, or installed from
//! Debian.
#![expect(
    clippy::print_stderr,
    reason = "set-up tells its progress on the terminal"
)]

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

mod crates;

use crates::CargoBuild;

const KUBERNETES_MODULE: &str = include_str!("../../tools/kubernetes/go.mod");
const ETCD_MODULE: &str = include_str!("../../tools/etcd/go.mod");
const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";
/// Folders that a user's PATH may lack although programs of this list live there.
const EXTRA_PATH: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/go/bin"];

/// A program that some test starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// The store under the real API server.
    Etcd,
    /// The real API server.
    KubeApiserver,
    /// Garbage collection and namespace deletion of the real API server.
    KubeControllerManager,
    /// The stock command-line client.
    Kubectl,
    /// BIND's name server.
    Named,
    /// The query tool that users type.
    Dig,
    /// The update tool that Bindery is compared with.
    Nsupdate,
    /// Writes and checks BIND's configuration and keys.
    NamedCheckconf,
    /// Knot's name server, a secondary that is not BIND.
    Knotd,
    /// `PowerDNS`'s name server, another one.
    PdnsServer,
    /// The schema that `PowerDNS`'s store is made with; its package has the store's backend too.
    PdnsSchema,
    /// Makes `PowerDNS`'s store.
    Sqlite,
    /// Reads the image that `cargo xtask image` builds.
    Skopeo,
    /// Gives pods of `bindery up` their addresses.
    Ip,
    /// Rules of the kernel, by which load balancers forward.
    Nft,
    /// The peer of a benchmark; no test needs it.
    ExternalDns,
    /// The sidecar of bindy, whose API ours has.
    Bindcar,
}

/// Every program that `cargo xtask test` needs.
pub(crate) const ALL: [Tool; 16] = [
    Tool::Etcd,
    Tool::KubeApiserver,
    Tool::KubeControllerManager,
    Tool::Kubectl,
    Tool::Named,
    Tool::Dig,
    Tool::Nsupdate,
    Tool::NamedCheckconf,
    Tool::Knotd,
    Tool::PdnsServer,
    Tool::PdnsSchema,
    Tool::Sqlite,
    Tool::Skopeo,
    Tool::Nft,
    Tool::Ip,
    Tool::Bindcar,
];

/// Makes every tool of the list available, or says in one message what is missing and how to get it.
///
/// # Guarantees
/// A cached program is complete: it is built beside its place and renamed into it.
pub(crate) fn ensure(tools: &[Tool]) -> Result<()> {
    let mut missing = Vec::new();
    install_packages(tools, &mut missing);
    for &tool in tools {
        if tool.find().is_some() {
            continue;
        }
        match tool.source() {
            Source::Go(build) => {
                if let Err(fault) = build.run() {
                    missing.push(format!("{}: {fault:#}", build.name));
                }
            }
            Source::Cargo(build) => {
                if let Err(fault) = build.run() {
                    missing.push(format!("{}: {fault:#}", build.name));
                }
            }
            Source::Debian { .. } => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "the tests need programs that could not be set up here:\n  - {}",
        missing.join("\n  - ")
    )
}

/// The folder of the built programs, outside every checkout.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("BINDERY_CACHE") {
        return Ok(PathBuf::from(folder).join("tools"));
    }
    let home = env::var_os("HOME").context("neither BINDERY_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/bindery/tools"))
}

enum Source {
    Go(GoBuild),
    Cargo(CargoBuild),
    Debian {
        /// By its name on PATH; a file that is no program by its whole path.
        program: &'static str,
        package: &'static str,
    },
}

impl Source {
    const fn debian(program: &'static str, package: &'static str) -> Self {
        Self::Debian { program, package }
    }
}

struct GoBuild {
    name: &'static str,
    /// The folder of a module of ours that requires it; none where its own will do.
    module: Option<&'static str>,
    package: &'static str,
    version: &'static str,
}

impl Tool {
    /// Where the program is now, if it is anywhere.
    pub(crate) fn find(self) -> Option<PathBuf> {
        match self.source() {
            Source::Debian { program, .. } => on_path(program),
            Source::Cargo(build) => build.target().ok().filter(|path| path.is_file()),
            Source::Go(build) => {
                let cached = build.target().ok().filter(|path| path.is_file());
                // Any kubectl that the user has is good enough: the tests drive it as the user would.
                if self == Self::Kubectl {
                    on_path("kubectl").or(cached)
                } else {
                    cached
                }
            }
        }
    }

    fn source(self) -> Source {
        match self {
            Self::Etcd => Source::Go(GoBuild {
                name: "etcd",
                module: Some("etcd"),
                package: "go.etcd.io/etcd/server/v3",
                version: required(ETCD_MODULE, "go.etcd.io/etcd/server/v3"),
            }),
            Self::KubeApiserver => Source::Go(GoBuild::kubernetes(
                "kube-apiserver",
                "k8s.io/kubernetes/cmd/kube-apiserver",
            )),
            Self::KubeControllerManager => Source::Go(GoBuild::kubernetes(
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            )),
            Self::Kubectl => Source::Go(GoBuild::kubernetes(
                "kubectl",
                "k8s.io/kubernetes/cmd/kubectl",
            )),
            Self::Named => Source::debian("named", "bind9"),
            Self::Dig => Source::debian("dig", "bind9-dnsutils"),
            Self::Nsupdate => Source::debian("nsupdate", "bind9-dnsutils"),
            Self::NamedCheckconf => Source::debian("named-checkconf", "bind9-utils"),
            Self::Knotd => Source::debian("knotd", "knot"),
            Self::PdnsServer => Source::debian("pdns_server", "pdns-server"),
            Self::PdnsSchema => Source::debian(
                "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql",
                "pdns-backend-sqlite3",
            ),
            Self::Sqlite => Source::debian("sqlite3", "sqlite3"),
            Self::Skopeo => Source::debian("skopeo", "skopeo"),
            Self::Ip => Source::debian("ip", "iproute2"),
            Self::Nft => Source::debian("nft", "nftables"),
            Self::ExternalDns => Source::Go(GoBuild {
                name: "external-dns",
                module: None,
                package: "sigs.k8s.io/external-dns",
                version: "0.21.0",
            }),
            Self::Bindcar => Source::Cargo(CargoBuild {
                name: "bindcar",
                version: "0.9.0",
            }),
        }
    }
}

impl GoBuild {
    fn kubernetes(name: &'static str, package: &'static str) -> Self {
        let version = required(KUBERNETES_MODULE, "k8s.io/kubernetes");
        Self {
            name,
            module: Some("kubernetes"),
            package,
            version,
        }
    }

    fn target(&self) -> Result<PathBuf> {
        let folder = cache()?.join(format!("{}-{}", self.name, self.version));
        Ok(folder.join(self.name))
    }

    /// Builds into a folder of this process and renames it, so that an interrupted build leaves nothing that looks done.
    fn run(&self) -> Result<()> {
        let go = on_path("go").context("needs Go 1.26 or newer on PATH to build it")?;
        let target = self.target()?;
        let folder = target
            .parent()
            .context("a cached program lies in a folder")?;
        let scratch = folder.with_extension(format!("building-{}", process::id()));
        fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot create {}", scratch.display()))?;
        eprintln!("building {} {} (once per machine)", self.name, self.version);
        let begun = Instant::now();
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(go);
        match self.module {
            Some(module) => command
                .args(["build", "-p", "2", "-trimpath", "-mod=readonly", "-ldflags"])
                .arg(self.linker_flags())
                .arg("-o")
                .arg(scratch.join(self.name))
                .arg(self.package)
                .current_dir(checkout().join("tools").join(module)),
            None => command
                .args(["install", "-p", "2", "-trimpath", "-ldflags", "-s -w"])
                .arg(format!("{}@v{}", self.package, self.version))
                .env("GOBIN", &scratch),
        };
        let status = command
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .status()
            .context("cannot start go")?;
        if !status.success() {
            fs::remove_dir_all(&scratch).ok();
            bail!(
                "go could not build {} ({status}); its output is above",
                self.package
            );
        }
        // Another run may have been faster; its result is as good as ours.
        if fs::rename(&scratch, folder).is_err() {
            fs::remove_dir_all(&scratch).ok();
        }
        if !target.is_file() {
            bail!("{} is in the way, remove it", folder.display());
        }
        eprintln!("built {} in {} s", self.name, begun.elapsed().as_secs());
        Ok(())
    }

    /// Without its version the API server calls itself v0.0.0 and clients are confused.
    fn linker_flags(&self) -> String {
        let mut parts = self.version.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        let version = self.version;
        let base = "k8s.io/component-base/version";
        format!(
            "-s -w -X {base}.gitVersion=v{version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}"
        )
    }
}

/// Installs the Debian packages of missing programs, or adds a line per program to `missing`.
fn install_packages(tools: &[Tool], missing: &mut Vec<String>) {
    let absent = || -> Vec<(&'static str, &'static str)> {
        tools
            .iter()
            .filter_map(|tool| match tool.source() {
                Source::Debian { program, package } => Some((program, package)),
                Source::Go(_) | Source::Cargo(_) => None,
            })
            .filter(|(program, _)| on_path(program).is_none())
            .collect()
    };
    let wanted = absent();
    if wanted.is_empty() {
        return;
    }
    let mut packages: Vec<_> = wanted.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    let hint = if on_path("apt-get").is_none() {
        "this machine has no apt-get"
    } else if !is_root() {
        "only root may install it"
    } else {
        match apt_install(&packages) {
            Ok(()) => "its package does not bring it",
            Err(fault) => {
                eprintln!("{fault:#}");
                "apt-get could not install it"
            }
        }
    };
    for (program, package) in absent() {
        missing.push(format!("{program}: install the package {package} ({hint})"));
    }
}

fn apt_install(packages: &[&str]) -> Result<()> {
    eprintln!("installing {}", packages.join(" "));
    let _quiet = ServicesStayDown::declare()?;
    let run = |args: &[&str]| -> Result<()> {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start apt-get")?;
        if status.success() {
            return Ok(());
        }
        bail!("`apt-get {}` failed ({status})", args.join(" "))
    };
    run(&["update", "-q"])?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(packages);
    run(&install)
}

/// While it lives, Debian's packages do not start their services: the tests start their own servers.
struct ServicesStayDown {
    ours: bool,
}

impl ServicesStayDown {
    fn declare() -> Result<Self> {
        let file = Path::new(POLICY_FILE);
        if file.exists() {
            return Ok(Self { ours: false });
        }
        fs::write(file, "#!/bin/sh\nexit 101\n").context("cannot write the service policy")?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))
            .context("cannot make the service policy executable")?;
        Ok(Self { ours: true })
    }
}

impl Drop for ServicesStayDown {
    fn drop(&mut self) {
        if self.ours {
            fs::remove_file(POLICY_FILE).ok();
        }
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(EXTRA_PATH.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The version that a go.mod requires of a module, without the leading `v`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_committed_modules() {
        assert_eq!(required(KUBERNETES_MODULE, "k8s.io/kubernetes"), "1.36.3");
        assert_eq!(required(ETCD_MODULE, "go.etcd.io/etcd/server/v3"), "3.6.5");
    }

    #[test]
    fn every_go_program_is_kept_by_name_and_version() {
        let build = GoBuild::kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver");
        let target = build.target().expect("the tests run with a home folder");
        assert!(target.ends_with("tools/kube-apiserver-1.36.3/kube-apiserver"));
    }
}
