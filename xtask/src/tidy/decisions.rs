//! The records of decisions under `docs/adr/`: their form, and the index that lists them.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::Finding;
use super::tree::{File, Tree, ending};

/// The document that lists the decisions.
pub(crate) const INDEX: &str = "docs/adr/README.md";

const FOLDER: &str = "docs/adr/";
/// Parts that every record has, in this order.
const PARTS: &[&str] = &[
    "Status:",
    "## Context",
    "## Options",
    "## Decision",
    "## Consequences",
];
const TABLE_BEGINS: &str = "<!-- written by `cargo xtask docs` -->";
const TABLE_ENDS: &str = "<!-- end -->";
const TABLE_HEAD: &str = "\n\n| | decision | status |\n|---|---|---|\n";

/// One record, as the index shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    file: String,
    title: String,
    status: String,
}

/// Every record has its parts, its number, and its line in the index.
pub(super) fn complete(tree: &Tree) -> Vec<Finding> {
    let index = tree.file(INDEX).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    let records = tree.markdown().filter(|file| is_record(&file.path));
    for (expected, file) in (1..).zip(records) {
        let name = file.path.trim_start_matches(FOLDER);
        if !name.starts_with(&format!("{expected:04}-")) {
            let message = format!("numbers have no gap: this should be {expected:04}");
            findings.push(Finding::failure(&file.path, 1, message));
        }
        if !index.contains(&format!("({name})")) {
            let message = format!("{name} is not listed; `cargo xtask docs` writes the list");
            findings.push(Finding::failure(INDEX, 1, message));
        }
        findings.extend(missing_parts(file));
    }
    findings
}

/// Reads the records from disk, in their order.
pub(crate) fn read(root: &Path) -> Result<Vec<Decision>> {
    let tree = Tree::read(root)?;
    let records = tree.markdown().filter(|file| is_record(&file.path));
    records.map(decision).collect()
}

/// The index with its table written anew.
pub(crate) fn with_table(index: &str, decisions: &[Decision]) -> Result<String> {
    let (before, rest) = index
        .split_once(TABLE_BEGINS)
        .with_context(|| format!("{INDEX} lacks {TABLE_BEGINS}"))?;
    let (_, after) = rest
        .split_once(TABLE_ENDS)
        .with_context(|| format!("{INDEX} lacks {TABLE_ENDS}"))?;
    let rows: String = decisions.iter().map(row).collect();
    Ok([
        before,
        TABLE_BEGINS,
        TABLE_HEAD,
        &rows,
        "\n",
        TABLE_ENDS,
        after,
    ]
    .concat())
}

fn row(decision: &Decision) -> String {
    let Decision {
        file,
        title,
        status,
    } = decision;
    let number = file.split('-').next().unwrap_or_default();
    format!("| {number} | [{title}]({file}) | {status} |\n")
}

fn is_record(path: &str) -> bool {
    path.strip_prefix(FOLDER)
        .is_some_and(|name| name != "README.md" && ending(name) == "md")
}

fn missing_parts(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut from = 0;
    for part in PARTS {
        if let Some(at) = file.text[from..].find(part) {
            from += at;
        } else {
            let message = format!("`{part}` is missing or out of order");
            findings.push(Finding::failure(&file.path, 1, message));
        }
    }
    findings
}

fn decision(file: &File) -> Result<Decision> {
    let name = file.path.trim_start_matches(FOLDER).to_owned();
    let Some(heading) = file
        .text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# "))
    else {
        bail!("{} does not begin with `# title`", file.path);
    };
    // The number stands in the file's name and in the heading; the table shows it once.
    let title = heading
        .split_once(". ")
        .map_or(heading, |(_, title)| title)
        .to_owned();
    let status = file
        .text
        .lines()
        .find_map(|line| line.strip_prefix("Status: "));
    let status = status.with_context(|| format!("{} has no line `Status: …`", file.path))?;
    Ok(Decision {
        file: name,
        title,
        status: status.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    const RECORD: &str = "# 1. Pure core

Status: accepted

## Context

## Options

## Decision

## Consequences
";

    #[test]
    fn the_index_lists_every_record() {
        let files = [("docs/adr/0001-pure.md", RECORD), (INDEX, "nothing")];
        assert!(check(complete, &files).starts_with("docs/adr/README.md:1: 0001-pure.md is not"));
        let files = [
            ("docs/adr/0001-pure.md", RECORD),
            (INDEX, "[x](0001-pure.md)"),
        ];
        assert_eq!(check(complete, &files), "");
    }

    #[test]
    fn a_record_has_its_number_and_all_parts() {
        let cut = RECORD.replace("## Options\n", "");
        let found = check(
            complete,
            &[("docs/adr/0002-a.md", &cut), (INDEX, "(0002-a.md)")],
        );
        assert!(found.contains("this should be 0001"), "{found}");
        assert!(found.contains("`## Options` is missing"), "{found}");
    }

    #[test]
    fn the_table_is_written_between_its_marks() {
        let index = format!("# Decisions\n\n{TABLE_BEGINS}\nold\n{TABLE_ENDS}\nafter\n");
        let listed = decision(&File::new("docs/adr/0001-pure.md", RECORD)).unwrap();
        let written = with_table(&index, &[listed]).unwrap();
        assert!(
            written.contains("| 0001 | [Pure core](0001-pure.md) | accepted |"),
            "{written}"
        );
        assert!(!written.contains("old") && written.ends_with("after\n"));
        assert!(with_table("no marks", &[]).is_err());
    }
}
