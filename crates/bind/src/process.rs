//! The child process: found, started, watched, stopped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::config;

/// Where distributions put servers besides PATH.
const PLACES: [&str; 4] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/bin",
    "/opt/homebrew/sbin",
];

/// What it writes to its standard output and error, in the folder.
pub(super) const OUTPUT: &str = "named.out";

/// How often to look whether a process has gone.
const POLL: Duration = Duration::from_millis(20);

/// How long `named -C` may take.
const DEFAULTS_TIMEOUT: Duration = Duration::from_secs(5);

/// A started child. Dropping it kills it.
pub(super) struct Process {
    pid: Pid,
    ended: watch::Receiver<Option<String>>,
}

/// Looks for a program in PATH and in the usual places.
#[expect(
    clippy::disallowed_methods,
    reason = "where programs are is what PATH is for"
)]
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(PLACES.iter().map(PathBuf::from))
        .collect();
    places
        .into_iter()
        .map(|place| place.join(program))
        .find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The defaults this version prints, which name the options it knows; empty if it cannot.
pub(super) async fn defaults(program: &Path) -> String {
    let run = tokio::process::Command::new(program)
        .arg("-C")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match timeout(DEFAULTS_TIMEOUT, run).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(Err(_)) | Err(_) => String::new(),
    }
}

/// Ends a `named` that a killed Bindery left behind with this folder.
pub(super) async fn end_leftover(folder: &Path, patience: Duration) {
    let Some(pid) = leftover(folder) else { return };
    tracing::warn!(
        pid = pid.as_raw_nonzero(),
        "ending a named that an earlier run left behind"
    );
    // It may end by itself in this moment.
    let _ = kill_process(pid, Signal::TERM);
    let deadline = Instant::now() + patience;
    while leftover(folder) == Some(pid) {
        if Instant::now() > deadline {
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(POLL).await;
    }
}

/// The process of the folder's pid file, if it is a `named` with the folder's configuration.
fn leftover(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join(config::PID)).ok()?;
    let number: i32 = text.trim().parse().ok()?;
    let arguments = fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let config = folder.join(config::CONFIG);
    let ours = arguments
        .split(|byte| *byte == 0)
        .any(|argument| argument == config.as_os_str().as_encoded_bytes());
    if ours { Pid::from_raw(number) } else { None }
}

impl Process {
    /// Starts `program` in the foreground with `config`.
    pub(super) fn spawn(program: &Path, config: &Path, folder: &Path) -> io::Result<Self> {
        let output = File::create(folder.join(OUTPUT))?;
        let mut command = command(program);
        command
            .args(["-f".into(), "-c".into(), config.as_os_str().to_owned()])
            // Until the configuration is read, messages would go to syslog.
            .args(["-L".into(), folder.join(config::LOG).into_os_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let (started, start) = std::sync::mpsc::channel();
        let (end, ended) = watch::channel(None);
        // The death signal of Linux comes when the *thread* that started the child ends, so the
        // child gets a thread of its own, which lives as long as it does.
        std::thread::Builder::new()
            .name("named".to_owned())
            .spawn(move || {
                let spawned = command.spawn();
                match spawned {
                    Err(error) => drop(started.send(Err(error))),
                    Ok(mut child) => {
                        drop(started.send(Ok(child.id())));
                        let status = child.wait();
                        let said = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                        // Nobody may be left who wants to know.
                        drop(end.send(Some(said)));
                    }
                }
            })?;
        let id = start.recv().map_err(io::Error::other)??;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { pid, ended })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How the process ended, if it has.
    pub(super) fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits for the end of the process.
    pub(super) async fn wait(&self) -> String {
        let mut ended = self.ended.clone();
        // The sender goes only after it has sent.
        match ended.wait_for(Option::is_some).await {
            Ok(status) => status.clone().unwrap_or_default(),
            Err(_) => "unknown".to_owned(),
        }
    }

    /// Asks the process to end; kills it if it does not in time.
    pub(super) async fn stop(self, patience: Duration) {
        self.signal(Signal::TERM);
        if timeout(patience, self.wait()).await.is_err() {
            tracing::warn!(
                pid = self.pid(),
                "named did not end when told to; killing it"
            );
            self.signal(Signal::KILL);
            self.wait().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            // It may end by itself in this moment.
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The command, by way of `setpriv` where there is one, which has the kernel end the child when
/// Bindery is killed.
fn command(program: &Path) -> Command {
    if cfg!(target_os = "linux")
        && let Some(setpriv) = find("setpriv")
    {
        let mut command = Command::new(setpriv);
        let arguments: [OsString; 4] = [
            "--pdeathsig".into(),
            "TERM".into(),
            "--".into(),
            program.as_os_str().to_owned(),
        ];
        command.args(arguments);
        return command;
    }
    Command::new(program)
}
