//! One container: started, probed, restarted, stopped.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bindery_bind::process::{self, Process, ProcessGroup};
use bindery_core::Backoff;
use bindery_core::backoff::jitter_seed;
use k8s_openapi::api::core::v1::Container;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::launch::{Launch, StartRefusal};
use crate::pid_file;
use crate::pod::PodRun;
use crate::probe::{ProbeTerms, Streak};
use crate::status::{ContainerEnd, ContainerFacts, ContainerPhase};
use crate::volumes::disk;

/// How long a container that ended for the first time waits: long enough for its end to be told.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How often a container that is not ready yet is asked, where its probe has a longer period.
const UNREADY_PERIOD: Duration = Duration::from_millis(500);

/// How long what was refused waits for something to change.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a log, of which there are two for each container.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// How often logs are looked at.
const LOG_PERIOD: Duration = Duration::from_secs(2);

/// Which containers of a pod: those that prepare it, or those that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRole {
    Init,
    Main,
}

/// One container of a running pod.
pub(crate) struct ContainerRun<'a> {
    pub(crate) pod: &'a PodRun,
    pub(crate) container: &'a Container,
    pub(crate) index: usize,
    pub(crate) role: ContainerRole,
}

/// Why a run of a container ended.
enum RunEnd {
    /// The program ended.
    Itself(ExitStatus),
    /// We were told to stop.
    Told,
    /// It was given up, for this reason, and has this long to end.
    GivenUp(String, Duration),
}

