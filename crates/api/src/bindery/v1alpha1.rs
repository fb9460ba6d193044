//! Version `v1alpha1`: address pools.

#![expect(
    clippy::duplicated_attributes,
    reason = "columns of one kind share types and paths"
)]

use bindery_core::{AddressRange, AddressSet, Moment, Pool, Problem};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bindy::v1beta1::LabelSelector;
use crate::convert::read_selector;
use crate::schema;

/// Which addresses Services get.
#[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "bindery.dev",
    version = "v1alpha1",
    kind = "AddressPool",
    plural = "addresspools",
    shortname = "pool",
    shortname = "pools",
    status = "AddressPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Addresses for Services of type LoadBalancer.",
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses"),
    printcolumn(name = "Used", type_ = "integer", json_path = ".status.used"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.free"),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.total",
        priority = 1
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["addresses"]))]
pub struct AddressPoolSpec {
    /// Networks (192.0.2.0/24), ranges (192.0.2.10-192.0.2.20) and single addresses. A network gives its hosts: not
    /// its first address, and of IPv4 not its last one. A range gives all that it names.
    #[schemars(schema_with = "schema::pool_addresses")]
    pub addresses: Vec<String>,

    /// Whether Services get addresses of it that ask for neither this pool nor an address of it. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_assign: Option<bool>,

    /// The Services that it is for, by their labels. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
}

/// What is known about an address pool.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressPoolStatus {
    /// Ready: whether Services get addresses of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many addresses it has, without those that an older pool has too. No number is above
    /// 9007199254740991, however large the pool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,

    /// How many of them Services have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,

    /// How many of them are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
}

/// The largest number that every reader of JSON takes for the same (RFC 8259 section 6).
const COUNT_MAX: i64 = (1 << 53) - 1;

impl AddressPoolSpec {
    /// The pool that the spec declares.
    ///
    /// # Errors
    /// Every mistake in it, by its field. Nothing of a pool with a mistake is used: half a pool would give out
    /// other addresses than its author means.
    pub fn declared(&self, created: Moment) -> Result<Pool, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut addresses = AddressSet::default();
        for (position, text) in self.addresses.iter().enumerate() {
            match AddressRange::parse(text) {
                Ok(range) => addresses.insert(range),
                Err(mistake) => {
                    let field = format!("spec.addresses[{position}]");
                    problems.push(Problem::invalid(field, mistake));
                }
            }
        }
        let selector = match &self.service_selector {
            Some(selector) => match read_selector(selector, "spec.serviceSelector") {
                Ok(selector) => Some(selector),
                Err(mistakes) => {
                    problems.extend(mistakes);
                    None
                }
            },
            None => None,
        };
        if problems.is_empty() {
            Ok(Pool {
                created,
                addresses,
                auto_assign: self.auto_assign.unwrap_or(true),
                selector,
            })
        } else {
            Err(problems)
        }
    }
}

/// A count of addresses as a status tells it.
#[must_use]
pub fn address_count(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(COUNT_MAX).min(COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> AddressPoolSpec {
        serde_json::from_value(json).expect("a spec of the right form")
    }

    #[test]
    fn a_pool_is_its_addresses_for_everybody_unless_it_says_otherwise() {
        let plain =
            spec(serde_json::json!({ "addresses": ["192.0.2.0/29", "192.0.2.6-192.0.2.9"] }));
        let pool = plain.declared(Moment(3)).expect("a good pool");
        let ranges: Vec<String> = pool
            .addresses
            .ranges()
            .map(|range| range.to_string())
            .collect();
        assert_eq!(ranges, ["192.0.2.1-192.0.2.9"]);
        assert!(pool.auto_assign && pool.selector.is_none() && pool.created == Moment(3));
        let picky = spec(serde_json::json!({
            "addresses": ["2001:db8::/64"],
            "autoAssign": false,
            "serviceSelector": { "matchLabels": { "tier": "front" } },
        }));
        let pool = picky.declared(Moment(0)).expect("a good pool");
        assert!(!pool.auto_assign && pool.selector.is_some());
    }

    #[test]
    fn every_mistake_is_told_by_its_field() {
        let wrong = spec(serde_json::json!({
            "addresses": ["192.0.2.1/24", "192.0.2.1", "x"],
            "serviceSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] },
        }));
        let problems = wrong.declared(Moment(0)).expect_err("three mistakes");
        let fields: Vec<&str> = problems.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.addresses[0]",
                "spec.addresses[2]",
                "spec.serviceSelector.matchExpressions[0].values"
            ]
        );
    }

    #[test]
    fn a_count_is_never_more_than_json_can_tell() {
        assert_eq!(address_count(254), 254);
        assert_eq!(address_count(u128::MAX), 9_007_199_254_740_991);
    }
}
