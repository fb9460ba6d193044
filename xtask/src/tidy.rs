//! The rules of the house that no compiler checks.
//!
//! Each rule is a small function from the files of the tree (or from cargo's metadata) to findings.
//! A rule is added here when a remark in a review would apply a second time.

pub(crate) mod decisions;
pub(crate) mod metadata;
pub(crate) mod tree;

mod arrows;
mod dependencies;
mod glossary;
mod kinds;
mod links;
mod names;
mod promises;
mod reach;
mod rust;
mod stations;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use metadata::Metadata;
use tree::Tree;

/// Something that a rule objects to, or only remarks on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    weight: Weight,
    message: String,
}

/// What a finding does to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Fails it.
    Failure,
    /// Is shown, nothing more: a limit is near, a test is still to be written.
    Note,
}

impl Finding {
    fn failure(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            weight: Weight::Failure,
            message: message.into(),
        }
    }

    fn note(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            weight: Weight::Note,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = match self.weight {
            Weight::Failure => "",
            Weight::Note => "note: ",
        };
        write!(f, "{}:{}: {note}{}", self.path, self.line, self.message)
    }
}

/// Rules over the text of the tree.
const TEXT_RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    rust::sizes,
    rust::module_names,
    rust::crate_roots,
    rust::module_docs,
    rust::banned_text,
    rust::sleeping_tests,
    rust::unbiased_selects,
    rust::stray_tasks,
    rust::flag_parameters,
    reach::orphans,
    dependencies::reasons,
    dependencies::unused,
    dependencies::denied_alike,
    decisions::complete,
    links::dead,
    kinds::compared,
    kinds::drivers,
    glossary::sorted,
    glossary::linked,
    names::once,
    names::exceptions,
    promises::named_tests,
    promises::documents,
    promises::outside_paths,
    promises::explained_reasons,
    promises::shown_reasons,
    stations::walked,
];

/// Rules over cargo's metadata.
const METADATA_RULES: &[fn(&Metadata) -> Vec<Finding>] = &[
    arrows::between_crates,
    arrows::anyhow_at_the_edge,
    dependencies::duplicates,
    dependencies::licences,
];

/// Runs every rule and prints what they found.
///
/// # Errors
/// When a rule objects; notes alone do not fail.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let metadata = Metadata::fetch(root)?;
    let mut findings: Vec<Finding> = TEXT_RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(METADATA_RULES.iter().flat_map(|rule| rule(&metadata)));
    findings.extend(arrows::purity(root)?);
    findings.sort();

    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings
        .iter()
        .filter(|finding| finding.weight == Weight::Failure)
        .count();
    if failures > 0 {
        bail!("{failures} finding(s); docs/STYLE.md says why each rule exists");
    }
    println!("tidy: {} files, nothing to object to", tree.files.len());
    Ok(())
}

#[cfg(test)]
mod testing {
    //! How the rules are tested: a few lines of text in, `path:line: message` out.

    use super::Finding;
    use super::tree::{File, Tree};

    /// The findings of a rule on files given as (path, text), one per line.
    pub(super) fn check(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> String {
        let files = files
            .iter()
            .map(|(path, text)| File::new(path, text))
            .collect();
        show(&rule(&Tree { files }))
    }

    /// Findings as the user sees them.
    pub(super) fn show(findings: &[Finding]) -> String {
        findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
