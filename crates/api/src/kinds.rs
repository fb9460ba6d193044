//! The table of kinds: what differs from one kind to another stands in its row, and nowhere else.

use bindery_core::Kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::{CustomResourceExt, Resource};
use serde_json::Value;

use crate::bindy::v1beta1::{
    ARecord, ARecordSpec, AaaaRecord, AaaaRecordSpec, CaaRecord, CaaRecordSpec, CnameRecord,
    CnameRecordSpec, DnsZone, MxRecord, MxRecordSpec, NsRecord, NsRecordSpec, PtrRecord,
    PtrRecordSpec, SrvRecord, SrvRecordSpec, TxtRecord, TxtRecordSpec,
};
use crate::desired::{self, Spec};
use crate::externaldns::v1alpha1::DnsEndpoint;

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

/// What an object of a kind does for DNS; it decides which controller the object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It declares a zone.
    Zone,
    /// It publishes one record set, in a zone that selects it or that it names.
    Record,
    /// It publishes a list of record sets, each in the zone that its name is in.
    Endpoints,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Zone, Self::Record, Self::Endpoints];
}

/// Which objects of a kind are listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// All of them, as far as the settings allow.
    All,
    /// Those that a label selector matches, written as Kubernetes writes it.
    Labelled(&'static str),
}

/// One row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// The kind.
    pub kind: Kind,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// What its objects do for DNS.
    pub role: Role,
    /// Which of its objects are listed and watched.
    pub watch: Watch,
    /// Group, version, kind and plural, as the API server knows them.
    pub resource: fn() -> ApiResource,
    /// The definition that `bindery crds` prints.
    pub(crate) crd: fn() -> CustomResourceDefinition,
    /// Reads and checks a spec.
    pub read: fn(Value) -> Spec,
}

/// Every kind, in the order of [`Kind::ALL`].
#[rustfmt::skip]
pub static KINDS: [KindInfo; Kind::ALL.len()] = [
    row::<DnsZone>    (Kind::DnsZone,     Scope::Namespaced, Role::Zone,      Watch::All, desired::zone),
    row::<ARecord>    (Kind::ARecord,     Scope::Namespaced, Role::Record,    Watch::All, desired::record::<ARecordSpec>),
    row::<AaaaRecord> (Kind::AaaaRecord,  Scope::Namespaced, Role::Record,    Watch::All, desired::record::<AaaaRecordSpec>),
    row::<CnameRecord>(Kind::CnameRecord, Scope::Namespaced, Role::Record,    Watch::All, desired::record::<CnameRecordSpec>),
    row::<TxtRecord>  (Kind::TxtRecord,   Scope::Namespaced, Role::Record,    Watch::All, desired::record::<TxtRecordSpec>),
    row::<MxRecord>   (Kind::MxRecord,    Scope::Namespaced, Role::Record,    Watch::All, desired::record::<MxRecordSpec>),
    row::<NsRecord>   (Kind::NsRecord,    Scope::Namespaced, Role::Record,    Watch::All, desired::record::<NsRecordSpec>),
    row::<SrvRecord>  (Kind::SrvRecord,   Scope::Namespaced, Role::Record,    Watch::All, desired::record::<SrvRecordSpec>),
    row::<CaaRecord>  (Kind::CaaRecord,   Scope::Namespaced, Role::Record,    Watch::All, desired::record::<CaaRecordSpec>),
    row::<PtrRecord>  (Kind::PtrRecord,   Scope::Namespaced, Role::Record,    Watch::All, desired::record::<PtrRecordSpec>),
    row::<DnsEndpoint>(Kind::DnsEndpoint, Scope::Namespaced, Role::Endpoints, Watch::All, desired::endpoints),
];

/// The row of a kind.
#[must_use]
pub fn info(kind: Kind) -> &'static KindInfo {
    // The table has a row for each kind, in their order: a test compares them.
    &KINDS[kind as usize]
}

/// What objects of a kind do for DNS.
#[must_use]
pub fn role(kind: Kind) -> Role {
    info(kind).role
}

const fn row<K: Resource<DynamicType = ()> + CustomResourceExt>(
    kind: Kind,
    scope: Scope,
    role: Role,
    watch: Watch,
    read: fn(Value) -> Spec,
) -> KindInfo {
    KindInfo {
        kind,
        scope,
        role,
        watch,
        resource: resource::<K>,
        crd: K::crd,
        read,
    }
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row_and_the_row_its_definition() {
        for (kind, row) in Kind::ALL.into_iter().zip(&KINDS) {
            assert_eq!(row.kind, kind);
            let (crd, resource) = ((row.crd)(), (row.resource)());
            assert_eq!(crd.spec.names.kind, kind.as_str());
            assert_eq!(resource.kind, kind.as_str());
            assert_eq!(resource.api_version, kind.api_version());
            let scope = match row.scope {
                Scope::Namespaced => "Namespaced",
                Scope::Cluster => "Cluster",
            };
            assert_eq!(crd.spec.scope, scope, "{}", kind.as_str());
        }
    }
}
