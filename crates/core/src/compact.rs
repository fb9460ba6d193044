//! What stands for long, in little room.

use std::{collections::BTreeSet, sync::Arc};

/// Fills the nodes of a map or set: one that was filled in order, as lists are read, has them half
/// empty. It costs a comparison or two of every entry, so it is done before work begins and not during it.
pub fn compact<T>(all: &mut T)
where
    T: Default + IntoIterator + FromIterator<T::Item>,
{
    *all = std::mem::take(all).into_iter().collect();
}

/// Texts that many things have, one copy of each.
#[derive(Debug, Default)]
pub struct SharedTexts {
    texts: BTreeSet<Arc<str>>,
    /// From how many on it is looked which ones nobody has any more.
    prune_at: usize,
}

impl SharedTexts {
    /// Makes a text that is known already the same copy.
    pub fn share(&mut self, text: &mut Arc<str>) {
        if let Some(known) = self.texts.get(text) {
            *text = Arc::clone(known);
            return;
        }
        // Twice as many as were left the last time: so each text pays for looking at two.
        if self.texts.len() >= self.prune_at {
            self.texts.retain(|one| Arc::strong_count(one) > 1);
            self.prune_at = (2 * self.texts.len()).max(16);
        }
        self.texts.insert(Arc::clone(text));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_packed_is_as_it_was() {
        let all: BTreeMap<u32, u32> = (0..1000).map(|one| (one * 7919 % 1009, one)).collect();
        let mut packed = all.clone();
        compact(&mut packed);
        assert_eq!(packed, all);
    }

    #[test]
    fn a_text_that_many_have_is_kept_once_and_goes_with_the_last() {
        let mut texts = SharedTexts::default();
        let (mut one, mut other): (Arc<str>, Arc<str>) = ("a".into(), "a".into());
        texts.share(&mut one);
        texts.share(&mut other);
        assert!(Arc::ptr_eq(&one, &other));
        for number in 0..1_000 {
            texts.share(&mut number.to_string().into());
        }
        assert!(texts.texts.len() < 20, "nobody has the numbers");
        assert!(texts.texts.contains("a"));
    }

    #[test]
    fn texts_that_are_all_in_use_are_looked_through_less_and_less_often() {
        let mut texts = SharedTexts::default();
        let mut held: Vec<Arc<str>> = (0..17).map(|one: u32| one.to_string().into()).collect();
        for one in &mut held {
            texts.share(one);
        }
        assert_eq!(texts.prune_at, 32, "twice as many as there were");
    }
}
