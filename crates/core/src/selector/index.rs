//! From labels to the selectors that match them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Labels, Selector, Test};

/// Registered selectors, found by the labels they match.
///
/// Guarantees: a look-up costs what its labels point at, not what is registered: every selector
/// stands under one requirement that only few labels meet. Only selectors that require no label to
/// be present are tried on every look-up in their namespace.
#[derive(Debug, Clone)]
pub struct Index<Id> {
    namespaces: BTreeMap<Box<str>, Local<Id>>,
    registered: BTreeMap<Id, Registered>,
}

#[derive(Debug, Clone)]
struct Registered {
    namespace: Box<str>,
    selectors: Box<[Selector]>,
    places: Box<[Place]>,
}

/// Where a selector stands in its namespace.
#[derive(Debug, Clone)]
enum Place {
    /// Under a key and each of some values.
    Values(Box<str>, Box<[Box<str>]>),
    /// Under a key, whatever its value.
    Key(Box<str>),
    /// Among those that are always tried.
    Always,
}

/// Entries are an id and the position of one of its selectors.
type Entries<Id> = BTreeSet<(Id, usize)>;

#[derive(Debug, Clone)]
struct Local<Id> {
    by_value: BTreeMap<Box<str>, BTreeMap<Box<str>, Entries<Id>>>,
    by_key: BTreeMap<Box<str>, Entries<Id>>,
    always: Entries<Id>,
}

impl<Id> Default for Index<Id> {
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
            by_key: BTreeMap::new(),
            always: BTreeSet::new(),
        }
    }
}

impl<Id: Ord + Clone> Index<Id> {
    /// Registers the selectors of `id`, any of which may match, in place of earlier ones.
    pub fn insert(&mut self, id: Id, namespace: &str, selectors: Vec<Selector>) {
        self.remove(&id);
        let local = self.namespaces.entry(namespace.into()).or_default();
        let mut places = Vec::with_capacity(selectors.len());
        for (position, selector) in selectors.iter().enumerate() {
            let place = local.place(selector);
            local.visit(&place, |entries| {
                entries.insert((id.clone(), position));
            });
            places.push(place);
        }
        let registered = Registered {
            namespace: namespace.into(),
            selectors: selectors.into(),
            places: places.into(),
        };
        self.registered.insert(id, registered);
    }

    /// Forgets the selectors of `id`.
    pub fn remove(&mut self, id: &Id) {
        let Some(registered) = self.registered.remove(id) else {
            return;
        };
        let Some(local) = self.namespaces.get_mut(&registered.namespace) else {
            return;
        };
        for (position, place) in registered.places.iter().enumerate() {
            local.visit(place, |entries| {
                entries.remove(&(id.clone(), position));
            });
            local.drop_empty(place);
        }
        if local.is_empty() {
            self.namespaces.remove(&registered.namespace);
        }
    }

    /// The ids with a selector that matches these labels in this namespace, sorted.
    #[must_use]
    pub fn find(&self, namespace: &str, labels: &Labels) -> Vec<Id> {
        let Some(local) = self.namespaces.get(namespace) else {
            return Vec::new();
        };
        let found: BTreeSet<&Id> = local
            .candidates(labels)
            .filter(|(id, position)| {
                self.registered
                    .get(id)
                    .and_then(|registered| registered.selectors.get(*position))
                    .is_some_and(|selector| selector.matches(labels))
            })
            .map(|(id, _)| id)
            .collect();
        found.into_iter().cloned().collect()
    }
}

impl<Id: Ord> Local<Id> {
    /// The requirement that the fewest other selectors stand under, values before keys.
    fn place(&self, selector: &Selector) -> Place {
        let mut best: Option<(usize, Place)> = None;
        for requirement in selector.requirements() {
            let key = &requirement.key;
            let (crowd, place) = match &requirement.test {
                Test::In(values) => {
                    let crowd = values.iter().map(|value| 1 + self.crowd(key, value)).sum();
                    (crowd, Place::Values(key.clone(), values.clone()))
                }
                // Any value would do here, so a requirement of values is nearly always narrower.
                Test::Exists => (usize::MAX, Place::Key(key.clone())),
                Test::NotIn(_) | Test::DoesNotExist => continue,
            };
            if best.as_ref().is_none_or(|(least, _)| crowd < *least) {
                best = Some((crowd, place));
            }
        }
        best.map_or(Place::Always, |(_, place)| place)
    }

    fn crowd(&self, key: &str, value: &str) -> usize {
        self.by_value
            .get(key)
            .and_then(|values| values.get(value))
            .map_or(0, BTreeSet::len)
    }

    fn visit(&mut self, place: &Place, mut change: impl FnMut(&mut Entries<Id>)) {
        match place {
            Place::Values(key, values) => {
                let local = self.by_value.entry(key.clone()).or_default();
                for value in values {
                    change(local.entry(value.clone()).or_default());
                }
            }
            Place::Key(key) => change(self.by_key.entry(key.clone()).or_default()),
            Place::Always => change(&mut self.always),
        }
    }

    fn drop_empty(&mut self, place: &Place) {
        match place {
            Place::Values(key, values) => {
                if let Some(local) = self.by_value.get_mut(key) {
                    for value in values {
                        if local.get(value).is_some_and(BTreeSet::is_empty) {
                            local.remove(value);
                        }
                    }
                    if local.is_empty() {
                        self.by_value.remove(key);
                    }
                }
            }
            Place::Key(key) => {
                if self.by_key.get(key).is_some_and(BTreeSet::is_empty) {
                    self.by_key.remove(key);
                }
            }
            Place::Always => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.by_value.is_empty() && self.by_key.is_empty() && self.always.is_empty()
    }

    fn candidates(&self, labels: &Labels) -> impl Iterator<Item = &(Id, usize)> {
        let by_label = labels.iter().flat_map(|(key, value)| {
            let by_value = self.by_value.get(key.as_str());
            let by_value = by_value.and_then(|values| values.get(value.as_str()));
            let by_key = self.by_key.get(key.as_str());
            by_value
                .into_iter()
                .flatten()
                .chain(by_key.into_iter().flatten())
        });
        by_label.chain(&self.always)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(key: &str, value: &str) -> Selector {
        let labels = Labels::from([
            (key.to_owned(), value.to_owned()),
            ("managed".to_owned(), "yes".to_owned()),
        ]);
        Selector::new(&labels, &[], "selector").expect("labels are always a selector")
    }

    #[test]
    fn a_look_up_tries_only_what_its_labels_point_at() {
        const STANDING: u32 = 10_000;
        let mut index = Index::default();
        for zone in 0..STANDING {
            index.insert(zone, "default", vec![selector("zone", &zone.to_string())]);
        }
        let labels = Labels::from([
            ("zone".to_owned(), "7".to_owned()),
            ("managed".to_owned(), "yes".to_owned()),
        ]);
        let local = index.namespaces.get("default").expect("it has selectors");
        // The first selectors may stand under the shared label, until it is more crowded.
        assert!(local.candidates(&labels).count() <= 3);
        assert_eq!(index.find("default", &labels), [7]);
    }
}
