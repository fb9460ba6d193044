//! A configuration checked by `named-checkconf` before any `named` gets it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bindery_core::named::{CONFIGURATION, STATE};
use bindery_dns::{Key, KeyProblem};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::config::create_private;
use super::process;

/// How long a check may take; of a configuration of 64 access lists it takes milliseconds.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of what it says is read.
const OUTPUT_LEN_MAX: u64 = 64 << 10;

/// How much of it is told. A condition's message must stay readable.
const SAID_LINES_MAX: usize = 20;
const SAID_LEN_MAX: usize = 4000;

/// How often another name is tried for the folder of a check.
const FOLDER_TRIES: usize = 100;

/// Why a configuration cannot be rolled out.
#[derive(Debug, Error)]
pub enum CheckFault {
    /// `named` would not start with it.
    #[error("{said}")]
    Refused {
        /// What `named-checkconf` says, with the paths that `named` has.
        said: String,
    },
    /// It reads a file that is not part of it. The check would read that of this machine, and tell of it.
    #[error(
        "{file} includes {found}: write `include` with a quoted path in {CONFIGURATION} or {STATE}, and nowhere else"
    )]
    Outside {
        /// The file of the configuration.
        file: String,
        /// What stands after `include`.
        found: String,
    },
    /// A key has no name that a key can have.
    #[error("{file} has no key: {source}")]
    Key {
        /// The key's file.
        file: String,
        /// Why.
        #[source]
        source: KeyProblem,
    },
    /// The files could not be written.
    #[error("cannot prepare {path} for a check: {source}")]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program did not run.
    #[error("cannot run {program}: {source}; install the package bind9-utils")]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program took too long.
    #[error("{program} did not end in {} seconds", CHECK_TIMEOUT.as_secs())]
    Overdue {
        /// The program.
        program: PathBuf,
    },
}

impl CheckFault {
    /// Whether only an edit of the configuration helps; else the check is worth another try.
    #[must_use]
    pub const fn is_authors(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Outside { .. } | Self::Key { .. } => true,
            Self::Prepare { .. } | Self::Run { .. } | Self::Overdue { .. } => false,
        }
    }
}

/// Looks for `named-checkconf` in PATH and where distributions put it.
#[must_use]
pub fn find_checkconf() -> Option<PathBuf> {
    process::find("named-checkconf")
}

/// A text of a configuration for a `named` whose `/etc/bind` and `/var/cache/bind` lie in a folder.
#[must_use]
pub fn placed(text: &str, root: &Path) -> String {
    let root = root.display().to_string();
    let root = root.replace('\\', "\\\\").replace('"', "\\\"");
    let mut placed = text.to_owned();
    for place in [CONFIGURATION, STATE] {
        placed = placed.replace(&format!("\"{place}"), &format!("\"{root}{place}"));
    }
    placed
}

/// What checks configurations.
#[derive(Clone, Debug)]
pub struct ConfigCheck {
    /// The program; [`find_checkconf`] looks for it.
    pub program: PathBuf,
    /// A folder of ours, for files that are there while a check runs.
    pub scratch: PathBuf,
}

impl ConfigCheck {
    /// Whether `named` would start with these files of `/etc/bind`, of which one is `named.conf`. `keys` has the
    /// names of keys by the names of their files in `/etc/bind/keys`; no secret is needed.
    ///
    /// # Errors
    /// What is wrong with the configuration, in the words of `named-checkconf`, or why that is not known.
    ///
    /// # Cancellation
    /// If dropped, the program is killed and the files are removed.
    pub async fn check(
        &self,
        files: &BTreeMap<String, String>,
        keys: &BTreeMap<String, String>,
    ) -> Result<(), CheckFault> {
        for (file, text) in files {
            if let Some(found) = include_outside(text) {
                let file = file.clone();
                return Err(CheckFault::Outside { file, found });
            }
        }
        let folder = Scratch::new(&self.scratch)?;
        for (file, text) in files {
            folder.write(&format!("{CONFIGURATION}/{file}"), &placed(text, &folder.0))?;
        }
        for (file, name) in keys {
            let key = Key::generate(name, [0; 32]).map_err(|source| {
                let file = file.clone();
                CheckFault::Key { file, source }
            })?;
            folder.write(&format!("{CONFIGURATION}/keys/{file}"), &key.to_key_file())?;
        }
        let run = timeout(CHECK_TIMEOUT, self.run(&folder.0)).await;
        let run = run.map_err(|_| CheckFault::Overdue {
            program: self.program.clone(),
        })?;
        let (status, said) = run.map_err(|source| CheckFault::Run {
            program: self.program.clone(),
            source,
        })?;
        if status.success() {
            return Ok(());
        }
        Err(CheckFault::Refused {
            said: words(&said, &folder.0, status),
        })
    }

