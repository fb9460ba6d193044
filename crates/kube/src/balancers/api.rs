//! What is asked of the Kubernetes API for load balancers.

use std::fmt::Debug;
use std::time::Duration;

use bindery_engine::Fence;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::BalancerObject;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const FIELD_MANAGER: &str = "bindery";

/// Why the API did not do what was asked.
#[derive(Debug, Error)]
pub(super) enum BalancerApiError {
    #[error("cannot {act} {place:?}: {source}")]
    Refuse {
        act: &'static str,
        place: BalancerObject,
        #[source]
        source: kube::Error,
    },
    #[error("another process leads: {place:?} is left to it")]
    Fence { place: BalancerObject },
    #[error("cannot {act} {place:?}: no answer within 10 seconds")]
    Await {
        act: &'static str,
        place: BalancerObject,
    },
}

impl BalancerApiError {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Refuse {
                source: kube::Error::Api(status),
                ..
            } => Some(status.code),
            Self::Refuse { .. } | Self::Fence { .. } | Self::Await { .. } => None,
        }
    }

    pub(super) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    pub(super) fn is_missing(&self) -> bool {
        self.code() == Some(404)
    }
}

/// The Kubernetes API; nothing is written while the fence is closed.
pub(super) struct BalancerApi {
    client: Client,
    fence: Fence,
}

impl BalancerApi {
    pub(super) fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// All objects of a kind.
    pub(super) fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// A pod; `None` where it is not there.
    pub(super) async fn fetch_pod(
        &self,
        place: &BalancerObject,
    ) -> Result<Option<Pod>, BalancerApiError> {
        let (namespace, name) = parts(place);
        let api = self.pods(namespace);
        in_time("read", place, api.get_opt(name)).await
    }

    /// The pods of a namespace.
    pub(super) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Changes fields of an object.
    pub(super) async fn write_metadata<K>(
        &self,
        place: &BalancerObject,
        body: &Value,
    ) -> Result<(), BalancerApiError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        self.check_fence(place)?;
        let (namespace, name) = parts(place);
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let params = manager();
        let patch = Patch::Merge(body);
        in_time("patch", place, api.patch(name, &params, &patch)).await?;
        Ok(())
    }

    /// Changes fields of a Service's status.
    pub(super) async fn write_status(
        &self,
        place: &BalancerObject,
        body: &Value,
    ) -> Result<(), BalancerApiError> {
        self.check_fence(place)?;
        let (namespace, name) = parts(place);
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let params = manager();
        let patch = Patch::Merge(body);
        let request = api.patch_status(name, &params, &patch);
        in_time("patch the status of", place, request).await?;
        Ok(())
    }

    /// The names of a Service as they are published; `None` where they are not.
    pub(super) async fn fetch_names(
        &self,
        place: &BalancerObject,
        name: &str,
    ) -> Result<Option<DynamicObject>, BalancerApiError> {
        let api = self.names(place);
        in_time("read the names of", place, api.get_opt(name)).await
    }

    /// Publishes the names of a Service, or makes them what they are to be.
    pub(super) async fn write_names(
        &self,
        place: &BalancerObject,
        name: &str,
        body: &Value,
    ) -> Result<(), BalancerApiError> {
        self.check_fence(place)?;
        let api = self.names(place);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(body);
        let request = api.patch(name, &params, &patch);
        in_time("publish the names of", place, request).await?;
        Ok(())
    }

    /// Takes the names of a Service back; names that are gone already are fine.
    pub(super) async fn write_names_away(
        &self,
        place: &BalancerObject,
        name: &str,
    ) -> Result<(), BalancerApiError> {
        self.check_fence(place)?;
        let api = self.names(place);
        let params = DeleteParams::background();
        match in_time("take back the names of", place, api.delete(name, &params)).await {
            Err(error) if !error.is_missing() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes an Event.
    pub(super) async fn write_event(
        &self,
        place: &BalancerObject,
        event: &Event,
    ) -> Result<(), BalancerApiError> {
        self.check_fence(place)?;
        let (namespace, _) = parts(place);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams::default();
        in_time("write an event about", place, api.create(&params, event)).await?;
        Ok(())
    }

    fn names(&self, place: &BalancerObject) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.client.clone(), parts(place).0, &resource)
    }

    fn check_fence(&self, place: &BalancerObject) -> Result<(), BalancerApiError> {
        if self.fence.is_open() {
            return Ok(());
        }
        let place = place.clone();
        Err(BalancerApiError::Fence { place })
    }
}

pub(super) fn parts(place: &BalancerObject) -> (&str, &str) {
    let (BalancerObject::Service(namespace, name) | BalancerObject::Pod(namespace, name)) = place;
    (namespace, name)
}

fn manager() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// A request that hangs must not hold its object for ever.
async fn in_time<T>(
    act: &'static str,
    place: &BalancerObject,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, BalancerApiError> {
    let place = place.clone();
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(done) => done.map_err(|source| BalancerApiError::Refuse { act, place, source }),
        Err(_) => Err(BalancerApiError::Await { act, place }),
    }
}
