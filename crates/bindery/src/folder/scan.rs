//! Reading the folder: which files count, and what is in those that changed and are still.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::document::{FileProblem, documents};
use super::plan::{FileContent, Scan};
use crate::file::{self, SETTLE, Stamp, is_old, plain};

/// How long a file may be written before that is told.
const RESTLESS_MAX: Duration = Duration::from_secs(5);
/// The largest manifest. The API takes objects of 1.5 MiB; a file of 10,000 records has 2.5 MiB.
const FILE_LEN_MAX: u64 = 4 << 20;
/// Files in one folder. Each is looked at in every scan, which costs some microseconds.
const FILES_MAX: usize = 10_000;
/// All manifests together, since what they declare is kept in memory.
const FOLDER_LEN_MAX: u64 = 64 << 20;
/// How deep folders may lie in each other.
const DEPTH_MAX: usize = 16;

/// Reads a folder again and again. A file is read when it changed and then did not change for a while;
/// until then it is taken to declare what it did before.
pub(crate) struct FolderReader {
    root: PathBuf,
    cache: BTreeMap<String, Cached>,
    is_first: bool,
}

/// What a look at the folder found.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) scan: Scan,
    /// When to look again at files that were not still.
    pub(crate) again: Option<Instant>,
    /// Whether a file came, went or was written since the look before.
    pub(crate) is_changed: bool,
}

#[derive(Clone)]
struct Cached {
    /// How the file was when it was read, and what was in it.
    read: Option<(Stamp, FileContent)>,
    /// How it was when it was last looked at, and since when.
    seen: (Stamp, Instant),
    /// Since when it differs from what was read.
    restless: Option<Instant>,
}

/// Files found so far.
#[derive(Default)]
struct Found {
    files: BTreeMap<String, Result<(PathBuf, Metadata), FileProblem>>,
    unreadable: BTreeMap<String, FileProblem>,
    folders: BTreeSet<PathBuf>,
}

impl FolderReader {
    /// A reader of `root`.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            cache: BTreeMap::new(),
            is_first: true,
        }
    }

    /// Everything that the folder holds now, be it still or not, for those who only want to show it.
    ///
    /// # Errors
    /// As [`FolderReader::read`].
    pub(crate) fn peek(root: PathBuf) -> Result<Scan, FileProblem> {
        let mut reader = Self::new(root);
        let now = Instant::now();
        reader.read(now, &BTreeSet::new())?;
        let look = reader.read(now + SETTLE, &BTreeSet::new())?;
        Ok(look.scan)
    }

    /// Everything that the folder holds now, as far as it is still. Those in `writing` are not.
    ///
    /// # Errors
    /// If the folder itself is not there, cannot be read or is too large: then nothing at all is
    /// known about it.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        writing: &BTreeSet<PathBuf>,
    ) -> Result<ScanResult, FileProblem> {
        let about_folder = |text: String| FileProblem::with_file("", text);
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
        let read = found.files.values().flatten();
        let sizes = read.map(|(_, metadata)| metadata.len());
        if sizes.sum::<u64>() > FOLDER_LEN_MAX {
            let limit = FOLDER_LEN_MAX >> 20;
            let text = format!("the manifests in {shown} have more than {limit} MiB together");
            return Err(about_folder(text));
        }
        Ok(self.take(found, now, writing))
    }

    fn take(&mut self, found: Found, now: Instant, writing: &BTreeSet<PathBuf>) -> ScanResult {
        let mut look = ScanResult::default();
        look.scan.unreadable = found.unreadable;
        let mut cache = BTreeMap::new();
        for (name, file) in found.files {
            let content = match file {
                Err(problem) => FileContent::Broken(problem),
                Ok((path, metadata)) => {
                    let stamp = Stamp::of(&metadata);
                    let known = self.cache.remove(&name);
                    look.is_changed |= known.as_ref().is_none_or(|known| known.seen.0 != stamp);
                    let mut cached = known.unwrap_or(Cached {
                        read: None,
                        seen: (stamp, now),
                        restless: None,
                    });
                    if cached.seen.0 != stamp || writing.contains(&path) {
                        cached.seen = (stamp, now);
                    }
                    let is_old = self.is_first && is_old(&metadata) && !writing.contains(&path);
                    if is_old || cached.seen.1 + SETTLE <= now {
                        cached.refresh(&name, &path, now);
                    }
                    let content = cached.content(&name, now, &mut look.again);
                    cache.insert(name.clone(), cached);
                    content
                }
            };
            look.scan.files.insert(name, content);
        }
        look.is_changed |= !self.cache.is_empty();
        self.cache = cache;
        self.is_first = false;
        look
    }
}

