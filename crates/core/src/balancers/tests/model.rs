//! Every state that a few services, addresses and locations can get into, to the end: whatever is wished for, in
//! whichever order, as often as one likes, with a crash, a lost request or a lost answer at every step. No state
//! breaks a rule, and from each the end is reached.
//!
//! The states are finite since time is taken out: what waits because it failed may be tried again at any moment, and so
//! may everything be read; how often something failed, and when, is not told apart ([`encoding`]). States that
//! differ only in the names of services, addresses and nodes are one.

mod encoding;

use std::collections::{HashMap, HashSet};

use self::encoding::Symmetries;
use super::*;

/// The services, and the addresses that each has an endpoint at.
#[derive(Clone, Copy, Debug)]
struct Setting {
    services: &'static [&'static [&'static str]],
    nodes: usize,
}

const SERVICES: [&str; 3] = ["a", "b", "c"];
const NODES: [&str; 2] = ["n1", "n2"];

/// What may happen from outside.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Service(usize),
    Retire(usize),
    /// The slice of a service has its addresses on the node, or none.
    Slice(usize, Option<usize>),
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Fortune {
    Answered,
    AnswerLost,
    RequestLost,
}

/// Why a state follows another.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Wish,
    Mishap,
    Nature,
}

#[derive(Clone)]
struct State(Stage);

impl State {
    fn new(setting: &Setting) -> Self {
        let mut stage = Stage::unread(World::default());
        // What nobody asks for is swept as soon as it is seen.
        stage.machine.times.orphan_after = Duration::ZERO;
        for (at, node) in NODES.iter().enumerate().take(setting.nodes) {
            stage.node(node, &format!("192.0.2.{}", at + 1));
        }
        stage.machine.set_synced();
        Self(stage).begun()
    }

    /// Everything begins that can, and what was told is forgotten.
    fn begun(mut self) -> Self {
        self.0.begin();
        self.0.world.log.clear();
        self.0.reports.clear();
        self.0.released.clear();
        self
    }

    /// The state after something happened.
    fn after(&self, happen: impl FnOnce(&mut Stage)) -> Self {
        let mut next = self.clone();
        happen(&mut next.0);
        next.begun()
    }

