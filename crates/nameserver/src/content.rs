//! What a zone holds: a persistent map, so that a reader keeps its view while a writer goes on.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bindery_core::{Name, RecordData, RecordSet, RecordType, Serial, Soa};
use bindery_dns::wire::WireRecord;
use rpds::RedBlackTreeMapSync;

/// All record sets of one name.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: Name,
    pub(super) sets: BTreeMap<RecordType, Arc<RecordSet>>,
}

impl Node {
    pub(super) fn set(&self, rtype: RecordType) -> Option<&Arc<RecordSet>> {
        self.sets.get(&rtype)
    }
}

/// A zone's content at one moment. Cloning it costs nothing; changing a clone costs the depth
/// of the tree, whatever the size of the zone.
#[derive(Clone)]
pub(super) struct Content {
    apex: Name,
    /// By path, so that all names below a name follow it.
    nodes: RedBlackTreeMapSync<Box<[u8]>, Arc<Node>>,
}

/// A name's labels from the root downwards, each with its length: a name below another starts
/// with the other's path.
pub(super) struct Path {
    bytes: Box<[u8]>,
    /// Where each label ends, shortest ancestor first.
    ends: Vec<usize>,
}

impl Path {
    pub(super) fn of(name: &Name) -> Self {
        let labels: Vec<&[u8]> = name.labels().collect();
        let mut bytes = Vec::with_capacity(name.as_wire().len());
        let mut ends = Vec::with_capacity(labels.len());
        for label in labels.iter().rev() {
            // A label has at most 63 bytes.
            bytes.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(label);
            ends.push(bytes.len());
        }
        Self {
            bytes: bytes.into(),
            ends,
        }
    }

    /// The path of the ancestor with this many labels, or of the name itself.
    pub(super) fn ancestor(&self, labels: usize) -> &[u8] {
        match labels {
            0 => &[],
            count => self
                .ends
                .get(count - 1)
                .map_or(&self.bytes[..], |end| &self.bytes[..*end]),
        }
    }

    pub(super) fn labels(&self) -> usize {
        self.ends.len()
    }
}

impl Content {
    /// An empty zone; it is not fit to be served before it has an SOA.
    pub(super) fn new(apex: Name) -> Self {
        Self {
            apex,
            nodes: RedBlackTreeMapSync::new_sync(),
        }
    }

    pub(super) fn apex(&self) -> &Name {
        &self.apex
    }

    /// The node at a path.
    pub(super) fn at(&self, path: &[u8]) -> Option<&Arc<Node>> {
        self.nodes.get(path)
    }

    /// The node of a name.
    pub(super) fn node(&self, name: &Name) -> Option<&Arc<Node>> {
        self.at(&Path::of(name).bytes)
    }

    /// Whether there is a name at this path or below it (RFC 4592 section 2.2.2: a name exists
    /// if something below it does).
    pub(super) fn exists(&self, path: &[u8]) -> bool {
        self.nodes
            .range::<[u8], _>((Bound::Included(path), Bound::Unbounded))
            .next()
            .is_some_and(|(found, _)| found.starts_with(path))
    }

    pub(super) fn set(&self, name: &Name, rtype: RecordType) -> Option<&Arc<RecordSet>> {
        self.node(name)?.set(rtype)
    }

    /// Puts a set in the place of what is there, or takes it away.
    pub(super) fn put(&mut self, name: &Name, rtype: RecordType, set: Option<Arc<RecordSet>>) {
        let path = Path::of(name).bytes;
        let mut node = self.nodes.get(&path).map_or_else(
            || Node {
                name: name.clone(),
                sets: BTreeMap::new(),
            },
            |node| Node::clone(node),
        );
        match set.filter(|set| !set.is_empty()) {
            Some(set) => node.sets.insert(rtype, set),
            None => node.sets.remove(&rtype),
        };
        if node.sets.is_empty() {
            self.nodes.remove_mut(&path);
        } else {
            self.nodes.insert_mut(path, Arc::new(node));
        }
    }

    /// The SOA and its TTL.
    pub(super) fn soa(&self) -> Option<(&Soa, u32)> {
        let set = self.set(&self.apex, RecordType::Soa)?;
        match set.data() {
            [RecordData::Soa(soa)] => Some((soa, set.ttl)),
            _ => None,
        }
    }

    /// The SOA as it stands in messages.
    pub(super) fn soa_row(&self) -> Option<WireRecord> {
        let (soa, ttl) = self.soa()?;
        let data = RecordData::Soa(Box::new(soa.clone()));
        Some(WireRecord::new(self.apex.clone(), ttl, &data))
    }

    pub(super) fn serial(&self) -> Option<Serial> {
        self.soa().map(|(soa, _)| Serial(soa.serial))
    }

    /// Every set, names in the order of their paths.
    pub(super) fn sets(&self) -> impl Iterator<Item = (&Name, RecordType, &Arc<RecordSet>)> {
        self.nodes.values().flat_map(|node| {
            node.sets
                .iter()
                .map(|(rtype, set)| (&node.name, *rtype, set))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn content(lines: &[&str]) -> Content {
        let mut content = Content::new(name("example.com."));
        for line in lines {
            let record: bindery_core::Record = line.parse().unwrap();
            let set = RecordSet::new(record.ttl, [record.data.clone()]);
            content.put(&record.name, record.data.rtype(), Some(Arc::new(set)));
        }
        content
    }

    #[test]
    fn a_name_exists_if_something_below_it_does() {
        let content = content(&["a.b.example.com. 1 IN A 192.0.2.1"]);
        let exists = |text: &str| content.exists(&Path::of(&name(text)).bytes);
        assert!(exists("a.b.example.com."));
        assert!(exists("b.example.com."));
        assert!(exists("example.com."));
        assert!(!exists("c.b.example.com."));
        assert!(!exists("x.a.b.example.com."));
        assert!(!exists("ab.example.com."));
    }

    #[test]
    fn a_clone_keeps_its_view() {
        let before = content(&["a.example.com. 1 IN A 192.0.2.1"]);
        let mut after = before.clone();
        after.put(&name("a.example.com."), RecordType::A, None);
        assert!(before.node(&name("a.example.com.")).is_some());
        assert!(after.node(&name("a.example.com.")).is_none());
    }

    #[test]
    fn ancestors_are_prefixes_of_a_path() {
        let path = Path::of(&name("a.b.example.com."));
        assert_eq!(path.labels(), 4);
        assert_eq!(path.ancestor(0), b"");
        assert_eq!(path.ancestor(2), b"\x03com\x07example");
        assert_eq!(path.ancestor(4), &*path.bytes);
    }
}
