//! A real kube-apiserver, name servers that Bindery does not manage, and `bindery run` between them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use bindery_apiserver::System;
use bindery_bind::{Named, Options, find_named};
use bindery_core::{Name, Record};
use bindery_dns::Key;
use bindery_dns::local::Replication;
use bindery_e2e::kubernetes::Kubernetes;
use bindery_e2e::process::free_port;
use bindery_engine::ports::ZoneHost as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::machine::{PATIENCE, Process, program, run, text, until};

/// See the module; dropping it stops everything.
pub(crate) struct Stage {
    pub(crate) process: Process,
    pub(crate) primary: Named,
    /// The primary of another cluster, with a key of its own.
    pub(crate) other: Option<Named>,
    pub(crate) kubernetes: Kubernetes,
    pub(crate) scratch: TempDir,
    pub(crate) runtime: Runtime,
    pub(crate) metrics: u16,
    /// What `bindery` was started with.
    pub(crate) line: Vec<String>,
    key: Key,
}

/// Applies a manifest with every right.
pub(crate) type Apply<'a> = &'a dyn Fn(&str) -> Result<()>;

impl Stage {
    /// Starts all but the secondaries, which are told of changes and may come later.
    pub(crate) fn new(secondaries: &[SocketAddr]) -> Result<Self> {
        Self::with(secondaries, false, |kubernetes, _| {
            Ok((admin(kubernetes), Vec::new()))
        })
    }

    /// Starts all as the service account `bindery/bindery`, which has the rights that `grant` gives it;
    /// its kubeconfig is the file `limited`.
    pub(crate) fn limited(
        flags: &[&str],
        grant: impl FnOnce(Apply<'_>) -> Result<()>,
    ) -> Result<Self> {
        Self::with(&[], false, |kubernetes, scratch| {
            let every = admin(kubernetes);
            grant(&|yaml| {
                let file = scratch.join("grant.yaml");
                fs::write(&file, yaml)?;
                kubectl(&every, &["apply", "-f", &file.display().to_string()]).map(drop)
            })?;
            let token = kubectl(&every, &["create", "token", "-n", "bindery", "bindery"])?;
            let limited = kubernetes.kubeconfig_for(token.trim());
            let file = scratch.join("limited");
            fs::write(&file, limited)?;
            let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
            Ok((file.display().to_string(), flags))
        })
    }

    /// Starts two primaries, of the clusters `external` and `internal`.
    pub(crate) fn of_two_clusters() -> Result<Self> {
        Self::with(&[], true, |kubernetes, _| {
            Ok((admin(kubernetes), Vec::new()))
        })
    }

    fn with(
        secondaries: &[SocketAddr],
        is_split: bool,
        login: impl FnOnce(&Kubernetes, &Path) -> Result<(String, Vec<String>)>,
    ) -> Result<Self> {
        let runtime = Runtime::new().context("a runtime needs only threads")?;
        let scratch = tempfile::tempdir()?;
        let kubernetes = runtime.block_on(Kubernetes::start())?;
        let (key, key_file) = make_key(&scratch.path().join("tsig.key"))?;
        let role = Replication::Primary {
            notify: secondaries.to_vec(),
        };
        let options = options(&key, scratch.path().join("named"), free_address()?, role)?;
        let primary = runtime.block_on(Named::start(options))?;
        install_kinds(&admin(&kubernetes))?;
        let (kubeconfig, flags) = login(&kubernetes, scratch.path())?;
        let metrics = free_port()?;
        let mut line = vec![
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--metrics-address=127.0.0.1:{metrics}"),
        ];
        let mut other = None;
        if is_split {
            let (key, file) = make_key(&scratch.path().join("other.key"))?;
            let role = Replication::Primary { notify: Vec::new() };
            let folder = scratch.path().join("other");
            let named = self::options(&key, folder, free_address()?, role)?;
            let named = runtime.block_on(Named::start(named))?;
            line.extend([
                format!("--nameserver=external/primary={}", primary.address()),
                format!("--nameserver=internal/{}", named.address()),
                format!("--tsig-key-file=external={key_file},internal={file}"),
            ]);
            other = Some(named);
        } else {
            line.extend([
                format!("--nameserver=primary={}", primary.address()),
                format!("--tsig-key-file={key_file}"),
            ]);
        }
        let others = secondaries.iter();
        line.extend(others.map(|other| format!("--nameserver=secondary={other}")));
        line.extend(flags);
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let process = Process::start(&words, scratch.path(), 0)?;
        Ok(Self {
            process,
            primary,
            other,
            kubernetes,
            scratch,
            runtime,
            metrics,
            line,
            key,
        })
    }

    /// Makes a zone of these lines on the primary.
    pub(crate) fn create_zone(&self, zone: &str, lines: &str) -> Result<()> {
        self.create_zone_at(&self.primary, zone, lines)
    }

    /// Makes a zone of these lines on a server.
    pub(crate) fn create_zone_at(&self, server: &Named, zone: &str, lines: &str) -> Result<()> {
        let zone = Name::parse(zone)?;
        let records: Vec<Record> = lines
            .lines()
            .map(|line| line.parse().map_err(|problem| anyhow!("{problem}")))
            .collect::<Result<_>>()?;
        let host = server.host();
        let made = self.runtime.block_on(host.create(&zone, &records));
        made.map_err(|fault| anyhow!("{fault}"))
    }

    /// Starts another `named` that copies a zone from the primary.
    pub(crate) fn start_secondary(&self, address: SocketAddr, zone: &str) -> Result<Named> {
        let folder = self
            .scratch
            .path()
            .join(format!("named-{}", address.port()));
        let role = Replication::Secondary {
            primaries: vec![self.primary.address()],
        };
        let options = options(&self.key, folder, address, role)?;
        let named = self.runtime.block_on(Named::start(options))?;
        let zone = Name::parse(zone)?;
        let made = self.runtime.block_on(named.host().create(&zone, &[]));
        made.map_err(|fault| anyhow!("{fault}"))?;
        Ok(named)
    }

    /// The secret of the key that updates and transfers are signed with, as configurations have it.
    pub(crate) fn secret(&self) -> Result<String> {
        let file = self.key.to_key_file();
        let secret = file.split("secret \"").nth(1).and_then(|rest| {
            let (secret, _) = rest.split_once('"')?;
            Some(secret.to_owned())
        });
        secret.context("a key file has a secret")
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&admin(&self.kubernetes), arguments).with_context(|| self.process.err())
    }

