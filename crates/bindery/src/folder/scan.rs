//! Reading the folder: which files count, and what is in those that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Document, Problem, documents};
use super::plan::Scan;

/// The largest manifest. The API takes objects of 1.5 MiB; a file of 10,000 records has 2.5 MiB.
const FILE_LEN_MAX: u64 = 4 << 20;
/// Files in one folder. Each is looked at in every scan, which costs some microseconds.
const FILES_MAX: usize = 10_000;
/// All manifests together, since what they declare is kept in memory.
const FOLDER_LEN_MAX: u64 = 64 << 20;
/// How deep folders may lie in each other.
const DEPTH_MAX: usize = 16;

/// Reads a folder again and again; a file that did not change is not parsed again.
pub(crate) struct Reader {
    root: PathBuf,
    cache: BTreeMap<String, Cached>,
}

#[derive(Clone)]
struct Cached {
    stamp: Stamp,
    content: Result<Vec<Arc<Document>>, Problem>,
}

/// What differs when a file was written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

/// Files found so far.
#[derive(Default)]
struct Found {
    files: BTreeMap<String, Result<(PathBuf, Metadata), Problem>>,
    unreadable: BTreeMap<String, Problem>,
    folders: BTreeSet<PathBuf>,
}

impl Reader {
    /// A reader of `root`.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            cache: BTreeMap::new(),
        }
    }

    /// Everything that the folder holds now.
    ///
    /// # Errors
    /// If the folder itself is not there, cannot be read or is too large: then nothing at all is
    /// known about it.
    pub(crate) fn read(&mut self) -> Result<Scan, Problem> {
        let about_folder = |text: String| Problem::with_file("", text);
        let shown = self.root.display().to_string();
        let root = self.root.canonicalize().map_err(|error| {
            about_folder(format!("cannot read the folder {shown}: {}", plain(&error)))
        })?;
        let mut found = Found::default();
        found.folders.insert(root.clone());
        let listed = list(&root, &root, &root, 0, &mut found);
        listed.map_err(|error| {
            about_folder(format!("cannot read the folder {shown}: {}", plain(&error)))
        })?;
        if found.files.len() > FILES_MAX {
            return Err(about_folder(format!(
                "the folder {shown} has more than {FILES_MAX} manifests; keep fewer, larger files"
            )));
        }
        let sizes = found
            .files
            .values()
            .flatten()
            .map(|(_, metadata)| metadata.len());
        if sizes.sum::<u64>() > FOLDER_LEN_MAX {
            let limit = FOLDER_LEN_MAX >> 20;
            let text = format!("the manifests in {shown} have more than {limit} MiB together");
            return Err(about_folder(text));
        }
        Ok(self.take(found))
    }

    fn take(&mut self, found: Found) -> Scan {
        let mut scan = Scan {
            unreadable: found.unreadable,
            ..Scan::default()
        };
        let mut cache = BTreeMap::new();
        for (name, file) in found.files {
            let content = match file {
                Err(problem) => Err(problem),
                Ok((path, metadata)) => {
                    let stamp = Stamp::of(&metadata);
                    let kept = self.cache.remove(&name).filter(|kept| kept.stamp == stamp);
                    let fresh = || Cached {
                        stamp,
                        content: read(&name, &path, &metadata),
                    };
                    let cached = kept.unwrap_or_else(fresh);
                    let content = cached.content.clone();
                    cache.insert(name.clone(), cached);
                    content
                }
            };
            scan.files.insert(name, content);
        }
        self.cache = cache;
        scan
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Lists the manifests of `folder` and of those below. Hidden ones do not count: editors and version
/// control keep their own there. A symbolic link counts if it stays inside `root`.
fn list(
    root: &Path,
    folder: &Path,
    shown: &Path,
    depth: usize,
    found: &mut Found,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden || found.files.len() > FILES_MAX {
            continue;
        }
        let place = shown.join(entry.file_name());
        let name = relative(root, &place);
        let Ok(path) = entry.path().canonicalize() else {
            // It went away since it was listed, or is a link to nothing: it declares nothing.
            continue;
        };
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let counts = metadata.is_dir() || is_manifest(&place);
        if !path.starts_with(root) {
            if counts && is_manifest(&place) {
                let text = "a symbolic link that leads out of the folder; copy the file instead";
                found
                    .files
                    .insert(name.clone(), Err(Problem::with_file(&name, text)));
            }
        } else if metadata.is_dir() {
            list_below(root, (&path, &place), depth, found);
        } else if counts {
            found.files.insert(name, Ok((path, metadata)));
        }
    }
    Ok(())
}

