//! Many objects written over HTTP by a number of writers, each with its own kept connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::http::Http;

/// Creates objects at `path` of an API and says how long that took, until the last answer.
pub(crate) async fn create(
    api: SocketAddr,
    writers: usize,
    path: &'static str,
    objects: Vec<Value>,
) -> Result<Duration> {
    let objects = Arc::new(objects);
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::with_capacity(writers);
    for _ in 0..writers {
        connections.push(Http::connect(api).await?);
    }
    let begin = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut http| {
            let (objects, next) = (Arc::clone(&objects), Arc::clone(&next));
            tokio::spawn(async move {
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    http.create(path, object).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.context("a writer fell")??;
    }
    Ok(begin.elapsed())
}
