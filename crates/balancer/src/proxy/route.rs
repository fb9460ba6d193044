//! The endpoints behind one port, and which of them a client gets.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::affinity::AffinityTable;
use crate::forwarding::Forwarding;

/// Endpoints that are tried for one connection before it is closed.
const TRIES_MAX: usize = 8;

/// The endpoints of one port of a balancer, for all its addresses.
pub(super) struct PortRoute {
    view: watch::Sender<RouteView>,
    turns: Mutex<Turns>,
}

/// What is forwarded now.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteView {
    forwarding: Arc<Forwarding>,
    /// In order, so that turns are fair.
    endpoints: Arc<[SocketAddr]>,
}

#[derive(Default)]
struct Turns {
    next: usize,
    affinity: AffinityTable,
}

impl Default for PortRoute {
    fn default() -> Self {
        Self {
            view: watch::Sender::new(RouteView::default()),
            turns: Mutex::default(),
        }
    }
}

impl PortRoute {
    /// Forwards to these endpoints from now on.
    pub(super) fn set(&self, forwarding: &Arc<Forwarding>, endpoints: &BTreeSet<SocketAddr>) {
        if forwarding.affinity.is_none() {
            self.turns().affinity.clear();
        }
        let endpoints = endpoints.iter().copied().collect();
        self.view.send_replace(RouteView {
            forwarding: Arc::clone(forwarding),
            endpoints,
        });
    }

    /// Tells of changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<RouteView> {
        self.view.subscribe()
    }

    /// Whether a client may connect.
    pub(super) fn admits(&self, client: IpAddr) -> bool {
        self.view.borrow().forwarding.admits(client)
    }

    /// The endpoints that are tried for a client, in order. Those of the front's own family come first; where
    /// there are none, the others serve.
    pub(super) fn candidates(&self, front: SocketAddr, client: IpAddr) -> Vec<SocketAddr> {
        let view = self.view.borrow().clone();
        let mut own: Vec<SocketAddr> = view
            .endpoints
            .iter()
            .copied()
            .filter(|endpoint| endpoint.is_ipv4() == front.is_ipv4())
            .collect();
        if own.is_empty() {
            own = view.endpoints.to_vec();
        }
        if own.is_empty() {
            return own;
        }
        let mut turns = self.turns();
        let start = turns.next % own.len();
        turns.next = turns.next.wrapping_add(1);
        own.rotate_left(start);
        let known = view
            .forwarding
            .affinity
            .and_then(|timeout| turns.affinity.get(client, timeout, Instant::now()));
        if let Some(place) = known.and_then(|known| own.iter().position(|one| *one == known)) {
            own[..=place].rotate_right(1);
        }
        own.truncate(TRIES_MAX);
        own
    }

    /// A client got this endpoint.
    pub(super) fn keep(&self, client: IpAddr, endpoint: SocketAddr) {
        if self.view.borrow().forwarding.affinity.is_some() {
            self.turns().affinity.put(client, endpoint, Instant::now());
        }
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RouteView {
    /// Whether an endpoint is one of them.
    pub(super) fn has(&self, endpoint: SocketAddr) -> bool {
        self.endpoints.binary_search(&endpoint).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn socket(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    fn route(endpoints: &[&str], affinity: Option<Duration>) -> PortRoute {
        let route = PortRoute::default();
        let forwarding = Forwarding {
            affinity,
            ..Forwarding::default()
        };
        let endpoints = endpoints.iter().map(|text| socket(text)).collect();
        route.set(&Arc::new(forwarding), &endpoints);
        route
    }

    const FRONT: &str = "127.0.10.1:80";

    #[test]
    fn turns_go_round_and_everyone_is_tried() {
        let route = route(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"], None);
        let client = socket("127.0.0.1:9").ip();
        let firsts: Vec<SocketAddr> = (0..6)
            .map(|_| {
                let tried = route.candidates(socket(FRONT), client);
                assert_eq!(BTreeSet::from_iter(tried.clone()).len(), 3);
                tried[0]
            })
            .collect();
        assert_eq!(firsts[..3], firsts[3..]);
        assert_eq!(BTreeSet::from_iter(firsts).len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_keeps_its_endpoint_while_it_lives_and_is_in_time() {
        let affinity = Some(Duration::from_secs(10));
        let route = route(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"], affinity);
        let client = socket("127.0.0.1:9").ip();
        let first = route.candidates(socket(FRONT), client)[0];
        route.keep(client, first);
        for _ in 0..5 {
            assert_eq!(route.candidates(socket(FRONT), client)[0], first);
        }
        tokio::time::advance(Duration::from_secs(11)).await;
        let firsts: BTreeSet<_> = (0..3)
            .map(|_| route.candidates(socket(FRONT), client)[0])
            .collect();
        assert_eq!(firsts.len(), 3);
    }

    #[test]
    fn an_endpoint_of_the_other_family_serves_where_there_is_no_other() {
        let client = socket("127.0.0.1:9").ip();
        let both = route(&["10.0.0.1:1", "[fd00::1]:1"], None);
        assert_eq!(
            both.candidates(socket(FRONT), client),
            [socket("10.0.0.1:1")]
        );
        let six = route(&["[fd00::1]:1"], None);
        assert_eq!(
            six.candidates(socket(FRONT), client),
            [socket("[fd00::1]:1")]
        );
        assert!(
            route(&[], None)
                .candidates(socket(FRONT), client)
                .is_empty()
        );
    }
}
