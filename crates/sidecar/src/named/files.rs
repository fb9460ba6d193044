//! Files of zones: written whole or not at all, found again, removed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bindery_core::Name;
use bindery_dns::local::zone_file_name;

/// What the name of a zone's file ends with.
const ZONE: &str = ".zone";
/// What the name of the file ends with that tells of a zone whose own file does not.
const MARK: &str = ".mark";
/// What `named` makes beside the file of a zone.
const BESIDE: [&str; 4] = [".jnl", ".jbk", ".signed", ".signed.jnl"];
/// What is added to the name of a file that was in the way.
const ASIDE: &str = ".old";

/// Where a zone's file is.
pub(crate) fn path(folder: &Path, zone: &Name) -> PathBuf {
    folder.join(zone_file_name(zone))
}

/// Writes the file of a zone that `named` does not have. What was left of one of the same name is put
/// aside: its journal would be read as that of the new one.
pub(crate) fn write_zone(folder: &Path, zone: &Name, text: &str) -> io::Result<()> {
    let path = path(folder, zone);
    for old in all(&path) {
        if fs::symlink_metadata(&old).is_ok() {
            fs::rename(&old, with_suffix(&old, ASIDE))?;
        }
    }
    write_whole(&path, text.as_bytes())
}

/// Notes a zone whose file is written later, or does not tell its name.
pub(crate) fn write_mark(folder: &Path, zone: &Name) -> io::Result<()> {
    fs::write(mark(folder, zone), zone.to_string())
}

/// Whether the name of a zone can be told from that of its file.
pub(crate) fn tells_its_name(zone: &Name) -> bool {
    !zone_file_name(zone).starts_with('%')
}

/// Removes what a zone has left; what was put aside stays.
pub(crate) fn remove_zone(folder: &Path, zone: &Name) -> io::Result<()> {
    let path = path(folder, zone);
    for file in all(&path).chain([mark(folder, zone)]) {
        remove(&file)?;
    }
    Ok(())
}

/// Every zone that has left something here. Whether `named` has it, `named` knows.
pub(crate) fn zones(folder: &Path) -> io::Result<Vec<Name>> {
    let mut zones = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        let Some(file) = file.to_str() else { continue };
        if let Some(name) = file.strip_suffix(ZONE) {
            zones.extend(name_in(name));
        } else if file.ends_with(MARK) {
            // One that is just being removed.
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            zones.extend(Name::parse(&text).ok());
        }
    }
    zones.sort_unstable();
    zones.dedup();
    Ok(zones)
}

/// Writes a file, whole or not at all, also if power is lost.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".new");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    // The name is durable once the folder is.
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn mark(folder: &Path, zone: &Name) -> PathBuf {
    with_suffix(&path(folder, zone), MARK)
}

/// A zone's file and what lies beside it, that which is read first at the end.
fn all(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let path = path.to_owned();
    let beside = BESIDE.map(|suffix| with_suffix(&path, suffix));
    beside.into_iter().chain([path])
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The zone whose file is called so; see [`zone_file_name`].
fn name_in(file: &str) -> Option<Name> {
    let mut text = Vec::new();
    let mut rest = file.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            text.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digits = std::str::from_utf8(digits).ok()?;
        text.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    let name = Name::parse(std::str::from_utf8(&text).ok()?).ok()?;
    (zone_file_name(&name).strip_suffix(ZONE) == Some(file)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn zones_are_found_by_their_files_and_marks() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["example.com.", "0/25.2.0.192.in-addr.arpa.", "b.test."].map(zone);
        write_zone(folder.path(), &names[0], "x").unwrap();
        write_zone(folder.path(), &names[1], "x").unwrap();
        write_mark(folder.path(), &names[2]).unwrap();
        for other in ["named.pid", "%zz.zone", "UPPER.zone.jnl", "a.new"] {
            fs::write(folder.path().join(other), "x").unwrap();
        }
        let mut expected = names.to_vec();
        expected.sort_unstable();
        assert_eq!(zones(folder.path()).unwrap(), expected);
        for name in &names {
            remove_zone(folder.path(), name).unwrap();
        }
        assert_eq!(zones(folder.path()).unwrap(), Vec::new());
    }

    #[test]
    fn what_an_older_zone_left_is_put_aside_and_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let name = zone("example.com.");
        write_zone(folder.path(), &name, "first").unwrap();
        let journal = folder.path().join("example.com.zone.jnl");
        fs::write(&journal, "changes").unwrap();
        write_zone(folder.path(), &name, "second").unwrap();
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(read("example.com.zone"), "second");
        assert!(!journal.exists());
        assert_eq!(read("example.com.zone.old"), "first");
        assert_eq!(read("example.com.zone.jnl.old"), "changes");
    }
}
