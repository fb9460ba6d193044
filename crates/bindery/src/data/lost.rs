//! A data folder whose objects are gone while its zones stand.
//!
//! What Bindery wrote is known from its objects. When they are applied again, nothing tells their records
//! from those of others, except that the name servers of a data folder are Bindery's alone: what
//! stands there exactly as an object declares it is taken for the object's own. A file in the folder says
//! that this is so, since objects may come back one by one and over restarts.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::write_private;

/// Says that the objects were lost.
const MARK: &str = "objects.lost";

/// Objects were lost and not all of them may be back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    mark: PathBuf,
    /// How many zones stand, where it was found out just now.
    zones: Option<usize>,
}

impl Lost {
    /// Looks whether that is so, before the API makes a new store.
    ///
    /// # Errors
    /// If it cannot be noted.
    pub(crate) fn find(folder: &Path) -> Result<Option<Self>> {
        let mark = folder.join(MARK);
        let store = fs::metadata(folder.join("objects.redb"));
        let is_gone = store.map_or_else(
            |error| error.kind() == io::ErrorKind::NotFound,
            |store| store.len() == 0,
        );
        let zones = if is_gone { zone_count(folder) } else { 0 };
        if zones == 0 {
            let lost = Self { mark, zones: None };
            return Ok(lost.mark.exists().then_some(lost));
        }
        let text = "The objects were lost while zones stood. Records that stand exactly as an object\n\
                    declares them are taken for its own. Remove this file when all objects are back.\n";
        write_private(&mark, text.as_bytes())
            .with_context(|| format!("cannot write {}", mark.display()))?;
        let zones = Some(zones);
        Ok(Some(Self { mark, zones }))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = self.mark.display();
        if let Some(zones) = self.zones {
            let folder = self.mark.parent().unwrap_or(&self.mark).display();
            write!(
                formatter,
                "the objects in {folder} are gone, but its zones ({zones}) stand and go on being \
                 served; restore objects.redb, or apply your objects again: "
            )?;
        } else {
            formatter.write_str("objects were lost at an earlier start: ")?;
        }
        write!(
            formatter,
            "records that stand as they are declared are taken for their own again, until you remove \
             {mark}"
        )
    }
}

/// How many zones the name servers of the folder have.
fn zone_count(folder: &Path) -> usize {
    let names = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let is_zone = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "zone");
    let servers = names(folder).into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("named") || name.starts_with("builtin")
    });
    let count = |folder: &Path| names(folder).iter().filter(|path| is_zone(path)).count();
    // Servers may have the same zones; the one with most says how many there are.
    servers
        .map(|server| count(&server).max(count(&server.join("zones"))))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_lost_where_zones_stand_without_them() {
        let folder = tempfile::tempdir().expect("there is room");
        let folder = folder.path();
        assert_eq!(
            Lost::find(folder).expect("it is ours"),
            None,
            "a new folder"
        );
        let zones = folder.join("named/zones");
        fs::create_dir_all(&zones).expect("it is ours");
        fs::write(zones.join("a.test.zone"), "").expect("it is ours");
        fs::write(folder.join("objects.redb"), "some").expect("it is ours");
        assert_eq!(
            Lost::find(folder).expect("it is ours"),
            None,
            "nothing lost"
        );
        fs::write(folder.join("objects.redb"), "").expect("it is ours");
        let lost = Lost::find(folder)
            .expect("it is ours")
            .expect("an empty one");
        let text = lost.to_string();
        assert!(text.contains("its zones (1) stand"), "{text}");
        assert!(text.contains("objects.lost"), "{text}");
        // It stays so when the store is no longer new.
        fs::write(folder.join("objects.redb"), "some").expect("it is ours");
        let lost = Lost::find(folder).expect("it is ours").expect("noted");
        assert_eq!(lost.zones, None);
        fs::remove_file(folder.join(MARK)).expect("it is ours");
        assert_eq!(Lost::find(folder).expect("it is ours"), None);
    }
}
