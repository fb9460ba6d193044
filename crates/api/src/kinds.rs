//! The table of kinds as Kubernetes sees it, made of the rows in `bindery-core`.

use bindery_core::Kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::core::object::HasSpec;
use kube::{CustomResourceExt, Resource};

use crate::desired::{Declares, Spec};
use crate::raw::RawObject;

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

/// Which objects of a kind are listed and watched, by selectors that the API server applies.
///
/// An object that leaves the selection is told as deleted. So a selector is for kinds whose objects are only
/// read: one that holds our finalizer would keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The label selector, as Kubernetes writes it.
    pub labels: Option<&'static str>,
    /// The field selector, as Kubernetes writes it.
    pub fields: Option<&'static str>,
}

impl Watch {
    /// All of them, as far as the settings allow.
    pub const ALL: Self = Self {
        labels: None,
        fields: None,
    };
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
    pub crd: fn() -> CustomResourceDefinition,
    /// Reads and checks an object. It is shown all of it; what it returns is all that is kept of the body.
    pub read: fn(&RawObject) -> Spec,
}

/// A table of kinds: a row for each, in the order of [`Kind::ALL`].
pub type Kinds = [KindInfo; Kind::ALL.len()];

macro_rules! table {
    ($(
        #[doc = $doc:literal]
        $kind:ident $word:literal $group:ident $scope:ident $role:ident $watch:ident;
    )*) => {
        /// Every kind, in the order of [`Kind::ALL`].
        pub static KINDS: Kinds = [
            $(row::<crate::$kind>(Kind::$kind, Scope::$scope, Role::$role, Watch::$watch),)*
        ];
    };
}

bindery_core::every_kind!(table);

/// The row of a kind.
#[must_use]
pub fn info(kind: Kind) -> &'static KindInfo {
    // The rows are made of the same table as the kinds, in the same order.
    &KINDS[kind as usize]
}

/// What objects of a kind do for DNS.
#[must_use]
pub fn role(kind: Kind) -> Role {
    info(kind).role
}

const fn row<K>(kind: Kind, scope: Scope, role: Role, watch: Watch) -> KindInfo
where
    K: Resource<DynamicType = ()> + CustomResourceExt + HasSpec,
    K::Spec: Declares,
{
    KindInfo {
        kind,
        scope,
        role,
        watch,
        resource: resource::<K>,
        crd: K::crd,
        read: read::<K::Spec>,
    }
}

/// Of an object with a spec, that is what counts.
fn read<S: Declares>(object: &RawObject) -> Spec {
    S::desired(object.field("spec"))
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

    #[test]
    fn every_kind_stands_in_the_permissions_and_in_the_commands_for_all_kinds() {
        let permissions = include_str!("../../../deploy/rbac.yaml");
        let backup = include_str!("../../../docs/backup.md");
        let uninstall = include_str!("../../../docs/uninstall.md");
        for row in &KINDS {
            let plural = (row.resource)().plural;
            let has = |text: &str, word: &str| {
                let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '/');
                words.any(|one| one == word)
            };
            assert!(has(permissions, &plural), "deploy/rbac.yaml: {plural}");
            let definition = format!("{plural}.{}", (row.resource)().group);
            let mut names = permissions.split(|c: char| c.is_whitespace() || "[],".contains(c));
            assert!(
                names.any(|one| one == definition),
                "deploy/rbac.yaml: {definition}"
            );
            let status = format!("{plural}/status");
            assert!(has(permissions, &status), "deploy/rbac.yaml: {status}");
            assert!(has(backup, &plural), "docs/backup.md: {plural}");
            assert!(has(uninstall, &plural), "docs/uninstall.md: {plural}");
        }
    }
}
