//! StatefulSets and their pods as processes of this machine, over any Kubernetes API.
//!
//! [`StatefulSets`] does what the StatefulSet controller of Kubernetes does, for an API that has none.
//!
//! It sees only what has the label [`PART_OF`]. It must *never* run a program other than `named` and `bindery`,
//! touch a pod of another node, or pretend to be a container engine: there are no images, no namespaces and no
//! limits.

mod following;
mod request;
mod stateful;

pub use stateful::StatefulSets;

/// The label of the workloads that are acted on, as a selector.
pub const PART_OF: &str = "app.kubernetes.io/part-of=bindy";
