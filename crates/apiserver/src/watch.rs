//! Watches: every change of a resource, in order, from a given version on.
//!
//! A watcher keeps no queue. It holds a position in the resource's history and reads on from there when
//! it is woken, so a slow reader costs nothing; once the history has moved past its position the watch
//! ends with 410 Gone and the client lists again. It never skips.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::Core;
use super::body::ApiBody;
use super::failure::{Failure, Fault, Subject};
use super::kinds::Kind;
use super::object::Stored;
use super::present::{self, View};
use super::read::{too_old, version};
use super::request::Form;
use super::selector::Selector;
use super::service::{Call, Reply};
use super::store::{Change, Event, Listener, watch_line};
use crate::table::RowObject;

/// Events read from the history at a time, so that the store's lock is held briefly.
const BATCH_LEN: usize = 256;
/// How often a quiet watch tells its client how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long before its end a short watch tells how far it is.
const BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// How long a watch lasts that does not say itself; the real server picks 30 to 60 minutes.
const TIMEOUT: Duration = Duration::from_mins(45);

struct Watcher {
    core: Arc<Core>,
    kind: Arc<Kind>,
    namespace: Option<Arc<str>>,
    selector: Selector,
    form: Form,
    row_object: RowObject,
    bookmarks: bool,
    /// Everything up to here was sent or does not concern this watch.
    position: u64,
    lines: VecDeque<Bytes>,
    /// Objects that are still to be sent as if they had just been added.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// Whether the end of those is marked.
    end_mark: bool,
    changed: Listener,
    deadline: Instant,
    next_bookmark: Instant,
    ended: bool,
}

impl Core {
    pub(crate) fn watch(self: &Arc<Self>, call: &Call) -> Result<Reply, Failure> {
        let query = &call.query;
        let kind = &call.target.kind;
        let name = call
            .target
            .name
            .as_ref()
            .map(|name| format!("metadata.name={name}"));
        let fields = name.as_deref().or_else(|| query.get("fieldSelector"));
        let selector = Selector::parse(kind, query.get("labelSelector"), fields)?;
        let asked = version(query)?;
        let initial = initial_events(query)?;
        if let Some(asked) = asked {
            self.check_reached(asked)?;
        }
        let timeout = query
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok());
        let timeout = timeout.map_or(TIMEOUT, Duration::from_secs);
        let now = Instant::now();
        let mut watcher = Watcher {
            core: Arc::clone(self),
            kind: Arc::clone(kind),
            namespace: call.target.namespace.clone(),
            selector,
            form: call.form,
            row_object: present::row_object(query),
            bookmarks: query.is_true("allowWatchBookmarks"),
            position: 0,
            lines: VecDeque::new(),
            initial: Vec::new().into_iter(),
            end_mark: false,
            changed: self.store.subscribe(&kind.resource),
            deadline: now + timeout,
            next_bookmark: first_bookmark(now, timeout),
            ended: false,
        };
        let from_state = matches!(asked, None | Some(0));
        match (initial, from_state, asked) {
            (Some(true), _, _) | (None, true, _) => watcher.begin_with_state(initial == Some(true)),
            (Some(false), true, _) | (_, _, None) => watcher.position = self.store.version(),
            (_, false, Some(asked)) => watcher.position = asked,
        }
        let lines = stream::unfold(watcher, |mut watcher| async move {
            let line = watcher.next_line().await?;
            Some((line, watcher))
        });
        Ok(Reply::new(StatusCode::OK, ApiBody::lines(lines)))
    }
}

impl Watcher {
    /// Sends every object as if it had just been added.
    fn begin_with_state(&mut self, end_mark: bool) {
        let (listed, version) = self
            .core
            .store
            .list(&self.kind.resource, self.namespace.as_deref());
        self.initial = listed.into_iter();
        self.position = version;
        self.end_mark = end_mark && self.bookmarks;
    }

    /// The next line of the state that the watch began with. Lines are made as they are read.
    fn initial_line(&mut self) -> Option<Bytes> {
        let selector = &self.selector;
        if let Some(stored) = self.initial.find(|stored| selector.matches(stored)) {
            return Some(watch_line("ADDED", &self.bytes(&stored)));
        }
        std::mem::take(&mut self.end_mark)
            .then(|| self.bookmark(&json!({"k8s.io/initial-events-end": "true"})))
    }

