//! From a selector to the objects that it matches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Labels, Selector, Test};
use crate::compact::compact;

/// Labelled objects, found by a selector.
///
/// Guarantees: a look-up costs what its narrowest requirement points at. Only a selector that
/// requires no label to be present looks at its whole namespace, most of which it then returns.
#[derive(Debug, Clone)]
pub struct LabelIndex<Id> {
    namespaces: BTreeMap<Box<str>, Local<Id>>,
}

#[derive(Debug, Clone)]
struct Local<Id> {
    by_value: BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<Id>>>,
    registered: BTreeMap<Id, Registered>,
}

/// Labels, sorted by key; they are shared, since many objects have the same.
type Registered = Arc<[(Arc<str>, Arc<str>)]>;

impl<Id> Default for LabelIndex<Id> {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
        }
    }
}

impl<Id> Default for Local<Id> {
    fn default() -> Self {
        Self {
            by_value: BTreeMap::new(),
            registered: BTreeMap::new(),
        }
    }
}

impl<Id: Ord + Clone> LabelIndex<Id> {
    /// Registers the labels of `id` in place of earlier ones; an object never leaves its namespace.
    pub fn insert(&mut self, id: Id, namespace: &str, labels: &Labels) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces.insert(namespace.into(), Local::default());
        }
        if let Some(local) = self.namespaces.get_mut(namespace) {
            local.remove(&id);
            local.insert(id, labels);
        }
    }

    /// Forgets `id`.
    pub fn remove(&mut self, id: &Id, namespace: &str) {
        if let Some(local) = self.namespaces.get_mut(namespace) {
            local.remove(id);
            if local.registered.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Puts everything into little room.
    pub fn compact(&mut self) {
        for local in self.namespaces.values_mut() {
            compact(&mut local.registered);
            for ids in local.by_value.values_mut().flat_map(BTreeMap::values_mut) {
                compact(ids);
            }
        }
    }

    /// The ids in this namespace whose labels the selector matches, sorted.
    #[must_use]
    pub fn find(&self, namespace: &str, selector: &Selector) -> Vec<Id> {
        let Some(local) = self.namespaces.get(namespace) else {
            return Vec::new();
        };
        let matches = |id: &&Id| {
            local
                .registered
                .get(id)
                .is_some_and(|labels| selector.matches_by(|key| value_of(labels, key)))
        };
        match local.narrowest(selector) {
            Some(sets) => {
                let found: BTreeSet<&Id> = sets.into_iter().flatten().filter(matches).collect();
                found.into_iter().cloned().collect()
            }
            None => local.registered.keys().filter(matches).cloned().collect(),
        }
    }
}

fn value_of<'a>(labels: &'a Registered, key: &str) -> Option<&'a str> {
    let at = labels
        .binary_search_by(|(other, _)| (**other).cmp(key))
        .ok()?;
    labels.get(at).map(|(_, value)| &**value)
}

impl<Id: Ord + Clone> Local<Id> {
    fn insert(&mut self, id: Id, labels: &Labels) {
        let registered = self.share(labels);
        for (key, value) in registered.iter() {
            let values = self.by_value.entry(Arc::clone(key)).or_default();
            let ids = values.entry(Arc::clone(value)).or_default();
            ids.insert(id.clone());
        }
        self.registered.insert(id, registered);
    }

    /// The labels of another object that has the same, or at least the same texts.
    fn share(&self, labels: &Labels) -> Registered {
        let same = |known: &&Registered| {
            known.len() == labels.len()
                && known
                    .iter()
                    .zip(labels)
                    .all(|((key, value), label)| (&**key, &**value) == (label.0, label.1))
        };
        let mut fellows = labels.iter().filter_map(|(key, value)| {
            let ids = self.by_value.get(&**key)?.get(&**value)?;
            self.registered.get(ids.first()?)
        });
        if let Some(known) = fellows.find(same) {
            return Arc::clone(known);
        }
        let shared = |(key, value): (&String, &String)| {
            let known = self.by_value.get_key_value(&**key);
            let value = known
                .and_then(|(_, values)| values.get_key_value(&**value))
                .map_or_else(|| Arc::from(&**value), |(value, _)| Arc::clone(value));
            let key = known.map_or_else(|| Arc::from(&**key), |(key, _)| Arc::clone(key));
            (key, value)
        };
        labels.iter().map(shared).collect()
    }

    fn remove(&mut self, id: &Id) {
        let registered = self.registered.remove(id);
        for (key, value) in registered.iter().flat_map(|labels| labels.iter()) {
            let Some(values) = self.by_value.get_mut(key) else {
                continue;
            };
            if let Some(ids) = values.get_mut(value) {
                ids.remove(id);
                if ids.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.by_value.remove(key);
            }
        }
    }

    /// The sets under the requirement that the fewest objects meet, if any needs a label.
    fn narrowest(&self, selector: &Selector) -> Option<Vec<&BTreeSet<Id>>> {
        selector
            .requirements()
            .iter()
            .filter_map(|requirement| {
                let values = self.by_value.get(&*requirement.key);
                match &requirement.test {
                    Test::In(wanted) => Some(
                        wanted
                            .iter()
                            .filter_map(|one| values?.get(&**one))
                            .collect::<Vec<_>>(),
                    ),
                    Test::Exists => Some(values.into_iter().flat_map(BTreeMap::values).collect()),
                    Test::NotIn(_) | Test::DoesNotExist => None,
                }
            })
            .min_by_key(|sets| sets.iter().map(|ids| ids.len()).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_looks_only_at_the_objects_of_its_narrowest_label() {
        const STANDING: u32 = 10_000;
        let mut index = LabelIndex::default();
        for record in 0..STANDING {
            let labels = Labels::from([
                ("zone".to_owned(), (record / 10).to_string()),
                ("managed".to_owned(), "yes".to_owned()),
            ]);
            index.insert(record, "default", &labels);
        }
        let labels = Labels::from([
            ("managed".to_owned(), "yes".to_owned()),
            ("zone".to_owned(), "7".to_owned()),
        ]);
        let selector = Selector::new(&labels, &[], "selector").expect("labels are a selector");
        let local = index.namespaces.get("default").expect("it has objects");
        let looked_at = local.narrowest(&selector).expect("a label is required");
        assert_eq!(looked_at.into_iter().flatten().count(), 10);
        assert_eq!(
            index.find("default", &selector),
            (70..80).collect::<Vec<_>>()
        );
    }
    #[test]
    fn an_object_with_fewer_labels_than_another_does_not_get_those_of_that_one() {
        let label = |key: &str| (key.to_owned(), "yes".to_owned());
        let mut index = LabelIndex::default();
        index.insert(1, "default", &Labels::from([label("a"), label("b")]));
        index.insert(2, "default", &Labels::from([label("a")]));
        let with = |key: &str| {
            let selector = Selector::new(&Labels::from([label(key)]), &[], "selector");
            index.find("default", &selector.expect("labels are a selector"))
        };
        assert_eq!((with("a"), with("b")), (vec![1, 2], vec![1]));
    }
}