    /// What may be wished for.
    fn wishes(&self, setting: &Setting) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for (at, service) in SERVICES.iter().enumerate().take(setting.services.len()) {
            wishes.push(if self.0.services.contains_key(*service) {
                Wish::Retire(at)
            } else {
                Wish::Service(at)
            });
            let node = self.node_of(service);
            let nodes = (0..setting.nodes).map(Some).chain([None]);
            let others = nodes.filter(|one| *one != node);
            wishes.extend(others.map(|one| Wish::Slice(at, one)));
        }
        wishes
    }

    /// Where the endpoints of a service are.
    fn node_of(&self, service: &str) -> Option<usize> {
        let (_, endpoints) = self.0.slices.get(service)?;
        let (_, node) = endpoints.first()?.split_once('@')?;
        NODES.iter().position(|one| *one == node)
    }

    fn wish(&self, wish: Wish, setting: &Setting) -> Self {
        self.after(|stage| match wish {
            Wish::Service(at) => stage.service(SERVICES[at], 80),
            Wish::Retire(at) => stage.retire(SERVICES[at]),
            Wish::Slice(at, None) => stage.drop_slice(SERVICES[at]),
            Wish::Slice(at, Some(node)) => {
                let node = NODES[node];
                let all = setting.services[at].iter();
                let all: Vec<String> = all.map(|ip| format!("{ip}@{node}")).collect();
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                stage.slice(SERVICES[at], SERVICES[at], &all);
            }
        })
    }

    /// The step on its way at this place ends.
    fn landed(&self, at: usize, fortune: Fortune) -> Self {
        self.after(|stage| {
            if !matches!(fortune, Fortune::Answered) {
                stage.world.faults.push_back(fault(FaultKind::Lost));
            }
            stage.world.is_deaf = matches!(fortune, Fortune::RequestLost);
            stage.land(at);
            stage.world.is_deaf = false;
        })
    }

    /// The process ends, and of what was on its way some is done.
    fn crashed(&self, done: u32) -> Self {
        self.after(|stage| {
            let flying = std::mem::take(&mut stage.flying);
            for (at, (_, step)) in flying.iter().enumerate() {
                if done & 1 << at != 0 {
                    stage.world.carry_out(step);
                }
            }
            stage.crash();
            stage.machine.times.orphan_after = Duration::ZERO;
        })
    }

    /// What waits because it failed.
    fn paused(&self) -> Vec<BalancerWork> {
        let Stage { machine, now, .. } = &self.0;
        let balancers = machine.parents.keys().cloned().map(BalancerWork::Balancer);
        let all = balancers.chain([BalancerWork::Addresses, BalancerWork::Holdings]);
        all.filter(|work| !machine.schedule.is_due(work, *now))
            .collect()
    }

    fn retried(&self, all: &[BalancerWork]) -> Self {
        self.after(|stage| {
            for work in all {
                stage.machine.schedule.hasten(work);
                stage.machine.schedule.push(work.clone());
            }
        })
    }

    /// Everything is read again; nothing where that is on its way.
    fn read_again(&self) -> Option<Self> {
        self.0.machine.reading.next()?;
        Some(self.after(|stage| stage.machine.read_soon()))
    }

    /// Everything that can happen next.
    fn successors(&self, setting: &Setting) -> Vec<(Cause, Self)> {
        let mut all = Vec::new();
        let wishes = self.wishes(setting).into_iter();
        all.extend(wishes.map(|wish| (Cause::Wish, self.wish(wish, setting))));
        for (at, (_, step)) in self.0.flying.iter().enumerate() {
            all.push((Cause::Nature, self.landed(at, Fortune::Answered)));
            all.push((Cause::Mishap, self.landed(at, Fortune::AnswerLost)));
            // A question that is not answered changes nothing, wherever it was lost.
            if *step != BalancerStep::Read {
                all.push((Cause::Mishap, self.landed(at, Fortune::RequestLost)));
            }
        }
        let paused = self.paused();
        // All at once, as where nothing goes wrong any more, and one by one.
        if paused.len() > 1 {
            all.push((Cause::Nature, self.retried(&paused)));
        }
        let one_by_one = paused.iter().map(std::slice::from_ref);
        all.extend(one_by_one.map(|one| (Cause::Nature, self.retried(one))));
        all.extend(self.read_again().map(|next| (Cause::Nature, next)));
        let changes = self.0.flying.iter().enumerate();
        let changes = changes.filter(|(_, one)| one.1 != BalancerStep::Read);
        let changes = changes.fold(0, |mask, (at, _)| mask | 1 << at);
        let mut done = changes;
        loop {
            all.push((Cause::Mishap, self.crashed(done)));
            if done == 0 {
                return all;
            }
            // The next smaller set of what is on its way.
            done = (done - 1) & changes;
        }
    }

    /// What happens where nobody wishes for anything and nothing goes wrong; `None` at the end.
    fn calm(&self) -> Option<Self> {
        let mut flying = self.0.flying.iter();
        let change = flying.position(|(_, step)| *step != BalancerStep::Read);
        if !self.0.flying.is_empty() {
            return Some(self.landed(change.unwrap_or(0), Fortune::Answered));
        }
        let paused = self.paused();
        if !paused.is_empty() {
            return Some(self.retried(&paused));
        }
        if self.0.lines() == self.0.truth() && self.0.retiring.is_empty() {
            return None;
        }
        Some(self.read_again().expect("it can be read again"))
    }

    /// What must hold in each state.
    fn check(&self) {
        let Stage { machine, world, .. } = &self.0;
        assert_eq!(world.broken, Vec::<String>::new());
        if !machine.reading.is_read() {
            return;
        }
        // What is bound is known, or known to be possible: who waits for an address to be free waits.
        for (address, bindings) in &world.holdings.addresses {
            for binding in bindings {
                let mut known = machine.standing.parents(address);
                let is_known = known.any(|key| *key == binding.balancer);
                assert!(is_known, "{address} {binding:?}: {machine:?}");
            }
        }
        // What is there is asked for, or goes: a finalizer is not taken away before.
        for key in world.holdings.balancers.keys() {
            let is_known = machine.parents.contains_key(key);
            assert!(is_known, "{key} is left: {machine:?}");
        }
    }
}

/// A state, and how many wishes and mishaps may still come where they are counted.
type Place = (u64, [u8; 2]);

/// What was visited: the state that follows each where nothing goes wrong and nobody wishes for anything.
type Visited = HashMap<Place, Option<Place>>;

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Extent {
    /// Everything, as often as one likes.
    ToTheEnd,
    /// So many wishes, and so many mishaps: crashes, and answers and requests that are lost.
    Bounded([u8; 2]),
}

impl Extent {
    fn first(self) -> [u8; 2] {
        match self {
            Self::ToTheEnd => [0; 2],
            Self::Bounded(left) => left,
        }
    }