    /// The next line to send, `None` once the watch is over.
    ///
    /// # Cancellation
    /// Nothing is lost if this is dropped: the position moves only with the lines kept.
    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if let Some(line) = self.initial_line() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.changed.forget();
            self.read_on();
            if !self.lines.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                is_there = self.changed.heard() => self.ended = !is_there,
                () = sleep_until(self.deadline) => self.ended = true,
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    let line = self.bookmark(&Value::Null);
                    self.lines.push_back(line);
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                }
            }
        }
    }

    /// Turns the events since the last time into lines.
    fn read_on(&mut self) {
        loop {
            match self
                .core
                .store
                .events_after(&self.kind.resource, self.position, BATCH_LEN)
            {
                Ok((events, reached)) => {
                    for event in &events {
                        self.position = event.after.version;
                        if let Some(line) = self.line(event) {
                            self.lines.push_back(line);
                        }
                    }
                    if let Some(reached) = reached {
                        self.position = reached;
                        return;
                    }
                    if !self.lines.is_empty() {
                        return;
                    }
                }
                Err(expired) => {
                    let failure = too_old(self.position, expired.oldest);
                    let status = failure.to_status().to_string();
                    self.lines.push_back(watch_line("ERROR", status.as_bytes()));
                    self.ended = true;
                    return;
                }
            }
        }
    }

    /// The event as this watch's selector sees it: an object that leaves the selection is deleted, one
    /// that enters it is added.
    fn line(&self, event: &Event) -> Option<Bytes> {
        if self
            .namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != event.after.id.namespace)
        {
            return None;
        }
        if self.selector.is_empty() {
            return Some(watch_line(event.change.as_str(), &self.bytes(&event.after)));
        }
        let before = event
            .before
            .as_ref()
            .is_some_and(|before| self.selector.matches(before));
        let after = event.change != Change::Deleted && self.selector.matches(&event.after);
        let word = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        if let (Some(last), "DELETED") = (&event.before, word) {
            // It is shown as it was when it still matched, under the version of the change.
            let mut value = last.value();
            value["metadata"]["resourceVersion"] = json!(event.after.version.to_string());
            let last = Stored::new(Arc::clone(&last.id), event.after.version, &value);
            return Some(watch_line(word, &self.bytes(&last)));
        }
        Some(watch_line(word, &self.bytes(&event.after)))
    }

    fn bytes(&self, stored: &Stored) -> Bytes {
        let now = self.core.environment.now();
        let view = View {
            kind: &self.kind,
            form: self.form,
            row_object: self.row_object,
            now,
        };
        view.bytes(stored)
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let version = self.position.to_string();
        let mut object = json!({
            "kind": &*self.kind.kind, "apiVersion": &*self.kind.api_version,
            "metadata": {"resourceVersion": version},
        });
        if self.form == Form::Metadata {
            object["kind"] = json!("PartialObjectMetadata");
            object["apiVersion"] = json!("meta.k8s.io/v1");
        }
        if !annotations.is_null() {
            object["metadata"]["annotations"] = annotations.clone();
        }
        watch_line("BOOKMARK", object.to_string().as_bytes())
    }
}

/// A watch that ends before the usual interval is over gets its bookmark shortly before the end.
fn first_bookmark(now: Instant, timeout: Duration) -> Instant {
    match timeout.checked_sub(BOOKMARK_LEAD) {
        Some(before_end) if !before_end.is_zero() => now + before_end.min(BOOKMARK_INTERVAL),
        Some(_) | None => now + BOOKMARK_INTERVAL,
    }
}

/// Whether the client asked for the state first, and whether it may.
fn initial_events(query: &super::request::Query) -> Result<Option<bool>, Failure> {
    let subject = Subject {
        group: "meta.k8s.io",
        plural: "",
        kind: "ListOptions",
    };
    let refused = |field: &str, why: &str| {
        Err(Failure::invalid(
            subject,
            "",
            &[Fault::forbidden(field, why)],
        ))
    };
    let matching = query.get("resourceVersionMatch");
    let Some(asked) = query.get("sendInitialEvents") else {
        if matching.is_some() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return refused("resourceVersionMatch", why);
        }
        return Ok(None);
    };
    if matching != Some("NotOlderThan") {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return refused("resourceVersionMatch", why);
    }
    Ok(Some(matches!(asked, "true" | "1")))
}
