//! The compiled form of one schema: everything parsed, patterns and rules ready to run.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::schema::formats::Format;
use crate::schema::rules::Rule;

/// A set of JSON types, as a schema names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// How server-side apply and uniqueness see a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How server-side apply sees an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MapType {
    #[default]
    Granular,
    Atomic,
}

/// What may stand beside the named properties.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Nothing was said: unknown fields are pruned.
    #[default]
    Unsaid,
    /// Anything is kept.
    Anything,
    /// Values of this shape.
    Shape(Box<Node>),
}

/// A compiled schema.
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the independent switches that schemas have"
)]
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
    pub(crate) format: Option<Format>,
    pub(crate) properties: BTreeMap<String, Self>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) keeps_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) list_type: ListType,
    pub(crate) map_type: MapType,
    pub(crate) allowed: Vec<Value>,
    pub(crate) number: NumberBounds,
    pub(crate) size: SizeBounds,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) junctors: Option<Box<Junctors>>,
    pub(crate) rules: Vec<Rule>,
    /// This node or one below it has rules.
    pub(crate) rules_below: bool,
    /// This node or one below it has rules that compare with the old value.
    pub(crate) transitions_below: bool,
    /// This node or one below it is a set or map list.
    pub(crate) unique_below: bool,
    /// This node or one below it has a default, or forbids null in a property.
    pub(crate) defaults_below: bool,
}

/// Bounds of a number.
#[derive(Debug, Default)]
pub(crate) struct NumberBounds {
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
}

/// One bound of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

/// Bounds of lengths and counts.
#[derive(Debug, Default)]
pub(crate) struct SizeBounds {
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

/// A regular expression and the text it was written as.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) regex: Regex,
}

/// Schemas combined by logic.
#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

impl Type {
    /// The name in messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

impl Node {
    /// A node that keeps and accepts everything.
    pub(crate) fn open() -> Self {
        Self {
            keeps_unknown: true,
            ..Self::default()
        }
    }
}
