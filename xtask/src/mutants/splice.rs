//! Writes all mutants of a file into it at once, each behind a number that is chosen at run time.
//!
//! An expression becomes `(match switch() { 7 => damaged, 8 => damaged too, _ => as it was })`, so that
//! one build holds every mutant. Only the last branch has the mutants of the expressions inside it, so
//! that the text does not grow with its depth.

use std::ops::Range;

use anyhow::{Context, Result};

use super::list::Mutant;
use super::places::{self, Form, Piece, Place};

/// Returns the number of the mutant that is on, and is told those of its place; the crate root has it.
const SWITCH: &str = "crate::mutant_switch";

/// A file with its mutants inside.
pub(super) struct Spliced {
    pub(super) text: String,
    /// Where in the text which mutants stand, so that an error of the compiler can be told to them.
    pub(super) regions: Vec<Region>,
    /// Mutants that have no place behind a switch.
    pub(super) left_over: Vec<usize>,
    /// Mutants that no compiler takes.
    pub(super) unviable: Vec<usize>,
}

/// A part of the spliced text.
pub(super) struct Region {
    pub(super) range: Range<usize>,
    pub(super) mutants: Vec<usize>,
    pub(super) what: What,
}

/// What an error of the compiler in a region means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The damaged code itself does not compile.
    Damage,
    /// The switch does not compile here; without it the damaged code may.
    Switch,
}

impl Spliced {
    /// The mutants to which an error at these bytes belongs: those of the smallest region around it.
    pub(super) fn blamed(&self, at: &Range<usize>) -> Option<&Region> {
        let around =
            |region: &&Region| region.range.start <= at.start && at.end <= region.range.end;
        let regions = self.regions.iter().filter(around);
        regions.min_by_key(|region| region.range.len())
    }
}

/// Splices mutants of one file into its text; `mutants` are those to splice, by number.
///
/// # Errors
/// When the file is not Rust.
pub(super) fn splice(source: &str, mutants: &[(usize, &Mutant)]) -> Result<Spliced> {
    let parsed = syn::parse_file(source).context("cannot be parsed")?;
    let found = places::find(source, &parsed, mutants);
    let mut writer = Writer {
        source,
        spliced: Spliced {
            text: String::with_capacity(source.len() * 2),
            regions: Vec::new(),
            left_over: found.left_over,
            unviable: found.unviable,
        },
    };
    let mut places = found.places;
    // Outer places come before what is inside them; those that are alike keep the order of the visit.
    places.sort_by_key(|place| (place.range.start, usize::MAX - place.range.end));
    writer.copy(0..source.len(), &places);
    Ok(writer.spliced)
}

struct Writer<'a> {
    source: &'a str,
    spliced: Spliced,
}

impl Writer<'_> {
    /// Copies a part of the source with the places in it, all of which lie inside.
    fn copy(&mut self, range: Range<usize>, places: &[Place]) {
        let mut at = range.start;
        let mut rest = places;
        while let Some((place, more)) = rest.split_first() {
            let inside = more.partition_point(|other| {
                other.range.start < place.range.end || other.range == place.range
            });
            let (inner, after) = more.split_at(inside);
            self.push(at..place.range.start);
            self.place(place, inner);
            at = place.range.end;
            rest = after;
        }
        self.push(at..range.end);
    }

    fn push(&mut self, range: Range<usize>) {
        self.spliced.text.push_str(&self.source[range]);
    }

    fn place(&mut self, place: &Place, inner: &[Place]) {
        let start = self.spliced.text.len();
        let (before, after) = pieces(place, self.source);
        for piece in before {
            self.piece(piece);
        }
        if !matches!(place.form, Form::Const(_)) {
            self.copy(place.range.clone(), inner);
        }
        self.spliced.text.push_str(&after);
        self.spliced.regions.push(Region {
            range: start..self.spliced.text.len(),
            mutants: place.mutants(),
            what: What::Switch,
        });
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.spliced.text.push_str(&text),
            Piece::Damage(mutant, text) => {
                let start = self.spliced.text.len();
                self.spliced.text.push_str(&text);
                self.spliced.regions.push(Region {
                    range: start..self.spliced.text.len(),
                    mutants: vec![mutant],
                    what: What::Damage,
                });
            }
        }
    }
}

