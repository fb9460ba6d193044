//! Which crate may depend on which: the reason why the crates exist.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use super::metadata::{Metadata, Package};
use crate::program::Program;

/// Where the table of arrows is told to people.
const DOCUMENT: &str = "ARCHITECTURE.md";

/// A crate and those of ours that it may depend on. A crate that is missing here is a finding.
const ARROWS: &[(&str, &[&str])] = &[
    ("bindery-core", &[]),
    ("bindery-api", &["bindery-core"]),
    ("bindery-sources", &["bindery-api", "bindery-core"]),
    ("bindery-engine", &["bindery-core"]),
    ("bindery-dns", &["bindery-core", "bindery-engine"]),
    (
        "bindery-kube",
        &[
            "bindery-api",
            "bindery-core",
            "bindery-engine",
            "bindery-sources",
        ],
    ),
    ("bindery-http", &[]),
    ("bindery-apiserver", &["bindery-http"]),
    ("bindery-nameserver", NAME_SERVER),
    ("bindery-bind", NAME_SERVER),
    ("bindery-balancer", &["bindery-core", "bindery-engine"]),
    ("bindery-azure", &["bindery-core", "bindery-engine"]),
    (
        "bindery-pods",
        &["bindery-bind", "bindery-core", "bindery-engine"],
    ),
    (
        "bindery-sidecar",
        &[
            "bindery-bind",
            "bindery-core",
            "bindery-dns",
            "bindery-engine",
            "bindery-http",
        ],
    ),
    ("bindery-testkit", LIBRARIES),
    ("bindery", LIBRARIES),
    ("bindery-e2e", EVERYTHING),
    ("bindery-bench", EVERYTHING),
    ("xtask", &[]),
];

/// What a name server on this machine may see, be it our own or `named`.
const NAME_SERVER: &[&str] = &["bindery-core", "bindery-dns", "bindery-engine"];

/// Everything that ships in the binary.
const LIBRARIES: &[&str] = &[
    "bindery-api",
    "bindery-apiserver",
    "bindery-azure",
    "bindery-balancer",
    "bindery-bind",
    "bindery-core",
    "bindery-dns",
    "bindery-engine",
    "bindery-http",
    "bindery-kube",
    "bindery-nameserver",
    "bindery-pods",
    "bindery-sidecar",
    "bindery-sources",
];

/// What tests and benchmarks may drive.
const EVERYTHING: &[&str] = &[
    "bindery",
    "bindery-api",
    "bindery-apiserver",
    "bindery-azure",
    "bindery-balancer",
    "bindery-bind",
    "bindery-core",
    "bindery-dns",
    // The benchmark starts the same control plane.
    "bindery-e2e",
    "bindery-engine",
    "bindery-http",
    "bindery-kube",
    "bindery-nameserver",
    "bindery-pods",
    "bindery-sidecar",
    "bindery-sources",
    "bindery-testkit",
];

/// Crates that tests of any crate may use beyond its arrows.
const FOR_TESTS: &[&str] = &["bindery-testkit"];

/// A crate and the packages that must appear nowhere under it when it is built alone.
const PURE: &[(&str, &[&str])] = &[
    (
        "bindery-core",
        &[
            "kube",
            "kube-core",
            "k8s-openapi",
            "tokio",
            "rand",
            "getrandom",
            "tracing",
            "log",
            "jiff",
            "chrono",
            "time",
            "hyper",
        ],
    ),
    (
        "bindery-sources",
        &[
            "kube-client",
            "kube-runtime",
            "tokio",
            "hyper",
            "tower",
            "tracing",
        ],
    ),
];

/// Who may use `anyhow`: crates whose errors nobody matches on.
const EDGES: &[&str] = &[
    "bindery",
    "bindery-testkit",
    "bindery-e2e",
    "bindery-bench",
    "xtask",
];

/// Every dependency between our crates is in the table.
pub(super) fn between_crates(metadata: &Metadata) -> Vec<Finding> {
    let ours: Vec<&str> = metadata
        .members()
        .map(|package| package.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for package in metadata.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let message = format!(
                "{} has no arrows: a crate exists to enforce a rule; write it in an ADR, in {DOCUMENT} \
                 and in xtask/src/tidy/arrows.rs",
                package.name
            );
            findings.push(Finding::failure(DOCUMENT, 1, message));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let for_tests = dependency.kind.as_deref() == Some("dev") && FOR_TESTS.contains(&name);
            if ours.contains(&name) && !allowed.contains(&name) && !for_tests {
                findings.push(objection(package, format!("must not depend on {name}")));
            }
        }
    }
    findings
}

