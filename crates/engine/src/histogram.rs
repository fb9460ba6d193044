//! A histogram that costs two atomic additions and no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often which values were seen.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound and one for what lies beyond; not summed up.
    buckets: Box<[AtomicU64]>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// What a histogram holds at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The sum of all values.
    pub sum: f64,
    /// How many there were.
    pub count: u64,
    /// How many lie at or below each bound and above the one before; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    /// Nothing seen yet; bounds rise.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Takes in a duration, in seconds.
    pub fn observe_duration(&self, value: Duration) {
        self.observe(value.as_secs_f64());
    }

    /// Takes in an amount.
    pub fn observe_amount(&self, value: usize) {
        self.observe(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
    }

    /// What it holds now. Values that are taken in meanwhile may be in one part and not in another.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let counts = self.buckets.iter().map(|one| one.load(Ordering::Relaxed));
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        Distribution {
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }

    fn observe(&self, value: f64) {
        let position = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(position) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure never refuses, so this always ends with the sum.
        let _sum = self
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_counts_below_it() {
        let histogram = Histogram::new(&[1.0, 10.0]);
        for value in [1, 2, 10, 11] {
            histogram.observe_amount(value);
        }
        let seen = histogram.distribution();
        assert_eq!(seen.buckets, [(1.0, 1), (10.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((seen.count, seen.sum.to_bits()), (4, 24.0_f64.to_bits()));
    }
}
