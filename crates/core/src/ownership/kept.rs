//! A declaration as it is kept: what an object asks for, and which lines it owns.

use std::collections::BTreeSet;

use super::Ownership;
use crate::{
    claim::{Adoption, Claim, Declaration},
    name::Name,
    object::Id,
    record::{Record, RecordData, RecordKey},
    zones::Going,
};

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
    pub(crate) ownership: Ownership,
    pub(crate) going: Going,
}

/// The lines that an object owns.
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
            ownership,
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
            ownership,
            going,
        };
        kept.lines = kept.list(ownership.owned(&kept.claims, published));
        kept
    }

    fn list(&self, mut lines: Vec<Record>) -> Lines {
        lines.sort_unstable();
        if self.claims.len() <= ASKED_MAX {
            let asked = self.asked();
            let owned = lines.iter().map(|line| (&line.name, &line.data));
            if owned.collect::<BTreeSet<_>>() == asked {
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

    /// Whether it asks for and owns the same as another, with the same rights.
    pub(crate) fn same_wishes(&self, other: &Self) -> bool {
        self.claims == other.claims
            && self.lines == other.lines
            && self.adoption == other.adoption
            && self.ownership == other.ownership
            && self.going == other.going
            && self.since == other.since
    }

    /// The sets in which the object owns lines.
    pub(crate) fn owned_sets(&self) -> BTreeSet<RecordKey> {
        match &self.lines {
            Lines::Asked => self.claims.iter().map(|claim| claim.key.clone()).collect(),
            Lines::Listed(lines) => lines.iter().map(Record::key).collect(),
        }
    }

    /// The lines that the object owns and does not ask for.
    pub(crate) fn stale_records(&self) -> impl Iterator<Item = &Record> {
        let (lines, asked) = match &self.lines {
            Lines::Asked => (&[][..], BTreeSet::new()),
            Lines::Listed(lines) => (&**lines, self.asked()),
        };
        let lines = lines.iter();
        lines.filter(move |line| !asked.contains(&(&line.name, &line.data)))
    }

    /// Whether the object owns a line.
    pub(crate) fn owns(&self, name: &Name, data: &RecordData) -> bool {
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

    /// The claims of which nothing may be written yet, by position.
    pub(crate) fn withheld(&self) -> BTreeSet<u32> {
        let is_refused = self.ownership.refusal().is_some();
        let is_withheld = |claim: &Claim| {
            let is_recorded = |data: &RecordData| self.owns(&claim.key.name, data);
            let mut first = self.ownership.durable_first(claim, is_recorded);
            is_refused || first.next().is_some()
        };
        let claims = (0..).zip(&self.claims);
        claims
            .filter(|(_, claim)| is_withheld(claim))
            .map(|(index, _)| index)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, ObjectRef};

    /// An object that asks for and owns these lines.
    fn kept(asks: &[&str], owns: &[&str]) -> Kept {
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
            published: owns.iter().map(record).collect(),
            had: Vec::new(),
            adoption: Adoption::Refuse,
            ownership: Ownership::Object,
            going: Going::Asked,
        })
    }

    const ONE: &str = "a.example.com. 300 IN A 192.0.2.1";
    const TWO: &str = "a.example.com. 300 IN A 192.0.2.2";
    const OTHER: &str = "b.example.com. 300 IN A 192.0.2.1";

    fn owns(kept: &Kept, line: &str) -> bool {
        let line: Record = line.parse().expect("the line is sound");
        kept.owns(&line.name, &line.data)
    }

    #[test]
    fn lines_that_are_asked_for_are_not_kept_twice_and_owned_all_the_same() {
        let kept = kept(&[ONE], &["a.example.com. 60 IN A 192.0.2.1"]);
        assert_eq!(kept.lines, Lines::Asked);
        assert!(owns(&kept, ONE) && !owns(&kept, TWO) && !owns(&kept, OTHER));
        assert_eq!(kept.stale_records().count(), 0);
        assert_eq!(kept.owned_sets().len(), 1);
    }

    #[test]
    fn what_is_asked_for_and_not_recorded_is_not_taken_for_owned() {
        let kept = kept(&[ONE, OTHER], &[ONE]);
        assert!(owns(&kept, ONE) && !owns(&kept, OTHER));
        assert_eq!(kept.owned_sets().len(), 1);
        assert_eq!(kept.stale_records().count(), 0);
    }

    #[test]
    fn what_is_owned_and_not_asked_for_is_stale() {
        let kept = kept(&[ONE], &[OTHER, TWO, ONE]);
        assert!(owns(&kept, ONE) && owns(&kept, TWO) && owns(&kept, OTHER));
        let left: Vec<String> = kept.stale_records().map(ToString::to_string).collect();
        assert_eq!(left, [TWO, OTHER]);
    }

    #[test]
    fn many_lines_are_found_as_well() {
        let lines: Vec<String> = (0..100)
            .map(|number| format!("h{number}.example.com. 300 IN A 192.0.2.{number}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let kept = kept(&lines, &lines);
        assert!(lines.iter().all(|line| owns(&kept, line)) && !owns(&kept, ONE));
        assert_eq!(
            (kept.owned_sets().len(), kept.stale_records().count()),
            (100, 0)
        );
    }
}
