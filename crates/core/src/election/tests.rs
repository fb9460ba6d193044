use proptest::prelude::*;

use super::*;

const REPLICAS: usize = 3;
const TIMING: LeaseTiming = LeaseTiming {
    duration: Duration::from_secs(4),
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The API: one Lease, of which each write has the version of before as a precondition.
#[derive(Default)]
struct Api {
    lease: Option<SeenLease>,
    writes: u64,
}

impl Api {
    fn write(&mut self, write: &LeaseWrite) -> Option<SeenLease> {
        let version = self.lease.as_ref().map(|lease| &lease.version);
        if version != write.version.as_ref() {
            return None;
        }
        self.writes += 1;
        self.lease = Some(SeenLease {
            holder: write.holder.clone(),
            duration: Some(TIMING.duration()),
            transitions: write.transitions,
            version: self.writes.to_string().into(),
        });
        self.lease.clone()
    }
}

/// A replica on a machine of its own.
struct Replica {
    election: Election,
    /// What its clock showed at the beginning, and how many thousandths of a second pass on it in a second.
    clock: (Duration, u32),
    request: Option<Request>,
    /// The writes of others that were carried out when it began to lead.
    others: Option<u64>,
}

/// A request on its way.
struct Request {
    /// What is to be written; `None` where the Lease is to be read.
    write: Option<LeaseWrite>,
    sent: Duration,
    /// What the API answered, once the request got there: what stands, or was written.
    answer: Option<Vec<SeenLease>>,
}

impl Replica {
    fn now(&self, time: Duration) -> Duration {
        self.clock.0 + time * self.clock.1 / 1_000
    }
}

#[derive(Clone, Debug)]
enum Happening {
    /// Time passes, in milliseconds.
    Passes(u64),
    /// A replica does what it is to do, and nothing is in the way.
    Succeeds(usize),
    /// A replica does what it is to do, unless a request of its own is on its way.
    Acts(usize),
    /// Its request reaches the API.
    Arrives(usize),
    /// The answer reaches it.
    Answers(usize),
    /// Request or answer is lost.
    IsLost(usize),
    /// It is told to stop and releases the Lease.
    Releases(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (1_u64..1_500).prop_map(Happening::Passes),
        12 => (0..REPLICAS).prop_map(Happening::Succeeds),
        6 => (0..REPLICAS).prop_map(Happening::Acts),
        6 => (0..REPLICAS).prop_map(Happening::Arrives),
        6 => (0..REPLICAS).prop_map(Happening::Answers),
        1 => (0..REPLICAS).prop_map(Happening::IsLost),
        1 => (0..REPLICAS).prop_map(Happening::Releases),
    ]
}

/// Everything, and how often somebody else than a replica wrote while it held the Lease without a break.
struct World {
    time: Duration,
    api: Api,
    replicas: Vec<Replica>,
    /// Who carried out each write.
    writers: Vec<usize>,
}

impl World {
    fn new(clocks: &[(u64, u32)]) -> Self {
        let replica = |(index, (start, rate)): (usize, &(u64, u32))| Replica {
            election: Election::new(index.to_string(), TIMING),
            clock: (seconds(*start), *rate),
            request: None,
            others: None,
        };
        Self {
            time: Duration::ZERO,
            api: Api::default(),
            replicas: clocks.iter().enumerate().map(replica).collect(),
            writers: Vec::new(),
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Passes(millis) => self.time += Duration::from_millis(millis),
            Happening::Succeeds(index) => self.succeed(index),
            Happening::Acts(index) => self.act(index),
            Happening::Arrives(index) => self.arrive(index),
            Happening::Answers(index) => self.answer(index),
            Happening::IsLost(index) => {
                let replica = &mut self.replicas[index];
                if replica.request.take().is_some() {
                    replica.election.doubt();
                }
            }
            Happening::Releases(index) => {
                let release = self.replicas[index].election.release();
                if let Some(write) = release
                    && self.api.write(&write).is_some()
                {
                    self.writers.push(index);
                }
            }
        }
    }

    fn succeed(&mut self, index: usize) {
        self.act(index);
        self.arrive(index);
        self.answer(index);
    }

    fn act(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let now = replica.now(self.time);
        if replica.request.is_some() {
            return;
        }
        let write = match replica.election.next(now) {
            LeaseAct::Read => None,
            LeaseAct::Write(write) => Some(write),
            LeaseAct::WaitUntil(until) => {
                assert!(until > now, "it waits for the past");
                // As if the watch told it.
                None
            }
            LeaseAct::Stop => return,
        };
        replica.request = Some(Request {
            write,
            sent: now,
            answer: None,
        });
    }

    fn arrive(&mut self, index: usize) {
        let Some(request) = &mut self.replicas[index].request else {
            return;
        };
        if request.answer.is_some() {
            return;
        }
        request.answer = Some(match &request.write {
            Some(write) => {
                let written = self.api.write(write);
                self.writers.extend(written.is_some().then_some(index));
                written.into_iter().collect()
            }
            None => self.api.lease.iter().cloned().collect(),
        });
    }

    fn answer(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let now = replica.now(self.time);
        let Some(Request {
            write,
            sent,
            answer: Some(answer),
        }) = replica.request.take_if(|request| request.answer.is_some())
        else {
            return;
        };
        match (write, answer.into_iter().next()) {
            (Some(_), Some(lease)) => replica.election.wrote(sent, lease),
            (Some(_), None) => replica.election.doubt(),
            (None, lease) => replica.election.see(lease, now),
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let time = self.time;
        let is = |replica: &Replica| replica.election.leadership(replica.now(time));
        let leading = self
            .replicas
            .iter()
            .filter(|one| is(one) == Leadership::Leading);
        prop_assert!(leading.count() <= 1, "two lead at {time:?}");
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            let others = self.writers.iter().filter(|writer| **writer != index);
            let others = others.count() as u64;
            match is(replica) {
                Leadership::Leading => {
                    let known = *replica.others.get_or_insert(others);
                    prop_assert_eq!(known, others, "{} leads on after another did", index);
                }
                Leadership::Lapsed | Leadership::Standby | Leadership::Lost => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn at_most_one_leads_whatever_is_lost_late_or_stopped_and_however_clocks_differ(
        clocks in proptest::collection::vec((0_u64..1_000_000, 900_u32..1_100), REPLICAS),
        happenings in proptest::collection::vec(happening(), 100..300),
    ) {
        let mut world = World::new(&clocks);
        for happening in &happenings {
            world.happen(happening);
            world.check()?;
        }
    }

    #[test]
    fn one_leads_in_the_end_where_nothing_is_lost(
        clocks in proptest::collection::vec((0_u64..1_000_000, 900_u32..1_100), REPLICAS),
        happenings in proptest::collection::vec(happening(), 1..100),
    ) {
        let mut world = World::new(&clocks);
        // The first goes on to the end, so somebody is there.
        let is_first = |happening: &&Happening| matches!(happening, Happening::Releases(0));
        for happening in happenings.iter().filter(|one| !is_first(one)) {
            world.happen(happening);
        }
        let is_lost = |one: &Replica| one.election.next(Duration::ZERO) == LeaseAct::Stop;
        world.replicas.retain(|one| !is_lost(one));
        prop_assume!(!world.replicas.is_empty());
        for _ in 0..40 {
            world.happen(&Happening::Passes(250));
            for index in 0..world.replicas.len() {
                world.succeed(index);
            }
            world.replicas.retain(|one| !is_lost(one));
        }
        let time = world.time;
        let leading = |one: &&Replica| one.election.leadership(one.now(time)) == Leadership::Leading;
        prop_assert!(world.replicas.is_empty() || world.replicas.iter().any(|one| leading(&one)));
    }

    #[test]
    fn what_is_renewed_is_renewed_long_before_anybody_may_take_it(seconds in 0_u16..1_000) {
        let timing = LeaseTiming::of_seconds(seconds);
        prop_assert!(timing.period() * 2 < timing.deadline());
        prop_assert!(timing.deadline() < timing.duration());
    }
}

fn lease(holder: &str, transitions: i32, version: &str) -> SeenLease {
    SeenLease {
        holder: (!holder.is_empty()).then(|| holder.into()),
        duration: Some(seconds(4)),
        transitions,
        version: version.into(),
    }
}

fn leading_replica() -> Election {
    let mut replica = Election::new("a", TIMING);
    replica.see(None, seconds(100));
    let LeaseAct::Write(write) = replica.next(seconds(100)) else {
        unreachable!("nobody has it");
    };
    assert_eq!((write.version, write.transitions), (None, 0));
    replica.wrote(seconds(100), lease("a", 0, "1"));
    assert_eq!(replica.leadership(seconds(101)), Leadership::Leading);
    replica
}

#[test]
fn a_lease_that_was_released_is_taken_at_once() {
    let mut replica = Election::new("b", TIMING);
    assert_eq!(replica.next(seconds(1)), LeaseAct::Read);
    replica.see(Some(lease("a", 3, "7")), seconds(1));
    assert_eq!(
        replica.next(seconds(1)),
        LeaseAct::WaitUntil(seconds(5)),
        "whole, from when it was seen"
    );
    replica.see(Some(lease("", 3, "8")), seconds(2));
    let LeaseAct::Write(write) = replica.next(seconds(2)) else {
        unreachable!("it was released");
    };
    assert_eq!(
        (write.version.as_deref(), write.transitions),
        (Some("8"), 4)
    );
}

#[test]
fn a_lease_that_changes_is_waited_for_anew_and_one_that_does_not_is_taken() {
    let mut replica = Election::new("b", TIMING);
    replica.see(Some(lease("a", 3, "7")), seconds(1));
    replica.see(Some(lease("a", 3, "8")), seconds(4));
    replica.see(Some(lease("a", 3, "8")), seconds(7));
    assert_eq!(replica.next(seconds(7)), LeaseAct::WaitUntil(seconds(8)));
    assert!(matches!(replica.next(seconds(8)), LeaseAct::Write(_)));
}

#[test]
fn one_that_was_stopped_past_its_lease_leads_on_only_if_nobody_else_has_had_it() {
    let mut alone = leading_replica();
    assert_eq!(alone.leadership(seconds(103)), Leadership::Lapsed);
    let LeaseAct::Write(write) = alone.next(seconds(900)) else {
        unreachable!("it is overdue");
    };
    assert_eq!(write.version.as_deref(), Some("1"), "as it was left");
    alone.wrote(seconds(900), lease("a", 0, "2"));
    assert_eq!(alone.leadership(seconds(901)), Leadership::Leading);

    let mut late = leading_replica();
    late.doubt();
    assert_eq!(late.next(seconds(900)), LeaseAct::Read);
    late.see(Some(lease("b", 1, "5")), seconds(900));
    assert_eq!(late.leadership(seconds(900)), Leadership::Lost);
    assert_eq!(late.next(seconds(900)), LeaseAct::Stop);
    assert_eq!(late.release(), None);
}

#[test]
fn a_renewal_whose_answer_was_lost_does_not_lengthen_the_belief() {
    let mut replica = leading_replica();
    replica.doubt();
    replica.see(Some(lease("a", 0, "2")), seconds(102));
    assert_eq!(replica.valid_until(), Some(seconds(103)));
    assert_eq!(replica.leadership(seconds(103)), Leadership::Lapsed);
}

#[test]
fn one_that_releases_its_lease_writes_nothing_any_more() {
    let mut replica = leading_replica();
    let write = replica.release().expect("it has it");
    assert_eq!((write.holder, write.version.as_deref()), (None, Some("1")));
    assert_eq!(replica.valid_until(), None);
    assert_eq!(replica.leadership(seconds(100)), Leadership::Lost);
}

#[test]
fn the_holder_renews_its_lease_when_a_quarter_of_it_is_over() {
    let mut replica = leading_replica();
    assert_eq!(
        replica.next(seconds(100)),
        LeaseAct::WaitUntil(seconds(101))
    );
    let LeaseAct::Write(write) = replica.next(seconds(101)) else {
        unreachable!("it is time");
    };
    assert_eq!(
        (write.version.as_deref(), write.transitions),
        (Some("1"), 0)
    );
    replica.wrote(seconds(101), lease("a", 0, "2"));
    assert_eq!(
        replica.next(seconds(101)),
        LeaseAct::WaitUntil(seconds(102))
    );
    let held = (replica.holder(), replica.version());
    assert_eq!(held, (Some(&"a".into()), Some(&"2".into())));
}

#[test]
fn a_lease_is_lost_to_another_holder_and_by_having_been_anothers() {
    for (holder, transitions) in [("b", 1), ("b", 0), ("a", 2)] {
        let mut replica = leading_replica();
        assert!(!replica.is_taken());
        replica.see(Some(lease(holder, transitions, "5")), seconds(101));
        let is_lost = replica.leadership(seconds(101)) == Leadership::Lost;
        assert!(is_lost && replica.is_taken(), "{holder} {transitions}");
    }
    let mut replica = leading_replica();
    assert!(replica.release().is_some());
    assert!(!replica.is_taken(), "it gave the Lease away itself");
}

#[test]
fn a_lease_that_was_never_known_to_be_held_is_not_lost() {
    let mut replica = Election::new("a", TIMING);
    // Its request was carried out, and no answer came.
    replica.see(Some(lease("a", 0, "1")), seconds(1));
    assert_eq!(replica.leadership(seconds(1)), Leadership::Standby);
    replica.see(Some(lease("b", 1, "2")), seconds(2));
    assert_eq!(replica.leadership(seconds(2)), Leadership::Standby);
    assert_eq!(replica.next(seconds(2)), LeaseAct::WaitUntil(seconds(6)));
}
