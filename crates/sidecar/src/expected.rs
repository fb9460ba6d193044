//! The zones that a server should have, and which of them it lacks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bindery_core::{Name, Serial};
use serde::{Deserialize, Serialize};

use crate::content;

/// The file in the zones' folder in which the list lies that came over HTTP. It goes with the zones: a pod
/// that comes back with an empty folder waits for both.
pub const EXPECTED_FILE: &str = "expected-zones.json";

/// How many zones that are missing are named; the rest is counted.
const NAMED_MAX: usize = 5;

/// What a server should have, as it is written to a file or sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedZones {
    /// Every zone.
    pub zones: Vec<ExpectedZone>,
}

/// One zone that a server should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedZone {
    /// Its name.
    pub name: String,
    /// The serial that it must have, or a newer one; without it any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
}

/// Zones and the serials that they must have at least.
pub(crate) type Targets = BTreeMap<Name, Option<Serial>>;

/// Where the list comes from, and what it was last.
pub(crate) struct Expectation {
    /// A file that somebody else writes.
    file: Option<PathBuf>,
    /// The file that keeps what came over HTTP.
    kept: PathBuf,
    /// Whether nothing is known without a list.
    must_wait: bool,
    last: Mutex<Last>,
}

/// The lists that were read last and were sound.
#[derive(Default)]
struct Last {
    file: Option<Targets>,
    sent: Option<Targets>,
}

/// What the list says now.
pub(crate) enum Expecting {
    /// These zones.
    Zones(Targets),
    /// Nothing was asked for.
    Nothing,
    /// It is not known yet, and has to be.
    Unknown(String),
}

/// How one zone is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is served at this serial.
    Served(Serial),
    /// It is not.
    Missing,
}

impl Expectation {
    pub(crate) fn new(folder: &Path, file: Option<PathBuf>, must_wait: bool) -> Self {
        Self {
            must_wait: must_wait || file.is_some(),
            file,
            kept: folder.join(EXPECTED_FILE),
            last: Mutex::default(),
        }
    }

    /// What is expected now. The files are read each time: they are small, and somebody else writes them.
    pub(crate) async fn fetch(&self) -> Expecting {
        let file = match &self.file {
            Some(path) => Some((path, read(path).await)),
            None => None,
        };
        let sent = read(&self.kept).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(targets) = sent {
            last.sent = Some(targets);
        }
        if let Some((path, read)) = file {
            match read {
                Ok(targets) => last.file = Some(targets),
                // What was sound goes on counting: a slip of the pen takes no server out of rotation.
                Err(problem) if last.file.is_none() => {
                    return Expecting::Unknown(format!("{}: {problem}", path.display()));
                }
                Err(_) => {}
            }
        }
        match (&last.file, &last.sent) {
            (None, None) if self.must_wait => {
                Expecting::Unknown("nobody has told which zones there shall be".to_owned())
            }
            (None, None) => Expecting::Nothing,
            (file, sent) => Expecting::Zones(both(file.as_ref(), sent.as_ref())),
        }
    }

    /// Takes a list that came over HTTP, and keeps it beside the zones.
    ///
    /// # Cancellation
    /// If dropped, the former list or this one is kept, whole.
    pub(crate) async fn write(&self, list: &ExpectedZones, targets: Targets) -> io::Result<()> {
        let (path, text) = (self.kept.clone(), serde_json::to_vec(list)?);
        let writing = move || crate::named::files::write_whole(&path, &text);
        tokio::task::spawn_blocking(writing)
            .await
            .map_err(io::Error::other)??;
        let mut known = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        known.sent = Some(targets);
        Ok(())
    }
}

/// Reads a list; the text says what is wrong with it.
pub(crate) fn targets(list: &ExpectedZones) -> Result<Targets, String> {
    let mut targets = Targets::new();
    for zone in &list.zones {
        let name = content::zone_name(&zone.name).map_err(|problem| problem.to_string())?;
        targets.insert(name, zone.serial.map(Serial));
    }
    Ok(targets)
}

/// Whether a zone that was found is what it should be.
pub(crate) fn is_met(target: Option<Serial>, found: Found) -> bool {
    match (target, found) {
        (_, Found::Missing) => false,
        (None, Found::Served(_)) => true,
        (Some(target), Found::Served(serial)) => !target.newer_than(serial),
    }
}

/// What is missing, for people; nothing where nothing is.
pub(crate) fn lacks(targets: &Targets, found: &BTreeMap<Name, Found>) -> Option<String> {
    let lacking: Vec<String> = targets
        .iter()
        .filter_map(|(zone, target)| {
            let found = found.get(zone).copied().unwrap_or(Found::Missing);
            (!is_met(*target, found)).then(|| match (target, found) {
                (Some(target), Found::Served(serial)) => {
                    format!("{zone} has serial {serial} and should have {target}")
                }
                (Some(_) | None, Found::Missing) | (None, Found::Served(_)) => {
                    format!("{zone} is not loaded")
                }
            })
        })
        .collect();
    if lacking.is_empty() {
        return None;
    }
    let named = lacking[..lacking.len().min(NAMED_MAX)].join("; ");
    let rest = match lacking.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let of = targets.len();
    Some(format!(
        "{} of {of} zones lack: {named}{rest}",
        lacking.len()
    ))
}

