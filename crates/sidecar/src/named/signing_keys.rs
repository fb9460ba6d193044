//! The keys that sign zones: those that somebody gives are taken before `named` makes its own, and those that it has
//! are shown to whoever keeps them.
//!
//! `named` calls the files of a key `Kexample.com.+013+12345.key`. A field of a Secret cannot have a `+`, so that
//! there it is `Kexample.com._013_12345.key`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use bindery_core::Name;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The files of a key. `named` finds keys by the last, which is written when the others are there.
const ENDS: [&str; 3] = [".key", ".state", ".private"];

/// How much of a file is read: keys of the longest sort have less than 8 KiB.
const FILE_LEN_MAX: u64 = 32 * 1024;

/// How often a folder is looked at after a change.
const LOOKS: u8 = 3;

/// How many digits name an algorithm, and a key.
const ALGORITHM_LEN: usize = 3;
const TAG_LEN: usize = 5;

/// The text of files of keys, by the names that they have in a Secret.
pub(crate) type KeyTexts = BTreeMap<String, Zeroizing<String>>;

/// The keys as they were seen last.
#[derive(Default)]
pub(crate) struct SeenKeys {
    changed: Option<SystemTime>,
    digest: Option<String>,
    /// How often it was looked since the folder changed.
    looks: u8,
}

impl SeenKeys {
    /// What is known of a folder that last changed then. The time of a folder is coarse, so that it is looked at a few
    /// times after each change.
    pub(crate) fn known(&self, changed: SystemTime) -> Result<Option<String>, Outdated> {
        if self.changed == Some(changed) && self.looks >= LOOKS {
            return Ok(self.digest.clone());
        }
        Err(Outdated)
    }

    pub(crate) fn note(&mut self, changed: SystemTime, digest: Option<String>) {
        let looks = if self.changed == Some(changed) {
            self.looks
        } else {
            0
        };
        *self = Self {
            changed: Some(changed),
            digest,
            looks: looks.saturating_add(1),
        };
    }
}

/// What is known of keys is to be looked at again.
pub(crate) struct Outdated;

/// What became of the keys that somebody gives for a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The server has keys of the zone, which count.
    Had,
    /// So many were taken.
    Given(usize),
    /// There are none.
    Nothing,
}

/// Takes the keys of a zone from the folder of those that somebody gives, where the server has none.
pub(crate) fn take(given: Option<&Path>, folder: &Path, zone: &Name) -> io::Result<Taken> {
    let of_zone = |name: &String| zone_in(name).is_some_and(|one| one == zone.to_string());
    if read(folder)?.keys().any(of_zone) {
        return Ok(Taken::Had);
    }
    let Some(given) = given else {
        return Ok(Taken::Nothing);
    };
    let mut texts = read(given)?;
    texts.retain(|name, _| of_zone(name));
    let is_whole = |stem: &str| {
        [".key", ".private"]
            .iter()
            .all(|end| texts.contains_key(&format!("{stem}{end}")))
    };
    let stems = texts
        .keys()
        .filter_map(|name| name.strip_suffix(".private"));
    let stems: Vec<String> = stems
        .filter(|stem| is_whole(stem))
        .map(str::to_owned)
        .collect();
    for stem in &stems {
        for end in ENDS {
            let name = format!("{stem}{end}");
            let file = file_name(&name);
            if let (Some(file), Some(text)) = (file, texts.get(&name)) {
                write(&folder.join(file), text)?;
            }
        }
    }
    Ok(match stems.len() {
        0 => Taken::Nothing,
        count => Taken::Given(count),
    })
}

/// Every key in a folder, whichever way its files are called.
pub(crate) fn read(folder: &Path) -> io::Result<KeyTexts> {
    let mut texts = KeyTexts::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(texts),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(field_name) else {
            continue;
        };
        match fs::metadata(entry.path()) {
            Ok(found) if found.is_file() && found.len() <= FILE_LEN_MAX => {}
            // named may just remove it.
            _ => continue,
        }
        if let Ok(text) = fs::read_to_string(entry.path()) {
            texts.insert(name, Zeroizing::new(text));
        }
    }
    Ok(texts)
}

/// By which keys are told from others; nothing where there are none.
pub(crate) fn digest(texts: &KeyTexts) -> Option<String> {
    if texts.is_empty() {
        return None;
    }
    let mut hash = Sha256::new();
    for (name, text) in texts {
        for part in [name.as_bytes(), text.as_bytes()] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
    }
    let bytes: [u8; 32] = hash.finalize().into();
    let (first, _) = bytes.split_first_chunk::<16>()?;
    Some(format!("{:032x}", u128::from_be_bytes(*first)))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    // Never over one that is there: what the server has is newer.
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    match file {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        file => {
            let mut file = file?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        }
    }
}

