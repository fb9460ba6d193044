//! The zones that a server should have, and which of them it lacks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bindery_core::{Name, Serial};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::content;

/// The file in the zones' folder in which the list lies that came over HTTP. It goes with the zones: a pod
/// that comes back with an empty folder waits for both.
pub const EXPECTED_FILE: &str = "expected-zones.json";

/// How long a server that started anew waits to be told the serials of now. Whoever tells them is away then, so
/// that nothing newer is called ready, and what was told before counts.
const UNTOLD_MAX: Duration = Duration::from_secs(30);

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
    /// Why the file could not be read, some time.
    file_problem: Option<String>,
    sent: Option<Targets>,
    /// The start of `named` that the sent list was for.
    told: Option<String>,
    /// The start of `named` that was seen last, and since when.
    seen: Option<(String, Instant)>,
}

/// A list that came over HTTP, as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptList {
    zones: Vec<ExpectedZone>,
    /// When the `named` had started that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named: Option<String>,
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

    /// What is expected now of the `named` that started then. The files are read each time: they are small, and
    /// somebody else writes them.
    ///
    /// A list counts for the start that it was told for. Whatever `named` had on its disk, records may have been
    /// called ready without it while it was away.
    pub(crate) async fn fetch(&self, started: Option<&str>) -> Expecting {
        self.read_all().await;
        let mut last = self.lock();
        let untold = last.untold_for(started);
        if let (None, Some(problem)) = (&last.file, &last.file_problem) {
            return Expecting::Unknown(problem.clone());
        }
        match (&last.file, &last.sent) {
            (None, None) if self.must_wait => {
                Expecting::Unknown("nobody has told which zones there shall be".to_owned())
            }
            (None, None) => Expecting::Nothing,
            (_, Some(_)) if self.must_wait && untold.is_some_and(|time| time < UNTOLD_MAX) => {
                Expecting::Unknown(
                    "named started anew, and nobody has told which serials there are now"
                        .to_owned(),
                )
            }
            (file, sent) => Expecting::Zones(both(file.as_ref(), sent.as_ref())),
        }
    }

    /// Whether whoever tells what is expected should do so for the `named` that started then.
    pub(crate) async fn is_untold(&self, started: Option<&str>) -> bool {
        self.read_all().await;
        let mut last = self.lock();
        let untold = last.untold_for(started);
        self.must_wait
            && match (&last.file, &last.sent) {
                (None, None) => true,
                (_, Some(_)) => untold.is_some(),
                (Some(_), None) => false,
            }
    }

    /// Every zone that was ever told of.
    pub(crate) async fn known(&self) -> Vec<Name> {
        self.read_all().await;
        let last = self.lock();
        let all = both(last.file.as_ref(), last.sent.as_ref());
        all.into_keys().collect()
    }

    /// Takes a list that came over HTTP for the `named` that started then, and keeps it beside the zones.
    ///
    /// # Cancellation
    /// If dropped, the former list or this one is kept, whole.
    pub(crate) async fn write(
        &self,
        list: ExpectedZones,
        targets: Targets,
        started: Option<String>,
    ) -> io::Result<()> {
        let kept = KeptList {
            zones: list.zones,
            named: started.clone(),
        };
        let (path, text) = (self.kept.clone(), serde_json::to_vec(&kept)?);
        let writing = move || crate::named::files::write_whole(&path, &text);
        tokio::task::spawn_blocking(writing)
            .await
            .map_err(io::Error::other)??;
        let mut known = self.lock();
        known.sent = Some(targets);
        known.told = started;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in both lists; what was sound goes on counting: a slip of the pen takes no server out of rotation.
    async fn read_all(&self) {
        let file = match &self.file {
            Some(path) => Some((path, read(path).await)),
            None => None,
        };
        let sent = read_kept(&self.kept).await;
        let mut last = self.lock();
        match file {
            Some((_, Ok(targets))) => last.file = Some(targets),
            Some((path, Err(problem))) => {
                last.file_problem = Some(format!("{}: {problem}", path.display()));
            }
            None => {}
        }
        if let Some((targets, told)) = sent {
            last.sent = Some(targets);
            last.told = told;
        }
    }
}

