//! One word, one meaning: the name of a type stands once.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{File, Tree};

/// Where the exceptions stand.
const HERE: &str = "xtask/src/tidy/names.rs";

/// Names that may stand more than once, each with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[
    (
        "Options",
        "how a part is set up; always written with its crate",
    ),
    (
        "Metrics",
        "the numbers of a crate; always written with its crate",
    ),
    (
        "NameServer",
        "the manifest's own word in api; the port of the engine",
    ),
    (
        "Requirement",
        "the manifest's own word in api, and what core makes of it",
    ),
];

/// Folders whose types count only where they are public to all: they do not ship, or, in the case of the API
/// server, they speak the language of Kubernetes and see nothing of ours.
const APART: &[&str] = &["crates/apiserver/", "tests/", "bench/", "xtask/"];

/// A type that others than its own module see has a name of its own.
pub(super) fn once(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, places) in shared(tree) {
        if allowed().any(|allowed| allowed == name) {
            continue;
        }
        let (first, _) = places[0];
        for (file, number) in &places[1..] {
            let message = format!(
                "{name} is the name of a type in {} too: find the field's word for one of them, or give \
                 a reason in {HERE}",
                first.path
            );
            findings.push(Finding::failure(&file.path, *number, message));
        }
    }
    findings
}

/// Every exception is needed.
pub(super) fn exceptions(tree: &Tree) -> Vec<Finding> {
    let shared = shared(tree);
    allowed()
        .filter(|name| !shared.contains_key(name))
        .map(|name| {
            let message = format!("no two types are called {name}: its exception can go");
            Finding::note(HERE, 1, message)
        })
        .collect()
}

fn allowed() -> impl Iterator<Item = &'static str> {
    SHARED_NAMES.iter().map(|(name, _)| *name)
}

/// Names that more than one type has, with where they are declared.
fn shared(tree: &Tree) -> BTreeMap<&str, Vec<(&File, usize)>> {
    let mut places: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        let is_apart = APART.iter().any(|folder| file.path.starts_with(folder));
        for (number, line) in file.lines() {
            if let Some((reach, name)) = declared(line)
                && (reach == Reach::Everybody || !is_apart)
            {
                places.entry(name).or_default().push((file, number));
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// Who sees a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Everybody,
    Crate,
}

/// The type that a line declares for others than its own module.
fn declared(line: &str) -> Option<(Reach, &str)> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let (reach, rest) = match rest.strip_prefix('(') {
        Some(rest) => (Reach::Crate, rest.split_once(')')?.1),
        None => (Reach::Everybody, rest),
    };
    let mut words = rest.strip_prefix(' ')?.split_whitespace();
    let is_type = matches!(
        words.next()?,
        "struct" | "enum" | "trait" | "type" | "union"
    );
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    (is_type && !name.is_empty()).then_some((reach, name))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn a_name_of_two_types_is_found() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "pub struct Ledger {\n}\nstruct Own;\n",
            ),
            (
                "crates/b/src/lib.rs",
                "\npub(super) type Ledger<'a> = &'a str;\nstruct Own;\n",
            ),
        ];
        assert!(
            check(once, &files).starts_with(
                "crates/b/src/lib.rs:2: Ledger is the name of a type in crates/a/src/lib.rs too"
            ),
            "{}",
            check(once, &files)
        );
    }

    #[test]
    fn what_does_not_ship_may_have_names_of_its_own() {
        let files = [
            ("crates/a/src/lib.rs", "pub enum Kind {\n"),
            ("crates/apiserver/src/lib.rs", "pub(crate) struct Kind;\n"),
            ("bench/src/main.rs", "pub(crate) struct Kind;\n"),
            ("crates/b/src/lib.rs", "pub struct Options;\n"),
            ("crates/c/src/lib.rs", "pub struct Options;\n"),
        ];
        assert_eq!(check(once, &files), "");
    }

    #[test]
    fn methods_and_fields_are_no_types() {
        for line in [
            "pub fn plan() {",
            "pub(crate) plan: Plan,",
            "struct Plan;",
            "pub use plan::Plan;",
        ] {
            assert_eq!(declared(line), None, "{line}");
        }
        assert_eq!(
            declared("    pub trait Plan<T> {"),
            Some((Reach::Everybody, "Plan"))
        );
    }
}
