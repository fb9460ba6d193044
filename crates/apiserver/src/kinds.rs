//! What is served: a table of built-in kinds plus whatever CustomResourceDefinitions declare.

mod builtin;
mod custom;
mod definition;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use serde_json::Value;

use super::failure::Subject;
use super::object::Stored;
use super::schema_documents::Documents;
use super::store::{CRD_RESOURCE, Store};
use crate::schema::Structural;
use crate::table::Column;

pub(crate) use definition::{accept as accept_definition, check as definition_problems};

/// One resource in one version, as it is served.
#[derive(Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "Kubernetes calls them kind and listKind"
)]
pub(crate) struct Kind {
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    /// `group/version`, or the version alone in the core group.
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) list_kind: Arc<str>,
    pub(crate) plural: Arc<str>,
    pub(crate) singular: Arc<str>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The key its objects are stored under, shared by all versions and by aliases.
    pub(crate) resource: Arc<str>,
    /// The `apiVersion` its objects are stored with.
    pub(crate) stored_as: Arc<str>,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// Which fields count for `metadata.generation`.
    pub(crate) generation: Generation,
    pub(crate) habits: Vec<Habit>,
    /// Field selectors beyond name and namespace, as dotted paths.
    pub(crate) selectable: Vec<String>,
    /// What a client of an old version is warned with.
    pub(crate) deprecated: Option<String>,
    /// What `kubectl get` shows.
    pub(crate) columns: Vec<Column>,
    pub(crate) custom: Option<Custom>,
}

/// How the real server treats some kinds but not others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// A replace without a resourceVersion is accepted.
    Unconditional,
    /// A replace of a missing object creates it.
    Upsert,
    /// A deletion answers with the object instead of a `Status`.
    EchoDeleted,
}

/// What only kinds from a CustomResourceDefinition have.
#[derive(Debug, Clone)]
pub(crate) struct Custom {
    /// The definition's `spec.versions[]` entry.
    pub(crate) declared: Arc<Value>,
    pub(crate) schema: Arc<Structural>,
}

/// Where `/scale` finds its numbers, as dotted paths.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<String>,
}

/// Which change bumps `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has no generation.
    Never,
    /// A change of `spec`.
    Spec,
    /// A change of anything but metadata, and status where it is a subresource.
    Anything,
}

type ServedPath = (Arc<str>, Arc<str>, Arc<str>);

/// All kinds served at one moment.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// By group, version and plural.
    by_path: BTreeMap<ServedPath, Arc<Kind>>,
    /// Definitions this was built from, by name, with their versions: unchanged ones are kept.
    definitions: BTreeMap<Arc<str>, (u64, Vec<Arc<Kind>>)>,
    built_at: u64,
    documents: OnceLock<Documents>,
}

/// The current kinds, rebuilt when a definition changed.
pub(crate) struct Registry {
    current: ArcSwap<Kinds>,
    rebuilding: Mutex<()>,
}

impl Kind {
    pub(crate) fn has(&self, habit: Habit) -> bool {
        self.habits.contains(&habit)
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            group: &self.group,
            plural: &self.plural,
            kind: &self.kind,
        }
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let mut kinds = Kinds {
            built_at: u64::MAX,
            ..Kinds::default()
        };
        kinds.add_all(&builtin::kinds());
        Self {
            current: ArcSwap::from_pointee(kinds),
            rebuilding: Mutex::new(()),
        }
    }

    /// The kinds that the published definitions declare.
    pub(crate) fn current(&self, store: &Store) -> Arc<Kinds> {
        let current = self.current.load_full();
        if current.built_at == store.crd_changes() {
            return current;
        }
        let _one_at_a_time = self
            .rebuilding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load_full();
        let changes = store.crd_changes();
        if current.built_at == changes {
            return current;
        }
        let rebuilt = Arc::new(Kinds::rebuild(
            &current,
            &store.list(CRD_RESOURCE, None).0,
            changes,
        ));
        self.current.store(Arc::clone(&rebuilt));
        rebuilt
    }
}

impl Kinds {
    /// The `OpenAPI` documents of these kinds.
    pub(crate) fn documents(&self) -> &Documents {
        self.documents.get_or_init(|| Documents::of(self))
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_path
            .get(&(group.into(), version.into(), plural.into()))
    }

    /// All kinds, ordered by group, version and plural.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_path.values()
    }

    /// The kind an owner reference means.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = split_group_version(api_version);
        self.iter()
            .find(|held| *held.group == *group && *held.version == *version && *held.kind == *kind)
    }

    fn rebuild(previous: &Self, definitions: &[Arc<Stored>], built_at: u64) -> Self {
        let mut kinds = Self {
            built_at,
            ..Self::default()
        };
        kinds.add_all(&builtin::kinds());
        for definition in definitions {
            let name = &definition.id.name;
            let declared = match previous.definitions.get(name) {
                Some((version, kept)) if *version == definition.version => kept.clone(),
                Some(_) | None => custom::kinds(&definition.value()),
            };
            kinds.add_all(&declared);
            kinds
                .definitions
                .insert(Arc::clone(name), (definition.version, declared));
        }
        kinds
    }

    fn add_all(&mut self, kinds: &[Arc<Kind>]) {
        for kind in kinds {
            let path = (
                Arc::clone(&kind.group),
                Arc::clone(&kind.version),
                Arc::clone(&kind.plural),
            );
            self.by_path.entry(path).or_insert_with(|| Arc::clone(kind));
        }
    }
}

/// `group/version`, or the version alone for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// The inverse of [`group_version`].
pub(crate) fn split_group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
