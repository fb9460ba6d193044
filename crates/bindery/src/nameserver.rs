//! The name server that `up` runs: `named` where it is installed, else the built-in one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use bindery_core::{Fault, FaultKind, Name, Record};
use bindery_dns::{Clock, Key};
use bindery_embedded::bind::{self, Named, find_named};
use bindery_embedded::nameserver::{self, BuiltinServer, Sockets};
use bindery_embedded::{Environment as _, System};
use bindery_engine::Servers;
use bindery_engine::ports::{NameServer, ZoneHost};
use futures::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::cli::Server;
use crate::metrics::Gate;

/// The flag that all messages about the address name.
const FLAG: &str = "--dns-address";
/// How long to wait before `named` is started again; doubled up to the maximum when it ends soon.
const RESTART_MIN: Duration = Duration::from_millis(200);
const RESTART_MAX: Duration = Duration::from_secs(10);
/// How often to look whether the name server answers, while it does not and while it does.
const PROBE_SOON: Duration = Duration::from_millis(100);
const PROBE_LATER: Duration = Duration::from_secs(5);

/// A name server that runs.
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What it is, for people.
    pub(crate) what: String,
    /// How the engine reaches it.
    pub(crate) servers: Servers,
    /// Keeps it running until told to stop.
    pub(crate) task: BoxFuture<'static, ()>,
}

/// What is needed to start a name server.
pub(crate) struct Wanted<'a> {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    /// The data folder.
    pub(crate) data: &'a Path,
    pub(crate) key: &'a Key,
    pub(crate) stop: CancellationToken,
}

/// Starts the name server and waits until it answers.
///
/// # Errors
/// If it cannot; the message says what to do.
pub(crate) async fn start(wanted: Wanted<'_>) -> Result<Running> {
    address::check_dns_address(wanted.address, FLAG).await?;
    let found = match wanted.server {
        Server::Builtin => None,
        Server::Auto | Server::Named => find_named(),
    };
    match (wanted.server, found) {
        (Server::Named, None) => bail!(
            "named is not installed (Debian: apt install bind9); install it or use --server builtin"
        ),
        (Server::Auto | Server::Builtin, None) => start_builtin(wanted).await,
        (Server::Auto | Server::Named | Server::Builtin, Some(program)) => {
            let options = named_options(program, &wanted);
            start_named(options, wanted).await
        }
    }
}

/// Opens `gate` while the name server answers, until `stop`.
pub(crate) async fn watch_answers(
    server: Arc<dyn NameServer>,
    gate: Gate,
    stop: CancellationToken,
) {
    loop {
        let answer = server.serial(&Name::root()).await;
        // Any answer will do; most servers do not have the root zone.
        let silent = answer.is_err_and(|fault| {
            matches!(fault.kind, FaultKind::Unreachable | FaultKind::Lost)
        });
        let pause = if silent {
            gate.close();
            PROBE_SOON
        } else {
            gate.open();
            PROBE_LATER
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

async fn start_builtin(wanted: Wanted<'_>) -> Result<Running> {
    let Wanted { address, data, key, stop, .. } = wanted;
    let options = nameserver::Options {
        folder: Some(data.join("builtin")),
        key: key.clone(),
        clock: clock(),
        notify: Vec::new(),
        notify_id: Arc::new(|| u16::from_ne_bytes([random()[0], random()[1]])),
    };
    let server = BuiltinServer::open(options).context("cannot start the built-in name server")?;
    let sockets = Sockets::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another {FLAG}"))?;
    let address = sockets.local_addr().context("a bound socket has no address")?;
    Ok(Running {
        address,
        what: "built-in server".to_owned(),
        servers: Servers {
            server: Arc::new(client(address, key)),
            host: Some(Arc::new(server.clone())),
        },
        task: Box::pin(server.serve(sockets, stop)),
    })
}

async fn start_named(options: bind::Options, wanted: Wanted<'_>) -> Result<Running> {
    let what = format!("BIND, {}", options.program.display());
    let again = copy(&options);
    let named = Named::start(options).await.context("cannot start the name server")?;
    let address = named.address();
    let host = CurrentHost(Arc::new(Mutex::new(named.host())));
    let server: Arc<dyn NameServer> = Arc::new(client(address, wanted.key));
    let again = bind::Options { address, ..again };
    let task = keep_named(named, again, host.clone(), wanted.stop);
    let servers = Servers { server, host: Some(Arc::new(host)) };
    Ok(Running { address, what, servers, task: Box::pin(task) })
}

/// Starts `named` again whenever it ends by itself, until `stop`.
async fn keep_named(
    mut named: Named,
    options: bind::Options,
    host: CurrentHost,
    stop: CancellationToken,
) {
    let mut pause = RESTART_MIN;
    loop {
        let started = tokio::time::Instant::now();
        tokio::select! {
            biased;
            () = stop.cancelled() => return named.stop().await,
            message = named.died() => tracing::error!("{message}\nit is started again"),
        }
        if started.elapsed() > RESTART_MAX {
            pause = RESTART_MIN;
        }
        named = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(RESTART_MAX);
            match Named::start(copy(&options)).await {
                Ok(named) => break named,
                Err(error) => tracing::error!(%error, "named does not start; it is tried again"),
            }
        };
        *host.0.lock().unwrap_or_else(PoisonError::into_inner) = named.host();
    }
}

/// The zones of the `named` that runs now.
#[derive(Clone)]
struct CurrentHost(Arc<Mutex<bind::Host>>);

impl CurrentHost {
    fn now(&self) -> bind::Host {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ZoneHost for CurrentHost {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.create(zone, records).await })
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.delete(zone).await })
    }
}

fn named_options(program: std::path::PathBuf, wanted: &Wanted<'_>) -> bind::Options {
    bind::Options {
        program,
        folder: wanted.data.join("named"),
        address: wanted.address,
        key: wanted.key.clone(),
        notify: Vec::new(),
        clock: clock(),
        random: Arc::new(random),
    }
}

fn copy(options: &bind::Options) -> bind::Options {
    bind::Options {
        program: options.program.clone(),
        folder: options.folder.clone(),
        address: options.address,
        key: options.key.clone(),
        notify: options.notify.clone(),
        clock: Arc::clone(&options.clock),
        random: Arc::clone(&options.random),
    }
}

/// A client of the server; one that listens everywhere is reached on loopback.
fn client(address: SocketAddr, key: &Key) -> bindery_dns::Server {
    bindery_dns::Server::new(reachable(address).to_string(), Some(key.clone()))
}

/// Where this machine reaches what listens on `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Seconds since 1970, as signatures carry them.
fn clock() -> Clock {
    Arc::new(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    })
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&System.random().to_ne_bytes());
    bytes[16..].copy_from_slice(&System.random().to_ne_bytes());
    bytes
}
