//! Zones: made, listed, shown, changed, removed, and what `named` can do with one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use bindery_core::Name;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::App;
use super::body::read;
use super::failure::{NotDone, json};
use crate::content;
use crate::named::{Loaded, file_clause};
use crate::statement::{self, ZoneStatement};
use crate::status;
use crate::wire::{
    DnssecState, NamedStatus, NewZone, SigningKeyFiles, ZoneAnswer, ZoneNames, ZonePatch,
    ZoneStatusAnswer, ZoneSummary,
};

/// The word that takes a policy away.
const NO_POLICY: &str = "none";
/// The policy by which keys and signatures are taken out.
const INSECURE: &str = "insecure";

type Answer = Result<Response, NotDone>;

pub(super) async fn create(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Answer {
    let request: NewZone = read(&headers, &body)?;
    let zone = content::zone_name(&request.zone_name)?;
    let mut statement = ZoneStatement::default();
    let content = match request.zone_type.as_str() {
        "primary" => {
            statement.set("type", "primary");
            let records = content::records(&zone, &request.zone_config, app.today())?;
            Some(content::zone_file(&records))
        }
        "secondary" => {
            statement.set("type", "secondary");
            let primaries = request.zone_config.primaries.as_deref().unwrap_or_default();
            if primaries.is_empty() {
                let error = "invalid request: a secondary zone needs zoneConfig.primaries";
                return Err(NotDone::bad_request(error));
            }
            statement.set("primaries", statement::servers("primaries", primaries)?);
            None
        }
        other => {
            let error =
                format!("invalid request: zoneType {other:?} is neither primary nor secondary");
            return Err(NotDone::bad_request(error));
        }
    };
    statement.set("file", file_clause(app.named.folder(), &zone));
    extend(&mut statement, &request)?;
    app.named.write_zone(&zone, &statement, content).await?;
    let name = request.zone_name;
    Ok(done_with(
        StatusCode::CREATED,
        format!("Zone {name} created"),
        None,
    ))
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Answer {
    // A zone of which nothing lies in the folder may be known from elsewhere.
    let more = app.expectation.known().await;
    let zones: Vec<String> = app
        .named
        .fetch_zones(more)
        .await?
        .iter()
        .map(shown)
        .collect();
    app.metrics.set_managed(zones.len());
    let count = zones.len();
    Ok(json(StatusCode::OK, &ZoneNames { zones, count }))
}

pub(super) async fn get(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    let zone = content::zone_name(&name)?;
    let statement = app.named.fetch_statement(&zone).await?;
    let serial = match app.named.fetch_loaded(&zone).await? {
        Loaded::Yes(said) => status::serial(&said),
        Loaded::No => None,
    };
    let summary = ZoneSummary {
        name,
        zone_type: statement.value("type").unwrap_or_default().to_owned(),
        serial,
        file_path: statement.value("file").map(str::to_owned),
    };
    Ok(json(StatusCode::OK, &summary))
}

pub(super) async fn patch(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let zone = content::zone_name(&name)?;
    let patch: ZonePatch = read(&headers, &body)?;
    if patch == ZonePatch::default() {
        let error = "invalid request: nothing is to be changed";
        return Err(NotDone::bad_request(error));
    }
    let clauses = clauses(&patch)?;
    let policy = patch.dnssec_policy.as_deref();
    if policy.is_some_and(|policy| ![NO_POLICY, INSECURE].contains(&policy)) {
        app.named.take_signing_keys(&zone).await?;
    }
    if patch.dnssec_policy.as_deref() == Some(NO_POLICY) {
        app.check_unsigned(&zone).await?;
    }
    let change = move |statement: &mut ZoneStatement| {
        for (word, rest) in clauses {
            match rest {
                Some(rest) => statement.set(word, rest),
                None => statement.remove(word),
            }
        }
    };
    app.named.write_statement(&zone, change).await?;
    if patch.dnssec_policy.is_some() || patch.inline_signing.is_some() {
        app.named.send_reconfig(&zone).await?;
    }
    Ok(done(format!("Zone {name} modified"), None))
}

pub(super) async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    let zone = content::zone_name(&name)?;
    let said = app.named.remove_zone(&zone).await?;
    Ok(done(format!("Zone {name} deleted"), Some(said)))
}

pub(super) async fn status(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    let zone = content::zone_name(&name)?;
    let loaded = app.named.fetch_loaded(&zone).await?;
    // How it is signed is told beside; where that cannot be had, the rest counts all the same.
    let dnssec = app.fetch_dnssec(&zone).await.ok();
    let (details, serial) = match &loaded {
        Loaded::Yes(said) => (said.clone(), status::serial(said)),
        Loaded::No => ("zone not loaded".to_owned(), None),
    };
    let answer = ZoneStatusAnswer {
        success: true,
        message: format!("Status of zone {name}"),
        details: Some(details),
        dnssec,
        loaded: Some(matches!(loaded, Loaded::Yes(_))),
        serial,
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn reload(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    app.act(&name, ("reload", "reload"), "reloaded").await
}

pub(super) async fn freeze(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    app.act(&name, ("freeze", "freeze"), "frozen").await
}

pub(super) async fn thaw(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    app.act(&name, ("thaw", "thaw"), "thawed").await
}

pub(super) async fn notify(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    app.act(&name, ("notify", "send word of"), "told of").await
}

pub(super) async fn retransfer(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    app.act(&name, ("retransfer", "fetch"), "being fetched")
        .await
}

pub(super) async fn server_status(State(app): State<Arc<App>>) -> Answer {
    let status = app.named.fetch_status().await?;
    let answer = NamedStatus {
        status,
        keys: app.named.loaded_keys(),
        signing_keys: app.named.fetch_signing_digest().await?,
    };
    Ok(json(StatusCode::OK, &answer))
}

/// The keys that zones are signed with, for whoever keeps them.
pub(super) async fn signing_keys(State(app): State<Arc<App>>) -> Answer {
    let files = app.named.fetch_signing_keys().await?;
    Ok(json(StatusCode::OK, &SigningKeyFiles::new(&files)))
}

/// What was done.
pub(super) fn done(message: String, details: Option<String>) -> Response {
    done_with(StatusCode::OK, message, details)
}

fn done_with(code: StatusCode, message: String, details: Option<String>) -> Response {
    let details = details.filter(|details| !details.is_empty());
    let answer = ZoneAnswer {
        success: true,
        message,
        details,
    };
    json(code, &answer)
}

impl App {
    /// Has `named` do one thing with a zone.
    async fn act(
        &self,
        name: &str,
        (word, act): (&'static str, &'static str),
        done_as: &str,
    ) -> Answer {
        let zone = content::zone_name(name)?;
        let said = self.named.send(&zone, word, act).await?;
        Ok(done(format!("Zone {name} {done_as}"), Some(said)))
    }

    pub(super) async fn fetch_dnssec(&self, zone: &Name) -> Result<DnssecState, NotDone> {
        Ok(status::dnssec(&self.named.fetch_dnssec(zone).await?))
    }

    /// Whoever checks signatures would take the zone for forged, if it lost them while its parent tells of
    /// its keys.
    async fn check_unsigned(&self, zone: &Name) -> Result<(), NotDone> {
        let state = self.fetch_dnssec(zone).await?;
        let is_out =
            |state: &Option<String>| matches!(state.as_deref(), Some("rumoured" | "omnipresent"));
        if !state.keys.iter().any(|key| is_out(&key.dnskey_state)) {
            return Ok(());
        }
        let error = format!("zone {zone} still has keys that others know");
        let details = "set dnssecPolicy to insecure, have the parent withdraw the DS records and say so \
                       with dnssec/checkds; take the policy away when no key is left";
        Err(NotDone::new(StatusCode::CONFLICT, error).with_details(details))
    }
}

/// A zone's name as bindcar tells it: without the last dot.
fn shown(zone: &Name) -> String {
    zone.to_string().trim_end_matches('.').to_owned()
}

/// The clauses of a new zone that are not its kind.
fn extend(statement: &mut ZoneStatement, request: &NewZone) -> Result<(), NotDone> {
    let config = &request.zone_config;
    let is_primary = statement.get("type") == Some("primary");
    if let Some(key) = &request.update_key_name {
        let key = statement::word("updateKeyName", key)?;
        if is_primary {
            statement.set("allow-update", format!("{{ key \"{key}\"; }}"));
        }
    }
    let patch = ZonePatch {
        also_notify: config.also_notify.clone().filter(|list| !list.is_empty()),
        allow_transfer: config
            .allow_transfer
            .clone()
            .filter(|list| !list.is_empty()),
        dnssec_policy: config.dnssec_policy.clone().filter(|_| is_primary),
        inline_signing: config.inline_signing.filter(|_| is_primary),
        ..ZonePatch::default()
    };
    for (word, rest) in clauses(&patch)? {
        if let Some(rest) = rest {
            statement.set(word, rest);
        }
    }
    Ok(())
}

/// The clauses that a patch sets or, where there is nothing to set, takes out.
fn clauses(patch: &ZonePatch) -> Result<Vec<(&'static str, Option<String>)>, NotDone> {
    let mut clauses = Vec::new();
    if let Some(list) = &patch.also_notify {
        clauses.push(("also-notify", Some(statement::servers("alsoNotify", list)?)));
    }
    if let Some(list) = &patch.allow_transfer {
        let list = statement::clients("allowTransfer", list)?;
        clauses.push(("allow-transfer", Some(list)));
    }
    if let Some(list) = &patch.allow_update {
        // Where nobody is named, it is who the configuration of the server names.
        let list = (!list.is_empty()).then(|| statement::clients("allowUpdate", list));
        clauses.push(("allow-update", list.transpose()?));
    }
    if let Some(list) = &patch.primaries {
        if list.is_empty() {
            let error = "invalid request: primaries must not be empty";
            return Err(NotDone::bad_request(error));
        }
        clauses.push(("primaries", Some(statement::servers("primaries", list)?)));
    }
    match patch.dnssec_policy.as_deref() {
        None => {}
        Some(NO_POLICY) => clauses.extend([("dnssec-policy", None), ("inline-signing", None)]),
        Some(policy) => {
            let policy = statement::word("dnssecPolicy", policy)?;
            clauses.push(("dnssec-policy", Some(format!("\"{policy}\""))));
        }
    }
    if let Some(inline) = patch.inline_signing {
        let word = if inline { "yes" } else { "no" };
        clauses.push(("inline-signing", Some(word.to_owned())));
    }
    Ok(clauses)
}
