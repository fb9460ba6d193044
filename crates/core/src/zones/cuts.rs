//! Names that a zone holds and its servers do not answer for: below and at delegations (RFC 1034
//! section 4.2.1), below a DNAME (RFC 6672), and where a zone below stands on the same servers.
//!
//! What is written there is kept, but no resolver gets it, so it is never called served.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Zone, Zones};
use crate::{
    name::Name,
    object::Id,
    record::{RecordData, RecordKey, RecordType},
};

/// The type DNAME, which is carried as bytes.
const DNAME: RecordType = RecordType::Other(39);
/// The type DS, which the zone above a delegation answers for (RFC 4034 section 5).
const DS: RecordType = RecordType::Other(43);

/// Why the servers of a zone do not answer for a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// NS records at this name hand it, and everything below, to other servers.
    Delegation(Name),
    /// A DNAME at this name stands for everything below it.
    Alias(Name),
    /// A zone of this name is on the same servers and answers instead.
    Zone(Name),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delegation(at) => write!(
                f,
                "NS records at {at} delegate it to other name servers, which are asked instead: \
                 publish it there, or remove the delegation"
            ),
            Self::Alias(at) => write!(
                f,
                "a DNAME at {at} stands for every name below: remove one of the two"
            ),
            Self::Zone(at) => write!(
                f,
                "the zone {at} is on the same servers and answers instead: let that zone select it"
            ),
        }
    }
}

/// The cuts of one zone.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// The names that have NS records or a DNAME, and which of the two.
    known: BTreeMap<Name, RecordType>,
    /// Those whose objects have not been told.
    news: BTreeSet<Name>,
    /// Whether the zone answered for itself when the objects of zones above it were last told.
    answers: bool,
}

impl Cuts {
    /// Notes whether a set of this key stands, in the zone of this name.
    pub(super) fn note(&mut self, zone: &Name, key: &RecordKey, stands: bool) {
        let delegates = key.rtype == RecordType::Ns && key.name != *zone;
        if !delegates && key.rtype != DNAME {
            return;
        }
        let before = self.known.get(&key.name);
        if stands {
            self.known.insert(key.name.clone(), key.rtype);
        } else if before == Some(&key.rtype) {
            self.known.remove(&key.name);
        } else {
            return;
        }
        self.news.insert(key.name.clone());
    }

    /// Forgets all of them, before a whole zone is taken in.
    pub(super) fn clear(&mut self) {
        self.news
            .extend(std::mem::take(&mut self.known).into_keys());
    }
}

impl Zones {
    /// What keeps the servers of a zone from answering for a set in it.
    pub(super) fn cut_over(&self, zone: &Zone, apex: &Name, key: &RecordKey) -> Option<Cut> {
        if zone.cuts.known.is_empty() && self.known.len() == 1 {
            return None;
        }
        let below = |suffix: &&[u8]| suffix.len() > apex.as_wire().len();
        let at_cut = matches!(key.rtype, RecordType::Ns | DS);
        let mut found = None;
        for suffix in key.name.suffixes().take_while(below) {
            let is_name = suffix.len() == key.name.as_wire().len();
            let is_answered_above = is_name && at_cut;
            if let Some((name, child)) = self.known.get_key_value(suffix)
                && child.answers()
                && !is_answered_above
            {
                return (!zone.is_glue(name, key)).then(|| Cut::Zone(name.clone()));
            }
            // The cut that is nearest to the apex is the one that a resolver meets.
            found = match zone.cuts.known.get_key_value(suffix) {
                Some((name, &DNAME)) if !is_name => Some(Cut::Alias(name.clone())),
                Some((name, RecordType::Ns)) if !is_answered_above => {
                    (!zone.is_glue(name, key)).then(|| Cut::Delegation(name.clone()))
                }
                Some(_) | None => found,
            };
        }
        let alias = zone.cuts.known.get_key_value(apex);
        match alias.filter(|_| key.name != *apex) {
            Some((apex, _)) => Some(Cut::Alias(apex.clone())),
            None => found,
        }
    }

    /// Objects at and below names whose answers come from elsewhere now, or no longer, hear of it.
    ///
    /// This walks the names of the zone, but only after NS records below its apex changed.
    pub(super) fn tell_cuts(&mut self) {
        let turned: Vec<Name> = self
            .zone_news
            .iter()
            .filter(|name| self.known.get_mut(*name).is_some_and(Zone::turned))
            .cloned()
            .collect();
        for name in turned {
            self.tell_zones_above(&name);
        }
        for zone in self
            .known
            .values_mut()
            .filter(|zone| !zone.cuts.news.is_empty())
        {
            let news = std::mem::take(&mut zone.cuts.news);
            self.owner_news.extend(zone.owners_below(&news));
        }
    }

    /// A zone began or ceased to answer: objects of the zones above it, at and below its name, hear of it.
    pub(super) fn tell_zones_above(&mut self, name: &Name) {
        let above = name.suffixes().skip(1);
        let above: Vec<&Zone> = above.filter_map(|suffix| self.known.get(suffix)).collect();
        let below = BTreeSet::from([name.clone()]);
        let owners = above.iter().flat_map(|zone| zone.owners_below(&below));
        self.owner_news.extend(owners.collect::<Vec<_>>());
    }
}

impl Zone {
    /// Whether servers answer from this zone.
    fn answers(&self) -> bool {
        self.declared.is_some() && self.lifecycle.is_open()
    }

    /// Whether it began or ceased to answer since this was last asked.
    fn turned(&mut self) -> bool {
        let answers = self.answers();
        std::mem::replace(&mut self.cuts.answers, answers) != answers
    }

    /// Whether a set is an address of a name server of this delegation: resolvers get it with the referral.
    fn is_glue(&self, cut: &Name, key: &RecordKey) -> bool {
        let servers = self
            .children
            .actual(&RecordKey::new(cut.clone(), RecordType::Ns));
        matches!(key.rtype, RecordType::A | RecordType::Aaaa)
            && servers.is_some_and(|set| set.data().contains(&RecordData::Ns(key.name.clone())))
    }

    /// The objects that ask for something at or below some of these names.
    fn owners_below<'a>(&'a self, names: &'a BTreeSet<Name>) -> impl Iterator<Item = Id> + 'a {
        let below = |name: &Name| name.suffixes().any(|suffix| names.contains(suffix));
        let nodes = self.nodes.iter().filter(move |(name, _)| below(name));
        nodes.flat_map(|(_, owners)| owners.iter().map(|(owner, _)| Id::clone(owner)))
    }
}
