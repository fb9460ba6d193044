//! The custom resources of Bindery: their types, schemas and conversion to core values.
//!
//! One module per API group and version. Conversions are pure and collect problems that name
//! fields. This crate must *never* hold a client, do I/O or decide what is published.

pub mod bindery;
pub mod bindy;
pub mod externaldns;

pub mod convert;

mod crds;
mod desired;
mod dynamic_resource;
mod kinds;
mod moment;
mod raw;
mod schema;

pub use bindery::v1alpha1::*;
pub use bindy::v1beta1::*;
pub use convert::{DeclaredEndpoint, DeclaredNameServer, DeclaredRecord, DeclaredZone, RecordSpec};
pub use crds::{crd_files, crds, crds_yaml};
pub use desired::{DesiredRecord, DesiredZone, EndpointResult, Spec};
pub use externaldns::v1alpha1::{DnsEndpoint, DnsEndpointStatus};
pub use kinds::{KINDS, KindInfo, Kinds, Role, Scope, Watch, info, role};
pub use moment::time_text;
pub use raw::{RawObject, trimmed_metadata};
