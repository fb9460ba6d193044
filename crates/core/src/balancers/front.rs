//! What a balancer is to be: whose it is, what it listens to, for whom.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::Uid;

/// Digits of a spec's digest: enough that no two that a balancer ever has are the same.
const DIGEST_LEN: usize = 32;

/// Which balancer: nothing else of a Service or a label ever names it, so that a Service that is made anew
/// under its old name has another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BalancerKey {
    /// The balancer of the Service with this UID.
    Service(Uid),
    /// The gateway of the pods that have this value of the egress label.
    Egress(Arc<str>),
}

/// What a balancer is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalancerSpec {
    /// Traffic from outside to the endpoints of a Service.
    Inbound(Front),
    /// Traffic of pods to the outside.
    Egress(EgressFront),
}

/// The front of a Service: what clients of it see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// The Service's namespace, for people and for pools.
    pub namespace: Arc<str>,
    /// The Service's name, for people.
    pub name: Box<str>,
    /// The Service's labels, by which a pool may choose it.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The ports, sorted; no two have the same protocol and number.
    pub ports: Vec<FrontPort>,
    /// The families of its addresses, the first one first.
    pub families: Vec<Family>,
    /// How long a client keeps its endpoint (`sessionAffinity: ClientIP`).
    pub affinity: Option<Duration>,
    /// Who may connect; nobody is kept out where it is empty.
    pub source_ranges: Vec<SourceRange>,
    /// Which endpoints a node sends traffic from outside to.
    pub traffic_policy: TrafficPolicy,
    /// Addresses that its author asks for.
    pub requested: Vec<IpAddr>,
    /// What else its author says to the provider: annotations that are the provider's own, as written.
    pub options: BTreeMap<Box<str>, Box<str>>,
}

/// The gateway of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressFront {
    /// The families that its pods have, sorted.
    pub families: Vec<Family>,
}

/// One port of a front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrontPort {
    /// The protocol.
    pub protocol: FrontProtocol,
    /// The number that clients connect to.
    pub port: u16,
    /// The Service's name for it; may be empty.
    pub name: Box<str>,
    /// The number at the endpoints, where one number holds for all of them (not a named port).
    pub target: Option<u16>,
    /// The port of nodes, where one was given out.
    pub node_port: Option<u16>,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which endpoints a node sends traffic from outside to (`externalTrafficPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficPolicy {
    /// Those of any node.
    #[default]
    Cluster,
    /// Its own, so that they see the client's address.
    Local,
}

/// A network that may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRange {
    /// Its first address.
    base: IpAddr,
    /// Bits of the address that count.
    prefix_len: u8,
}

impl SourceRange {
    /// A network; `None` where the prefix is longer than an address. Bits behind the prefix are cleared.
    #[must_use]
    pub fn new(address: IpAddr, prefix_len: u8) -> Option<Self> {
        let (base, bits): (IpAddr, u8) = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32)));
                (
                    Ipv4Addr::from(address.to_bits() & mask.unwrap_or(0)).into(),
                    32,
                )
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len.min(128)));
                (
                    Ipv6Addr::from(address.to_bits() & mask.unwrap_or(0)).into(),
                    128,
                )
            }
        };
        (prefix_len <= bits).then_some(Self { base, prefix_len })
    }

    /// Its first address.
    #[must_use]
    pub fn base(&self) -> IpAddr {
        self.base
    }

    /// Bits of the address that count.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// Whether an address is in it. An IPv4 address that is written as IPv6 counts as what it is.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::new(address.to_canonical(), self.prefix_len).is_some_and(|other| other == *self)
    }
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl FrontProtocol {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

impl BalancerSpec {
    /// A text that differs between specs: a provider keeps it beside the balancer, so that after a restart
    /// nobody has to send what stands there already.
    #[must_use]
    pub fn digest(&self) -> String {
        // The derived form has every field, in order, and every text quoted.
        crate::record::hex(&Sha256::digest(format!("{self:?}")), DIGEST_LEN)
    }

    /// The families of its addresses.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        match self {
            Self::Inbound(front) => &front.families,
            Self::Egress(front) => &front.families,
        }
    }
}

impl fmt::Display for BalancerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(uid) => fmt::Display::fmt(uid, f),
            Self::Egress(label) => write!(f, "egress/{label}"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<SourceRange> {
        let (base, len) = text.split_once('/')?;
        SourceRange::new(base.parse().ok()?, len.parse().ok()?)
    }

    #[test]
    fn a_source_range_has_the_addresses_of_its_prefix() {
        for (text, inside, outside) in [
            ("10.1.2.3/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::1/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1/128", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::10.0.0.1"),
        ] {
            let range = range(text).expect(text);
            assert!(range.contains(inside.parse().expect(inside)), "{text}");
            assert!(!range.contains(outside.parse().expect(outside)), "{text}");
        }
        let all = range("1.2.3.4/0").expect("everybody");
        assert_eq!(all.to_string(), "0.0.0.0/0");
        assert!(all.contains("255.1.1.1".parse().expect("an address")));
        let six = range("::1/0").expect("everybody");
        assert_eq!((six.to_string().as_str(), six.prefix_len()), ("::/0", 0));
        let eight = range("10.1.2.3/8").map(|range| range.prefix_len());
        assert_eq!(eight, Some(8));
        assert_eq!(range("1.2.3.4/33"), None);
        assert_eq!(range("::/129"), None);
    }

    #[test]
    fn families_and_protocols_are_written_as_kubernetes_writes_them() {
        let both = BalancerSpec::Egress(EgressFront {
            families: vec![Family::V4, Family::V6],
        });
        let written: Vec<String> = both.families().iter().map(ToString::to_string).collect();
        assert_eq!(written, ["IPv4", "IPv6"]);
        let protocols = [FrontProtocol::Tcp, FrontProtocol::Udp].map(FrontProtocol::as_str);
        assert_eq!(protocols, ["TCP", "UDP"]);
    }

    #[test]
    fn a_digest_tells_specs_apart() {
        let one = BalancerSpec::Egress(EgressFront {
            families: vec![Family::V4],
        });
        let both = BalancerSpec::Egress(EgressFront {
            families: vec![Family::V4, Family::V6],
        });
        assert_eq!(one.digest(), one.clone().digest());
        assert_eq!(one.digest().len(), DIGEST_LEN);
        assert_ne!(one.digest(), both.digest());
    }
}