/// The parts of the name of a key's file, whatever stands between them: what comes before, algorithm and tag, and its
/// end.
fn parts(name: &str) -> Option<(&str, &str, &str, &str)> {
    let end = ENDS.into_iter().find(|end| name.ends_with(end))?;
    let stem = name.strip_suffix(end)?;
    let (stem, tag) = stem.split_at_checked(stem.len().checked_sub(TAG_LEN)?)?;
    let stem = stem.strip_suffix(['+', '_'])?;
    let (stem, algorithm) = stem.split_at_checked(stem.len().checked_sub(ALGORITHM_LEN)?)?;
    let stem = stem.strip_suffix(['+', '_'])?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = stem.starts_with('K')
        && stem.ends_with('.')
        && stem
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (is_plain && is_number(tag) && is_number(algorithm)).then_some((stem, algorithm, tag, end))
}

/// The name of the field of a Secret that has this file.
fn field_name(file: &str) -> Option<String> {
    let (stem, algorithm, tag, end) = parts(file)?;
    Some(format!("{stem}_{algorithm}_{tag}{end}"))
}

/// The file that a field of a Secret is.
fn file_name(field: &str) -> Option<String> {
    let (stem, algorithm, tag, end) = parts(field)?;
    Some(format!("{stem}+{algorithm}+{tag}{end}"))
}

/// The zone of a file, as text.
fn zone_in(name: &str) -> Option<String> {
    let (stem, ..) = parts(name)?;
    Some(stem.strip_prefix('K')?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Name {
        Name::parse("example.com.").unwrap()
    }

    fn put(folder: &Path, stem: &str, ends: &[&str]) {
        for end in ends {
            fs::write(
                folder.join(format!("{stem}{end}")),
                format!("text of {end}"),
            )
            .unwrap();
        }
    }

    fn listed(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn names_go_to_a_secret_and_back() {
        let check = |file: &str, field: &str| {
            assert_eq!(field_name(file).as_deref(), Some(field));
            assert_eq!(file_name(field).as_deref(), Some(file));
        };
        check("Kexample.com.+013+12345.key", "Kexample.com._013_12345.key");
        check(
            "K_tcp.a_b.test.+008+00001.private",
            "K_tcp.a_b.test._008_00001.private",
        );
        check("K.+013+12345.state", "K._013_12345.state");
        for other in [
            "named.pid",
            "Kexample.com.+013+1234.key",
            "Kexample.com.+013+12345.old",
            "Kexample.com+013+12345.key",
            "K0%2F25.test.+013+12345.key",
            "",
            "é+013+12345.key",
        ] {
            assert_eq!(field_name(other), None, "{other}");
        }
    }

    #[test]
    fn given_keys_are_taken_where_the_server_has_none() {
        let (given, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(given.path(), "Kexample.com._013_11111", &ENDS);
        put(given.path(), "Kexample.com._013_22222", &[".key"]);
        put(given.path(), "Kother.test._013_33333", &ENDS);
        let taken = take(Some(given.path()), folder.path(), &zone()).unwrap();
        assert_eq!(
            taken,
            Taken::Given(1),
            "one is not whole, one is another zone's"
        );
        let wanted = ENDS.map(|end| format!("Kexample.com.+013+11111{end}"));
        let mut wanted = wanted.to_vec();
        wanted.sort();
        assert_eq!(listed(folder.path()), wanted);
        put(given.path(), "Kexample.com._013_44444", &ENDS);
        let taken = take(Some(given.path()), folder.path(), &zone()).unwrap();
        assert_eq!(taken, Taken::Had, "what the server has counts");
    }

    #[test]
    fn where_nothing_is_given_nothing_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let taken = take(Some(&missing), folder.path(), &zone()).unwrap();
        assert_eq!(taken, Taken::Nothing);
        assert_eq!(take(None, folder.path(), &zone()).unwrap(), Taken::Nothing);
    }

    #[test]
    fn what_is_shown_changes_with_the_keys() {
        let folder = tempfile::tempdir().unwrap();
        let shown = || digest(&read(folder.path()).unwrap());
        fs::write(folder.path().join("example.com.zone"), "x").unwrap();
        assert_eq!(shown(), None);
        put(folder.path(), "Kexample.com.+013+11111", &ENDS);
        let first = shown();
        assert!(first.is_some());
        assert_eq!(shown(), first);
        put(folder.path(), "Kexample.com.+013+22222", &ENDS);
        assert_ne!(shown(), first);
    }
}
