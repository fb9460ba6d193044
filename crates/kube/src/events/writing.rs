//! The one task that writes Events, at its own pace.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::backoff::jitter_seed;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::QueuedEvent;
use crate::cluster::{Class, Error, event_namespace};
use crate::context::Context;
use crate::metrics::count;

/// Events written in one second, over all objects. An Event costs one to three requests, so this is
/// at most 60 a second, a few percent of what the statuses of a busy zone cost.
const EVENTS_PER_SECOND_MAX: u32 = 20;

/// How often an Event is tried before it is dropped.
const ATTEMPTS_MAX: u32 = 2;

/// Bytes of a message; `events.k8s.io` allows as many.
const MESSAGE_LEN_MAX: usize = 1024;

/// Bytes of an object's name in the name of its Event: with a dot and a number of 16 digits it stays
/// within the 253 that a name may have.
const NAME_LEN_MAX: usize = 236;

/// Who speaks, as `kubectl describe` shows it.
const COMPONENT: &str = "bindery";

/// Writes Events until `stop`. What waits then is not written any more.
///
/// Cancellation: the Event on its way is written or not.
pub(crate) async fn write_events(ctx: Arc<Context>, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = write_all(&ctx) => {}
    }
}

async fn write_all(ctx: &Context) {
    let (mut second, mut written) = (Instant::now(), 0);
    let mut works = true;
    loop {
        let queued = ctx.events.pop().await;
        if second.elapsed() >= Duration::from_secs(1) {
            (second, written) = (Instant::now(), 0);
        }
        if written >= EVENTS_PER_SECOND_MAX {
            tokio::time::sleep_until(second + Duration::from_secs(1)).await;
            (second, written) = (Instant::now(), 0);
        }
        written += 1;
        match write_with_retries(ctx, &queued).await {
            Ok(()) => {
                count(&ctx.cluster.metrics.events_written);
                works = true;
            }
            Err(error) => {
                count(&ctx.cluster.metrics.events_dropped);
                // An API that takes no Events is spoken of once, not with each of them.
                if std::mem::take(&mut works) {
                    let error = error.chain();
                    tracing::warn!(object = %queued.object, error, "an event was dropped");
                }
            }
        }
    }
}

async fn write_with_retries(ctx: &Context, queued: &QueuedEvent) -> Result<(), Error> {
    let mut attempt = 1;
    loop {
        match write(ctx, queued).await {
            // One that the API refuses would be refused again.
            Err(error)
                if attempt < ATTEMPTS_MAX
                    && !matches!(error.class(), Class::Denied | Class::Fenced) =>
            {
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Writes one Event. The same thing said again about the same object is counted in the Event that
/// is there; its name follows from both, so that this holds after a restart too.
async fn write(ctx: &Context, queued: &QueuedEvent) -> Result<(), Error> {
    let resource = (ctx.cluster.row(queued.object.kind).resource)();
    let event = event(queued, &resource);
    match ctx.cluster.create_event(&queued.object, &event).await {
        Err(error) if error.class() == Class::Conflict => {}
        result => return result,
    }
    let name = event.metadata.name.unwrap_or_default();
    let existing = ctx.cluster.fetch_event(&queued.object, &name).await?;
    let repeat = json!({
        "count": existing.count.unwrap_or(1).saturating_add(1),
        "lastTimestamp": event.last_timestamp,
        "message": event.message,
    });
    let object = &queued.object;
    ctx.cluster.write_event(object, &name, &repeat).await
}

fn event(queued: &QueuedEvent, resource: &ApiResource) -> Event {
    let object = &queued.object;
    let at = Timestamp::from_second(queued.at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    let said = format!(
        "{}/{}/{}",
        object.uid,
        queued.event_type.as_str(),
        queued.reason
    );
    let name = format!(
        "{}.{:016x}",
        cut(&object.name, NAME_LEN_MAX),
        jitter_seed(said.as_bytes())
    );
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(event_namespace(object).to_owned()),
            // A cluster forgets Events after an hour and collects none; an API that keeps them for
            // ever collects them with the object, so that they cannot pile up.
            owner_references: Some(vec![OwnerReference {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
                name: object.name.to_string(),
                uid: object.uid.to_string(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(resource.api_version.clone()),
            kind: Some(resource.kind.clone()),
            name: Some(object.name.to_string()),
            namespace: (!object.namespace.is_empty()).then(|| object.namespace.to_string()),
            uid: Some(object.uid.to_string()),
            ..ObjectReference::default()
        },
        type_: Some(queued.event_type.as_str().to_owned()),
        reason: Some(queued.reason.as_str().to_owned()),
        message: Some(cut(&queued.message, MESSAGE_LEN_MAX).to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        source: Some(EventSource {
            component: Some(COMPONENT.to_owned()),
            host: None,
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        ..Event::default()
    }
}

fn cut(text: &str, len_max: usize) -> &str {
    &text[..text.floor_char_boundary(len_max)]
}

#[cfg(test)]
mod tests {
    use bindery_api::info;
    use bindery_core::{Kind, Moment, ObjectRef, Reason};

    use super::super::EventType;
    use super::*;

    fn queued(name: &str, uid: &str, reason: Reason) -> QueuedEvent {
        QueuedEvent {
            object: Arc::new(ObjectRef {
                kind: Kind::ARecord,
                namespace: "default".into(),
                name: name.into(),
                uid: uid.into(),
            }),
            event_type: EventType::Warning,
            reason,
            message: "ü".repeat(MESSAGE_LEN_MAX),
            at: Moment(1),
        }
    }

    #[test]
    fn the_name_follows_from_object_and_reason_and_fits() {
        let resource = (info(Kind::ARecord).resource)();
        let event = |queued: &QueuedEvent| event(queued, &resource);
        let name = |queued: &QueuedEvent| event(queued).metadata.name.expect("it has a name");
        let one = queued("www", "a", Reason::Conflict);
        assert_eq!(
            name(&one),
            name(&QueuedEvent {
                message: "other words".to_owned(),
                at: Moment(9),
                ..one.clone()
            })
        );
        assert_ne!(name(&one), name(&queued("www", "b", Reason::Conflict)));
        assert_ne!(name(&one), name(&queued("www", "a", Reason::NotOwned)));
        let long = queued(&"x".repeat(253), "a", Reason::Conflict);
        assert_eq!(name(&long).len(), 253);
        let message = event(&long).message.unwrap_or_default();
        assert_eq!(message.len(), MESSAGE_LEN_MAX);
    }
}
