//! A real kube-apiserver, name servers that Bindery does not manage, and `bindery run` between them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
use crate::wire::Wire;

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

/// How long the lease of several replicas holds.
const LEASE: Duration = Duration::from_secs(4);

/// Another replica.
pub(crate) struct Peer {
    pub(crate) process: Process,
    pub(crate) metrics: u16,
}

/// The rights with which `deploy/` has Bindery run.
pub(crate) const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/rbac.yaml");

/// Applies a manifest with every right.
pub(crate) type Apply<'a> = &'a dyn Fn(&str) -> Result<()>;

impl Stage {
    /// Starts all but the secondaries, which are told of changes and may come later. Like every stage it is
    /// the service account `bindery/bindery` that runs Bindery, with the rights of `deploy/rbac.yaml`.
    pub(crate) fn new(secondaries: &[SocketAddr]) -> Result<Self> {
        Self::with(secondaries, false, |login| login.installed(&[]))
    }

    /// Starts all with the rights that `grant` gives instead.
    pub(crate) fn limited(
        flags: &[&str],
        grant: impl FnOnce(Apply<'_>) -> Result<()>,
    ) -> Result<Self> {
        Self::with(&[], false, |login| login.limited(flags, grant))
    }

    /// Starts the first of several replicas; updates of it go through a wire that can be held.
    pub(crate) fn of_replicas(name: &str) -> Result<(Self, Wire)> {
        let wire = Wire::new()?;
        let through = wire.clone();
        let stage = Self::with(&[], false, |login| {
            through.lead_to(login.primary);
            let (kubeconfig, mut flags) = login.installed(&election(name))?;
            flags.push(format!("--nameserver=primary={}", through.address()));
            Ok((kubeconfig, flags))
        })?;
        Ok((stage, wire))
    }

    /// Starts another replica, beside the ones that run.
    pub(crate) fn start_replica(&self, name: &str) -> Result<Peer> {
        let metrics = free_port()?;
        let kubeconfig = self.scratch.path().join("limited").display().to_string();
        let key = self.scratch.path().join("tsig.key").display().to_string();
        let mut line = vec![
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--metrics-address=127.0.0.1:{metrics}"),
            format!("--nameserver=primary={}", self.primary.address()),
            format!("--tsig-key-file={key}"),
        ];
        line.extend(election(name).map(str::to_owned));
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let folder = self.scratch.path().join(format!("replica-{metrics}"));
        fs::create_dir(&folder)?;
        let process = Process::start(&words, &folder, 0)?;
        Ok(Peer { process, metrics })
    }

    /// Starts two primaries, of the clusters `external` and `internal`.
    pub(crate) fn of_two_clusters() -> Result<Self> {
        Self::with(&[], true, |login| login.installed(&[]))
    }

    fn with(
        secondaries: &[SocketAddr],
        is_split: bool,
        login: impl FnOnce(Login<'_>) -> Result<(String, Vec<String>)>,
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
        let (kubeconfig, flags) = login(Login {
            kubernetes: &kubernetes,
            scratch: scratch.path(),
            primary: primary.address(),
        })?;
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
            line.push(format!("--tsig-key-file={key_file}"));
            if !flags.iter().any(|flag| flag.starts_with("--nameserver=")) {
                line.push(format!("--nameserver=primary={}", primary.address()));
            }
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

    /// The serial of a zone on the primary.
    pub(crate) fn serial(&self, zone: &str) -> Result<String> {
        let soa = dig_at(self.primary.address(), zone, "SOA")?;
        let serial = soa.split(' ').nth(2).map(str::to_owned);
        serial.with_context(|| format!("{soa:?} is no SOA"))
    }

    /// Waits until the lease has not changed for longer than it holds.
    pub(crate) fn await_stale_lease(&self) -> Result<()> {
        let mut last = (String::new(), Instant::now());
        until("a lease that nobody renews", || {
            let version = "jsonpath={.metadata.resourceVersion}";
            let lease = ["get", "-n", "bindery", "lease/bindery", "-o", version];
            let version = self.kubectl(&lease)?;
            if version != last.0 {
                last = (version, Instant::now());
            }
            Ok((last.1.elapsed() > LEASE).then_some(()))
        })
    }

    /// Waits until the primary answers this.
    pub(crate) fn resolves(&self, name: &str, rtype: &str, wanted: &str) -> Result<()> {
        resolves_at(self.primary.address(), name, rtype, wanted)
    }
}

/// What those need who decide as whom Bindery runs.
struct Login<'a> {
    kubernetes: &'a Kubernetes,
    scratch: &'a Path,
    primary: SocketAddr,
}

impl Login<'_> {
    /// As `deploy/rbac.yaml` installs it.
    fn installed(&self, flags: &[&str]) -> Result<(String, Vec<String>)> {
        let rules = fs::read_to_string(RULES).context(RULES)?;
        self.limited(flags, |apply| apply(&rules))
    }

    /// With the rights that `grant` gives; its kubeconfig is the file `limited`.
    fn limited(
        &self,
        flags: &[&str],
        grant: impl FnOnce(Apply<'_>) -> Result<()>,
    ) -> Result<(String, Vec<String>)> {
        let file = log_in(self.kubernetes, self.scratch, grant)?;
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Ok((file, flags))
    }
}

/// The kubeconfig of the service account `bindery/bindery`, with the rights that `grant` gives: the file `limited`.
pub(crate) fn log_in(
    kubernetes: &Kubernetes,
    scratch: &Path,
    grant: impl FnOnce(Apply<'_>) -> Result<()>,
) -> Result<String> {
    let every = admin(kubernetes);
    grant(&|yaml| {
        let file = scratch.join("grant.yaml");
        fs::write(&file, yaml)?;
        kubectl(&every, &["apply", "-f", &file.display().to_string()]).map(drop)
    })?;
    let token = kubectl(&every, &["create", "token", "-n", "bindery", "bindery"])?;
    let file = scratch.join("limited");
    fs::write(&file, kubernetes.kubeconfig_for(token.trim()))?;
    Ok(file.display().to_string())
}

/// The flags of one of several replicas.
fn election(name: &str) -> [&str; 3] {
    // Leaked, since a few bytes of a test are not worth an owner.
    let identity = format!("--lease-identity={name}").leak();
    ["--leader-elect=on", "--lease-namespace=bindery", identity]
}

/// The kubeconfig with every right.
pub(crate) fn admin(kubernetes: &Kubernetes) -> String {
    kubernetes.kubeconfig().display().to_string()
}

pub(crate) fn kubectl(kubeconfig: &str, arguments: &[&str]) -> Result<String> {
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
pub(crate) fn install_kinds(kubeconfig: &str) -> Result<()> {
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
