//! Which endpoint a client had last, for as long as the Service says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

/// Clients of one port that are remembered: 5 MB. The one that was quiet longest makes room.
const CLIENTS_MAX: usize = 65_536;

/// The endpoints of clients.
#[derive(Debug, Default)]
pub(super) struct AffinityTable {
    clients: BTreeMap<IpAddr, (SocketAddr, Instant)>,
    by_time: BTreeSet<(Instant, IpAddr)>,
}

impl AffinityTable {
    /// The endpoint that a client had at most `timeout` ago.
    pub(super) fn get(
        &self,
        client: IpAddr,
        timeout: Duration,
        now: Instant,
    ) -> Option<SocketAddr> {
        let (endpoint, seen) = self.clients.get(&client)?;
        (now.duration_since(*seen) < timeout).then_some(*endpoint)
    }

    /// A client has this endpoint now.
    pub(super) fn put(&mut self, client: IpAddr, endpoint: SocketAddr, now: Instant) {
        if let Some((_, seen)) = self.clients.insert(client, (endpoint, now)) {
            self.by_time.remove(&(seen, client));
        }
        self.by_time.insert((now, client));
        if self.clients.len() > CLIENTS_MAX
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.clients.remove(&oldest);
        }
    }

    /// Forgets everybody, since nobody is to be remembered.
    pub(super) fn clear(&mut self) {
        self.clients.clear();
        self.by_time.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.clients.len(), self.by_time.len());
        self.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_remembered_until_it_was_quiet_too_long_or_too_many_came() {
        let (begin, timeout) = (Instant::now(), Duration::from_secs(10));
        let endpoint = SocketAddr::from(([10, 0, 0, 1], 80));
        let client = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut table = AffinityTable::default();
        table.put(client(1), endpoint, begin);
        let later = begin + Duration::from_secs(9);
        assert_eq!(table.get(client(1), timeout, later), Some(endpoint));
        let end = begin + timeout;
        assert_eq!(table.get(client(1), timeout, end), None);
        for number in 2..100_000 {
            table.put(client(number), endpoint, end);
        }
        assert_eq!(table.len(), CLIENTS_MAX);
        assert_eq!(table.get(client(1), timeout, later), None);
        table.clear();
        assert_eq!(table.len(), 0);
    }
}
