//! The data folder of `up`: where it is, whose it is, and the key in it.

mod lost;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use bindery_apiserver::{EmbeddedApi, Identity, OpenError, Options, System};
use bindery_core::Group;
use bindery_dns::Key;
use sha2::{Digest as _, Sha256};

use crate::surroundings;

pub(crate) use lost::Lost;

/// The name of the key that `up` makes.
const KEY_NAME: &str = "bindery";
/// Holds the number of the process that uses the folder, for a message to whoever wants it too.
const PID_FILE: &str = "pid";

/// The data folder of a folder of manifests, where none was given: one for each.
pub(crate) fn default_folder(manifests: &Path) -> Result<PathBuf> {
    let given = |name: &str| {
        surroundings::variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = given("XDG_STATE_HOME")
        .or_else(|| given("HOME").map(|home| home.join(".local/state")))
        .context("neither XDG_STATE_HOME nor HOME is set; say where with --data-dir")?;
    let place = manifests
        .canonicalize()
        .with_context(|| format!("cannot read the folder {}", manifests.display()))?;
    Ok(state.join("bindery").join(state_name(&place)))
}

/// Lets nobody else read the files that this process and its children make from now on.
pub(crate) fn keep_private() {
    let others = rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO;
    rustix::process::umask(others);
}

/// Opens the API whose objects lie in `folder`.
///
/// # Errors
/// If the folder is not ours, in use, or written by a newer Bindery; the message says what to do.
pub(crate) fn open_api(folder: &Path) -> Result<EmbeddedApi> {
    refuse_foreign(folder)?;
    match EmbeddedApi::open(Options::on_disk(folder)) {
        Ok(api) => {
            let pid = format!("{}\n", std::process::id());
            // It only serves a message; a full disk must not keep zones from being served.
            if let Err(error) = write_private(&folder.join(PID_FILE), pid.as_bytes()) {
                tracing::warn!(%error, folder = %folder.display(), "cannot write into the data folder");
            }
            Ok(api)
        }
        Err(OpenError::InUse { folder }) => {
            let pid = fs::read_to_string(folder.join(PID_FILE)).unwrap_or_default();
            let whose = match pid.trim() {
                "" => String::new(),
                pid => format!(" (pid {pid})"),
            };
            bail!(
                "the data folder {} is in use by another Bindery{whose}; stop it, or give this one \
                 its own with --data-dir",
                folder.display()
            )
        }
        Err(error) => Err(anyhow!(error)),
    }
}

/// The TSIG key of the data folder, made when it is asked for the first time.
pub(crate) fn tsig_key(folder: &Path) -> Result<Key> {
    let path = folder.join("tsig.key");
    match fs::metadata(&path) {
        Ok(_) => {
            warn_if_open(&path);
            read_key(&path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key =
                Key::generate(KEY_NAME, System::secret()).context("cannot make a TSIG key")?;
            write_private(&path, key.to_key_file().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Who the API of the data folder is over TLS: the same after every start, for its key is kept.
///
/// # Errors
/// If the key cannot be read, written or used.
pub(crate) fn identity(folder: &Path, names: &[String]) -> Result<Identity> {
    let path = folder.join("api.key");
    let key = match fs::read_to_string(&path) {
        Ok(key) => key.into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = Identity::generate_key()?;
            write_private(&path, key.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            key
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    Identity::new(&key, names).with_context(|| {
        let path = path.display();
        format!("cannot use {path}; restore it, or delete it and give clients the new kubeconfig")
    })
}

/// Reads a TSIG key in BIND's key-file format.
fn read_key(path: &Path) -> Result<Key> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the TSIG key {}", path.display()))?;
    Key::from_key_file(&text).with_context(|| format!("cannot use the TSIG key {}", path.display()))
}

/// Tells of a key that everybody can read.
pub(crate) fn warn_if_open(path: &Path) {
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().mode() & 0o007 != 0
    {
        tracing::warn!(path = %path.display(), "everybody on this machine can read the TSIG key");
    }
}

/// The TSIG keys that were given, each as `FILE` or `CLUSTER=FILE`.
#[derive(Default)]
pub(crate) struct TsigKeys {
    common: Option<Key>,
    own: BTreeMap<Group, Key>,
}

impl TsigKeys {
    /// Reads them. A file may have a '=' in its name, so what stands before one counts only where it
    /// names a cluster.
    ///
    /// # Errors
    /// If a file cannot be read or two are for the same servers.
    pub(crate) fn read(given: &[String], is_cluster: impl Fn(&Group) -> bool) -> Result<Self> {
        let mut keys = Self::default();
        for text in given {
            let before = match for_cluster(text, &is_cluster) {
                (Some(group), file) => keys.own.insert(group, read_key(file)?),
                (None, file) => keys.common.replace(read_key(file)?),
            };
            if before.is_some() {
                bail!(
                    "--tsig-key-file {text} is a second key for the same servers; leave one of them"
                );
            }
        }
        Ok(keys)
    }

    /// The files that they are in.
    pub(crate) fn paths(
        given: &[String],
        is_cluster: impl Fn(&Group) -> bool,
    ) -> impl Iterator<Item = PathBuf> {
        let path = move |text: &String| for_cluster(text, &is_cluster).1.to_owned();
        given.iter().map(path)
    }

    /// The key for the servers of a cluster.
    pub(crate) fn of(&self, group: &Group) -> Option<&Key> {
        self.own.get(group).or(self.common.as_ref())
    }
}

/// A key file that was given, and the cluster that it is for.
fn for_cluster(text: &str, is_cluster: impl Fn(&Group) -> bool) -> (Option<Group>, &Path) {
    let named = text.split_once('=');
    let named = named.map(|(name, file)| (Group::named(name), file));
    match named.filter(|(group, _)| is_cluster(group)) {
        Some((group, file)) => (Some(group), Path::new(file)),
        None => (None, Path::new(text)),
    }
}

/// Writes a file that nobody else can read, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let scratch = path.with_extension("new");
    // One that a crash left behind may have been opened to others since.
    match fs::remove_file(&scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&scratch)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&scratch, path)?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// A folder that holds something else would be made private and filled with our files.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let foreign = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some() && !folder.join("format").exists(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            let text = format!("cannot use the data folder {}", folder.display());
            return Err(error).context(text);
        }
    };
    // The lock alone is what a start leaves behind that was cut off at once.
    if foreign && !folder.join("lock").exists() {
        bail!(
            "{} is not empty and was not made by Bindery; choose another --data-dir",
            folder.display()
        );
    }
    Ok(())
}

/// The last part of the path, for people, and a hash of all of it.
fn state_name(place: &Path) -> String {
    let name = place
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy());
    let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
    format!(
        "{name}-{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_private() {
        let folder = tempfile::tempdir().expect("there is room");
        let first = tsig_key(folder.path()).expect("it is made");
        let second = tsig_key(folder.path()).expect("it is read");
        assert!(first == second, "the key changed");
        let mode = fs::metadata(folder.path().join("tsig.key"))
            .expect("it is there")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[test]
    fn the_api_is_the_same_after_every_start() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("api.key");
        let start = || identity(folder.path(), &["host".to_owned()]);
        start().expect("it is made");
        let key = fs::read(&path).expect("it is kept");
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        start().expect("it is read");
        assert!(
            fs::read(&path).expect("it is kept") == key,
            "the key changed"
        );
        fs::write(&path, "nonsense").expect("it is ours");
        let message = format!("{:#}", start().expect_err("it is no key"));
        assert!(message.contains("api.key"), "{message}");
    }

    #[test]
    fn a_bad_key_is_told_with_its_path() {
        let folder = tempfile::tempdir().expect("there is room");
        fs::write(folder.path().join("tsig.key"), "nonsense").expect("it is ours");
        let message = format!("{:#}", tsig_key(folder.path()).err().expect("it is no key"));
        assert!(
            message.contains("tsig.key") && message.contains("line 1"),
            "{message}"
        );
    }

    #[test]
    fn a_folder_of_somebody_else_is_not_touched() {
        let folder = tempfile::tempdir().expect("there is room");
        fs::write(folder.path().join("letter.txt"), "dear").expect("it is ours");
        let message = format!(
            "{:#}",
            open_api(folder.path()).err().expect("it is not ours")
        );
        assert!(message.contains("--data-dir"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
    }

    #[test]
    fn a_folder_in_use_names_the_process() {
        let folder = tempfile::tempdir().expect("there is room");
        let _api = open_api(folder.path()).expect("it is free");
        let message = format!("{:#}", open_api(folder.path()).err().expect("it is taken"));
        let pid = format!("pid {}", std::process::id());
        assert!(
            message.contains(&pid) && message.contains("--data-dir"),
            "{message}"
        );
    }

    #[test]
    fn a_folder_of_a_newer_bindery_is_refused() {
        let folder = tempfile::tempdir().expect("there is room");
        fs::write(folder.path().join("format"), "99\n").expect("it is ours");
        let message = format!("{:#}", open_api(folder.path()).err().expect("it is newer"));
        assert!(
            message.contains("newer") && message.contains("99"),
            "{message}"
        );
    }

    #[test]
    fn each_folder_has_its_own_state() {
        let (one, two) = (
            state_name(Path::new("/a/zones")),
            state_name(Path::new("/b/zones")),
        );
        assert!(one.starts_with("zones-") && two.starts_with("zones-"));
        assert_ne!(one, two);
    }
}
