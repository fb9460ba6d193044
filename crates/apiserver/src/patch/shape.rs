//! How lists and objects merge: told by a custom resource's schema or known of built-in kinds.

use serde_json::{Map, Value};

use crate::schema::{Additional, ListType, MapType, Node};

/// What is known about a value.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// A custom resource or a part of one.
    Schema(&'a Node),
    /// A part of a built-in kind, known by the name of its field.
    Known { ports: Ports, name: &'a str },
    /// Nothing is known: objects merge by member, lists as a whole.
    Free,
    /// Merged as a whole.
    Atomic,
}

/// Which kind of port a field `ports` of a built-in kind lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Of a container.
    Container,
    /// Of a service.
    Service,
    /// Of an endpoint slice, listed as a whole.
    Endpoints,
}

impl Ports {
    /// The ports that objects of this kind list.
    pub(crate) fn of(kind: &str) -> Self {
        match kind {
            "Service" => Self::Service,
            "EndpointSlice" | "Endpoints" => Self::Endpoints,
            _ => Self::Container,
        }
    }
}

/// How a list merges.
pub(crate) enum ListMerge<'a> {
    Whole,
    Set,
    ByKey(Keys<'a>),
}

/// The key members of a list's items.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    Declared(&'a [String], Option<&'a Node>),
    Known(&'static [&'static str]),
}

/// Lists of built-in kinds that merge by key.
const KEYED: &[(&str, &[&str])] = &[
    ("addresses", &["type"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("resourceClaims", &["name"]),
    ("secrets", &["name"]),
    (
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("volumesAttached", &["name"]),
];
/// Lists of built-in kinds that are sets.
const SETS: &[&str] = &["finalizers", "podCIDRs"];
/// Lists of built-in kinds whose items are owned as a whole.
const WHOLE_ITEMS: &[&str] = &["imagePullSecrets", "ownerReferences", "secrets"];
/// Objects of built-in kinds that are owned as a whole.
const WHOLE: &[&str] = &[
    "configMapKeyRef",
    "fieldRef",
    "involvedObject",
    "nodeSelector",
    "objectSelector",
    "regarding",
    "related",
    "resourceFieldRef",
    "secretKeyRef",
    "secretRef",
    "selector",
    "targetRef",
];

impl<'a> Shape<'a> {
    /// The shape of a member of an object, and whether its name is part of the kind's definition.
    pub(crate) fn member(self, name: &'a str) -> (Self, bool) {
        match self {
            Self::Schema(node) => match (node.properties.get(name), &node.additional) {
                (Some(property), _) => (Self::Schema(property), true),
                // Every object within an object has it, whatever its schema says.
                (None, _) if node.embedded && name == "metadata" => (Self::Free, true),
                (None, Additional::Shape(shape)) => (Self::Schema(shape), false),
                (None, Additional::Unsaid | Additional::Anything) => (Self::Free, false),
            },
            Self::Known { ports, .. } => {
                let whole = WHOLE.contains(&name);
                let shape = if whole {
                    Self::Atomic
                } else {
                    Self::Known { ports, name }
                };
                (shape, true)
            }
            Self::Free => (Self::Free, false),
            Self::Atomic => (Self::Atomic, true),
        }
    }

    /// The shape of an item of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Schema(node) => node.items.as_deref().map_or(Self::Free, Self::Schema),
            Self::Known { name, .. } if WHOLE_ITEMS.contains(&name) => Self::Atomic,
            Self::Known { ports, .. } => Self::Known { ports, name: "" },
            Self::Free => Self::Free,
            Self::Atomic => Self::Atomic,
        }
    }

    /// How a list of this shape merges.
    pub(crate) fn list(self) -> ListMerge<'a> {
        match self {
            Self::Schema(node) => match &node.list_type {
                ListType::Atomic => ListMerge::Whole,
                ListType::Set => ListMerge::Set,
                ListType::Map(keys) => {
                    ListMerge::ByKey(Keys::Declared(keys, node.items.as_deref()))
                }
            },
            Self::Known { name, .. } if SETS.contains(&name) => ListMerge::Set,
            Self::Known { ports, name } => match applied_keys(ports, name) {
                Some(keys) => ListMerge::ByKey(Keys::Known(keys)),
                None => ListMerge::Whole,
            },
            Self::Free | Self::Atomic => ListMerge::Whole,
        }
    }

    /// Whether an object of this shape is owned as a whole.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            Self::Schema(node) => node.map_type == MapType::Atomic,
            Self::Atomic => true,
            Self::Known { .. } | Self::Free => false,
        }
    }
}

impl ListMerge<'_> {
    /// The step of a path that leads to this item.
    pub(crate) fn step(&self, index: usize, item: &Value) -> String {
        match self {
            Self::Whole => format!("i:{index}"),
            Self::Set => format!("v:{item}"),
            Self::ByKey(keys) => format!("k:{}", Value::Object(keys.of(item))),
        }
    }
}

impl Keys<'_> {
    fn of(self, item: &Value) -> Map<String, Value> {
        let mut key = Map::new();
        match self {
            Keys::Declared(names, node) => {
                for name in names {
                    let default = || node?.properties.get(name)?.default.as_ref();
                    if let Some(value) = item.get(name).or_else(default) {
                        key.insert(name.clone(), value.clone());
                    }
                }
            }
            Keys::Known(names) => {
                for name in names {
                    if let Some(value) = item.get(name) {
                        key.insert((*name).to_owned(), value.clone());
                    } else if *name == "protocol" {
                        key.insert((*name).to_owned(), Value::String("TCP".to_owned()));
                    }
                }
            }
        }
        key
    }
}

/// The key of a list under strategic merge, which knows one member per key only.
pub(crate) fn strategic_key(ports: Ports, name: &str) -> Option<&'static str> {
    match (name, ports) {
        ("ports", Ports::Container) => Some("containerPort"),
        ("ports", Ports::Service) => Some("port"),
        ("ports", Ports::Endpoints) => None,
        (name, _) => KEYED
            .iter()
            .find(|(list, _)| *list == name)
            .and_then(|(_, keys)| keys.first().copied()),
    }
}

/// Whether a list of plain values merges under strategic merge.
pub(crate) fn is_set(name: &str) -> bool {
    SETS.contains(&name)
}

fn applied_keys(ports: Ports, name: &str) -> Option<&'static [&'static str]> {
    match (name, ports) {
        ("ports", Ports::Container) => Some(&["containerPort", "protocol"]),
        ("ports", Ports::Service) => Some(&["port", "protocol"]),
        ("ports", Ports::Endpoints) => None,
        (name, _) => KEYED
            .iter()
            .find(|(list, _)| *list == name)
            .map(|(_, keys)| *keys),
    }
}
