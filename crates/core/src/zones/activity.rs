//! What a zone is at, and to which steps on its leader that leads.
//!
//! The state of a zone is its phase with some facts beside it. Of the rows below the first counts that
//! holds. Reading back what was written, and visiting followers, goes on beside each of them.
//!
//! ```text
//! Leaderless  no server leads the zone                                  -
//! Reading     the zone, its serial or what changed is being read        -
//! BackingOff  it failed and waits to be tried again                     -
//! Departing   absent, to go, and no server can have anything of it      Close
//! Admitting   absent, and objects are about to own what they ask for    -
//! Absent      not opened yet                                            Open
//! Opening     being created or read for the first time                  -
//! Landing     to be read again, once nothing is on its way              -
//! Stale       everything known of it may be wrong                       Read
//! Drifted     others wrote into it                                      ReadChanges Read
//! Writing     an update is on its way; a full one may follow            Commit
//! Fallen      the leader lost changes that others may have              Rescue
//! Serving     open, and everything in it is known                       Commit Renew Sign Check Read Close
//! Draining    no longer wanted; what is ours goes first                 Commit Renew Read Close
//! Closing     being deleted                                             -
//! Gone        gone                                                      -
//! ```

use std::time::Duration;

use super::{Step, Zone, steps::ADMISSION_MAX};
use crate::tracker::Phase;

/// What a zone is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Leaderless,
    Reading,
    BackingOff,
    Departing,
    Admitting,
    Absent,
    Opening,
    Landing,
    Stale,
    Drifted,
    Writing,
    Fallen,
    Serving,
    Draining,
    Closing,
    Gone,
}

/// Every activity, when it holds and to which steps it may lead; the diagram of this module is printed from
/// it, and every step that a zone takes is held against it in tests and simulations.
const ACTIVITIES: [(Activity, &str, &[&str]); 16] = [
    (Activity::Leaderless, "no server leads the zone", &[]),
    (
        Activity::Reading,
        "the zone, its serial or what changed is being read",
        &[],
    ),
    (
        Activity::BackingOff,
        "it failed and waits to be tried again",
        &[],
    ),
    (
        Activity::Departing,
        "absent, to go, and no server can have anything of it",
        &["Close"],
    ),
    (
        Activity::Admitting,
        "absent, and objects are about to own what they ask for",
        &[],
    ),
    (Activity::Absent, "not opened yet", &["Open"]),
    (
        Activity::Opening,
        "being created or read for the first time",
        &[],
    ),
    (
        Activity::Landing,
        "to be read again, once nothing is on its way",
        &[],
    ),
    (
        Activity::Stale,
        "everything known of it may be wrong",
        &["Read"],
    ),
    (
        Activity::Drifted,
        "others wrote into it",
        &["ReadChanges", "Read"],
    ),
    (
        Activity::Writing,
        "an update is on its way; a full one may follow",
        &["Commit"],
    ),
    (
        Activity::Fallen,
        "the leader lost changes that others may have",
        &["Rescue"],
    ),
    (
        Activity::Serving,
        "open, and everything in it is known",
        &["Commit", "Renew", "Sign", "Check", "Read", "Close"],
    ),
    (
        Activity::Draining,
        "no longer wanted; what is ours goes first",
        &["Commit", "Renew", "Read", "Close"],
    ),
    (Activity::Closing, "being deleted", &[]),
    (Activity::Gone, "gone", &[]),
];

impl Activity {
    /// Whether the table has this step in the row of this activity.
    pub(super) fn allows(self, step: &Step) -> bool {
        let mut rows = ACTIVITIES.iter();
        rows.any(|(one, _, steps)| *one == self && steps.contains(&step.name()))
    }
}

impl Zone {
    /// What the zone is at; `is_due` says that it need not wait because it failed.
    pub(super) fn activity(&self, is_due: bool, now: Duration) -> Activity {
        if self.leader.is_none() {
            return Activity::Leaderless;
        }
        if self.reading {
            return Activity::Reading;
        }
        if !is_due {
            return Activity::BackingOff;
        }
        match self.lifecycle.phase() {
            Phase::NotStarted => self.activity_unopened(now),
            Phase::CreationInProgress => Activity::Opening,
            Phase::Created => self.activity_open(),
            Phase::DeletionPending => Activity::Draining,
            // A zone has no configuration of its own apart from its records.
            Phase::UpdateInProgress | Phase::DeletionInProgress => Activity::Closing,
            Phase::Gone => Activity::Gone,
        }
    }

