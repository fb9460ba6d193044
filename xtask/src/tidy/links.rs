//! Links in our documents lead somewhere.

use super::Finding;
use super::reach::normal;
use super::tree::{File, Tree, ending};

/// Relative links to files that do not exist, or to headings that a document does not have.
pub(super) fn dead(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.markdown() {
        for (number, line) in prose(file) {
            for target in targets(&line) {
                if let Some(message) = problem(tree, file, target) {
                    findings.push(Finding::failure(&file.path, number, message));
                }
            }
        }
    }
    findings
}

/// Lines outside code fences, with code spans blanked out.
fn prose(file: &File) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("_");
            lines.push((number, outside));
        }
    }
    lines
}

/// What stands between `](` and `)`.
fn targets(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect()
}

fn problem(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let full = if path.is_empty() {
        file.path.clone()
    } else {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        normal(&format!("{folder}/{path}"))
    };
    if !full.is_empty() && !tree.exists(&full) {
        return Some(format!("dead link: there is no {full}"));
    }
    let document = tree
        .file(&full)
        .filter(|document| ending(&document.path) == "md")?;
    let missing = !anchor.is_empty() && !anchors(document).iter().any(|known| known == anchor);
    missing.then(|| format!("dead link: {full} has no heading for #{anchor}"))
}

/// The anchors that a renderer gives to the headings of a document.
fn anchors(document: &File) -> Vec<String> {
    let mut fenced = false;
    let mut anchors = Vec::new();
    for (_, line) in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with('#') {
            anchors.push(anchor(line.trim_start_matches('#').trim()));
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_is_found_with_its_line() {
        let text = "# A\n\nSee [b](adr/b.md) and [c](../README.md).\n";
        let files = [("docs/a.md", text), ("README.md", "")];
        assert_eq!(
            check(dead, &files),
            "docs/a.md:3: dead link: there is no docs/adr/b.md"
        );
    }

    #[test]
    fn a_link_to_a_heading_needs_the_heading() {
        let text = "[x](#the-one-path) [y](#nowhere)\n\n## The one path\n";
        assert_eq!(
            check(dead, &[("a.md", text)]),
            "a.md:1: dead link: a.md has no heading for #nowhere"
        );
    }

    #[test]
    fn code_and_the_web_are_left_alone() {
        let text = "`[x](y.md)` [z](https://example.com/y.md)\n```\n[x](y.md)\n```\n[d](docs)\n";
        assert_eq!(check(dead, &[("a.md", text), ("docs/b.md", "")]), "");
    }
}
