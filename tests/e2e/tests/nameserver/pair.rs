//! Two servers of their own for one case: a primary and its secondary, of any two kinds.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bindery_core::delta::{Delta, Difference};
use bindery_core::{Change, Expect, Name, Record, RecordData, RecordKey, RecordType, Serial};
use bindery_dns::Server;
use bindery_dns::local::Replication;
use bindery_dns::wire::{Head, Message, Question, WireRecord, class, opcode, rcode};
use bindery_engine::ports::NameServer;
use futures::future::BoxFuture;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::ask;
use crate::scene;
use crate::subject::{self, Kind, Own};

/// Long enough for a busy machine, and for `named`, which asks again for a copy that has not
/// arrived only after a minute.
const PATIENCE: Duration = Duration::from_mins(3);

/// How often to look.
const POLL: Duration = Duration::from_millis(10);

/// The kinds of the first and the second server.
pub(crate) type Kinds = (Kind, Kind);

/// Every pair of kinds.
pub(crate) const KINDS: [Kinds; 4] = [
    (Kind::Named, Kind::Named),
    (Kind::Builtin, Kind::Builtin),
    (Kind::Named, Kind::Builtin),
    (Kind::Builtin, Kind::Named),
];

/// A named case of two servers.
#[derive(Clone, Copy)]
pub(crate) struct PairCase {
    /// A sentence.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) run: fn(Kinds) -> BoxFuture<'static, Result<()>>,
}

/// Makes a list of cases from async functions of two kinds.
macro_rules! pair_cases {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::pair::PairCase {
            name: stringify!($name),
            run: |kinds| Box::pin($name(kinds)),
        }),*]
    };
}
pub(crate) use pair_cases;

/// Where a case of these kinds stands among the others.
pub(crate) fn suite(kinds: Kinds) -> String {
    match kinds {
        (one, other) if one == other => format!("{}::roles", one.as_str()),
        (one, other) => format!("mixed::roles::{}_to_{}", one.as_str(), other.as_str()),
    }
}

/// See the module.
pub(crate) struct Pair {
    /// Takes updates.
    pub(crate) primary: Member,
    /// Copies them.
    pub(crate) secondary: Member,
    /// The zone of both.
    pub(crate) zone: Name,
}

/// A server that can end and start again.
pub(crate) struct Member {
    kind: Kind,
    folder: TempDir,
    /// Where it answers, also after a restart.
    pub(crate) address: SocketAddr,
    /// What it is to others.
    pub(crate) role: Replication,
    running: Option<Own>,
}

impl Pair {
    /// Both servers, running and without zones.
    pub(crate) async fn start(kinds: Kinds) -> Result<Self> {
        let (one, other) = (free_address()?, free_address()?);
        let notify = vec![other];
        let primaries = vec![one];
        Ok(Self {
            primary: Member::start(kinds.0, one, Replication::Primary { notify }).await?,
            secondary: Member::start(kinds.1, other, Replication::Secondary { primaries }).await?,
            zone: zone(),
        })
    }

    /// Both servers, with a zone that has been copied.
    pub(crate) async fn copied(kinds: Kinds) -> Result<Self> {
        let mut pair = Self::start(kinds).await?;
        pair.primary.create(&pair.zone).await?;
        pair.secondary.create(&pair.zone).await?;
        pair.until_copied().await?;
        Ok(pair)
    }

    /// Adds a host to the zone of the primary.
    pub(crate) async fn add_host(&self, number: u8) -> Result<()> {
        let change = [host(&self.zone, number)];
        Ok(self.primary.client().update(&self.zone, &change).await?)
    }

    /// Waits until both have the same serial, and checks that they have the same records.
    pub(crate) async fn until_copied(&self) -> Result<()> {
        let (primary, secondary) = (self.primary.client(), self.secondary.client());
        let wanted = primary.serial(&self.zone).await?;
        eventually(&format!("serial {wanted} arrives"), || async {
            Ok(secondary.serial(&self.zone).await? == wanted)
        })
        .await?;
        let (one, other) = (
            primary.transfer(&self.zone).await?,
            secondary.transfer(&self.zone).await?,
        );
        ensure!(one == other, "{one:#?} is not {other:#?}");
        Ok(())
    }

    /// Ends both.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.secondary.stop().await?;
        self.primary.stop().await
    }
}

impl Member {
    /// Starts a server.
    pub(crate) async fn start(kind: Kind, address: SocketAddr, role: Replication) -> Result<Self> {
        let mut member = Self {
            kind,
            folder: TempDir::new()?,
            address,
            role,
            running: None,
        };
        member.start_again().await?;
        Ok(member)
    }

