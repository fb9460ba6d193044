//! The built-in kinds, one line each: what sources read, what clusters of name servers are made of, and what
//! `kubectl` and controllers need. A kind that none of them uses is not served (docs/embedded-api.md).

use std::sync::Arc;

use crate::table::builtin_columns;

use super::{Generation, Habit, Kind, ScalePaths, group_version};

/// What a built-in kind has beyond the usual verbs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// Lives in a namespace.
    Namespace,
    /// A `/status` subresource.
    Status,
    /// A `/scale` subresource over `spec.replicas`.
    Scale,
    /// A generation that follows `spec`.
    Generation,
    /// A replace must name the resourceVersion.
    StrictVersion,
    /// A replace creates what is missing.
    Upsert,
    /// A deletion answers with the object.
    Echo,
    /// Listed by `kubectl get all`.
    All,
}

use Has::{All, Echo, Namespace, Scale, Status, StrictVersion, Upsert};
const GENERATION: Has = Has::Generation;

type Line = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [Has],
    &'static str,
);

/// Group, version, plural, kind, traits, short names. Extra field selectors stand in [`selectable`].
#[rustfmt::skip]
const TABLE: &[Line] = &[
    ("", "v1", "configmaps", "ConfigMap", &[Namespace], "cm"),
    ("", "v1", "endpoints", "Endpoints", &[Namespace], "ep"),
    ("", "v1", "events", "Event", &[Namespace, Upsert], "ev"),
    ("", "v1", "namespaces", "Namespace", &[Status], "ns"),
    ("", "v1", "nodes", "Node", &[Status], "no"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
     &[Namespace, Status, Echo], "pvc"),
    ("", "v1", "pods", "Pod", &[Namespace, Status, GENERATION, Echo, All], "po"),
    ("", "v1", "secrets", "Secret", &[Namespace], ""),
    ("", "v1", "serviceaccounts", "ServiceAccount", &[Namespace, Echo], "sa"),
    ("", "v1", "services", "Service", &[Namespace, Status, Echo, All], "svc"),
    ("events.k8s.io", "v1", "events", "Event", &[Namespace, Upsert], "ev"),
    ("coordination.k8s.io", "v1", "leases", "Lease", &[Namespace, StrictVersion, Upsert], ""),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", &[Namespace, GENERATION], ""),
    ("networking.k8s.io", "v1", "ingressclasses", "IngressClass", &[GENERATION], ""),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", &[Namespace, Status, GENERATION], "ing"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy",
     &[Namespace, GENERATION], "netpol"),
    ("apps", "v1", "controllerrevisions", "ControllerRevision", &[Namespace], ""),
    ("apps", "v1", "daemonsets", "DaemonSet", &[Namespace, Status, GENERATION, All], "ds"),
    ("apps", "v1", "deployments", "Deployment",
     &[Namespace, Status, Scale, GENERATION, All], "deploy"),
    ("apps", "v1", "replicasets", "ReplicaSet", &[Namespace, Status, Scale, GENERATION, All], "rs"),
    ("apps", "v1", "statefulsets", "StatefulSet",
     &[Namespace, Status, Scale, GENERATION, All], "sts"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget",
     &[Namespace, Status, GENERATION], "pdb"),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", &[], ""),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", &[], ""),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", &[Namespace], ""),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", &[Namespace], ""),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
     &[Status, GENERATION, StrictVersion], "crd,crds"),
];

pub(super) fn kinds() -> Vec<Arc<Kind>> {
    TABLE.iter().map(|line| Arc::new(kind(line))).collect()
}

fn kind(&(group, version, plural, kind, traits, short_names): &Line) -> Kind {
    let has = |what| traits.contains(&what);
    // Both spellings of Event are one set of objects, stored in the older one.
    let stored_group = if plural == "events" { "" } else { group };
    let resource = if stored_group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{stored_group}")
    };
    Kind {
        group: group.into(),
        version: version.into(),
        api_version: group_version(group, version).into(),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: short_names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect(),
        categories: if has(All) {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: has(Namespace),
        resource: resource.into(),
        stored_as: group_version(stored_group, version).into(),
        status: has(Status),
        scale: has(Scale).then(|| ScalePaths {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            selector: None,
        }),
        generation: if has(GENERATION) {
            Generation::Spec
        } else {
            Generation::Never
        },
        habits: habits(traits),
        selectable: selectable(plural)
            .iter()
            .map(|&path| path.to_owned())
            .collect(),
        deprecated: None,
        columns: builtin_columns(kind),
        custom: None,
    }
}

fn habits(traits: &[Has]) -> Vec<Habit> {
    let has = |what| traits.contains(&what);
    let held = [
        (!has(StrictVersion), Habit::Unconditional),
        (has(Upsert), Habit::Upsert),
        (has(Echo), Habit::EchoDeleted),
    ];
    held.into_iter()
        .filter_map(|(held, habit)| held.then_some(habit))
        .collect()
}

/// Field selectors beyond `metadata.name` and `metadata.namespace`.
fn selectable(plural: &str) -> &'static [&'static str] {
    match plural {
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "secrets" => &["type"],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "replicasets" => &["status.replicas"],
        "services" => &["spec.clusterIP", "spec.type"],
        _ => &[],
    }
}
