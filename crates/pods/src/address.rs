//! Loopback addresses of pods.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bindery_core::backoff::jitter_seed;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::following::NamespacedName;

/// Addresses that are tried for a pod before it is told that its ports are taken.
const TRIES: u64 = 32;

/// The addresses in use, and by whom: all of 127.64.0.0/10 whose last byte is neither 0 nor 255.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Where the node keeps its pods: nodes of one machine try other addresses first.
    node: String,
    taken: Mutex<BTreeMap<Ipv4Addr, NamespacedName>>,
}

impl Addresses {
    /// The addresses of a node that keeps its pods in this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self {
            node: folder.display().to_string(),
            ..Self::default()
        }
    }

    /// An address for a pod: the one it had, or the one of its name, unless another has it or its ports.
    ///
    /// # Errors
    /// If its ports are taken on every address that was tried, the last refusal.
    pub(crate) fn take(
        &self,
        owner: &NamespacedName,
        had: Option<Ipv4Addr>,
        ports: &[PodPort],
    ) -> io::Result<Ipv4Addr> {
        let named = jitter_seed(format!("{}/{}/{}", self.node, owner.0, owner.1).as_bytes());
        let candidates = had.filter(|it| is_ours(*it)).into_iter();
        let candidates = candidates.chain((0..TRIES).map(|step| nth(named.wrapping_add(step))));
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, held| held != owner);
        let mut refused = io::Error::other("every address that was tried is another pod's");
        for address in candidates {
            if taken.contains_key(&address) {
                continue;
            }
            match ports.iter().try_for_each(|port| port.try_on(address)) {
                Ok(()) => {
                    taken.insert(address, owner.clone());
                    return Ok(address);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Gives back what a pod has.
    pub(crate) fn release(&self, owner: &NamespacedName) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, held| held != owner);
    }
}

/// A port on which a container listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodPort {
    number: u16,
    is_udp: bool,
}

impl PodPort {
    /// Whether nobody listens there: it is listened on for a moment.
    fn try_on(self, address: Ipv4Addr) -> io::Result<()> {
        let at = SocketAddrV4::new(address, self.number);
        let tried = if self.is_udp {
            UdpSocket::bind(at).map(drop)
        } else {
            TcpListener::bind(at).map(drop)
        };
        tried.map_err(|error| io::Error::new(error.kind(), format!("{at}: {error}")))
    }
}

/// The ports that a pod declares.
pub(crate) fn ports(pod: &Pod) -> Vec<PodPort> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container: &Container| container.ports.iter().flatten());
    let read = ports.filter_map(|port| {
        let number = u16::try_from(port.container_port).ok()?;
        let is_udp = port.protocol.as_deref() == Some("UDP");
        Some(PodPort { number, is_udp })
    });
    read.collect()
}

fn nth(number: u64) -> Ipv4Addr {
    let byte = |number: u64| u8::try_from(number).unwrap_or_default();
    let (last, rest) = (1 + number % 254, number / 254);
    let (third, rest) = (rest % 256, rest / 256);
    Ipv4Addr::new(127, byte(64 + rest % 64), byte(third), byte(last))
}

fn is_ours(address: Ipv4Addr) -> bool {
    let [first, second, _, last] = address.octets();
    first == 127 && (64..128).contains(&second) && last != 0 && last != 255
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(name: &str) -> NamespacedName {
        ("dns".to_owned(), name.to_owned())
    }

    proptest! {
        #[test]
        fn every_number_is_an_address_of_ours(number in any::<u64>()) {
            prop_assert!(is_ours(nth(number)));
        }
    }

    #[test]
    fn a_pod_gets_the_address_of_its_name_again() {
        let addresses = Addresses::default();
        let first = addresses
            .take(&owner("web-0"), None, &[])
            .expect("it is free");
        addresses.release(&owner("web-0"));
        let again = addresses
            .take(&owner("web-0"), None, &[])
            .expect("it is free");
        assert_eq!(first, again);
    }

    #[test]
    fn no_two_pods_have_the_same_address() {
        let addresses = Addresses::default();
        let first = addresses
            .take(&owner("web-0"), None, &[])
            .expect("it is free");
        let second = addresses
            .take(&owner("web-1"), Some(first), &[])
            .expect("another is free");
        assert_ne!(first, second);
    }

    #[test]
    fn an_address_whose_port_is_taken_is_passed_over() {
        let addresses = Addresses::default();
        let first = addresses
            .take(&owner("web-0"), None, &[])
            .expect("it is free");
        addresses.release(&owner("web-0"));
        let listener = TcpListener::bind((first, 0)).expect("loopback is there");
        let number = listener.local_addr().expect("it is bound").port();
        let port = PodPort {
            number,
            is_udp: false,
        };
        let second = addresses
            .take(&owner("web-0"), Some(first), &[port])
            .expect("others are free");
        assert_ne!(first, second);
    }

    #[test]
    fn only_addresses_of_ours_are_kept() {
        let addresses = Addresses::default();
        let had = Some(Ipv4Addr::new(10, 0, 0, 1));
        let taken = addresses
            .take(&owner("web-0"), had, &[])
            .expect("one is free");
        assert!(is_ours(taken));
    }
}
