//! The `CustomResourceDefinition`s of every kind, in a fixed order.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::bindy::v1beta1 as bindy;
use crate::externaldns::v1alpha1 as externaldns;

/// All definitions: zones, records, endpoints.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        bindy::DnsZone::crd(),
        bindy::ARecord::crd(),
        bindy::AaaaRecord::crd(),
        bindy::CnameRecord::crd(),
        bindy::TxtRecord::crd(),
        bindy::MxRecord::crd(),
        bindy::NsRecord::crd(),
        bindy::SrvRecord::crd(),
        bindy::CaaRecord::crd(),
        bindy::PtrRecord::crd(),
        externaldns::DnsEndpoint::crd(),
    ];
    for crd in &mut crds {
        let kind = crd.spec.names.kind.clone();
        for schema in crd
            .spec
            .versions
            .iter_mut()
            .filter_map(|version| version.schema.as_mut())
        {
            if let Some(root) = schema.open_api_v3_schema.as_mut() {
                drop_rust_traces(root);
                // external-dns requires no field at all; ours may rely on a spec being there.
                if kind == "DNSEndpoint" {
                    default_spec(root);
                }
            }
        }
    }
    crds
}

/// All definitions as one YAML stream.
#[must_use]
pub fn crds_yaml() -> String {
    crd_files().into_iter().map(|(_, yaml)| yaml).collect()
}

/// Each definition as a YAML document, with the name of the file it is kept in.
#[must_use]
pub fn crd_files() -> Vec<(String, String)> {
    crds()
        .iter()
        .map(|crd| {
            let name = crd.metadata.name.clone().unwrap_or_default();
            (format!("{name}.yaml"), format!("---\n{}", yaml(crd)))
        })
        .collect()
}

fn yaml(crd: &CustomResourceDefinition) -> String {
    serde_saphyr::to_string(crd).expect("definitions are plain maps, lists and strings")
}

/// Defaults and names of the Rust types are no part of the API.
fn drop_rust_traces(schema: &mut JSONSchemaProps) {
    schema.default = None;
    schema.title = None;
    if let Some(properties) = &mut schema.properties {
        properties.values_mut().for_each(drop_rust_traces);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => drop_rust_traces(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(drop_rust_traces),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        drop_rust_traces(values);
    }
}

fn default_spec(root: &mut JSONSchemaProps) {
    let spec = root
        .properties
        .as_mut()
        .and_then(|properties| properties.get_mut("spec"));
    if let Some(spec) = spec {
        spec.default = Some(JSON(serde_json::json!({})));
    }
}
