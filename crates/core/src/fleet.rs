//! The servers of a zone beside its leader: which serial each has, and what to do so that all have the newest.
//!
//! One primary leads: plans are made against it and changes go to it first. Every other server
//! follows: primaries are given what the leader has, secondaries fetch it themselves and are looked at.
//!
//! A follower that does not answer is out of rotation: nobody waits for it. It comes back when it answers
//! and has what the leader has.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::{
    fault::{Fault, FaultKind},
    record::Serial,
    server::{ServerId, ServerInfo, ServerRole},
};

/// Looks that found an old serial before a secondary is told to look for news: a word of the primary
/// may be lost on the way, and would be repeated much later.
const REFRESH_AFTER: u32 = 6;

/// One visit to one follower. Its answer counts only while the follower still waits for it: one that was
/// taken out, or moved, meanwhile is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Whom it goes to.
    pub server: ServerId,
    /// Which visit of this zone it is.
    pub number: u32,
}

/// Something to do about one follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerTask {
    /// Whom it is about.
    pub visit: Visit,
    /// What is to be done.
    pub action: FollowerAction,
}

/// What is to be done about a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerAction {
    /// Give this primary what the leader has.
    Sync(Known),
    /// Ask this secondary for its serial.
    Probe,
    /// Tell this secondary to look for news, since it did not by itself, and ask it.
    Refresh,
}

/// What is known of a primary that is to be given what the leader has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// At this serial it had what the leader had.
    pub same: Option<Serial>,
    /// What it had at this serial and the leader did not may be taken away.
    pub sifted: Option<Serial>,
    /// Whether it led, so that it may have what no other server has.
    pub past: Past,
}

/// What a follower was before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Past {
    /// It followed. An older version than the leader's has nothing new in it.
    #[default]
    Followed,
    /// It led, and everything that it had at this serial is known.
    Led(Serial),
    /// It may have led, and nothing of what it has is known.
    Unknown,
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

/// The followers of one zone, in the order in which servers are named.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    followers: Vec<Follower>,
    target: Option<Serial>,
    visits: u32,
}

/// Whether a follower is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    /// It is, and what is served must be on it.
    In,
    /// It does not answer; nothing is asked of it until it does.
    Silent,
    /// It answers again and is brought to what the leader has.
    CatchingUp,
}

#[derive(Clone, Debug)]
struct Follower {
    info: ServerInfo,
    rotation: Rotation,
    past: Past,
    /// It joined a zone that was served already, and never had what the leader has since.
    is_new: bool,
    serial: Option<Serial>,
    /// The serial at which it was last known to have what the leader has. Another one was made by
    /// somebody else, even if the leader has the same by now.
    copied: Option<Serial>,
    /// The serial at which it has nothing of others that the leader lacks.
    sifted: Option<Serial>,
    fault: Option<Fault>,
    /// The visit whose answer is waited for.
    visit: Option<u32>,
    attempts: u32,
    not_before: Duration,
    behind_since: Option<Duration>,
}

impl Follower {
    fn new(info: &ServerInfo) -> Self {
        Self {
            info: info.clone(),
            rotation: Rotation::In,
            past: Past::Followed,
            is_new: false,
            serial: None,
            copied: None,
            sifted: None,
            fault: None,
            visit: None,
            attempts: 0,
            not_before: Duration::ZERO,
            behind_since: None,
        }
    }

    fn fall_silent(&mut self, fault: &Fault, now: Duration) {
        self.rotation = Rotation::Silent;
        self.serial = None;
        self.fault = Some(fault.clone());
        self.behind_since.get_or_insert(now);
    }
}

