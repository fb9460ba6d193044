//! Requests to the Kubernetes API.

use std::sync::Arc;
use std::time::Duration;

use bindery_api::{KindInfo, Kinds, RawObject, Role, Scope, Watch, role};
use bindery_core::{Kind, ObjectRef};
use bindery_engine::Fence;
use bindery_sources::Stays;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::ApiResource;
use serde_json::Value;

use crate::metrics::{Metrics, count};

/// Who writes, as it stands in the managed fields.
const FIELD_MANAGER: &str = "bindery";

/// Objects in one page of a list: at 2 KiB each, about 1 MiB in memory at a time.
const PAGE_LEN: u32 = 500;

/// Seconds after which the server ends a watch, so that a connection that died is noticed.
const WATCH_SECONDS: u32 = 290;

/// How long a request may take. API servers end requests of their own after a minute.
const ANSWER_MAX: Duration = Duration::from_secs(65);

/// How long a watch may be silent: a little longer than the server lets it live.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// A request that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("listing {} failed", .kind.as_str())]
    List {
        kind: Kind,
        #[source]
        source: kube::Error,
    },
    #[error("watching {} failed", .kind.as_str())]
    Watch {
        kind: Kind,
        #[source]
        source: kube::Error,
    },
    #[error("reading {object} failed")]
    Get {
        object: Box<ObjectRef>,
        #[source]
        source: kube::Error,
    },
    #[error("writing metadata of {object} failed")]
    PatchMetadata {
        object: Box<ObjectRef>,
        #[source]
        source: kube::Error,
    },
    #[error("writing status of {object} failed")]
    PatchStatus {
        object: Box<ObjectRef>,
        #[source]
        source: kube::Error,
    },
    #[error("writing an event about {object} failed")]
    WriteEvent {
        object: Box<ObjectRef>,
        #[source]
        source: kube::Error,
    },
    #[error("a request about {} got no answer in time", .kind.as_str())]
    Await { kind: Kind },
    #[error("{object} was not written: this replica does not hold the lease")]
    Fence { object: Box<ObjectRef> },
}

/// What kind of fault it was; what to do follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Try again.
    Transient,
    /// Read again, then try again.
    Conflict,
    /// It is not there; the watch tells what became of it.
    Missing,
    /// The history that a watch wants to begin at is gone; list again.
    Expired,
    /// The API server refuses; trying again helps when somebody changes that.
    Denied,
    /// This process may not write now; nothing was sent.
    Fenced,
}

impl Error {
    /// All of it in one line, in the words of the API server where it gave a reason.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if let Some(kube::Error::Api(status)) = error.downcast_ref() {
                return format!("{line}: {}", status.message);
            }
            let text = error.to_string();
            // Errors of clients often end with what their cause says.
            if !line.ends_with(&text) {
                line = format!("{line}: {text}");
            }
            cause = error.source();
        }
        line
    }

    pub(crate) fn class(&self) -> Class {
        let source = match self {
            Self::List { source, .. }
            | Self::Watch { source, .. }
            | Self::Get { source, .. }
            | Self::PatchMetadata { source, .. }
            | Self::PatchStatus { source, .. }
            | Self::WriteEvent { source, .. } => source,
            Self::Await { .. } => return Class::Transient,
            Self::Fence { .. } => return Class::Fenced,
        };
        let kube::Error::Api(status) = source else {
            return Class::Transient;
        };
        match status.code {
            404 => Class::Missing,
            409 => Class::Conflict,
            410 => Class::Expired,
            400 | 401 | 403 | 405 | 413 | 415 | 422 => Class::Denied,
            _ => Class::Transient,
        }
    }
}

/// What is listed and watched: all objects of a kind, or those of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watched {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<Arc<str>>,
}

impl Watched {
    /// Whether an object is among what is watched.
    pub(crate) fn has(&self, object: &ObjectRef) -> bool {
        let namespace = self.namespace.as_deref();
        self.kind == object.kind && namespace.is_none_or(|one| one == &*object.namespace)
    }
}

/// The Kubernetes API, with a count of what is asked of it.
pub(crate) struct Cluster {
    client: Client,
    kinds: &'static Kinds,
    fence: Fence,
    pub(crate) metrics: Arc<Metrics>,
}

