//! A set of things of which there is nearly always one.

/// A sorted set that keeps a single thing in place: of a hundred thousand sets with one thing each, every
/// allocation would be felt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmallSet<T> {
    /// Exactly one.
    One(T),
    /// None or several, sorted.
    Many(Box<[T]>),
}

impl<T> Default for SmallSet<T> {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl<T: Ord> SmallSet<T> {
    /// All of them, sorted.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// All of them, sorted.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.as_slice().iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Puts one in, unless it is there already.
    pub fn insert(&mut self, one: T) {
        if let Err(place) = self.as_slice().binary_search(&one) {
            let mut all = std::mem::take(self).into_vec();
            all.insert(place, one);
            *self = Self::of(all);
        }
    }

    /// Takes those out that are not to stay.
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        if !self.iter().all(&stays) {
            let mut all = std::mem::take(self).into_vec();
            all.retain(stays);
            *self = Self::of(all);
        }
    }

    fn of(mut sorted: Vec<T>) -> Self {
        match (sorted.len(), sorted.pop()) {
            (1, Some(one)) => Self::One(one),
            (_, last) => {
                sorted.extend(last);
                Self::Many(sorted.into())
            }
        }
    }

    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many.into(),
        }
    }
}

impl<T: Ord> FromIterator<T> for SmallSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut all: Vec<T> = all.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Self::of(all)
    }
}

impl<'a, T: Ord> IntoIterator for &'a SmallSet<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(acts in prop::collection::vec((any::<bool>(), 0_u8..5), 0..20)) {
            let (mut few, mut set) = (SmallSet::default(), BTreeSet::new());
            for (comes, one) in acts {
                if comes {
                    few.insert(one);
                    set.insert(one);
                } else {
                    few.retain(|other| *other != one);
                    set.remove(&one);
                }
                prop_assert!(few.iter().eq(&set));
                prop_assert_eq!(&few, &set.iter().rev().copied().collect());
                prop_assert_eq!(few.is_empty(), set.is_empty());
                prop_assert_eq!(matches!(few, SmallSet::One(_)), set.len() == 1);
            }
        }
    }
}
