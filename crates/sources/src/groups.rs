//! Which groups of name servers there are, and on which of them a zone is.

use std::collections::BTreeSet;

use bindery_core::{Group, Problem, Reason};

/// The groups of name servers that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(BTreeSet<Group>);

impl Default for Groups {
    /// One group that every zone is on.
    fn default() -> Self {
        Self([Group::UNNAMED].into())
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        Self(groups.into_iter().collect())
    }
}

impl Groups {
    /// Whether there is such a group.
    pub(crate) fn has(&self, group: &Group) -> bool {
        self.0.contains(group)
    }

    /// The group of what names these clusters, each after the field that does.
    ///
    /// Where no group has a name, there is but one choice, whatever the zone names: on one machine
    /// everything is served by what runs there. Where some have names, a zone that names another one
    /// is not guessed at: it might be meant for nobody outside.
    ///
    /// # Errors
    /// A problem where there is no such cluster, or the zone names several.
    pub(crate) fn place(&self, clusters: &[(&'static str, String)]) -> Result<Group, Problem> {
        let names: BTreeSet<&str> = self.0.iter().filter_map(Group::name).collect();
        if names.is_empty() {
            return Ok(Group::UNNAMED);
        }
        let known = names.iter().copied().collect::<Vec<_>>().join(", ");
        let missing = |field: &str, message| Problem {
            field: field.to_owned(),
            reason: Reason::ClusterNotFound,
            message,
        };
        let wanted: BTreeSet<&str> = clusters.iter().map(|(_, name)| &**name).collect();
        match clusters {
            [] if self.has(&Group::UNNAMED) => Ok(Group::UNNAMED),
            [] => {
                let message = format!("names no cluster of name servers: name one of {known}");
                Err(missing("spec.clusterRef", message))
            }
            [(field, ..), ..] if wanted.len() > 1 => Err(Problem::invalid(
                *field,
                "names another cluster than another field: a zone is on one, leave one of them out",
            )),
            [(_, name), ..] if names.contains(&**name) => Ok(Group::named(name)),
            [(field, name), ..] => {
                let message = format!("there is no cluster {name}: name one of {known}");
                Err(missing(field, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(groups: &str, clusters: &[&str]) -> Result<Group, Problem> {
        let group = |name| match name {
            "-" => Group::UNNAMED,
            name => Group::named(name),
        };
        let groups: Groups = groups.split_whitespace().map(group).collect();
        let clusters: Vec<_> = clusters
            .iter()
            .map(|name| ("spec.clusterRef", (*name).to_owned()))
            .collect();
        groups.place(&clusters)
    }

    #[test]
    fn a_zone_is_on_the_cluster_that_it_names() {
        assert_eq!(
            check("- internal", &["internal"]),
            Ok(Group::named("internal"))
        );
        assert_eq!(
            check("- internal", &["internal", "internal"]),
            Ok(Group::named("internal"))
        );
        assert_eq!(check("- internal", &[]), Ok(Group::UNNAMED));
        assert_eq!(check("-", &["whatever"]), Ok(Group::UNNAMED));
    }

    #[test]
    fn a_cluster_that_is_not_there_is_not_guessed_at() {
        for (groups, clusters) in [("- internal", &["intern"][..]), ("internal", &[])] {
            let problem = check(groups, clusters).expect_err("there is none");
            assert_eq!(problem.reason, Reason::ClusterNotFound);
            assert!(problem.message.contains("internal"), "{problem}");
        }
        let problem = check("a b", &["a", "b"]).expect_err("they are two");
        assert_eq!(problem.reason, Reason::Invalid);
    }
}