impl ContainerRun<'_> {
    /// Runs it until `stop`, or, if it prepares the pod, until it has succeeded.
    ///
    /// Cancellation: the process is killed.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut failures = 0;
        loop {
            let Some(process) = self.start(stop).await else {
                return;
            };
            let since = Instant::now();
            let end = self.watch(&process, stop).await;
            let told = matches!(end, RunEnd::Told);
            let end = self.end(process, end).await;
            if told || (self.role == ContainerRole::Init && end.is_success()) {
                return;
            }
            let options = &self.pod.ctx.options;
            if since.elapsed() >= options.well_after {
                failures = 0;
            }
            failures += 1;
            if !self.pause(failures, options.restart, stop).await {
                return;
            }
            self.facts(|facts| facts.restarts += 1);
        }
    }

    /// Starts the program, as soon as it can be.
    async fn start(&self, stop: &CancellationToken) -> Option<Process> {
        loop {
            match self.try_start().await {
                Ok(process) => return Some(process),
                Err(refusal) => self.facts(|facts| {
                    facts.state = ContainerPhase::Waiting {
                        reason: refusal.reason,
                        message: refusal.message,
                    };
                }),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = self.pod.changed(REFUSED_PAUSE) => {}
            }
        }
    }

    async fn try_start(&self) -> Result<Process, StartRefusal> {
        // Not many at once: a cold start of `named` keeps a processor busy.
        let _permit = self.pod.ctx.starts.acquire().await;
        let launch = self.pod.launch(self.container)?;
        let process = self.spawn(&launch).map_err(|error| StartRefusal {
            reason: "CreateContainerError",
            message: format!("cannot start {}: {error}", launch.program.display()),
        })?;
        let since = self.pod.ctx.now();
        let pid = process.pid();
        let is_started = self.container.startup_probe.is_none();
        let is_ready = is_started && self.container.readiness_probe.is_none();
        self.facts(|facts| {
            facts.state = ContainerPhase::Running { since, pid };
            facts.is_started = is_started;
            facts.is_ready = is_ready && self.role == ContainerRole::Main;
        });
        Ok(process)
    }

    fn spawn(&self, launch: &Launch) -> io::Result<Process> {
        let folder = self.folder();
        disk::make_folder(&folder)?;
        let mut log = OpenOptions::new();
        let log = log
            .create(true)
            .append(true)
            .mode(0o600)
            .open(folder.join("log"))?;
        let mut command = process::command(&launch.program);
        command
            .args(&launch.arguments)
            .env_clear()
            .envs(&launch.variables)
            .current_dir(launch.folder.as_ref().map_or(folder.as_path(), Path::new))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = Process::spawn(command, ProcessGroup::Own)?;
        // Where it has ended already there is nothing to remember.
        let _ = pid_file::write(&folder.join("pid"), process.pid());
        Ok(process)
    }

    /// Follows a run until something ends it.
    async fn watch(&self, process: &Process, stop: &CancellationToken) -> RunEnd {
        tokio::select! {
            biased;
            () = stop.cancelled() => RunEnd::Told,
            status = process.wait() => RunEnd::Itself(status),
            (why, grace) = self.health() => RunEnd::GivenUp(why, grace),
            why = self.loss() => RunEnd::GivenUp(why, self.pod.ctx.options.unhealthy_grace),
            () = self.trim_log() => RunEnd::Told,
        }
    }

    async fn end(&self, process: Process, end: RunEnd) -> ContainerEnd {
        let started = match self.pod.facts().containers_of(self.role)[self.index].state {
            ContainerPhase::Running { since, .. } => Some(since),
            ContainerPhase::Waiting { .. } | ContainerPhase::Ended(_) => None,
        };
        self.facts(|facts| facts.is_ready = false);
        let (status, message) = match end {
            RunEnd::Itself(status) => (status, None),
            RunEnd::Told => (process.stop(self.pod.grace()).await, None),
            RunEnd::GivenUp(why, grace) => {
                self.pod.tell("Warning", "Unhealthy", &why);
                (process.stop(grace).await, Some(why))
            }
        };
        let _ = fs::remove_file(self.folder().join("pid"));
        let signal = status.signal();
        let code = status.code().or_else(|| signal.map(|signal| 128 + signal));
        let end = ContainerEnd {
            code: code.unwrap_or(255),
            signal,
            message,
            started,
            finished: Some(self.pod.ctx.now()),
        };
        self.facts(|facts| {
            facts.state = ContainerPhase::Ended(end.clone());
            facts.is_started = false;
            facts.is_ready = self.role == ContainerRole::Init && end.is_success();
        });
        end
    }

    /// Waits before the next start; false if told to stop meanwhile.
    async fn pause(&self, failures: u32, restart: Backoff, stop: &CancellationToken) -> bool {
        let salt = jitter_seed(self.container.name.as_bytes());
        let delay = match failures {
            0 | 1 => FIRST_PAUSE,
            more => restart.delay(more - 1, salt),
        };
        let name = &self.container.name;
        self.facts(|facts| {
            if let ContainerPhase::Ended(end) = &facts.state {
                facts.last = Some(end.clone());
            }
            if failures > 1 {
                let message = format!("back-off {delay:.0?} restarting failed container={name}");
                facts.state = ContainerPhase::Waiting {
                    reason: "CrashLoopBackOff",
                    message,
                };
            }
        });
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = sleep(delay) => true,
        }
    }

    /// Probes the container until it is to be given up.
    async fn health(&self) -> (String, Duration) {
        let address = self.pod.address();
        let terms = |probe| ProbeTerms::of(probe, self.container, address);
        let patience = self.pod.ctx.options.unhealthy_grace;
        if let Some(startup) = terms(self.container.startup_probe.as_ref()) {
            if let Err(why) = follow(&startup, |is_ok| is_ok).await {
                return (
                    format!("Startup probe failed: {why}"),
                    startup.grace.unwrap_or(patience),
                );
            }
            let is_ready = self.container.readiness_probe.is_none();
            self.facts(|facts| {
                facts.is_started = true;
                facts.is_ready = is_ready;
            });
        }
        let readiness = async {
            match terms(self.container.readiness_probe.as_ref()) {
                Some(readiness) => self.readiness(&readiness).await,
                None => std::future::pending().await,
            }
        };
        let liveness = async {
            match terms(self.container.liveness_probe.as_ref()) {
                Some(liveness) => match follow(&liveness, |_| false).await {
                    Ok(()) => std::future::pending().await,
                    Err(why) => {
                        let grace = liveness.grace.unwrap_or(patience);
                        (format!("Liveness probe failed: {why}"), grace)
                    }
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            given_up = liveness => given_up,
            () = readiness => std::future::pending().await,
        }
    }

    async fn readiness(&self, terms: &ProbeTerms) {
        sleep(terms.delay).await;
        let mut streak = Streak::default();
        let mut is_ready = false;
        loop {
            let answer = terms.send().await;
            if let Some(judged) = terms.judge(&mut streak, answer.is_ok())
                && judged != is_ready
            {
                is_ready = judged;
                if let Err(why) = &answer {
                    let why = format!("Readiness probe failed: {why}");
                    self.pod.tell("Warning", "Unhealthy", &why);
                }
                self.facts(|facts| facts.is_ready = judged);
            }
            let period = if is_ready {
                terms.period
            } else {
                terms.period.min(UNREADY_PERIOD)
            };
            sleep(period).await;
        }
    }

    /// Waits until a volume of the pod was lost and made anew.
    async fn loss(&self) -> String {
        let mut lost: watch::Receiver<u64> = self.pod.lost.subscribe();
        lost.mark_unchanged();
        match lost.changed().await {
            Ok(()) => "a volume of the pod was lost and is empty again".to_owned(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Keeps the log within its bounds.
    async fn trim_log(&self) {
        let log = self.folder().join("log");
        loop {
            sleep(LOG_PERIOD).await;
            let len = fs::metadata(&log).map_or(0, |found| found.len());
            if len > LOG_BYTES_MAX {
                // A log that cannot be trimmed is no reason to end what writes it.
                let _ = fs::copy(&log, log.with_extension("1"));
                let _ = OpenOptions::new().write(true).truncate(true).open(&log);
            }
        }
    }

    fn folder(&self) -> PathBuf {
        self.pod.container_folder(&self.container.name)
    }

    fn facts(&self, change: impl FnOnce(&mut ContainerFacts)) {
        self.pod
            .change(|facts| change(&mut facts.containers_of_mut(self.role)[self.index]));
    }
}

/// Probes until a judgement is failure (an error that says why), or one that `is_enough`.
async fn follow(terms: &ProbeTerms, is_enough: impl Fn(bool) -> bool) -> Result<(), String> {
    let mut turns = turns(terms);
    let mut streak = Streak::default();
    loop {
        turns.tick().await;
        let answer = terms.send().await;
        match (terms.judge(&mut streak, answer.is_ok()), answer) {
            (Some(false), Err(why)) => return Err(why),
            (Some(judged), _) if is_enough(judged) => return Ok(()),
            _ => {}
        }
    }
}

/// When a probe is sent. The wait for an answer is part of the period, as a kubelet has it: what hangs is asked
/// again at once.
fn turns(terms: &ProbeTerms) -> Interval {
    let mut turns = interval_at(Instant::now() + terms.delay, terms.period);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use k8s_openapi::api::core::v1::Probe;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_asked_again_without_a_pause() {
        // The kernel takes connections for it, and nobody answers.
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        let probe = format!(
            "{{httpGet: {{path: /, port: {port}}}, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 3}}"
        );
        let probe: Probe = serde_saphyr::from_str(&probe).expect("it is a probe");
        let container = Container::default();
        let terms = ProbeTerms::of(Some(&probe), &container, Ipv4Addr::LOCALHOST);
        let terms = terms.expect("it can be sent");
        let begun = Instant::now();
        let given_up = follow(&terms, |_| false).await;
        assert_eq!(given_up, Err("no answer within 2s".to_owned()));
        // Three times two seconds of virtual time, and no more.
        assert_eq!(begun.elapsed().as_secs(), 6);
        drop(listener);
    }
}
