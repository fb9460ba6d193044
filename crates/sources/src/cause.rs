//! How the deletion of an object came about.

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
