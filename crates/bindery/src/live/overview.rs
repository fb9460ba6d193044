//! Watches all zones, records and endpoints and shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use bindery_core::Kind;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::frame::{Canvas, Paint, frame};
use super::row::{ObjectRow, RowKey, ShownObject};
use crate::folder::{FileProblem, FolderReport};
use crate::out;

/// How often the view is drawn at most. Ten times a second looks live and costs little.
const REDRAW: Duration = Duration::from_millis(100);
/// How often the size of the terminal is looked at.
const RESIZE: Duration = Duration::from_secs(1);

/// How the view is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Redrawn in place on a terminal.
    Drawn,
    /// One line per change.
    Lines,
}

/// The view and what it shows.
pub(crate) struct Overview {
    style: Style,
    news: watch::Receiver<FolderReport>,
    rows: Rows,
    /// Objects of the list that is coming in, each as a number.
    seen: BTreeMap<Kind, BTreeSet<u64>>,
    told: Vec<FileProblem>,
    canvas: Canvas,
}

/// What is kept of each object: of a hundred thousand, the texts would be felt.
enum Rows {
    /// What is drawn.
    Drawn(BTreeMap<RowKey, ObjectRow>),
    /// What was said last, as a number.
    Lines(BTreeMap<RowKey, u64>),
}

type Events = SelectAll<BoxStream<'static, (Kind, watcher::Event<ShownObject>)>>;

impl Overview {
    /// A view of the folder's news and the API's objects.
    pub(crate) fn new(style: Style, news: watch::Receiver<FolderReport>) -> Self {
        Self {
            style,
            news,
            rows: match style {
                Style::Drawn => Rows::Drawn(BTreeMap::new()),
                Style::Lines => Rows::Lines(BTreeMap::new()),
            },
            seen: BTreeMap::new(),
            told: Vec::new(),
            canvas: canvas(),
        }
    }

    /// Shows everything as it changes, until `stop`.
    pub(crate) async fn run(mut self, client: Client, stop: CancellationToken) {
        let mut events = watch_all(&client);
        let mut dirty = true;
        let mut drawn = Instant::now();
        loop {
            let redraw = drawn + if dirty { REDRAW } else { RESIZE };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep_until(redraw), if self.style == Style::Drawn => {
                    self.draw();
                    drawn = Instant::now();
                    dirty = false;
                }
                Ok(()) = self.news.changed() => {
                    dirty = true;
                    self.tell_problems();
                }
                Some((kind, event)) = events.next() => {
                    dirty = true;
                    self.take(kind, event);
                }
            }
        }
        if self.style == Style::Drawn {
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.canvas = canvas();
        let news = self.news.borrow_and_update().clone();
        if let Rows::Drawn(rows) = &self.rows {
            out::show(frame(rows, &news, self.canvas));
        }
    }

    fn take(&mut self, kind: Kind, event: watcher::Event<ShownObject>) {
        match event {
            watcher::Event::Init => {
                self.seen.insert(kind, BTreeSet::new());
            }
            watcher::Event::InitApply(object) => {
                let key = self.put(kind, &object);
                self.seen
                    .entry(kind)
                    .or_default()
                    .insert(number(&key.text()));
            }
            watcher::Event::InitDone => {
                let seen = self.seen.remove(&kind).unwrap_or_default();
                for key in &self.rows.gone(kind, &seen) {
                    self.remove(key);
                }
            }
            watcher::Event::Apply(object) => {
                self.put(kind, &object);
            }
            watcher::Event::Delete(object) => self.remove(&RowKey::new(kind, &object)),
        }
    }

    fn put(&mut self, kind: Kind, object: &ShownObject) -> RowKey {
        let key = RowKey::new(kind, object);
        let row = ObjectRow::new(key.role, object);
        match &mut self.rows {
            Rows::Drawn(rows) => {
                rows.insert(key.clone(), row);
            }
            Rows::Lines(said) => {
                let text = format!("{} {} {}", key.text(), row.word, row.detail);
                let text = text.trim_end();
                let digest = number(text);
                if said.get(&key) != Some(&digest) {
                    out::say(text);
                    said.insert(key.clone(), digest);
                }
            }
        }
        key
    }

    fn remove(&mut self, key: &RowKey) {
        match &mut self.rows {
            Rows::Drawn(rows) => {
                rows.remove(key);
            }
            Rows::Lines(said) => {
                if said.remove(key).is_some() {
                    out::say(&format!("{} Deleted", key.text()));
                }
            }
        }
    }

    /// Tells each problem once, and which files are sound again.
    fn tell_problems(&mut self) {
        let FolderReport {
            problems, mended, ..
        } = self.news.borrow_and_update().clone();
        if self.style == Style::Lines {
            for problem in problems
                .iter()
                .filter(|problem| !self.told.contains(problem))
            {
                out::complain(&format!("bindery: {problem}"));
            }
            for file in mended {
                out::complain(&format!("bindery: {file} is fine now"));
            }
        }
        self.told = problems;
    }
}

impl Rows {
    /// The objects of a kind that are not in a list of all of them.
    fn gone(&self, kind: Kind, seen: &BTreeSet<u64>) -> Vec<RowKey> {
        let is_gone = |key: &&RowKey| key.kind == kind && !seen.contains(&number(&key.text()));
        match self {
            Self::Drawn(rows) => rows.keys().filter(is_gone).cloned().collect(),
            Self::Lines(said) => said.keys().filter(is_gone).cloned().collect(),
        }
    }
}

/// A number for a text that is compared and not shown.
fn number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Events of all kinds of ours, with the kind.
fn watch_all(client: &Client) -> Events {
    let streams = bindery_api::KINDS.iter().map(|row| {
        let (kind, word) = (row.kind, row.kind.as_str());
        let api: Api<ShownObject> = Api::all_with(client.clone(), &(row.resource)());
        watcher(api, watcher::Config::default())
            .default_backoff()
            .inspect_err(
                move |error| tracing::debug!(%error, kind = word, "the view lost its watch"),
            )
            .filter_map(async |event| event.ok())
            .map(move |event| (kind, event))
            .boxed()
    });
    streams.collect()
}

/// How the objects of a definition are reached.
pub(crate) fn resource(crd: &CustomResourceDefinition) -> ApiResource {
    let version = crd
        .spec
        .versions
        .first()
        .map(|version| version.name.as_str());
    let kind = GroupVersionKind::gvk(
        &crd.spec.group,
        version.unwrap_or_default(),
        &crd.spec.names.kind,
    );
    ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural)
}

fn canvas() -> Canvas {
    let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(width, height)| {
        (usize::from(width.0), usize::from(height.0))
    });
    Canvas {
        width,
        height,
        paint: Paint::of_terminal(),
    }
}
