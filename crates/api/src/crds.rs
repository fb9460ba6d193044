//! The `CustomResourceDefinition`s of every kind, in a fixed order.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use kube::CustomResourceExt as _;

use crate::bindery::v1alpha1::AddressPool;
use crate::bindy::v1beta1::{
    Bind9Cluster, Bind9GlobalCluster, Bind9Instance, ClusterBind9Provider,
};
use crate::kinds::KINDS;

/// The definitions of what declares name servers.
fn server_crds() -> [CustomResourceDefinition; 4] {
    [
        ClusterBind9Provider::crd(),
        Bind9GlobalCluster::crd(),
        Bind9Cluster::crd(),
        Bind9Instance::crd(),
    ]
}

/// All definitions: name servers, address pools, zones, records, endpoints. What others refer to comes first.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds: Vec<_> = server_crds().into();
    crds.push(AddressPool::crd());
    crds.extend(KINDS.iter().map(|row| (row.crd)()));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `look` on every field below a schema, with its path.
    fn visit(path: &str, schema: &JSONSchemaProps, look: &mut impl FnMut(&str, &JSONSchemaProps)) {
        for (name, field) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            look(&path, field);
            visit(&path, field, look);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            visit(&format!("{path}[]"), items, look);
        }
    }

    #[test]
    fn definitions_fit_into_the_annotation_of_a_client_side_apply() {
        // kubectl keeps the whole object in one annotation, of which 256 KiB are allowed.
        for (name, yaml) in crd_files() {
            assert!(yaml.len() < 64 * 1024, "{name} has {} bytes", yaml.len());
        }
    }

    #[test]
    fn every_field_is_described_and_none_has_a_default_but_the_spec_of_endpoints() {
        for crd in crds() {
            let kind = crd.spec.names.kind.clone();
            let schema = crd.spec.versions[0]
                .schema
                .clone()
                .and_then(|it| it.open_api_v3_schema);
            visit(
                &kind,
                &schema.expect("every version has a schema"),
                &mut |path, field| {
                    assert!(field.description.is_some(), "{path} is not described");
                    let may_default = path == "DNSEndpoint.spec";
                    assert_eq!(field.default.is_some(), may_default, "{path}");
                },
            );
        }
    }

    #[test]
    fn every_kind_shows_whether_it_is_fine_and_its_age() {
        for crd in crds() {
            let columns = crd.spec.versions[0].additional_printer_columns.clone();
            let names: Vec<String> = columns
                .into_iter()
                .flatten()
                .map(|column| column.name)
                .collect();
            let fine = |name: &String| name == "Ready" || name == "Programmed";
            assert!(names.iter().any(fine), "{names:?}");
            assert_eq!(names.last().map(String::as_str), Some("Age"));
        }
    }
}
