//! The keys of a folder: when they change, `named` reads them again without being restarted, and whoever asks is
//! told which of them it has.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_bind::rndc::{Rndc, RndcFault};
use bindery_dns::{Key, KeyProblem, Server};
use thiserror::Error;
use tokio::time::sleep;
use zeroize::Zeroizing;

use super::{NamedControl, NamedOptions};

/// How often the folder is looked at. Its files change all at once.
const PERIOD: Duration = Duration::from_secs(1);

/// When it is tried again after `named` did not do it.
const RETRY: Duration = Duration::from_secs(5);

/// The files of the folder that `named` reads. The first is the key that is used, the second the one beside it;
/// it may be empty.
const FILES: [&str; 5] = [
    "rndc.key",
    "previous.key",
    "further.key",
    "keys.conf",
    "transfer.key",
];

/// The keys of a folder and what `named` has of them.
pub(crate) struct FollowedKeys {
    folder: PathBuf,
    state: Mutex<KeyState>,
}

struct KeyState {
    /// The key that worked last.
    working: Key,
    /// Fingerprints of the keys that `named` has been seen to accept.
    loaded: Vec<String>,
}

/// What lies in the folder. No `Debug`: these are secrets.
#[derive(PartialEq)]
struct KeyFiles {
    texts: Vec<Zeroizing<String>>,
    current: Key,
    beside: Option<Key>,
}

/// Why the keys of a folder are not in use.
#[derive(Debug, Error)]
enum KeyFolderFault {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: {source}")]
    Key {
        path: PathBuf,
        #[source]
        source: KeyProblem,
    },
    #[error("named does not read its keys again: {source}")]
    Load {
        #[source]
        source: RndcFault,
    },
}

impl FollowedKeys {
    pub(super) fn new(folder: PathBuf, working: Key) -> Self {
        let state = Mutex::new(KeyState {
            working,
            loaded: Vec::new(),
        });
        Self { folder, state }
    }

    /// The fingerprints of the keys that `named` has.
    pub(super) fn loaded(&self) -> Vec<String> {
        self.lock().loaded.clone()
    }

    fn lock(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NamedControl {
    /// Has `named` follow the keys of the folder, for ever.
    ///
    /// # Cancellation
    /// `named` may have read the keys; whoever comes next has it read them again.
    pub(crate) async fn follow_keys(&self) -> Infallible {
        let Some(keys) = &self.keys else {
            return pending().await;
        };
        let mut known: Option<KeyFiles> = None;
        let mut is_told = false;
        loop {
            let mut delay = PERIOD;
            let done = match read(&keys.folder).await {
                Ok(files) if known.as_ref() == Some(&files) => Ok(()),
                Ok(files) => match self.load(keys, &files).await {
                    Ok(()) => {
                        known = Some(files);
                        Ok(())
                    }
                    Err(source) => Err(KeyFolderFault::Load { source }),
                },
                Err(fault) => Err(fault),
            };
            match done {
                Ok(()) => is_told = false,
                // One that does not run yet reads its keys when it starts.
                Err(KeyFolderFault::Load {
                    source: RndcFault::Connection { .. },
                }) => {}
                Err(fault) => {
                    delay = RETRY;
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(%fault, "the keys that changed are not in use");
                    }
                }
            }
            sleep(delay).await;
        }
    }

    /// Has `named` read its keys again, and sees which it has.
    async fn load(&self, keys: &FollowedKeys, files: &KeyFiles) -> Result<(), RndcFault> {
        let working = keys.lock().working.clone();
        // A key that was beside the old one is used before the old one goes.
        if files.current != working && self.accepts(&files.current).await? {
            self.use_key(keys, &files.current).await;
        }
        self.reconfigure(keys, files).await?;
        let mut accepted = Vec::new();
        for key in [Some(&files.current), files.beside.as_ref()] {
            if let Some(key) = key
                && self.accepts(key).await?
            {
                accepted.push(key.clone());
            }
        }
        if accepted.contains(&files.current) {
            self.use_key(keys, &files.current).await;
        }
        let names: Vec<String> = accepted.iter().map(Key::name).collect();
        tracing::info!(keys = names.join(", "), "named has read its keys");
        keys.lock().loaded = accepted.iter().map(Key::fingerprint).collect();
        Ok(())
    }

    async fn reconfigure(&self, keys: &FollowedKeys, files: &KeyFiles) -> Result<(), RndcFault> {
        let working = keys.lock().working.clone();
        let mut outcome = Ok(());
        for key in [Some(&working), Some(&files.current), files.beside.as_ref()] {
            let Some(key) = key else {
                continue;
            };
            match self.channel(key).command("reconfig").await {
                Ok(_) => return Ok(()),
                // Another one may be known.
                Err(fault @ (RndcFault::Denied { .. } | RndcFault::Signature)) => {
                    outcome = Err(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        outcome
    }

    /// Whether `named` has a key.
    async fn accepts(&self, key: &Key) -> Result<bool, RndcFault> {
        match self.channel(key).command("status").await {
            Ok(_) => Ok(true),
            Err(RndcFault::Denied { .. } | RndcFault::Signature) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    fn channel(&self, key: &Key) -> Rndc {
        let serial = (self.random)();
        Rndc::new(self.address, key.clone(), self.clock.clone(), serial)
    }

    /// Speaks with this key from now on.
    async fn use_key(&self, keys: &FollowedKeys, key: &Key) {
        *self.control.lock().await = self.channel(key);
        *self.probe.lock().await = self.channel(key);
        let server = Server::new(self.dns.clone(), Some(key.clone()));
        let server = server.with_clock(self.clock.clone());
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server.into();
        keys.lock().working = key.clone();
    }
}

impl NamedOptions {
    pub(super) fn followed_keys(&self) -> Option<FollowedKeys> {
        let folder = self.keys.clone()?;
        Some(FollowedKeys::new(folder, self.control_key.clone()))
    }
}

async fn read(folder: &Path) -> Result<KeyFiles, KeyFolderFault> {
    let mut texts = Vec::new();
    for name in FILES {
        let path = folder.join(name);
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => texts.push(Zeroizing::new(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && name != FILES[0] => {
                texts.push(Zeroizing::default());
            }
            Err(source) => return Err(KeyFolderFault::Read { path, source }),
        }
    }
    let key = |index: usize| {
        Key::from_key_file(&texts[index]).map_err(|source| KeyFolderFault::Key {
            path: folder.join(FILES[index]),
            source,
        })
    };
    let current = key(0)?;
    let beside = match key(1) {
        Ok(key) => Some(key),
        Err(KeyFolderFault::Key {
            source: KeyProblem::NoKey,
            ..
        }) => None,
        Err(fault) => return Err(fault),
    };
    Ok(KeyFiles {
        texts,
        current,
        beside,
    })
}
