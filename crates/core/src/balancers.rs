//! Load balancers: a Service gets addresses of its own, pods get a way out.
//!
//! What a *provider* of load balancers has is of two kinds. A *balancer* stands for one Service
//! ([`Front`]: addresses, ports) or for the pods of one egress label ([`EgressFront`]). An *address* of an
//! endpoint is bound to balancers ([`Binding`]), at the node where it lives.

mod binding;
mod front;
mod holdings;

pub use self::{
    binding::{AddressChange, AddressOutcome, Binding, Bindings, PortTarget},
    front::{
        BalancerKey, BalancerSpec, EgressFront, Family, Front, FrontPort, FrontProtocol,
        SourceRange, TrafficPolicy,
    },
    holdings::{BalancerLimits, Frontage, HeldBalancer, Holdings},
};
