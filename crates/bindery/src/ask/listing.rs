//! The API, of which only lists are asked.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use bindery_core::Kind;
use futures::future::try_join_all;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, Config};

use super::thing::{Thing, definitions};
use crate::cli::ask::Asking;
use crate::live::resource;
use crate::{folder, run};

/// Objects in one page of a list.
const PAGE_LEN: u32 = 500;

/// An API that is only read: its client does not leave this module.
pub(super) struct Listing {
    client: Client,
    resources: BTreeMap<Kind, ApiResource>,
}

impl Listing {
    /// Finds the API that the flags name.
    ///
    /// # Errors
    /// If it does not answer; the message says what to do.
    pub(super) async fn open(flags: &Asking) -> Result<Self> {
        if let Some(kubeconfig) = &flags.kubeconfig {
            let client = run::connect(Some(kubeconfig)).await?;
            return Ok(Self::new(client));
        }
        let url = &flags.server;
        let parsed = url
            .parse()
            .with_context(|| format!("--server {url} is no URL; write http://127.0.0.1:6430"))?;
        let mut config = Config::new(parsed);
        if let Some(file) = &flags.token_file {
            let token = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read --token-file {}", file.display()))?;
            config.auth_info.token = Some(token.trim().to_owned().into());
        }
        let client = Client::try_from(config).context("cannot make a client for the API")?;
        if let Err(error) = client.apiserver_version().await {
            let text = refusal(url, &error);
            return Err(error).context(text);
        }
        Ok(Self::new(client))
    }

    fn new(client: Client) -> Self {
        let defined = definitions().into_iter();
        Self {
            client,
            resources: defined.map(|(kind, crd)| (kind, resource(&crd))).collect(),
        }
    }

    /// The namespace to look at where none was named.
    pub(super) fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// All objects of all kinds, zones first.
    pub(super) async fn fetch_all(&self) -> Result<Vec<Thing>> {
        let lists = Kind::ALL.into_iter().map(|kind| self.fetch(kind, None));
        Ok(try_join_all(lists).await?.into_iter().flatten().collect())
    }

    /// What is wrong in the folder of `bindery up`, if that is what answers.
    pub(super) async fn fetch_folder_problems(&self) -> Vec<String> {
        folder::fetch_problems(&self.client).await
    }

    /// All objects of a kind, in one namespace or in all.
    pub(super) async fn fetch(&self, kind: Kind, namespace: Option<&str>) -> Result<Vec<Thing>> {
        let resource = self.resources.get(&kind);
        let resource = resource.context("every kind has a definition")?;
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let mut things = Vec::new();
        let mut params = ListParams::default().limit(PAGE_LEN);
        loop {
            let page = api.list(&params).await.with_context(|| {
                format!(
                    "cannot list {}; are the kinds installed (`bindery crds | kubectl apply -f \
                     -`), and may you list them?",
                    resource.plural
                )
            })?;
            for object in page.items {
                things.push(Thing::new(kind, object.metadata, &object.data)?);
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                Some(_) | None => return Ok(things),
            }
        }
    }
}

/// What to do about an API that does not answer as it should.
fn refusal(url: &str, error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error
        && [401, 403].contains(&status.code)
    {
        return format!("the API at {url} wants a token; give the right one with --token-file");
    }
    format!(
        "no Kubernetes API answers at {url}; start `bindery up`, or say which one with --server or \
         --kubeconfig"
    )
}
