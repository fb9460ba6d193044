//! Claims: what one object asks of DNS, set by set.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    name::Name,
    object::Id,
    record::{Record, RecordData, RecordKey},
    zones::Going,
};

/// One object's wish for one record set in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The zone, by its apex name.
    pub zone: Name,
    /// The record set.
    pub key: RecordKey,
    /// The TTL asked for; where several claims merge, the lowest wins.
    pub ttl: u32,
    /// The values asked for; never empty.
    pub data: Arc<[RecordData]>,
    /// Where in the object the wish stands, for messages (`spec`, `spec.endpoints[3]`).
    pub field: Arc<str>,
}

/// Whether an object may take over a record set that stands in the zone already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// A set that we did not write stays as it is and the claim waits.
    #[default]
    Refuse,
    /// A set in which every line stands that the object asks for is the object's: what told so was lost,
    /// and nobody else writes into the zone.
    Known,
    /// The author said that the set is to be taken over.
    Take,
}

/// Everything one object asks for, at one generation, and what it may have in DNS already.
///
/// Assumptions: the object carries, durably, every line of `published` and every line that the
/// claims will write, so that after a crash we still know what is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The object.
    pub owner: Id,
    /// The generation of the object that was read.
    pub generation: i64,
    /// A number of the declarer's choice, given back in the receipt, so that a receipt of an earlier
    /// declaration is not taken for one of this.
    pub revision: u64,
    /// When the object was created, in seconds; the earlier object wins a conflict.
    pub since: i64,
    /// What it asks for now.
    pub claims: Vec<Claim>,
    /// Lines that this object may have in DNS, now or from before.
    pub published: Vec<Record>,
    /// Sets that it has had in DNS as it asked for them, by what its status says.
    pub had: Vec<RecordKey>,
    /// Whether it may take over sets that others wrote.
    pub adoption: Adoption,
    /// By whose word goes what it may have in DNS and does not ask for.
    pub going: Going,
}

/// Of so many claims at most it is found out quickly enough, without a list, whether a line is among
/// them.
const ASKED_MAX: usize = 4;

/// A declaration as it is kept for as long as its object stands, in little room.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) owner: Id,
    pub(crate) generation: i64,
    pub(crate) revision: u64,
    pub(crate) since: i64,
    pub(crate) claims: Box<[Claim]>,
    lines: Lines,
    pub(crate) adoption: Adoption,
    pub(crate) going: Going,
}

/// The lines that an object carries.
#[derive(Debug, PartialEq, Eq)]
enum Lines {
    /// Those that it asks for and no others, as nearly always.
    Asked,
    /// These, sorted.
    Listed(Box<[Record]>),
}

impl Kept {
    /// Keeps a declaration without room that is not used and without second copies of names.
    pub(crate) fn new(declaration: Declaration) -> Self {
        let Declaration {
            owner,
            generation,
            revision,
            since,
            claims,
            published,
            had: _,
            adoption,
            going,
        } = declaration;
        let mut kept = Self {
            owner,
            generation,
            revision,
            since,
            claims: claims.into(),
            lines: Lines::Asked,
            adoption,
            going,
        };
        kept.lines = kept.list(published);
        kept
    }

    fn list(&self, mut lines: Vec<Record>) -> Lines {
        lines.sort_unstable();
        if self.claims.len() <= ASKED_MAX {
            let asked = self.asked();
            let carried = lines.iter().map(|line| (&line.name, &line.data));
            if carried.collect::<BTreeSet<_>>() == asked {
                return Lines::Asked;
            }
        }
        let names: BTreeSet<&Name> = self.claims.iter().map(|claim| &claim.key.name).collect();
        for line in &mut lines {
            if let Some(name) = names.get(&line.name) {
                line.name = Name::clone(name);
            }
        }
        Lines::Listed(lines.into())
    }

    /// Names and values that are asked for.
    fn asked(&self) -> BTreeSet<(&Name, &RecordData)> {
        let claims = self.claims.iter();
        claims
            .flat_map(|claim| claim.data.iter().map(|data| (&claim.key.name, data)))
            .collect()
    }

    /// The claim at a position.
    pub(crate) fn claim(&self, index: u32) -> Option<&Claim> {
        self.claims.get(usize::try_from(index).ok()?)
    }

    /// Whether it asks for and carries the same as another, with the same rights.
    pub(crate) fn same_wishes(&self, other: &Self) -> bool {
        self.claims == other.claims
            && self.lines == other.lines
            && self.adoption == other.adoption
            && self.going == other.going
            && self.since == other.since
    }

