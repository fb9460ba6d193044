//! Finds where in a file each of its mutants stands.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Pat,
    ReturnType, Signature, TraitItemFn, Type,
};

use super::list::{Genre, Mutant};

/// What was found of the mutants of a file.
#[derive(Default)]
pub(super) struct Found {
    pub(super) places: Vec<Place>,
    pub(super) left_over: Vec<usize>,
    pub(super) unviable: Vec<usize>,
}

/// A part of a file that is written in another form, with what is inside it.
pub(super) struct Place {
    pub(super) range: Range<usize>,
    pub(super) form: Form,
}

/// How a place is written, so that its mutants can be chosen.
pub(super) enum Form {
    /// Left out: the `const` of a function that asks which mutant is on.
    Const(Vec<usize>),
    /// As it is; these mutants are somewhere inside.
    Around(Vec<usize>),
    /// One of several expressions.
    Choice(Vec<Edit>),
    /// At the beginning of a body: a value is returned at once.
    Return(Vec<(usize, String)>),
    /// A whole body whose value is some iterator.
    Iterator(Vec<(usize, String)>),
    /// Behind the pattern of an arm: it does not match.
    Arm(usize),
    /// The same at the guard of an arm.
    GuardedArm { mutant: usize, has_let: bool },
}

/// A mutant of an expression: a part of it is replaced.
pub(super) struct Edit {
    pub(super) mutant: usize,
    pub(super) part: Range<usize>,
    pub(super) by: String,
}

/// Generated text.
pub(super) enum Piece {
    Text(String),
    /// The damaged code of a mutant.
    Damage(usize, String),
}

impl Edit {
    /// The text of the place with its part replaced.
    pub(super) fn apply(&self, place: &Place, source: &str) -> String {
        let Range { start, end } = place.range;
        let (before, after) = (&source[start..self.part.start], &source[self.part.end..end]);
        format!("{before}{}{after}", self.by)
    }
}

impl Place {
    /// The mutants that the form is for.
    pub(super) fn mutants(&self) -> Vec<usize> {
        match &self.form {
            Form::Const(mutants) | Form::Around(mutants) => mutants.clone(),
            Form::Choice(edits) => edits.iter().map(|edit| edit.mutant).collect(),
            Form::Return(values) | Form::Iterator(values) => {
                values.iter().map(|(mutant, _)| *mutant).collect()
            }
            Form::Arm(mutant) | Form::GuardedArm { mutant, .. } => vec![*mutant],
        }
    }
}

/// Looks for these mutants in a file.
pub(super) fn find(source: &str, file: &syn::File, mutants: &[(usize, &Mutant)]) -> Found {
    let lines: Vec<usize> = line_starts(source);
    let mut wanted: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let start = mutant.start.offset(source, &lines);
        let wanted: &mut Vec<_> = wanted.entry((mutant.genre, start)).or_default();
        wanted.push((*number, mutant.replacement.clone()));
    }
    let mut finder = Finder {
        wanted,
        found: Found::default(),
    };
    finder.visit_file(file);
    let left_over = finder.wanted.into_values().flatten();
    finder
        .found
        .left_over
        .extend(left_over.map(|(number, _)| number));
    finder.found
}

