//! Objects whose records are in several groups of servers: each group is told its part, and the
//! receipts of all parts make one.
//!
//! Groups know nothing of each other, so that one which cannot be reached keeps no other waiting.

use std::collections::BTreeMap;

use crate::{
    claim::Declaration,
    group::Group,
    object::{Id, ObjectRef},
    zones::{Receipt, Withdrawal},
};

/// What one object asks of one group, or has there.
pub type GroupDeclaration = (Group, Declaration);

/// The objects that are not just in [`Group::UNNAMED`], with the parts of those in several.
#[derive(Debug, Default)]
pub struct Placements(BTreeMap<Id, Placement>);

#[derive(Debug)]
enum Placement {
    One(Group),
    /// What the last declaration was, and the newest receipt of each part.
    Many {
        revision: u64,
        receipts: BTreeMap<Group, Option<Receipt>>,
    },
}

impl Placement {
    fn has(&self, group: &Group) -> bool {
        match self {
            Self::One(one) => one == group,
            Self::Many { receipts, .. } => receipts.contains_key(group),
        }
    }

    fn groups(self) -> Vec<Group> {
        match self {
            Self::One(group) => vec![group],
            Self::Many { receipts, .. } => receipts.into_keys().collect(),
        }
    }
}

impl Placements {
    /// Takes in what an object declares in which groups, and returns the groups that have to forget
    /// it.
    pub fn declare(&mut self, parts: &[GroupDeclaration]) -> Vec<Group> {
        let Some((group, first)) = parts.first() else {
            return Vec::new();
        };
        let placement = match parts {
            [_] => Placement::One(group.clone()),
            _ => Placement::Many {
                revision: first.revision,
                receipts: parts
                    .iter()
                    .map(|(group, _)| (group.clone(), None))
                    .collect(),
            },
        };
        let before = self.0.remove(&first.owner);
        let before = before.map_or_else(|| vec![Group::UNNAMED], Placement::groups);
        let left = before
            .into_iter()
            .filter(|group| !placement.has(group))
            .collect();
        if !matches!(&placement, Placement::One(group) if *group == Group::UNNAMED) {
            self.0.insert(Id::clone(&first.owner), placement);
        }
        left
    }

    /// Takes in that an object is gone, and returns the groups that have to forget it.
    pub fn forget(&mut self, owner: &ObjectRef) -> Vec<Group> {
        let placement = self.0.remove(owner);
        placement.map_or_else(|| vec![Group::UNNAMED], Placement::groups)
    }

