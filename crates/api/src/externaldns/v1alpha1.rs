//! Version `v1alpha1`: `DNSEndpoint`, as lenient as external-dns's own schema.

#![expect(
    clippy::duplicated_attributes,
    reason = "columns of one kind share types and paths"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The names that an object wants to have.
#[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "externaldns.k8s.io",
    version = "v1alpha1",
    kind = "DNSEndpoint",
    root = "DnsEndpoint",
    plural = "dnsendpoints",
    namespaced,
    status = "DnsEndpointStatus",
    derive = "PartialEq",
    derive = "Default",
    // The API server wants this link for every definition in a group under k8s.io.
    annotation(
        "api-approved.kubernetes.io",
        "https://github.com/kubernetes-sigs/external-dns/pull/2007"
    ),
    doc = "DNS names and where they point, in the form of external-dns.",
    printcolumn(name = "Endpoints", type_ = "integer", json_path = ".status.endpoints"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Accepted')].status"
    ),
    printcolumn(
        name = "Programmed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Programmed')].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsEndpointSpec {
    /// The names; each is judged and published on its own.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::endpoints")]
    pub endpoints: Vec<Option<Endpoint>>,
}

/// One name and where it points.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// The full DNS name, with or without a trailing dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,

    /// Where the name points, in the form of its record type: addresses for A and AAAA, a name for
    /// CNAME, text for TXT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,

    /// The record type: A, AAAA, CNAME, TXT, MX, NS, SRV, CAA, PTR, HTTPS, SVCB, TLSA or SSHFP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_type: Option<String>,

    /// Tells endpoints of the same name and type apart for providers that can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_identifier: Option<String>,

    /// How long resolvers may keep the records, in seconds. Nothing or 0: the zone's TTL.
    #[serde(rename = "recordTTL", skip_serializing_if = "Option::is_none")]
    pub record_ttl: Option<i64>,

    /// Labels for the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Settings for one provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_specific: Option<Vec<ProviderSpecific>>,
}

/// A setting for one provider.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSpecific {
    /// Which setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What is known about the endpoints.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsEndpointStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many endpoints the object declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<i64>,

    /// The zone-file lines that were seen in DNS for this object, sealed for it. Bindery knows by them what
    /// is its own where the annotation was edited or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,

    /// Accepted: the endpoints are valid and have a zone. Programmed: they are served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
