//! Keeps the engine's servers as the file says, as long as Bindery runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bindery_core::Group;
use bindery_engine::{Engine, Servers};
use bindery_kube::Replica;
use kube::Client;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Connections, FoundServer, FoundServers, ServerSource, ServersReading, Stamps, stamps};
use crate::file::{SETTLE, Stamp, is_old};
use crate::folder::{Changes, FileProblem, Teller};

/// The `ConfigMap` that tells what is wrong with the file.
pub(crate) const PROBLEMS: &str = "bindery-servers";
/// How long the start waits for a file that is being written.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// Whether the file can be used, for metrics. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServersReport(Arc<AtomicBool>);

impl ServersReport {
    /// Whether the servers of before stay because the file cannot be used.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads what there is at the start, when it is still.
pub(crate) async fn read_settled(source: &ServerSource) -> ServersReading {
    let end = Instant::now() + SETTLE_MAX;
    let is_settled = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| is_old(&found));
    let mut reading = block_in_place(|| source.read());
    if source.file.is_none() || reading.files.keys().all(is_settled) {
        return reading;
    }
    loop {
        sleep(SETTLE).await;
        let before = reading.files;
        reading = block_in_place(|| source.read());
        if reading.files == before || Instant::now() > end {
            return reading;
        }
    }
}

/// Watches the file of name servers and the files of keys.
pub(crate) struct ServersKeeper {
    source: ServerSource,
    path: PathBuf,
    changes: Changes,
    connections: Connections,
    found: FoundServers,
    /// The files as they were when they were read last.
    read: Stamps,
    /// How they were when they were last looked at, and since when.
    seen: (Stamps, Instant),
    /// What was told last.
    told: Option<FileProblem>,
    engine: Engine,
    replica: Replica,
    report: ServersReport,
    teller: Teller,
}

impl ServersKeeper {
    /// A keeper that begins with what was read at the start; `None` where there is no file to watch.
    pub(crate) fn new(
        source: ServerSource,
        (found, read): (FoundServers, Stamps),
        connections: Connections,
        (engine, client, replica): (Engine, Client, Replica),
    ) -> Option<Self> {
        let path = source.file.clone()?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or_else(|| Path::new(".")).to_owned();
        Some(Self {
            changes: Changes::flat(folder),
            seen: (read.clone(), Instant::now()),
            source,
            path,
            connections,
            found,
            read,
            told: None,
            engine,
            replica,
            report: ServersReport::default(),
            teller: Teller::new(client, PROBLEMS),
        })
    }

    /// Where metrics see whether the file can be used.
    pub(crate) fn report(&self) -> ServersReport {
        self.report.clone()
    }

    /// Looks at the files again and again until `stop`.
    ///
    /// Cancellation: a file that was read and not told of yet is read again at the next start.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let elected = self.replica.elected.clone();
        let (mut again, mut is_elected) = (None, false);
        loop {
            self.changes.refresh();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = elected.cancelled(), if !is_elected => {
                    is_elected = true;
                    // What an earlier process told is no longer so.
                    self.tell().await;
                }
                () = self.changes.next(again) => again = self.look().await,
            }
        }
    }

    /// Tells what is wrong, unless another process does.
    async fn tell(&mut self) {
        if self.replica.fence.is_open() {
            self.teller.write(self.told.as_slice()).await;
        }
    }

    /// One look; returns when to look again, if that is soon.
    async fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let found = block_in_place(|| stamps(self.read.keys()));
        if found == self.read {
            return None;
        }
        if found != self.seen.0 || self.is_being_written() {
            self.seen = (found, now);
        }
        let at = self.seen.1 + SETTLE;
        if now < at {
            return Some(at);
        }
        let reading = block_in_place(|| self.source.read());
        reading.warn(&self.source);
        let mut files = reading.files;
        let is_same = |(path, stamp): (&PathBuf, &Option<Stamp>)| {
            files.get(path).is_none_or(|read| read == stamp)
        };
        if !self.seen.0.iter().all(is_same) {
            // It was written meanwhile.
            self.seen.1 = Instant::now();
            return Some(self.seen.1 + SETTLE);
        }
        if reading.found.is_err() {
            // One that cannot be read does not say which keys it means.
            for (path, stamp) in &self.seen.0 {
                files.entry(path.clone()).or_insert(*stamp);
            }
        }
        (self.seen.0, self.read) = (files.clone(), files);
        self.take(reading.found).await;
        None
    }

    fn is_being_written(&self) -> bool {
        let path = self.path.canonicalize();
        path.is_ok_and(|path| self.changes.writing().contains(&path))
    }

    /// Takes in what the files say now.
    async fn take(&mut self, found: Result<FoundServers, FileProblem>) {
        let problem = match found {
            Ok(found) => {
                self.apply(found);
                None
            }
            Err(problem) => Some(FileProblem {
                text: format!("{}; the servers of before stay in use", problem.text),
                ..problem
            }),
        };
        self.report.0.store(problem.is_some(), Ordering::Relaxed);
        if problem != self.told {
            match &problem {
                Some(problem) => tracing::warn!(%problem, "the file of name servers is not used"),
                None => {
                    tracing::info!(file = %self.path.display(), "the file of name servers is right again");
                }
            }
        }
        self.told = problem;
        self.tell().await;
    }

    fn apply(&mut self, mut found: FoundServers) {
        // A cluster that is named no longer keeps its zones waiting: its servers may come back.
        for group in self.found.keys() {
            found.entry(group.clone()).or_default();
        }
        let groups: BTreeMap<Group, Servers> = self.connections.open(&found);
        for (group, servers) in groups {
            let before = self.found.get(&group).map_or(&[][..], Vec::as_slice);
            let after = found.get(&group).map_or(&[][..], Vec::as_slice);
            let is_known = self.found.contains_key(&group);
            let news = news(before, after);
            if is_known && news.is_empty() {
                continue;
            }
            let cluster = group.name().unwrap_or_default();
            tracing::info!(
                cluster,
                changes = news.join(", "),
                "the name servers changed"
            );
            self.engine.set_servers(&group, servers);
        }
        self.found = found;
    }
}

/// What became of servers, one by one; empty where nothing changed but their order.
fn news(before: &[FoundServer], after: &[FoundServer]) -> Vec<String> {
    let mut news = Vec::new();
    for one in after {
        let (id, address) = (&one.info.id, &one.info.address);
        let known = before.iter().find(|known| known.info.id == *id);
        match known {
            None => news.push(format!("{id} came, at {address}")),
            Some(known) => {
                if known.info.address != *address {
                    news.push(format!("{id} moved to {address}"));
                }
                if known.info.role != one.info.role {
                    news.push(format!("{id} is a {} now", one.info.role.as_str()));
                }
                if known.key != one.key {
                    news.push(format!("{id} has the key {} now", one.key.name()));
                }
            }
        }
    }
    let is_gone = |one: &&FoundServer| !after.iter().any(|other| other.info.id == one.info.id);
    let gone = before.iter().filter(is_gone);
    news.extend(gone.map(|one| format!("{} went", one.info.id)));
    news
}
