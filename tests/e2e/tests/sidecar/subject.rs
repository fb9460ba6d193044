//! A `named` with a sidecar beside it, and the means to ask both.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bindery_core::{Name, RecordData, RecordKey, RecordType, Serial};
use bindery_dns::{Key, Server};
use bindery_e2e::process::{ServerProcess, free_ports};
use bindery_e2e::program;
use bindery_engine::ports::NameServer as _;
use bindery_sidecar::wire::{NewRecord, NewSoa, NewZone, NewZoneConfig};
use bindery_sidecar::{ClientToken, SidecarClient, SidecarClientOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Longer than anything takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);
pub(crate) const TOKEN: &str = "token-of-the-battery";
pub(crate) const KEY: &str = "battery";

/// Whose sidecar it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Bindcar,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Bindcar => "bindcar",
        }
    }
}

/// See the module. Dropping it ends both processes.
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) client: SidecarClient,
    pub(crate) server: Server,
    pub(crate) key: Key,
    ports: Ports,
    folder: TempDir,
    named: Mutex<Option<ServerProcess>>,
    sidecar: Mutex<Option<ServerProcess>>,
    /// Flags besides the usual ones.
    flags: Vec<String>,
}

#[derive(Clone, Copy)]
struct Ports {
    dns: u16,
    control: u16,
    api: u16,
}

/// The runtime of all cases.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Runtime::new().expect("threads can be started"));
    &RUNTIME
}

type Shared = OnceLock<Result<Arc<Subject>, String>>;
static SHARED: [Shared; 2] = [OnceLock::new(), OnceLock::new()];

/// The subject that all cases of a kind share; each has zones of its own.
pub(crate) fn shared(kind: Kind) -> Result<Arc<Subject>> {
    let place = &SHARED[usize::from(kind == Kind::Bindcar)];
    let made = place.get_or_init(|| {
        let subject = Subject::start(kind, &[]).map_err(|error| format!("{error:#}"))?;
        Ok(Arc::new(subject))
    });
    made.clone().map_err(|error| anyhow!(error))
}

/// Ends the shared subjects: what is static is not dropped.
pub(crate) fn stop_all() {
    for subject in SHARED.iter().filter_map(OnceLock::get).flatten() {
        subject.stop_sidecar();
        subject.stop_named();
    }
}

impl Subject {
    /// Starts both, with an empty folder.
    pub(crate) fn start(kind: Kind, flags: &[&str]) -> Result<Self> {
        let folder = TempDir::new().context("there is room")?;
        let first = free_ports(3)?;
        let ports = Ports {
            dns: first,
            control: first + 1,
            api: first + 2,
        };
        let key = Key::generate(KEY, [7; 32])?;
        let address = format!("http://127.0.0.1:{}", ports.api);
        let dns = format!("127.0.0.1:{}", ports.dns);
        let subject = Self {
            kind,
            client: client(&address, TOKEN)?,
            server: Server::new(dns, Some(key.clone())),
            key,
            ports,
            folder,
            named: Mutex::default(),
            sidecar: Mutex::default(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        };
        fs::create_dir(subject.zones())?;
        fs::write(subject.path("key"), subject.key.to_key_file().as_bytes())?;
        fs::write(subject.path("token"), TOKEN)?;
        subject.start_named()?;
        subject.start_sidecar()?;
        Ok(subject)
    }

    /// Where the zones lie.
    pub(crate) fn zones(&self) -> PathBuf {
        self.path("zones")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn dns_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.dns).into()
    }

    /// A client with another token.
    pub(crate) fn client_with(&self, token: &str) -> Result<SidecarClient> {
        client(self.client.address(), token)
    }

    pub(crate) fn start_named(&self) -> Result<()> {
        let config = self.path("named.conf");
        fs::write(&config, self.config())?;
        let named = program::on_path("named").context("named is not installed")?;
        let mut command = Command::new(named);
        command.arg("-f").arg("-c").arg(&config);
        command.arg("-L").arg(self.path("named.log"));
        let process = ServerProcess::start(&mut command, &self.path("named.out"))?;
        *lock(&self.named) = Some(process);
        let address = (Ipv4Addr::LOCALHOST, self.ports.control);
        until("named listens", || {
            std::net::TcpStream::connect(address).is_ok()
        })
    }

    pub(crate) fn stop_named(&self) {
        lock(&self.named).take();
    }

    pub(crate) fn start_sidecar(&self) -> Result<()> {
        let key = self.path("key");
        self.start_sidecar_with(&key)
    }

    /// With this file for the key of the control channel.
    pub(crate) fn start_sidecar_with(&self, key: &Path) -> Result<()> {
        let mut command = match self.kind {
            Kind::Ours => self.our_command(key)?,
            Kind::Bindcar => self.bindcar_command()?,
        };
        let process = ServerProcess::start(&mut command, &self.path("sidecar.log"))?;
        *lock(&self.sidecar) = Some(process);
        let address = (Ipv4Addr::LOCALHOST, self.ports.api);
        let log = self.path("sidecar.log");
        until("the sidecar listens", || {
            std::net::TcpStream::connect(address).is_ok()
        })
        .with_context(|| fs::read_to_string(log).unwrap_or_default())
    }

    pub(crate) fn stop_sidecar(&self) {
        lock(&self.sidecar).take();
    }

