//! Bindery's own kinds in an API.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep};

use crate::live::resource;

/// How long an API may take to serve a kind that was installed.
const ESTABLISH_MAX: Duration = Duration::from_secs(30);
const ESTABLISH_POLL: Duration = Duration::from_millis(50);

/// Installs the kinds, or brings them up to date, and waits until they are served.
pub(crate) async fn install(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("bindery").force();
    let apply = bindery_api::crds().into_iter().map(|crd| {
        let (api, params) = (&api, &params);
        async move {
            let name = crd.name_any();
            let applied = api.patch(&name, params, &Patch::Apply(&crd)).await;
            applied.with_context(|| format!("cannot install the kind {name}"))
        }
    });
    try_join_all(apply).await?;
    let deadline = Instant::now() + ESTABLISH_MAX;
    loop {
        let missing = fetch_missing(client).await?;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the API does not serve {}", missing.join(", "));
        }
        sleep(ESTABLISH_POLL).await;
    }
}

/// Makes sure that an API serves the kinds and lets us list them, in these namespaces or in all. Nothing
/// else is asked of it than what the controllers need anyway.
pub(crate) async fn check_served(client: &Client, namespaces: &[String]) -> Result<()> {
    let places: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.iter().map(|one| Some(one.as_str())).collect()
    };
    let (mut missing, mut denied) = (BTreeSet::new(), BTreeSet::new());
    // Whoever declares no name servers needs no rights to see them.
    let crds = bindery_api::KINDS.iter().map(|row| (row.crd)());
    for crd in crds {
        let resource = resource(&crd);
        let places = if crd.spec.scope == "Cluster" {
            &[None]
        } else {
            places.as_slice()
        };
        for namespace in places {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let place = namespace.map_or("all namespaces", |one| one);
            match api.list_metadata(&ListParams::default().limit(1)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    missing.insert(crd.name_any());
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    denied.insert(format!("{} in {place}", resource.plural));
                }
                Err(error) => {
                    let what = format!("cannot list {} in {place}", resource.plural);
                    return Err(error).context(what);
                }
            }
        }
    }
    let join = |words: BTreeSet<String>| words.into_iter().collect::<Vec<_>>().join(", ");
    if !missing.is_empty() {
        bail!(
            "the cluster does not serve {}; install the kinds with `bindery crds | kubectl apply -f -`",
            join(missing)
        );
    }
    if !denied.is_empty() {
        bail!(
            "the cluster does not let Bindery list {}; give it the rules of deploy/rbac.yaml, or name the \
             namespaces that it may read with --namespace",
            join(denied)
        );
    }
    Ok(())
}

/// The names of the kinds that an API does not serve.
async fn fetch_missing(client: &Client) -> Result<Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let installed = api
        .list(&ListParams::default())
        .await
        .context("cannot list the kinds")?;
    let served: BTreeMap<String, bool> = installed
        .iter()
        .map(|crd| (crd.name_any(), is_established(crd)))
        .collect();
    let wanted = bindery_api::crds().into_iter().map(|crd| crd.name_any());
    Ok(wanted
        .filter(|name| !served.get(name).copied().unwrap_or_default())
        .collect())
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|found| found.type_ == "Established" && found.status == "True")
}
