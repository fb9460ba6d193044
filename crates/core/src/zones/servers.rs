//! The servers of each zone: which of them leads, and what it means when one does not answer, comes or goes.
//!
//! One primary leads a zone. When it falls silent, the most advanced of the others does, so that writing
//! goes on. What was on its way to the silent one may or may not have been applied: the new leader is read
//! as if it had lost data (see `losses`), and the former leader is brought in line when it is back.

use std::time::Duration;

use super::{Zone, Zones};
use crate::{
    fault::{Fault, FaultKind},
    fleet::Past,
    name::Name,
    server::{ServerId, ServerInfo, ServerRole},
    tracker::Phase,
};

/// Who leads a zone, and since which change of that. What was begun before a change counts for nothing
/// after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The server that leads.
    pub leader: ServerId,
    number: u32,
}

impl Zones {
    /// A zone that any server may be asked about, to see whether it answers.
    #[must_use]
    pub fn probe(&self) -> Option<Name> {
        let mut known = self.known.iter();
        let found = known.find(|(_, zone)| zone.declared.is_some());
        found.map(|(name, _)| name.clone())
    }

    /// The zones that are known.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.known.keys()
    }

    /// Who leads a zone now; nobody where no primary is known.
    #[must_use]
    pub fn term(&self, name: &Name) -> Option<Term> {
        let zone = self.known.get(name)?;
        let leader = zone.leader.as_ref()?.id.clone();
        let number = zone.term;
        Some(Term { leader, number })
    }

    /// Whether a server does not answer.
    #[must_use]
    pub fn is_silent(&self, server: &ServerId) -> bool {
        self.silent.contains_key(server)
    }

    /// Takes in which servers there are. A zone whose leader is no longer among them gets another one; a
    /// server that moved is taken for a new one.
    pub fn set_servers(&mut self, servers: Vec<ServerInfo>, now: Duration) {
        let stays = |id: &ServerId| {
            let mut before = self.servers.iter().filter(|one| one.id == *id);
            before.any(|one| servers.contains(one))
        };
        let gone: Vec<ServerId> = self
            .silent
            .keys()
            .filter(|id| !stays(id))
            .cloned()
            .collect();
        for id in gone {
            self.silent.remove(&id);
        }
        self.servers = servers;
        let names: Vec<Name> = self.known.keys().cloned().collect();
        for name in &names {
            let was_answered = self.is_served(name);
            let was_led = self.term(name).is_some();
            self.seat(name, now);
            self.advance(name, now);
            self.schedule.push(name.clone());
            // Without a server nothing is served any more; with the first one, all of it is again.
            if was_answered != self.is_served(name) || was_led != self.term(name).is_some() {
                self.touch_all_owners(name);
            }
        }
        self.zone_news.extend(names);
    }

    /// Whether any server of a zone answers.
    fn is_served(&self, name: &Name) -> bool {
        let zone = self.known.get(name);
        zone.is_some_and(|zone| self.is_answered(zone))
    }

    /// Takes in whether a server answers. One that does not is out of rotation in every zone.
    pub fn on_answer(&mut self, server: &ServerId, answer: Result<(), Fault>, now: Duration) {
        if answer.is_ok() != self.is_silent(server) {
            return;
        }
        let zones = self.known.keys();
        let zones: Vec<(Name, bool)> = zones
            .map(|name| (name.clone(), self.is_served(name)))
            .collect();
        match answer {
            Ok(()) => self.silent.remove(server),
            Err(fault) => self.silent.insert(server.clone(), fault),
        };
        for (name, was_served) in &zones {
            self.hear_of(name, server, now);
            // With no server left, nothing is served any more; with the first one back, all of it is again.
            if *was_served == self.is_served(name) {
                self.touch_waiting_owners(name);
            } else {
                self.touch_all_owners(name);
            }
        }
        self.zone_news
            .extend(zones.into_iter().map(|(name, _)| name));
    }

    /// What it means for one zone that a server fell silent or answers again.
    fn hear_of(&mut self, name: &Name, server: &ServerId, now: Duration) {
        let silence = self.silent.get(server).cloned();
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        if let Some(fault) = &silence {
            zone.fleet.fall_silent(server, fault, now);
        } else {
            zone.fleet.answer(server, now);
            let fault = zone.fault.as_ref();
            if fault.is_some_and(|fault| fault.kind.is_silence()) {
                self.schedule.hasten(name);
            }
            self.schedule.push(name.clone());
        }
        self.seat(name, now);
        self.advance(name, now);
    }

    /// Whether any server of a zone answers that has it.
    pub(super) fn is_answered(&self, zone: &Zone) -> bool {
        let leader = zone.leader.as_ref();
        leader.is_some_and(|one| !self.silent.contains_key(&one.id)) || zone.fleet.is_serving()
    }

    /// Why a zone cannot be read or written, if it cannot.
    pub(super) fn fault_of(&self, zone: &Zone) -> Option<Fault> {
        let Some(leader) = &zone.leader else {
            let whose = self
                .group
                .name()
                .map_or_else(String::new, |name| format!(" of cluster {name}"));
            let message = format!(
                "no name server{whose} that takes updates is known; what is declared waits for one"
            );
            return Some(Fault::new(FaultKind::Unreachable, message));
        };
        let silence = || self.silent.get(&leader.id);
        zone.fault.as_ref().or_else(silence).cloned()
    }

    /// Why not every server of a zone has what is declared, if that is known.
    pub(super) fn lateness_of(zone: &Zone) -> Option<Fault> {
        let silent = zone.fleet.silence();
        let silent = silent.map(|fault| Fault::new(FaultKind::Behind, fault.message.clone()));
        zone.losses
            .fault()
            .or(silent)
            .or_else(|| zone.propagation.late.clone())
    }

    /// Gives every server of a zone its place: one primary leads, the others follow.
    pub(super) fn seat(&mut self, name: &Name, now: Duration) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        let before = zone.leader.clone();
        let servers: Vec<ServerInfo> = self.servers_of(zone).cloned().collect();
        let leader = self.choose(zone).cloned();
        let is_closing = zone.lifecycle.phase() == Phase::DeletionInProgress;
        let is_outrun = is_closing
            && servers.iter().any(|one| {
                before.as_ref() != Some(one) && !zone.fleet.states().any(|other| other.info == *one)
            });
        if let Some(zone) = self.known.get_mut(name) {
            zone.is_outrun |= is_outrun;
        }
        if let (Some(before), Some(leader)) = (&before, &leader)
            && before != leader
            && is_closing
        {
            // It is on its way out on every server.
            return;
        }
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let others = servers.iter();
        let others = others.filter(|one| leader.as_ref().is_none_or(|leader| leader.id != one.id));
        // Where the leader changes too, a primary that joins may have led under another address. Else an older
        // version is taken for nothing but that: what objects withdrew must not come back with it.
        let past = if before == leader {
            Past::Followed
        } else {
            Past::Unknown
        };
        let past = zone.lifecycle.is_open().then_some(past);
        if before != leader {
            let former = before.as_ref().filter(|former| servers.contains(former));
            zone.hand_over(leader.clone(), former, now);
            zone.recover(&mut self.schedule, name);
            self.schedule.push(name.clone());
        }
        zone.fleet.set_servers(others, past, now);
        for (id, fault) in &self.silent {
            zone.fleet.fall_silent(id, fault, now);
        }
    }

    /// The servers of one zone: those that it may be on, of which one primary where that signs it.
    fn servers_of<'a>(&'a self, zone: &'a Zone) -> impl Iterator<Item = &'a ServerInfo> + Clone {
        self.named_servers(zone)
            .filter(|one| one.role == ServerRole::Secondary || self.may_lead(zone, one))
    }

    /// The servers that a zone may be on: those that its declaration names, or all of the group.
    pub(super) fn named_servers<'a>(
        &'a self,
        zone: &'a Zone,
    ) -> impl Iterator<Item = &'a ServerInfo> + Clone {
        let named = zone
            .declared
            .as_ref()
            .and_then(|one| one.servers.as_deref());
        let servers = self.servers.iter();
        servers.filter(move |one| named.is_none_or(|named| named.contains(&one.id)))
    }

    /// The server that is to lead a zone: the one that does, while it answers; else the most advanced
    /// primary that answers, the first where nothing is known of them; and where none does, whoever did.
    fn choose<'a>(&'a self, zone: &'a Zone) -> Option<&'a ServerInfo> {
        let mut primaries = self
            .servers_of(zone)
            .filter(|one| one.role == ServerRole::Primary);
        let present = zone.leader.as_ref();
        let present = present.and_then(|leader| primaries.clone().find(|one| *one == leader));
        if let Some(present) = present
            && !self.silent.contains_key(&present.id)
        {
            return Some(present);
        }
        let answering = primaries.clone();
        let answering = answering.filter(|one| !self.silent.contains_key(&one.id));
        let best = answering.reduce(|one, other| {
            let serials = (zone.fleet.serial(&one.id), zone.fleet.serial(&other.id));
            match serials {
                (Some(one_has), Some(has)) if has.newer_than(one_has) => other,
                (None, Some(_)) => other,
                (Some(_) | None, _) => one,
            }
        });
        best.or(present).or_else(|| primaries.next())
    }
}

