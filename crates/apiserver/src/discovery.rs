//! What the API says about itself: versions, groups, resources, health.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, Kinds, group_version};
use super::service::Reply;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Answers a path that is about the API itself, `None` if it is about objects.
pub(crate) fn answer(
    kinds: &Kinds,
    segments: &[Cow<'_, str>],
    parts: &Parts,
    body: &Bytes,
) -> Result<Option<Reply>, Failure> {
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    if let ["apis", "authorization.k8s.io", "v1", review] = *segments
        && parts.method == Method::POST
    {
        return access_review(review, body).map(Some);
    }
    if parts.method != Method::GET {
        return Ok(None);
    }
    let aggregated = wants_aggregated(&parts.headers);
    let reply = match *segments {
        [] => Reply::ok(&json!({"paths": ["/api", "/apis", "/openapi/v3", "/version"]})),
        ["healthz" | "livez" | "readyz", ..] => Reply::json(StatusCode::OK, "ok"),
        ["version"] => Reply::ok(&version()),
        ["api"] if aggregated => aggregate(kinds, true),
        ["apis"] if aggregated => aggregate(kinds, false),
        ["api"] => Reply::ok(&json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => {
            let groups: Vec<Value> = groups(kinds).iter().map(api_group).collect();
            Reply::ok(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", group] => {
            let groups = groups(kinds);
            let found = groups.iter().find(|held| held.0 == group);
            Reply::ok(&api_group(&found.ok_or_else(Failure::no_resource)?.clone()))
        }
        ["api", version] => resources(kinds, "", version)?,
        ["apis", group, version] => resources(kinds, group, version)?,
        ["openapi", "v2"] => super::schema_documents::answer_v2(&parts.headers),
        ["openapi", "v3", ref rest @ ..] => super::schema_documents::answer(kinds, rest)?,
        _ => return Ok(None),
    };
    Ok(Some(reply))
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0+bindery", "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    accept.unwrap_or_default().split(',').any(|media_type| {
        media_type.contains("as=APIGroupDiscoveryList")
            && media_type.contains("g=apidiscovery.k8s.io")
            && media_type
                .split(';')
                .any(|parameter| parameter.trim() == "v=v2")
    })
}

type Group = (String, Vec<String>);

/// All groups but the core one, with their versions, the preferred first.
fn groups(kinds: &Kinds) -> Vec<Group> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(kind.group.to_string()).or_default();
        if !versions.iter().any(|version| **version == *kind.version) {
            versions.push(kind.version.to_string());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| Reverse(priority(version)));
    }
    groups.into_iter().collect()
}

/// Orders versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest.
fn priority(version: &str) -> (u8, u32, u32, Reverse<String>) {
    let unranked = (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return unranked;
    };
    let digits = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else {
        return unranked;
    };
    let stage = &rest[digits..];
    let minor = |text: &str| text.parse().unwrap_or(0);
    let none = Reverse(String::new());
    if stage.is_empty() {
        (3, major, 0, none)
    } else if let Some(beta) = stage.strip_prefix("beta") {
        (2, major, minor(beta), none)
    } else if let Some(alpha) = stage.strip_prefix("alpha") {
        (1, major, minor(alpha), none)
    } else {
        unranked
    }
}

fn api_group((group, versions): &Group) -> Value {
    let each: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": group,
        "preferredVersion": each[0], "versions": each,
    })
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Result<Reply, Failure> {
    let mut listed = Vec::new();
    for kind in kinds
        .iter()
        .filter(|kind| *kind.group == *group && *kind.version == *version)
    {
        let mut resource = json!({
            "name": &*kind.plural, "singularName": &*kind.singular, "namespaced": kind.namespaced,
            "kind": &*kind.kind, "verbs": VERBS, "storageVersionHash": "",
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        listed.push(resource);
        for (part, response) in parts_of(kind) {
            let mut resource = json!({
                "name": format!("{}/{part}", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": response.2, "verbs": PART_VERBS,
            });
            if part == "scale" {
                resource["group"] = json!(response.0);
                resource["version"] = json!(response.1);
            }
            listed.push(resource);
        }
    }
    if listed.is_empty() {
        return Err(Failure::no_resource());
    }
    Ok(Reply::ok(&json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": group_version(group, version), "resources": listed,
    })))
}

/// The subresources of a kind with group, version and kind of what they answer.
fn parts_of(kind: &Kind) -> Vec<(&'static str, (&str, &str, &str))> {
    let mut parts = Vec::new();
    if kind.scale.is_some() {
        parts.push(("scale", ("autoscaling", "v1", "Scale")));
    }
    if &*kind.resource == "namespaces" {
        parts.push(("finalize", ("", "v1", "Namespace")));
    }
    if kind.status {
        parts.push(("status", (&*kind.group, &*kind.version, &*kind.kind)));
    }
    if &*kind.resource == "namespaces" {
        parts.push(("finalize", ("", "v1", "Namespace")));
    }
    parts
}

fn aggregate(kinds: &Kinds, core_group: bool) -> Reply {
    let groups = if core_group {
        vec![(String::new(), vec!["v1".to_owned()])]
    } else {
        groups(kinds)
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = kinds
                        .iter()
                        .filter(|kind| *kind.group == **group && *kind.version == **version)
                        .map(|kind| aggregated_resource(kind))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core_group {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let mut reply = Reply::ok(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items,
    }));
    reply.content_type = AGGREGATED;
    reply
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": &*kind.plural, "singularResource": &*kind.singular,
        "responseKind": response((&kind.group, &kind.version, &kind.kind)),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": VERBS,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let parts: Vec<Value> = parts_of(kind)
        .into_iter()
        .map(|(part, kind)| {
            json!({"subresource": part, "responseKind": response(kind), "verbs": PART_VERBS})
        })
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = Value::Array(parts);
    }
    resource
}

fn review_kind(review: &str) -> &'static str {
    match review {
        "subjectaccessreviews" => "SubjectAccessReview",
        "selfsubjectrulesreviews" => "SelfSubjectRulesReview",
        _ => "SelfSubjectAccessReview",
    }
}

/// Whoever reaches this API may do everything, and is told so.
fn access_review(review: &str, body: &Bytes) -> Result<Reply, Failure> {
    // What is asked does not matter, so a body in protobuf need not be read.
    let mut answer = super::admission::parse_json(body).map_or_else(
        |_| json!({"kind": review_kind(review), "apiVersion": "authorization.k8s.io/v1"}),
        |(answer, _)| answer,
    );
    match review {
        "selfsubjectaccessreviews" | "subjectaccessreviews" => {
            answer["status"] = json!({"allowed": true});
        }
        "selfsubjectrulesreviews" => {
            answer["status"] = json!({
                "incomplete": false, "nonResourceRules": [],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            });
        }
        _ => return Err(Failure::no_resource()),
    }
    let mut reply = Reply::ok(&answer);
    reply.code = StatusCode::CREATED;
    Ok(reply)
}
