//! What our documents promise is there: the tests that prove invariants, the files of the project.

use super::Finding;
use super::tree::Tree;

/// The document whose invariants name their tests.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// How an invariant names its test.
const TEST: &str = "Test: ";
/// How an invariant says that its test is still to be written.
const NONE_YET: &str = "none yet";
/// Where the reasons of conditions are listed in code, and where they are explained.
const REASONS: &str = "crates/core/src/reason.rs";
const GUIDE: &str = "docs/troubleshooting.md";
/// Where it stands which test shows which reason of name servers, and the first and last of these.
const SHOWN: &str = "docs/conditions.md";
const SHOWN_REASONS: [&str; 2] = ["AllReady", "UpstreamUnreachable"];
/// Where the rules are.
const RULES: &str = "xtask/src/tidy/";

/// Files that every checkout has, with a text that must be in them.
const DOCUMENTS: &[(&str, &str)] = &[
    ("README.md", "cargo xtask test"),
    ("LICENSE", "Apache License"),
    ("CHANGELOG.md", "## [Unreleased]"),
    (ARCHITECTURE, "## Invariants"),
    ("docs/STYLE.md", "# "),
    ("deny.toml", "[licenses]"),
    (".ci/run", "cargo xtask test"),
];

/// Every test that ARCHITECTURE.md names exists, and every numbered invariant names one.
pub(super) fn named_tests(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(ARCHITECTURE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut open: Option<usize> = None;
    let mut inside = false;
    for (number, line) in file.lines() {
        let heading = line.starts_with("## ");
        if heading || (inside && is_item(line)) {
            findings.extend(open.take().map(without_test));
        }
        if heading {
            inside = line == "## Invariants";
        } else if inside && is_item(line) {
            open = Some(number);
        }
        let Some((_, named)) = line.split_once(TEST) else {
            continue;
        };
        open = None;
        if named.contains(NONE_YET) {
            findings.push(Finding::note(
                ARCHITECTURE,
                number,
                "its test is still to be written",
            ));
        }
        // Names stand in code spans: every second part of a line split at the backticks.
        for name in named.split('`').skip(1).step_by(2) {
            if !is_defined(tree, name) {
                let message = format!("no test is called `{name}`");
                findings.push(Finding::failure(ARCHITECTURE, number, message));
            }
        }
    }
    findings.extend(open.map(without_test));
    findings
}

/// The files of the project are there and say what they must.
pub(super) fn documents(tree: &Tree) -> Vec<Finding> {
    DOCUMENTS
        .iter()
        .filter_map(|(path, needed)| match tree.file(path) {
            None => Some(Finding::failure(path, 1, "this file is missing")),
            Some(file) if !file.text.contains(needed) => Some(Finding::failure(
                path,
                1,
                format!("`{needed}` is missing in it"),
            )),
            Some(_) => None,
        })
        .collect()
}

/// The project stands on its own: a path that climbs leads to something that the checkout has.
pub(super) fn outside_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The rules speak of such paths in their tests.
    let files = tree.files.iter();
    for file in files.filter(|file| !file.path.starts_with(RULES)) {
        for (number, line) in file.lines() {
            for end in climbing(line).filter(|end| !is_in(tree, end)) {
                let message =
                    format!("`../{end}` is not in the project, so its users do not have it");
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

/// What stands behind the last `../` of each path in a line.
fn climbing(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |letter: char| letter.is_alphanumeric() || "._/-".contains(letter);
    line.split(move |letter| !is_path(letter))
        .filter_map(|path| path.rsplit_once("../"))
        .map(|(_, end)| end.trim_end_matches(['.', '/']))
        .filter(|end| !end.is_empty())
}

/// Whether some file or folder ends in this path.
fn is_in(tree: &Tree, end: &str) -> bool {
    let inside = format!("/{end}/");
    let mut files = tree.files.iter();
    files.any(|file| format!("/{}/", file.path).contains(&inside))
}

/// Every reason that a status can give is explained to users.
pub(super) fn explained_reasons(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(REASONS) else {
        return Vec::new();
    };
    let guide = tree.file(GUIDE).map_or("", |file| file.text.as_str());
    reasons(&file.text)
        .filter(|word| !guide.contains(&format!("| `{word}` |")))
        .map(|word| Finding::failure(GUIDE, 1, format!("the reason `{word}` is not explained")))
        .collect()
}

/// Every reason of name servers is shown by a test, and the tests that are named exist.
pub(super) fn shown_reasons(tree: &Tree) -> Vec<Finding> {
    let (Some(code), Some(file)) = (tree.file(REASONS), tree.file(SHOWN)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let [first, last] = SHOWN_REASONS;
    let mut is_over = false;
    let of_servers = reasons(&code.text).skip_while(|word| *word != first);
    let of_servers = of_servers.take_while(|word| !std::mem::replace(&mut is_over, *word == last));
    for word in of_servers.filter(|word| !file.text.contains(&format!("| `{word}` |"))) {
        let message = format!("no test is named that shows the reason `{word}`");
        findings.push(Finding::failure(SHOWN, 1, message));
    }
    for (number, line) in file.lines().filter(|(_, line)| line.starts_with('|')) {
        let spans = line.split('`').skip(1).step_by(2);
        let is_test = |span: &&str| span.contains('_') && !span.contains(char::is_uppercase);
        for name in spans.filter(is_test).filter(|name| !is_defined(tree, name)) {
            let message = format!("no test is called `{name}`");
            findings.push(Finding::failure(SHOWN, number, message));
        }
    }
    findings
}

/// The words of the list of reasons.
fn reasons(code: &str) -> impl Iterator<Item = &str> {
    code.lines()
        .skip_while(|line| line.trim() != "Reason {")
        .skip(1)
        .take_while(|line| line.trim() != "}")
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|word| word.chars().all(char::is_alphanumeric))
}

/// Whether a line begins a numbered item.
fn is_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(". ")
}

fn without_test(number: usize) -> Finding {
    let message = format!("an invariant names its test: `{TEST}` and a name, or `{NONE_YET}`");
    Finding::failure(ARCHITECTURE, number, message)
}

/// Whether some Rust file defines a function of this name; a path in front of it must be its file.
fn is_defined(tree: &Tree, name: &str) -> bool {
    let function = name.rsplit("::").next().unwrap_or(name);
    let definition = format!("fn {function}(");
    tree.rust().any(|file| file.text.contains(&definition))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn a_test_that_an_invariant_names_must_exist() {
        let text =
            "## Invariants\n\n1. One writer.\n   Test: `one_writer`\n2. Two.\n   Test: `gone`\n";
        let files = [
            (ARCHITECTURE, text),
            ("crates/a/src/a.rs", "    fn one_writer() {}\n"),
        ];
        assert_eq!(
            check(named_tests, &files),
            "ARCHITECTURE.md:6: no test is called `gone`"
        );
    }

    #[test]
    fn an_invariant_without_a_test_is_found_and_a_promised_one_is_noted() {
        let text = "## Invariants\n\n1. One.\n2. Two.\n   Test: none yet, comes with secondaries\n3. Three\n\n## Next\n";
        let found = check(named_tests, &[(ARCHITECTURE, text)]);
        let lines: Vec<_> = found.lines().collect();
        assert_eq!(lines.len(), 3, "{found}");
        assert!(lines[0].starts_with("ARCHITECTURE.md:3: an invariant names its test"));
        assert!(lines[1].starts_with("ARCHITECTURE.md:5: note: its test"));
        assert!(lines[2].starts_with("ARCHITECTURE.md:6: an invariant names its test"));
    }

    #[test]
    fn a_path_that_the_checkout_does_not_have_is_found() {
        let files = [
            ("docs/a.md", "x\nsee ../elsewhere/x.md.\n"),
            ("docs/b.md", "see ../docs/a.md and `../../docs`\n"),
        ];
        assert_eq!(
            check(outside_paths, &files),
            "docs/a.md:2: `../elsewhere/x.md` is not in the project, so its users do not have it"
        );
    }

    #[test]
    fn a_reason_without_an_explanation_is_named() {
        let code =
            "    Reason {\n        /// Done, at last.\n        Done,\n        Held,\n    }\n}\n";
        let files = [(REASONS, code), (GUIDE, "| `Done` | nothing |\n")];
        assert_eq!(
            check(explained_reasons, &files),
            "docs/troubleshooting.md:1: the reason `Held` is not explained"
        );
    }

    #[test]
    fn a_reason_of_servers_that_no_test_shows_is_named() {
        let code = "    Reason {\n        Held,\n        AllReady,\n        NotReady,\n        \
                    UpstreamUnreachable,\n        Other,\n    }\n}\n";
        let table =
            "| `AllReady` | `one_test` | `gone_test` |\n| `UpstreamUnreachable` | `one_test` | |\n";
        let files = [
            (REASONS, code),
            (SHOWN, table),
            ("crates/a/src/a.rs", "    fn one_test() {}\n"),
        ];
        assert_eq!(
            check(shown_reasons, &files),
            "docs/conditions.md:1: no test is named that shows the reason `NotReady`\n\
             docs/conditions.md:1: no test is called `gone_test`"
        );
    }

    #[test]
    fn a_missing_document_is_named() {
        let found = check(documents, &[("README.md", "hello")]);
        assert!(found.contains("README.md:1: `cargo xtask test` is missing in it"));
        assert!(found.contains("LICENSE:1: this file is missing"));
    }
}
