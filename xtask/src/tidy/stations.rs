//! The stations of a new record's way stand in the code as the architecture page says.

use super::Finding;
use super::tree::{File, Tree};

/// The document.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The section with the table.
const SECTION: &str = "## A new ARecord's way";
/// Where the words of the stages are.
const STAGES: &str = "crates/core/src/stage.rs";
/// More stations than this nobody keeps in mind.
const STATIONS_MAX: usize = 12;

/// Every station names a stage, and a function that its file has.
pub(super) fn walked(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(ARCHITECTURE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let stations: Vec<Station<'_>> = stations(page).collect();
    let mut fail = |number, message: String| {
        findings.push(Finding::failure(ARCHITECTURE, number, message));
    };
    if stations.is_empty() || stations.len() > STATIONS_MAX {
        let message = format!(
            "`{SECTION}` has {} stations; it has one to {STATIONS_MAX}",
            stations.len()
        );
        fail(1, message);
    }
    let words = tree.file(STAGES).map_or("", |file| file.text.as_str());
    for station in stations {
        let Station {
            line,
            stage,
            function,
            path,
        } = station;
        if !words.contains(&format!("=> \"{stage}\"")) {
            fail(line, format!("`{stage}` is no stage of {STAGES}"));
        }
        match tree.file(path) {
            None => fail(line, format!("{path} does not exist")),
            Some(file) if !has_function(file, function) => {
                fail(line, format!("{path} has no function `{function}`"));
            }
            Some(_) => {}
        }
    }
    findings
}

/// A row of the table.
struct Station<'a> {
    line: usize,
    stage: &'a str,
    function: &'a str,
    path: &'a str,
}

fn stations(page: &File) -> impl Iterator<Item = Station<'_>> {
    let section = page.lines().skip_while(|(_, line)| *line != SECTION);
    let section = section
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.skip_while(|(_, line)| !line.starts_with("|---"));
    rows.skip(1).filter_map(|(line, row)| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (stage, function, path) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Station {
            line,
            stage,
            function: function.trim_matches('`'),
            path: path.trim_matches('`'),
        })
    })
}

fn has_function(file: &File, function: &str) -> bool {
    ["(", "<"]
        .iter()
        .any(|end| file.text.contains(&format!("fn {function}{end}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    fn found(rows: &str) -> String {
        let page =
            format!("# A\n\n{SECTION}\n\n| s | f | p | w |\n|---|---|---|---|\n{rows}\n## Next\n");
        let files = [
            (ARCHITECTURE, page.as_str()),
            (STAGES, "Self::Claim => \"claim\",\n"),
            (
                "crates/a/src/a.rs",
                "pub fn decide<T>(one: T) {}\nfn see() {}\n",
            ),
        ];
        check(walked, &files)
    }

    #[test]
    fn a_station_names_a_stage_and_a_function_that_is_there() {
        assert_eq!(found("| claim | `decide` | `crates/a/src/a.rs` | x |"), "");
        assert_eq!(
            found(
                "| wish | `see` | `crates/a/src/a.rs` | x |\n\
                 | claim | `de` | `crates/a/src/a.rs` | x |\n\
                 | claim | `see` | `crates/b.rs` | x |"
            ),
            "ARCHITECTURE.md:7: `wish` is no stage of crates/core/src/stage.rs\n\
             ARCHITECTURE.md:8: crates/a/src/a.rs has no function `de`\n\
             ARCHITECTURE.md:9: crates/b.rs does not exist"
        );
    }

    #[test]
    fn there_are_no_more_stations_than_one_keeps_in_mind() {
        let row = "| claim | `see` | `crates/a/src/a.rs` | x |\n";
        assert_eq!(found(&row.repeat(12)), "");
        let many = "ARCHITECTURE.md:1: `## A new ARecord's way` has 13 stations; it has one to 12";
        assert_eq!(found(&row.repeat(13)), many);
        assert!(found("").contains("has 0 stations"));
    }
}
