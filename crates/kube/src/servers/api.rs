//! What is asked of the Kubernetes API.

use std::time::Duration;

use bindery_api::time_text;
use bindery_core::Moment;
use bindery_engine::Fence;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use thiserror::Error;

use super::store::{ObjectPlace, Sort};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const FIELD_MANAGER: &str = "bindery";

/// Why the API did not do what was asked.
#[derive(Debug, Error)]
pub(super) enum ApiError {
    #[error("cannot {what} {kind} {place}: {source}")]
    Refused {
        what: &'static str,
        kind: &'static str,
        place: String,
        #[source]
        source: kube::Error,
    },
    #[error("another process leads: {kind} {place} is left to it")]
    Fenced { kind: &'static str, place: String },
    #[error("cannot {what} {kind} {place}: no answer within 10 seconds")]
    Silent {
        what: &'static str,
        kind: &'static str,
        place: String,
    },
}

impl ApiError {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Refused {
                source: kube::Error::Api(status),
                ..
            } => Some(status.code),
            Self::Refused { .. } | Self::Silent { .. } | Self::Fenced { .. } => None,
        }
    }

    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    pub(super) fn is_missing(&self) -> bool {
        self.code() == Some(404)
    }
}

/// The Kubernetes API.
pub(super) struct ObjectApi {
    client: Client,
    fence: Fence,
}

impl ObjectApi {
    /// The API of a client; nothing is written while the fence is closed.
    pub(super) fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    fn check_fence(&self, sort: Sort, place: &ObjectPlace) -> Result<(), ApiError> {
        if self.fence.is_open() {
            return Ok(());
        }
        Err(ApiError::Fenced {
            kind: sort.kind().0,
            place: format!("{}/{}", place.namespace, place.name),
        })
    }

    pub(super) fn of(&self, sort: Sort, namespace: Option<&str>) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), sort.resource());
        match namespace {
            Some(namespace) if !sort.is_cluster_wide() => {
                Api::namespaced_with(client, namespace, &resource)
            }
            _ => Api::all_with(client, &resource),
        }
    }

    fn at(&self, sort: Sort, place: &ObjectPlace) -> Api<DynamicObject> {
        self.of(sort, Some(&place.namespace))
    }

    /// Creates an object or makes it what it is to be.
    pub(super) async fn apply(
        &self,
        sort: Sort,
        place: &ObjectPlace,
        object: &Value,
    ) -> Result<DynamicObject, ApiError> {
        self.check_fence(sort, place)?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.at(sort, place);
        let patch = Patch::Apply(object);
        let request = api.patch(&place.name, &params, &patch);
        in_time("apply", sort, place, request).await
    }

    /// Reads an object that is not watched.
    pub(super) async fn fetch(
        &self,
        sort: Sort,
        place: &ObjectPlace,
    ) -> Result<DynamicObject, ApiError> {
        let api = self.at(sort, place);
        in_time("read", sort, place, api.get(&place.name)).await
    }

    /// Creates an object that must not be there.
    pub(super) async fn create(
        &self,
        sort: Sort,
        place: &ObjectPlace,
        object: &DynamicObject,
    ) -> Result<DynamicObject, ApiError> {
        self.check_fence(sort, place)?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.at(sort, place);
        in_time("create", sort, place, api.create(&params, object)).await
    }

    /// Changes fields of an object.
    pub(super) async fn merge(
        &self,
        sort: Sort,
        place: &ObjectPlace,
        body: &Value,
    ) -> Result<DynamicObject, ApiError> {
        self.check_fence(sort, place)?;
        let params = manager();
        let api = self.at(sort, place);
        let patch = Patch::Merge(body);
        in_time(
            "patch",
            sort,
            place,
            api.patch(&place.name, &params, &patch),
        )
        .await
    }

    /// Tells of something that was done to an object. What cannot be told is not missed.
    pub(super) async fn tell(
        &self,
        sort: Sort,
        object: &DynamicObject,
        (reason, message): (&str, &str),
        now: Moment,
    ) {
        let place = ObjectPlace::of(object);
        if self.check_fence(sort, &place).is_err() {
            return;
        }
        let (kind, version) = sort.kind();
        let time = time_text(now);
        let uid = &object.metadata.uid;
        let (namespace, name) = (&*place.namespace, &*place.name);
        let event = json!({
            "metadata": {
                "generateName": format!("{name}."),
                "namespace": namespace,
                "ownerReferences": [{
                    "apiVersion": version, "kind": kind, "name": name, "uid": uid,
                }],
            },
            "involvedObject": {
                "apiVersion": version, "kind": kind, "name": name, "namespace": namespace,
                "uid": uid,
            },
            "type": "Normal", "reason": reason, "message": message, "count": 1,
            "firstTimestamp": time, "lastTimestamp": time,
            "source": { "component": FIELD_MANAGER }, "reportingComponent": FIELD_MANAGER,
        });
        let Ok(event) = serde_json::from_value::<Event>(event) else {
            return;
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &place.namespace);
        let params = PostParams::default();
        let told = in_time("create", sort, &place, api.create(&params, &event)).await;
        if let Err(error) = told {
            tracing::debug!(%error, "an event was dropped");
        }
    }

    /// Changes fields of a status.
    pub(super) async fn write_status(
        &self,
        sort: Sort,
        place: &ObjectPlace,
        body: &Value,
    ) -> Result<DynamicObject, ApiError> {
        self.check_fence(sort, place)?;
        let params = manager();
        let api = self.at(sort, place);
        let patch = Patch::Merge(body);
        let request = api.patch_status(&place.name, &params, &patch);
        in_time("patch the status of", sort, place, request).await
    }

    /// Deletes exactly this object; one that is gone already is fine.
    pub(super) async fn delete(
        &self,
        sort: Sort,
        place: &ObjectPlace,
        uid: Option<String>,
    ) -> Result<(), ApiError> {
        self.check_fence(sort, place)?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid,
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let api = self.at(sort, place);
        match in_time("delete", sort, place, api.delete(&place.name, &params)).await {
            Err(error) if !error.is_missing() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn manager() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// A request that hangs must not hold its object for ever.
async fn in_time<T>(
    what: &'static str,
    sort: Sort,
    place: &ObjectPlace,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let kind = sort.kind().0;
    let shown = || format!("{}/{}", place.namespace, place.name);
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(done) => done.map_err(|source| ApiError::Refused {
            what,
            kind,
            place: shown(),
            source,
        }),
        Err(_) => Err(ApiError::Silent {
            what,
            kind,
            place: shown(),
        }),
    }
}
