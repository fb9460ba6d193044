//! Servers that fall silent, come back, come, go and move while the process runs.

use std::{sync::Arc, time::Duration};

use bindery_core::{Group, ServerId, ServerInfo, ServerRole};
use bindery_engine::{ServerHandle, Servers};
use bindery_kube::Management;
use tokio::time::Instant;

use super::{SECONDARY, World, foreign, name};
use crate::{
    nameserver::{Absence, FakeNameServer},
    user::ZONES,
    weather::Random,
};

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct ServerPlace {
    /// The last number of its address.
    number: usize,
    /// Until when it does not answer, or is not among the servers.
    away_until: Option<Instant>,
    /// How often each zone had been deleted when it was taken out.
    deletions: Vec<usize>,
    /// It was out, and has not had what the others have since.
    is_stale: bool,
}

impl ServerPlace {
    pub(super) fn new(index: usize) -> Self {
        Self {
            number: 53 + index,
            away_until: None,
            deletions: Vec::new(),
            is_stale: false,
        }
    }
}

/// What a server that was away comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// With what it had.
    Whole,
    /// It may have lost something.
    Perhaps,
}

impl World {
    /// The servers of every zone that names no cluster, as the engine reaches them now.
    pub(super) fn usual_servers(&self) -> Servers {
        let all = self.servers.iter().zip(&self.places).enumerate();
        let known = all.filter(|(_, (server, _))| server.absence() != Absence::Out);
        let handle = |(index, (server, place)): (usize, (&FakeNameServer, &ServerPlace))| {
            let role = if index == SECONDARY {
                ServerRole::Secondary
            } else {
                ServerRole::Primary
            };
            ServerHandle {
                info: ServerInfo {
                    id: ServerId::new(&format!("server{index}")),
                    address: format!("192.0.2.{}:53", place.number).into(),
                    role,
                },
                server: Arc::new(server.clone()),
                host: self.host(server),
            }
        };
        known.map(handle).collect()
    }

    fn tell_servers(&self) {
        if let Some(engine) = &self.engine {
            engine.set_servers(&Group::UNNAMED, self.usual_servers());
        }
    }

    /// The usual servers that answer.
    pub(super) fn answering(&self) -> impl Iterator<Item = (usize, &FakeNameServer)> {
        let all = self.servers.iter().enumerate();
        all.filter(|(_, server)| server.is_present())
    }

    /// Whether every server answers.
    pub(super) fn is_complete(&self) -> bool {
        self.servers.iter().all(FakeNameServer::is_present)
    }

    /// Whether some server answers that takes updates.
    pub(super) fn has_primary(&self) -> bool {
        self.answering().any(|(index, _)| index != SECONDARY)
    }

    /// Now and then a server falls silent, is taken out or moves; those that were away come back in time.
    pub(super) fn move_servers(&mut self, random: &mut Random) {
        let now = Instant::now();
        for index in 0..self.servers.len() {
            let until = self.places[index].away_until;
            // Nobody takes a server into service while there is none that it could learn from.
            let is_out = self.servers[index].absence() == Absence::Out;
            if until.is_some_and(|until| until <= now) && (!is_out || self.has_primary()) {
                self.bring_back(index, Return::Perhaps, random);
            }
        }
        // A single server is away less often, so that something is served.
        let percent = if self.servers.len() > 1 { 30 } else { 8 };
        let index = random.below(self.servers.len());
        if !random.percent(percent) || !self.servers[index].is_present() {
            return;
        }
        match random.below(6) {
            0 | 1 => self.leave(index, Absence::Down, random),
            2 | 3 => self.leave(index, Absence::Stopped, random),
            4 if self.servers.len() > 1 => self.leave(index, Absence::Out, random),
            _ => self.relocate(index, random),
        }
    }

    /// Whether every server that was out has what the others have.
    pub(super) fn is_in_line(&mut self) -> bool {
        for index in 0..self.servers.len() {
            let is_like_another = self.is_like_another(index);
            self.places[index].is_stale &= !is_like_another;
        }
        self.places.iter().all(|place| !place.is_stale)
    }

