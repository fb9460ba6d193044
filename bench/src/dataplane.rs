//! The data planes of this machine: what they take from a connection, beside one that nobody stands in the way
//! of.

mod namespaces;
mod traffic;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bindery_balancer::{DataPlane, Forwarding, Nftables, NftablesSettings, Proxy, ProxyLimits};
use bindery_core::Uid;
use bindery_core::balancers::{BalancerKey, FrontProtocol};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::namespaces::Machines;
use self::traffic::{Load, Seen};
use crate::arguments::Arguments;
use crate::figures::{amount, ratio};
use crate::table::Row;

/// The title of its table.
pub(crate) const TITLE: &str =
    "a client, a router with the data plane and a backend, in network namespaces";

/// The port of fronts.
const FRONT_PORT: u16 = 80;
/// An address that the router gets from nftables.
const FRONT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 100));
/// Quick runs have fewer events and do a part of everything.
const EVENTS_FULL: usize = 300;

/// What stands between client and backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A router that forwards packets.
    Plain,
    Proxy,
    Nftables,
}

impl Way {
    const ALL: [Self; 3] = [Self::Plain, Self::Proxy, Self::Nftables];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Proxy => "proxy",
            Self::Nftables => "nftables",
        }
    }
}

/// The data planes, each with its front.
struct Planes {
    nftables: Nftables,
    stop: CancellationToken,
    /// It lives on threads of the router.
    proxy: Option<Runtime>,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments) -> Result<Vec<Row>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(vec![Row::new(
            "the data planes",
            "not measured: only root may make network namespaces",
        )]);
    }
    let load = Load::of(amount(arguments.events) / amount(EVENTS_FULL));
    let rounds = arguments.rounds;
    // All of it waits without giving the thread back.
    let measuring = tokio::task::spawn_blocking(move || measure(load, rounds));
    let seen = measuring.await.context("the measurement fell")??;
    Ok(lines(load, &seen))
}

/// What was seen on each way, the ways in turns.
fn measure(load: Load, rounds: usize) -> Result<[Seen; 3]> {
    let machines = Machines::new()?;
    let backend = SocketAddr::new(namespaces::BACKEND, FRONT_PORT);
    let _backend = machines.within("backend", move || traffic::serve(backend))??;
    let planes = Planes::start(&machines, backend)?;
    let mut seen: [Seen; 3] = Default::default();
    for _ in 0..rounds {
        for (way, seen) in Way::ALL.into_iter().zip(&mut seen) {
            let front = match way {
                Way::Plain => backend,
                Way::Proxy => SocketAddr::new(namespaces::ROUTER, FRONT_PORT),
                Way::Nftables => SocketAddr::new(FRONT, FRONT_PORT),
            };
            let round = machines.within("client", move || traffic::measure(front, load))?;
            seen.add(round.with_context(|| way.as_str())?);
        }
    }
    planes.stop()?;
    Ok(seen)
}

impl Planes {
    fn start(machines: &Machines, backend: SocketAddr) -> Result<Self> {
        let settings =
            NftablesSettings::of_this_machine().context("nft and ip are not installed")?;
        let nftables = Nftables::new(NftablesSettings {
            namespace: Some(machines.name("router")),
            ..settings
        });
        let stop = CancellationToken::new();
        let changes = changes(FRONT, backend);
        let stopped = stop.clone();
        let started = machines.within("router", move || {
            // Threads of a thread in a namespace are in it too.
            let runtime = Runtime::new().context("a runtime needs only threads")?;
            let (proxy, tasks) = Proxy::new(ProxyLimits::of_this_process());
            runtime.spawn(tasks.run(stopped));
            let changes = self::changes(namespaces::ROUTER, backend);
            let applied = runtime.block_on(proxy.apply(&changes));
            applied.map_err(|fault| anyhow!("the proxy: {}", fault.message))?;
            runtime.spawn(async move {
                // Its listeners close with it.
                std::future::pending::<()>().await;
                drop(proxy);
            });
            anyhow::Ok(runtime)
        })?;
        let planes = Self {
            nftables,
            stop,
            proxy: Some(started?),
        };
        let runtime = planes.proxy.as_ref().context("it was just started")?;
        let applied = runtime.block_on(planes.nftables.apply(&changes));
        applied.map_err(|fault| anyhow!("nftables: {}", fault.message))?;
        Ok(planes)
    }

    fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        let runtime = self.proxy.take().context("it runs")?;
        let gone = [(key(FRONT), None)];
        let applied = runtime.block_on(self.nftables.apply(&gone));
        runtime.shutdown_background();
        applied.map_err(|fault| anyhow!("nftables: {}", fault.message))
    }
}

fn key(front: IpAddr) -> BalancerKey {
    BalancerKey::Service(Uid::from(&*front.to_string()))
}

fn changes(front: IpAddr, backend: SocketAddr) -> [(BalancerKey, Option<Arc<Forwarding>>); 1] {
    let forwarding = Forwarding {
        addresses: vec![front],
        ports: [((FrontProtocol::Tcp, FRONT_PORT), BTreeSet::from([backend]))].into(),
        ..Forwarding::default()
    };
    [(key(front), Some(Arc::new(forwarding)))]
}

type Time = fn(&Seen) -> Duration;
type Rate = fn(&Seen) -> f64;

fn lines(load: Load, [plain, proxy, nftables]: &[Seen; 3]) -> Vec<Row> {
    let mut rows = Vec::new();
    let latency = |what: &str, way: Way, ours: Duration, bare: Duration| {
        let more = micros(ours.saturating_sub(bare));
        let row = Row::new(
            format!("{what}, {}", way.as_str()),
            format!("{}, {more} more than plain", micros(ours)),
        );
        row.beside(format!("plain {}", micros(bare)), ratio(ours, bare))
    };
    let lines: [(String, Time); 4] = [
        (
            format!(
                "request of {} bytes on a kept connection, p50",
                traffic::MESSAGE_LEN
            ),
            |seen| seen.requests.p50(),
        ),
        ("… p99".to_owned(), |seen| seen.requests.p99()),
        ("connection made → first answer, p50".to_owned(), |seen| {
            seen.connects.p50()
        }),
        ("… p99".to_owned(), |seen| seen.connects.p99()),
    ];
    let ways = [(Way::Proxy, proxy), (Way::Nftables, nftables)];
    for (what, time) in lines {
        for (way, seen) in ways {
            rows.push(latency(&what, way, time(seen), time(plain)));
        }
    }
    let rates: [(String, &str, Rate); 2] = [
        (
            format!("connections per second, {} at a time", traffic::CLIENTS),
            "",
            Seen::connections_per_second,
        ),
        (
            format!("bulk, {} MiB on one connection", load.bulk_mib),
            " MiB/s",
            Seen::mebibytes_per_second,
        ),
    ];
    for (what, unit, rate) in rates {
        for (way, seen) in ways {
            let (ours, bare) = (rate(seen), rate(plain));
            let row = Row::new(
                format!("{what}, {}", way.as_str()),
                format!("{ours:.0}{unit}"),
            );
            let row = row.beside(
                format!("plain {bare:.0}{unit}"),
                format!("{:.2}", bare / ours),
            );
            rows.push(row);
        }
    }
    rows
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}
