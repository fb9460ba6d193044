//! Laws of ownership that hold whatever is asked for, recorded and lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Evidence, Ownership, Trust};
use crate::{
    Adoption, Change, Claim, Declaration, Expect, Id, Kind, Name, ObjectRef, Record, RecordData,
    ownership::{Kept, Owners},
    zones::Going,
};

type Lines = BTreeSet<u8>;

/// All that is owned, by what the three places say.
fn owned(evidence: &Evidence<'_, Lines>) -> Lines {
    let (one, other) = evidence.owned();
    let lines = one.into_iter().chain(other).flatten();
    lines.copied().collect()
}

fn lines() -> impl Strategy<Value = Lines> {
    prop::collection::btree_set(0_u8..6, 0..4)
}

fn trust() -> impl Strategy<Value = Trust> {
    prop::sample::select(vec![
        Trust::Nothing,
        Trust::Own,
        Trust::Former,
        Trust::Unsealed,
    ])
}

/// A claim on `h0.example.com` and so on, with these values.
fn claim(name: u8, values: &Lines) -> Claim {
    let record = |value: u8| -> Record {
        let line = format!("h{name}.example.com. 60 IN A 192.0.2.{value}");
        line.parse().expect("a record")
    };
    Claim {
        zone: Name::parse("example.com").expect("a name"),
        key: record(0).key(),
        ttl: 60,
        data: values.iter().map(|value| record(*value).data).collect(),
        field: "spec".into(),
    }
}

/// Claims on up to three names.
fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let values = prop::collection::btree_set(0_u8..4, 1..3);
    let claims = prop::collection::btree_map(0_u8..3, values, 0..3);
    claims.prop_map(|claims| {
        let claims = claims.iter();
        claims.map(|(name, values)| claim(*name, values)).collect()
    })
}

fn ownership() -> impl Strategy<Value = Ownership> {
    prop::sample::select(Ownership::ALL.to_vec())
}

fn owner() -> Id {
    Id::new(ObjectRef {
        kind: Kind::ARecord,
        namespace: "default".into(),
        name: "www".into(),
        uid: "1".into(),
    })
}

fn declaration(ownership: Ownership, asks: &[Claim], known: &[Record]) -> Declaration {
    Declaration {
        owner: owner(),
        generation: 1,
        revision: 1,
        since: 0,
        claims: asks.to_vec(),
        published: known.to_vec(),
        had: Vec::new(),
        adoption: Adoption::Refuse,
        ownership,
        going: Going::Asked,
    }
}

/// A change that writes a claim where nothing stands.
fn change(claim: &Claim) -> Change {
    Change {
        key: claim.key.clone(),
        expect: Expect::Absent,
        remove: Vec::new(),
        add: claim.data.to_vec(),
        ttl: claim.ttl,
    }
}

