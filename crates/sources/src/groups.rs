//! Which groups of name servers there are, and on which of them a zone is.

use std::collections::BTreeSet;

use bindery_core::{Group, Problem, Reason};

/// The groups of name servers that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    all: BTreeSet<Group>,
    /// Whether nothing runs that has no name.
    is_nothing_here: bool,
}

impl Default for Groups {
    /// One group that every zone is on.
    fn default() -> Self {
        [Group::UNNAMED].into_iter().collect()
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        Self {
            all: groups.into_iter().collect(),
            is_nothing_here: false,
        }
    }
}

impl Groups {
    /// The same groups, of which the one without a name has no server.
    #[must_use]
    pub fn with_nothing_here(mut self) -> Self {
        self.is_nothing_here = true;
        self
    }

    /// Whether there is such a group.
    pub(crate) fn has(&self, group: &Group) -> bool {
        self.all.contains(group)
    }

    /// The names of the groups whose servers flags or a file give; those of objects have a namespace.
    fn given(&self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().filter_map(Group::name);
        names.filter(|name| !name.contains('/'))
    }

    /// Whether somebody declares clusters as objects.
    fn has_declared(&self) -> bool {
        let mut names = self.all.iter().filter_map(Group::name);
        names.any(|name| name.contains('/') && !name.contains(SELECTED))
    }

    /// The group of what chooses its servers so.
    ///
    /// A name is that of a cluster whose servers flags or a file give, else of a cluster object. Where there is
    /// neither, and nothing else has a name, there is but one choice, whatever the zone names: on one machine
    /// everything is served by what runs there. Where some have names, a zone that names another one is not
    /// guessed at: it might be meant for nobody outside. Nor where nothing runs that has no name. One that is `settled`, that is served by what runs
    /// here already, stays there until its cluster comes.
    ///
    /// # Errors
    /// A problem where there is no such cluster, or the zone names several.
    pub(crate) fn place(&self, choice: &GroupChoice<'_>) -> Result<Group, Problem> {
        let missing = |field: &str, message| Problem {
            field: field.to_owned(),
            reason: Reason::ClusterNotFound,
            message,
        };
        if let Some(selection) = choice.selection {
            let group = Group::named(&format!("{}/{selection}", choice.namespace));
            let message = "no controller of name servers looks for these instances".to_owned();
            return if self.has(&group) {
                Ok(group)
            } else {
                Err(missing("spec.bind9InstancesFrom", message))
            };
        }
        let wanted: BTreeSet<&str> = choice.clusters.iter().map(|(_, name)| &**name).collect();
        let Some((field, name)) = choice.clusters.first() else {
            return self.place_unnamed().ok_or_else(|| {
                let message = format!(
                    "names no cluster of name servers: name one of {}",
                    self.shown()
                );
                missing("spec.clusterRef", message)
            });
        };
        if let Some(group) = self.find(choice, field, name).filter(|_| wanted.len() == 1) {
            return Ok(group);
        }
        let is_only = self.given().next().is_none() && self.has(&Group::UNNAMED);
        let is_guessed = !self.has_declared() && !self.is_nothing_here;
        if is_only && (choice.is_settled || is_guessed) {
            return Ok(Group::UNNAMED);
        }
        if wanted.len() > 1 {
            return Err(Problem::invalid(
                *field,
                "names another cluster than another field: a zone is on one, leave one of them out",
            ));
        }
        let message = format!("there is no cluster {name}: name one of {}", self.shown());
        Err(missing(field, message))
    }

    /// The group of what names no cluster.
    fn place_unnamed(&self) -> Option<Group> {
        self.has(&Group::UNNAMED).then_some(Group::UNNAMED)
    }

