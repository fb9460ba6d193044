//! Child processes: found, started, watched, stopped. They die with this process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
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

/// What stands for the end of a process that nobody saw: exit code 255.
const UNKNOWN_END: i32 = 255 << 8;

/// A started child. Dropping it kills it.
pub struct Process {
    pid: Pid,
    group: ProcessGroup,
    ended: watch::Receiver<Option<ExitStatus>>,
}

/// Whose signals a child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessGroup {
    /// It is in our process group: a terminal's signals reach it too.
    Ours,
    /// It has a process group of its own, which is signalled with it.
    Own,
}

/// Looks for a program in PATH and in the usual places.
#[expect(
    clippy::disallowed_methods,
    reason = "where programs are is what PATH is for"
)]
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
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
    end_found(|| leftover(folder), patience).await;
}

/// Ends a process that an earlier run left behind, as long as it is found; kills it if it does not end in time.
pub async fn end_found(find: impl Fn() -> Option<Pid>, patience: Duration) {
    let Some(pid) = find() else { return };
    let number = pid.as_raw_nonzero();
    tracing::warn!(
        pid = number,
        "ending a process that an earlier run left behind"
    );
    // It may end by itself in this moment.
    let _ = kill_process(pid, Signal::TERM);
    let deadline = Instant::now() + patience;
    while find() == Some(pid) {
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
    /// Starts `named` in the foreground with `config`.
    pub(super) fn spawn_named(program: &Path, config: &Path, folder: &Path) -> io::Result<Self> {
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
        Self::spawn(command, ProcessGroup::Ours)
    }

    /// Starts a command, best one of [`command`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(mut command: Command, group: ProcessGroup) -> io::Result<Self> {
        if group == ProcessGroup::Own {
            command.process_group(0);
        }
        let (started, start) = std::sync::mpsc::channel();
        let (end, ended) = watch::channel(None);
        // The death signal of Linux comes when the *thread* that started the child ends, so the
        // child gets a thread of its own, which lives as long as it does.
        std::thread::Builder::new()
            .name("child".to_owned())
            .spawn(move || {
                let spawned = command.spawn();
                match spawned {
                    Err(error) => drop(started.send(Err(error))),
                    Ok(mut child) => {
                        drop(started.send(Ok(child.id())));
                        let status = child.wait();
                        let status = status.unwrap_or_else(|_| ExitStatus::from_raw(UNKNOWN_END));
                        // Nobody may be left who wants to know.
                        let _ = end.send(Some(status));
                    }
                }
            })?;
        let id = start.recv().map_err(io::Error::other)??;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { pid, group, ended })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How the process ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Waits for the end of the process.
    pub async fn wait(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        // The sender goes only after it has sent.
        match ended.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_else(|| ExitStatus::from_raw(UNKNOWN_END)),
            Err(_) => ExitStatus::from_raw(UNKNOWN_END),
        }
    }

    /// Asks the process to end; kills it if it does not in time.
    ///
    /// Cancellation: the process is killed.
    pub async fn stop(self, patience: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        // One that was stopped ends as soon as it goes on.
        self.signal(Signal::CONT);
        if let Ok(status) = timeout(patience, self.wait()).await {
            return status;
        }
        let pid = self.pid();
        tracing::warn!(pid, "a process did not end when told to; killing it");
        self.signal(Signal::KILL);
        self.wait().await
    }

    fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            // It may end by itself in this moment.
            let _ = match self.group {
                ProcessGroup::Ours => kill_process(self.pid, signal),
                ProcessGroup::Own => kill_process_group(self.pid, signal),
            };
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
#[must_use]
pub fn command(program: &Path) -> Command {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_is_stopped_ends_when_told_to() {
        let mut command = command(Path::new("sleep"));
        command.arg("600");
        let process = Process::spawn(command, ProcessGroup::Own).expect("sleep is everywhere");
        process.signal(Signal::STOP);
        let status = process.stop(Duration::from_secs(10)).await;
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
    }
}
