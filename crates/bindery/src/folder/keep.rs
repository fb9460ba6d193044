//! Keeps a folder applied, as long as Bindery runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::apply::{Applier, Outcome};
use super::document::{Key, Problem};
use super::plan::{Known, Origin, Plan, Scan, plan};
use super::scan::Reader;
use super::watch::Changes;

/// How long something has to be gone before its object is deleted. A file that is being saved, moved
/// or checked out is gone for some milliseconds; `rm -r` of the folder takes some more.
const GRACE: Duration = Duration::from_millis(250);
/// When a document is tried again whose object is still being deleted.
const RETRY: Duration = Duration::from_millis(200);

/// What became of the folder in the last pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// What the author of the files has to put right.
    pub(crate) problems: Vec<Problem>,
    /// Files that had problems in the pass before and have none now.
    pub(crate) mended: Vec<String>,
    /// Files that were read.
    pub(crate) files: usize,
    /// Objects that the files declare.
    pub(crate) objects: usize,
    /// How many of them Bindery publishes.
    pub(crate) published: usize,
    /// Whether a first pass is through.
    pub(crate) settled: bool,
}

/// Keeps one folder applied.
pub(crate) struct Keeper {
    reader: Reader,
    changes: Changes,
    applier: Applier,
    known: Known,
    /// Group and kind of what Bindery publishes.
    kinds: BTreeSet<(String, String)>,
    gone: BTreeMap<Key, Instant>,
    news: watch::Sender<News>,
}

impl Keeper {
    /// A keeper of `root`, and where its news come from.
    ///
    /// # Errors
    /// If the API does not say what it has.
    pub(crate) async fn new(
        root: PathBuf,
        client: Client,
    ) -> Result<(Self, watch::Receiver<News>)> {
        let applier = Applier::new(client).await?;
        let known = applier.fetch_known().await?;
        let crds = bindery_api::crds().into_iter();
        let kinds = crds.map(|crd| (crd.spec.group, crd.spec.names.kind));
        let (news, receiver) = watch::channel(News::default());
        let keeper = Self {
            reader: Reader::new(root.clone()),
            changes: Changes::new(root),
            applier,
            known,
            kinds: kinds.collect(),
            gone: BTreeMap::new(),
            news,
        };
        Ok((keeper, receiver))
    }

    /// Applies the folder again and again until `stop`.
    ///
    /// Cancellation: a pass that is cut off is repeated at the next start.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = self.pass() => next,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.changes.next(next) => {}
            }
        }
    }

    /// One pass: reads the folder and brings the API in line. Returns when it has to look again, if
    /// that is soon.
    async fn pass(&mut self) -> Option<Instant> {
        self.changes.refresh();
        let scan = match block_in_place(|| self.reader.read()) {
            Ok(scan) => scan,
            Err(problem) => {
                self.gone.clear();
                let kept = self.known.len();
                let text = format!("{problem}; its {kept} objects are kept as they are");
                self.tell(vec![Problem::with_file("", text)], &Scan::default());
                return None;
            }
        };
        let Plan {
            mut apply,
            delete,
            mut problems,
        } = plan(&scan, &self.known);
        let mut next = None;
        while let Some((_, first)) = apply.first() {
            let is_definition = first.key.kind == "CustomResourceDefinition";
            let is_namespace = first.key.kind == "Namespace";
            let rest = apply
                .iter()
                .position(|(_, document)| {
                    (is_definition || is_namespace) && document.key.kind != first.key.kind
                })
                .map(|at| apply.split_off(at));
            for outcome in self.applier.apply(apply).await {
                match outcome {
                    Outcome::Applied(key, origin) => {
                        self.known.insert(key, origin);
                    }
                    Outcome::Wait => next = Some(Instant::now() + RETRY),
                    Outcome::Refused(problem) => problems.push(problem),
                }
            }
            apply = rest.unwrap_or_default();
        }
        let due = self.delete(delete, &mut problems).await;
        self.tell(problems, &scan);
        match (next, due) {
            (Some(next), Some(due)) => Some(next.min(due)),
            (next, due) => next.or(due),
        }
    }

    /// Deletes what has been gone for long enough; returns when more is due.
    async fn delete(
        &mut self,
        delete: Vec<(Key, Origin)>,
        problems: &mut Vec<Problem>,
    ) -> Option<Instant> {
        let now = Instant::now();
        let mut gone = BTreeMap::new();
        for (key, origin) in delete {
            let since = self.gone.get(&key).copied().unwrap_or(now);
            if now < since + GRACE {
                gone.insert(key, since);
                continue;
            }
            match self.applier.delete(&key, &origin).await {
                Ok(()) => {
                    self.known.remove(&key);
                }
                Err(problem) => {
                    gone.insert(key, now);
                    problems.push(problem);
                }
            }
        }
        self.gone = gone;
        self.gone.values().min().map(|since| *since + GRACE)
    }

    /// Whether controllers of ours see to objects of this kind.
    fn is_published(&self, key: &Key) -> bool {
        self.kinds.contains(&(key.group.clone(), key.kind.clone()))
    }

    fn tell(&self, problems: Vec<Problem>, scan: &Scan) {
        let objects = self.known.len();
        let published = self
            .known
            .keys()
            .filter(|key| self.is_published(key))
            .count();
        self.news.send_if_modified(|old| {
            let is_sound = |file: &str| !problems.iter().any(|problem| problem.file == file);
            let had_problems: BTreeSet<&String> =
                old.problems.iter().map(|problem| &problem.file).collect();
            let mended: Vec<String> = had_problems
                .into_iter()
                .filter(|file| scan.files.contains_key(*file) && is_sound(file))
                .cloned()
                .collect();
            let files = scan.files.len();
            let news = News {
                problems,
                mended,
                files,
                objects,
                published,
                settled: true,
            };
            let differs = *old != news;
            *old = news;
            differs
        });
    }
}
