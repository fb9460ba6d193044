//! Rules over Rust files: sizes, names, documentation, and words that do not belong.

use super::Finding;
use super::tree::Tree;

/// Lines before the tests from which a file is worth splitting.
const BODY_LEN_NOTE: usize = 400;
/// Lines before the tests that no file has.
const BODY_LEN_MAX: usize = 600;
/// Lines of inline tests from which they move to a sibling `tests.rs`.
const TESTS_LEN_NOTE: usize = 200;
/// Names that say nothing about what is inside.
const BANNED_MODULES: &[&str] = &["utils", "helpers", "common", "types", "manager", "misc"];
/// What a pause in a polling loop is marked with, on its line or the one above.
const PAUSE: &str = "pause between polls";

/// Lines that a signature may take.
const SIGNATURE_LEN: usize = 10;

/// Text that no Rust file has, with what to do instead.
const BANNED_TEXT: &[(&str, &str)] = &[
    ("#[ignore", "a test runs or is removed; none is ignored"),
    (
        "#[from]",
        "name the act and its subject in the variant; `#[source]` only",
    ),
    (
        "fn test_",
        "a test is a sentence, without the prefix `test_`",
    ),
    ("TODO", "an issue number or nothing: write it in an issue"),
    ("FIXME", "an issue number or nothing: write it in an issue"),
];

/// The rules themselves have to spell what they ban.
const RULES: &str = "xtask/src/tidy";

/// Files stay short enough to be read in one sitting.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let all = file.text.lines().count();
        let body = file.tests_begin().map_or(all, |begin| begin - 1);
        let tests = all - body;
        if body > BODY_LEN_MAX && !file.is_test() {
            let message = format!("{body} lines before the tests; {BODY_LEN_MAX} is the limit");
            findings.push(Finding::failure(&file.path, 1, message));
        } else if body > BODY_LEN_NOTE && !file.is_test() {
            let message = format!("{body} lines before the tests; split at {BODY_LEN_NOTE}");
            findings.push(Finding::note(&file.path, 1, message));
        } else if body > BODY_LEN_MAX {
            let message = format!("{body} lines of tests in one file; group them by subject");
            findings.push(Finding::note(&file.path, 1, message));
        }
        if tests > TESTS_LEN_NOTE {
            let message = format!("{tests} lines of inline tests; move them to a sibling tests.rs");
            findings.push(Finding::note(&file.path, body + 1, message));
        }
    }
    findings
}

/// Modules are named for their content, and stand in `foo.rs` beside `foo/`.
pub(super) fn module_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        if file.stem() == "mod" {
            let message = "`foo.rs` beside `foo/`, never `mod.rs`";
            findings.push(Finding::failure(&file.path, 1, message));
        }
        if BANNED_MODULES.contains(&file.stem()) {
            let message = format!(
                "`{}` says nothing; name the module for its content",
                file.stem()
            );
            findings.push(Finding::failure(&file.path, 1, message));
        }
        for (number, line) in file.lines() {
            let name = line
                .trim()
                .strip_suffix('{')
                .and_then(|line| line.trim().rsplit_once("mod "));
            if let Some((_, name)) = name
                && BANNED_MODULES.contains(&name)
            {
                let message = format!("`{name}` says nothing; name the module for its content");
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

/// Every crate says what it must never do.
pub(super) fn crate_roots(tree: &Tree) -> Vec<Finding> {
    let roots = tree.rust().filter(|file| is_crate_root(&file.path));
    roots
        .filter(|file| {
            let mut doc = file.text.lines().take_while(|line| line.starts_with("//!"));
            !doc.any(|line| line.to_lowercase().contains("never"))
        })
        .map(|file| {
            let message = "the crate's documentation must say what the crate must *never* do";
            Finding::failure(&file.path, 1, message)
        })
        .collect()
}

/// Every module begins with its purpose.
pub(super) fn module_docs(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| !file.is_test() && !file.text.starts_with("//!"))
        .map(|file| {
            Finding::failure(
                &file.path,
                1,
                "a module begins with one sentence of purpose (`//!`)",
            )
        })
        .collect()
}

/// Words and attributes that do not belong in the tree.
pub(super) fn banned_text(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(RULES)) {
        for (number, line) in file.lines() {
            for (text, instead) in BANNED_TEXT {
                if line.contains(text) {
                    findings.push(Finding::failure(&file.path, number, *instead));
                }
            }
        }
    }
    findings
}

