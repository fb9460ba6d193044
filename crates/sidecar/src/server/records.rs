//! Records of a zone, and what a signed zone's parent is to know.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use bindery_core::{Change, Expect, RecordKey, RecordType};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json as object;

use super::App;
use super::body::read;
use super::failure::{NotDone, json};
use super::zones::done;
use crate::content::{self, Written};
use crate::status;
use crate::wire::{AddedRecord, DsAnswer, DsSeen, RecordAnswer, RemovedRecord, ReplacedRecord};

/// The number of the type DNSKEY (RFC 4034 section 2).
const DNSKEY: u16 = 48;

type Answer = Result<Response, NotDone>;

pub(super) async fn add(
    State(app): State<Arc<App>>,
    Path(zone): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let name = content::zone_name(&zone)?;
    let record: AddedRecord = read(&headers, &body)?;
    let data = content::data(Written {
        rtype: &record.rtype,
        value: &record.value,
        priority: record.priority,
    })?;
    let change = Change {
        key: RecordKey::new(content::owner(&name, &record.name)?, data.rtype()),
        expect: Expect::Anything,
        remove: Vec::new(),
        add: vec![data],
        ttl: content::checked_ttl(&record.name, record.ttl)?,
    };
    app.named.write_records(&name, change).await?;
    let details = object!({
        "name": record.name, "type": record.rtype, "value": record.value, "ttl": record.ttl,
    });
    let message = format!("Record added to zone {zone}");
    Ok(told(StatusCode::CREATED, message, details))
}

pub(super) async fn replace(
    State(app): State<Arc<App>>,
    Path(zone): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let name = content::zone_name(&zone)?;
    let record: ReplacedRecord = read(&headers, &body)?;
    let data = |value| {
        content::data(Written {
            rtype: &record.rtype,
            value,
            priority: record.priority,
        })
    };
    let (current, new) = (data(&record.current_value)?, data(&record.new_value)?);
    // What is added is not removed before: a new TTL alone leaves the record where it is.
    let remove = if current == new {
        vec![]
    } else {
        vec![current]
    };
    let change = Change {
        key: RecordKey::new(content::owner(&name, &record.name)?, new.rtype()),
        expect: Expect::Anything,
        remove,
        add: vec![new],
        ttl: content::checked_ttl(&record.name, record.ttl)?,
    };
    app.named.write_records(&name, change).await?;
    let details = object!({
        "name": record.name, "type": record.rtype, "oldValue": record.current_value,
        "newValue": record.new_value, "ttl": record.ttl,
    });
    let message = format!("Record updated in zone {zone}");
    Ok(told(StatusCode::OK, message, details))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Path(zone): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let name = content::zone_name(&zone)?;
    let record: RemovedRecord = read(&headers, &body)?;
    let key = RecordKey::new(
        content::owner(&name, &record.name)?,
        content::rtype(&record.rtype)?,
    );
    let (expect, remove) = if let Some(value) = &record.value {
        let data = content::data(Written {
            rtype: &record.rtype,
            value,
            priority: None,
        })?;
        (Expect::Anything, vec![data])
    } else {
        // Exactly what stands there goes, so that nothing goes that came in between.
        let standing = app.named.fetch_set(&name, &key).await?;
        let standing = standing.map_or_else(Vec::new, |set| set.data().to_vec());
        (Expect::Exactly(standing.clone()), standing)
    };
    let change = Change {
        key,
        expect,
        remove,
        add: Vec::new(),
        ttl: 0,
    };
    app.named.write_records(&name, change).await?;
    let details = object!({"name": record.name, "type": record.rtype, "value": record.value});
    let message = format!("Record removed from zone {zone}");
    Ok(told(StatusCode::OK, message, details))
}

pub(super) async fn ds(State(app): State<Arc<App>>, Path(zone): Path<String>) -> Answer {
    let name = content::zone_name(&zone)?;
    app.named.fetch_statement(&name).await?;
    let key = RecordKey::new(name.clone(), RecordType::from_code(DNSKEY));
    let keys = app.named.fetch_set(&name, &key).await?;
    let ds_records = keys.map_or_else(Vec::new, |keys| status::digests(&name, &keys));
    if ds_records.is_empty() {
        let error =
            format!("zone {zone} has no key that its parent could tell of: it is not signed");
        return Err(NotDone::new(StatusCode::NOT_FOUND, error));
    }
    let answer = DsAnswer {
        success: true,
        zone,
        ds_records,
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn check_ds(
    State(app): State<Arc<App>>,
    Path(zone): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let name = content::zone_name(&zone)?;
    let DsSeen { key_tag, ds } = read(&headers, &body)?;
    let word = format!("dnssec -checkds -key {key_tag} {}", ds.as_str());
    let said = app.named.send(&name, &word, "note the DS of").await?;
    // It says so in the text of a success.
    if said.contains("no matching key") {
        let error = format!("zone {zone} has no key {key_tag}");
        return Err(NotDone::new(StatusCode::NOT_FOUND, error).with_details(said));
    }
    let message = format!("DS of key {key_tag} of zone {zone} is {}", ds.as_str());
    Ok(done(message, Some(said)))
}

fn told(code: StatusCode, message: String, details: serde_json::Value) -> Response {
    let answer = RecordAnswer {
        success: true,
        message,
        details: Some(details),
    };
    json(code, &answer)
}