    /// Starts it where it was.
    pub(crate) async fn start_again(&mut self) -> Result<()> {
        let role = self.role.clone();
        let own = Own::start(self.kind, self.folder.path(), self.address, role).await?;
        self.running = Some(own);
        Ok(())
    }

    /// Makes a zone: with the records of every case, or to be copied.
    pub(crate) async fn create(&mut self, zone: &Name) -> Result<()> {
        match self.role {
            Replication::Primary { .. } => self.create_with(zone, &scene::records(zone)).await,
            Replication::Secondary { .. } => self.create_with(zone, &[]).await,
        }
    }

    /// Makes a zone that starts with these records.
    pub(crate) async fn create_with(&mut self, zone: &Name, records: &[Record]) -> Result<()> {
        self.own()?.create(zone, records).await
    }

    /// Removes a zone.
    pub(crate) async fn delete(&mut self, zone: &Name) -> Result<()> {
        self.own()?.delete(zone).await
    }

    /// Ends it gently.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.running.take().context("it does not run")?.stop().await
    }

    /// Ends it as a power cut would.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.running.take().context("it does not run")?.kill().await
    }

    /// Our client of it.
    pub(crate) fn client(&self) -> Server {
        Server::new(self.address.to_string(), Some(subject::key()))
    }

    fn own(&mut self) -> Result<&mut Own> {
        self.running.as_mut().context("it does not run")
    }
}

/// The zone of every pair; each has servers of its own.
pub(crate) fn zone() -> Name {
    Name::parse("copied.test.").expect("a valid name")
}

/// The addition of a host.
pub(crate) fn host(zone: &Name, number: u8) -> Change {
    Change {
        key: RecordKey::new(scene::named(zone, &format!("h{number}")), RecordType::A),
        expect: Expect::Absent,
        remove: Vec::new(),
        add: vec![RecordData::A([192, 0, 2, number].into())],
        ttl: 60,
    }
}

/// What happened on a server since a serial, which must be known as differences.
pub(crate) async fn steps(member: &Member, since: Serial) -> Result<Difference> {
    match member.client().changes_since(&zone(), since).await? {
        Delta::Difference(steps) => Ok(steps),
        other @ (Delta::UpToDate(_) | Delta::Whole(_)) => {
            anyhow::bail!("no differences: {other:?}")
        }
    }
}

/// The serial of an SOA record.
pub(crate) fn serial_of(record: &Record) -> Option<Serial> {
    let RecordData::Soa(soa) = &record.data else {
        return None;
    };
    Some(Serial(soa.serial))
}

/// Sends an update of zone-file lines, `-` before those that go; it must succeed.
pub(crate) async fn change(member: &Member, lines: &[impl AsRef<str>]) -> Result<()> {
    let zone = zone();
    let row = |line: &str| {
        let going = line.strip_prefix("- ");
        let Record { name, ttl, data } = scene::record(&zone, going.unwrap_or(line));
        match going {
            None => WireRecord::new(name, ttl, &data),
            Some(_) => WireRecord {
                class: class::NONE,
                ..WireRecord::new(name, 0, &data)
            },
        }
    };
    let message = Message {
        head: Head {
            id: 0x4545,
            opcode: opcode::UPDATE,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), RecordType::Soa.code())],
        authority: lines.iter().map(|line| row(line.as_ref())).collect(),
        ..Message::default()
    };
    let (bytes, transaction) = ask::sign(&message, &subject::key())?;
    let mut stream = TcpStream::connect(member.address).await?;
    ask::send(&mut stream, &bytes).await?;
    let code = ask::verify(ask::receive(&mut stream).await?, &transaction)?;
    ensure!(code == rcode::NOERROR, "{code}");
    Ok(())
}

/// Waits until something is so; faults on the way are waited out.
pub(crate) async fn eventually<Look, Seen>(what: &str, look: Look) -> Result<()>
where
    Look: Fn() -> Seen,
    Seen: Future<Output = Result<bool>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = look().await;
        if matches!(seen, Ok(true)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not so: {what} ({seen:?})");
        sleep(POLL).await; // pause between polls
    }
}

/// An address for a server that others must know before it starts. Its port is none that the
/// system gives away by itself, so nobody takes it meanwhile, also not during a restart.
pub(crate) fn free_address() -> Result<SocketAddr> {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 16_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Runs at the same time begin at different places.
    let start = u16::try_from(std::process::id() % u32::from(COUNT / 100))? * 100;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("no port is free")
}
