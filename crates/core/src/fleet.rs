//! The other servers of a zone: which serial each has, and what to do so that all have the newest.
//!
//! One primary leads: plans are made against it and changes go to it first. Every other server
//! follows: primaries are given what the leader has, secondaries fetch it themselves and are looked at.

use std::{sync::Arc, time::Duration};

use crate::{
    fault::{Fault, FaultKind},
    record::Serial,
};

/// What a server does for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It takes updates.
    Primary,
    /// It fetches the zone from primaries.
    Secondary,
}

impl Role {
    /// The word as it stands in a status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// Looks that found an old serial before a secondary is told to look for news: a word of the primary
/// may be lost on the way, and would be repeated much later.
const REFRESH_AFTER: u32 = 6;

/// A server of every zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Where it listens: `192.0.2.1:53`.
    pub address: Arc<str>,
    /// What it does.
    pub role: Role,
}

/// Something to do about one follower, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerTask {
    /// Give this primary what the leader has.
    Sync(usize, Known),
    /// Ask this secondary for its serial.
    Probe(usize),
    /// Tell this secondary to look for news, since it did not by itself, and ask it.
    Refresh(usize),
}

/// What is known of a primary that is to be given what the leader has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// At this serial it had what the leader had.
    pub same: Option<Serial>,
    /// What it had at this serial and the leader did not may be taken away.
    pub sifted: Option<Serial>,
}

/// How a follower is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerState {
    /// Which server it is.
    pub info: ServerInfo,
    /// The serial that it had when it was last asked.
    pub serial: Option<Serial>,
    /// Whether it has what the leader has.
    pub current: bool,
    /// Why it could not be asked or written.
    pub fault: Option<Fault>,
}

/// Bounds of the patience with followers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The first wait after a look that found an old serial; it doubles.
    pub first: Duration,
    /// The longest wait while a follower is behind.
    pub behind_max: Duration,
    /// How often a follower that is current is looked at, if there are few zones.
    pub idle: Duration,
    /// How long a follower may be behind before that is worth a word.
    pub grace: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(2),
            behind_max: Duration::from_secs(1),
            idle: Duration::from_secs(1),
            grace: Duration::from_secs(1),
        }
    }
}

/// The followers of one zone.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    followers: Vec<Follower>,
    target: Option<Serial>,
}

#[derive(Clone, Debug)]
struct Follower {
    address: Arc<str>,
    role: Role,
    serial: Option<Serial>,
    /// The serial at which it was last known to have what the leader has. Another one was made by
    /// somebody else, even if the leader has the same by now.
    copied: Option<Serial>,
    /// The serial at which it has nothing of others that the leader lacks.
    sifted: Option<Serial>,
    fault: Option<Fault>,
    busy: bool,
    attempts: u32,
    not_before: Duration,
    behind_since: Option<Duration>,
}

impl Fleet {
    /// A fleet of which nothing is known yet.
    #[must_use]
    pub fn new(members: &[ServerInfo]) -> Self {
        let follower = |info: &ServerInfo| Follower {
            address: Arc::clone(&info.address),
            role: info.role,
            serial: None,
            copied: None,
            sifted: None,
            fault: None,
            busy: false,
            attempts: 0,
            not_before: Duration::ZERO,
            behind_since: None,
        };
        Self {
            followers: members.iter().map(follower).collect(),
            target: None,
        }
    }

    /// The leader has this serial now; who has another is told, or asked, at once.
    pub fn aim(&mut self, serial: Serial, now: Duration) {
        if self.target == Some(serial) {
            return;
        }
        if self.target.is_some_and(|target| target.newer_than(serial)) {
            self.forget_copies();
        }
        self.target = Some(serial);
        for follower in &mut self.followers {
            if follower.serial != Some(serial) {
                follower.attempts = 0;
                follower.not_before = now;
                follower.behind_since.get_or_insert(now);
            }
        }
    }

    /// The leader lost what it had: no serial stands for the same on two servers any more.
    pub fn forget_copies(&mut self) {
        for follower in &mut self.followers {
            (follower.copied, follower.sifted) = (None, None);
        }
    }

    /// A primary has records, at this serial, that the leader lacks. Where none of them is to be kept they
    /// may go; else it is looked at again when the leader has them too.
    pub fn differs(&mut self, index: usize, sifted: Option<Serial>, now: Duration) {
        if let Some(follower) = self.followers.get_mut(index) {
            follower.sifted = sifted;
            // A serial would say that it has what the leader has.
            follower.serial = None;
            follower.fault = None;
            follower.busy = false;
            follower.behind_since.get_or_insert(now);
            follower.not_before = now;
        }
    }

