//! The keys of a folder: when they change, `named` reads them again without being restarted, and whoever asks is
//! told which of them it has.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_bind::rndc::{Rndc, RndcFault};
use bindery_dns::{Key, KeyProblem, Server};
use rustix::process::{Pid, Signal, kill_process};
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

/// Where `named` writes down which process it is, beside its zones.
const PID_FILE: &str = "named.pid";

/// The keys of a folder and what `named` has of them.
pub(crate) struct FollowedKeys {
    folder: PathBuf,
    state: Mutex<KeyState>,
    /// Whether `named` has refused the key that worked last.
    is_refused: AtomicBool,
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

impl KeyFolderFault {
    /// Whether `named` knows none of the keys.
    const fn is_refusal(&self) -> bool {
        match self {
            Self::Load { source } => is_refusal(source),
            Self::Read { .. } | Self::Key { .. } => false,
        }
    }
}

impl FollowedKeys {
    pub(super) fn new(folder: PathBuf, working: Key) -> Self {
        let state = Mutex::new(KeyState {
            working,
            loaded: Vec::new(),
        });
        Self {
            folder,
            state,
            is_refused: AtomicBool::new(false),
        }
    }

    /// Takes in why a question was not answered.
    pub(super) fn note(&self, fault: &RndcFault) {
        if is_refusal(fault) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
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
            let delay = match self.follow_once(keys, &mut known).await {
                Ok(()) => {
                    is_told = false;
                    PERIOD
                }
                // One that does not run yet reads its keys when it starts.
                Err(KeyFolderFault::Load {
                    source: RndcFault::Connection { .. },
                }) => PERIOD,
                Err(fault) => {
                    let is_first = !std::mem::replace(&mut is_told, true);
                    if is_first {
                        tracing::warn!(%fault, "the keys that changed are not in use");
                    }
                    // One that began with other keys takes no word from us; a signal needs no key.
                    let is_helped = fault.is_refusal() && hang_up(self.folder());
                    if is_helped && is_first { PERIOD } else { RETRY }
                }
            };
            sleep(delay).await;
        }
    }

    /// Has `named` read the keys of the folder where they are not those that are `known`, or where it has refused one.
    async fn follow_once(
        &self,
        keys: &FollowedKeys,
        known: &mut Option<KeyFiles>,
    ) -> Result<(), KeyFolderFault> {
        let files = read(&keys.folder).await?;
        let is_refused = keys.is_refused.swap(false, Ordering::Relaxed);
        if known.as_ref() == Some(&files) && !is_refused {
            return Ok(());
        }
        *known = None;
        let loaded = self.load(keys, &files).await;
        loaded.map_err(|source| KeyFolderFault::Load { source })?;
        *known = Some(files);
        Ok(())
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

/// Whether `named` does not know the key.
const fn is_refusal(fault: &RndcFault) -> bool {
    matches!(fault, RndcFault::Denied { .. } | RndcFault::Signature)
}

/// Has the `named` of a folder read its configuration again, by a signal; whether there is one. It is found where the
/// containers of its pod see each other's processes.
fn hang_up(folder: &Path) -> bool {
    let found = named_of(folder);
    found.is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok())
}

/// The process that a folder's pid file speaks of, if it is a `named`: another one may have its number by now.
fn named_of(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join(PID_FILE)).ok()?;
    let number: u32 = text.trim().parse().ok()?;
    let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    (name.trim() == "named").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_named_is_left_alone() {
        let folder = tempfile::tempdir().expect("there is room");
        assert!(!hang_up(folder.path()), "there is no pid file");
        for text in [
            format!("{}\n", std::process::id()),
            "0".into(),
            "-1".into(),
            "x".into(),
        ] {
            fs::write(folder.path().join(PID_FILE), text).expect("it is ours");
            assert!(!hang_up(folder.path()), "that is this test");
        }
    }
}