impl Zone {
    /// Another server leads. What was on its way to the former one is forgotten: it is read from the new
    /// one what stands, and what is missing there is written again.
    fn hand_over(
        &mut self,
        leader: Option<ServerInfo>,
        former: Option<&ServerInfo>,
        now: Duration,
    ) {
        self.term = self.term.wrapping_add(1);
        let before = self.leader.take().or_else(|| self.led.take());
        let is_new = leader
            .as_ref()
            .is_some_and(|one| self.fleet.is_new(&one.id));
        match &leader {
            Some(leader) => {
                // Everything is known of a leader that was read, up to what others wrote a moment ago.
                let past = self.known_serial.map_or(Past::Unknown, Past::Led);
                let former = former.map(|former| (former, past));
                self.fleet.change_leader(&leader.id, former, now);
            }
            None => self.led.clone_from(&before),
        }
        let is_other = leader.is_some() && leader != before;
        self.leader = leader;
        if before.is_none() {
            return;
        }
        self.forget_in_flight();
        if is_other {
            self.losses.hand_over(is_new);
        }
        self.signing.reset();
        self.missing_since = None;
        match self.lifecycle.phase() {
            Phase::CreationInProgress => self.lifecycle.fail(),
            Phase::NotStarted
            | Phase::Created
            | Phase::UpdateInProgress
            | Phase::DeletionPending
            | Phase::DeletionInProgress
            | Phase::Gone => {}
        }
        self.stale = self.lifecycle.phase() != Phase::NotStarted;
    }

    fn forget_in_flight(&mut self) {
        for (key, sent) in self.children.recall() {
            // It may stand on the former leader, and is nobody else's there.
            self.losses.withdraw(&key, sent.desired.as_ref(), None);
        }
        (self.commits, self.questions, self.acknowledged) = (0, 0, 0);
        (self.reading, self.reading_changes, self.drifted) = (false, false, false);
        self.no_ixfr = false;
    }
}
