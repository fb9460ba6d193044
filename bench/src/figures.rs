//! Times, medians and how they are written.

use std::time::Duration;

/// A number of measured times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Adds one.
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Adds those of another.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The median.
    pub(crate) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    /// The time that 99 of 100 do not exceed.
    pub(crate) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// The smallest of the times that `percent` of them do not exceed (nearest rank).
    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

/// Times of changes that reach several servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Until the first server had each.
    pub(crate) first: Times,
    /// Until every server had it.
    pub(crate) all: Times,
}

/// A short time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// A long time in seconds.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// How many per second.
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    amount(count) / time.as_secs_f64()
}

/// A count as a number to divide.
pub(crate) fn amount(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// How many times as long as the peer; below 1 is faster.
pub(crate) fn ratio(ours: Duration, peer: Duration) -> String {
    format!("{:.2}", ours.as_secs_f64() / peer.as_secs_f64())
}

/// How much of a budget was used.
pub(crate) fn spent(time: Duration, budget: Duration) -> f64 {
    time.as_secs_f64() / budget.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let mut times = Times::default();
        for millis in (1..=200).rev() {
            times.push(Duration::from_millis(millis));
        }
        assert_eq!(times.p50(), Duration::from_millis(100));
        assert_eq!(times.p99(), Duration::from_millis(198));
        assert_eq!(Times::default().p99(), Duration::ZERO);
    }
}
