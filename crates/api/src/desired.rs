//! What objects ask for: their specs, read and checked.

use std::sync::Arc;

use bindery_core::selector::Selector;
use bindery_core::zones::{SigningPolicy, Tenancy};
use bindery_core::{Name, Problem, Record, RecordData};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bindy::v1beta1::DnsZoneSpec;
use crate::convert::{DeclaredEndpoint, RecordSpec};
use crate::externaldns::v1alpha1::DnsEndpointSpec;

/// What an object asks for.
#[derive(Clone, Debug)]
pub enum Spec {
    /// A zone, or what is wrong with it.
    Zone(Result<DesiredZone, Box<[Problem]>>),
    /// A record.
    Record(DesiredRecord),
    /// Endpoints, each of them on its own, or what is wrong with it.
    Endpoints(Box<[EndpointResult]>),
}

/// What a zone object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredZone {
    /// The apex.
    pub name: Name,
    /// The TTL of records that set none.
    pub ttl: u32,
    /// Which records belong to it; any may match.
    pub selectors: Box<[Selector]>,
    /// SOA, NS and glue.
    pub records: Box<[Record]>,
    /// Whether what others write into it is removed.
    pub tenancy: Tenancy,
    /// The clusters that it names, each after the field that does.
    pub clusters: Box<[(&'static str, String)]>,
    /// What stands for the instances that it selects by their labels.
    pub selection: Option<Box<str>>,
    /// By which policy it is to be signed.
    pub signing: SigningPolicy,
    /// Fields that it sets and that are acted on only where Bindery serves the zone.
    pub hosted_only: Box<[&'static str]>,
}

/// What a record object asks for, whatever its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredRecord {
    /// The name as its author wrote it.
    pub name: Box<str>,
    /// The TTL, where it sets one.
    pub ttl: Option<u32>,
    /// The values, all of one type, or what is wrong.
    pub data: Result<Arc<[RecordData]>, Box<[Problem]>>,
    /// The name of the zone object that it wants to belong to.
    pub zone_ref: Option<Box<str>>,
}

/// What one endpoint asks for, or what is wrong with it.
pub type EndpointResult = Result<DeclaredEndpoint, Box<[Problem]>>;

/// A spec that can be read and checked.
pub(crate) trait Declares {
    /// What it asks for.
    fn desired(spec: Value) -> Spec;
}

impl Declares for DnsZoneSpec {
    fn desired(spec: Value) -> Spec {
        Spec::Zone(desired_zone(spec))
    }
}

impl Declares for DnsEndpointSpec {
    fn desired(spec: Value) -> Spec {
        Spec::Endpoints(desired_endpoints(spec))
    }
}

impl<S: RecordSpec + Default> Declares for S {
    fn desired(spec: Value) -> Spec {
        Spec::Record(desired_record::<S>(spec))
    }
}

fn desired_record<S: RecordSpec + Default>(spec: Value) -> DesiredRecord {
    let desired = |name: &str, zone: Option<&str>| DesiredRecord {
        name: name.into(),
        ttl: None,
        data: Ok(Arc::default()),
        zone_ref: zone.map(Into::into),
    };
    let spec = match typed::<S>(spec) {
        Ok(spec) => spec,
        Err(problems) => {
            return DesiredRecord {
                data: Err(problems),
                ..desired("", None)
            };
        }
    };
    let desired = desired(spec.name(), spec.zone_ref());
    match spec.declared() {
        Ok(record) => DesiredRecord {
            ttl: record.ttl,
            data: Ok(record.data.into()),
            ..desired
        },
        Err(problems) => DesiredRecord {
            data: Err(problems.into()),
            ..desired
        },
    }
}

fn desired_zone(spec: Value) -> Result<DesiredZone, Box<[Problem]>> {
    let zone = typed::<DnsZoneSpec>(spec)?.declared()?;
    Ok(DesiredZone {
        records: zone.records().into(),
        tenancy: zone.tenancy,
        clusters: zone.clusters.into(),
        selection: zone.selection.map(Into::into),
        signing: zone.signing,
        hosted_only: zone.hosted_only.into(),
        name: zone.name,
        ttl: zone.ttl,
        selectors: zone.selectors.into(),
    })
}

fn desired_endpoints(spec: Value) -> Box<[EndpointResult]> {
    match typed::<DnsEndpointSpec>(spec) {
        Err(problems) => [Err(problems)].into(),
        Ok(spec) => spec
            .declared()
            .into_iter()
            .map(|endpoint| endpoint.map_err(Into::into))
            .collect(),
    }
}

/// One object with a field of the wrong sort must not keep the others from being read.
fn typed<S: DeserializeOwned + Default>(spec: Value) -> Result<S, Box<[Problem]>> {
    if spec.is_null() {
        return Ok(S::default());
    }
    serde_json::from_value(spec).map_err(|error| [Problem::invalid("spec", error)].into())
}
