//! Where the provider works: subscription, group, gateway, and how Azure is reached.

use std::time::Duration;

use bindery_core::Problem;
use thiserror::Error;

use crate::identity::AzureCredential;

/// The longest value of a tag.
const TAG_LEN_MAX: usize = 256;
/// The longest name of a resource group; other names are shorter.
const NAME_LEN_MAX: usize = 90;

/// Everything that the provider needs to know.
#[derive(Clone)]
pub struct AzureSettings {
    /// The subscription of the resource group.
    pub subscription: String,
    /// The resource group in which resources are made, with the gateway in it.
    pub resource_group: String,
    /// The region, such as `eastus2`.
    pub location: String,
    /// The name of the Service Gateway. Somebody else makes it.
    pub service_gateway: String,
    /// The name of the virtual network of the nodes.
    pub virtual_network: String,
    /// The resource group of the virtual network.
    pub virtual_network_group: String,
    /// What tells resources of this cluster from those of others: the value of a tag.
    pub cluster: String,
    /// Where Azure is.
    pub endpoints: AzureEndpoints,
    /// Who we are.
    pub credential: AzureCredential,
    /// Certificates of authorities that are trusted beside those of the machine, in PEM form.
    pub authorities: Option<Vec<u8>>,
    /// How long things may take.
    pub times: AzureTimes,
}

/// Where Azure is: another cloud, or an emulator, has other addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureEndpoints {
    /// The resource manager.
    pub management: String,
    /// Where tokens come from.
    pub authority: String,
    /// Where a machine asks for the token of its managed identity.
    pub metadata: String,
    /// For whom tokens are meant.
    pub audience: String,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AzureTimes {
    /// A connection.
    pub connect: Duration,
    /// A request, its answer included.
    pub request: Duration,
    /// How long to wait before an operation is looked at for the first time; each time it is twice as long.
    pub poll_first: Duration,
    /// How long to wait at most between two looks, where Azure does not ask for another time.
    pub poll_max: Duration,
    /// An operation, from the request to its end. What takes longer counts as lost.
    pub operation: Duration,
}

/// Why a provider cannot be made.
#[derive(Debug, Error)]
pub enum AzureSetupError {
    /// Settings are wrong.
    #[error("{}", Problem::summary(.problems))]
    Settings {
        /// What is wrong.
        problems: Vec<Problem>,
    },
    /// A certificate of an authority cannot be used.
    #[error("the certificates of authorities cannot be used: {why}")]
    Authorities {
        /// Why not.
        why: String,
    },
}

impl Default for AzureEndpoints {
    /// Those of Azure's public cloud.
    fn default() -> Self {
        Self {
            management: "https://management.azure.com".to_owned(),
            authority: "https://login.microsoftonline.com".to_owned(),
            metadata: "http://169.254.169.254".to_owned(),
            audience: "https://management.azure.com".to_owned(),
        }
    }
}

impl Default for AzureTimes {
    /// A public IP takes a second or two, a load balancer some seconds, so that most operations are looked at three
    /// or four times.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_mins(1),
            poll_first: Duration::from_millis(500),
            poll_max: Duration::from_secs(5),
            operation: Duration::from_mins(4),
        }
    }
}

impl AzureSettings {
    /// What is wrong with them.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (field, name) in [
            ("subscriptionId", &self.subscription),
            ("resourceGroup", &self.resource_group),
            ("location", &self.location),
            ("serviceGatewayName", &self.service_gateway),
            ("vnetName", &self.virtual_network),
            ("vnetResourceGroup", &self.virtual_network_group),
        ] {
            if !is_name(name) {
                let message = "give a name of letters, digits and . _ - ( )";
                problems.push(Problem::invalid(field, message));
            }
        }
        let cluster = &self.cluster;
        let is_printable = cluster.chars().all(|one| !one.is_control());
        if cluster.trim().is_empty() || cluster.len() > TAG_LEN_MAX || !is_printable {
            let message = "give a name of at most 256 characters that no other cluster in the resource group has";
            problems.push(Problem::invalid("clusterName", message));
        }
        let AzureEndpoints {
            management,
            authority,
            metadata,
            audience: _,
        } = &self.endpoints;
        for (field, url) in [
            ("endpoints.management", management),
            ("endpoints.authority", authority),
            ("endpoints.metadata", metadata),
        ] {
            if !is_base(url) {
                let message = "give an address such as https://management.azure.com";
                problems.push(Problem::invalid(field, message));
            }
        }
        problems
    }

    /// The path of a resource of the group, such as `loadBalancers/NAME`, or of what is in it.
    pub(crate) fn path(&self, tail: &str) -> String {
        self.path_in(&self.resource_group, tail)
    }

    /// The path of the gateway, or of what is in it.
    pub(crate) fn gateway_path(&self, tail: &str) -> String {
        let gateway = &self.service_gateway;
        self.path(&format!("serviceGateways/{gateway}{tail}"))
    }

    /// The path of the virtual network.
    pub(crate) fn network_path(&self) -> String {
        let network = format!("virtualNetworks/{}", self.virtual_network);
        self.path_in(&self.virtual_network_group, &network)
    }

    fn path_in(&self, group: &str, tail: &str) -> String {
        let subscription = &self.subscription;
        format!(
            "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/{tail}"
        )
    }
}

/// Whether a text is a name that may stand in a path as it is.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-()".contains(&byte);
    let is_dots = text.bytes().all(|byte| byte == b'.');
    !is_dots && text.len() <= NAME_LEN_MAX && text.bytes().all(is_plain)
}

/// Whether a text is the address of a server.
fn is_base(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        is_http && uri.authority().is_some() && uri.query().is_none()
    })
}
