//! Kinds differ by their rows, and their controllers read as five calls.

use super::Finding;
use super::tree::Tree;

/// Where the rows stand.
const TABLE: &str = "crates/core/src/kind.rs";

/// Files that run a controller, each with its calls in their order.
const DRIVERS: &[&str] = &["crates/kube/src/publishing.rs", "crates/kube/src/zone.rs"];

/// Lines that a driver may have.
const DRIVER_LEN_MAX: usize = 150;

/// The steps of a controller, in their order.
const STEPS: &[&str] = &["observe(", "validate(", "plan(", "apply(", "report("];

/// No code asks for one kind: a new one would not be asked for.
pub(super) fn compared(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ships = |path: &str| path.starts_with("crates/") && path != TABLE;
    for file in tree
        .rust()
        .filter(|file| ships(&file.path) && !file.is_test())
    {
        let end = file.tests_begin().unwrap_or(usize::MAX);
        for (number, line) in file.lines().take_while(|(number, _)| *number < end) {
            if names_kind(line) {
                let message = format!("ask for the role of a kind, which its row in {TABLE} says");
                findings.push(Finding::failure(&file.path, number, message));
            }
        }
    }
    findings
}

/// Whether a line has `Kind::` and the name of one, as no other type's name ends.
fn names_kind(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("Kind::").any(|(at, found)| {
        let before = code[..at].chars().next_back();
        let name = &code[at + found.len()..];
        let is_kind = before.is_none_or(|c| !c.is_alphanumeric());
        is_kind && name.starts_with(char::is_uppercase) && !name.starts_with("ALL")
    })
}

/// Each controller's driver is short, and its steps stand in their order.
pub(super) fn drivers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in DRIVERS {
        let Some(file) = tree.rust().find(|file| file.path == *path) else {
            findings.push(Finding::failure(
                path,
                1,
                "the driver of a controller is gone",
            ));
            continue;
        };
        let len = file.text.lines().count();
        if len >= DRIVER_LEN_MAX {
            let message = format!("{len} lines; a driver has less than {DRIVER_LEN_MAX}");
            findings.push(Finding::failure(path, 1, message));
        }
        if !in_order(&file.text) {
            let message =
                "`reconcile` must call observe, validate, plan, apply and report, in this order";
            findings.push(Finding::failure(path, 1, message));
        }
    }
    findings
}

/// Whether `reconcile` has all steps, one after the other.
fn in_order(text: &str) -> bool {
    let body = text.split_once("async fn reconcile(").map(|(_, rest)| rest);
    let body = body.and_then(|rest| rest.split("\n}\n").next());
    let mut rest = body.unwrap_or_default();
    STEPS.iter().all(|step| match rest.split_once(step) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_by_its_name_is_found_and_other_types_are_not() {
        assert!(names_kind("if wanted.kind != Kind::DnsZone {"));
        assert!(names_kind("[Kind::ARecord]"));
        for fine in [
            "for kind in Kind::ALL {",
            "FaultKind::Lost",
            "io::ErrorKind::NotFound",
            "Kind::$kind",
            "// Kind::ARecord",
        ] {
            assert!(!names_kind(fine), "{fine}");
        }
    }

    #[test]
    fn steps_out_of_order_are_found() {
        let driver = |body: &str| format!("pub(crate) async fn reconcile() {{\n{body}\n}}\n");
        assert!(in_order(&driver(
            "observe(); validate(); plan(); apply(); report();"
        )));
        assert!(!in_order(&driver(
            "observe(); plan(); validate(); apply(); report();"
        )));
        assert!(!in_order("fn other() {}\n"));
    }
}
