//! What stands in a table of nftables, and the commands that make one content another.

use std::collections::BTreeMap;

use bindery_core::backoff::jitter_seed;
use serde_json::{Value, json};

/// The family and the name of the table: everything of ours stands in it and nothing else is touched.
pub(super) const FAMILY: &str = "inet";
pub(super) const TABLE: &str = "bindery";

/// Chains and sets, or the part of them that belongs to one balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableContent {
    pub(super) chains: BTreeMap<String, Chain>,
    pub(super) sets: BTreeMap<String, SetContent>,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// Where the kernel enters it; `None` for a chain that others go to.
    pub(super) hook: Option<Hook>,
    pub(super) rules: Vec<Rule>,
}

/// Where the kernel enters a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) kind: String,
    pub(super) at: String,
    pub(super) priority: i64,
}

/// A rule, known by its comment: the kernel writes expressions in other forms than it takes.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) comment: String,
    /// What it does; null where it was read.
    expressions: Value,
}

/// A set or a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetContent {
    /// What it is made with; `None` where somebody else makes it, and only elements are meant.
    pub(super) definition: Option<SetDefinition>,
    /// Elements by their text.
    pub(super) elements: BTreeMap<String, Value>,
}

/// What a set is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetDefinition {
    /// The types of a key.
    pub(super) key: Vec<&'static str>,
    pub(super) role: SetRole,
}

/// What a set is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetRole {
    /// Keys, and nothing about them.
    Members,
    /// Keys, and the chain that each leads to.
    Chains,
    /// Keys that the kernel adds or that go by themselves, after so many seconds.
    Passing(u64),
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.comment == other.comment
    }
}

impl Eq for Rule {}

impl Rule {
    /// A rule with a comment that tells it from others; `note` is for readers, and for reading it back.
    pub(super) fn new(note: &str, expressions: Value) -> Self {
        let seed = jitter_seed(expressions.to_string().as_bytes());
        Self {
            comment: format!("{note} {seed:016x}"),
            expressions,
        }
    }

    /// A rule that was read.
    pub(super) fn read(comment: &str) -> Self {
        Self {
            comment: comment.to_owned(),
            expressions: Value::Null,
        }
    }
}

impl SetContent {
    /// Elements of a set that somebody else makes.
    pub(super) fn add(&mut self, element: Value) {
        self.elements.insert(element.to_string(), element);
    }
}

impl TableContent {
    /// Adds everything of another content.
    pub(super) fn extend(&mut self, other: Self) {
        self.chains.extend(other.chains);
        for (name, set) in other.sets {
            let own = self.sets.entry(name).or_default();
            own.definition = own.definition.take().or(set.definition);
            own.elements.extend(set.elements);
        }
    }

    /// Adds an element to a set that the base makes.
    pub(super) fn add(&mut self, set: &str, element: Value) {
        self.sets.entry(set.to_owned()).or_default().add(element);
    }
}

/// The commands that make one content another, in an order in which nothing refers to what is not there.
pub(super) fn commands(before: &TableContent, after: &TableContent) -> Vec<Value> {
    let mut commands = Vec::new();
    let none = Chain::default();
    for (name, set) in &after.sets {
        let is_new = before
            .sets
            .get(name)
            .is_none_or(|one| one.definition.is_none());
        if let (true, Some(definition)) = (is_new, &set.definition) {
            commands.push(add_set(name, definition));
        }
    }
    for (name, chain) in &after.chains {
        if !before.chains.contains_key(name) {
            commands.push(add_chain(name, chain));
        }
    }
    for (name, chain) in &before.chains {
        if !chain.rules.is_empty() && after.chains.get(name) != Some(chain) {
            commands.push(json!({ "flush": { "chain": named(name) } }));
        }
    }
    elements(&mut commands, "delete", before, after);
    for (name, chain) in &after.chains {
        if before.chains.get(name).unwrap_or(&none) != chain {
            commands.extend(chain.rules.iter().map(|rule| add_rule(name, rule)));
        }
    }
    elements(&mut commands, "add", after, before);
    for name in before.chains.keys() {
        if !after.chains.contains_key(name) {
            commands.push(json!({ "delete": { "chain": named(name) } }));
        }
    }
    for (name, set) in &before.sets {
        let is_gone = after
            .sets
            .get(name)
            .is_none_or(|one| one.definition.is_none());
        if set.definition.is_some() && is_gone {
            commands.push(json!({ "delete": { "set": named(name) } }));
        }
    }
    commands
}

/// A command on elements.
pub(super) fn element_command(verb: &str, set: &str, elements: &[&Value]) -> Value {
    let mut body = named(set);
    body["elem"] = json!(elements);
    json!({ verb: { "element": body } })
}

/// An object of our table by its name.
pub(super) fn named(name: &str) -> Value {
    json!({ "family": FAMILY, "table": TABLE, "name": name })
}

/// Commands on the elements that one content has and the other lacks.
fn elements(commands: &mut Vec<Value>, verb: &str, has: &TableContent, lacks: &TableContent) {
    for (name, set) in &has.sets {
        let other = lacks.sets.get(name);
        // The elements of a set that goes go with it.
        let goes = verb == "delete"
            && set.definition.is_some()
            && other.is_none_or(|one| one.definition.is_none());
        let missing: Vec<&Value> = set
            .elements
            .iter()
            .filter(|(text, _)| other.is_none_or(|one| !one.elements.contains_key(*text)))
            .map(|(_, element)| {
                if verb == "delete" {
                    key_of(element)
                } else {
                    element
                }
            })
            .collect();
        if !missing.is_empty() && !goes {
            commands.push(element_command(verb, name, &missing));
        }
    }
}

/// The key of an element, by which it is deleted.
fn key_of(element: &Value) -> &Value {
    element.get(0).unwrap_or(element)
}

fn add_set(name: &str, definition: &SetDefinition) -> Value {
    let mut body = named(name);
    body["type"] = match definition.key.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    match definition.role {
        SetRole::Members => json!({ "add": { "set": body } }),
        SetRole::Chains => {
            body["map"] = json!("verdict");
            json!({ "add": { "map": body } })
        }
        SetRole::Passing(timeout) => {
            body["flags"] = json!(["timeout"]);
            body["timeout"] = json!(timeout);
            body["size"] = json!(65_536);
            json!({ "add": { "set": body } })
        }
    }
}

fn add_chain(name: &str, chain: &Chain) -> Value {
    let mut body = named(name);
    if let Some(hook) = &chain.hook {
        body["type"] = json!(hook.kind);
        body["hook"] = json!(hook.at);
        body["prio"] = json!(hook.priority);
        body["policy"] = json!("accept");
    }
    json!({ "add": { "chain": body } })
}

fn add_rule(chain: &str, rule: &Rule) -> Value {
    json!({ "add": { "rule": {
        "family": FAMILY,
        "table": TABLE,
        "chain": chain,
        "comment": rule.comment,
        "expr": rule.expressions,
    } } })
}