    /// The sets in which the object carries lines.
    pub(crate) fn carried(&self) -> BTreeSet<RecordKey> {
        match &self.lines {
            Lines::Asked => self.claims.iter().map(|claim| claim.key.clone()).collect(),
            Lines::Listed(lines) => lines.iter().map(Record::key).collect(),
        }
    }

    /// The lines that the object carries and does not ask for.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = &Record> {
        let (lines, asked) = match &self.lines {
            Lines::Asked => (&[][..], BTreeSet::new()),
            Lines::Listed(lines) => (&**lines, self.asked()),
        };
        let lines = lines.iter();
        lines.filter(move |line| !asked.contains(&(&line.name, &line.data)))
    }

    /// Whether the object carries a line.
    pub(crate) fn carries(&self, name: &Name, data: &RecordData) -> bool {
        let lines = match &self.lines {
            Lines::Asked => {
                let mut claims = self.claims.iter();
                return claims.any(|claim| claim.key.name == *name && claim.data.contains(data));
            }
            Lines::Listed(lines) => lines,
        };
        let start = lines.partition_point(|line| line.name < *name);
        lines[start..]
            .iter()
            .find(|line| line.data == *data || line.name != *name)
            .is_some_and(|line| line.name == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, ObjectRef};

    /// An object that asks for and carries these lines.
    fn kept(asks: &[&str], carries: &[&str]) -> Kept {
        let record = |line: &&str| line.parse::<Record>().expect("the line is sound");
        let claim = |record: Record| Claim {
            zone: Name::parse("example.com").expect("the name is sound"),
            key: record.key(),
            ttl: record.ttl,
            data: [record.data].into(),
            field: "spec".into(),
        };
        Kept::new(Declaration {
            owner: Id::new(ObjectRef {
                kind: Kind::DnsEndpoint,
                namespace: "default".into(),
                name: "www".into(),
                uid: "1".into(),
            }),
            generation: 1,
            revision: 1,
            since: 0,
            claims: asks.iter().map(record).map(claim).collect(),
            published: carries.iter().map(record).collect(),
            had: Vec::new(),
            adoption: Adoption::Refuse,
            going: Going::Asked,
        })
    }

    const ONE: &str = "a.example.com. 300 IN A 192.0.2.1";
    const TWO: &str = "a.example.com. 300 IN A 192.0.2.2";
    const OTHER: &str = "b.example.com. 300 IN A 192.0.2.1";

    fn carries(kept: &Kept, line: &str) -> bool {
        let line: Record = line.parse().expect("the line is sound");
        kept.carries(&line.name, &line.data)
    }

    #[test]
    fn lines_that_are_asked_for_are_not_kept_twice_and_carried_all_the_same() {
        let kept = kept(&[ONE], &["a.example.com. 60 IN A 192.0.2.1"]);
        assert_eq!(kept.lines, Lines::Asked);
        assert!(carries(&kept, ONE) && !carries(&kept, TWO) && !carries(&kept, OTHER));
        assert_eq!(kept.leftovers().count(), 0);
        assert_eq!(kept.carried().len(), 1);
    }

    #[test]
    fn what_is_asked_for_and_not_carried_is_not_taken_for_carried() {
        let kept = kept(&[ONE, OTHER], &[ONE]);
        assert!(carries(&kept, ONE) && !carries(&kept, OTHER));
        assert_eq!(kept.carried().len(), 1);
        assert_eq!(kept.leftovers().count(), 0);
    }

    #[test]
    fn what_is_carried_and_not_asked_for_is_left_over() {
        let kept = kept(&[ONE], &[OTHER, TWO, ONE]);
        assert!(carries(&kept, ONE) && carries(&kept, TWO) && carries(&kept, OTHER));
        let left: Vec<String> = kept.leftovers().map(ToString::to_string).collect();
        assert_eq!(left, [TWO, OTHER]);
    }

    #[test]
    fn many_lines_are_found_as_well() {
        let lines: Vec<String> = (0..100)
            .map(|number| format!("h{number}.example.com. 300 IN A 192.0.2.{number}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let kept = kept(&lines, &lines);
        assert!(lines.iter().all(|line| carries(&kept, line)) && !carries(&kept, ONE));
        assert_eq!((kept.carried().len(), kept.leftovers().count()), (100, 0));
    }
}
