//! How often may be asked: per client and in all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Clients that are told apart at a time; beyond that newcomers share what there is for all.
const CLIENTS_MAX: usize = 4_096;

/// How often may be asked, and how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLimits {
    /// Requests of one client per second, over time.
    pub per_second: f64,
    /// Requests of one client at once after a pause.
    pub burst: f64,
    /// How many times as much all clients may ask together.
    pub clients: f64,
    /// Bytes of a request; 10,000 records take about one million.
    pub body_len_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            per_second: 1_000.0,
            burst: 1_000.0,
            clients: 4.0,
            body_len_max: 32 << 20,
        }
    }
}

/// What has been asked lately.
pub(super) struct Allowance {
    limits: Option<RequestLimits>,
    state: Mutex<AllowanceState>,
}

struct AllowanceState {
    all: Bucket,
    clients: BTreeMap<IpAddr, Bucket>,
}

/// What is left, and as of when.
#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    since: Instant,
}

impl Allowance {
    /// With limits, or without.
    pub(super) fn new(limits: Option<RequestLimits>) -> Self {
        let since = Instant::now();
        let left = limits.map_or(0.0, |limits| limits.burst * limits.clients);
        Self {
            limits,
            state: Mutex::new(AllowanceState {
                all: Bucket { left, since },
                clients: BTreeMap::new(),
            }),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// How long to wait, where it is one too many.
    pub(super) fn take(&self, client: IpAddr) -> Result<(), Duration> {
        let Some(limits) = self.limits else {
            return Ok(());
        };
        let (client, now) = (client.to_canonical(), Instant::now());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let AllowanceState { all, clients } = &mut *state;
        if clients.len() >= CLIENTS_MAX {
            // Who has been quiet for long enough is as one who never came.
            clients.retain(|_, bucket| bucket.filled(now, limits.per_second) < limits.burst);
        }
        if clients.len() < CLIENTS_MAX || clients.contains_key(&client) {
            let bucket = clients.entry(client).or_insert(Bucket {
                left: limits.burst,
                since: now,
            });
            bucket.take(now, limits.per_second, limits.burst)?;
        }
        all.take(
            now,
            limits.per_second * limits.clients,
            limits.burst * limits.clients,
        )
    }
}

impl Bucket {
    fn filled(&self, now: Instant, per_second: f64) -> f64 {
        self.left + now.duration_since(self.since).as_secs_f64() * per_second
    }

    fn take(&mut self, now: Instant, per_second: f64, most: f64) -> Result<(), Duration> {
        self.left = self.filled(now, per_second).min(most);
        self.since = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.left) / per_second;
        Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::from_mins(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits {
        per_second: 2.0,
        burst: 3.0,
        clients: 2.0,
        body_len_max: 0,
    };

    fn client(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_ask_some_at_once_and_then_now_and_then() {
        let allowance = Allowance::new(Some(LIMITS));
        for _ in 0..3 {
            assert_eq!(allowance.take(client(1)), Ok(()));
        }
        assert_eq!(allowance.take(client(1)), Err(Duration::from_millis(500)));
        assert_eq!(allowance.take(client(2)), Ok(()), "another one may");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(allowance.take(client(1)), Ok(()));
        assert!(allowance.take(client(1)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn many_clients_together_may_not_ask_without_end() {
        let allowance = Allowance::new(Some(LIMITS));
        let taken = (0..100).filter(|last| allowance.take(client(*last)).is_ok());
        assert_eq!(taken.count(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_everything_may_be_asked() {
        let allowance = Allowance::new(None);
        assert!((0..10_000).all(|_| allowance.take(client(1)).is_ok()));
    }
}
