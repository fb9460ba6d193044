//! A machine on which a user runs Bindery: the process, its folders, and the tools beside it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bindery_e2e::process::{free_port, free_ports};
use bindery_e2e::program::on_path;
use tempfile::TempDir;

/// Longer than anything takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);

/// The manifests of the quickstart.
const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart");

/// Which name server `up` is told to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Named,
    Builtin,
}

impl Server {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Builtin => "builtin",
        }
    }
}

/// A running `bindery`; dropping it kills it.
pub(crate) struct Process {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// A machine with `bindery up`, which is stopped when it is dropped.
pub(crate) struct Machine {
    pub(crate) scratch: TempDir,
    pub(crate) api: u16,
    pub(crate) dns: u16,
    pub(crate) metrics: u16,
    server: Server,
    /// How many primaries; their ports follow each other.
    primaries: u16,
    /// Secondaries beside them; their ports come after those.
    secondaries: u16,
    /// The cluster beside the usual servers, as `--cluster` takes it.
    cluster: Option<&'static str>,
    /// Where the API listens.
    pub(crate) api_host: &'static str,
    /// More arguments of `up`.
    pub(crate) extra: Vec<String>,
    process: Option<Process>,
    runs: usize,
}

/// Where the binary is; it is built when it is asked for the first time.
pub(crate) fn program() -> Result<&'static Path> {
    bindery_e2e::program::bindery()
}

/// Says something to whoever runs the tests.
pub(crate) fn complain(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

/// Looks until `look` finds something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(POLL); // pause between polls
    }
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<Output> {
    let path = on_path(program).with_context(|| format!("{program} is not installed"))?;
    Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))
}

/// What a program printed, which must have ended well.
pub(crate) fn text(output: &Output) -> Result<String> {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}\n{out}{err}", output.status);
    Ok(out)
}

impl Process {
    /// Starts `bindery` with its output in files of `folder`.
    pub(crate) fn start(arguments: &[&str], folder: &Path, run: usize) -> Result<Self> {
        let (out, err) = (
            folder.join(format!("out.{run}")),
            folder.join(format!("err.{run}")),
        );
        let child = Command::new(program()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()
            .context("cannot start bindery")?;
        Ok(Self { child, out, err })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    pub(crate) fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        text(&run("kill", &["-s", name, &self.pid().to_string()])?).map(drop)
    }

    /// Waits until it ends.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        until("bindery ends", || Ok(self.child.try_wait()?))
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A gentle end first, so that it stops its own child.
        if self.is_running() && self.signal("TERM").is_ok() {
            drop(self.wait());
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Machine {
    /// A machine with an empty folder; nothing runs yet.
    pub(crate) fn idle(server: Server) -> Result<Self> {
        let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
        fs::create_dir(scratch.path().join("zones"))?;
        let (api, dns, metrics) = (free_port()?, free_port()?, free_port()?);
        Ok(Self {
            scratch,
            api,
            dns,
            metrics,
            server,
            primaries: 1,
            secondaries: 0,
            cluster: None,
            api_host: "127.0.0.1",
            extra: Vec::new(),
            process: None,
            runs: 0,
        })
    }

    /// The same machine with so many secondaries.
    pub(crate) fn with_secondaries(mut self, count: u16) -> Result<Self> {
        self.dns = free_ports(count + 1)?;
        self.secondaries = count;
        Ok(self)
    }

    /// The same machine with so many primaries.
    pub(crate) fn with_primaries(mut self, count: u16) -> Result<Self> {
        self.dns = free_ports(count)?;
        self.primaries = count;
        Ok(self)
    }

    /// The same machine with a cluster beside its servers, as `--cluster` takes it, of so many.
    pub(crate) fn with_cluster(mut self, cluster: &'static str, count: u16) -> Result<Self> {
        self.dns = free_ports(1 + self.secondaries + count)?;
        self.cluster = Some(cluster);
        Ok(self)
    }

    /// A machine on which the quickstart runs and is ready.
    pub(crate) fn quickstart(server: Server) -> Result<Self> {
        let mut machine = Self::idle(server)?;
        machine.copy_quickstart()?;
        machine.start()?;
        Ok(machine)
    }

    /// Puts the manifests of the quickstart into the folder.
    pub(crate) fn copy_quickstart(&self) -> Result<()> {
        for entry in fs::read_dir(QUICKSTART).context("the quickstart is gone")? {
            let entry = entry?;
            fs::copy(entry.path(), self.folder().join(entry.file_name()))?;
        }
        Ok(())
    }

    /// The folder of manifests.
    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("zones")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Writes a manifest.
    pub(crate) fn write(&self, file: &str, content: &str) -> Result<()> {
        fs::write(self.folder().join(file), content).with_context(|| format!("cannot write {file}"))
    }

    /// The arguments of `up` on this machine.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut line: Vec<String> = ["up", "--server", self.server.as_str()]
            .map(str::to_owned)
            .into();
        line.push(self.folder().display().to_string());
        line.extend(["--data-dir".to_owned(), self.data().display().to_string()]);
        for (flag, host, port) in [
            ("api", self.api_host, self.api),
            ("dns", "127.0.0.1", self.dns),
            ("metrics", "127.0.0.1", self.metrics),
        ] {
            line.extend([format!("--{flag}-address"), format!("{host}:{port}")]);
        }
        line.extend(self.extra.iter().cloned());
        if self.primaries > 1 {
            line.extend(["--primaries".to_owned(), self.primaries.to_string()]);
        }
        if self.secondaries > 0 {
            line.extend(["--secondaries".to_owned(), self.secondaries.to_string()]);
        }
        if let Some(cluster) = self.cluster {
            line.extend(["--cluster".to_owned(), cluster.to_owned()]);
        }
        line
    }

    /// Starts `up` and waits until it is ready.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts `up` and does not wait.
    pub(crate) fn launch(&mut self) -> Result<()> {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.runs += 1;
        self.process = Some(Process::start(&arguments, self.scratch.path(), self.runs)?);
        Ok(())
    }

    /// Waits until `/readyz` says so.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let metrics = self.metrics;
        let process = self.process()?;
        let ready = until("bindery is ready", || {
            if !process.is_running() {
                bail!("bindery ended:\n{}{}", process.out(), process.err());
            }
            Ok(fetch(metrics, "/readyz")
                .ok()
                .filter(|(code, _)| *code == 200))
        });
        ready
            .map(drop)
            .with_context(|| format!("{}{}", process.out(), process.err()))
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        self.process.as_ref().map(Process::err).unwrap_or_default()
    }

    pub(crate) fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("bindery does not run")
    }

