//! How the key of a server is replaced while it runs: the new one is added, loaded everywhere, used, and only then
//! the old one is taken out.
//!
//! All that is known stands in one Secret, and each step is one write of it. Whoever reads it after a crash goes on
//! where it was.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bindery_core::{Moment, Shown};

/// How long a key stays valid after another is used in its place: what was signed with it may still be on its way.
/// An update waits for its answer for some seconds.
pub const KEY_OVERLAP: Duration = Duration::from_secs(15);

/// How long a generated key is used where nobody says: thirty days, as in bindy.
const PERIOD_DEFAULT: u64 = 720 * 3600;
/// The shortest and the longest time.
const PERIOD_MIN: u64 = 3600;
const PERIOD_MAX: u64 = 8760 * 3600;

/// A key as far as replacing it goes.
pub trait RingKey: Clone + PartialEq {
    /// The name by which a server knows it.
    fn name(&self) -> &str;
}

/// The keys that are valid on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRing<K> {
    /// The one that is used.
    pub current: K,
    /// The one beside it.
    pub other: OtherKey<K>,
}

/// The key beside the one that is used.
#[derive(Clone, PartialEq, Eq)]
pub enum OtherKey<K> {
    /// There is none.
    None,
    /// It will be used once every pod has it.
    Next(K),
    /// It was used until then.
    Previous(K, Moment),
}

/// Which key a server shall have.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyWish<K> {
    /// The one that it has.
    Keep,
    /// A new one.
    Renew,
    /// This one.
    Have(K),
}

/// What is known about the pods of a server.
pub struct KeyFacts<'a, K> {
    /// Whether every pod has loaded a key.
    pub is_loaded: &'a dyn Fn(&K) -> bool,
    /// What time it is.
    pub now: Moment,
}

/// What is to be done next.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyStep<K> {
    /// Nothing: the server has the key that it shall have, and no other.
    Rest,
    /// Wait until every pod has loaded the key of this name.
    AwaitPods(String),
    /// Wait until what was signed with the key before has arrived.
    AwaitOverlap,
    /// Make a key whose name is none of the ring's, and put it beside the current one.
    Make,
    /// Write this.
    Write(KeyRing<K>),
}

impl<K: RingKey> KeyRing<K> {
    /// A ring of one key.
    pub const fn of(current: K) -> Self {
        let other = OtherKey::None;
        Self { current, other }
    }

    /// The key beside the current one.
    pub const fn beside(&self) -> Option<&K> {
        match &self.other {
            OtherKey::None => None,
            OtherKey::Next(key) | OtherKey::Previous(key, _) => Some(key),
        }
    }

    /// With another key to be used next.
    #[must_use]
    pub fn with_next(&self, next: K) -> Self {
        Self {
            current: self.current.clone(),
            other: OtherKey::Next(next),
        }
    }

    /// The next step on the way to what is wished for.
    pub fn step(&self, wish: &KeyWish<K>, facts: &KeyFacts<'_, K>) -> KeyStep<K> {
        match &self.other {
            OtherKey::None => self.begin(wish),
            OtherKey::Next(next) => match wish {
                // Nobody uses it yet, so that it can be another one.
                KeyWish::Have(wished) if wished != next && wished.name() != self.current.name() => {
                    KeyStep::Write(self.with_next(wished.clone()))
                }
                KeyWish::Keep | KeyWish::Renew | KeyWish::Have(_) => {
                    if !(facts.is_loaded)(next) {
                        return KeyStep::AwaitPods(next.name().to_owned());
                    }
                    KeyStep::Write(Self {
                        current: next.clone(),
                        other: OtherKey::Previous(self.current.clone(), facts.now),
                    })
                }
            },
            OtherKey::Previous(_, since) => {
                let overlap = i64::try_from(KEY_OVERLAP.as_secs()).unwrap_or(i64::MAX);
                // A clock that was set back does not keep it for ever.
                let passed = facts.now.0.saturating_sub(since.0);
                if (0..overlap).contains(&passed) {
                    return KeyStep::AwaitOverlap;
                }
                if !(facts.is_loaded)(&self.current) {
                    return KeyStep::AwaitPods(self.current.name().to_owned());
                }
                KeyStep::Write(Self::of(self.current.clone()))
            }
        }
    }

    fn begin(&self, wish: &KeyWish<K>) -> KeyStep<K> {
        match wish {
            KeyWish::Keep => KeyStep::Rest,
            KeyWish::Renew => KeyStep::Make,
            KeyWish::Have(wished) if *wished == self.current => KeyStep::Rest,
            // A server cannot have two keys of one name: a key of ours comes between.
            KeyWish::Have(wished) if wished.name() == self.current.name() => KeyStep::Make,
            KeyWish::Have(wished) => KeyStep::Write(self.with_next(wished.clone())),
        }
    }
}

/// How long a generated key is used, in seconds: `720h`, `30d`, `4w`, within an hour and a year.
///
/// # Errors
/// If the text is no such time.
pub fn rotation_period(text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text else {
        return Ok(PERIOD_DEFAULT);
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: Option<u64> = text[..digits].parse().ok();
    let unit = match &text[digits..] {
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(604_800),
        _ => None,
    };
    let seconds = number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (PERIOD_MIN..=PERIOD_MAX).contains(seconds));
    seconds.ok_or_else(|| {
        let shown = Shown(text);
        format!(
            "{shown} is not a time between 1h and 8760h: write a number with h, d or w, such as 30d"
        )
    })
}
