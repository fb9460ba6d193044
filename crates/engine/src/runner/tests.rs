//! The runner runs a machine that is not DNS.

mod balancers;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{Fault, FaultKind, tracker::Phase};
use futures::future::BoxFuture;

use self::balancers::{
    ADDRESSES_MAX, Address, Balancers, Completion, Config, Key, ServiceId, Step,
};
use super::*;
use crate::queue::KeyedQueue;

/// How long the API takes for anything.
const TAKES: Duration = Duration::from_secs(1);

/// The API that the toy speaks to. What is asked against its rules is written down in `broken`.
#[derive(Default)]
struct Api {
    services: BTreeMap<ServiceId, Config>,
    bound: BTreeMap<Address, BTreeSet<ServiceId>>,
    /// Answers to the next requests, in order, in place of the real ones.
    faults: VecDeque<Fault>,
    /// An address that it never takes.
    poison: Option<Address>,
    /// Every request: the second at which it ended, and what it was.
    log: Vec<(u64, String)>,
    news: Vec<(ServiceId, Phase)>,
    running: usize,
    running_max: usize,
    broken: Vec<String>,
}

impl Api {
    fn apply(&mut self, step: Step) -> Completion {
        let fault = self.faults.pop_front();
        // A lost answer says nothing about the request.
        let is_applied = fault.as_ref().is_none_or(|one| one.kind == FaultKind::Lost);
        match step {
            Step::Bind(all) => {
                let answer = |(address, services): (Address, BTreeSet<ServiceId>)| {
                    let poisoned = (self.poison == Some(address)).then(|| {
                        Fault::new(FaultKind::Invalid, "no such address").with_code(422_u16)
                    });
                    let fault = fault.clone().or(poisoned);
                    if is_applied && self.poison != Some(address) {
                        self.bind(address, services.clone());
                    }
                    (address, services, fault.map_or(Ok(()), Err))
                };
                Completion::Bound(all.into_iter().map(answer).collect())
            }
            Step::Create(id, config) | Step::Update(id, config) => {
                if is_applied {
                    self.services.insert(id, config);
                }
                Completion::Service(fault.map_or(Ok(()), Err))
            }
            Step::Delete(id) => {
                if is_applied {
                    if self.bound.values().any(|services| services.contains(&id)) {
                        self.broken.push(format!("{id} went before its addresses"));
                    }
                    self.services.remove(&id);
                }
                Completion::Service(fault.map_or(Ok(()), Err))
            }
        }
    }

    fn bind(&mut self, address: Address, services: BTreeSet<ServiceId>) {
        if let Some(missing) = services.iter().find(|id| !self.services.contains_key(id)) {
            let message = format!("{address} came before its service {missing}");
            self.broken.push(message);
        }
        if services.is_empty() {
            self.bound.remove(&address);
        } else {
            self.bound.insert(address, services);
        }
    }
}

#[derive(Clone)]
enum Act {
    Declare(ServiceId, Config),
    Undeclare(ServiceId),
    Place(Address, BTreeSet<ServiceId>),
}

struct ApiDriver {
    api: Arc<Mutex<Api>>,
    inbox: KeyedQueue<usize, Act>,
    started: Instant,
}

impl Driver<Balancers> for ApiDriver {
    type Input = Act;
    type Ticket = ();

    fn begin(
        &mut self,
        _: &Balancers,
        _: &Key,
        step: Step,
    ) -> Option<((), BoxFuture<'static, Completion>)> {
        let (api, started) = (Arc::clone(&self.api), self.started);
        let work = async move {
            {
                let mut api = lock(&api);
                api.running += 1;
                api.running_max = api.running_max.max(api.running);
            }
            tokio::time::sleep_until(Instant::now() + TAKES).await;
            let mut api = lock(&api);
            api.running -= 1;
            let line = format!("{step:?}");
            api.log.push((started.elapsed().as_secs(), line));
            api.apply(step)
        };
        Some(((), Box::pin(work)))
    }

    fn counts(&mut self, _: &Balancers, _: (&Key, &Completion), (): ()) -> bool {
        true
    }

    async fn next_input(&mut self, _: &Balancers) -> Act {
        self.inbox.pop().await.1
    }

    fn take(&mut self, machine: &mut Balancers, input: Act, _: Duration) {
        match input {
            Act::Declare(id, config) => machine.declare(id, config),
            Act::Undeclare(id) => machine.undeclare(id),
            Act::Place(address, services) => machine.place(address, services),
        }
    }

    fn tell(&mut self, news: Vec<(ServiceId, Phase)>) {
        lock(&self.api).news.extend(news);
    }
}

