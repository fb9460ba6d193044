//! The API, of which only lists are asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use bindery_api::{AddressPool, Role, Scope, info, role};
use bindery_core::Kind;
use futures::future::try_join_all;
use http::Uri;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::balanced::BalancedService;
use super::listed_object::{ListedObject, definitions};
use crate::cli::ask::{ApiFlags, NamespaceFlags};
use crate::live::resource;
use crate::{folder, run, servers};

/// Objects in one page of a list.
const PAGE_LEN: u32 = 500;

/// Where `bindery up` serves its API unless it is told otherwise.
const LOCAL_API: &str = "http://127.0.0.1:6430";

/// An API that is only read: its client does not leave this module.
pub(super) struct Listing {
    client: Client,
    resources: BTreeMap<Kind, ApiResource>,
}

/// Which part of what there is was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Sight {
    /// Everything that could matter.
    Whole,
    /// One namespace; more was not allowed.
    OneNamespace,
}

impl Sight {
    /// What to say of it.
    pub(super) fn note(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::OneNamespace => Some(
                "zones and endpoints of other namespaces were not looked at: you may not list them",
            ),
        }
    }

    fn with(self, other: Self) -> Self {
        if self == Self::Whole { other } else { self }
    }
}

impl Listing {
    /// Finds the API that the flags name.
    ///
    /// # Errors
    /// If it does not answer; the message says what to do.
    pub(super) async fn open(flags: &ApiFlags) -> Result<Self> {
        let (kubeconfig, context) = (flags.kubeconfig.as_deref(), flags.context.as_deref());
        let is_cluster = kubeconfig.is_some() || context.is_some() || run::has_kubeconfig();
        let url = match &flags.server {
            Some(url) => url.clone(),
            None if is_cluster => return Ok(Self::new(run::connect(kubeconfig, context).await?)),
            None => LOCAL_API.parse().context("it is a URL")?,
        };
        let mut config = Config::new(url.clone());
        if let Some(file) = &flags.token_file {
            config.auth_info.token = Some(token(file)?.into());
        }
        let client = Client::try_from(config).context("cannot make a client for the API")?;
        match client.apiserver_version().await {
            Err(error) if !run::is_answer(&error) => {
                let text = refusal(&url, &error);
                Err(error).context(text)
            }
            Ok(_) | Err(_) => Ok(Self::new(client)),
        }
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

    /// The namespace to look at, or none for all.
    pub(super) fn namespace<'a>(
        &'a self,
        flags: &'a ApiFlags,
        everywhere: NamespaceFlags,
    ) -> Option<&'a str> {
        let named = || flags.namespace.as_deref();
        let here = || named().unwrap_or_else(|| self.default_namespace());
        (!everywhere.all_namespaces).then(here)
    }

    /// All objects of one namespace or of all, and of kinds with these roles those of other namespaces too, where
    /// that is allowed.
    pub(super) async fn fetch_all(
        &self,
        namespace: Option<&str>,
        widely: &[Role],
    ) -> Result<(Vec<ListedObject>, Sight)> {
        self.fetch_kinds(Kind::ALL, namespace, widely).await
    }

    /// All zones, whichever namespace is asked about; where that is not allowed, those of that namespace.
    pub(super) async fn fetch_zones(
        &self,
        namespace: Option<&str>,
    ) -> Result<(Vec<ListedObject>, Sight)> {
        let zones = Kind::ALL
            .into_iter()
            .filter(|kind| role(*kind) == Role::Zone);
        self.fetch_kinds(zones, namespace, &[Role::Zone]).await
    }

    async fn fetch_kinds(
        &self,
        kinds: impl IntoIterator<Item = Kind>,
        namespace: Option<&str>,
        widely: &[Role],
    ) -> Result<(Vec<ListedObject>, Sight)> {
        let lists = kinds.into_iter().map(async |kind| {
            if widely.contains(&role(kind)) {
                return self.fetch_widely(kind, namespace).await;
            }
            Ok((self.fetch(kind, namespace).await?, Sight::Whole))
        });
        let lists = try_join_all(lists).await?;
        let sight = lists
            .iter()
            .fold(Sight::Whole, |all, (_, one)| all.with(*one));
        let objects = lists.into_iter().flat_map(|(objects, _)| objects);
        Ok((objects.collect(), sight))
    }

    /// All objects of a kind, whichever namespace is asked about; where that is not allowed, those of
    /// that namespace.
    async fn fetch_widely(
        &self,
        kind: Kind,
        namespace: Option<&str>,
    ) -> Result<(Vec<ListedObject>, Sight)> {
        match (self.fetch(kind, None).await, namespace) {
            (Err(error), Some(_)) if is_forbidden(&error) => {
                Ok((self.fetch(kind, namespace).await?, Sight::OneNamespace))
            }
            (found, _) => Ok((found?, Sight::Whole)),
        }
    }

    /// What is wrong in the folder of `bindery up`, if that is what answers.
    pub(super) async fn fetch_folder_problems(&self) -> Vec<String> {
        folder::fetch_problems(&self.client, folder::FOLDER).await
    }

    /// What is wrong with the file of name servers of `bindery run`, where it may tell.
    pub(super) async fn fetch_servers_problems(&self) -> Vec<String> {
        folder::fetch_problems(&self.client, servers::PROBLEMS).await
    }

    /// All objects of a kind, in one namespace or in all.
    pub(super) async fn fetch(
        &self,
        kind: Kind,
        namespace: Option<&str>,
    ) -> Result<Vec<ListedObject>> {
        let resource = self.resources.get(&kind);
        let resource = resource.context("every kind has a definition")?;
        let namespace = namespace.filter(|_| info(kind).scope == Scope::Namespaced);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE_LEN);
        loop {
            let page = api.list(&params).await.with_context(|| {
                format!(
                    "cannot list {} in {}; are the kinds installed (`bindery crds | kubectl apply -f \
                     -`), and may you list them?",
                    resource.plural,
                    namespace.map_or_else(|| "all namespaces".to_owned(), |one| format!("namespace {one}"))
                )
            })?;
            for object in page.items {
                objects.push(ListedObject::new(kind, object.metadata, &object.data)?);
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                Some(_) | None => return Ok(objects),
            }
        }
    }
}