    /// Whether a server has what some other primary that answers has.
    fn is_like_another(&self, index: usize) -> bool {
        let serials = |server: &FakeNameServer| {
            let contents = ZONES.map(|zone| server.content(&name(zone)));
            contents.map(|content| content.map(|content| content.serial))
        };
        let others = self.answering().filter(|(other, _)| *other != index);
        let mut primaries = others.filter(|(other, _)| *other != SECONDARY);
        primaries.any(|(_, other)| serials(other) == serials(&self.servers[index]))
    }

    /// A server is away for a while, unless one that was out is not in line yet: of what was withdrawn
    /// meanwhile no object knows any more, so that the other servers are all that tells it from what others
    /// wrote. Whoever takes a server back into service waits for that.
    pub(super) fn leave(&mut self, index: usize, absence: Absence, random: &mut Random) {
        // One is taken out only while another primary has all that it has. Else what it alone has comes back
        // with it, and an object that was deleted meanwhile is no longer there to tell whose that is.
        if !self.is_in_line() || (absence == Absence::Out && !self.is_like_another(index)) {
            return;
        }
        let time = Duration::from_millis(500 + random.next_u64() % 25_000);
        self.places[index].away_until = Some(Instant::now() + time);
        self.places[index].deletions = self.deletions();
        self.servers[index].set_absence(absence);
        self.weather.note(&format!("server {index} is {absence:?}"));
        if absence == Absence::Out {
            self.tell_servers();
        }
    }

    /// A server that was away answers again, or is among the servers again.
    pub(super) fn bring_back(&mut self, index: usize, what: Return, random: &mut Random) {
        self.places[index].away_until = None;
        let server = self.servers[index].clone();
        let was_out = server.absence() == Absence::Out;
        if was_out {
            // Whoever takes a server back into service does not bring zones that were deleted since.
            let before = self.places[index].deletions.clone();
            for ((zone, before), now) in ZONES.iter().zip(before).zip(self.deletions()) {
                if before != now {
                    server.drop_zone(&name(zone));
                }
                // Nor what was let go of in a zone of others.
                if self.management == Management::External {
                    server.drop_zone(&name(zone));
                    server.add_zone(&name(zone), &foreign(zone));
                }
            }
            self.places[index].is_stale = true;
        }
        // What strangers wrote must not go with what a server loses.
        if what == Return::Perhaps && !self.has_guests() && random.percent(25) {
            self.damage_server(index, random);
        }
        server.set_absence(Absence::Present);
        self.weather.note(&format!("server {index} is back"));
        if was_out {
            self.tell_servers();
        }
    }

    /// Everybody answers again.
    pub(super) fn bring_all_back(&mut self, random: &mut Random) {
        let is_out = |world: &Self, index: usize| world.servers[index].absence() == Absence::Out;
        let mut away: Vec<usize> = (0..self.servers.len()).collect();
        away.sort_by_key(|index| is_out(self, *index));
        for index in away {
            if !self.servers[index].is_present() {
                self.bring_back(index, Return::Whole, random);
            }
        }
    }

    /// The same server gets another address, perhaps on an empty disk.
    fn relocate(&mut self, index: usize, random: &mut Random) {
        self.places[index].number += 10;
        let is_empty = !self.has_guests() && random.percent(30);
        if is_empty {
            for zone in ZONES {
                self.servers[index].lose_zone(&name(zone));
            }
        }
        let words = if is_empty { "moves, empty" } else { "moves" };
        self.weather.note(&format!("server {index} {words}"));
        self.tell_servers();
    }

    /// How often each zone was deleted on purpose from a server that was there.
    fn deletions(&self) -> Vec<usize> {
        let of_zone = |zone: &&str| {
            let servers = self.servers.iter();
            servers.map(|one| one.deletions(&name(zone))).sum()
        };
        ZONES.iter().map(of_zone).collect()
    }
}