    pub(crate) fn kubectl_apply(&self, yaml: &str) -> Result<()> {
        let file = self.scratch.path().join("apply.yaml");
        fs::write(&file, yaml)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])
            .map(drop)
    }

    /// Waits until objects have a condition.
    pub(crate) fn wait(&self, condition: &str, object: &str) -> Result<()> {
        let condition = format!("--for=condition={condition}");
        let patience = format!("--timeout={}s", 2 * PATIENCE.as_secs());
        self.kubectl(&["wait", &condition, object, &patience])
            .map(drop)
    }

    /// Waits until a field of an object, as a JSON path, is as wanted.
    pub(crate) fn says(
        &self,
        object: &[&str],
        path: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let path = format!("jsonpath={{{path}}}");
        let mut last = String::new();
        until("a field", || {
            last = self.kubectl(&[&["get"], object, &["-o", &path]].concat())?;
            Ok(wanted(&last).then_some(()))
        })
        .with_context(|| format!("{object:?} {path} says {last:?}\n{}", self.process.err()))
    }

    /// Waits until the primary answers this.
    pub(crate) fn resolves(&self, name: &str, rtype: &str, wanted: &str) -> Result<()> {
        resolves_at(self.primary.address(), name, rtype, wanted)
    }
}

/// The kubeconfig with every right.
fn admin(kubernetes: &Kubernetes) -> String {
    kubernetes.kubeconfig().display().to_string()
}

fn kubectl(kubeconfig: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(bindery_e2e::program::kubectl()?)
        .arg(format!("--kubeconfig={kubeconfig}"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("cannot run kubectl")?;
    text(&output).with_context(|| format!("kubectl {}", arguments.join(" ")))
}

/// What `dig +short` says at an address.
pub(crate) fn dig_at(server: SocketAddr, name: &str, rtype: &str) -> Result<String> {
    let (host, port) = (format!("@{}", server.ip()), server.port().to_string());
    let line = [
        &*host, "-p", &port, "+time=2", "+tries=2", "+short", name, rtype,
    ];
    Ok(text(&run("dig", &line)?)?.trim().to_owned())
}

/// Waits until a server answers this.
pub(crate) fn resolves_at(server: SocketAddr, name: &str, rtype: &str, wanted: &str) -> Result<()> {
    let mut last = String::new();
    until("an answer", || {
        last = dig_at(server, name, rtype).unwrap_or_default();
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("{server}: {name} {rtype} is {last:?}, not {wanted:?}"))
}

/// A loopback address that nobody uses.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, free_port()?).into())
}

/// A key of its own, and the file that it is in.
fn make_key(file: &Path) -> Result<(Key, String)> {
    let key = Key::generate("bindery-e2e", System::secret())?;
    fs::write(file, key.to_key_file().as_bytes())?;
    Ok((key, file.display().to_string()))
}

fn options(
    key: &Key,
    folder: impl AsRef<Path>,
    address: SocketAddr,
    role: Replication,
) -> Result<Options> {
    Ok(Options {
        program: find_named().context("named is not installed")?,
        folder: folder.as_ref().to_owned(),
        address,
        key: key.clone(),
        role,
        clock: Arc::new(now),
        random: Arc::new(System::secret),
    })
}

/// As the README says: `bindery crds | kubectl apply -f -`.
fn install_kinds(kubeconfig: &str) -> Result<()> {
    let (bindery, kubectl) = (program()?, bindery_e2e::program::kubectl()?);
    let line = format!(
        "{} crds | {} --kubeconfig={kubeconfig} apply -f - && {} --kubeconfig={kubeconfig} wait \
         --for=condition=Established crd --all --timeout=60s",
        bindery.display(),
        kubectl.display(),
        kubectl.display()
    );
    text(&run("sh", &["-c", &line])?).map(drop)
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