    fn activity_unopened(&self, now: Duration) -> Activity {
        let Some(since) = self.missing_since else {
            return Activity::Absent;
        };
        // Other servers may have what the leader lost; where there are none, nothing is left.
        if self.is_going() && (self.fleet.is_empty() || !self.has_soa()) {
            return Activity::Departing;
        }
        // A zone that is created with its records needs one message, not one for each batch.
        if now < since + ADMISSION_MAX && !self.asking.is_empty() {
            return Activity::Admitting;
        }
        Activity::Absent
    }

    /// What comes first hides what comes later: nothing is planned on what may be wrong, and nothing is
    /// asked for while our own messages would be taken for those of others.
    fn activity_open(&self) -> Activity {
        let is_doubtful = self.stale || self.drifted;
        if is_doubtful && self.children.has_in_flight() {
            return Activity::Landing;
        }
        if self.stale {
            return Activity::Stale;
        }
        if self.drifted {
            return Activity::Drifted;
        }
        if self.commits > 0 {
            return Activity::Writing;
        }
        if self.losses.asks() && self.serial.is_some() {
            return Activity::Fallen;
        }
        Activity::Serving
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{RecordKey, RecordType, Serial},
        server::{ServerInfo, ServerRole},
    };

    #[test]
    fn the_diagram_is_the_table() {
        let source = include_str!("activity.rs");
        let drawn: Vec<&str> = source
            .lines()
            .skip_while(|line| !line.ends_with("```text"))
            .skip(1)
            .take_while(|line| !line.ends_with("```"))
            .collect();
        let printed = ACTIVITIES.map(|(activity, when, steps)| {
            let steps = match steps {
                [] => "-".to_owned(),
                steps => steps.join(" "),
            };
            format!("//! {:<11} {when:<57} {steps}", format!("{activity:?}"))
        });
        assert_eq!(drawn, printed);
    }

    /// An open zone of which everything is known.
    fn serving() -> Zone {
        let mut zone = Zone {
            leader: Some(ServerInfo::at("192.0.2.1:53", ServerRole::Primary)),
            serial: Some(Serial(1)),
            ..Zone::default()
        };
        zone.lifecycle.begin();
        zone.lifecycle.succeed();
        zone
    }

    fn send_one(zone: &mut Zone) {
        let name = crate::name::Name::parse("www.example.com.").expect("a name");
        zone.children.send(&RecordKey::new(name, RecordType::A));
        zone.commits += 1;
    }

    #[test]
    fn of_all_that_holds_the_first_counts() {
        let at = |zone: &Zone| zone.activity(true, Duration::ZERO);
        let mut zone = serving();
        assert_eq!(at(&zone), Activity::Serving);
        send_one(&mut zone);
        assert_eq!(at(&zone), Activity::Writing);
        zone.drifted = true;
        assert_eq!(at(&zone), Activity::Landing);
        drop(zone.children.recall());
        assert_eq!(at(&zone), Activity::Drifted);
        zone.stale = true;
        assert_eq!(at(&zone), Activity::Stale);
        assert_eq!(zone.activity(false, Duration::ZERO), Activity::BackingOff);
        zone.lifecycle.retire();
        assert_eq!(at(&zone), Activity::Draining);
        zone.reading = true;
        assert_eq!(at(&zone), Activity::Reading);
        zone.leader = None;
        assert_eq!(at(&zone), Activity::Leaderless);
    }

    #[test]
    fn steps_are_held_against_the_table() {
        assert!(Activity::Stale.allows(&Step::Read) && !Activity::Stale.allows(&Step::Check));
        assert!(Activity::Serving.allows(&Step::Check) && !Activity::Gone.allows(&Step::Check));
    }
}
