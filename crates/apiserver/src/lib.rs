//! A Kubernetes API in this process: a tower service behind `kube::Client`, and the same over HTTP.
//!
//! It must *never* know a kind or a controller of ours: whatever runs on it runs unchanged on a real API
//! server. It must never answer a write before it is durable, and never skip an event of a watch.

mod addresses;
mod admission;
mod body;
mod builtin_rules;
mod create;
mod decode;
mod defaults;
mod delete;
mod discovery;
mod environment;
mod failure;
mod guard;
mod kinds;
mod lifecycle;
mod metadata;
mod modify;
mod object;
pub mod openapi;
pub mod patch;
mod present;
mod protobuf;
mod read;
mod request;
mod scale;
pub mod schema;
mod schema_documents;
mod selector;
mod serve;
mod service;
mod store;
mod stranger;
pub mod table;
mod tally;
mod typed;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

pub use body::ApiBody;
pub use environment::{Environment, Seeded, System};
pub use serve::{Identity, IdentityError, ServeOptions, host_name, is_own_host};
pub use service::ApiService;
pub use store::OpenError;

use kinds::Registry;
use object::ObjectId;
use store::Store;
use tally::Tally;

/// An embedded Kubernetes API. Clones share the same objects.
#[derive(Clone)]
pub struct EmbeddedApi {
    core: Arc<Core>,
}

/// Where objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In a folder of its own, durable.
    Disk(PathBuf),
    /// In memory, gone with the process. Writes need no thread and no waiting, so a run on a
    /// single-threaded runtime is deterministic.
    Memory,
}

/// How to open an [`EmbeddedApi`].
pub struct Options {
    /// Where objects are kept.
    pub storage: Storage,
    /// Where time and randomness come from.
    pub environment: Arc<dyn Environment>,
}

/// What every call works on.
pub(crate) struct Core {
    store: Store,
    registry: Registry,
    environment: Arc<dyn Environment>,
    tally: Tally,
}

impl Options {
    /// Objects in `folder`, real time and randomness.
    #[must_use]
    pub fn on_disk(folder: impl Into<PathBuf>) -> Self {
        Self {
            storage: Storage::Disk(folder.into()),
            environment: Arc::new(System),
        }
    }

    /// Objects in memory, real time and randomness.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            storage: Storage::Memory,
            environment: Arc::new(System),
        }
    }
}

impl EmbeddedApi {
    /// Opens the API with what its storage holds.
    ///
    /// # Errors
    /// The data folder is in use, was written by a newer Bindery or cannot be read.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let store = match &options.storage {
            Storage::Disk(folder) => Store::on_disk(folder)?,
            Storage::Memory => Store::in_memory(),
        };
        Ok(Self::with_store(store, options.environment))
    }

    fn with_store(store: Store, environment: Arc<dyn Environment>) -> Self {
        let core = Core {
            store,
            registry: Registry::new(),
            environment,
            tally: Tally::default(),
        };
        // A failure shows in the log and in the first write; opening has nothing to add.
        if let Some(version) = core.create_namespaces() {
            let _settled = futures::executor::block_on(core.store.settled(version));
        }
        Self {
            core: Arc::new(core),
        }
    }

    /// Why writes are refused, while the disk takes none; it says what to do.
    #[must_use]
    pub fn refusal(&self) -> Option<Arc<str>> {
        let refused = self.core.store.refused();
        refused.map(|refused| refused.message)
    }

    /// How many requests were answered since the start, by verb and HTTP code, in that order.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'static str, u16, u64)> {
        self.core.tally.counts()
    }

    /// A client that calls this API directly, without a socket.
    ///
    /// # Assumptions
    /// Called on a Tokio runtime: kube puts a small queue task in front of every client.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }
}

impl Core {
    /// The namespaces every cluster has.
    fn create_namespaces(&self) -> Option<u64> {
        let mut transaction = self.store.begin().ok()?;
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let id = ObjectId {
                resource: "namespaces".into(),
                namespace: "".into(),
                name: name.into(),
            };
            if transaction.get(&id).is_some() {
                continue;
            }
            let mut namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": name, "uid": self.uid(), "creationTimestamp": self.now(),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            transaction.put(&id, &mut namespace);
        }
        // Nobody can have seen anything of this store before it was opened.
        transaction.forget_past();
        Some(transaction.finish())
    }

    /// The current time as Kubernetes writes it.
    fn now(&self) -> String {
        let now = self.environment.now();
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A new UID: a version 4 UUID.
    fn uid(&self) -> String {
        let random = self.environment.random();
        let bits = (random & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

#[cfg(test)]
mod tests;
