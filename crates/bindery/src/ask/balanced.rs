//! Services with load balancers as the API lists them.

use bindery_sources::balancers::{BalancerClass, SERVICE_FINALIZER, ServiceView, service_view};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::live::Health;

/// The class by which a Service asks for a load balancer of Bindery.
pub(super) const CLASS: &str = "bindery.dev/lb";

/// The condition that Bindery writes.
const CONDITION: &str = "Programmed";

/// A Service as it was listed.
#[derive(Clone, Debug)]
pub(super) struct BalancedService(pub(super) Service);

impl BalancedService {
    /// Its namespace and name.
    pub(super) fn place(&self) -> (&str, &str) {
        let meta = &self.0.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        (namespace, meta.name.as_deref().unwrap_or_default())
    }

    /// As commands name it.
    pub(super) fn object(&self) -> String {
        let (namespace, name) = self.place();
        format!("service/{namespace}/{name}")
    }

    /// Whether Bindery has, or is about to have, a load balancer for it. One that names no class is known by what
    /// Bindery wrote into it: whether it takes such Services, only Bindery knows.
    pub(super) fn is_ours(&self) -> bool {
        self.is_kept() || self.is_balanced() && self.class() == Some(CLASS)
    }

    /// Whether it asks for a load balancer, of whomever.
    pub(super) fn is_balanced(&self) -> bool {
        let spec = self.0.spec.as_ref();
        spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
    }

    /// The class that it names.
    pub(super) fn class(&self) -> Option<&str> {
        self.0.spec.as_ref()?.load_balancer_class.as_deref()
    }

    /// Whether Bindery keeps it until its load balancer is gone.
    pub(super) fn is_kept(&self) -> bool {
        let mut finalizers = self.0.metadata.finalizers.iter().flatten();
        finalizers.any(|one| one == SERVICE_FINALIZER)
    }

    pub(super) fn is_going(&self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }

    /// What it asks for, as the controllers read it.
    pub(super) fn view(&self) -> Option<ServiceView> {
        let class = BalancerClass {
            name: self.class().unwrap_or(CLASS).into(),
            takes_unnamed: true,
        };
        service_view(&self.0, &class)
    }

    /// The addresses and names that its status has.
    pub(super) fn ingress(&self) -> Vec<&str> {
        let status = self.0.status.as_ref();
        let balancer = status.and_then(|status| status.load_balancer.as_ref());
        let ingress = balancer.and_then(|one| one.ingress.as_ref());
        let ingress = ingress.into_iter().flatten();
        ingress
            .filter_map(|one| one.ip.as_deref().or(one.hostname.as_deref()))
            .collect()
    }

    /// What Bindery says of its load balancer.
    pub(super) fn condition(&self) -> Option<&Condition> {
        let conditions = self.0.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|one| one.type_ == CONDITION)
    }

    /// How it is, in a word, and what there is to say.
    pub(super) fn row(&self) -> (Health, &str, &str) {
        let Some(condition) = self.condition() else {
            return (
                Health::Pending,
                "Pending",
                "Bindery has not looked at it yet",
            );
        };
        let (reason, message) = (condition.reason.as_str(), condition.message.as_str());
        let health = match (condition.status.as_str(), reason) {
            _ if self.is_going() => return (Health::Pending, "Deleting", message),
            ("True", "PartiallyProgrammed") => Health::Failing,
            ("True", _) => Health::Ready,
            (_, "Pending" | "Progressing") => Health::Pending,
            _ => Health::Failing,
        };
        (health, reason, message)
    }
}
