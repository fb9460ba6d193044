//! What we take from others: each with a reason, one version of each, under a licence we may ship.

use std::collections::BTreeMap;

use super::Finding;
use super::metadata::Metadata;
use super::tree::{File, Tree};

const MANIFEST: &str = "Cargo.toml";
const LOCKFILE: &str = "Cargo.lock";
const EXCEPTIONS: &str = "xtask/src/tidy/dependencies.rs";
const DENY: &str = "deny.toml";
const WORKSPACE_TABLE: &str = "[workspace.dependencies]";

/// Packages that may be in the tree in two versions, each with the reason and how it ends.
const DUPLICATES_ALLOWED: &[(&str, &str)] = &[
    (
        "base64",
        "kube-client and serde-saphyr are on 0.23, k8s-openapi and tower-http on 0.22",
    ),
    (
        "bit-vec",
        "proptest, in tests only, is one release behind yasna below rcgen",
    ),
    (
        "bitflags",
        "only the lock file: an optional `defmt` is on 1.x",
    ),
    (
        "getrandom",
        "ring, ahash and rand are each a release apart; a wrapper of one system call",
    ),
    ("hashbrown", "kube-runtime is one release behind indexmap"),
    (
        "synstructure",
        "only the lock file: an optional `x509-parser` of rcgen is one release behind",
    ),
    ("syn", "derive crates move to 3 one by one; build time only"),
    ("thiserror", "cel below kube-cel is on 1.x; derives only"),
    ("thiserror-impl", "follows thiserror"),
];

/// Licences that a binary under Apache-2.0 may include.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Letters that a reason needs at least: `# JSON` is one, `# x` is none.
const REASON_LEN_MIN: usize = 4;

/// Every dependency of the workspace says why it is there, and members take it from there.
pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let manifests = tree
        .files
        .iter()
        .filter(|file| file.path.ends_with(MANIFEST));
    let mut findings = Vec::new();
    for file in manifests {
        let mut table = "";
        let mut above = "";
        for (number, line) in file.lines() {
            if line.starts_with('[') {
                table = line.trim();
            } else if table == WORKSPACE_TABLE && names_foreign(line) {
                if !has_reason(line) && !has_reason(above) {
                    let message = "a dependency without its reason: end the line with `# …`";
                    findings.push(Finding::failure(&file.path, number, message));
                }
            } else if is_member_table(table) && line.contains("version") {
                let message = "versions stand once, in [workspace.dependencies]";
                findings.push(Finding::failure(&file.path, number, message));
            }
            above = line;
        }
    }
    findings
}