    /// Takes in the receipt of one part, and returns that of the whole object once each part has one.
    pub fn receive(&mut self, group: &Group, event: Receipt) -> Option<Receipt> {
        let Some(Placement::Many { revision, receipts }) = self.0.get_mut(&event.owner) else {
            return Some(event);
        };
        let receipt = receipts.get_mut(group)?;
        if *revision != event.revision {
            return None;
        }
        *receipt = Some(event);
        let all: Option<Vec<&Receipt>> = receipts.values().map(Option::as_ref).collect();
        all?.into_iter().cloned().reduce(|mut whole, part| {
            whole.outcomes.extend(part.outcomes);
            let is_worse = match &whole.withdrawal {
                Withdrawal::Done => true,
                Withdrawal::Lingering(_) => part.withdrawal != Withdrawal::Done,
                Withdrawal::Pending | Withdrawal::Failing(_) => false,
            };
            if is_worse {
                whole.withdrawal = part.withdrawal;
            }
            whole
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind,
        claim::Adoption,
        fault::{Fault, FaultKind},
        ownership::Ownership,
        zones::Going,
    };

    fn www() -> Id {
        Id::new(ObjectRef {
            kind: Kind::ARecord,
            namespace: "default".into(),
            name: "www".into(),
            uid: "1".into(),
        })
    }

    fn parts(revision: u64, groups: &[&str]) -> Vec<GroupDeclaration> {
        let part = |group: &&str| {
            let declaration = Declaration {
                owner: www(),
                generation: 1,
                revision,
                since: 0,
                claims: Vec::new(),
                published: Vec::new(),
                had: Vec::new(),
                adoption: Adoption::Refuse,
                ownership: Ownership::Object,
                going: Going::Asked,
            };
            (of(group), declaration)
        };
        groups.iter().map(part).collect()
    }

    fn of(group: &str) -> Group {
        match group {
            "" => Group::UNNAMED,
            name => Group::named(name),
        }
    }

    fn receipt(revision: u64, withdrawal: Withdrawal) -> Receipt {
        Receipt {
            owner: www(),
            generation: 1,
            revision,
            outcomes: Vec::new(),
            withdrawal,
        }
    }

    #[test]
    fn an_object_that_moves_is_forgotten_where_it_was() {
        let mut all = Placements::default();
        assert_eq!(all.declare(&parts(1, &[""])), []);
        assert_eq!(all.declare(&parts(2, &["", "a"])), []);
        assert_eq!(all.declare(&parts(3, &["a"])), [Group::UNNAMED]);
        assert_eq!(all.declare(&parts(4, &["b"])), [of("a")]);
        assert_eq!(all.declare(&parts(5, &["a", "b"])), []);
        assert_eq!(all.declare(&parts(6, &[""])), [of("a"), of("b")]);
        assert_eq!(all.forget(&www()), [Group::UNNAMED]);
        all.declare(&parts(7, &["a", "b"]));
        assert_eq!(all.forget(&www()), [of("a"), of("b")]);
    }

    #[test]
    fn the_receipt_of_several_parts_waits_for_each_and_is_as_good_as_the_worst() {
        let mut all = Placements::default();
        all.declare(&parts(1, &["a", "b"]));
        let down = || Withdrawal::Failing(Fault::new(FaultKind::Unreachable, "down"));
        assert_eq!(all.receive(&of("b"), receipt(1, down())), None);
        assert_eq!(
            all.receive(&of("a"), receipt(1, Withdrawal::Done)),
            Some(receipt(1, down()))
        );
        assert_eq!(
            all.receive(&of("b"), receipt(1, Withdrawal::Done)),
            Some(receipt(1, Withdrawal::Done)),
            "what stands of the other is still known"
        );
    }

    #[test]
    fn a_receipt_of_an_earlier_declaration_or_of_another_group_is_of_no_use() {
        let mut all = Placements::default();
        all.declare(&parts(1, &["a", "b"]));
        all.receive(&of("a"), receipt(1, Withdrawal::Done));
        all.declare(&parts(2, &["a", "b"]));
        assert_eq!(all.receive(&of("b"), receipt(2, Withdrawal::Done)), None);
        assert_eq!(all.receive(&of("a"), receipt(1, Withdrawal::Done)), None);
        assert_eq!(all.receive(&of("c"), receipt(2, Withdrawal::Done)), None);
        assert!(
            all.receive(&of("a"), receipt(2, Withdrawal::Done))
                .is_some()
        );
    }

    #[test]
    fn what_an_object_in_one_group_is_told_passes_as_it_is() {
        let mut all = Placements::default();
        all.declare(&parts(2, &["a"]));
        let event = receipt(1, Withdrawal::Pending);
        assert_eq!(all.receive(&of("a"), event.clone()), Some(event));
    }

    #[test]
    fn what_may_linger_somewhere_is_not_done_and_what_fails_is_worse() {
        let fault = || Fault::new(FaultKind::Lost, "lost");
        let (lingers, fails) = (Withdrawal::Lingering(fault()), Withdrawal::Failing(fault()));
        for (first, second, whole) in [
            (&lingers, &Withdrawal::Done, &lingers),
            (&Withdrawal::Done, &lingers, &lingers),
            (&lingers, &fails, &fails),
            (&fails, &lingers, &fails),
            (&lingers, &Withdrawal::Pending, &Withdrawal::Pending),
        ] {
            let mut all = Placements::default();
            all.declare(&parts(1, &["a", "b"]));
            all.receive(&of("a"), receipt(1, first.clone()));
            let told = all.receive(&of("b"), receipt(1, second.clone()));
            assert_eq!(told, Some(receipt(1, whole.clone())));
        }
    }
}
