//! Zones that `named` was given many at a time: a file of statements that its configuration includes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bindery_core::Name;

use super::config::{LISTED, write_private};
use super::zones;

/// What stands before the statements.
const HEAD: &str = "// Written by Bindery; changes here are lost.\n";

/// The statements of the file, in memory. A zone that was added by a command of its own must not be
/// among them: `named` does not start with one that it knows twice.
#[derive(Clone)]
pub(super) struct Listed {
    path: PathBuf,
    /// Each in one line, by what it begins with.
    statements: BTreeMap<String, String>,
}

impl Listed {
    /// Reads the file; where there is none, an empty one is made.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let path = folder.join(LISTED);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_private(&path, HEAD.as_bytes())?;
                String::new()
            }
            Err(error) => return Err(error),
        };
        let lines = text.lines().filter_map(|line| {
            let (opening, _) = line.split_once(" IN ")?;
            Some((opening.to_owned(), line.to_owned()))
        });
        Ok(Self {
            path,
            statements: lines.collect(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn contains(&self, zone: &Name) -> bool {
        self.statements.contains_key(&zones::opening(zone))
    }

    pub(super) fn insert(&mut self, zone: &Name, statement: String) {
        self.statements.insert(zones::opening(zone), statement);
    }

    pub(super) fn remove(&mut self, zone: &Name) {
        self.statements.remove(&zones::opening(zone));
    }

    /// Writes the file, whole or not at all, so that it outlives a loss of power.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut text = String::from(HEAD);
        for statement in self.statements.values() {
            text.push_str(statement);
            text.push('\n');
        }
        write_private(&self.path, text.as_bytes())?;
        match self.path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bindery_dns::local::Replication;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "example.com.",
            "a\\\"b\\;.example.com.",
            "x\\032IN\\032y.test.",
        ];
        let zones = names.map(|name| Name::parse(name).unwrap());
        let mut listed = Listed::read(folder.path()).unwrap();
        for zone in &zones {
            listed.insert(zone, zones::statement(zone, &Replication::default(), "key"));
        }
        listed.write().unwrap();
        let mut again = Listed::read(folder.path()).unwrap();
        assert_eq!(again.statements, listed.statements);
        assert!(zones.iter().all(|zone| again.contains(zone)));
        again.remove(&zones[1]);
        again.write().unwrap();
        let last = Listed::read(folder.path()).unwrap();
        let left: Vec<bool> = zones.iter().map(|zone| last.contains(zone)).collect();
        assert_eq!(left, [true, false, true]);
    }
}