    /// Sends a signal, waits for the end and says how it ended.
    pub(crate) fn stop(&mut self, signal: &str) -> Result<ExitStatus> {
        let mut process = self.process.take().context("bindery does not run")?;
        process.signal(signal)?;
        process.wait()
    }

    /// What `kubectl` does; it may fail.
    pub(crate) fn try_kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let path = bindery_e2e::program::kubectl()?;
        let server = format!("--server=http://127.0.0.1:{}", self.api);
        Command::new(path)
            .arg(server)
            .args(arguments)
            .env("HOME", self.scratch.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")
    }

    /// What `kubectl` prints, which must end well.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.try_kubectl(arguments)?;
        text(&output).with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// `kubectl apply` of some YAML, in the ways `arguments` says.
    pub(crate) fn apply(&self, yaml: &str, arguments: &[&str]) -> Result<String> {
        let file = self.scratch.path().join("apply.yaml");
        fs::write(&file, yaml)?;
        let file = file.display().to_string();
        self.kubectl(&[&["apply", "-f", &file], arguments].concat())
    }

    /// What `dig` answers, sorted.
    pub(crate) fn dig(&self, arguments: &[&str]) -> Result<Vec<String>> {
        self.dig_at(0, arguments)
    }

    /// What `dig` answers on the server of this number, the primary being 0.
    pub(crate) fn dig_at(&self, server: u16, arguments: &[&str]) -> Result<Vec<String>> {
        let port = (self.dns + server).to_string();
        let line = [
            &["@127.0.0.1", "-p", &port, "+time=2", "+tries=2"],
            arguments,
        ]
        .concat();
        let answer = text(&run("dig", &line)?)?;
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    }

    /// Waits until `dig +short` answers this.
    pub(crate) fn resolves(&self, query: &[&str], wanted: &[&str]) -> Result<()> {
        self.resolves_at(0, query, wanted)
    }

    /// Waits until `dig +short` answers this on the server of this number.
    pub(crate) fn resolves_at(&self, server: u16, query: &[&str], wanted: &[&str]) -> Result<()> {
        let mut last = Vec::new();
        let line = [&["+short"], query].concat();
        until("an answer", || {
            last = self.dig_at(server, &line).unwrap_or_default();
            Ok((last == wanted).then_some(()))
        })
        .with_context(|| format!("dig {query:?} says {last:?}, not {wanted:?}"))
    }
}

impl Machine {
    /// Changes DNS behind Bindery's back, by lines for `nsupdate`.
    pub(crate) fn nsupdate(&self, lines: &str) -> Result<()> {
        self.nsupdate_at(0, lines)
    }

    /// The same on the server of this number.
    pub(crate) fn nsupdate_at(&self, server: u16, lines: &str) -> Result<()> {
        let file = self.scratch.path().join("nsupdate.txt");
        let port = self.dns + server;
        let text_of = format!("server 127.0.0.1 {port}\n{lines}\nsend\n");
        fs::write(&file, text_of)?;
        let key = self.data().join("tsig.key").display().to_string();
        let file = file.display().to_string();
        text(&run("nsupdate", &["-k", &key, &file])?).map(drop)
    }

    /// Waits until a field of an object, as a JSON path, says this.
    pub(crate) fn says(&self, object: &str, path: &str, wanted: &str) -> Result<()> {
        let path = format!("jsonpath={{{path}}}");
        let mut last = String::new();
        until("a field", || {
            last = self
                .kubectl(&["get", object, "-o", &path])
                .unwrap_or_default();
            Ok((last == wanted).then_some(()))
        })
        .with_context(|| format!("{object} {path} says {last:?}, not {wanted:?}"))
    }
}

/// A page of the metrics address: its status and body.
pub(crate) fn fetch(port: u16, page: &str) -> Result<(u16, String)> {
    use std::io::Read as _;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.context("no HTTP status")?, body.to_owned()))
}

/// How a process ended, for a message.
pub(crate) fn code(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, signal) => format!("signal {signal:?}"),
    }
}