    /// The group of this name: one that is given, a cluster of the namespace, or one of the whole cluster.
    fn find(&self, choice: &GroupChoice<'_>, field: &str, name: &str) -> Option<Group> {
        let namespaced = format!("{}/{name}", choice.namespace);
        let names = if field == "spec.clusterRef" || !field.starts_with("spec.") {
            vec![name.to_owned(), namespaced, format!("*/{name}")]
        } else {
            vec![name.to_owned(), format!("*/{name}")]
        };
        let mut groups = names.iter().map(|name| Group::named(name));
        groups.find(|group| self.has(group))
    }

    fn shown(&self) -> String {
        let names = self.all.iter().filter_map(Group::name);
        let names: Vec<&str> = names.filter(|name| !name.contains(SELECTED)).collect();
        names.join(", ")
    }
}

/// What stands in the name of a group that label selectors choose.
const SELECTED: &str = "/selected-";

/// How a zone, or what names one, chooses its servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupChoice<'a> {
    /// The namespace of the object.
    pub(crate) namespace: &'a str,
    /// The clusters that it names, each after the field that does.
    pub(crate) clusters: &'a [(&'static str, String)],
    /// What stands for its label selectors of instances.
    pub(crate) selection: Option<&'a str>,
    /// Whether it is served by what runs here without a name.
    pub(crate) is_settled: bool,
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
        groups.place(&GroupChoice {
            namespace: "dns",
            clusters: &clusters,
            ..GroupChoice::default()
        })
    }

    #[test]
    fn a_cluster_object_of_the_namespace_or_of_the_whole_cluster_is_found() {
        let dns = Ok(Group::named("dns/prod"));
        assert_eq!(check("- dns/prod", &["prod"]), dns);
        let wide = Ok(Group::named("*/prod"));
        assert_eq!(check("- */prod web/prod", &["prod"]), wide);
        let given = Ok(Group::named("prod"));
        assert_eq!(check("- prod dns/prod", &["prod"]), given);
        let problem = check("- web/prod", &["prod"]).expect_err("it is another namespace's");
        assert_eq!(problem.reason, Reason::ClusterNotFound);
    }

    #[test]
    fn a_zone_that_is_served_here_stays_until_its_cluster_comes() {
        let place = |groups: &[&str]| {
            let named = groups.iter().map(|name| Group::named(name));
            let groups: Groups = [Group::UNNAMED].into_iter().chain(named).collect();
            groups.place(&GroupChoice {
                namespace: "dns",
                clusters: &[("spec.clusterRef", "prod".to_owned())],
                is_settled: true,
                ..GroupChoice::default()
            })
        };
        assert_eq!(place(&["dns/other"]), Ok(Group::UNNAMED));
        assert_eq!(place(&["dns/prod"]), Ok(Group::named("dns/prod")));
    }

    #[test]
    fn a_zone_is_not_put_where_nothing_runs() {
        let place = |is_settled| {
            let groups = Groups::default().with_nothing_here();
            groups.place(&GroupChoice {
                namespace: "dns",
                clusters: &[("spec.clusterRef", "prod".to_owned())],
                is_settled,
                ..GroupChoice::default()
            })
        };
        let problem = place(false).expect_err("its cluster is not there yet");
        assert_eq!(problem.reason, Reason::ClusterNotFound);
        assert_eq!(place(true), Ok(Group::UNNAMED), "it is there already");
    }

    #[test]
    fn a_selection_is_a_group_of_its_own_and_nobody_elses_business() {
        let place = |groups: &[&str], selection| {
            let named = groups.iter().map(|name| Group::named(name));
            let groups: Groups = [Group::UNNAMED].into_iter().chain(named).collect();
            groups.place(&GroupChoice {
                namespace: "dns",
                selection,
                ..GroupChoice::default()
            })
        };
        let selected = Some("selected-1");
        assert_eq!(
            place(&["dns/selected-1"], selected),
            Ok(Group::named("dns/selected-1"))
        );
        place(&[], selected).expect_err("nobody looks");
        assert_eq!(place(&["dns/selected-1"], None), Ok(Group::UNNAMED));
        assert_eq!(check("- dns/selected-1", &["any"]), Ok(Group::UNNAMED));
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
