//! The serve gate: the server may be asked once it has every zone that it should have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bindery_core::Name;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::App;
use super::body::read;
use super::failure::{NotDone, json};
use crate::expected::{self, ExpectedZone, ExpectedZones, Expecting, Found, Targets};
use crate::status;
use crate::wire::{HealthAnswer, ReadyAnswer, ZoneAnswer};

/// How long an answer counts: whoever asks again within it costs nothing.
const FRESH_FOR: Duration = Duration::from_millis(100);
/// Questions for serials under way at a time.
const QUESTIONS_MAX: usize = 64;

/// The last answer and when it was found.
#[derive(Default)]
pub(super) struct LastReadiness(Mutex<Option<(Instant, ReadyAnswer)>>);

pub(super) async fn health() -> Response {
    let answer = HealthAnswer {
        status: "healthy".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    json(StatusCode::OK, &answer)
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let answer = app.readiness().await;
    let code = if answer.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(code, &answer)
}

pub(super) async fn expected(State(app): State<Arc<App>>) -> Result<Response, NotDone> {
    let started = app.fetch_started().await;
    let code = StatusCode::NOT_FOUND;
    let unknown = NotDone::new(code, "the expected zones are not known");
    if app.expectation.is_untold(started.as_deref()).await {
        return Err(unknown.with_details("nobody has told them since named started"));
    }
    let zones = match app.expectation.fetch(started.as_deref()).await {
        Expecting::Zones(targets) => targets,
        Expecting::Nothing => Targets::new(),
        Expecting::Unknown(why) => return Err(unknown.with_details(why)),
    };
    let zones = zones.into_iter().map(|(name, serial)| ExpectedZone {
        name: name.to_string(),
        serial: serial.map(|serial| serial.0),
    });
    let zones = zones.collect();
    Ok(json(StatusCode::OK, &ExpectedZones { zones }))
}

pub(super) async fn put_expected(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, NotDone> {
    let list: ExpectedZones = read(&headers, &body)?;
    let targets = expected::targets(&list).map_err(NotDone::bad_request)?;
    let count = targets.len();
    let started = app.fetch_started().await;
    let written = app.expectation.write(list, targets, started).await;
    written.map_err(|error| {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        NotDone::new(code, "the list cannot be kept").with_details(error.to_string())
    })?;
    *app.last_readiness.0.lock().await = None;
    let answer = ZoneAnswer {
        success: true,
        message: format!("{count} zones are expected"),
        details: None,
    };
    Ok(json(StatusCode::OK, &answer))
}

impl App {
    /// Whether the server may be asked, as of a moment ago.
    async fn readiness(&self) -> ReadyAnswer {
        // Held while it is found out: many who ask at once are told the same.
        let mut last = self.last_readiness.0.lock().await;
        if let Some((since, answer)) = &*last
            && since.elapsed() < FRESH_FOR
        {
            return answer.clone();
        }
        let answer = self.fetch_readiness().await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// When `named` started; nothing where it does not answer.
    async fn fetch_started(&self) -> Option<String> {
        let text = self.named.fetch_status().await.ok()?;
        status::started(&text).map(str::to_owned)
    }

    async fn fetch_readiness(&self) -> ReadyAnswer {
        let folder = match tokio::fs::metadata(self.named.folder()).await {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err("it is no folder".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let (rndc, started) = match self.named.fetch_status().await {
            Ok(text) => (Ok(()), status::started(&text).map(str::to_owned)),
            Err(fault) => (Err(NotDone::from(fault).details.unwrap_or_default()), None),
        };
        let mut checks = vec![("zone_dir", folder), ("rndc", rndc)];
        let mut count = 0;
        match self.expectation.fetch(started.as_deref()).await {
            Expecting::Nothing => {}
            Expecting::Unknown(why) => checks.push(("zones", Err(why))),
            Expecting::Zones(targets) => {
                count = targets.len();
                checks.push(("zones", self.fetch_lacking(&targets).await));
            }
        }
        let is_ready = checks.iter().all(|(_, found)| found.is_ok());
        self.metrics.set_readiness(is_ready, count);
        let shown = checks.into_iter().map(|(name, found)| match found {
            Ok(()) => format!("{name}: ok"),
            Err(why) => format!("{name}: error: {why}"),
        });
        ReadyAnswer {
            ready: is_ready,
            checks: shown.collect(),
        }
    }

    /// What the server lacks.
    async fn fetch_lacking(&self, targets: &Targets) -> Result<(), String> {
        let look = |zone: Name| async move {
            let found = match self.named.fetch_serial(&zone).await {
                Ok(serial) => Found::Served(serial),
                // Whatever it says instead, it does not serve the zone.
                Err(_) => Found::Missing,
            };
            (zone, found)
        };
        let found: BTreeMap<Name, Found> = futures::stream::iter(targets.keys().cloned())
            .map(look)
            .buffer_unordered(QUESTIONS_MAX)
            .collect()
            .await;
        expected::lacks(targets, &found).map_or(Ok(()), Err)
    }
}