/// Services and what they depend on. `None` where they may not be listed, or are not served: what is shown
/// then says so.
impl Listing {
    /// Services of one namespace or of all; of one name only, where one is given.
    pub(super) async fn fetch_services(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Option<Vec<BalancedService>>> {
        let params = ListParams::default();
        let params = match name {
            Some(name) => params.fields(&format!("metadata.name={name}")),
            None => params,
        };
        let api: Api<Service> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let found = pages(&api, params).await?;
        Ok(found.map(|all| all.into_iter().map(BalancedService).collect()))
    }

    /// The slices of a Service.
    pub(super) async fn fetch_slices(
        &self,
        namespace: &str,
        service: &str,
    ) -> Result<Option<Vec<EndpointSlice>>> {
        let params = ListParams::default();
        let params = params.labels(&format!("kubernetes.io/service-name={service}"));
        pages(&Api::namespaced(self.client.clone(), namespace), params).await
    }

    /// All address pools.
    pub(super) async fn fetch_pools(&self) -> Result<Option<Vec<AddressPool>>> {
        pages(&Api::all(self.client.clone()), ListParams::default()).await
    }
}

/// All objects of a list; `None` where it is not allowed or not there.
async fn pages<K>(api: &Api<K>, params: ListParams) -> Result<Option<Vec<K>>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.limit(PAGE_LEN);
    let mut objects = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => return Ok(None),
            Err(error) => return Err(error).context("cannot list what Services depend on"),
        };
        objects.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            Some(_) | None => return Ok(Some(objects)),
        }
    }
}

/// The token in a file.
fn token(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read --token-file {}", file.display()))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "--token-file {} must hold one token on one line, and nothing else",
            file.display()
        );
    }
    Ok(token.to_owned())
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    let error: Option<&kube::Error> = error.downcast_ref();
    matches!(error, Some(kube::Error::Api(status)) if status.code == 403)
}

/// What to do about an API that does not answer as it should.
fn refusal(url: &Uri, error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error
        && [401, 403].contains(&status.code)
    {
        return format!("the API at {url} wants a token; give the right one with --token-file");
    }
    format!(
        "no Kubernetes API answers at {url}; start `bindery up`, or say which one with --server, \
         --kubeconfig or $KUBECONFIG"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("token");
        let check = |text: &str| {
            fs::write(&file, text).expect("it is ours");
            token(&file).map_err(|error| error.to_string())
        };
        assert_eq!(check("  abc.d-e_f\n"), Ok("abc.d-e_f".to_owned()));
        for bad in ["", "\n", "one\ntwo\n", "two words", "gr\u{fc}n"] {
            let message = check(bad).expect_err(bad);
            assert!(message.contains("one token on one line"), "{message}");
        }
    }
}
