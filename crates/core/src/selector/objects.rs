//! From a selector to the objects that it matches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Labels, Selector, Test};

/// Labelled objects, found by a selector.
///
/// Guarantees: a look-up costs what its narrowest requirement points at. Only a selector that
/// requires no label to be present looks at its whole namespace, most of which it then returns.
#[derive(Debug, Clone)]
pub struct LabelIndex<Id> {
    namespaces: BTreeMap<Box<str>, Local<Id>>,
    registered: BTreeMap<Id, Registered>,
}

#[derive(Debug, Clone)]
struct Registered {
    namespace: Box<str>,
    /// Sorted by key; the texts are shared with the namespace, since labels repeat.
    labels: Box<[(Arc<str>, Arc<str>)]>,
}

#[derive(Debug, Clone)]
struct Local<Id> {
    by_value: BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<Id>>>,
    all: BTreeSet<Id>,
}

impl<Id> Default for LabelIndex<Id> {
    fn default() -> Self {
        Self {
            namespaces: BTreeMap::new(),
            registered: BTreeMap::new(),
        }
    }
}

impl<Id> Default for Local<Id> {
    fn default() -> Self {
        Self {
            by_value: BTreeMap::new(),
            all: BTreeSet::new(),
        }
    }
}

impl<Id: Ord + Clone> LabelIndex<Id> {
    /// Registers the labels of `id` in place of earlier ones.
    pub fn insert(&mut self, id: Id, namespace: &str, labels: &Labels) {
        self.remove(&id);
        let local = self.namespaces.entry(namespace.into()).or_default();
        local.all.insert(id.clone());
        let labels = labels
            .iter()
            .map(|(key, value)| local.enter(key, value, &id))
            .collect();
        self.registered.insert(
            id,
            Registered {
                namespace: namespace.into(),
                labels,
            },
        );
    }

    /// Forgets `id`.
    pub fn remove(&mut self, id: &Id) {
        let Some(registered) = self.registered.remove(id) else {
            return;
        };
        let Some(local) = self.namespaces.get_mut(&registered.namespace) else {
            return;
        };
        local.all.remove(id);
        for (key, value) in &registered.labels {
            local.leave(key, value, id);
        }
        if local.all.is_empty() {
            self.namespaces.remove(&registered.namespace);
        }
    }

    /// The ids in this namespace whose labels the selector matches, sorted.
    #[must_use]
    pub fn find(&self, namespace: &str, selector: &Selector) -> Vec<Id> {
        let Some(local) = self.namespaces.get(namespace) else {
            return Vec::new();
        };
        let matches = |id: &&Id| {
            self.registered
                .get(id)
                .is_some_and(|object| selector.matches_by(|key| object.label(key)))
        };
        match local.narrowest(selector) {
            Some(sets) => {
                let found: BTreeSet<&Id> = sets.into_iter().flatten().filter(matches).collect();
                found.into_iter().cloned().collect()
            }
            None => local.all.iter().filter(matches).cloned().collect(),
        }
    }
}

impl Registered {
    fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(other, _)| (**other).cmp(key))
            .ok()?;
        self.labels.get(at).map(|(_, value)| &**value)
    }
}

impl<Id: Ord + Clone> Local<Id> {
    fn enter(&mut self, key: &str, value: &str, id: &Id) -> (Arc<str>, Arc<str>) {
        let key = match self.by_value.get_key_value(key) {
            Some((known, _)) => known.clone(),
            None => key.into(),
        };
        let values = self.by_value.entry(key.clone()).or_default();
        let value = match values.get_key_value(value) {
            Some((known, _)) => known.clone(),
            None => value.into(),
        };
        values.entry(value.clone()).or_default().insert(id.clone());
        (key, value)
    }

    fn leave(&mut self, key: &str, value: &str, id: &Id) {
        let Some(values) = self.by_value.get_mut(key) else {
            return;
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
}
