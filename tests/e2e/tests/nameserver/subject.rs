//! The servers under test: shared ones for most cases, own ones for those that end them.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use bindery_apiserver::System;
use bindery_bind::{self as bind, Named};
use bindery_core::{Name, Record};
use bindery_dns::local::Replication;
use bindery_dns::{Key, SigningClock};
use bindery_engine::ports::ZoneHost;
use bindery_nameserver::{BuiltinServer, Options, Sockets};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Set in the environment of a child that is the built-in server: folder, address and role.
const CHILD: &str = "BINDERY_E2E_BUILTIN";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// BIND's.
    Named,
    /// Ours.
    Builtin,
}

impl Kind {
    /// As it stands in the names of cases.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Builtin => "builtin",
        }
    }
}

/// One runtime for all cases, so that shared servers outlive each of them.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime needs threads only"))
}

/// The key of every server here.
pub(crate) fn key() -> Key {
    Key::generate("bindery-test", [42; 32]).expect("the name is a domain name")
}

/// The time, in seconds since 1970.
pub(crate) fn clock() -> SigningClock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |elapsed| elapsed.as_secs())
    })
}

/// What a case needs to know of a shared server.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Where it answers.
    pub(crate) address: SocketAddr,
    /// What makes its zones.
    pub(crate) host: Arc<dyn ZoneHost>,
}

type Kept = (Named, TempDir);

static NAMED: LazyLock<Mutex<Option<Kept>>> = LazyLock::new(|| Mutex::new(None));

/// The server that cases of this kind share, started by the first of them.
pub(crate) async fn shared(kind: Kind) -> Result<Shared> {
    static OF_NAMED: OnceCell<Shared> = OnceCell::const_new();
    static OF_BUILTIN: OnceCell<Shared> = OnceCell::const_new();
    match kind {
        Kind::Named => OF_NAMED.get_or_try_init(start_named).await.cloned(),
        Kind::Builtin => OF_BUILTIN.get_or_try_init(start_builtin).await.cloned(),
    }
}

/// Ends the shared servers.
pub(crate) fn stop_all() {
    let kept = NAMED.lock().map(|mut kept| kept.take());
    if let Ok(Some((named, _folder))) = kept {
        runtime().block_on(named.stop());
    }
}

async fn start_named() -> Result<Shared> {
    let folder = TempDir::new()?;
    let named = named_in(
        folder.path(),
        "127.0.0.1:0".parse()?,
        Replication::default(),
    )
    .await?;
    let shared = Shared {
        address: named.address(),
        host: Arc::new(named.host()),
    };
    if let Ok(mut kept) = NAMED.lock() {
        *kept = Some((named, folder));
    }
    Ok(shared)
}

async fn start_builtin() -> Result<Shared> {
    let server = BuiltinServer::open(builtin_options(None, Replication::default()))?;
    let sockets = Sockets::bind("127.0.0.1:0".parse()?).await?;
    let address = sockets.local_addr()?;
    // It ends with the runtime.
    runtime().spawn(server.clone().serve(sockets, CancellationToken::new()));
    Ok(Shared {
        address,
        host: Arc::new(server),
    })
}

/// A `named` of one's own.
pub(crate) async fn named_in(
    folder: &Path,
    address: SocketAddr,
    role: Replication,
) -> Result<Named> {
    Ok(Named::start(named_options(folder, address, role)?).await?)
}

/// How a `named` of one's own is set up.
pub(crate) fn named_options(
    folder: &Path,
    address: SocketAddr,
    role: Replication,
) -> Result<bind::Options> {
    let program = bind::find_named()
        .context("named is missing: install the Debian package bind9, or run only `builtin::`")?;
    Ok(bind::Options {
        program,
        folder: folder.to_owned(),
        address,
        key: key(),
        role,
        clock: clock(),
        random: Arc::new(System::secret),
    })
}

fn builtin_options(folder: Option<PathBuf>, role: Replication) -> Options {
    Options {
        folder,
        key: key(),
        clock: clock(),
        role,
        notify_id: Arc::new(|| 7),
    }
}

/// A server of one's own that can be killed and started again on the same folder and address.
pub(crate) enum Own {
    /// A `named` under our management.
    Named(Box<Named>),
    /// This program again, as the built-in server.
    Builtin(Box<BuiltinChild>),
}

/// The built-in server as a child; zones are made by lines on its standard input.
pub(crate) struct BuiltinChild {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Own {
    /// Starts one.
    pub(crate) async fn start(
        kind: Kind,
        folder: &Path,
        address: SocketAddr,
        role: Replication,
    ) -> Result<Self> {
        match kind {
            Kind::Named => Ok(Self::Named(Box::new(
                named_in(folder, address, role).await?,
            ))),
            Kind::Builtin => Ok(Self::Builtin(Box::new(BuiltinChild::start(
                folder, address, &role,
            )?))),
        }
    }

