//! Services, slices, nodes and pods as the machine of load balancers takes them.

mod endpoints;
mod names;
mod service;

pub use self::{
    endpoints::{EGRESS_LABEL, EgressPod, egress_pod, node_addresses, slice_group, slice_key},
    names::{ServiceNames, service_names},
    service::{
        BalancerClass, NAMES_ANNOTATION, REQUESTED_ANNOTATION, SERVICE_CONDITION,
        SERVICE_FINALIZER, ServiceProblem, ServiceView, ServiceWish, service_view,
    },
};

#[cfg(test)]
mod tests;
