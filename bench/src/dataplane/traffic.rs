//! Requests, connections and bulk between a client and a backend.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use crate::figures::{Times, rate};

/// Bytes of a request, and of its answer.
pub(super) const MESSAGE_LEN: usize = 64;
/// Clients that connect at the same time.
pub(super) const CLIENTS: usize = 8;
/// What a client says first: that it asks, or how many MiB it wants, from one on.
const ASKS: u8 = 0;
/// Bytes that are written at a time.
const PIECE_LEN: usize = 64 * 1024;
const MIB: usize = 1024 * 1024;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much is done in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    requests: usize,
    connections: usize,
    /// Asked for by four pieces.
    pub(super) bulk_mib: usize,
}

/// What was seen on one way.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) requests: Times,
    pub(super) connects: Times,
    /// Of each round.
    connections: Vec<(usize, Duration)>,
    bulk: Vec<(usize, Duration)>,
}

impl Load {
    /// A part of everything.
    pub(super) fn of(part: f64) -> Self {
        let part = part.clamp(0.1, 1.0);
        let count = |all: f64| format!("{:.0}", all * part).parse().unwrap_or(1);
        Self {
            requests: count(10_000.0),
            connections: count(8_000.0),
            bulk_mib: count(1_000.0),
        }
    }
}

impl Seen {
    /// Takes in another round.
    pub(super) fn add(&mut self, other: Self) {
        self.requests.extend(other.requests);
        self.connects.extend(other.connects);
        self.connections.extend(other.connections);
        self.bulk.extend(other.bulk);
    }

    /// Median of the rounds.
    pub(super) fn connections_per_second(&self) -> f64 {
        median(&self.connections)
    }

    /// Median of the rounds.
    pub(super) fn mebibytes_per_second(&self) -> f64 {
        median(&self.bulk)
    }
}

fn median(rounds: &[(usize, Duration)]) -> f64 {
    let mut rates: Vec<f64> = rounds
        .iter()
        .map(|(count, time)| rate(*count, *time))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// Answers at an address, until the runtime is dropped.
pub(super) fn serve(at: SocketAddr) -> Result<Runtime> {
    let runtime = Runtime::new().context("a runtime needs only threads")?;
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen on {at}"))?;
    listener
        .set_nonblocking(true)
        .context("cannot set up TCP")?;
    // It ends with the runtime only.
    runtime.spawn(async { drop(answer_all(listener).await) });
    Ok(runtime)
}

async fn answer_all(listener: TcpListener) -> std::io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        // A client that leaves early is no fault.
        tokio::spawn(async { drop(answer(client).await) });
    }
}

async fn answer(mut client: tokio::net::TcpStream) -> std::io::Result<()> {
    let wanted = client.read_u8().await?;
    if wanted == ASKS {
        let mut message = [0; MESSAGE_LEN];
        while client.read_exact(&mut message).await.is_ok() {
            client.write_all(&message).await?;
        }
        return Ok(());
    }
    let piece = vec![0; PIECE_LEN];
    for _ in 0..usize::from(wanted) * MIB / PIECE_LEN {
        client.write_all(&piece).await?;
    }
    client.shutdown().await
}

/// One round at an address.
pub(super) fn measure(front: SocketAddr, load: Load) -> Result<Seen> {
    let mut seen = Seen {
        requests: requests(front, load.requests).context("requests")?,
        ..Seen::default()
    };
    let begin = Instant::now();
    seen.connects = connects(front, load.connections).context("connections")?;
    seen.connections.push((load.connections, begin.elapsed()));
    let begin = Instant::now();
    bulk(front, load.bulk_mib).context("bulk")?;
    seen.bulk.push((load.bulk_mib, begin.elapsed()));
    Ok(seen)
}

fn connect(front: SocketAddr, wanted: u8) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&front, PATIENCE)
        .with_context(|| format!("cannot connect to {front}"))?;
    stream.set_nodelay(true).context("cannot set up TCP")?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .context("cannot set up TCP")?;
    stream.write_all(&[wanted]).context("it is closed")?;
    Ok(stream)
}

fn ask(stream: &mut TcpStream) -> Result<()> {
    let mut message = [7; MESSAGE_LEN];
    stream.write_all(&message).context("it is closed")?;
    stream.read_exact(&mut message).context("no answer")?;
    ensure!(message == [7; MESSAGE_LEN], "another answer");
    Ok(())
}

fn requests(front: SocketAddr, count: usize) -> Result<Times> {
    let mut stream = connect(front, ASKS)?;
    let mut times = Times::default();
    for _ in 0..count {
        let begin = Instant::now();
        ask(&mut stream)?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// Connections one after the other by each client, each with one request.
fn connects(front: SocketAddr, count: usize) -> Result<Times> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let next = Arc::clone(&next);
            std::thread::spawn(move || {
                let mut times = Times::default();
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let begin = Instant::now();
                    ask(&mut connect(front, ASKS)?)?;
                    times.push(begin.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Times::default();
    for client in clients {
        times.extend(client.join().map_err(|_| anyhow!("a client fell"))??);
    }
    Ok(times)
}

/// So many MiB on one connection after the other, each with as many as can be asked for.
fn bulk(front: SocketAddr, mebibytes: usize) -> Result<()> {
    let mut left = mebibytes;
    let mut buffer = vec![0; PIECE_LEN];
    while left > 0 {
        let wanted = u8::try_from(left).unwrap_or(u8::MAX);
        let mut stream = connect(front, wanted)?;
        let mut got = 0;
        loop {
            let len = stream.read(&mut buffer).context("it broke off")?;
            if len == 0 {
                break;
            }
            got += len;
        }
        ensure!(
            got == usize::from(wanted) * MIB,
            "{got} bytes of {wanted} MiB"
        );
        left -= usize::from(wanted);
    }
    Ok(())
}
