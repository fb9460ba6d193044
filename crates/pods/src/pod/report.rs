//! What is told of a pod: its status, and Events.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::PoisonError;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch};
use tokio::time::sleep;

use super::PodRun;
use crate::request::{self, FaultClass, RequestFault, in_time};
use crate::status;

/// Notices that wait to be told; older ones make room.
const NOTICES_LEN_MAX: usize = 32;

/// How long a status waits that could not be written.
const RETRY: Duration = Duration::from_millis(500);

/// Things to tell, each once until something else of its reason is.
#[derive(Default)]
pub(super) struct Notices {
    waiting: VecDeque<Notice>,
    last: BTreeMap<&'static str, String>,
}

struct Notice {
    kind: &'static str,
    reason: &'static str,
    message: String,
}

impl PodRun {
    /// Has an Event about the pod written, unless it says what the last one of its reason said.
    pub(crate) fn tell(&self, kind: &'static str, reason: &'static str, message: &str) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.last.get(reason).is_some_and(|last| last == message) {
            return;
        }
        notices.last.insert(reason, message.to_owned());
        if notices.waiting.len() == NOTICES_LEN_MAX {
            notices.waiting.pop_front();
        }
        notices.waiting.push_back(Notice {
            kind,
            reason,
            message: message.to_owned(),
        });
        drop(notices);
        self.touch();
    }

    /// Writes the status whenever it is not true, for ever.
    ///
    /// Cancellation: the next start writes what is not true then.
    pub(super) async fn report(&self) -> Infallible {
        let mut news = self.news.subscribe();
        let mut written: Option<Pod> = None;
        loop {
            news.mark_unchanged();
            self.write_notices().await;
            let pod = self.newest(written.as_ref());
            let wanted = status::patch(&pod, &self.facts(), self.ctx.now());
            if let Some(body) = wanted {
                match self.write_status(&body).await {
                    Ok(pod) => written = Some(pod),
                    Err(fault) if fault.class() == FaultClass::Missing => {}
                    Err(fault) => {
                        let (namespace, name) = &self.key;
                        tracing::debug!(namespace, name, fault = fault.chain(), "a status waits");
                        sleep(RETRY).await;
                        continue;
                    }
                }
                continue;
            }
            // The sender is ours, so it is there.
            let _ = news.changed().await;
        }
    }

    /// The pod as it was told or written last.
    fn newest(&self, written: Option<&Pod>) -> Pod {
        let told = self.pod();
        let version = |pod: &Pod| -> u64 {
            let version = pod.metadata.resource_version.as_deref();
            version
                .and_then(|version| version.parse().ok())
                .unwrap_or(0)
        };
        match written {
            Some(written) if version(written) > version(&told) => written.clone(),
            _ => told,
        }
    }

    async fn write_status(&self, body: &serde_json::Value) -> Result<Pod, RequestFault> {
        let (namespace, name) = &self.key;
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), namespace);
        let object = format!("Pod {namespace}/{name}");
        let (params, patch) = (request::patch(), Patch::Strategic(body));
        let writing = api.patch_status(name, &params, &patch);
        in_time(&object, writing, |source| RequestFault::Write {
            object: object.clone(),
            source,
        })
        .await
    }

    async fn write_notices(&self) {
        loop {
            let next = {
                let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
                notices.waiting.pop_front()
            };
            let Some(notice) = next else { return };
            let event = self.event(notice);
            let api: Api<Event> = Api::namespaced(self.ctx.client.clone(), &self.key.0);
            // An Event is a courtesy; what counts stands in the status.
            let _ = api.create(&request::post(), &event).await;
        }
    }

    fn event(&self, notice: Notice) -> Event {
        let (namespace, name) = self.key.clone();
        let now = Time(status::whole(self.ctx.now()));
        Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}.")),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(name),
                namespace: Some(namespace),
                uid: Some(self.uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some(notice.kind.to_owned()),
            reason: Some(notice.reason.to_owned()),
            message: Some(notice.message),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            source: Some(EventSource {
                component: Some("bindery-pods".to_owned()),
                host: Some(self.ctx.options.node.clone()),
            }),
            ..Event::default()
        }
    }
}