/// What comes before and behind the text of a place.
fn pieces(place: &Place, source: &str) -> (Vec<Piece>, String) {
    let mut before = Vec::new();
    let text = Piece::Text;
    let switch = |mutants: &[usize]| format!("{SWITCH}(&{mutants:?})");
    let all = switch(&place.mutants());
    match &place.form {
        Form::Const(_) | Form::Around(_) => (before, String::new()),
        Form::Choice(edits) => {
            before.push(text(format!("(match {all} {{ ")));
            for edit in edits {
                before.push(text(format!("{} => ", edit.mutant)));
                before.push(Piece::Damage(edit.mutant, edit.apply(place, source)));
                before.push(text(", ".to_owned()));
            }
            before.push(text("_ => ".to_owned()));
            (before, " })".to_owned())
        }
        Form::Return(values) => {
            for (mutant, value) in values {
                let own = switch(&[*mutant]);
                before.push(text(format!(" if {own} == {mutant} {{ return ")));
                before.push(Piece::Damage(*mutant, value.clone()));
                before.push(text("; }".to_owned()));
            }
            (before, String::new())
        }
        Form::Iterator(values) => {
            before.push(text(format!("match {all} {{ ")));
            for (index, (mutant, value)) in values.iter().enumerate() {
                let (open, close) = sides(index);
                before.push(text(format!("{mutant} => {open}crate::MutantSide::Left(")));
                before.push(Piece::Damage(*mutant, value.clone()));
                before.push(text(format!("){close}, ")));
            }
            let (open, close) = sides(values.len());
            before.push(text(format!("_ => {open}{{")));
            (before, format!("}}{close} }}"))
        }
        Form::Arm(mutant) => {
            before.push(text(format!(" if {all} != {mutant}")));
            (before, String::new())
        }
        Form::GuardedArm { mutant, has_let } => {
            let (open, close) = if *has_let { ("", "") } else { ("(", ")") };
            before.push(text(format!("{all} != {mutant} && {open}")));
            (before, close.to_owned())
        }
    }
}

/// The right sides around the value of branch `index`: each branch has a type of its own.
fn sides(index: usize) -> (String, String) {
    ("crate::MutantSide::Right(".repeat(index), ")".repeat(index))
}

#[cfg(test)]
mod tests {
    use super::super::list::{Genre, Position};
    use super::*;

    /// Splices damages into one line, each given by where it begins, and shows the switch as `on`.
    fn spliced(line: &str, damages: &[(Genre, &str, &str)]) -> Spliced {
        let mutant = |(genre, at, replacement): &(Genre, &str, &str)| Mutant {
            name: String::new(),
            file: String::new(),
            package: String::new(),
            genre: *genre,
            replacement: (*replacement).to_owned(),
            start: Position {
                line: 1,
                column: line.find(at).map_or(0, |at| line[..at].chars().count()) + 1,
            },
        };
        let mutants: Vec<Mutant> = damages.iter().map(mutant).collect();
        let numbered: Vec<_> = mutants
            .iter()
            .enumerate()
            .map(|(at, one)| (at + 1, one))
            .collect();
        splice(line, &numbered).unwrap()
    }

    fn check(line: &str, damages: &[(Genre, &str, &str)], expected: &str) {
        let spliced = spliced(line, damages);
        assert_eq!(spliced.text.replace(SWITCH, "on"), expected);
        assert!(syn::parse_file(&spliced.text).is_ok(), "{}", spliced.text);
    }