    /// The newest serial that some follower has.
    #[must_use]
    pub fn newest(&self) -> Option<Serial> {
        let serials = self.followers.iter().filter_map(|one| one.serial);
        serials.reduce(|one, other| if other.newer_than(one) { other } else { one })
    }

    /// A server answers again: whoever could not be asked is asked at once.
    pub fn revive(&mut self, now: Duration) {
        for follower in &mut self.followers {
            if follower.fault.is_some() {
                follower.not_before = now;
            }
        }
    }

    /// The next thing to do, which must be answered with [`Self::complete`].
    pub fn next(&mut self, now: Duration) -> Option<FollowerTask> {
        self.target?;
        let due = |one: &Follower| !one.busy && one.not_before <= now;
        let index = self.followers.iter().position(due)?;
        let follower = &mut self.followers[index];
        follower.busy = true;
        Some(match follower.role {
            Role::Primary => FollowerTask::Sync(
                index,
                Known {
                    same: follower.copied,
                    sifted: follower.sifted.take(),
                },
            ),
            Role::Secondary if follower.attempts >= REFRESH_AFTER => FollowerTask::Refresh(index),
            Role::Secondary => FollowerTask::Probe(index),
        })
    }

    /// Takes in which serial a follower has now.
    pub fn complete(
        &mut self,
        index: usize,
        result: Result<Serial, Fault>,
        pace: &Pace,
        now: Duration,
    ) {
        let target = self.target;
        let Some(follower) = self.followers.get_mut(index) else {
            return;
        };
        follower.busy = false;
        match result {
            Ok(serial) => {
                follower.serial = Some(serial);
                // One that is ahead has something else.
                if target.is_some_and(|target| !serial.newer_than(target)) {
                    follower.copied = Some(serial);
                }
                follower.fault = None;
            }
            Err(fault) => {
                follower.serial = None;
                follower.fault = Some(fault);
            }
        }
        if follower.serial.is_some() && follower.serial == target {
            follower.attempts = 0;
            follower.behind_since = None;
            follower.not_before = now + pace.idle;
            return;
        }
        follower.behind_since.get_or_insert(now);
        let wait = pace.first * 2_u32.saturating_pow(follower.attempts.min(16));
        follower.attempts += 1;
        follower.not_before = now + wait.min(pace.behind_max);
    }

    /// When a follower is due by itself.
    #[must_use]
    pub fn wake(&self) -> Option<Duration> {
        self.target?;
        let idle = self.followers.iter().filter(|one| !one.busy);
        idle.map(|one| one.not_before).min()
    }

    /// The newest serial that some follower has and the leader does not: the leader must go beyond it,
    /// since no server takes an older serial.
    #[must_use]
    pub fn ahead(&self) -> Option<Serial> {
        let target = self.target?;
        let newer = self.followers.iter().filter_map(|one| one.serial);
        newer
            .filter(|serial| serial.newer_than(target))
            .reduce(|one, other| if other.newer_than(one) { other } else { one })
    }

    /// Whether every follower has this serial or a later one of the leader. One that is ahead of the leader
    /// has something else.
    #[must_use]
    pub fn has(&self, serial: Serial) -> bool {
        let is_ahead = |has: Serial| self.target.is_some_and(|target| has.newer_than(target));
        self.followers.iter().all(|one| {
            one.serial
                .is_some_and(|has| (has == serial || has.newer_than(serial)) && !is_ahead(has))
        })
    }

    /// Whether all is well, and known to be so of this follower.
    #[must_use]
    pub fn expects(&self, index: usize, serial: Serial) -> bool {
        let follower = self.followers.get(index);
        let known = follower.is_some_and(|one| one.serial == Some(serial) && one.fault.is_none());
        known && self.is_current()
    }

