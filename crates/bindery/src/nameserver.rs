//! The name servers that `up` runs: `named` where it is installed, else the built-in one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bindery_apiserver::System;
use bindery_bind::NamedSupervisor;
use bindery_core::Group;
use bindery_core::{ServerInfo, ServerRole};
use bindery_dns::local::Replication;
use bindery_dns::{Key, SigningClock};
use bindery_engine::ports::{NameServer, ZoneHost};
use bindery_engine::{ServerHandle, Servers};
use bindery_nameserver::{self as nameserver, BuiltinServer, Sockets};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::cli::ServerChoice;
use crate::surroundings;

/// The flag that all messages about the address name.
const FLAG: &str = "--dns-address";

/// Name servers that run.
pub(crate) struct Running {
    /// Where each listens and what it does, each leader first.
    pub(crate) members: Vec<Listening>,
    /// What they are, for people.
    pub(crate) what: String,
    /// How the engine reaches them.
    pub(crate) groups: BTreeMap<Group, Servers>,
    /// Keep them running until told to stop.
    pub(crate) tasks: Vec<BoxFuture<'static, ()>>,
}

/// A name server that runs, for people.
pub(crate) struct Listening {
    pub(crate) group: Group,
    pub(crate) address: SocketAddr,
    pub(crate) role: ServerRole,
}

/// What is needed to start name servers.
pub(crate) struct FleetSetup<'a> {
    pub(crate) server: ServerChoice,
    /// Where the first one listens; the others count up from its port.
    pub(crate) address: SocketAddr,
    /// Of which cluster, each once, how many take updates, and how many fetch from those.
    pub(crate) count: Vec<(Group, (u16, u16))>,
    /// The data folder.
    pub(crate) data: &'a Path,
    pub(crate) key: &'a Key,
    pub(crate) stop: CancellationToken,
}

/// What is needed to start one of them.
struct ServerSetup<'a> {
    server: ServerChoice,
    address: SocketAddr,
    role: Replication,
    /// What is added to the name of its folder.
    suffix: String,
    data: &'a Path,
    key: &'a Key,
    stop: CancellationToken,
}

/// A server that runs.
struct RunningServer {
    address: SocketAddr,
    what: String,
    server: Arc<dyn NameServer>,
    host: Arc<dyn ZoneHost>,
    task: BoxFuture<'static, ()>,
}

/// Starts the name servers and waits until they answer.
///
/// # Errors
/// If one cannot; the message says what to do.
pub(crate) async fn start(setup: FleetSetup<'_>) -> Result<Running> {
    let sum = |(primaries, secondaries): &(u16, u16)| usize::from(*primaries + *secondaries);
    let total = setup.count.iter().map(|(_, count)| sum(count)).sum();
    let addresses = addresses(setup.address, total)?;
    let mut addresses = addresses.as_slice();
    let mut running = Running {
        members: Vec::new(),
        what: String::new(),
        groups: BTreeMap::new(),
        tasks: Vec::new(),
    };
    for (group, count) in &setup.count {
        let (own, rest) = addresses.split_at(sum(count));
        addresses = rest;
        let servers = start_group(&setup, group, own.split_at(count.0.into()), &mut running);
        let servers = servers.await?;
        running.groups.insert(group.clone(), servers);
    }
    Ok(running)
}

/// Starts the primaries and secondaries of one cluster.
async fn start_group(
    setup: &FleetSetup<'_>,
    group: &Group,
    (primaries, secondaries): (&[SocketAddr], &[SocketAddr]),
    running: &mut Running,
) -> Result<Servers> {
    let reached = |all: &[SocketAddr]| all.iter().copied().map(reachable).collect::<Vec<_>>();
    let primary = || Replication::Primary {
        notify: reached(secondaries),
    };
    let secondary = || Replication::Secondary {
        primaries: reached(primaries),
    };
    let primaries = primaries
        .iter()
        .map(|at| (at, ServerRole::Primary, primary()));
    let secondaries = secondaries
        .iter()
        .map(|at| (at, ServerRole::Secondary, secondary()));
    let mut servers = Vec::new();
    for (index, (address, role, local)) in primaries.chain(secondaries).enumerate() {
        let one = start_one(ServerSetup {
            server: setup.server,
            address: *address,
            role: local,
            suffix: suffix(group, index),
            data: setup.data,
            key: setup.key,
            stop: setup.stop.clone(),
        })
        .await?;
        let address = reachable(one.address);
        running.what = one.what;
        running.members.push(Listening {
            group: group.clone(),
            address,
            role,
        });
        running.tasks.push(one.task);
        servers.push(ServerHandle {
            info: ServerInfo::at(&address.to_string(), role),
            server: one.server,
            host: Some(one.host),
        });
    }
    Ok(servers.into_iter().collect())
}

