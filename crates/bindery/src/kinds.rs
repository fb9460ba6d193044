//! Bindery's own kinds in an API.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep};

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

/// The names of the kinds that an API does not serve.
pub(crate) async fn fetch_missing(client: &Client) -> Result<Vec<String>> {
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