/// A test waits for something, with a deadline; it does not wait for time to pass.
pub(super) fn sleeping_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(RULES)) {
        let first = if file.is_test() {
            Some(1)
        } else {
            file.tests_begin()
        };
        let Some(first) = first else { continue };
        let mut above = "";
        for (number, line) in file.lines() {
            let sleeps = line.contains("thread::sleep(") || line.contains("time::sleep(");
            if sleeps && number >= first && !line.contains(PAUSE) && !above.contains(PAUSE) {
                let message = format!(
                    "a test does not sleep: poll with a deadline, and mark the pause of the loop with \
                     `// {PAUSE}`"
                );
                findings.push(Finding::failure(&file.path, number, message));
            }
            above = line;
        }
    }
    findings
}

/// A select without a fixed order would make simulated runs differ.
pub(super) fn unbiased_selects(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(RULES)) {
        let mut lines = file.lines().peekable();
        while let Some((number, line)) = lines.next() {
            let next = lines.peek().map_or("", |(_, next)| next.trim());
            let code = line.trim_start();
            let selects = code.contains("select! {") && !code.starts_with("//");
            if selects && next != "biased;" && !line.contains("biased;") {
                let message = "`select!` begins with `biased;`, so that a seed gives the same run";
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

/// Tasks are started by the supervisor, which notices when one ends.
pub(super) fn stray_tasks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree
        .rust()
        .filter(|file| !file.is_test() && !file.path.starts_with(RULES))
        // Measuring programs are no service: they end with their last task.
        .filter(|file| !file.path.starts_with("bench/") && !file.path.contains("/examples/"))
    {
        let tests = file.tests_begin().unwrap_or(usize::MAX);
        for (number, line) in file.lines().take_while(|(number, _)| *number < tests) {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("tokio::spawn(") && !file.path.ends_with("/supervisor.rs") {
                let message = "tasks are started by the supervisor (or owned by a `JoinSet`)";
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

/// A `true` at a call says nothing; an enum does.
pub(super) fn flag_parameters(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree
        .rust()
        .filter(|file| !file.is_test() && !file.path.starts_with(RULES))
    {
        for (number, line) in file.lines() {
            let code = line.trim_start();
            let public = ["pub fn ", "pub async fn ", "pub const fn "];
            if !public.iter().any(|start| code.starts_with(start)) {
                continue;
            }
            let rest: Vec<&str> = file
                .text
                .lines()
                .skip(number - 1)
                .take(SIGNATURE_LEN)
                .collect();
            let rest = rest.join(" ");
            let signature = rest.split(" {").next().unwrap_or(&rest);
            let parameters = signature.split(" -> ").next().unwrap_or(signature);
            if parameters.contains(": bool") {
                let message = "a public function takes no `bool`: give the choice a name (an enum)";
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("src/main.rs")
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    fn lines(count: usize) -> String {
        "//! x\n".repeat(count)
    }

    #[test]
    fn six_hundred_lines_are_the_limit_and_tests_do_not_count() {
        let with_tests = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            lines(300),
            lines(150)
        );
        assert_eq!(check(sizes, &[("crates/a/src/a.rs", &with_tests)]), "");
        assert_eq!(
            check(sizes, &[("crates/a/src/a.rs", &lines(601))]),
            "crates/a/src/a.rs:1: 601 lines before the tests; 600 is the limit"
        );
        assert!(
            check(sizes, &[("crates/a/src/a.rs", &lines(401))]).contains(":1: note: 401 lines")
        );
    }

    #[test]
    fn long_inline_tests_are_noted_where_they_begin() {
        let text = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            lines(10),
            lines(250)
        );
        assert!(check(sizes, &[("a.rs", &text)]).starts_with("a.rs:11: note: 253 lines of inline"));
    }

    #[test]
    fn modules_that_say_nothing_are_refused() {
        assert!(check(module_names, &[("crates/a/src/utils.rs", "")]).contains("`utils` says"));
        assert!(check(module_names, &[("crates/a/src/a/mod.rs", "")]).contains("never `mod.rs`"));
        assert!(
            check(module_names, &[("a.rs", "x\npub(crate) mod misc {\n")]).starts_with("a.rs:2")
        );
        assert_eq!(
            check(module_names, &[("crates/a/src/record.rs", "mod tests {\n")]),
            ""
        );
    }

    #[test]
    fn a_crate_root_says_its_never_in_its_own_documentation() {
        let silent = "//! Names.\n\n/// This never fails.\nfn a() {}\n";
        assert!(check(crate_roots, &[("crates/a/src/lib.rs", silent)]).contains("*never*"));
        let said = "//! Names.\n//!\n//! It must *never* log.\n";
        assert_eq!(check(crate_roots, &[("crates/a/src/lib.rs", said)]), "");
    }

    #[test]
    fn ignored_tests_and_bare_reminders_are_found_with_their_line() {
        let text = "//! x\n#[ignore = \"slow\"]\nfn a() {} // TODO later\n";
        let found = check(banned_text, &[("crates/a/src/a.rs", text)]);
        assert!(found.contains("a.rs:2: a test runs") && found.contains("a.rs:3: an issue number"));
    }

    #[test]
    fn a_sleep_in_a_test_is_found_but_not_the_pause_of_a_poll() {
        let text = "fn a() { tokio::time::sleep(x).await }\n#[cfg(test)]\nmod tests {\n    std::thread::sleep(x);\n    // pause between polls\n    std::thread::sleep(x);\n}\n";
        let found = check(sleeping_tests, &[("crates/a/src/a.rs", text)]);
        assert!(
            found.starts_with("crates/a/src/a.rs:4: ") && !found.contains('\n'),
            "{found}"
        );
    }

    #[test]
    fn a_select_begins_with_biased() {
        let good = "tokio::select! {\n    biased;\n";
        let bad = "tokio::select! {\n    a = b => {}\n";
        assert_eq!(check(unbiased_selects, &[("a.rs", good)]), "");
        assert!(check(unbiased_selects, &[("a.rs", bad)]).starts_with("a.rs:1: "));
    }

    #[test]
    fn a_task_outside_the_supervisor_is_found_unless_a_test_starts_it() {
        let text = "tokio::spawn(x);\n#[cfg(test)]\nmod tests {\n    tokio::spawn(y);\n}\n";
        let found = check(stray_tasks, &[("crates/a/src/a.rs", text)]);
        assert!(
            found.starts_with("crates/a/src/a.rs:1: ") && !found.contains('\n'),
            "{found}"
        );
        assert_eq!(
            check(stray_tasks, &[("crates/a/src/supervisor.rs", text)]),
            ""
        );
    }

    #[test]
    fn a_flag_in_a_public_signature_is_found_and_a_returned_one_is_not() {
        let text = "pub fn a(\n    x: u8,\n    deep: bool,\n) -> u8 {\npub fn b(x: u8) -> bool {\nfn c(d: bool) {\n";
        let found = check(flag_parameters, &[("crates/a/src/a.rs", text)]);
        assert!(
            found.starts_with("crates/a/src/a.rs:1: ") && !found.contains('\n'),
            "{found}"
        );
    }

    #[test]
    fn a_module_without_its_purpose_is_found() {
        assert!(check(module_docs, &[("crates/a/src/a.rs", "use x;\n")]).contains("one sentence"));
        assert_eq!(
            check(module_docs, &[("crates/a/src/a/tests.rs", "use x;\n")]),
            ""
        );
    }
}