/// Where each line begins.
fn line_starts(source: &str) -> Vec<usize> {
    let ends = source.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

struct Finder {
    /// Mutants that have no place yet, by genre and where they begin.
    wanted: BTreeMap<(Genre, usize), Vec<(usize, String)>>,
    found: Found,
}

impl Finder {
    /// The mutants of a genre that begin there, each with its replacement.
    fn take(&mut self, genre: Genre, at: usize) -> Vec<(usize, String)> {
        self.wanted.remove(&(genre, at)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, form: Form) {
        self.found.places.push(Place { range, form });
    }

    /// Adds the mutants of an expression that replace its part.
    fn choice(&mut self, whole: Range<usize>, part: &Range<usize>, mutants: Vec<(usize, String)>) {
        let edits = mutants.into_iter().map(|(mutant, by)| Edit {
            mutant,
            part: part.clone(),
            by,
        });
        let edits: Vec<Edit> = edits.collect();
        if !edits.is_empty() {
            self.add(whole, Form::Choice(edits));
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let values = self.take(Genre::FnValue, bytes(first.span()).start);
        if values.is_empty() {
            return;
        }
        if let Some(constness) = &signature.constness {
            let mutants = values.iter().map(|(mutant, _)| *mutant).collect();
            self.add(bytes(constness.span()), Form::Const(mutants));
        }
        let open = bytes(block.brace_token.span.open()).end;
        let close = bytes(block.brace_token.span.close()).start;
        match &signature.output {
            ReturnType::Type(_, output) if matches!(**output, Type::ImplTrait(_)) => {
                let values = values
                    .into_iter()
                    .map(|(mutant, value)| (mutant, shared(&value)));
                self.add(open..close, Form::Iterator(values.collect()));
            }
            ReturnType::Type(..) | ReturnType::Default => {
                self.add(open..open, Form::Return(values));
            }
        }
    }

    /// Adds the mutants of an arm and its guard; returns the one that takes the arm away.
    fn arm(&mut self, arm: &Arm) -> Option<usize> {
        let deleted = self.take(Genre::MatchArm, bytes(arm.span()).start);
        let mutant = deleted.first().map(|(mutant, _)| *mutant);
        let Pat::Guard(guarded) = &arm.pat else {
            let end = bytes(arm.pat.span()).end;
            if let Some(mutant) = mutant {
                self.add(end..end, Form::Arm(mutant));
            }
            return mutant;
        };
        let range = bytes(guarded.guard.span());
        let has_let = has_let(&guarded.guard);
        if let Some(mutant) = mutant {
            self.add(range.clone(), Form::GuardedArm { mutant, has_let });
        }
        if !has_let {
            let mutants = self.take(Genre::MatchArmGuard, range.start);
            self.choice(range.clone(), &range, mutants);
        }
        mutant
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        let operator = bytes(expr.op.span());
        let mutants = self.take(Genre::BinaryOperator, operator.start);
        if has_let(&expr.left) || has_let(&expr.right) {
            // Only `&&` may stand in a chain of `let`.
            let numbers = mutants.iter().map(|(number, _)| *number);
            self.found.unviable.extend(numbers);
        } else {
            self.choice(bytes(expr.span()), &operator, mutants);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        let operator = bytes(expr.op.span());
        let mutants = self.take(Genre::UnaryOperator, operator.start);
        self.choice(bytes(expr.span()), &operator, mutants);
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_struct(&mut self, expr: &'ast ExprStruct) {
        let mut edits = Vec::new();
        for pair in expr.fields.pairs() {
            let range = bytes(pair.value().span());
            let mutants = self.take(Genre::StructField, range.start);
            // The comma behind it goes along.
            let end = pair
                .punct()
                .map_or(range.end, |comma| bytes(comma.span()).end);
            edits.extend(mutants.into_iter().map(|(mutant, by)| Edit {
                mutant,
                part: range.start..end,
                by,
            }));
        }
        if !edits.is_empty() {
            self.add(bytes(expr.span()), Form::Choice(edits));
        }
        visit::visit_expr_struct(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        let at = self.found.places.len();
        let arms: Vec<usize> = expr.arms.iter().filter_map(|arm| self.arm(arm)).collect();
        if !arms.is_empty() {
            // Where no arm is left for a value, the compiler points at what is matched.
            let range = bytes(expr.span());
            let form = Form::Around(arms);
            self.found.places.insert(at, Place { range, form });
        }
        visit::visit_expr_match(self, expr);
    }
}

/// Where in its file something stands.
fn bytes(span: Span) -> Range<usize> {
    span.byte_range()
}

/// A leaked value as a shared reference, which cannot be told from the type of the function where it
/// says no more than `impl Iterator`.
fn shared(value: &str) -> String {
    value
        .replace("once(Box::leak(", "once(&*Box::leak(")
        .replace("once(Vec::leak(", "once(&*Vec::leak(")
}

/// Whether a condition binds names, as in `if let Some(x) = y && x > 0`.
fn has_let(condition: &Expr) -> bool {
    if let Expr::Binary(both) = condition {
        return has_let(&both.left) || has_let(&both.right);
    }
    matches!(condition, Expr::Let(_))
}
