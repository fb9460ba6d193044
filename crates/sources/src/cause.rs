//! How the deletion of an object came about.

use bindery_core::{Group, ObjectRef, Record, zones::Going};

use crate::catalog::Catalog;
use crate::meta::Meta;

/// Whether the zone of this name, in wire form, is known to be gone from the servers of a group.
pub type IsGone<'a> = &'a dyn Fn(&Group, &[u8]) -> bool;

/// Whether something that an object belongs to is to stay, as far as one may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// Nobody asked for its deletion.
    Yes,
    /// It is being deleted, or gone.
    No,
    /// It may not be looked at.
    Unknown,
}

/// How the deletion of an object came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody deleted the object itself.
    ByName,
    /// Its namespace is being deleted.
    WithNamespace,
    /// The definition of its kind is being deleted.
    WithDefinition,
    /// What would tell may not be looked at.
    Unknown,
}

impl Cause {
    /// The cause that these facts leave, on the safe side: a deletion is by name only where neither the
    /// object's namespace nor the definition of its kind goes.
    #[must_use]
    pub fn of(namespace: Stays, definition: Stays) -> Self {
        match (namespace, definition) {
            (Stays::No, _) => Self::WithNamespace,
            (_, Stays::No) => Self::WithDefinition,
            (Stays::Yes, Stays::Yes) => Self::ByName,
            (Stays::Unknown, _) | (_, Stays::Unknown) => Self::Unknown,
        }
    }
}

impl Catalog {
    /// By whose word goes what an object that is being deleted has in DNS. One that goes with its namespace
    /// goes by its author's word, unless a zone that it is in goes with the same namespace: then that zone's
    /// fate is decided first.
    #[must_use]
    pub fn going(&self, object: &ObjectRef, cause: Option<Cause>) -> Going {
        match cause {
            None => Going::Unsaid,
            Some(Cause::WithDefinition) => Going::Along,
            Some(Cause::WithNamespace) if self.is_beside_its_zone(object) => Going::Along,
            Some(Cause::WithNamespace | Cause::ByName | Cause::Unknown) => Going::Asked,
        }
    }

    /// What an object may have in zones that no object declares and that are not `gone` either. Nobody can tell
    /// what is there.
    #[must_use]
    pub fn out_of_sight(&self, object: &ObjectRef, gone: IsGone<'_>) -> Vec<(Group, Record)> {
        let mut lines = self.meta(object).map_or_else(Vec::new, Meta::owned_records);
        lines.retain(|(group, line)| {
            let mut suffixes = line.name.suffixes();
            !suffixes
                .any(|name| self.zones.serving(name, Some(group)).is_some() || gone(group, name))
        });
        lines
    }

    fn is_beside_its_zone(&self, object: &ObjectRef) -> bool {
        let lines = self.meta(object).map(Meta::owned_records);
        lines.into_iter().flatten().any(|(group, line)| {
            let mut suffixes = line.name.suffixes();
            let zone = suffixes.find_map(|suffix| self.zones.serving(suffix, Some(&group)));
            zone.is_some_and(|zone| zone.meta.object.namespace == object.namespace)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_by_name_only_where_nothing_else_explains_it() {
        let rows = [
            (Stays::Yes, Stays::Yes, Cause::ByName),
            (Stays::No, Stays::Yes, Cause::WithNamespace),
            (Stays::No, Stays::Unknown, Cause::WithNamespace),
            (Stays::Yes, Stays::No, Cause::WithDefinition),
            (Stays::Unknown, Stays::No, Cause::WithDefinition),
            (Stays::Unknown, Stays::Yes, Cause::Unknown),
            (Stays::Yes, Stays::Unknown, Cause::Unknown),
        ];
        for (namespace, definition, cause) in rows {
            assert_eq!(
                Cause::of(namespace, definition),
                cause,
                "{namespace:?} {definition:?}"
            );
        }
    }
}