/// What the folder of a server has after its kind: a cluster's name has no dot in it, so no two are the same.
fn suffix(group: &Group, index: usize) -> String {
    let cluster = group
        .name()
        .map_or_else(String::new, |name| format!(".{name}"));
    match index {
        0 => cluster,
        _ => format!("{cluster}-{index}"),
    }
}

/// So many addresses from `first` on; with port 0, ports that are free now.
fn addresses(first: SocketAddr, count: usize) -> Result<Vec<SocketAddr>> {
    if count == 1 {
        return Ok(vec![first]);
    }
    if first.port() == 0 {
        let mut held = Vec::new();
        for _ in 0..count {
            let socket = std::net::TcpListener::bind(first)
                .with_context(|| format!("cannot listen on {first}; choose another {FLAG}"))?;
            held.push(socket);
        }
        let free = held.iter().map(std::net::TcpListener::local_addr);
        return free
            .collect::<Result<_, _>>()
            .context("a bound socket has no address");
    }
    let ports = (0..count).map(|index| {
        let port = usize::from(first.port()) + index;
        let port = u16::try_from(port).with_context(|| {
            format!(
                "{count} name servers from port {} on are too many; choose another {FLAG}",
                first.port()
            )
        });
        port.map(|port| SocketAddr::new(first.ip(), port))
    });
    ports.collect()
}

async fn start_one(setup: ServerSetup<'_>) -> Result<RunningServer> {
    let found = match setup.server {
        ServerChoice::Builtin => None,
        ServerChoice::Auto | ServerChoice::Named => bindery_bind::find_named(),
    };
    match (setup.server, found) {
        (ServerChoice::Named, None) => bail!(
            "named is not installed (Debian: apt install bind9); install it or use --server builtin"
        ),
        (ServerChoice::Auto | ServerChoice::Builtin, None) => start_builtin(setup).await,
        (ServerChoice::Auto | ServerChoice::Named | ServerChoice::Builtin, Some(program)) => {
            start_named(program, setup).await
        }
    }
}

async fn start_named(program: PathBuf, setup: ServerSetup<'_>) -> Result<RunningServer> {
    let what = format!("BIND, {}", program.display());
    let options = bindery_bind::Options {
        program,
        folder: setup.data.join(format!("named{}", setup.suffix)),
        address: setup.address,
        key: setup.key.clone(),
        role: setup.role,
        clock: clock(),
        random: Arc::new(System::secret),
    };
    let named = NamedSupervisor::start(options)
        .await
        .context("cannot start the name server")?;
    let address = named.address();
    Ok(RunningServer {
        address,
        what,
        server: Arc::new(client(address, setup.key)),
        host: Arc::new(named.host()),
        task: Box::pin(named.run(setup.stop)),
    })
}

async fn start_builtin(setup: ServerSetup<'_>) -> Result<RunningServer> {
    address::check_dns_address(setup.address, FLAG).await?;
    let ServerSetup {
        address,
        role,
        suffix,
        data,
        key,
        stop,
        ..
    } = setup;
    let options = nameserver::Options {
        folder: Some(data.join(format!("builtin{suffix}"))),
        key: key.clone(),
        clock: clock(),
        role,
        notify_id: Arc::new(|| {
            let [first, second, ..] = System::secret();
            u16::from_ne_bytes([first, second])
        }),
    };
    let server = BuiltinServer::open(options).context("cannot start the built-in name server")?;
    let sockets = Sockets::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another {FLAG}"))?;
    let address = sockets
        .local_addr()
        .context("a bound socket has no address")?;
    Ok(RunningServer {
        address,
        what: "built-in server".to_owned(),
        server: Arc::new(client(address, key)),
        host: Arc::new(server.clone()),
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
pub(crate) fn clock() -> SigningClock {
    Arc::new(|| surroundings::since_1970().as_secs())
}
