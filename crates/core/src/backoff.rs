//! How long to wait before a failed thing is tried again.

use std::time::Duration;

/// The policy: the first delay doubles with each failure up to a maximum, with jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure, before jitter.
    pub first: Duration,
    /// No delay is longer.
    pub max: Duration,
}

impl Backoff {
    /// The delay after `failures` failures in a row, for a random number drawn by the caller.
    ///
    /// Guarantees: between half the nominal delay and the nominal delay, so that many keys which
    /// failed together do not come back together, and none waits longer than `max`.
    #[must_use]
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let nominal = self.first.saturating_mul(1 << doublings).min(self.max);
        let half = nominal / 2;
        let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX - 1);
        half + Duration::from_nanos(random % (spread + 1))
    }
}

/// The failures in a row of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures(u32);

impl Failures {
    /// Counts one more failure and returns the delay before the next attempt.
    pub fn fail(&mut self, policy: &Backoff, random: u64) -> Duration {
        self.0 = self.0.saturating_add(1);
        policy.delay(self.0, random)
    }

    /// Forgets the failures after a success.
    pub fn reset(&mut self) {
        self.0 = 0;
    }

    /// How many failures in a row there were.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }
}

/// A number that differs from one salt to another, so that what failed together does not come back together
/// (FNV-1a; nothing here needs it to be unguessable).
#[must_use]
pub fn jitter_seed(salt: &[u8]) -> u64 {
    salt.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: Backoff = Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_mins(1),
    };

    proptest! {
        #[test]
        fn delays_grow_to_the_maximum_and_stay_within_jitter(
            failures in 1u32.., random in any::<u64>(),
        ) {
            let nominal = POLICY.delay(failures, 0) * 2;
            let delay = POLICY.delay(failures, random);
            prop_assert!(delay <= POLICY.max && delay * 2 >= nominal);
            prop_assert!(POLICY.delay(failures.saturating_add(1), 0) >= POLICY.delay(failures, 0));
        }
    }

    #[test]
    fn success_resets() {
        let mut failures = Failures::default();
        assert_eq!(failures.fail(&POLICY, 0), Duration::from_millis(50));
        assert_eq!(failures.fail(&POLICY, 0), Duration::from_millis(100));
        failures.reset();
        assert_eq!(failures.count(), 0);
        assert_eq!(failures.fail(&POLICY, 0), Duration::from_millis(50));
    }

    #[test]
    fn jitter_reaches_from_half_the_delay_to_all_of_it() {
        let half = 50_000_000;
        assert_eq!(POLICY.delay(1, half - 1), Duration::from_nanos(99_999_999));
        assert_eq!(POLICY.delay(1, half), Duration::from_millis(100));
        assert_eq!(POLICY.delay(1, half + 1), Duration::from_millis(50));
    }

    #[test]
    fn the_longest_delay_overflows_nothing() {
        let policy = Backoff {
            first: Duration::MAX,
            max: Duration::MAX,
        };
        assert!(policy.delay(40, u64::MAX) >= Duration::MAX / 2);
    }
}