    /// Where it answers.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Named(named) => named.address(),
            Self::Builtin(child) => child.address,
        }
    }

    /// Makes a zone.
    pub(crate) async fn create(&mut self, zone: &Name, records: &[Record]) -> Result<()> {
        match self {
            Self::Named(named) => Ok(named.host().create(zone, records).await?),
            Self::Builtin(child) => {
                let mut lines = vec![format!("create {zone}")];
                lines.extend(records.iter().map(ToString::to_string));
                lines.push(".".to_owned());
                child.order(&lines.join("\n"))
            }
        }
    }

    /// Removes a zone.
    pub(crate) async fn delete(&mut self, zone: &Name) -> Result<()> {
        match self {
            Self::Named(named) => Ok(named.host().delete(zone).await?),
            Self::Builtin(child) => child.order(&format!("delete {zone}")),
        }
    }

    /// Ends it as a power cut would, and waits until it has gone.
    pub(crate) async fn kill(self) -> Result<()> {
        match self {
            Self::Named(named) => {
                let pid = named.pid();
                Command::new("kill")
                    .args(["-9", &pid.to_string()])
                    .status()?;
                named.died().await;
                Ok(())
            }
            Self::Builtin(mut child) => {
                child.child.kill()?;
                child.child.wait()?;
                Ok(())
            }
        }
    }

    /// Ends it gently.
    pub(crate) async fn stop(self) -> Result<()> {
        match self {
            Self::Named(named) => {
                named.stop().await;
                Ok(())
            }
            Self::Builtin(mut child) => {
                drop(child.input);
                child.child.wait()?;
                Ok(())
            }
        }
    }
}

impl BuiltinChild {
    fn start(folder: &Path, address: SocketAddr, role: &Replication) -> Result<Self> {
        let (word, others) = match role {
            Replication::Primary { notify } => ("primary", notify),
            Replication::Secondary { primaries } => ("secondary", primaries),
        };
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let mut child = Command::new(env::current_exe()?)
            .env(
                CHILD,
                format!(
                    "{}\n{address}\n{word} {}",
                    folder.display(),
                    others.join(" ")
                ),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut started = Self {
            child,
            input,
            output,
            address,
        };
        let line = started.line()?;
        started.address = line
            .parse()
            .with_context(|| format!("the child said {line:?}"))?;
        Ok(started)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn order(&mut self, order: &str) -> Result<()> {
        writeln!(self.input, "{order}")?;
        let said = self.line()?;
        ensure!(said == "ok", "the child said {said:?}");
        Ok(())
    }
}

/// The main function of a child, if this process is one.
pub(crate) fn child_main() -> Option<ExitCode> {
    let setting = env::var(CHILD).ok()?;
    match runtime().block_on(child(&setting)) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            // The parent reads one line; this is it.
            writeln!(std::io::stdout(), "{error:#}").ok();
            Some(ExitCode::FAILURE)
        }
    }
}

async fn child(setting: &str) -> Result<()> {
    let mut parts = setting.lines();
    let folder = PathBuf::from(parts.next().context("no folder")?);
    let address: SocketAddr = parts.next().context("no address")?.parse()?;
    let mut words = parts.next().context("no role")?.split_whitespace();
    let word = words.next();
    let others = words
        .map(str::parse)
        .collect::<Result<Vec<SocketAddr>, _>>()?;
    let role = match word {
        Some("secondary") => Replication::Secondary { primaries: others },
        _ => Replication::Primary { notify: others },
    };
    let server = BuiltinServer::open(builtin_options(Some(folder), role))?;
    let sockets = Sockets::bind(address).await?;
    writeln!(std::io::stdout(), "{}", sockets.local_addr()?)?;
    let stop = CancellationToken::new();
    let serving = runtime().spawn(server.clone().serve(sockets, stop.clone()));
    let orders = tokio::task::spawn_blocking(move || obey(&server));
    let outcome = orders.await?;
    stop.cancel();
    serving.await?;
    outcome
}

/// Carries out orders until the input ends.
fn obey(server: &BuiltinServer) -> Result<()> {
    let mut lines = std::io::stdin().lines();
    while let Some(line) = lines.next().transpose()? {
        let (order, zone) = line.split_once(' ').context("an order has two words")?;
        let zone = Name::parse(zone)?;
        match order {
            "create" => {
                let mut records = Vec::new();
                while let Some(line) = lines.next().transpose()?.filter(|line| line != ".") {
                    records.push(line.parse::<Record>()?);
                }
                runtime().block_on(server.create(&zone, &records))?;
            }
            "delete" => runtime().block_on(server.delete(&zone))?,
            other => bail!("unknown order {other:?}"),
        }
        writeln!(std::io::stdout(), "ok")?;
    }
    Ok(())
}