impl Last {
    /// For how long nobody has told what is expected of the `named` that started then; nothing where somebody has,
    /// or `named` does not answer.
    fn untold_for(&mut self, started: Option<&str>) -> Option<Duration> {
        let started = started?;
        if self.told.as_deref() == Some(started) {
            return None;
        }
        match &self.seen {
            Some((seen, since)) if seen == started => Some(since.elapsed()),
            Some(_) | None => {
                self.seen = Some((started.to_owned(), Instant::now()));
                Some(Duration::ZERO)
            }
        }
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

/// The list that was kept, and the start of `named` that it was for.
async fn read_kept(path: &Path) -> Option<(Targets, Option<String>)> {
    let text = tokio::fs::read(path).await.ok()?;
    let KeptList { zones, named } = serde_json::from_slice(&text).ok()?;
    Some((targets(&ExpectedZones { zones }).ok()?, named))
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
        assert!(matches!(
            expectation().fetch(None).await,
            Expecting::Unknown(_)
        ));
        let told: ExpectedZones = serde_saphyr::from_str("zones: [{name: a.test}]").unwrap();
        let first = expectation();
        let goals = targets(&told).unwrap();
        first.write(told, goals, None).await.unwrap();
        // Also after a restart beside the same zones.
        for one in [first, expectation()] {
            let Expecting::Zones(zones) = one.fetch(None).await else {
                panic!("it was told");
            };
            assert!(zones.contains_key(&zone("a.test.")));
        }
        let other = tempfile::tempdir().unwrap();
        let empty = Expectation::new(other.path(), None, true);
        assert!(matches!(empty.fetch(None).await, Expecting::Unknown(_)));
    }

    #[tokio::test]
    async fn a_file_counts_as_soon_as_it_is_there_and_stays_when_it_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.yaml");
        let expectation = Expectation::new(folder.path(), Some(path.clone()), false);
        assert!(matches!(
            expectation.fetch(None).await,
            Expecting::Unknown(_)
        ));
        std::fs::write(&path, "zones: [{name: a.test, serial: 1}]").unwrap();
        assert!(
            matches!(expectation.fetch(None).await, Expecting::Zones(zones) if zones.len() == 1)
        );
        std::fs::write(&path, "zones: [{nam").unwrap();
        assert!(
            matches!(expectation.fetch(None).await, Expecting::Zones(zones) if zones.len() == 1)
        );
        std::fs::write(&path, "zones: []").unwrap();
        assert!(
            matches!(expectation.fetch(None).await, Expecting::Zones(zones) if zones.is_empty())
        );
        let fresh = Expectation::new(folder.path(), Some(path), false);
        assert!(matches!(fresh.fetch(None).await, Expecting::Zones(zones) if zones.is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_named_that_started_anew_waits_for_the_serials_of_now_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let tell = async |expectation: &Expectation, started: &str| {
            let told: ExpectedZones =
                serde_saphyr::from_str("zones: [{name: a.test, serial: 7}]").unwrap();
            let goals = targets(&told).unwrap();
            let started = Some(started.to_owned());
            expectation.write(told, goals, started).await.unwrap();
        };
        let is_known = async |expectation: &Expectation, started: &str| {
            matches!(expectation.fetch(Some(started)).await, Expecting::Zones(_))
        };
        let first = Expectation::new(folder.path(), None, true);
        assert!(first.is_untold(Some("monday")).await);
        tell(&first, "monday").await;
        assert!(is_known(&first, "monday").await);
        // A sidecar that starts anew beside the same named knows what it knew.
        let second = Expectation::new(folder.path(), None, true);
        assert!(is_known(&second, "monday").await);
        assert!(!second.is_untold(Some("monday")).await);
        // Of a named that was away nobody knows what it missed.
        assert!(!is_known(&second, "tuesday").await);
        assert!(second.is_untold(Some("tuesday")).await);
        tell(&second, "tuesday").await;
        assert!(is_known(&second, "tuesday").await);
        // Where nobody tells, nothing is called ready either.
        assert!(!is_known(&second, "friday").await);
        tokio::time::advance(UNTOLD_MAX).await;
        assert!(is_known(&second, "friday").await);
        assert!(second.is_untold(Some("friday")).await);
        // Who does not have to wait does not.
        let other = Expectation::new(folder.path(), None, false);
        assert!(is_known(&other, "sunday").await);
        assert!(!other.is_untold(Some("sunday")).await);
    }
}
