//! Groups of name servers, each of which serves its zones together.

use std::{fmt, sync::Arc};

use crate::name::Name;

/// The name servers of a zone: a cluster by its name, or those of all zones that name none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(Option<Arc<str>>);

impl Group {
    /// The servers of all zones that name no cluster.
    pub const UNNAMED: Self = Self(None);

    /// The cluster of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// Whether objects declare its servers, which Bindery then manages: its name begins with a namespace.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        self.name().is_some_and(|name| name.contains('/'))
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for Group {
    /// For messages: `cluster internal`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "cluster {name}"),
            None => f.write_str("the servers without a cluster's name"),
        }
    }
}

/// A zone on its servers. Zones of one name in different groups have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneKey {
    /// The apex.
    pub name: Name,
    /// The servers.
    pub group: Group,
}

impl fmt::Display for ZoneKey {
    /// As an author would say it: `example.com. on cluster internal`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.name() {
            Some(_) => write!(f, "{} on {}", self.name, self.group),
            None => self.name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_shown_with_its_cluster_if_that_has_a_name() {
        let named = Group::named("public");
        assert_eq!(
            (named.name(), Group::UNNAMED.name()),
            (Some("public"), None)
        );
        assert_eq!(named.to_string(), "cluster public");
        assert_eq!(
            Group::UNNAMED.to_string(),
            "the servers without a cluster's name"
        );
        let shown = |group: Group| {
            let name = Name::parse("example.com").expect("a name");
            ZoneKey { name, group }.to_string()
        };
        assert_eq!(shown(named), "example.com. on cluster public");
        assert_eq!(shown(Group::UNNAMED), "example.com.");
    }

    #[test]
    fn servers_that_objects_declare_have_a_namespace_in_their_name() {
        assert!(Group::named("dns/public").is_declared());
        assert!(!Group::named("public").is_declared() && !Group::UNNAMED.is_declared());
    }
}