fn list_below(root: &Path, (path, place): (&Path, &Path), depth: usize, found: &mut Found) {
    let name = relative(root, place);
    if depth >= DEPTH_MAX {
        let text = format!("folders lie more than {DEPTH_MAX} deep; it is not read");
        found
            .unreadable
            .insert(name.clone(), Problem::with_file(&name, text));
        return;
    }
    // A link to a folder above, or two ways to one folder, would list files twice.
    if !found.folders.insert(path.to_owned()) {
        return;
    }
    if let Err(error) = list(root, path, place, depth + 1, found) {
        let text = format!(
            "cannot be read: {}; what it declared is kept",
            plain(&error)
        );
        found
            .unreadable
            .insert(name.clone(), Problem::with_file(&name, text));
    }
}

fn read(name: &str, path: &Path, metadata: &Metadata) -> Result<Vec<Arc<Document>>, Problem> {
    if metadata.len() > FILE_LEN_MAX {
        let (len, limit) = (metadata.len(), FILE_LEN_MAX);
        let text = format!("has {len} bytes, a manifest may have {limit}; split it");
        return Err(Problem::with_file(name, text));
    }
    match fs::read_to_string(path) {
        Ok(text) => documents(name, text.trim_start_matches('\u{feff}')),
        Err(error) => Err(Problem::with_file(
            name,
            format!("cannot be read: {}", plain(&error)),
        )),
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    extension.is_some_and(|found| ["yaml", "yml", "json"].iter().any(|known| found == *known))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

/// The message without the number of the error.
fn plain(error: &io::Error) -> String {
    let known = [
        (io::ErrorKind::NotFound, "there is no such file or folder"),
        (io::ErrorKind::NotADirectory, "it is not a folder"),
        (io::ErrorKind::PermissionDenied, "permission denied"),
        (io::ErrorKind::InvalidData, "it is not UTF-8 text"),
    ];
    let found = known.iter().find(|(kind, _)| *kind == error.kind());
    found.map_or_else(|| error.to_string(), |(_, text)| (*text).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MANIFEST: &str = "{apiVersion: v1, kind: A, metadata: {name: a}}";

    fn files(reader: &mut Reader) -> Vec<String> {
        let scan = reader.read().expect("the folder is there");
        let shown = scan.files.iter().map(|(name, content)| match content {
            Ok(found) => format!("{name} {}", found.len()),
            Err(problem) => problem.to_string(),
        });
        shown.collect()
    }

    #[test]
    fn manifests_are_found_below_and_hidden_ones_are_not() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        fs::create_dir_all(root.join("sub/.git")).expect("it is ours");
        for name in [
            "a.yaml",
            "b.YML",
            "c.json",
            "sub/d.yaml",
            "note.txt",
            ".e.yaml",
            "sub/.git/f.yaml",
        ] {
            let text = if name.ends_with("json") {
                "{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{\"name\":\"c\"}}"
            } else {
                MANIFEST
            };
            fs::write(root.join(name), text).expect("it is ours");
        }
        symlink(root.join("sub"), root.join("again")).expect("it is ours");
        symlink("a.yaml", root.join("link.yaml")).expect("it is ours");
        symlink("/etc/hostname", root.join("out.yaml")).expect("it is ours");
        symlink(root, root.join("sub/loop")).expect("it is ours");
        let found = files(&mut Reader::new(root.to_owned()));
        let below: Vec<_> = found
            .iter()
            .filter(|file| file.contains("d.yaml"))
            .collect();
        assert_eq!(below.len(), 1, "{found:?}");
        let others: Vec<_> = found
            .iter()
            .filter(|file| !file.contains("d.yaml"))
            .collect();
        assert_eq!(
            others,
            [
                "a.yaml 1",
                "b.YML 1",
                "c.json 1",
                "link.yaml 1",
                "out.yaml: a symbolic link that leads out of the folder; copy the file instead"
            ]
        );
    }

    #[test]
    fn a_large_file_is_refused_and_a_changed_one_read_again() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("a.yaml");
        let mut reader = Reader::new(folder.path().to_owned());
        fs::write(&file, "x".repeat(10 << 20)).expect("it is ours");
        let found = files(&mut reader);
        assert!(
            found[0].contains("has 10485760 bytes") && found[0].contains("split"),
            "{found:?}"
        );
        fs::write(&file, MANIFEST).expect("it is ours");
        assert_eq!(files(&mut reader), ["a.yaml 1"]);
    }

    #[test]
    fn a_missing_folder_is_told() {
        let mut reader = Reader::new("/nonexistent/zones".into());
        let problem = reader.read().expect_err("it is not there");
        assert!(
            problem.to_string().contains("/nonexistent/zones"),
            "{problem}"
        );
    }
}
