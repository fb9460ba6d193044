//! How servers are: which answer, and which do not have what the leader has, zone by zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bindery_core::{Name, ServerId, ServerInfo, ServerRole};

/// How a server is, over all of its zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Which server it is.
    pub info: ServerInfo,
    /// Whether it answers; `None` while it was not asked yet.
    pub answers: Option<bool>,
    /// Whether it answers and is waited for in every zone.
    pub in_rotation: bool,
}

/// The servers of a group, and the zones in which some of them are behind.
///
/// Limits: one entry per zone in which a server is behind or out of rotation.
#[derive(Debug, Default)]
pub(crate) struct Behind(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    servers: Vec<ServerInfo>,
    /// Those that were asked, and whether they answered.
    answers: BTreeMap<ServerId, bool>,
    zones: BTreeMap<Name, Vec<ServerId>>,
    /// The zones in which somebody is out of rotation.
    out: BTreeMap<Name, Vec<ServerId>>,
}

impl Behind {
    /// Takes in which servers there are.
    pub(crate) fn set_servers(&self, servers: Vec<ServerInfo>) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.servers, servers);
        // Of one that moved, nothing is known.
        let stays = |id: &ServerId| {
            let mut before = before.iter().filter(|one| one.id == *id);
            before.any(|one| state.servers.contains(one))
        };
        let known: BTreeSet<ServerId> = state
            .answers
            .keys()
            .filter(|id| stays(id))
            .cloned()
            .collect();
        state.answers.retain(|id, _| known.contains(id));
    }

    /// Takes in whether a server answers.
    pub(crate) fn note_answer(&self, server: &ServerId, answers: bool) {
        self.lock().answers.insert(server.clone(), answers);
    }

    /// Whether there is nobody who could be behind.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().servers.len() < 2
    }

    /// Takes in which servers are behind in a zone, and which are out of rotation.
    pub(crate) fn note(&self, zone: &Name, behind: Vec<ServerId>, out: Vec<ServerId>) {
        let mut state = self.lock();
        let state = &mut *state;
        for (zones, servers) in [(&mut state.zones, behind), (&mut state.out, out)] {
            if servers.is_empty() {
                zones.remove(zone);
            } else {
                zones.insert(zone.clone(), servers);
            }
        }
    }

    /// How each server is.
    pub(crate) fn states(&self) -> Vec<ServerState> {
        let state = self.lock();
        let of = |info: &ServerInfo| {
            let answers = state.answers.get(&info.id).copied();
            let mut out = state.out.values();
            ServerState {
                info: info.clone(),
                answers,
                in_rotation: answers == Some(true) && !out.any(|one| one.contains(&info.id)),
            }
        };
        state.servers.iter().map(of).collect()
    }

    /// In how many zones each server is behind that does not lead them all.
    pub(crate) fn counts(&self) -> Vec<(ServerInfo, usize)> {
        let State { servers, zones, .. } = &*self.lock();
        let first = servers
            .iter()
            .position(|one| one.role == ServerRole::Primary);
        let counts = servers.iter().enumerate().map(|(position, info)| {
            let behind = zones.values().filter(|one| one.contains(&info.id)).count();
            (position, info, behind)
        });
        counts
            .filter(|(position, _, behind)| Some(*position) != first || *behind > 0)
            .map(|(_, info, behind)| (info.clone(), behind))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_counted_for_each_server() {
        let info = |address, role| ServerInfo::at(address, role);
        let (one, two) = (
            info("one", ServerRole::Secondary),
            info("two", ServerRole::Secondary),
        );
        let behind = Behind::default();
        behind.set_servers(vec![
            info("zero", ServerRole::Primary),
            one.clone(),
            two.clone(),
        ]);
        let name = |text: &str| Name::parse(text).expect("the fixture is a name");
        let both = vec![one.id.clone(), two.id.clone()];
        behind.note(&name("a.example"), both, Vec::new());
        behind.note(&name("b.example"), vec![two.id.clone()], Vec::new());
        assert_eq!(behind.counts(), [(one.clone(), 1), (two.clone(), 2)]);
        behind.note(&name("a.example"), Vec::new(), Vec::new());
        assert_eq!(behind.counts(), [(one, 0), (two, 1)]);
    }

    #[test]
    fn a_server_is_in_rotation_when_it_answers_and_has_caught_up_everywhere() {
        let one = ServerInfo::at("one", ServerRole::Primary);
        let behind = Behind::default();
        let zone = Name::parse("a.example").expect("the fixture is a name");
        let state = || {
            let states = behind.states();
            (states[0].answers, states[0].in_rotation)
        };
        behind.set_servers(vec![one.clone()]);
        assert_eq!(state(), (None, false));
        behind.note_answer(&one.id, true);
        assert_eq!(state(), (Some(true), true));
        behind.note(&zone, Vec::new(), vec![one.id.clone()]);
        assert_eq!(state(), (Some(true), false));
        behind.note(&zone, Vec::new(), Vec::new());
        behind.note_answer(&one.id, false);
        assert_eq!(state(), (Some(false), false));
        // One that moved is another.
        let moved = ServerInfo {
            address: "two".into(),
            ..one
        };
        behind.set_servers(vec![moved]);
        assert_eq!(state(), (None, false));
    }
}
