//! Volumes on disk: for their owner only, and files that change all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::VolumeFiles;

/// What the files of a volume are reached through; it is swapped in one step.
const CURRENT: &str = "..data";
const NEXT: &str = "..data_next";

/// What was written of a volume of files.
pub(crate) struct WrittenVolume {
    files: VolumeFiles,
    /// When each file was written, by which a file that somebody else touched is known.
    stamps: BTreeMap<String, SystemTime>,
}

impl WrittenVolume {
    /// Whether the volume has these files, and nobody else touched them.
    pub(crate) fn is_current(&self, folder: &Path, files: &VolumeFiles) -> bool {
        self.files == *files && stamps(folder, files).is_ok_and(|stamps| stamps == self.stamps)
    }
}

/// Makes a folder and those above it, for its owner only.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file for its owner only.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(bytes)
}

/// Writes the files of a volume: whoever reads sees all of the old or all of the new.
///
/// # Errors
/// If the disk refuses; the volume is as it was, or has the new files.
pub(crate) fn write_files(folder: &Path, files: &VolumeFiles) -> io::Result<WrittenVolume> {
    make_folder(folder)?;
    let current = fs::read_link(folder.join(CURRENT)).ok();
    let number = current
        .as_ref()
        .and_then(|name| name.to_str()?.strip_prefix("..")?.parse().ok());
    let number: u64 = number.unwrap_or(0) + 1;
    let name = format!("..{number}");
    let fresh = folder.join(&name);
    remove(&fresh)?;
    make_folder(&fresh)?;
    for (path, bytes) in &files.files {
        let file = fresh.join(path);
        if let Some(parent) = file.parent() {
            make_folder(parent)?;
        }
        write_file(&file, bytes)?;
    }
    let next = folder.join(NEXT);
    remove(&next)?;
    symlink(&name, &next)?;
    fs::rename(&next, folder.join(CURRENT))?;
    link(folder, files)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let found = entry.file_name();
        let is_old = found
            .to_str()
            .is_some_and(|it| it.starts_with("..") && it != CURRENT);
        if is_old && found.to_str() != Some(&name) {
            remove(&entry.path())?;
        }
    }
    Ok(WrittenVolume {
        files: files.clone(),
        stamps: stamps(folder, files)?,
    })
}

/// Removes whatever is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Has the names of the files in the folder, by way of what is current.
fn link(folder: &Path, files: &VolumeFiles) -> io::Result<()> {
    let first = |path: &String| path.split('/').next().unwrap_or_default().to_owned();
    let wanted: BTreeSet<String> = files.files.keys().map(first).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !wanted.contains(&name) {
            remove(&entry.path())?;
        }
    }
    for name in wanted {
        let target = PathBuf::from(CURRENT).join(&name);
        let path = folder.join(&name);
        if fs::read_link(&path).ok().as_ref() != Some(&target) {
            remove(&path)?;
            symlink(target, path)?;
        }
    }
    Ok(())
}

fn stamps(folder: &Path, files: &VolumeFiles) -> io::Result<BTreeMap<String, SystemTime>> {
    let stamp = |path: &String| {
        let modified = fs::metadata(folder.join(path))?.modified()?;
        Ok((path.clone(), modified))
    };
    files.files.keys().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn files(all: &[(&str, &str)]) -> VolumeFiles {
        let files = all
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        VolumeFiles {
            files: files.collect(),
            tokens: Vec::new(),
        }
    }

    #[test]
    fn files_come_change_and_go() {
        let folder = tempfile::tempdir().expect("there is room");
        let folder = folder.path().join("volume");
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let first = files(&[("a", "1"), ("keys/b", "2")]);
        let written = write_files(&folder, &first).expect("it is ours");
        assert_eq!(
            (read("a").as_deref(), read("keys/b").as_deref()),
            (Some("1"), Some("2"))
        );
        assert!(written.is_current(&folder, &first));
        let second = files(&[("a", "3")]);
        assert!(!written.is_current(&folder, &second));
        write_files(&folder, &second).expect("it is ours");
        assert_eq!((read("a").as_deref(), read("keys/b")), (Some("3"), None));
        let entries = fs::read_dir(&folder).expect("it is there").count();
        assert_eq!(entries, 3, "a, what is current, and what that points at");
    }

    #[test]
    fn nobody_else_can_read_them() {
        let folder = tempfile::tempdir().expect("there is room");
        let folder = folder.path().join("volume");
        write_files(&folder, &files(&[("a", "1")])).expect("it is ours");
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
        };
        assert_eq!(mode(&folder.join("a")) & 0o777, 0o600);
        assert_eq!(mode(&folder) & 0o777, 0o700);
    }

    #[test]
    fn a_file_that_somebody_removed_is_noticed() {
        let folder = tempfile::tempdir().expect("there is room");
        let folder = folder.path().join("volume");
        let all = files(&[("a", "1")]);
        let written = write_files(&folder, &all).expect("it is ours");
        fs::remove_file(folder.join("a")).expect("it is there");
        assert!(!written.is_current(&folder, &all));
    }
}
