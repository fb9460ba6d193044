//! Paths into an object, kept on the stack and printed only when something is wrong.

use std::fmt::Write as _;

/// What the real server prints for the object itself.
pub(crate) const NO_FIELD: &str = "<nil>";

/// A place in an object: a step and the path that it continues.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

/// One step from a value into a part of it.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) fn root() -> Self {
        Self {
            parent: None,
            step: Step::Root,
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    pub(crate) fn key(&'a self, name: &'a str) -> Self {
        self.then(Step::Key(name))
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// `spec.labels.app`: as the schema validator names values inside its messages.
    pub(crate) fn dotted(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, KeyStyle::Dot);
        out
    }

    /// `spec.labels.app`, or `<nil>` for the object itself.
    pub(crate) fn dotted_field(&self) -> String {
        named(self.dotted())
    }

    /// `spec.labels[app]`, or `<nil>` for the object itself.
    pub(crate) fn bracketed_field(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, KeyStyle::Bracket);
        named(out)
    }

    fn then(&'a self, step: Step<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    fn write(&self, out: &mut String, keys: KeyStyle) {
        if let Some(parent) = self.parent {
            parent.write(out, keys);
        }
        match (self.step, keys) {
            (Step::Root, _) => {}
            (Step::Field(name), _) | (Step::Key(name), KeyStyle::Dot) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            (Step::Key(name), KeyStyle::Bracket) => {
                write!(out, "[{name}]").expect("writing to a string cannot fail");
            }
            (Step::Index(index), _) => {
                write!(out, "[{index}]").expect("writing to a string cannot fail");
            }
        }
    }
}

#[derive(Clone, Copy)]
enum KeyStyle {
    Dot,
    Bracket,
}

fn named(path: String) -> String {
    if path.is_empty() {
        NO_FIELD.to_owned()
    } else {
        path
    }
}
