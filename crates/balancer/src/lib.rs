//! Load balancers of this machine: Services get addresses from pools, and a data plane forwards the traffic.
//!
//! [`LocalBalancer`] is the provider: it gives addresses out and keeps what each balancer forwards. A
//! [`DataPlane`] carries that out: [`Proxy`] with sockets of this process, without privileges; [`Nftables`]
//! with rules of the kernel, which stay when the process ends.
//!
//! It must *never* touch rules, addresses or sockets that it did not make, and never see Kubernetes.

mod forwarding;
mod local;
mod nftables;
mod proxy;

pub use forwarding::{DataPlane, Forwarding, FoundForwarding, FrontKey};
pub use local::LocalBalancer;
pub use nftables::{Nftables, NftablesSettings};
pub use proxy::{Proxy, ProxyLimits, ProxyTasks};