    fn our_command(&self, key: &Path) -> Result<Command> {
        let mut command = Command::new(program::bindery()?);
        command.arg("sidecar");
        command
            .arg("--address")
            .arg(format!("127.0.0.1:{}", self.ports.api));
        command.arg("--zone-dir").arg(self.zones());
        command
            .arg("--rndc-server")
            .arg(format!("127.0.0.1:{}", self.ports.control));
        // A folder of keys stands in their place.
        if !self.flags.iter().any(|flag| flag == "--keys-dir") {
            command.arg("--rndc-key-file").arg(key);
            command.arg("--tsig-key-file").arg(self.path("key"));
        }
        command
            .arg("--dns-server")
            .arg(format!("127.0.0.1:{}", self.ports.dns));
        command.arg("--token-file").arg(self.path("token"));
        command.args(&self.flags);
        Ok(command)
    }

    fn bindcar_command(&self) -> Result<Command> {
        let text = self.key.to_key_file();
        let secret = text.split('"').nth(3).context("a key file has a secret")?;
        let mut command = Command::new(program::bindcar()?);
        command
            .env("BIND_ZONE_DIR", self.zones())
            .env("API_PORT", self.ports.api.to_string())
            .env("BIND_API_ADDRESS", "127.0.0.1")
            .env("RNDC_SERVER", format!("127.0.0.1:{}", self.ports.control))
            .env("RNDC_ALGORITHM", "hmac-sha256")
            .env("RNDC_SECRET", secret)
            .env("NSUPDATE_KEY_NAME", KEY)
            .env("NSUPDATE_PORT", self.ports.dns.to_string())
            .env("BIND_API_TOKEN", TOKEN)
            .env("RATE_LIMIT_ENABLED", "false");
        Ok(command)
    }

    fn config(&self) -> String {
        format!(
            r#"include "{key}";
controls {{ inet 127.0.0.1 port {control} allow {{ 127.0.0.1; }} keys {{ "{KEY}"; }}; }};
options {{
	directory "{zones}";
	pid-file "{pid}";
	session-keyfile "{session}";
	listen-on port {dns} {{ 127.0.0.1; }};
	listen-on-v6 {{ none; }};
	recursion no;
	allow-new-zones yes;
	dnssec-validation no;
	allow-transfer {{ key "{KEY}"; }};
	notify-delay 0;
}};
"#,
            key = self.path("key").display(),
            control = self.ports.control,
            dns = self.ports.dns,
            zones = self.zones().display(),
            pid = self.zones().join("named.pid").display(),
            session = self.path("session.key").display(),
        )
    }

    /// The data of the records of one type at a name, as `named` serves them.
    pub(crate) async fn served(
        &self,
        zone: &str,
        name: &str,
        rtype: RecordType,
    ) -> Result<Vec<String>> {
        let zone = Name::parse(zone)?;
        let key = RecordKey::new(Name::parse_in(name, &zone)?, rtype);
        let read = self.server.read(&zone, &[key]).await;
        let mut read = read.map_err(|fault| anyhow!(fault.message))?;
        let set = read.sets.pop().flatten();
        let data = set.map_or_else(Vec::new, |set| set.data().to_vec());
        Ok(data.iter().map(RecordData::to_string).collect())
    }

    /// The serial of a zone, where it is served.
    pub(crate) async fn serial(&self, zone: &str) -> Option<Serial> {
        self.server.serial(&Name::parse(zone).ok()?).await.ok()
    }

    /// Waits until the record is served.
    pub(crate) async fn until_served(&self, zone: &str, name: &str, value: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let served = self.served(zone, name, RecordType::A).await;
            if matches!(&served, Ok(data) if *data == [value]) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{name}.{zone} is {served:?}");
            tokio::time::sleep(POLL).await; // pause between polls
        }
    }
}

/// A client of the sidecar at `address`.
pub(crate) fn client(address: &str, token: &str) -> Result<SidecarClient> {
    let token = ClientToken::Fixed(Arc::new(token.to_owned().into()));
    let mut options = SidecarClientOptions::new(address, token);
    options.request_timeout = PATIENCE;
    Ok(SidecarClient::new(options)?)
}

/// A primary zone with one address at `www`.
pub(crate) fn primary(zone: &str) -> NewZone {
    NewZone {
        zone_name: zone.to_owned(),
        zone_type: "primary".to_owned(),
        zone_config: NewZoneConfig {
            ttl: 300,
            soa: NewSoa {
                primary_ns: format!("ns1.{zone}."),
                admin_email: format!("hostmaster.{zone}."),
                serial: Some(100),
                refresh: 3_600,
                retry: 600,
                expire: 604_800,
                negative_ttl: 60,
            },
            name_servers: vec![format!("ns1.{zone}.")],
            name_server_ips: [(format!("ns1.{zone}."), "192.0.2.53".to_owned())].into(),
            records: vec![record("www", "A", "192.0.2.1")],
            also_notify: None,
            allow_transfer: None,
            primaries: None,
            dnssec_policy: None,
            inline_signing: None,
        },
        update_key_name: Some(KEY.to_owned()),
    }
}

/// A secondary zone of a primary.
pub(crate) fn secondary(zone: &str, primary: &str) -> NewZone {
    let mut new = self::primary(zone);
    "secondary".clone_into(&mut new.zone_type);
    new.zone_config.records.clear();
    new.zone_config.primaries = Some(vec![primary.to_owned()]);
    new.update_key_name = None;
    new
}

pub(crate) fn record(name: &str, rtype: &str, value: &str) -> NewRecord {
    NewRecord {
        name: name.to_owned(),
        rtype: rtype.to_owned(),
        value: value.to_owned(),
        ttl: None,
        priority: None,
    }
}

/// Looks again and again until it is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            bail!("waited in vain until {what}");
        }
        std::thread::sleep(POLL); // pause between polls
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
