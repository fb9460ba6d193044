//! The list of mutants that survive in core, each with the reason why no test notices it.

use std::collections::BTreeMap;

/// Where the crate lies that the list speaks of; its paths begin there.
const LISTED: &str = "crates/core/src/";

/// Mutants by file and what is done, without line numbers, which every edit moves; and how many are
/// alike, since one expression may hold several operators of a kind.
pub(super) type Survivors = BTreeMap<String, usize>;

/// A line of the list: `` - `file: what is done` (2): reason ``. A star stands for any text, so that one
/// reason may do for several; the number says for how many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pattern: &'a str,
    count: usize,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (pattern, rest) = line.strip_prefix("- `")?.split_once('`')?;
        let count = rest
            .strip_prefix(" (")
            .and_then(|rest| rest.split_once(')'))
            .and_then(|(count, _)| count.parse().ok());
        Some(Self {
            pattern,
            count: count.unwrap_or(1),
        })
    }

    fn is_of(&self, mutant: &str) -> bool {
        mutant == self.pattern || matches(self.pattern, mutant)
    }
}

/// The lines of the list.
pub(super) fn rows(page: &str) -> Vec<Row<'_>> {
    page.lines().filter_map(Row::read).collect()
}

/// `file:line:column: what` as `file: what`, with paths of core from its sources on.
pub(super) fn without_line(name: &str) -> String {
    let (place, what) = name.split_once(": ").unwrap_or((name, ""));
    let file = place.split(':').next().unwrap_or(place);
    let file = file.strip_prefix(LISTED).unwrap_or(file);
    format!("{file}: {what}")
}

/// Counts mutants that are alike, by their full names.
pub(super) fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Survivors {
    let mut counted = Survivors::new();
    for name in names {
        *counted.entry(without_line(name)).or_default() += 1;
    }
    counted
}

/// The survivors of core that have no reason in the list: those of no row, and those of rows that
/// speak of fewer.
pub(super) fn without_reason(survivors: &Survivors, rows: &[Row<'_>]) -> Vec<String> {
    let is_of_core = |name: &&String| !name.starts_with("crates/");
    let allowed = |row: &Row<'_>| found(survivors, rows, row) <= row.count;
    let names = survivors.keys().filter(is_of_core);
    let lacks = |name: &&String| !row_of(rows, name).is_some_and(allowed);
    names.filter(lacks).cloned().collect()
}

/// Rows that speak of more mutants than survive, with how many do.
pub(super) fn outdated<'a>(survivors: &Survivors, rows: &'a [Row<'a>]) -> Vec<(&'a str, usize)> {
    let found = rows.iter().map(|row| (row, found(survivors, rows, row)));
    let fewer = found.filter(|(row, found)| *found < row.count);
    fewer.map(|(row, found)| (row.pattern, found)).collect()
}

/// The first row that speaks of a mutant.
fn row_of<'a>(rows: &'a [Row<'a>], mutant: &str) -> Option<&'a Row<'a>> {
    rows.iter().find(|row| row.is_of(mutant))
}

/// How many survivors a row speaks of.
fn found(survivors: &Survivors, rows: &[Row<'_>], row: &Row<'_>) -> usize {
    let own = |name: &str| row_of(rows, name).is_some_and(|first| std::ptr::eq(first, row));
    let own = survivors.iter().filter(|(name, _)| own(name));
    own.map(|(_, count)| count).sum()
}

/// Whether a text is what a pattern says, in which a star is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    let mut rests = rest.char_indices().map(|(at, _)| &rest[at..]).chain([""]);
    rests.any(|rest| matches(tail, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "crates/core/src/plan.rs:57:9: replace || with && in change";
    const KNOWN: &str = "plan.rs: replace || with && in change";

    #[test]
    fn a_survivor_is_known_by_its_file_and_what_is_done() {
        assert_eq!(without_line(NAME), KNOWN);
        let page = format!("# Survivors\n\n- `{KNOWN}`: it is so\n- no mutant\n");
        let rows = rows(&page);
        assert_eq!(rows.len(), 1);
        assert!(without_reason(&counted([NAME].into_iter()), &rows).is_empty());
    }

    #[test]
    fn a_second_mutant_like_a_known_one_is_not_known() {
        let other = NAME.replace(":57:", ":58:");
        let survivors = counted([NAME, &other].into_iter());
        let one = format!("- `{KNOWN}`: it is so");
        assert_eq!(without_reason(&survivors, &rows(&one)), [KNOWN]);
        let two = format!("- `{KNOWN}` (2): it is so");
        assert!(without_reason(&survivors, &rows(&two)).is_empty());
    }

    #[test]
    fn one_reason_may_do_for_several_if_it_says_how_many() {
        let page = "- `plan.rs: replace * in change` (2): it is so";
        let mut names = vec![
            NAME,
            "crates/core/src/plan.rs:60:1: replace < with > in change",
        ];
        let survivors = counted(names.iter().copied());
        assert!(without_reason(&survivors, &rows(page)).is_empty());
        names.push("crates/core/src/plan.rs:61:1: replace < with == in change");
        let survivors = counted(names.into_iter());
        assert_eq!(without_reason(&survivors, &rows(page)).len(), 3);
    }

    #[test]
    fn a_row_whose_mutants_are_noticed_can_go() {
        let page = format!("- `{KNOWN}` (2): it is so");
        let survivors = counted([NAME].into_iter());
        assert_eq!(outdated(&survivors, &rows(&page)), [(KNOWN, 1)]);
    }

    #[test]
    fn survivors_of_other_crates_need_no_reason() {
        let name = "crates/sources/src/lib.rs:1:1: replace a with ()";
        assert!(without_reason(&counted([name].into_iter()), &[]).is_empty());
    }
}