impl Cached {
    /// Reads the file if it differs from what was read before.
    fn refresh(&mut self, name: &str, path: &Path, now: Instant) {
        let is_same = self.read.as_ref().is_some_and(|read| read.0 == self.seen.0);
        if is_same {
            return;
        }
        match read(name, path, self.seen.0) {
            Some(content) => self.read = Some((self.seen.0, content)),
            // It was written meanwhile.
            None => self.seen.1 = now,
        }
    }

    /// What the file is taken to declare now.
    fn content(&mut self, name: &str, now: Instant, again: &mut Option<Instant>) -> FileContent {
        let read = self.read.as_ref();
        if read.is_some_and(|(stamp, _)| *stamp == self.seen.0) {
            self.restless = None;
        } else {
            let since = *self.restless.get_or_insert(now);
            let at = self.seen.1 + SETTLE;
            *again = Some(again.map_or(at, |again| again.min(at)));
            if since + RESTLESS_MAX < now {
                let text = "is being written all the time; it is read when it rests, and what it \
                            declared before is kept until then";
                return FileContent::Broken(FileProblem::with_file(name, text));
            }
        }
        read.map_or(FileContent::Restless, |(_, content)| content.clone())
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
        let looked = entry.path().canonicalize();
        let looked = looked.and_then(|path| Ok((fs::metadata(&path)?, path)));
        let (metadata, path) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                // What went away since it was listed declares nothing; of a link that leads nowhere, or
                // to where we may not look, nobody knows.
                if is_manifest(&place) && fs::symlink_metadata(entry.path()).is_ok() {
                    let text = format!(
                        "cannot be read: {}; what it declared is kept",
                        plain(&error)
                    );
                    found.refuse(root, &place, text);
                }
                continue;
            }
        };
        if !path.starts_with(root) {
            if is_manifest(&place) {
                let text = "a symbolic link that leads out of the folder; copy the file instead";
                found.refuse(root, &place, text);
            }
        } else if metadata.is_dir() && !is_manifest(&place) {
            list_below(root, (&path, &place), depth, found);
        } else if is_manifest(&place) {
            found.add(root, &place, (path, metadata));
        }
    }
    Ok(())
}

impl Found {
    /// Adds something that is named as a manifest, if it can be one. Opening it might never return
    /// where it is no file, so its kind and length are looked at from outside.
    fn add(&mut self, root: &Path, place: &Path, (path, metadata): (PathBuf, Metadata)) {
        let len = metadata.len();
        if metadata.is_dir() {
            let name = relative(root, place);
            let text = "is a folder with the name of a file; it is not read, rename it";
            let problem = FileProblem::with_file(&name, text);
            self.unreadable.insert(name, problem);
        } else if !metadata.is_file() {
            let text = "is no file but a pipe, a socket or a device; it is not read, remove it";
            self.refuse(root, place, text);
        } else if len > FILE_LEN_MAX {
            let text = format!("has {len} bytes, a manifest may have {FILE_LEN_MAX}; split it");
            self.refuse(root, place, text);
        } else {
            let name = relative(root, place);
            self.files.insert(name, Ok((path, metadata)));
        }
    }

    fn refuse(&mut self, root: &Path, place: &Path, text: impl Into<String>) {
        let name = relative(root, place);
        let problem = FileProblem::with_file(&name, text);
        self.files.insert(name, Err(problem));
    }
}

fn list_below(root: &Path, (path, place): (&Path, &Path), depth: usize, found: &mut Found) {
    let name = relative(root, place);
    if depth >= DEPTH_MAX {
        let text = format!("folders lie more than {DEPTH_MAX} deep; it is not read");
        found
            .unreadable
            .insert(name.clone(), FileProblem::with_file(&name, text));
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
            .insert(name.clone(), FileProblem::with_file(&name, text));
    }
}