/// Libraries have typed errors.
pub(super) fn anyhow_at_the_edge(metadata: &Metadata) -> Vec<Finding> {
    metadata
        .members()
        .filter(|package| !EDGES.contains(&package.name.as_str()))
        .filter(|package| {
            let mut normal = package.dependencies.iter().filter(|one| one.kind.is_none());
            normal.any(|dependency| dependency.name == "anyhow")
        })
        .map(|package| objection(package, "a library has typed errors, not anyhow".to_owned()))
        .collect()
}

/// The pure crates are pure all the way down. Asked of `cargo tree` for the crate alone, because in the
/// whole workspace other crates turn on features that this one does not ask for.
pub(super) fn purity(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, banned) in PURE {
        let tree = Program::cargo(root, ["tree", "--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}", "--package", name])
            .stdout()?;
        findings.extend(impurities(name, banned, &tree));
    }
    Ok(findings)
}

fn impurities(name: &str, banned: &[&str], tree: &str) -> Vec<Finding> {
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|package| banned.contains(package))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|package| {
            let message = format!("{name} is pure, but {package} is in its dependency tree");
            Finding::failure(&manifest(name), 1, message)
        })
        .collect()
}

fn objection(package: &Package, message: String) -> Finding {
    Finding::failure(&manifest(&package.name), 1, message)
}

/// Where the manifest of a crate of ours stands.
fn manifest(name: &str) -> String {
    match name {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        "bindery" => "crates/bindery/Cargo.toml".to_owned(),
        "bindery-e2e" => "tests/e2e/Cargo.toml".to_owned(),
        "bindery-bench" => "bench/Cargo.toml".to_owned(),
        library => format!(
            "crates/{}/Cargo.toml",
            library.trim_start_matches("bindery-")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::show;
    use super::*;

    fn metadata(name: &str, dependency: &str, kind: &str) -> Metadata {
        Metadata::parse(&format!(
            r#"{{"workspace_members": ["a", "b"], "packages": [
                {{"id": "a", "name": "{name}", "version": "1", "license": null,
                  "dependencies": [{{"name": "{dependency}", "kind": {kind}}}]}},
                {{"id": "b", "name": "{dependency}", "version": "1", "license": null,
                  "dependencies": []}}]}}"#
        ))
    }

    #[test]
    fn core_may_depend_on_no_crate_of_ours() {
        let found = between_crates(&metadata("bindery-core", "bindery-api", "null"));
        assert_eq!(
            show(&found),
            "crates/core/Cargo.toml:1: must not depend on bindery-api"
        );
        let found = between_crates(&metadata("bindery-api", "bindery-core", "null"));
        assert_eq!(show(&found), "");
    }

    #[test]
    fn tests_may_use_the_testkit_and_nothing_else_beyond_the_arrows() {
        let found = between_crates(&metadata("bindery-engine", "bindery-testkit", "\"dev\""));
        assert_eq!(show(&found), "");
        let found = between_crates(&metadata("bindery-engine", "bindery-dns", "\"dev\""));
        assert_eq!(
            show(&found),
            "crates/engine/Cargo.toml:1: must not depend on bindery-dns"
        );
    }

    #[test]
    fn the_api_server_sees_nothing_of_ours() {
        let found = between_crates(&metadata("bindery-apiserver", "bindery-api", "null"));
        assert_eq!(
            show(&found),
            "crates/apiserver/Cargo.toml:1: must not depend on bindery-api"
        );
    }

    #[test]
    fn a_crate_without_arrows_is_a_finding() {
        let found = between_crates(&metadata("bindery-new", "bindery-core", "null"));
        assert!(show(&found).contains("bindery-new has no arrows"));
    }

    #[test]
    fn a_library_with_anyhow_is_a_finding() {
        let found = anyhow_at_the_edge(&metadata("bindery-dns", "anyhow", "null"));
        assert!(show(&found).starts_with("crates/dns/Cargo.toml:1:"));
        assert!(anyhow_at_the_edge(&metadata("bindery-dns", "anyhow", "\"dev\"")).is_empty());
        assert!(anyhow_at_the_edge(&metadata("bindery", "anyhow", "null")).is_empty());
    }

    #[test]
    fn a_clock_deep_in_the_tree_of_core_is_found() {
        let tree = "bindery-core v0.1.0 (/x)\nidna v1.0.0\njiff v0.2.0\njiff v0.2.0 (*)\n";
        let found = impurities("bindery-core", &["jiff"], tree);
        assert_eq!(
            show(&found),
            "crates/core/Cargo.toml:1: bindery-core is pure, but jiff is in its dependency tree"
        );
    }
}
