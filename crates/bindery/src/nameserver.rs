//! The name server that `up` runs: `named` where it is installed, else the built-in one.

mod named;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use bindery_core::{FaultKind, Name};
use bindery_dns::{Clock, Key};
use bindery_embedded::nameserver::{self, BuiltinServer, Sockets};
use bindery_embedded::{Environment as _, Role, System};
use bindery_engine::Servers;
use bindery_engine::ports::NameServer;
use futures::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::cli::Server;
use crate::metrics::Gate;

/// The flag that all messages about the address name.
const FLAG: &str = "--dns-address";
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
    let found = match wanted.server {
        Server::Builtin => None,
        Server::Auto | Server::Named => bindery_embedded::bind::find_named(),
    };
    match (wanted.server, found) {
        (Server::Named, None) => bail!(
            "named is not installed (Debian: apt install bind9); install it or use --server builtin"
        ),
        (Server::Auto | Server::Builtin, None) => start_builtin(wanted).await,
        (Server::Auto | Server::Named | Server::Builtin, Some(program)) => {
            named::start(program, wanted).await
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
        let silent = answer
            .is_err_and(|fault| matches!(fault.kind, FaultKind::Unreachable | FaultKind::Lost));
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
    address::check_dns_address(wanted.address, FLAG).await?;
    let Wanted {
        address,
        data,
        key,
        stop,
        ..
    } = wanted;
    let options = nameserver::Options {
        folder: Some(data.join("builtin")),
        key: key.clone(),
        clock: clock(),
        role: Role::default(),
        notify_id: Arc::new(|| u16::from_ne_bytes([random()[0], random()[1]])),
    };
    let server = BuiltinServer::open(options).context("cannot start the built-in name server")?;
    let sockets = Sockets::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another {FLAG}"))?;
    let address = sockets
        .local_addr()
        .context("a bound socket has no address")?;
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

/// A client of the server; one that listens everywhere is reached on loopback.
fn client(address: SocketAddr, key: &Key) -> bindery_dns::Server {
    bindery_dns::Server::new(reachable(address).to_string(), Some(key.clone()))
}

/// Where this machine reaches what listens on `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Seconds since 1970, as signatures carry them.
fn clock() -> Clock {
    Arc::new(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    })
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&System.random().to_ne_bytes());
    bytes[16..].copy_from_slice(&System.random().to_ne_bytes());
    bytes
}
