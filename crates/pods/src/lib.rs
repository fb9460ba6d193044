//! StatefulSets and their pods as processes of this machine, over any Kubernetes API.
//!
//! [`StatefulSets`] does what the StatefulSet controller of Kubernetes does, for an API that has none. [`Pods`] is the
//! scheduler and the kubelet of one node. Each is of use without the other.
//!
//! It sees only what has the label [`PART_OF`]. It must *never* run a program other than `named` and `bindery`,
//! touch a pod of another node, or pretend to be a container engine: there are no images, no namespaces and no
//! limits.

mod address;
mod claims;
mod container;
mod following;
mod interface;
mod launch;
mod node;
mod pid_file;
mod pod;
mod probe;
mod request;
mod rewrite;
mod stateful;
mod status;
mod volumes;

use std::net::Ipv4Addr;

pub use launch::Programs;
pub use node::{PodOptions, Pods, Tokens};
pub use stateful::StatefulSets;

/// The label of the workloads that are acted on, as a selector.
pub const PART_OF: &str = "app.kubernetes.io/part-of=bindy";

/// The address of this machine, as its pods know it.
const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;