    async fn run(&self, root: &Path) -> io::Result<(ExitStatus, String)> {
        let mut child = Command::new(&self.program)
            // Modules that a configuration names are not loaded into the program.
            .arg("-c")
            .arg(inside(root, &format!("{CONFIGURATION}/named.conf")))
            .current_dir(root)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        // Where it says more than is read, the pipe is closed, which ends it.
        let (output, errors) = tokio::try_join!(read(output), read(errors))?;
        Ok((child.wait().await?, errors + &output))
    }
}

/// The files of one check; dropping it removes them.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Result<Self, CheckFault> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut tries = FOLDER_TRIES;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("check-{}-{number}", std::process::id()));
            tries -= 1;
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                // An earlier process with our id left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries > 0 => {}
                Err(source) => return Err(CheckFault::Prepare { path, source }),
                Ok(()) => return Self(path).filled(),
            }
        }
    }

    /// With the folders that a configuration speaks of.
    fn filled(self) -> Result<Self, CheckFault> {
        for place in [&format!("{CONFIGURATION}/keys"), STATE] {
            let path = inside(&self.0, place);
            fs::create_dir_all(&path).map_err(|source| CheckFault::Prepare { path, source })?;
        }
        Ok(self)
    }

    fn write(&self, place: &str, text: &str) -> Result<(), CheckFault> {
        let path = inside(&self.0, place);
        let written = create_private(&path, text.as_bytes());
        written.map_err(|source| CheckFault::Prepare { path, source })?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "cannot remove the files of a check");
        }
    }
}

/// A path of `named`'s, in a folder.
fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_LEN_MAX).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What was said, with the paths that `named` has, and no more than can be read.
fn words(said: &str, root: &Path, status: ExitStatus) -> String {
    let said = said.replace(&*root.display().to_string(), "");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if lines.is_empty() {
        return format!("named-checkconf said nothing and ended with {status}");
    }
    let mut words = lines[..lines.len().min(SAID_LINES_MAX)].join("\n");
    if lines.len() > SAID_LINES_MAX {
        words.push_str("\n…");
    }
    if let Some((end, _)) = words.char_indices().nth(SAID_LEN_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// What stands after the word `include`, where that is not a file of the configuration.
///
/// Comments and texts are not told apart from statements: who is strict with all of them needs not read them
/// exactly as `named` does.
fn include_outside(text: &str) -> Option<String> {
    const WORD: &str = "include";
    const SHOWN_LEN_MAX: usize = 80;
    let lower = text.to_ascii_lowercase();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    lower.match_indices(WORD).find_map(|(at, _)| {
        let after = &text[at + WORD.len()..];
        if text[..at].ends_with(is_part) || after.starts_with(is_part) {
            return None;
        }
        let path = after.trim_start().strip_prefix('"');
        let path = path
            .and_then(|path| path.split_once('"'))
            .map(|(path, _)| path);
        let is_ours = path.is_some_and(|path| {
            [CONFIGURATION, STATE].iter().any(|place| {
                let below = path
                    .strip_prefix(place)
                    .and_then(|path| path.strip_prefix('/'));
                below.is_some_and(|below| !below.contains("..") && !below.contains('\\'))
            })
        });
        let line = after.trim_start().lines().next().unwrap_or_default();
        (!is_ours).then(|| line.chars().take(SHOWN_LEN_MAX).collect())
    })
}

#[cfg(test)]
mod tests;