    /// Whether every follower has what the leader has.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.states().all(|one| one.current)
    }

    /// What to say about the first follower that is behind for longer than the grace.
    #[must_use]
    pub fn lateness(&self, pace: &Pace, now: Duration, leader: Option<Serial>) -> Option<Fault> {
        let is_late = |one: &&Follower| one.behind_since.is_some_and(|at| now >= at + pace.grace);
        let late = self.followers.iter().find(is_late)?;
        if let Some(fault) = &late.fault {
            return Some(Fault::new(FaultKind::Behind, fault.message.clone()));
        }
        let has = late
            .serial
            .map_or_else(String::new, |has| format!(" {has}"));
        let wants = leader.map_or_else(String::new, |leader| format!(" {leader}"));
        Some(Fault::new(
            FaultKind::Behind,
            format!(
                "the {} {} has serial{has}, not{wants}: see whether it reaches the primary",
                late.role.as_str(),
                late.address
            ),
        ))
    }

    /// When the first follower that is behind has used up its grace.
    #[must_use]
    pub fn grace_ends(&self, pace: &Pace) -> Option<Duration> {
        let since = self.followers.iter().filter_map(|one| one.behind_since);
        since.min().map(|since| since + pace.grace)
    }

    /// The positions of those that do not have the leader's serial.
    pub fn behind(&self) -> impl Iterator<Item = usize> {
        let followers = self.followers.iter().enumerate();
        followers
            .filter(|(_, one)| self.target.is_some() && one.serial != self.target)
            .map(|(position, _)| position)
    }

    /// How each follower is, in their order.
    pub fn states(&self) -> impl Iterator<Item = FollowerState> {
        self.followers.iter().map(|one| FollowerState {
            info: ServerInfo {
                address: Arc::clone(&one.address),
                role: one.role,
            },
            serial: one.serial,
            current: one.serial.is_some() && one.serial == self.target,
            fault: one.fault.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        first: Duration::from_millis(2),
        behind_max: Duration::from_secs(1),
        idle: Duration::from_secs(10),
        grace: Duration::from_secs(1),
    };

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn of(roles: &[Role]) -> Fleet {
        let info = |role: &Role| ServerInfo {
            address: "192.0.2.1:53".into(),
            role: *role,
        };
        Fleet::new(&roles.iter().map(info).collect::<Vec<_>>())
    }

    fn fleet() -> Fleet {
        of(&[Role::Primary, Role::Secondary])
    }

    #[test]
    fn nothing_is_done_before_the_lead_has_a_serial() {
        let mut fleet = fleet();
        assert_eq!(fleet.next(at(0)), None);
        assert_eq!(fleet.wake(), None);
    }

    #[test]
    fn every_follower_is_visited_once_at_a_time_until_it_has_the_serial() {
        let mut fleet = fleet();
        fleet.aim(Serial(5), at(0));
        assert_eq!(
            fleet.next(at(0)),
            Some(FollowerTask::Sync(0, Known::default()))
        );
        assert_eq!(fleet.next(at(0)), Some(FollowerTask::Probe(1)));
        assert_eq!(fleet.next(at(0)), None);
        fleet.complete(0, Ok(Serial(5)), &PACE, at(1));
        fleet.complete(1, Ok(Serial(4)), &PACE, at(1));
        assert!(!fleet.has(Serial(5)) && fleet.has(Serial(4)));
        assert_eq!(fleet.next(at(2)), None);
        assert_eq!(fleet.next(at(3)), Some(FollowerTask::Probe(1)));
        fleet.complete(1, Ok(Serial(5)), &PACE, at(4));
        assert!(fleet.is_current());
        assert_eq!(fleet.wake(), Some(at(10_001)));
    }

    #[test]
    fn waiting_grows_to_a_bound_and_begins_anew_with_a_new_serial() {
        let mut fleet = of(&[Role::Secondary]);
        fleet.aim(Serial(5), at(0));
        for round in 0..40 {
            let now = at(10_000 * round);
            let wanted = if round < 6 {
                FollowerTask::Probe(0)
            } else {
                FollowerTask::Refresh(0)
            };
            assert_eq!(fleet.next(now), Some(wanted));
            let fault = Fault::new(FaultKind::Unreachable, "down");
            fleet.complete(0, Err(fault), &PACE, now);
            assert!(fleet.wake() <= Some(now + PACE.behind_max));
        }
        fleet.aim(Serial(6), at(400_000));
        assert_eq!(fleet.next(at(400_000)), Some(FollowerTask::Probe(0)));
    }

    #[test]
    fn a_follower_that_is_ahead_is_noticed() {
        let mut fleet = fleet();
        fleet.aim(Serial(5), at(0));
        fleet.complete(0, Ok(Serial(7)), &PACE, at(0));
        fleet.complete(1, Ok(Serial(9)), &PACE, at(0));
        assert_eq!(fleet.ahead(), Some(Serial(9)));
        fleet.aim(Serial(10), at(1));
        assert_eq!(fleet.ahead(), None);
    }

    #[test]
    fn a_laggard_is_named_after_a_grace() {
        let mut fleet = of(&[Role::Secondary]);
        fleet.aim(Serial(5), at(0));
        fleet.complete(0, Ok(Serial(4)), &PACE, at(10));
        assert_eq!(fleet.lateness(&PACE, at(20), None), None);
        assert_eq!(fleet.grace_ends(&PACE), Some(at(1_000)));
        let told = fleet.lateness(&PACE, at(1_000), Some(Serial(5)));
        let told = told.expect("it is late").message;
        assert!(told.contains("192.0.2.1:53 has serial 4, not 5"), "{told}");
    }
}