async fn read(path: &Path) -> Result<Targets, String> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| format!("cannot be read: {error}"))?;
    // JSON is YAML too.
    let list: ExpectedZones =
        serde_saphyr::from_str(&text).map_err(|error| format!("is no list of zones: {error}"))?;
    targets(&list)
}

/// What meets both lists.
fn both(one: Option<&Targets>, other: Option<&Targets>) -> Targets {
    let mut all = one.cloned().unwrap_or_default();
    for (zone, serial) in other.into_iter().flatten() {
        let standing = all.entry(zone.clone()).or_insert(*serial);
        *standing = match (*standing, *serial) {
            (Some(one), Some(other)) if other.newer_than(one) => Some(other),
            (Some(one), _) => Some(one),
            (None, other) => other,
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Targets {
        targets(&serde_saphyr::from_str(text).unwrap()).unwrap()
    }

    fn zone(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_zone_must_be_there_at_its_serial_or_a_newer_one() {
        let target = Some(Serial(7));
        assert!(is_met(target, Found::Served(Serial(7))));
        assert!(is_met(target, Found::Served(Serial(8))));
        assert!(!is_met(target, Found::Served(Serial(6))));
        assert!(!is_met(target, Found::Missing));
        assert!(is_met(None, Found::Served(Serial(1))));
        assert!(!is_met(None, Found::Missing));
        // Around the circle.
        assert!(is_met(Some(Serial(u32::MAX)), Found::Served(Serial(2))));
    }

    #[test]
    fn what_is_missing_is_named() {
        let targets = list("zones: [{name: a.test, serial: 5}, {name: b.test}, {name: c.test}]");
        let found = BTreeMap::from([
            (zone("a.test."), Found::Served(Serial(3))),
            (zone("b.test."), Found::Served(Serial(1))),
        ]);
        assert_eq!(
            lacks(&targets, &found).unwrap(),
            "2 of 3 zones lack: a.test. has serial 3 and should have 5; c.test. is not loaded"
        );
        assert_eq!(lacks(&list("zones: []"), &BTreeMap::new()), None);
    }

    #[test]
    fn of_two_lists_both_must_be_met() {
        let one = list("zones: [{name: a.test, serial: 5}, {name: b.test}]");
        let other = list("zones: [{name: a.test, serial: 4}, {name: b.test, serial: 2}]");
        let all = both(Some(&one), Some(&other));
        assert_eq!(all[&zone("a.test.")], Some(Serial(5)));
        assert_eq!(all[&zone("b.test.")], Some(Serial(2)));
    }

    #[tokio::test]
    async fn a_server_with_an_empty_folder_knows_nothing_until_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let expectation = || Expectation::new(folder.path(), None, true);
        assert!(matches!(expectation().fetch().await, Expecting::Unknown(_)));
        let told: ExpectedZones = serde_saphyr::from_str("zones: [{name: a.test}]").unwrap();
        let first = expectation();
        first.write(&told, targets(&told).unwrap()).await.unwrap();
        // Also after a restart beside the same zones.
        for one in [first, expectation()] {
            let Expecting::Zones(zones) = one.fetch().await else {
                panic!("it was told");
            };
            assert!(zones.contains_key(&zone("a.test.")));
        }
        let other = tempfile::tempdir().unwrap();
        let empty = Expectation::new(other.path(), None, true);
        assert!(matches!(empty.fetch().await, Expecting::Unknown(_)));
    }

    #[tokio::test]
    async fn a_file_counts_as_soon_as_it_is_there_and_stays_when_it_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.yaml");
        let expectation = Expectation::new(folder.path(), Some(path.clone()), false);
        assert!(matches!(expectation.fetch().await, Expecting::Unknown(_)));
        std::fs::write(&path, "zones: [{name: a.test, serial: 1}]").unwrap();
        assert!(matches!(expectation.fetch().await, Expecting::Zones(zones) if zones.len() == 1));
        std::fs::write(&path, "zones: [{nam").unwrap();
        assert!(matches!(expectation.fetch().await, Expecting::Zones(zones) if zones.len() == 1));
        std::fs::write(&path, "zones: []").unwrap();
        assert!(matches!(expectation.fetch().await, Expecting::Zones(zones) if zones.is_empty()));
        let fresh = Expectation::new(folder.path(), Some(path), false);
        assert!(matches!(fresh.fetch().await, Expecting::Zones(zones) if zones.is_empty()));
    }
}
