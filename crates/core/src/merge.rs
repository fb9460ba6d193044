//! Merging: the record sets of one name, from the claims of several objects.

use std::collections::BTreeMap;

use crate::{
    claim::Claim,
    object::Id,
    record::{RecordSet, RecordType},
};

/// A claim that takes part in a merge, with what decides its rank.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// Whose claim it is.
    pub owner: &'a Id,
    /// When that object was created; the earlier wins.
    pub since: i64,
    /// The position of the claim in its declaration.
    pub index: u32,
    /// The claim.
    pub claim: &'a Claim,
}

/// A claim that cannot stand beside an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loser {
    /// Whose claim it is.
    pub owner: Id,
    /// The position of the claim in its declaration.
    pub index: u32,
    /// The object that holds the name.
    pub winner: Id,
    /// The type that the winner holds.
    pub held: RecordType,
}

/// What one name is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The sets, by type.
    pub sets: BTreeMap<RecordType, RecordSet>,
    /// The claims that lost.
    pub losers: Vec<Loser>,
}

/// Merges all claims on one name.
///
/// Guarantees: the result does not depend on the order of `contenders`; values of one type from
/// several objects live together with the lowest TTL; a CNAME stands alone (RFC 1034 section
/// 3.6.2), and of two claims that exclude each other the earlier object's stays.
#[must_use]
pub fn merge(mut contenders: Vec<Contender<'_>>) -> Merged {
    contenders.sort_by_key(|one| (one.since, one.owner, one.index));
    let mut merged = Merged::default();
    let mut standing: Vec<Contender<'_>> = Vec::new();
    for one in contenders {
        match standing
            .iter()
            .find(|other| excludes(other.claim, one.claim))
        {
            Some(winner) => merged.losers.push(Loser {
                owner: one.owner.clone(),
                index: one.index,
                winner: winner.owner.clone(),
                held: winner.claim.key.rtype,
            }),
            None => standing.push(one),
        }
    }
    let mut values: BTreeMap<RecordType, Vec<&Claim>> = BTreeMap::new();
    for Contender { claim, .. } in standing {
        values.entry(claim.key.rtype).or_default().push(claim);
    }
    let values = values.into_iter();
    merged.sets = values
        .map(|(rtype, claims)| (rtype, set(&claims)))
        .collect();
    merged
}

/// The values of all claims with the lowest TTL.
fn set(claims: &[&Claim]) -> RecordSet {
    let ttl = claims.iter().map(|claim| claim.ttl).min().unwrap_or(0);
    match claims {
        [only] => RecordSet::sharing(ttl, &only.data),
        several => {
            let data = several.iter().flat_map(|claim| claim.data.iter());
            RecordSet::new(ttl, data.cloned())
        }
    }
}

fn excludes(earlier: &Claim, later: &Claim) -> bool {
    match (earlier.key.rtype, later.key.rtype) {
        (RecordType::Cname, RecordType::Cname) => earlier.data != later.data,
        (one, other) => one == RecordType::Cname || other == RecordType::Cname,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Name, ObjectRef, Record};

    fn owner(name: &str) -> Id {
        Id::new(ObjectRef {
            kind: Kind::CnameRecord,
            namespace: "default".into(),
            name: name.into(),
            uid: name.into(),
        })
    }

    fn claim(line: &str) -> Claim {
        let record: Record = line.parse().expect("the line is sound");
        Claim {
            zone: Name::parse("example.com.").expect("the name is sound"),
            key: record.key(),
            ttl: record.ttl,
            data: [record.data].into(),
            field: "spec".into(),
        }
    }

    #[test]
    fn two_objects_may_ask_for_one_alias_and_not_for_two() {
        let one = claim("www.example.com. 300 IN CNAME one.example.com.");
        let same = claim("www.example.com. 60 IN CNAME one.example.com.");
        let other = claim("www.example.com. 60 IN CNAME other.example.com.");
        let owners = [owner("early"), owner("late")];
        let contest = |claims: [&Claim; 2]| {
            let contenders = owners.iter().zip(claims).zip(0..);
            let contenders = contenders.map(|((owner, claim), since)| Contender {
                owner,
                since,
                index: 0,
                claim,
            });
            merge(contenders.collect())
        };
        let merged = contest([&one, &same]);
        assert!(merged.losers.is_empty());
        let alias = &merged.sets[&RecordType::Cname];
        assert_eq!((alias.ttl, alias.data()), (60, &*one.data));

        let merged = contest([&one, &other]);
        assert_eq!(merged.losers.len(), 1);
        assert_eq!(
            (&merged.losers[0].owner, &merged.losers[0].winner),
            (&owners[1], &owners[0])
        );
        assert_eq!(merged.sets[&RecordType::Cname].data(), &*one.data);
    }
}
