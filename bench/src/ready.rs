//! Waiting until zones are served and objects say Ready.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_dns::Server;
use bindery_engine::ports::NameServer as _;
use serde_json::Value;
use tokio::time::sleep;

use crate::http::Http;
use crate::objects;

/// How long all of it may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many of the last objects are asked for one by one before all are listed, which is dear.
const LAST: usize = 64;
/// How often one object or one zone is looked at, and how often all objects at most.
const POLL_ONE: Duration = Duration::from_millis(5);
const POLL_ALL: Duration = Duration::from_millis(50);

/// Objects that are waited for.
pub(crate) struct Awaited<'a> {
    /// Where their kind is listed.
    pub(crate) path: &'static str,
    /// Chooses them, and perhaps others, by their labels.
    pub(crate) selector: &'a str,
    /// Their names, in the order of their creation.
    pub(crate) names: Vec<String>,
}

/// Waits until every one says Ready: cheaply by the last ones, then by a list of all.
pub(crate) async fn wait_until_ready(api: SocketAddr, awaited: &Awaited<'_>) -> Result<Instant> {
    let Awaited {
        path,
        selector,
        names,
    } = awaited;
    let mut http = Http::connect(api).await?;
    let deadline = Instant::now() + PATIENCE;
    for name in &names[names.len().saturating_sub(LAST)..] {
        let one = format!("{path}/{name}");
        while !objects::is_ready(&json(&http.get(&one).await?)?) && Instant::now() < deadline {
            sleep(POLL_ONE).await;
        }
    }
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let is_done = |item: &&Value| {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        wanted.contains(name) && objects::is_ready(item)
    };
    let all = format!("{path}?labelSelector={}", selector.replace('=', "%3D"));
    while Instant::now() < deadline {
        let begin = Instant::now();
        let bytes = http.get(&all).await?;
        let at = Instant::now();
        let list = json(&bytes)?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        if items.iter().filter(is_done).count() == names.len() {
            return Ok(at);
        }
        // A long list is dear for who makes it, so it is asked for less often.
        sleep(begin.elapsed().max(POLL_ALL)).await;
    }
    bail!(
        "not all of {} objects are Ready after {PATIENCE:?}",
        names.len()
    )
}

/// Waits until every server has every zone; asks in the order of their creation.
pub(crate) async fn wait_until_served(servers: &[Server], labels: &[String]) -> Result<Instant> {
    let deadline = Instant::now() + PATIENCE;
    for label in labels {
        let apex = objects::apex(label)?;
        for server in servers {
            while server.serial(&apex).await.is_err() {
                if Instant::now() > deadline {
                    bail!("zone {apex} is not served after {PATIENCE:?}");
                }
                sleep(POLL_ONE).await;
            }
        }
    }
    Ok(Instant::now())
}

/// A body as JSON.
pub(crate) fn json(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).context("the answer is no JSON")
}