impl Fleet {
    /// A fleet of which nothing is known yet.
    #[must_use]
    pub fn new<'a>(servers: impl IntoIterator<Item = &'a ServerInfo>) -> Self {
        Self {
            followers: servers.into_iter().map(Follower::new).collect(),
            ..Self::default()
        }
    }

    /// Takes in which followers there are now. Of one that moved or does something else, no more is known
    /// than this past; one that joins a zone which is served, and so has a past, counts once it has caught up.
    pub fn set_servers<'a>(
        &mut self,
        servers: impl IntoIterator<Item = &'a ServerInfo>,
        past: Option<Past>,
        now: Duration,
    ) {
        let mut before = std::mem::take(&mut self.followers);
        let is_new = self.target.is_some();
        let follower = |info: &ServerInfo| {
            let known = before.iter().position(|one| one.info == *info);
            if let Some(at) = known {
                return before.swap_remove(at);
            }
            let mut follower = Follower::new(info);
            follower.behind_since = is_new.then_some(now);
            if past.is_some() {
                follower.rotation = Rotation::CatchingUp;
                follower.is_new = true;
            }
            // Nobody writes on a secondary.
            if info.role == ServerRole::Primary {
                follower.past = past.unwrap_or_default();
            }
            follower
        };
        self.followers = servers.into_iter().map(follower).collect();
    }

    /// One of the followers leads from now on, and no serial stands for the same on two servers before it
    /// was read. The one that led follows, if there is still such a server.
    pub fn change_leader(
        &mut self,
        leader: &ServerId,
        former: Option<(&ServerInfo, Past)>,
        now: Duration,
    ) {
        self.followers.retain(|one| one.info.id != *leader);
        self.target = None;
        self.forget_copies();
        for follower in &mut self.followers {
            // Its answer would speak of what the former leader had.
            follower.visit = None;
            follower.serial = None;
            follower.behind_since.get_or_insert(now);
            follower.not_before = now;
        }
        if let Some((info, past)) = former {
            let mut follower = Follower::new(info);
            follower.past = past;
            follower.rotation = Rotation::CatchingUp;
            follower.behind_since = Some(now);
            self.followers.push(follower);
        }
    }

    /// Whether a server joined a zone that was served already, and never had what the leader has since.
    #[must_use]
    pub fn is_new(&self, server: &ServerId) -> bool {
        let known = self.followers.iter().find(|one| one.info.id == *server);
        known.is_none_or(|one| one.is_new)
    }

    /// A server does not answer: nobody waits for it.
    pub fn fall_silent(&mut self, server: &ServerId, fault: &Fault, now: Duration) {
        if let Some(follower) = self.find(server) {
            follower.fall_silent(fault, now);
        }
    }

    /// A server answers again: it is brought to what the leader has at once.
    pub fn answer(&mut self, server: &ServerId, now: Duration) {
        let Some(follower) = self.find(server) else {
            return;
        };
        if follower.rotation == Rotation::Silent {
            follower.rotation = Rotation::CatchingUp;
        }
        if follower.fault.is_some() {
            follower.attempts = 0;
            follower.not_before = now;
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
    pub fn differs(&mut self, visit: &Visit, sifted: Option<Serial>, now: Duration) {
        if let Some(follower) = self.visited(visit) {
            follower.sifted = sifted;
            // A serial would say that it has what the leader has.
            follower.serial = None;
            follower.fault = None;
            follower.visit = None;
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

    /// The next thing to do, which must be answered with [`Self::complete`] or [`Self::differs`].
    pub fn next(&mut self, now: Duration) -> Option<FollowerTask> {
        self.target?;
        let due = |one: &&mut Follower| {
            one.visit.is_none() && one.not_before <= now && one.rotation != Rotation::Silent
        };
        let follower = self.followers.iter_mut().find(due)?;
        self.visits = self.visits.wrapping_add(1);
        follower.visit = Some(self.visits);
        let action = match follower.info.role {
            ServerRole::Primary => FollowerAction::Sync(Known {
                same: follower.copied,
                sifted: follower.sifted.take(),
                past: follower.past,
            }),
            ServerRole::Secondary if follower.attempts >= REFRESH_AFTER => FollowerAction::Refresh,
            ServerRole::Secondary => FollowerAction::Probe,
        };
        let visit = Visit {
            server: follower.info.id.clone(),
            number: self.visits,
        };
        Some(FollowerTask { visit, action })
    }

    /// Takes in which serial a follower has now. The answer of a visit that nobody waits for is dropped.
    pub fn complete(
        &mut self,
        visit: &Visit,
        result: Result<Serial, Fault>,
        pace: &Pace,
        now: Duration,
    ) {
        let target = self.target;
        let Some(follower) = self.visited(visit) else {
            return;
        };
        follower.visit = None;
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
            follower.rotation = Rotation::In;
            follower.past = Past::Followed;
            follower.is_new = false;
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
        let waits = |one: &&Follower| one.visit.is_none() && one.rotation != Rotation::Silent;
        let idle = self.followers.iter().filter(waits);
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

    /// Whether every follower in rotation has this serial or a later one of the leader. One that is ahead of
    /// the leader has something else.
    #[must_use]
    pub fn has(&self, serial: Serial) -> bool {
        let mut waited = self.followers.iter();
        waited.all(|one| one.rotation != Rotation::In || self.is_at(one, serial))
    }

    /// The same of all that may lead some day, in rotation or not: what an older one still has would come
    /// back with it.
    #[must_use]
    pub fn leaders_have(&self, serial: Serial) -> bool {
        let mut leaders = self.followers.iter();
        self.has(serial)
            && leaders.all(|one| one.info.role != ServerRole::Primary || self.is_at(one, serial))
    }

    fn is_at(&self, follower: &Follower, serial: Serial) -> bool {
        let is_ahead = |has: Serial| self.target.is_some_and(|target| has.newer_than(target));
        let has = |has: Serial| (has == serial || has.newer_than(serial)) && !is_ahead(has);
        follower.serial.is_some_and(has)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }

    /// Whether some follower is in rotation.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        let mut followers = self.followers.iter();
        followers.any(|one| one.rotation == Rotation::In && one.serial.is_some())
    }

    /// Whether a follower that answers is being visited: it may be given the zone at this moment.
    #[must_use]
    pub fn is_visited(&self) -> bool {
        let mut followers = self.followers.iter();
        followers.any(|one| one.visit.is_some() && one.rotation != Rotation::Silent)
    }

    /// Whether a server that may have led, and of which nothing is known, was not brought in line yet.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.followers.iter().any(|one| one.past == Past::Unknown)
    }

    /// Whether all is well, and known to be so of this follower.
    #[must_use]
    pub fn expects(&self, visit: &Visit, serial: Serial) -> bool {
        let mut known = self.followers.iter();
        let known = known.any(|one| {
            one.info.id == visit.server && one.serial == Some(serial) && one.fault.is_none()
        });
        known && self.is_current()
    }

    /// Whether every follower has what the leader has.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.states().all(|one| one.current)
    }

    /// Why the first follower that does not answer is out of rotation.
    #[must_use]
    pub fn silence(&self) -> Option<&Fault> {
        let mut followers = self.followers.iter();
        let silent = followers.find(|one| one.rotation == Rotation::Silent)?;
        silent.fault.as_ref()
    }

    /// The serial that a follower was last seen to have.
    #[must_use]
    pub fn serial(&self, server: &ServerId) -> Option<Serial> {
        let mut followers = self.followers.iter();
        followers.find(|one| one.info.id == *server)?.serial
    }

    /// What to say about the first follower that answers and is behind for longer than the grace.
    #[must_use]
    pub fn lateness(&self, pace: &Pace, now: Duration, leader: Option<Serial>) -> Option<Fault> {
        // One that is not in rotation is told of at once: its answers may be old.
        let is_late = |one: &Follower| {
            let since = one.behind_since;
            one.rotation == Rotation::CatchingUp || since.is_some_and(|at| now >= at + pace.grace)
        };
        let late = |rotation| {
            let mut followers = self.followers.iter();
            followers.find(|one| one.rotation == rotation && is_late(one))
        };
        // First those that are waited for.
        let late = late(Rotation::In).or_else(|| late(Rotation::CatchingUp))?;
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
                late.info.role.as_str(),
                late.info.address
            ),
        ))
    }

    /// When the first follower that is behind has used up its grace.
    #[must_use]
    pub fn grace_ends(&self, pace: &Pace) -> Option<Duration> {
        let answering = self.followers.iter();
        let answering = answering.filter(|one| one.rotation != Rotation::Silent);
        let since = answering.filter_map(|one| one.behind_since);
        since.min().map(|since| since + pace.grace)
    }

    /// Those that do not have the leader's serial.
    pub fn behind(&self) -> impl Iterator<Item = &ServerId> {
        let followers = self.followers.iter();
        let is_behind = |one: &&Follower| self.target.is_some() && one.serial != self.target;
        followers.filter(is_behind).map(|one| &one.info.id)
    }

    /// Those that nobody waits for: they do not answer, or did not and have not caught up yet.
    pub fn out_of_rotation(&self) -> impl Iterator<Item = &ServerId> {
        let out = self.followers.iter();
        let out = out.filter(|one| one.rotation != Rotation::In);
        out.map(|one| &one.info.id)
    }

    /// How each follower is, in their order.
    pub fn states(&self) -> impl Iterator<Item = FollowerState> {
        self.followers.iter().map(|one| FollowerState {
            info: one.info.clone(),
            serial: one.serial,
            current: one.serial.is_some() && one.serial == self.target,
            fault: one.fault.clone(),
        })
    }

    fn find(&mut self, server: &ServerId) -> Option<&mut Follower> {
        self.followers.iter_mut().find(|one| one.info.id == *server)
    }

    fn visited(&mut self, visit: &Visit) -> Option<&mut Follower> {
        self.find(&visit.server)
            .filter(|one| one.visit == Some(visit.number))
    }
}