/// A runner of the toy in virtual time.
struct Stage {
    api: Arc<Mutex<Api>>,
    inbox: KeyedQueue<usize, Act>,
    acts: usize,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Stage {
    fn new(steps_max: usize) -> Self {
        let api = Arc::new(Mutex::new(Api::default()));
        let inbox = KeyedQueue::default();
        let (stop, started) = (CancellationToken::new(), Instant::now());
        let driver = ApiDriver {
            api: Arc::clone(&api),
            inbox: inbox.clone(),
            started,
        };
        let mut runner = Runner::new(Balancers::default(), driver, started);
        runner.steps_max = steps_max;
        let running = tokio::spawn(runner.run(stop.clone()));
        let acts = 0;
        Self {
            api,
            inbox,
            acts,
            stop,
            running,
        }
    }

    fn act(&mut self, act: Act) {
        self.acts += 1;
        self.inbox.push(self.acts, act);
    }

    fn place(&mut self, address: Address, services: &[ServiceId]) {
        let services = services.iter().copied().collect();
        self.act(Act::Place(address, services));
    }

    /// Lets virtual time pass.
    async fn pass(&self, seconds: u64) {
        tokio::time::sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
        assert_eq!(lock(&self.api).broken, Vec::<String>::new());
    }

    fn api(&self) -> MutexGuard<'_, Api> {
        lock(&self.api)
    }

    /// When requests ended that begin like this.
    fn times(&self, start: &str) -> Vec<u64> {
        let api = self.api();
        let lines = api.log.iter().filter(|(_, line)| line.starts_with(start));
        lines.map(|(at, _)| *at).collect()
    }

    fn bound(&self, address: Address) -> Vec<ServiceId> {
        let api = self.api();
        api.bound
            .get(&address)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }
}

fn lock(api: &Mutex<Api>) -> MutexGuard<'_, Api> {
    api.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "as the test says")
}

#[tokio::test(start_paused = true)]
async fn an_address_waits_until_its_service_is_created() {
    let mut stage = Stage::new(9);
    stage.place(1, &[7, 8]);
    stage.act(Act::Declare(7, 70));
    stage.pass(4).await;
    assert_eq!(stage.bound(1), [7]);
    stage.act(Act::Declare(8, 80));
    stage.pass(4).await;
    assert_eq!(stage.bound(1), [7, 8]);
    assert_eq!(stage.api().services, BTreeMap::from([(7, 70), (8, 80)]));
}