impl Cluster {
    /// The API of a client; nothing is written while the fence is closed.
    pub(crate) fn new(client: Client, kinds: &'static Kinds, fence: Fence) -> Self {
        Self {
            client,
            kinds,
            fence,
            metrics: Arc::default(),
        }
    }

    /// The row of a kind.
    pub(crate) fn row(&self, kind: Kind) -> &'static KindInfo {
        &self.kinds[kind as usize]
    }

    /// One page of a list, from the beginning or from where the last page ended.
    pub(crate) async fn fetch_page(
        &self,
        watched: &Watched,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        count(&self.metrics.requests);
        let kind = watched.kind;
        let mut params = ListParams::default().limit(PAGE_LEN);
        if let Some(token) = token {
            params = params.continue_token(token);
        }
        let Watch { labels, fields } = self.row(kind).watch;
        params.label_selector = labels.map(str::to_owned);
        params.field_selector = fields.map(str::to_owned);
        let api = self.all(watched);
        let list = in_time(kind, api.list(&params))
            .await?
            .map_err(|source| Error::List { kind, source })?;
        Ok(Page {
            next: list.metadata.continue_.filter(|token| !token.is_empty()),
            version: list.metadata.resource_version.unwrap_or_default(),
            items: list.items,
        })
    }

    /// Events from a resource version on.
    pub(crate) async fn watch_from(
        &self,
        watched: &Watched,
        version: &str,
    ) -> Result<BoxStream<'static, Result<WatchEvent<RawObject>, Error>>, Error> {
        count(&self.metrics.requests);
        let Watch { labels, fields } = self.row(watched.kind).watch;
        let params = WatchParams {
            label_selector: labels.map(str::to_owned),
            field_selector: fields.map(str::to_owned),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let (api, kind) = (self.all(watched), watched.kind);
        let wrap = move |source| Error::Watch { kind, source };
        let stream = in_time(kind, api.watch(&params, version)).await?;
        let stream = stream.map_err(wrap)?;
        Ok(stream.map(move |event| event.map_err(wrap)).boxed())
    }

    pub(crate) async fn fetch(&self, object: &ObjectRef) -> Result<RawObject, Error> {
        count(&self.metrics.requests);
        let wrap = |source| Error::Get {
            object: Box::new(object.clone()),
            source,
        };
        let api = self.api(object);
        in_time(object.kind, api.get(&object.name))
            .await?
            .map_err(wrap)
    }

    pub(crate) async fn write_metadata(
        &self,
        object: &ObjectRef,
        body: &Value,
    ) -> Result<RawObject, Error> {
        self.check_fence(object)?;
        count(&self.metrics.requests);
        count(&self.metrics.metadata_writes);
        let wrap = |source| Error::PatchMetadata {
            object: Box::new(object.clone()),
            source,
        };
        let (api, params, patch) = (self.api(object), params(), Patch::Merge(body));
        in_time(object.kind, api.patch(&object.name, &params, &patch))
            .await?
            .map_err(wrap)
    }

    pub(crate) async fn write_status(
        &self,
        object: &ObjectRef,
        body: &Value,
    ) -> Result<RawObject, Error> {
        self.check_fence(object)?;
        count(&self.metrics.requests);
        count(match role(object.kind) {
            Role::Zone => &self.metrics.zone_status_writes,
            Role::Record | Role::Endpoints => &self.metrics.status_writes,
        });
        let wrap = |source| Error::PatchStatus {
            object: Box::new(object.clone()),
            source,
        };
        let (api, params, patch) = (self.api(object), params(), Patch::Merge(body));
        in_time(object.kind, api.patch_status(&object.name, &params, &patch))
            .await?
            .map_err(wrap)
    }

    /// Whether the namespace of an object is to stay, where that may be looked at.
    pub(crate) async fn fetch_namespace(&self, object: &ObjectRef) -> Result<Stays, Error> {
        // What belongs to the whole cluster goes with no namespace.
        if object.namespace.is_empty() {
            return Ok(Stays::Yes);
        }
        let resource = ApiResource::erase::<Namespace>(&());
        self.fetch_stays(object, &resource, &object.namespace).await
    }

    /// Whether the definition of an object's kind is to stay, where that may be looked at.
    pub(crate) async fn fetch_definition(&self, object: &ObjectRef) -> Result<Stays, Error> {
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let name = definition(self.row(object.kind));
        self.fetch_stays(object, &resource, &name).await
    }

    async fn fetch_stays(
        &self,
        object: &ObjectRef,
        resource: &ApiResource,
        name: &str,
    ) -> Result<Stays, Error> {
        count(&self.metrics.requests);
        let api: Api<RawObject> = Api::all_with(self.client.clone(), resource);
        let found = in_time(object.kind, api.get(name)).await?;
        let found = found.map_err(|source| Error::Get {
            object: Box::new(object.clone()),
            source,
        });
        match found {
            Ok(found) if found.metadata.deletion_timestamp.is_none() => Ok(Stays::Yes),
            Ok(_) => Ok(Stays::No),
            Err(error) => match error.class() {
                Class::Missing => Ok(Stays::No),
                Class::Denied => Ok(Stays::Unknown),
                Class::Transient | Class::Conflict | Class::Expired | Class::Fenced => Err(error),
            },
        }
    }

    /// Creates an Event about an object; one that is there already is a conflict.
    pub(crate) async fn create_event(
        &self,
        object: &ObjectRef,
        event: &Event,
    ) -> Result<(), Error> {
        self.check_fence(object)?;
        count(&self.metrics.requests);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.events(object);
        let written = in_time(object.kind, api.create(&params, event)).await?;
        written.map_err(about(object))?;
        Ok(())
    }

    pub(crate) async fn fetch_event(&self, object: &ObjectRef, name: &str) -> Result<Event, Error> {
        count(&self.metrics.requests);
        let api = self.events(object);
        let found = in_time(object.kind, api.get(name)).await?;
        found.map_err(about(object))
    }

    /// Changes an Event that is there.
    pub(crate) async fn write_event(
        &self,
        object: &ObjectRef,
        name: &str,
        body: &Value,
    ) -> Result<(), Error> {
        self.check_fence(object)?;
        count(&self.metrics.requests);
        let (api, params, patch) = (self.events(object), params(), Patch::Merge(body));
        let written = in_time(object.kind, api.patch(name, &params, &patch)).await?;
        written.map_err(about(object))?;
        Ok(())
    }

    /// Nothing is written by a process that may have lost the lease.
    fn check_fence(&self, object: &ObjectRef) -> Result<(), Error> {
        let object = || Box::new(object.clone());
        let closed = || Error::Fence { object: object() };
        self.fence.is_open().then_some(()).ok_or_else(closed)
    }

    fn all(&self, Watched { kind, namespace }: &Watched) -> Api<RawObject> {
        let (client, resource) = (self.client.clone(), (self.row(*kind).resource)());
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    fn events(&self, object: &ObjectRef) -> Api<Event> {
        Api::namespaced(self.client.clone(), event_namespace(object))
    }

    fn api(&self, object: &ObjectRef) -> Api<RawObject> {
        let row = self.row(object.kind);
        let (client, resource) = (self.client.clone(), (row.resource)());
        match row.scope {
            Scope::Namespaced => Api::namespaced_with(client, &object.namespace, &resource),
            Scope::Cluster => Api::all_with(client, &resource),
        }
    }
}

fn about(object: &ObjectRef) -> impl Fn(kube::Error) -> Error {
    |source| Error::WriteEvent {
        object: Box::new(object.clone()),
        source,
    }
}

/// A request that hangs must not hold its object for ever.
async fn in_time<T>(kind: Kind, request: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(ANSWER_MAX, request)
        .await
        .map_err(|_| Error::Await { kind })
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<RawObject>,
    pub(crate) version: String,
    pub(crate) next: Option<String>,
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Where Events about an object stand: of one that belongs to the whole cluster, where Kubernetes puts them.
pub(crate) fn event_namespace(object: &ObjectRef) -> &str {
    match &*object.namespace {
        "" => "default",
        namespace => namespace,
    }
}

/// The name of the definition of a kind.
pub(crate) fn definition(row: &KindInfo) -> String {
    let resource = (row.resource)();
    format!("{}.{}", resource.plural, resource.group)
}
