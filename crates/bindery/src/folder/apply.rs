//! Applies documents through the API, as `kubectl apply --server-side` would.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, verbs};
use kube::{Api, Client, Discovery, ResourceExt as _};
use serde_json::{Value, json};

use super::document::{Document, FileProblem, ObjectKey};
use super::plan::{LastApplied, Origin};
use super::{FILE, FILE_HASH, NO_LONGER_DECLARED};

/// The field manager of what files declare.
const MANAGER: &str = "bindery-up";
/// Objects of one page of a list.
const PAGE_LEN: u32 = 500;
/// Requests under way at a time, so that they share the fsyncs of the API's group commit.
pub(super) const REQUESTS_MAX: usize = 32;

/// Applies documents and removes objects.
pub(crate) struct Applier {
    pub(super) client: Client,
    kinds: Discovery,
}

/// What became of one document.
pub(crate) enum ApplyResult {
    /// It is in the API.
    Applied(ObjectKey, Origin),
    /// An object of this name is still being deleted; the document has to wait for it.
    Wait(String),
    /// The API does not take it.
    Refused(FileProblem),
}

/// A kind as the API serves it.
pub(super) struct Served {
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
}

impl Applier {
    /// An applier that knows the kinds of the API.
    pub(crate) async fn new(client: Client) -> Result<Self> {
        let kinds = fetch_kinds(&client).await?;
        Ok(Self { client, kinds })
    }

    /// What files declared when Bindery ran last, from the annotations of the objects.
    pub(crate) async fn fetch_known(&self) -> Result<LastApplied> {
        let mut known = LastApplied::new();
        for group in self.kinds.groups_alphabetical() {
            for (resource, abilities) in group.recommended_resources() {
                if !abilities.supports_operation(verbs::LIST) {
                    continue;
                }
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
                self.fetch_origins(&api, &resource, &mut known).await?;
            }
        }
        Ok(known)
    }

    /// Where the objects of one kind came from, a page at a time: all of them at once would take more
    /// memory than everything else.
    async fn fetch_origins(
        &self,
        api: &Api<DynamicObject>,
        resource: &ApiResource,
        known: &mut LastApplied,
    ) -> Result<()> {
        let mut params = kube::api::ListParams::default().limit(PAGE_LEN);
        loop {
            let list = api.list_metadata(&params).await;
            let list = list.with_context(|| format!("cannot list {}", resource.plural))?;
            for object in list.items {
                let note = |name: &str| object.annotations().get(name).cloned();
                let Some(file) = note(FILE) else { continue };
                let (version, kind) = (&resource.api_version, &resource.kind);
                let namespace = object.namespace();
                let key = ObjectKey::new(version, kind, namespace.as_deref(), &object.name_any());
                let origin = Origin {
                    file,
                    hash: note(FILE_HASH).unwrap_or_default(),
                    api_version: version.clone(),
                    held: note(NO_LONGER_DECLARED).is_some(),
                };
                known.insert(key, origin);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Applies documents of one stage, many at a time.
    ///
    /// Cancellation: some are applied, others not; the next pass applies the rest.
    pub(crate) async fn apply(
        &mut self,
        documents: Vec<(String, Arc<Document>)>,
    ) -> Vec<ApplyResult> {
        let unknown = documents
            .iter()
            .any(|(_, document)| self.served(document).is_none());
        if unknown && let Ok(kinds) = fetch_kinds(&self.client).await {
            self.kinds = kinds;
        }
        let this = &*self;
        stream::iter(documents)
            .map(|(file, document)| this.apply_one(file, document))
            .buffered(REQUESTS_MAX)
            .collect()
            .await
    }

    async fn apply_one(&self, file: String, document: Arc<Document>) -> ApplyResult {
        let refuse = |text: String| {
            let text = format!("{}: {text}", document.key);
            ApplyResult::Refused(FileProblem::at(&file, document.line, text))
        };
        let Some(served) = self.served(&document) else {
            let (kind, version) = (&document.key.kind, &document.api_version);
            return refuse(format!(
                "no kind {kind} in {version} is known; is its CRD there?"
            ));
        };
        let api = match self.api(&served, &document) {
            Ok(api) => api,
            Err(text) => return refuse(text),
        };
        let params = PatchParams::apply(MANAGER).force().validation_strict();
        let body = annotated(&document, &file);
        match api
            .patch(&document.key.name, &params, &Patch::Apply(&body))
            .await
        {
            Ok(object) if object.metadata.deletion_timestamp.is_some() => ApplyResult::Wait(file),
            Ok(object) => {
                if let Err(error) = write_declared(&api, &object).await {
                    return refuse(plain(&error));
                }
                let (hash, api_version) = (document.hash.clone(), document.api_version.clone());
                ApplyResult::Applied(
                    document.key.clone(),
                    Origin {
                        file,
                        hash,
                        api_version,
                        held: false,
                    },
                )
            }
            Err(error) => refuse(plain(&error)),
        }
    }

    fn api(&self, served: &Served, document: &Document) -> Result<Api<DynamicObject>, String> {
        let given = document.value.pointer("/metadata/namespace").is_some();
        match served.scope {
            Scope::Cluster if given => Err(format!(
                "metadata.namespace: a {} is in no namespace; remove the field",
                document.key.kind
            )),
            Scope::Cluster => Ok(Api::all_with(self.client.clone(), &served.resource)),
            Scope::Namespaced => Ok(Api::namespaced_with(
                self.client.clone(),
                &document.key.namespace,
                &served.resource,
            )),
        }
    }

    fn served(&self, document: &Document) -> Option<Served> {
        self.resolve(&document.api_version, &document.key.kind)
    }

    pub(super) fn resolve(&self, api_version: &str, kind: &str) -> Option<Served> {
        let meta = TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let wanted = GroupVersionKind::try_from(meta).ok()?;
        let (resource, abilities) = self.kinds.resolve_gvk(&wanted)?;
        Some(Served {
            resource,
            scope: abilities.scope,
        })
    }
}

async fn fetch_kinds(client: &Client) -> Result<Discovery> {
    Discovery::new(client.clone())
        .run_aggregated()
        .await
        .context("cannot ask the API for its kinds")
}

/// Takes the mark off an object that is declared again.
async fn write_declared(api: &Api<DynamicObject>, object: &DynamicObject) -> kube::Result<()> {
    if !object.annotations().contains_key(NO_LONGER_DECLARED) {
        return Ok(());
    }
    let unmark = json!({"metadata": {
        "uid": object.uid(),
        "annotations": {NO_LONGER_DECLARED: null},
    }});
    let params = PatchParams::default();
    let name = object.name_any();
    api.patch(&name, &params, &Patch::Merge(unmark)).await?;
    Ok(())
}

/// The document with the annotations that say where it comes from.
fn annotated(document: &Document, file: &str) -> Value {
    let mut body = document.value.clone();
    let metadata = &mut body["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][FILE] = json!(file);
    metadata["annotations"][FILE_HASH] = json!(document.hash);
    body
}

/// What the API says, in its own words.
pub(super) fn plain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    error.to_string()
}
