//! The load balancers of Azure: which subscription, who we are, and for which Services.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use bindery_azure::{AzureBalancer, AzureConfig};
use bindery_core::Problem;
use bindery_engine::supervisor::Supervisor;
use bindery_kube::{BalancersHandle, Replica};
use kube::Client;
use serde_saphyr::Options;

use crate::balancing::start_controllers;
use crate::surroundings;

/// Nodes that a file may have: it has about thirty.
const NODES_MAX: usize = 1_000;

/// What gives Services their addresses, and pods their gateways, in Azure.
pub(crate) struct AzureBalancing {
    provider: AzureBalancer,
    /// The gateway, for people.
    what: String,
}

impl AzureBalancing {
    /// Reads the file of `--azure-config`. Azure is not asked yet: where it does not answer, everything else goes on.
    ///
    /// # Errors
    /// If the file is missing or has a mistake.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let path = path.ok_or_else(|| {
            anyhow!(
                "--load-balancer azure needs --azure-config FILE (docs/azure.md has an example)"
            )
        })?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --azure-config {}", path.display()))?;
        let provider = read(&text).with_context(|| format!("--azure-config {}", path.display()))?;
        let what = provider.gateway().to_owned();
        Ok(Self { provider, what })
    }

    /// Starts engine and controllers as tasks of `work`.
    pub(crate) fn start(
        self,
        client: &Client,
        replica: &Replica,
        work: &mut Supervisor,
    ) -> BalancersHandle {
        tracing::info!(
            service_gateway = self.what,
            "Services get load balancers of Azure"
        );
        // The cluster's own cloud controller does not run in this mode: Services that name no class are ours.
        start_controllers(Arc::new(self.provider), true, (client, replica), work)
    }
}

fn read(text: &str) -> Result<AzureBalancer> {
    let config: AzureConfig = serde_saphyr::from_str_with_options(text, options())?;
    let authorities = match &config.authorities_file {
        Some(path) => {
            let read = std::fs::read(path);
            Some(read.with_context(|| format!("cannot read authoritiesFile {}", path.display()))?)
        }
        None => None,
    };
    let variable = |name: &str| surroundings::variable(name)?.into_string().ok();
    let settings = config.settings(variable, authorities);
    let settings = settings.map_err(|problems| anyhow!(Problem::summary(&problems)))?;
    Ok(AzureBalancer::new(settings)?)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the documentation.
    fn example() -> &'static str {
        let page = include_str!("../../../docs/azure.md");
        let begin = page.find("```yaml\n").expect("it has an example") + "```yaml\n".len();
        let end = page[begin..].find("```").expect("it ends");
        &page[begin..begin + end]
    }

    fn problem(text: &str) -> String {
        let error = read(text).err().expect("it is wrong");
        format!("{error:#}")
    }

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let provider = read(example()).expect("it is right");
        assert_eq!(provider.gateway(), "servicegateway");
    }

    #[test]
    fn mistakes_are_told_with_their_field() {
        let changed = |from: &str, to: &str| {
            assert!(example().contains(from), "{from}");
            example().replace(from, to)
        };
        let typo = problem(&changed("vnetName", "vnetname"));
        assert!(typo.contains("vnetname"), "{typo}");
        let name = problem(&changed("resourceGroup: prod", "resourceGroup: a/b"));
        assert!(name.contains("resourceGroup: give a name"), "{name}");
        let cluster = problem(&changed("clusterName: prod-1", "clusterName: ''"));
        assert!(cluster.contains("clusterName"), "{cluster}");
        let nobody = problem(&changed("federatedTokenFile", "# federatedTokenFile"));
        assert!(nobody.contains("give clientSecretFile"), "{nobody}");
        let missing = AzureBalancing::open(None).err().expect("it needs a file");
        assert!(missing.to_string().contains("--azure-config"), "{missing}");
    }
}
