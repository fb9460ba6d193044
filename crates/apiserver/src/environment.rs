//! Where time and randomness come from.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Time and randomness as the API needs them for timestamps, UIDs and generated names.
pub trait Environment: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// A random number.
    fn random(&self) -> u128;
}

/// The machine's clock and entropy.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

/// Time from Tokio's clock (virtual where it is paused) and numbers from a seed.
#[derive(Debug)]
pub struct Seeded {
    state: AtomicU64,
    start: Instant,
}

impl System {
    /// Random bytes, enough for a key.
    ///
    /// # Panics
    /// If the operating system has no entropy, which it always has after boot.
    #[must_use]
    pub fn secret() -> [u8; 32] {
        let mut bytes = [0; 32];
        fill(&mut bytes);
        bytes
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the port through which randomness comes in"
)]
fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system always has entropy after boot");
}

impl Environment for System {
    #[expect(
        clippy::disallowed_methods,
        reason = "the port through which the time comes in"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        fill(&mut bytes);
        u128::from_ne_bytes(bytes)
    }
}

impl Seeded {
    /// The same seed gives the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
            start: Instant::now(),
        }
    }

    /// The next number of the splitmix64 sequence.
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut word = self
            .state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

impl Environment for Seeded {
    fn now(&self) -> Timestamp {
        // Any fixed moment will do; this one is easy to recognise in a log.
        let epoch = Timestamp::constant(1_800_000_000, 0);
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        epoch.checked_add(elapsed).unwrap_or(epoch)
    }

    fn random(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}
