//! Keeps a folder applied, as long as Bindery runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::apply::{Applier, ApplyResult};
use super::document::{Document, FileProblem, ObjectKey};
use super::leave::Leaving;
use super::plan::{Absent, FolderPlan, LastApplied, Scan, plan};
use super::remove::{Removed, is_namespace, is_zone, rank};
use super::scan::{FolderReader, ScanResult};
use super::tell::{FOLDER, Teller};
use super::watch::Changes;

/// When a document is tried again whose object is still being deleted.
const RETRY: Duration = Duration::from_millis(200);
/// How long the first pass may wait for files that are being written.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// What became of the folder in the last pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderReport {
    /// What the author of the files has to put right.
    pub(crate) problems: Vec<FileProblem>,
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
    reader: FolderReader,
    changes: Changes,
    applier: Applier,
    known: LastApplied,
    /// Group and kind of what Bindery publishes.
    kinds: BTreeSet<(String, String)>,
    leaving: Leaving,
    /// Objects that are no longer declared and stay with a zone that is kept.
    along: BTreeMap<ObjectKey, ObjectKey>,
    started: Instant,
    teller: Teller,
    news: watch::Sender<FolderReport>,
}

impl Keeper {
    /// A keeper of `root`, and where its news come from.
    ///
    /// # Errors
    /// If the API does not say what it has.
    pub(crate) async fn new(
        root: PathBuf,
        client: Client,
    ) -> Result<(Self, watch::Receiver<FolderReport>)> {
        let applier = Applier::new(client.clone()).await?;
        let known = applier.fetch_known().await?;
        let kinds = bindery_api::KINDS.iter().map(|row| {
            let resource = (row.resource)();
            (resource.group, resource.kind)
        });
        let (news, receiver) = watch::channel(FolderReport::default());
        let keeper = Self {
            reader: FolderReader::new(root.clone()),
            changes: Changes::new(root),
            applier,
            known,
            kinds: kinds.collect(),
            leaving: Leaving::new(Instant::now()),
            along: BTreeMap::new(),
            started: Instant::now(),
            teller: Teller::new(client, FOLDER),
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
        let now = Instant::now();
        let writing = self.changes.writing();
        let look = match block_in_place(|| self.reader.read(now, &writing)) {
            Ok(look) => look,
            Err(problem) => {
                self.leaving.reset(now);
                let kept = self.known.len();
                let text = format!("{problem}; its {kept} objects are kept as they are");
                self.tell(vec![FileProblem::with_file("", text)], &Scan::default())
                    .await;
                return None;
            }
        };
        let ScanResult {
            scan,
            again,
            is_changed,
        } = look;
        if is_changed {
            self.leaving.note_change(now);
        }
        let FolderPlan {
            apply,
            absent,
            mut problems,
        } = plan(&scan, &self.known);
        let postponed = self.apply(apply, &mut problems).await;
        // A file that has a problem takes nothing away.
        let mut unsound = postponed.clone();
        unsound.extend(problems.iter().map(|problem| problem.file.clone()));
        let sound = absent.into_iter();
        let absent = sound
            .filter(|absent| !unsound.contains(&absent.origin.file))
            .collect();
        let due = self.remove(absent, &mut problems).await;
        self.tell(problems, &scan).await;
        let retry = (!postponed.is_empty()).then(|| Instant::now() + RETRY);
        [again, due, retry].into_iter().flatten().min()
    }

    /// Applies documents, definitions and namespaces before what needs them. Returns the files of those
    /// that have to wait.
    async fn apply(
        &mut self,
        mut apply: Vec<(String, Arc<Document>)>,
        problems: &mut Vec<FileProblem>,
    ) -> BTreeSet<String> {
        let mut postponed = BTreeSet::new();
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
                    ApplyResult::Applied(key, origin) => {
                        self.known.insert(key, origin);
                    }
                    ApplyResult::Wait(file) => {
                        postponed.insert(file);
                    }
                    ApplyResult::Refused(problem) => problems.push(problem),
                }
            }
            apply = rest.unwrap_or_default();
        }
        postponed
    }

    /// Takes away what has not been declared for long enough; returns when more is due.
    async fn remove(
        &mut self,
        absent: Vec<Absent>,
        problems: &mut Vec<FileProblem>,
    ) -> Option<Instant> {
        let undeclared = match self.applier.fetch_undeclared(&absent).await {
            Ok(undeclared) => undeclared,
            Err(problem) => {
                problems.push(problem);
                return None;
            }
        };
        let (mut due, next) = self.leaving.due(absent, Instant::now());
        self.along.retain(|_, zone| undeclared.contains_key(zone));
        due.retain(|one| !self.along.contains_key(&one.key));
        let (zones, mut others): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|one| is_zone(&one.key));
        for zone in &zones {
            let removed = self.applier.keep_zone(zone, &undeclared).await;
            self.note(zone.key.clone(), removed, problems);
        }
        others.sort_by_key(|one| rank(&one.key));
        while let Some(first) = others.first().map(|one| rank(&one.key)) {
            let rest = others.split_off(others.partition_point(|one| rank(&one.key) == first));
            others.retain(|one| {
                let used = self.in_use(one);
                problems.extend(used.clone());
                used.is_none()
            });
            for (key, removed) in self.applier.remove(others, &undeclared).await {
                self.note(key, removed, problems);
            }
            others = rest;
        }
        next
    }

    /// Notes what became of an object that is no longer declared.
    fn note(&mut self, key: ObjectKey, removed: Removed, problems: &mut Vec<FileProblem>) {
        match removed {
            Removed::Done => {
                self.known.remove(&key);
            }
            Removed::Kept => {
                if let Some(origin) = self.known.get_mut(&key) {
                    origin.held = true;
                }
            }
            Removed::With(zone) => {
                self.along.insert(key, zone);
            }
            Removed::Refused(problem) => problems.push(problem),
        }
    }

    /// Why a namespace cannot go yet.
    fn in_use(&self, one: &Absent) -> Option<FileProblem> {
        let namespace = is_namespace(&one.key).then_some(&one.key.name)?;
        let mut inside = self.known.keys().filter(|key| key.namespace == *namespace);
        let first = inside.find(|key| !is_namespace(key))?;
        let text = format!(
            "{}: no file declares it any longer; it is kept because {first} of this folder is in it",
            one.key
        );
        Some(FileProblem::with_file(&one.origin.file, text))
    }

    /// Whether controllers of ours see to objects of this kind.
    fn is_published(&self, key: &ObjectKey) -> bool {
        self.kinds.contains(&(key.group.clone(), key.kind.clone()))
    }

    async fn tell(&mut self, problems: Vec<FileProblem>, scan: &Scan) {
        self.teller.write(&problems).await;
        let settled = !scan.is_restless() || self.started + SETTLE_MAX < Instant::now();
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
            let news = FolderReport {
                problems,
                mended,
                files,
                objects,
                published,
                settled: old.settled || settled,
            };
            let differs = *old != news;
            *old = news;
            differs
        });
    }
}