/// Reads a file that is as `stamp` says; `None` where it is not, or not any longer.
fn read(name: &str, path: &Path, stamp: Stamp) -> Option<FileContent> {
    let text = match file::read_text(path, stamp, FILE_LEN_MAX) {
        Ok(text) => text?,
        Err(error) => {
            let text = format!("cannot be read: {}", plain(&error));
            return Some(FileContent::Broken(FileProblem::with_file(name, text)));
        }
    };
    Some(match documents(name, text.trim_start_matches('\u{feff}')) {
        Ok(documents) => FileContent::Declares(documents),
        Err(problem) => FileContent::Broken(problem),
    })
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use super::*;

    const MANIFEST: &str = "{apiVersion: v1, kind: A, metadata: {name: a}}";

    /// What the folder holds after so many milliseconds: `file objects`, `file ~` or a problem.
    fn look(reader: &mut FolderReader, now: Instant, writing: &[&Path]) -> Vec<String> {
        let writing = writing.iter().map(|path| (*path).to_owned()).collect();
        let look = reader.read(now, &writing).expect("the folder is there");
        let files = look.scan.files.iter().map(|(name, content)| match content {
            FileContent::Declares(found) => format!("{name} {}", found.len()),
            FileContent::Broken(problem) => problem.to_string(),
            FileContent::Restless => format!("{name} ~"),
        });
        let folders = look.scan.unreadable.values().map(ToString::to_string);
        files.chain(folders).collect()
    }

    /// What the folder holds when all is still.
    fn files(reader: &mut FolderReader) -> Vec<String> {
        let now = Instant::now();
        look(reader, now, &[]);
        look(reader, now + SETTLE, &[])
    }

    fn list_of(count: usize) -> String {
        let items = (0..count)
            .map(|one| format!("- {{apiVersion: v1, kind: A, metadata: {{name: a{one}}}}}\n"));
        let items: String = items.collect();
        format!("apiVersion: v1\nkind: List\nitems:\n{items}")
    }

    #[test]
    fn a_file_is_read_when_it_is_still() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("a.yaml");
        let mut reader = FolderReader::new(folder.path().to_owned());
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        fs::write(&file, list_of(1)).expect("it is ours");
        assert_eq!(look(&mut reader, at(0), &[]), ["a.yaml ~"]);
        fs::write(&file, list_of(2)).expect("it is ours");
        assert_eq!(look(&mut reader, at(200), &[]), ["a.yaml ~"]);
        assert_eq!(look(&mut reader, at(300), &[]), ["a.yaml ~"]);
        assert_eq!(look(&mut reader, at(450), &[]), ["a.yaml 2"]);
        for (millis, count) in [(500, 3), (700, 4), (900, 5)] {
            fs::write(&file, list_of(count)).expect("it is ours");
            assert_eq!(
                look(&mut reader, at(millis), &[]),
                ["a.yaml 2"],
                "as before"
            );
        }
        assert_eq!(look(&mut reader, at(1_150), &[]), ["a.yaml 5"]);
    }

    #[test]
    fn a_file_that_somebody_writes_is_not_read() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path().canonicalize().expect("it is ours");
        let file = root.join("a.yaml");
        let mut reader = FolderReader::new(root.clone());
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        fs::write(&file, list_of(2)).expect("it is ours");
        assert_eq!(files(&mut reader), ["a.yaml 2"]);
        fs::write(&file, list_of(1)).expect("it is ours");
        for millis in [1_000, 2_000, 4_000] {
            assert_eq!(look(&mut reader, at(millis), &[&file]), ["a.yaml 2"]);
        }
        let told = look(&mut reader, at(7_000), &[&file]);
        assert!(
            told[0].starts_with("a.yaml: is being written all the time"),
            "{told:?}"
        );
        look(&mut reader, at(8_000), &[&file]);
        assert_eq!(look(&mut reader, at(8_250), &[]), ["a.yaml 1"]);
    }

    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().expect("there is room");
        let root = folder.path();
        let pipe = root.join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(
            made.is_ok_and(|made| made.success()),
            "mkfifo is part of every system"
        );
        let _socket = std::os::unix::net::UnixListener::bind(root.join("s.yaml"));
        fs::create_dir(root.join("d.yaml")).expect("it is ours");
        symlink("nowhere.yaml", root.join("l.yaml")).expect("it is ours");
        fs::write(root.join("a.yaml"), MANIFEST).expect("it is ours");
        let huge = File::create(root.join("huge.yaml")).expect("it is ours");
        huge.set_len(5 << 30).expect("it takes no room");
        assert_eq!(
            files(&mut FolderReader::new(root.to_owned())),
            [
                "a.yaml 1",
                "huge.yaml: has 5368709120 bytes, a manifest may have 4194304; split it",
                "l.yaml: cannot be read: there is no such file or folder; what it declared is kept",
                "pipe.yaml: is no file but a pipe, a socket or a device; it is not read, remove it",
                "s.yaml: is no file but a pipe, a socket or a device; it is not read, remove it",
                "d.yaml: is a folder with the name of a file; it is not read, rename it",
            ]
        );
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
        let found = files(&mut FolderReader::new(root.to_owned()));
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
        let mut reader = FolderReader::new(folder.path().to_owned());
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
        let mut reader = FolderReader::new("/nonexistent/zones".into());
        let read = reader.read(Instant::now(), &BTreeSet::new());
        let problem = read.expect_err("it is not there");
        assert!(
            problem.to_string().contains("/nonexistent/zones"),
            "{problem}"
        );
    }
}