#[tokio::test(start_paused = true)]
async fn a_parent_has_a_configuration_of_its_own() {
    let mut stage = Stage::new(9);
    stage.act(Act::Declare(7, 70));
    stage.pass(3).await;
    stage.act(Act::Declare(7, 71));
    stage.act(Act::Declare(7, 72));
    stage.pass(3).await;
    assert_eq!(stage.api().services, BTreeMap::from([(7, 72)]));
    let phases: Vec<Phase> = stage.api().news.iter().map(|(_, phase)| *phase).collect();
    assert_eq!(phases.last(), Some(&Phase::Created));
    assert_eq!(stage.times("Create").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_parent_goes_after_its_children_and_a_shared_child_stays_for_others() {
    let mut stage = Stage::new(9);
    stage.act(Act::Declare(7, 70));
    stage.act(Act::Declare(8, 80));
    for address in 0..8 {
        stage.place(address, &[7, 8]);
    }
    stage.pass(9).await;
    assert_eq!(stage.bound(0), [7, 8]);
    stage.act(Act::Undeclare(7));
    stage.pass(9).await;
    // The API writes down when a service goes before its addresses.
    assert_eq!(stage.api().services, BTreeMap::from([(8, 80)]));
    for address in 0..8 {
        assert_eq!(stage.bound(address), [8]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_again_while_it_is_deleted_is_created_again() {
    let mut stage = Stage::new(9);
    stage.act(Act::Declare(7, 70));
    stage.place(1, &[7]);
    stage.pass(4).await;
    stage.act(Act::Undeclare(7));
    // Unbinding takes a second; then the deletion is on its way.
    tokio::time::sleep_until(Instant::now() + TAKES * 3 / 2).await;
    stage.act(Act::Declare(7, 71));
    stage.pass(6).await;
    assert_eq!(stage.times("Delete").len(), 1);
    assert_eq!(stage.api().services, BTreeMap::from([(7, 71)]));
    assert_eq!(stage.bound(1), [7]);
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_again_before_it_is_deleted_stays() {
    let mut stage = Stage::new(9);
    stage.act(Act::Declare(7, 70));
    stage.place(1, &[7]);
    stage.pass(4).await;
    stage.act(Act::Undeclare(7));
    stage.act(Act::Declare(7, 70));
    stage.pass(6).await;
    assert_eq!(stage.times("Delete"), []);
    assert_eq!(stage.bound(1), [7]);
}

#[tokio::test(start_paused = true)]
async fn no_more_steps_are_on_their_way_than_allowed() {
    let mut stage = Stage::new(4);
    for id in 0..30 {
        stage.act(Act::Declare(id, 1));
        stage.place(id, &[id]);
    }
    stage.pass(60).await;
    assert_eq!(stage.api().running_max, 4);
    assert_eq!(stage.api().services.len(), 30);
    assert_eq!(stage.api().bound.len(), 30);
    assert!(stage.times("Bind").len() >= 30 / ADDRESSES_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_fails_waits_longer_each_time_and_others_do_not_wait() {
    let mut stage = Stage::new(9);
    let failing = [(); 3].map(|()| fault(FaultKind::ServerFailed));
    stage.api().faults.extend(failing);
    stage.act(Act::Declare(7, 70));
    stage.pass(1).await;
    stage.pass(30).await;
    // Attempts take a second, and the pauses between them are at least 1, 2 and 4 seconds.
    assert_eq!(stage.times("Create(7"), [1, 3, 6, 11]);
    stage.act(Act::Declare(8, 80));
    stage.pass(2).await;
    assert_eq!(stage.api().services, BTreeMap::from([(7, 70), (8, 80)]));
    // A success was in between, so the next failure is the first again.
    stage.api().faults.push_back(fault(FaultKind::ServerFailed));
    stage.act(Act::Declare(7, 71));
    stage.pass(9).await;
    let updates = stage.times("Update(7");
    assert_eq!(updates[1] - updates[0], 2);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_other_side_asked_for_is_waited() {
    let mut stage = Stage::new(9);
    let throttled = fault(FaultKind::Throttled).with_retry_after(Duration::from_secs(20));
    stage.api().faults.push_back(throttled);
    stage.act(Act::Declare(7, 70));
    stage.pass(60).await;
    assert_eq!(stage.times("Create(7"), [1, 22]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_fault_parks_a_parent_until_it_is_declared_otherwise() {
    let mut stage = Stage::new(9);
    stage.api().faults.push_back(fault(FaultKind::Invalid));
    stage.place(1, &[7]);
    stage.act(Act::Declare(7, 70));
    stage.pass(100_000).await;
    assert_eq!(stage.times("Create(7"), [1]);
    assert_eq!(stage.bound(1), []);
    stage.act(Act::Declare(7, 71));
    stage.pass(9).await;
    assert_eq!(stage.bound(1), [7]);
    // A parked parent that is no longer wanted goes without a word to the API.
    stage.api().faults.push_back(fault(FaultKind::Invalid));
    stage.act(Act::Declare(8, 80));
    stage.pass(9).await;
    stage.act(Act::Undeclare(8));
    stage.pass(9).await;
    assert_eq!(stage.times("Delete(8"), []);
    assert_eq!(stage.api().news.last(), Some(&(8, Phase::Gone)));
}

#[tokio::test(start_paused = true)]
async fn one_bad_child_fails_alone() {
    let mut stage = Stage::new(9);
    stage.api().poison = Some(2);
    stage.act(Act::Declare(7, 70));
    for address in 0..6 {
        stage.place(address, &[7]);
    }
    stage.pass(60).await;
    let bound: Vec<Address> = stage.api().bound.keys().copied().collect();
    assert_eq!(bound, [0, 1, 3, 4, 5]);
    assert_eq!(stage.times("Bind").len(), 2, "it is not tried again");
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_answer_was_lost_is_not_forgotten() {
    let mut stage = Stage::new(9);
    stage.act(Act::Declare(7, 70));
    stage.pass(4).await;
    stage.api().faults.push_back(fault(FaultKind::Lost));
    stage.place(1, &[7]);
    stage.pass(1).await;
    // It was applied, and is no longer asked for before anybody could know.
    stage.place(1, &[]);
    stage.pass(9).await;
    assert_eq!(stage.bound(1), []);
    stage.act(Act::Undeclare(7));
    stage.pass(9).await;
    assert_eq!(stage.api().services, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_at_the_end_is_finished_and_told() {
    let mut stage = Stage::new(1);
    stage.act(Act::Declare(7, 70));
    stage.act(Act::Declare(8, 80));
    tokio::time::sleep_until(Instant::now() + TAKES / 2).await;
    stage.stop.cancel();
    let Stage { api, running, .. } = stage;
    running.await.expect("the runner ends");
    let api = lock(&api);
    assert_eq!(api.services, BTreeMap::from([(7, 70)]), "nothing is begun");
    assert_eq!(api.news.last(), Some(&(7, Phase::Created)));
}
