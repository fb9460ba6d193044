//! Watches all zones, records and endpoints and shows them.

use std::collections::{BTreeMap, BTreeSet};
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
    rows: BTreeMap<RowKey, ObjectRow>,
    /// Objects of the list that is coming in.
    seen: BTreeMap<Kind, BTreeSet<RowKey>>,
    told: Vec<FileProblem>,
    canvas: Canvas,
}

type Events = SelectAll<BoxStream<'static, (Kind, watcher::Event<ShownObject>)>>;

impl Overview {
    /// A view of the folder's news and the API's objects.
    pub(crate) fn new(style: Style, news: watch::Receiver<FolderReport>) -> Self {
        Self {
            style,
            news,
            rows: BTreeMap::new(),
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
        out::show(frame(&self.rows, &news, self.canvas));
    }

    fn take(&mut self, kind: Kind, event: watcher::Event<ShownObject>) {
        match event {
            watcher::Event::Init => {
                self.seen.insert(kind, BTreeSet::new());
            }
            watcher::Event::InitApply(object) => {
                let key = self.put(kind, &object);
                self.seen.entry(kind).or_default().insert(key);
            }
            watcher::Event::InitDone => {
                let seen = self.seen.remove(&kind).unwrap_or_default();
                let lower = kind.as_str().to_lowercase();
                let gone: Vec<RowKey> = self
                    .rows
                    .keys()
                    .filter(|key| key.kind == lower && !seen.contains(*key))
                    .cloned()
                    .collect();
                for key in &gone {
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
        let before = self.rows.get(&key);
        if before != Some(&row) {
            let shown = |row: &ObjectRow| format!("{} {} {}", key.text(), row.word, row.detail);
            if self.style == Style::Lines && before.map(shown) != Some(shown(&row)) {
                out::say(shown(&row).trim_end());
            }
            self.rows.insert(key.clone(), row);
        }
        key
    }

    fn remove(&mut self, key: &RowKey) {
        if self.rows.remove(key).is_some() && self.style == Style::Lines {
            out::say(&format!("{} Deleted", key.text()));
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