/// Every dependency is used: one of a member in the member's code, one of the workspace by a member.
pub(super) fn unused(tree: &Tree) -> Vec<Finding> {
    let is_member = |file: &&File| file.path.ends_with(&format!("/{MANIFEST}"));
    let members: Vec<&File> = tree.files.iter().filter(is_member).collect();
    let mut findings = Vec::new();
    for file in &members {
        let folder = file.path.trim_end_matches(MANIFEST);
        for (number, name) in entries(file, is_member_table) {
            let word = name.replace('-', "_");
            let mut code = tree.rust().filter(|code| code.path.starts_with(folder));
            if !code.any(|code| has_word(&code.text, &word)) {
                let message = format!("{name} is used nowhere in {folder}: remove the line");
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    let taken = |name: &str| {
        let mut all = members
            .iter()
            .flat_map(|file| entries(file, is_member_table));
        all.any(|(_, taken)| taken == name)
    };
    let workspace = tree.file(MANIFEST).into_iter();
    let offered = workspace.flat_map(|file| entries(file, |table| table == WORKSPACE_TABLE));
    findings.extend(
        offered
            .filter(|(_, name)| !taken(name))
            .map(|(number, name)| {
                let message = format!("no crate of ours takes {name}: remove the line");
                Finding::failure(MANIFEST, number, message)
            }),
    );
    findings
}

/// Names of the entries in the tables of a manifest that `wanted` picks, with their lines.
fn entries(file: &File, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut table = "";
    file.lines().filter_map(move |(number, line)| {
        if line.starts_with('[') {
            table = line.trim();
        }
        let is_entry = line.starts_with(|first: char| first.is_ascii_alphanumeric());
        let name = line.split(['.', ' ', '=']).next()?;
        (is_entry && wanted(table)).then_some((number, name))
    })
}

/// Whether the word stands in the text by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// One version of each package, but for the reasoned exceptions; and no exception that is not needed.
pub(super) fn duplicates(metadata: &Metadata) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.foreign() {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut findings = Vec::new();
    for (name, _) in DUPLICATES_ALLOWED {
        if versions.remove(name).is_none() {
            let message = format!("{name} is there once: its exception can go");
            findings.push(Finding::note(EXCEPTIONS, 1, message));
        }
    }
    for (name, versions) in versions {
        let message = format!(
            "{name} is there {} times ({}): bring them together, or give a reason in {EXCEPTIONS}",
            versions.len(),
            versions.join(", ")
        );
        findings.push(Finding::failure(LOCKFILE, 1, message));
    }
    findings
}

/// Every licence is one that we may ship under.
pub(super) fn licences(metadata: &Metadata) -> Vec<Finding> {
    metadata
        .foreign()
        .filter(|package| !package.license.as_deref().is_some_and(permits))
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("none stated");
            let message = format!(
                "{} has a licence that we may not ship: {licence}",
                package.name
            );
            Finding::failure(LOCKFILE, 1, message)
        })
        .collect()
}

/// cargo-deny, where it is installed, allows the same licences.
pub(super) fn denied_alike(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(DENY) else {
        return Vec::new();
    };
    LICENCES
        .iter()
        .filter(|licence| !file.text.contains(&format!("\"{licence}\"")))
        .map(|licence| {
            Finding::failure(
                DENY,
                1,
                format!("{licence} is allowed by tidy and not here"),
            )
        })
        .collect()
}

/// Whether a line of the table asks for a package of somebody else.
fn names_foreign(line: &str) -> bool {
    let starts_entry = line.starts_with(|first: char| first.is_ascii_alphanumeric());
    starts_entry && line.contains('=') && !line.contains("path = ")
}

fn has_reason(line: &str) -> bool {
    line.rsplit_once('#')
        .is_some_and(|(_, reason)| reason.trim().len() >= REASON_LEN_MIN)
}

fn is_member_table(table: &str) -> bool {
    matches!(
        table,
        "[dependencies]" | "[dev-dependencies]" | "[build-dependencies]"
    )
}

/// Whether an SPDX expression leaves us a choice within the allowed licences.
///
/// `AND` binds tighter than `OR`; the old `/` means `OR`.
fn permits(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut permitted = all_of(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        permitted |= all_of(tokens, at);
    }
    permitted
}

fn all_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut permitted = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        permitted &= one(tokens, at);
    }
    permitted
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    let Some(&token) = tokens.get(*at) else {
        return false;
    };
    *at += 1;
    if token == "(" {
        let permitted = any_of(tokens, at);
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return permitted && closed;
    }
    if tokens.get(*at) == Some(&"WITH") {
        // An exception only ever permits more.
        *at += 2;
    }
    LICENCES.contains(&token)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, show};
    use super::*;

    #[test]
    fn a_dependency_that_nobody_uses_is_found() {
        let files = [
            (
                "Cargo.toml",
                "[workspace.dependencies]\none = \"1\"\ntwo-b = \"1\"\n",
            ),
            (
                "crates/a/Cargo.toml",
                "[dependencies]\none.workspace = true\n[lints]\nx = 1\n",
            ),
            ("crates/a/src/lib.rs", "use someone::one_more;\n"),
        ];
        assert_eq!(
            check(unused, &files),
            "crates/a/Cargo.toml:2: one is used nowhere in crates/a/: remove the line\n\
             Cargo.toml:3: no crate of ours takes two-b: remove the line"
        );
    }

    #[test]
    fn a_dependency_needs_a_reason_on_its_line_or_above_it() {
        let manifest = "[workspace.dependencies]
anyhow = \"1\" # errors of the binary
serde_json = \"1\" # JSON
# checks the wire
# against named
proptest = \"1\"
bytes = \"1\"
ours = { path = \"crates/ours\" }

[profile.dev]
debug = 1
";
        assert_eq!(
            check(reasons, &[("Cargo.toml", manifest)]),
            "Cargo.toml:7: a dependency without its reason: end the line with `# …`"
        );
    }

    #[test]
    fn a_member_does_not_choose_versions() {
        let manifest = "[dependencies]\nserde.workspace = true\nrand = { version = \"1\" }\n";
        assert_eq!(
            check(reasons, &[("crates/core/Cargo.toml", manifest)]),
            "crates/core/Cargo.toml:3: versions stand once, in [workspace.dependencies]"
        );
    }

    #[test]
    fn two_versions_are_a_finding_unless_excused() {
        let twice = |name: &str| {
            Metadata::parse(&format!(
                r#"{{"workspace_members": [], "packages": [
                {{"id": "1", "name": "{name}", "version": "1.0.0", "license": "MIT", "dependencies": []}},
                {{"id": "2", "name": "{name}", "version": "2.0.0", "license": "GPL-3.0-only",
                  "dependencies": []}}]}}"#
            ))
        };
        assert!(
            show(&duplicates(&twice("hyper"))).contains("hyper is there 2 times (1.0.0, 2.0.0)")
        );
        assert!(!show(&duplicates(&twice("syn"))).contains("syn is"));
        assert!(show(&duplicates(&twice("hyper"))).contains("note: syn is there once"));
        assert!(show(&licences(&twice("syn"))).contains("GPL-3.0-only"));
    }

    #[test]
    fn the_two_lists_of_licences_agree() {
        let all = format!("{LICENCES:?}");
        assert_eq!(check(denied_alike, &[("deny.toml", &all)]), "");
        let fewer = all.replace("\"MIT\"", "");
        assert_eq!(
            check(denied_alike, &[("deny.toml", &fewer)]),
            "deny.toml:1: MIT is allowed by tidy and not here"
        );
    }

    #[test]
    fn licence_expressions_are_read_as_choices() {
        assert!(permits("MIT OR Apache-2.0"));
        assert!(permits("MIT/Apache-2.0"));
        assert!(permits("(MIT OR GPL-2.0-only) AND BSD-3-Clause"));
        assert!(permits("Apache-2.0 WITH LLVM-exception OR MIT"));
        assert!(permits("MIT OR Apache-2.0 OR LGPL-2.1-or-later"));
        assert!(!permits("MIT AND GPL-2.0-only"));
        assert!(!permits("AGPL-3.0-only"));
        assert!(!permits("(MIT"));
        assert!(!permits(""));
    }
}
