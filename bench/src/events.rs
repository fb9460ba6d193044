//! Single writes on a full server: how long until the name resolves, and until the status says so.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::figures::{Spread, Times};
use crate::http::Watch;
use crate::objects::{self, RECORDS};
use crate::resolver::Resolvers;
use crate::subject::Subject;

/// How long one status may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(1);

/// The times of all events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// The write itself, until the API acknowledged it.
    pub(crate) write: Times,
    /// From the acknowledgement until queries get the new answer.
    pub(crate) resolvable: Spread,
    /// From the acknowledgement until a watch shows Ready for this generation.
    pub(crate) ready: Times,
}

/// Creates and edits records one at a time, in turns; `part` is their label and begins their names.
pub(crate) async fn measure(
    subject: &Subject,
    zone: &str,
    part: &str,
    count: usize,
) -> Result<Events> {
    let mut http = subject.connect().await?;
    let target = format!("{RECORDS}?watch=1&labelSelector=part%3D{part}");
    let watch = subject.connect().await?.watch(&target).await?;
    let (sender, mut statuses) = mpsc::unbounded_channel();
    let watching = tokio::spawn(forward_ready(watch, sender));
    let mut resolver = Resolvers::new(subject.addresses())?;
    let mut events = Events::default();
    for number in 0..count {
        let name = format!("{part}-{}", number / 2);
        let address = objects::address(number);
        let begin = Instant::now();
        let answer = if number % 2 == 0 {
            let record = objects::record(zone, &name, part, address);
            http.create(RECORDS, &record).await?
        } else {
            let patch = json!({"spec": {"ipv4Addresses": [address.to_string()]}});
            http.patch(
                &format!("{RECORDS}/{}", objects::object(zone, &name)),
                &patch,
            )
            .await?
        };
        let acknowledged = Instant::now();
        events.write.push(acknowledged - begin);
        let host = objects::host(zone, &name)?;
        let resolving = spawn_blocking(move || {
            let seen = resolver.wait_for(&host, address);
            (resolver, seen)
        });
        let object: Value = serde_json::from_slice(&answer).context("the answer is no JSON")?;
        let wanted = (
            objects::object(zone, &name),
            object["metadata"]["generation"].as_i64(),
        );
        let ready = wait_for_status(&mut statuses, &wanted).await?;
        let (back, seen) = resolving.await.context("the resolver fell")?;
        resolver = back;
        let seen = seen?;
        let since = |at: Instant| at.saturating_duration_since(acknowledged);
        events.resolvable.first.push(since(seen.first));
        events.resolvable.all.push(since(seen.all));
        events.ready.push(since(ready));
    }
    watching.abort();
    Ok(events)
}

/// An object by name and generation, and when it was seen ready.
type Status = ((String, Option<i64>), Instant);

async fn wait_for_status(
    statuses: &mut mpsc::UnboundedReceiver<Status>,
    wanted: &(String, Option<i64>),
) -> Result<Instant> {
    let found = async {
        loop {
            let (seen, at) = statuses.recv().await.context("the watch ended")?;
            if seen == *wanted {
                return anyhow::Ok(at);
            }
        }
    };
    timeout(PATIENCE, found)
        .await
        .with_context(|| format!("{} is not ready after {PATIENCE:?}", wanted.0))?
}

/// Passes on every object that a watch shows ready, until the watch ends.
async fn forward_ready(mut watch: Watch, sender: mpsc::UnboundedSender<Status>) -> Result<()> {
    loop {
        let event = watch.next().await?;
        let at = Instant::now();
        let object = &event["object"];
        if objects::is_ready(object) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let generation = object["metadata"]["generation"].as_i64();
            if sender.send(((name.to_owned(), generation), at)).is_err() {
                return Ok(());
            }
        }
    }
}
