//! The glossary is in order, has each word once, and links to code that has the name.

use super::Finding;
use super::tree::{File, Tree};

/// The document.
const GLOSSARY: &str = "docs/glossary.md";
/// What leads from the document to the root.
const UP: &str = "../";

/// The rows are sorted and no word has two.
pub(super) fn sorted(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = String::new();
    for (number, row) in rows(tree) {
        let word = row.word.to_lowercase();
        if word == before {
            let message = format!("{word} has two rows: keep the truest");
            findings.push(Finding::failure(GLOSSARY, number, message));
        } else if word < before {
            let message = format!("{word} stands behind {before}: rows are sorted by their word");
            findings.push(Finding::failure(GLOSSARY, number, message));
        }
        before = word;
    }
    findings
}

/// Every row links to a file that has the names which the row gives.
pub(super) fn linked(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, row) in rows(tree) {
        let mut fail = |message: String| {
            findings.push(Finding::failure(GLOSSARY, number, message));
        };
        let Some((names, path)) = row.link() else {
            fail(format!(
                "{} has no link to the code: [`Name`]({UP}path)",
                row.word
            ));
            continue;
        };
        let Some(file) = tree.file(path) else {
            fail(format!("{path} does not exist"));
            continue;
        };
        for name in names.filter(|name| !has_name(file, name)) {
            fail(format!("{path} has no `{name}`"));
        }
    }
    findings
}

/// A row of the table.
struct Row<'a> {
    word: &'a str,
    place: &'a str,
}

impl<'a> Row<'a> {
    /// The names that the row gives, and the file in which they are to be found.
    fn link(&self) -> Option<(impl Iterator<Item = &'a str> + use<'a>, &'a str)> {
        let (names, rest) = self.place.strip_prefix('[')?.split_once("](")?;
        let path = rest.strip_suffix(')')?.strip_prefix(UP)?;
        // Names stand in code spans: every second part of a text split at the backticks.
        let names = names.split('`').skip(1).step_by(2);
        let last = names.map(|name| name.rsplit("::").next().unwrap_or(name));
        Some((last, path))
    }
}

fn rows(tree: &Tree) -> impl Iterator<Item = (usize, Row<'_>)> {
    let lines = tree.file(GLOSSARY).into_iter().flat_map(File::lines);
    let table = lines.skip_while(|(_, line)| !line.starts_with("|---"));
    table.skip(1).filter_map(|(number, line)| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (word, _meaning, place) = (cells.next()?, cells.next()?, cells.next()?);
        Some((number, Row { word, place }))
    })
}

/// Whether a name stands in a file as a whole word, or is the name of its module.
fn has_name(file: &File, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = file.text.split(|letter| !is_part(letter));
    file.path.ends_with(&format!("/{name}.rs")) || words.any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    const HEAD: &str = "| word | meaning | where |\n|---|---|---|\n";

    fn found(rule: fn(&Tree) -> Vec<Finding>, rows: &str) -> String {
        let text = format!("{HEAD}{rows}");
        let code = "struct Claim;\nimpl Claim { fn records() {} }\n";
        check(rule, &[(GLOSSARY, &text), ("crates/a/src/claim.rs", code)])
    }

    #[test]
    fn a_word_stands_once_and_in_its_place() {
        let rows = "| claim | x | y |\n| Claim | x | y |\n| plan | x | y |\n| guard | x | y |\n";
        assert_eq!(
            found(sorted, rows),
            "docs/glossary.md:4: claim has two rows: keep the truest\n\
             docs/glossary.md:6: guard stands behind plan: rows are sorted by their word"
        );
        assert_eq!(found(sorted, "| a | x | y |\n| b | x | y |\n"), "");
    }

    #[test]
    fn a_row_links_to_code_that_has_the_name() {
        let rows = "| a | x | [`Claim`](../crates/a/src/claim.rs) |\n\
                    | b | x | [`claim`, `Claim::records`](../crates/a/src/claim.rs) |\n\
                    | c | x | [`Claims`](../crates/a/src/claim.rs) |\n\
                    | d | x | [`Plan`](../crates/a/src/plan.rs) |\n\
                    | e | x | nowhere |\n";
        assert_eq!(
            found(linked, rows),
            "docs/glossary.md:5: crates/a/src/claim.rs has no `Claims`\n\
             docs/glossary.md:6: crates/a/src/plan.rs does not exist\n\
             docs/glossary.md:7: e has no link to the code: [`Name`](../path)"
        );
    }
}