    /// What is left after something happened; `None` where it may not.
    fn after(self, left: [u8; 2], cause: Cause) -> Option<[u8; 2]> {
        let [wishes, mishaps] = left;
        match (self, cause) {
            (Self::ToTheEnd, _) | (_, Cause::Nature) => Some(left),
            (Self::Bounded(_), Cause::Wish) => Some([wishes.checked_sub(1)?, mishaps]),
            (Self::Bounded(_), Cause::Mishap) => Some([wishes, mishaps.checked_sub(1)?]),
        }
    }
}

/// Visits every state, and sees that from each the end is reached when nothing goes wrong any more.
fn visit(setting: &Setting, first: &State, extent: Extent) -> Visited {
    let symmetries = Symmetries::of(setting);
    let start = (symmetries.fingerprint(first), extent.first());
    let mut seen = HashSet::from([start]);
    let mut open = vec![(start, first.clone())];
    let mut visited = Visited::new();
    while let Some((place, state)) = open.pop() {
        state.check();
        let calm = state.calm();
        let calm = calm.map(|next| (symmetries.fingerprint(&next), place.1));
        visited.insert(place, calm);
        for (cause, next) in state.successors(setting) {
            let Some(left) = extent.after(place.1, cause) else {
                continue;
            };
            let place = (symmetries.fingerprint(&next), left);
            if seen.insert(place) {
                open.push((place, next));
            }
        }
    }
    check_ends(&visited);
    visited
}

/// From each state one gets to an end, and never to the same state again.
fn check_ends(visited: &Visited) {
    let mut good: HashSet<Place> = HashSet::new();
    for first in visited.keys() {
        let mut path = HashSet::new();
        let mut at = Some(*first);
        while let Some(place) = at.filter(|one| !good.contains(one)) {
            assert!(path.insert(place), "it goes round in circles");
            // What follows without a fault is a successor, so that it was visited.
            at = *visited.get(&place).expect("every successor was visited");
        }
        good.extend(path);
    }
}

#[track_caller]
fn check(setting: Setting, first: &State, extent: Extent) {
    let visited = visit(&setting, first, extent);
    let ends = visited.values().filter(|next| next.is_none()).count();
    let states = visited.len();
    eprintln!("{setting:?} {extent:?}: {states} states, {ends} of them ends");
    assert!(states > 100 && ends >= 2, "{states} {ends}");
}

/// Three services, each with two of three addresses, so that each address is that of two of them.
const TRIANGLE: Setting = Setting {
    services: &[
        &["10.0.0.1", "10.0.0.2"],
        &["10.0.0.2", "10.0.0.3"],
        &["10.0.0.3", "10.0.0.1"],
    ],
    nodes: 2,
};

#[test]
fn one_service_gets_into_no_state_that_breaks_a_rule() {
    let setting = Setting {
        services: &[&["10.0.0.1"]],
        nodes: 2,
    };
    check(setting, &State::new(&setting), Extent::ToTheEnd);
}

/// Three services, three addresses and two locations stand; then one thing is wished for, and one goes wrong.
#[test]
fn no_wish_breaks_a_rule_at_any_time() {
    let mut first = State::new(&TRIANGLE);
    for at in 0..3 {
        first = first.wish(Wish::Service(at), &TRIANGLE);
        first = first.wish(Wish::Slice(at, Some(at % 2)), &TRIANGLE);
    }
    while let Some(next) = first.calm() {
        first = next;
    }
    check(TRIANGLE, &first, Extent::Bounded([1, 1]));
}

/// Larger settings take long and need an optimised build: `MODEL` is the number of one when this is built.
#[test]
fn more_services_get_into_no_state_that_breaks_a_rule() {
    let settings = [
        Setting {
            services: &[&["10.0.0.1", "10.0.0.2"]],
            nodes: 2,
        },
        Setting {
            services: &[&["10.0.0.1"], &["10.0.0.1"]],
            nodes: 1,
        },
        Setting {
            services: &[&["10.0.0.1"], &["10.0.0.1"]],
            nodes: 2,
        },
        Setting {
            services: &[&["10.0.0.1", "10.0.0.2"], &["10.0.0.1", "10.0.0.2"]],
            nodes: 2,
        },
        TRIANGLE,
    ];
    let asked_for = option_env!("MODEL").and_then(|text| text.parse::<usize>().ok());
    if let Some(setting) = asked_for.and_then(|at| settings.get(at)) {
        check(*setting, &State::new(setting), Extent::ToTheEnd);
    }
}
