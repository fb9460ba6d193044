//! Load balancers of Azure: Services get public addresses, and pods a way out, through a Service Gateway.
//!
//! [`AzureBalancer`] is the provider. It speaks to Azure's resource manager: public IPs, load balancers,
//! NAT gateways, and the gateway's map of services and addresses. Whose a resource is, its tags say.
//!
//! It must *never* show, change or remove a resource that does not have this cluster's tag, print a secret, or
//! see Kubernetes.

mod admission;
mod arm;
mod config;
mod failure;
mod gateway;
mod identity;
mod names;
mod provider;
mod secret;
mod settings;
mod shape;
mod transport;
mod wire;

pub use config::{AzureConfig, AzureIdentityConfig};
pub use identity::AzureCredential;
pub use provider::AzureBalancer;
pub use secret::AzureSecret;
pub use settings::{AzureEndpoints, AzureSettings, AzureSetupError, AzureTimes};
pub use transport::{AzureSilence, AzureWire};
