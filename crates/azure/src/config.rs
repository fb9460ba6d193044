//! The file of settings, as people write it.

use std::path::PathBuf;

use bindery_core::Problem;
use serde::Deserialize;

use crate::identity::AzureCredential;
use crate::secret::AzureSecret;
use crate::settings::{AzureEndpoints, AzureSettings, AzureTimes};

/// The name of the gateway where nobody names another.
const GATEWAY: &str = "servicegateway";

/// The file of `--azure-config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AzureConfig {
    subscription_id: String,
    #[serde(default)]
    network_resource_subscription_id: Option<String>,
    resource_group: String,
    location: String,
    #[serde(default)]
    service_gateway_name: Option<String>,
    vnet_name: String,
    #[serde(default)]
    vnet_resource_group: Option<String>,
    cluster_name: String,
    #[serde(default)]
    identity: AzureIdentityConfig,
    #[serde(default)]
    endpoints: EndpointsText,
    /// A file of certificates of authorities that are trusted beside those of the machine, in PEM form.
    #[serde(default)]
    pub authorities_file: Option<PathBuf>,
}

/// Who we are, as people write it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct AzureIdentityConfig {
    tenant_id: Option<String>,
    client_id: Option<String>,
    client_secret_file: Option<PathBuf>,
    federated_token_file: Option<PathBuf>,
    managed_identity: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EndpointsText {
    management: Option<String>,
    authority: Option<String>,
    metadata: Option<String>,
    audience: Option<String>,
}

impl AzureConfig {
    /// The settings. What the file does not say of the identity, the variables do that Azure's workload identity gives
    /// to a pod.
    ///
    /// # Errors
    /// If something is missing or wrong, each thing once.
    pub fn settings(
        self,
        variable: impl Fn(&str) -> Option<String>,
        authorities: Option<Vec<u8>>,
    ) -> Result<AzureSettings, Vec<Problem>> {
        let credential = self.identity.credential(&variable)?;
        let default = AzureEndpoints::default();
        let EndpointsText {
            management,
            authority,
            metadata,
            audience,
        } = self.endpoints;
        let authority = authority.or_else(|| variable("AZURE_AUTHORITY_HOST"));
        let management = management.unwrap_or(default.management);
        let group = self.resource_group;
        let subscription = self.network_resource_subscription_id;
        let settings = AzureSettings {
            subscription: subscription.unwrap_or(self.subscription_id),
            location: self.location,
            service_gateway: self
                .service_gateway_name
                .unwrap_or_else(|| GATEWAY.to_owned()),
            virtual_network: self.vnet_name,
            virtual_network_group: self.vnet_resource_group.unwrap_or_else(|| group.clone()),
            resource_group: group,
            cluster: self.cluster_name,
            endpoints: AzureEndpoints {
                audience: audience.unwrap_or_else(|| management.clone()),
                management,
                authority: authority.unwrap_or(default.authority),
                metadata: metadata.unwrap_or(default.metadata),
            },
            credential,
            authorities,
            times: AzureTimes::default(),
        };
        let problems = settings.problems();
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(problems)
        }
    }
}

impl AzureIdentityConfig {
    fn credential(
        self,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Result<AzureCredential, Vec<Problem>> {
        let client = self.client_id.or_else(|| variable("AZURE_CLIENT_ID"));
        if self.managed_identity {
            return Ok(AzureCredential::ManagedIdentity { client });
        }
        let tenant = self.tenant_id.or_else(|| variable("AZURE_TENANT_ID"));
        let (Some(tenant), Some(client)) = (tenant, client) else {
            let message = "say who Bindery is: tenantId and clientId with clientSecretFile or federatedTokenFile, or \
                           managedIdentity: true; a pod with workload identity has AZURE_TENANT_ID and AZURE_CLIENT_ID";
            return Err(vec![Problem::invalid("identity", message)]);
        };
        let token_file = variable("AZURE_FEDERATED_TOKEN_FILE").map(PathBuf::from);
        let secret = variable("AZURE_CLIENT_SECRET");
        match (self.client_secret_file, self.federated_token_file) {
            (Some(_), Some(_)) => {
                let message =
                    "clientSecretFile and federatedTokenFile exclude each other: keep one";
                Err(vec![Problem::invalid("identity", message)])
            }
            (Some(path), None) => Ok(AzureCredential::ClientSecretFile {
                tenant,
                client,
                path,
            }),
            (None, Some(token_file)) => Ok(AzureCredential::WorkloadIdentity {
                tenant,
                client,
                token_file,
            }),
            (None, None) => match (token_file, secret) {
                (Some(token_file), _) => Ok(AzureCredential::WorkloadIdentity {
                    tenant,
                    client,
                    token_file,
                }),
                (None, Some(secret)) => Ok(AzureCredential::ClientSecret {
                    tenant,
                    client,
                    secret: AzureSecret::new(&secret),
                }),
                (None, None) => {
                    let message =
                        "give clientSecretFile, federatedTokenFile or managedIdentity: true";
                    Err(vec![Problem::invalid("identity", message)])
                }
            },
        }
    }
}
