//! The text files of the checkout.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that are not ours to check.
const SKIPPED: &[&str] = &[".git", "target"];
/// Endings of the files that some rule reads.
const ENDINGS: &[&str] = &["rs", "md", "toml", "yaml", "yml", "sh", "json", "go", "mod"];

/// Every text file that a rule may read, sorted by path.
pub(crate) struct Tree {
    /// The files.
    pub(crate) files: Vec<File>,
}

/// One text file.
pub(crate) struct File {
    /// Relative to the workspace, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl Tree {
    /// Reads the tree under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// The file at exactly this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| ending(&file.path) == "rs")
    }

    /// Markdown files.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| ending(&file.path) == "md")
    }

    /// Whether a file or a folder of this path exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    /// A file given as text.
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
            || self.path.starts_with("tests/")
            || self.path.contains("/tests/")
    }

    /// The number of the line where inline tests begin, if there are any.
    pub(crate) fn tests_begin(&self) -> Option<usize> {
        let mut lines = self.lines().peekable();
        while let Some((number, line)) = lines.next() {
            let next = lines.peek().map_or("", |(_, next)| next.trim());
            if line == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{') {
                return Some(number);
            }
        }
        None
    }

    /// The name without folder and ending.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split('.').next().unwrap_or(name)
    }
}

/// What stands after the last dot of a path.
pub(crate) fn ending(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

fn collect(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    let at = root.join(folder);
    let entries = fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", at.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry
            .file_type()
            .with_context(|| format!("cannot look at {path}"))?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(root, &path, files)?;
        } else if kind.is_file() && is_read(&path) {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            // A file that is not text has nothing to say to a rule.
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

fn is_read(path: &str) -> bool {
    ENDINGS.contains(&ending(path)) || path == "LICENSE" || path.starts_with(".ci/")
}