    #[test]
    fn an_operator_is_chosen_and_inner_mutants_stand_in_the_last_branch() {
        check(
            "fn f() -> bool { é && !b }",
            &[
                (Genre::BinaryOperator, "&&", "||"),
                (Genre::UnaryOperator, "!b", ""),
            ],
            "fn f() -> bool { (match on(&[1]) { 1 => é || !b, _ => é && (match on(&[2]) { 2 => b, _ => !b }) }) }",
        );
    }

    #[test]
    fn a_function_returns_at_once() {
        check(
            "fn f() -> u8 { 7 }",
            &[(Genre::FnValue, "7", "0"), (Genre::FnValue, "7", "1")],
            "fn f() -> u8 { if on(&[1]) == 1 { return 0; } if on(&[2]) == 2 { return 1; } 7 }",
        );
    }

    #[test]
    fn a_constant_function_is_one_no_more() {
        check(
            "pub const fn f() -> u8 { 7 }",
            &[(Genre::FnValue, "7", "0")],
            "pub  fn f() -> u8 { if on(&[1]) == 1 { return 0; } 7 }",
        );
    }

    #[test]
    fn iterators_of_several_types_are_sides_of_one() {
        check(
            "fn f() -> impl Iterator<Item = u8> { g() }",
            &[(Genre::FnValue, "g()", "empty()")],
            "fn f() -> impl Iterator<Item = u8> {match on(&[1]) { 1 => crate::MutantSide::Left(empty()), \
             _ => crate::MutantSide::Right({ g() }) }}",
        );
    }

    #[test]
    fn an_arm_that_is_deleted_does_not_match() {
        check(
            "fn f() { match a { 1 => b, 2 if c => d, _ => e } }",
            &[(Genre::MatchArm, "1 =>", ""), (Genre::MatchArm, "2 if", "")],
            "fn f() { match a { 1 if on(&[1]) != 1 => b, 2 if on(&[2]) != 2 && (c) => d, _ => e } }",
        );
    }

    #[test]
    fn a_guard_is_chosen_around_its_own_operators() {
        check(
            "fn f() { match a { 2 if c == d => e, _ => f } }",
            &[
                (Genre::MatchArmGuard, "c ==", "true"),
                (Genre::BinaryOperator, "==", "!="),
            ],
            "fn f() { match a { 2 if (match on(&[1]) { 1 => true, _ => (match on(&[2]) { 2 => c != d, \
             _ => c == d }) }) => e, _ => f } }",
        );
    }

    #[test]
    fn a_field_goes_with_its_comma() {
        check(
            "fn f() { S { a: 1, ..s } }",
            &[(Genre::StructField, "a: 1", "")],
            "fn f() { (match on(&[1]) { 1 => S {  ..s }, _ => S { a: 1, ..s } }) }",
        );
    }

    #[test]
    fn an_or_in_a_chain_of_lets_compiles_nowhere() {
        let line = "fn f() { if let Some(a) = b && !a {} }";
        let spliced = spliced(line, &[(Genre::BinaryOperator, "&&", "||")]);
        assert_eq!((&*spliced.text, &*spliced.unviable), (line, &[1][..]));
    }

    #[test]
    fn what_has_no_place_is_left_over() {
        let line = "fn f() { m!(a && b) }";
        let spliced = spliced(line, &[(Genre::BinaryOperator, "&&", "||")]);
        assert_eq!((&*spliced.text, &*spliced.left_over), (line, &[1][..]));
    }

    #[test]
    fn an_error_is_told_to_the_damage_or_to_the_switch_around_it() {
        let line = "fn f() -> bool { a && b }";
        let spliced = spliced(line, &[(Genre::BinaryOperator, "&&", "||")]);
        let blamed = |text: &str| {
            let start = spliced.text.find(text)?;
            let region = spliced.blamed(&(start..start + text.len()))?;
            Some((region.what, region.mutants.clone()))
        };
        assert_eq!(blamed("a || b"), Some((What::Damage, vec![1])));
        assert_eq!(blamed("a && b"), Some((What::Switch, vec![1])));
        assert_eq!(blamed("fn f"), None);
    }
}