proptest! {
    #[test]
    fn what_we_wrote_is_known_as_long_as_one_of_three_places_has_it(
        written in lines(),
        (memory, annotation, status) in any::<(bool, bool, bool)>(),
    ) {
        prop_assume!(memory || annotation || status);
        let nothing = Lines::new();
        let evidence = Evidence {
            memory: memory.then_some(&written),
            annotation: if annotation { &written } else { &nothing },
            trust: if annotation { Trust::Own } else { Trust::Nothing },
            status: (status && !written.is_empty()).then_some(&written),
        };
        prop_assert_eq!(owned(&evidence), written);
    }

    #[test]
    fn no_annotation_of_others_makes_anything_ours_while_we_remember(
        remembered in lines(),
        forged in lines(),
        confirmed in lines(),
        trust in trust(),
    ) {
        prop_assume!(trust != Trust::Own);
        let evidence = Evidence {
            memory: Some(&remembered),
            annotation: &forged,
            trust,
            status: Some(&confirmed),
        };
        prop_assert_eq!(owned(&evidence), remembered);
    }

    #[test]
    fn nothing_is_ours_that_no_place_tells(
        memory in prop::option::of(lines()),
        annotation in lines(),
        confirmed in prop::option::of(lines()),
        trust in trust(),
    ) {
        let evidence = Evidence {
            memory: memory.as_ref(),
            annotation: &annotation,
            trust,
            status: confirmed.as_ref(),
        };
        let told: Lines = memory.iter().chain([&annotation]).chain(&confirmed).flatten().copied().collect();
        prop_assert!(owned(&evidence).is_subset(&told));
        if trust == Trust::Nothing && memory.is_none() && confirmed.is_none() {
            prop_assert_eq!(owned(&evidence), Lines::new());
        }
    }

    /// What may be written is exactly what is ours already by then: else a crash would leave a record of
    /// which nobody knows whose it is.
    #[test]
    fn the_three_questions_agree(
        ownership in ownership(),
        asks in claims(),
        recorded in claims(),
    ) {
        let recorded: Vec<Record> = recorded.iter().flat_map(Claim::records).collect();
        let mut owners = Owners::default();
        let owner = owner();
        owners.declare(declaration(ownership, &asks, &recorded));
        for (index, claim) in (0..).zip(&asks) {
            let refs = [(owner.clone(), index)];
            let is_ours = |data: &RecordData| owners.owns(refs.iter(), &claim.key, data);
            let is_durable = ownership.durable_first(claim, is_ours).next().is_none();
            let companions = owners.companions(std::slice::from_ref(&owner), &change(claim));
            let may_write = owners.may_write(&owner, index);
            prop_assert_eq!(may_write, is_durable && ownership.refusal().is_none());
            if may_write {
                // After a crash it is known whose it is: by what was durable, by what travels with it, or
                // because asking is owning.
                let tells = claim.data.iter().all(is_ours);
                prop_assert!(tells || companions.is_ok_and(|all| !all.is_empty()));
            } else if ownership.refusal().is_none() {
                prop_assert!(owners.unrecorded(&owner).any(|one| one == claim));
            }
        }
    }

    #[test]
    fn what_is_owned_stays_owned_until_it_is_let_go(
        before in claims(),
        after in claims(),
    ) {
        let recorded: Vec<Record> = before.iter().flat_map(Claim::records).collect();
        let mut owners = Owners::default();
        owners.declare(declaration(Ownership::Object, &before, &recorded));
        // The object asks for something else; what it recorded is still there.
        owners.declare(declaration(Ownership::Object, &after, &recorded));
        let refs: Vec<_> = (0..).zip(&after).map(|(index, _)| (owner(), index)).collect();
        for line in &recorded {
            prop_assert!(owners.owns(refs.iter(), &line.key(), &line.data));
        }
        // It lets go: nothing is ours any more.
        owners.declare(declaration(Ownership::Object, &[], &[]));
        for line in &recorded {
            prop_assert!(!owners.owns([].iter(), &line.key(), &line.data));
        }
    }

    #[test]
    fn stale_records_are_what_is_owned_and_not_asked_for(
        ownership in ownership(),
        asks in claims(),
        recorded in claims(),
    ) {
        let recorded: Vec<Record> = recorded.iter().flat_map(Claim::records).collect();
        let kept = Kept::new(declaration(ownership, &asks, &recorded));
        let value = |record: &Record| (record.name.clone(), record.data.clone());
        let asked: BTreeSet<_> = asks.iter().flat_map(Claim::records).map(|one| value(&one)).collect();
        let stale: BTreeSet<_> = kept.stale_records().map(value).collect();
        let known: BTreeSet<_> = recorded.iter().map(value).collect();
        let expected: BTreeSet<_> = match ownership {
            Ownership::Object | Ownership::None => known.difference(&asked).cloned().collect(),
            Ownership::Txt => BTreeSet::new(),
        };
        prop_assert_eq!(stale, expected);
    }
}

fn line(text: &str) -> Record {
    text.parse().expect("a record")
}

#[test]
fn who_asks_for_the_same_again_changes_nothing() {
    let asks = claim(1, &Lines::from([1]));
    let known: Vec<Record> = asks.records().collect();
    let first = declaration(Ownership::Object, &[asks], &known);
    let is_new = |again: Declaration| {
        let mut owners = Owners::default();
        assert!(owners.declare(first.clone()).is_some());
        owners.declare(again).is_some()
    };
    let same = Declaration {
        generation: 2,
        revision: 2,
        ..first.clone()
    };
    assert!(!is_new(same));
    let taking = Declaration {
        adoption: Adoption::Take,
        ..first.clone()
    };
    let along = Declaration {
        going: Going::Along,
        ..first.clone()
    };
    let silent = Declaration {
        claims: Vec::new(),
        ..first.clone()
    };
    assert!(is_new(taking) && is_new(along) && is_new(silent));
}

#[test]
fn what_became_of_a_set_is_asked_of_those_who_still_own_lines_in_it() {
    let stale = line("h1.example.com. 60 IN A 192.0.2.1");
    let key = stale.key();
    let of = |name: &str, known: &[Record], going| {
        let id = ObjectRef {
            name: name.into(),
            ..(*owner()).clone()
        };
        Declaration {
            owner: Id::new(id),
            going,
            ..declaration(Ownership::Object, &[], known)
        }
    };
    let mut owners = Owners::default();
    owners.declare(of("one", std::slice::from_ref(&stale), Going::Asked));
    owners.declare(of("two", std::slice::from_ref(&stale), Going::Along));
    assert_eq!(owners.word(&key), Going::Along);
    // It let go of its line, and something takes it along later.
    owners.declare(of("one", &[], Going::Along));
    assert_eq!(owners.word(&key), Going::Along, "of the other");
    let leaving = owners.leaving(&key.name).map(|owner| &*owner.name);
    assert_eq!(leaving.collect::<Vec<_>>(), ["two"]);
    owners.declare(of("two", &[], Going::Along));
    assert_eq!(owners.word(&key), Going::Asked);
    assert_eq!(owners.leaving(&key.name).count(), 0);
}

#[test]
fn nothing_travels_with_a_change_but_what_a_registry_would_need() {
    let change = change(&claim(1, &Lines::from([1])));
    assert_eq!(Ownership::Object.companions(&change), Ok(Vec::new()));
    assert!(Ownership::Txt.companions(&change).is_err(), "not yet");
}
