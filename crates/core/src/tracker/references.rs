//! Which parents a child belongs to, where that may be several: an address serves many services.

use std::collections::{BTreeMap, BTreeSet};

use super::Drained;

/// References of children to parents, found from both ends at the cost of what they concern.
#[derive(Clone, Debug)]
pub struct References<C, P> {
    parents: BTreeMap<C, BTreeSet<P>>,
    children: BTreeMap<P, BTreeSet<C>>,
}

impl<C, P> Default for References<C, P> {
    fn default() -> Self {
        Self {
            parents: BTreeMap::new(),
            children: BTreeMap::new(),
        }
    }
}

impl<C: Ord + Clone, P: Ord + Clone> References<C, P> {
    /// Replaces the parents of a child.
    pub fn set(&mut self, child: &C, parents: BTreeSet<P>) {
        let before = self.parents.remove(child).unwrap_or_default();
        for parent in before.difference(&parents) {
            if let Some(children) = self.children.get_mut(parent) {
                children.remove(child);
                if children.is_empty() {
                    self.children.remove(parent);
                }
            }
        }
        for parent in parents.difference(&before) {
            let children = self.children.entry(parent.clone()).or_default();
            children.insert(child.clone());
        }
        if !parents.is_empty() {
            self.parents.insert(child.clone(), parents);
        }
    }

    /// The parents of a child.
    pub fn parents(&self, child: &C) -> impl Iterator<Item = &P> {
        self.parents.get(child).into_iter().flatten()
    }

    /// The children of a parent.
    pub fn children(&self, parent: &P) -> impl Iterator<Item = &C> {
        self.children.get(parent).into_iter().flatten()
    }

    /// How many children a parent has.
    pub fn children_len(&self, parent: &P) -> usize {
        self.children.get(parent).map_or(0, BTreeSet::len)
    }

    /// Evidence that no child refers to a parent.
    pub fn drained(&self, parent: &P) -> Option<Drained<'_>> {
        (!self.children.contains_key(parent)).then(Drained::seen)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = (u8, BTreeSet<u8>)> {
        (0_u8..5, prop::collection::btree_set(0_u8..4, 0..4))
    }

    proptest! {
        #[test]
        fn both_ends_tell_the_same(sets in prop::collection::vec(set(), 0..30)) {
            let mut references = References::<u8, u8>::default();
            let mut book: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
            for (child, parents) in sets {
                references.set(&child, parents.clone());
                book.insert(child, parents);
                for parent in 0..4 {
                    let held = book.iter().filter(|(_, parents)| parents.contains(&parent));
                    let held: Vec<u8> = held.map(|(child, _)| *child).collect();
                    let found: Vec<u8> = references.children(&parent).copied().collect();
                    prop_assert_eq!(references.drained(&parent).is_some(), held.is_empty());
                    prop_assert_eq!(references.children_len(&parent), held.len());
                    prop_assert_eq!(found, held);
                }
                for (child, parents) in &book {
                    prop_assert!(references.parents(child).eq(parents));
                }
            }
        }
    }
}
