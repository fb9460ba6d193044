//! What single events cost the state machine, without anything around it: processor time, so that others at work
//! on the machine count for little.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bindery_core::balancers::{
    BalancerEnd, BalancerStep, BalancerTimes, BalancerWork, Balancers, GroupEndpoint, Holdings,
    Whereabouts,
};
use rustix::time::{ClockId, clock_gettime};

use super::cloud::{CloudState, limits};
use super::population::Population;
use crate::figures::Times;

/// Changes and deletions that are timed one by one.
const SINGLES: usize = 500;
/// After so long everything is read anew.
const READ_AFTER: Duration = Duration::from_mins(6);

/// What one size gave.
pub(crate) struct Costs {
    pub(crate) services: usize,
    pub(crate) addresses: usize,
    /// A slice that nobody asks for yet.
    pub(crate) slice: Times,
    /// A Service with endpoints.
    pub(crate) declared: Times,
    /// The end of a creation.
    pub(crate) completed: Times,
    /// Nothing has changed.
    pub(crate) idle: Duration,
    /// Everything was read and is as it was.
    pub(crate) looked: Duration,
    /// Everything is to be bound and nothing is.
    pub(crate) cold: Duration,
    /// One endpoint in place of another, until both are bound as wanted.
    pub(crate) changed: Times,
    /// The same for so many at once.
    pub(crate) churned: (Duration, usize),
    /// So many endpoints of one node that live on another one now.
    pub(crate) drained: (Duration, usize),
    /// A Service goes.
    pub(crate) retired: Times,
    /// Its endpoints are let go of and it is removed.
    pub(crate) gone: Times,
}

/// The machine, and a provider that answers at once.
struct Desk {
    machine: Balancers,
    cloud: CloudState,
    begin: Instant,
    /// How much later it is than it is.
    ahead: Duration,
    steps: VecDeque<(BalancerWork, BalancerStep)>,
}

/// Measures one size.
pub(crate) fn measure(population: &Population) -> Result<Costs> {
    let mut desk = Desk::new();
    desk.begin_with(Holdings::default())?;
    for (name, address) in population.nodes() {
        desk.machine.set_node(name, vec![*address]);
    }
    let (mut slice, mut declared) = (Times::default(), Times::default());
    for number in 0..population.services {
        let key = population.slice(number);
        let group = population.group(number, population.endpoints(number));
        slice.push(desk.timed(|machine| machine.set_endpoints(&key, Some(group))));
    }
    for number in 0..population.services {
        let (key, declaration) = (Population::key(number), population.declaration(number));
        declared.push(desk.timed(|machine| machine.declare(&key, declaration)));
    }
    let mut completed = Times::default();
    while let Some((is_balancer, time)) = desk.end()? {
        if is_balancer {
            completed.push(time);
        }
    }
    ensure!(
        desk.cloud.holdings.addresses.len() == population.addresses(),
        "not every endpoint is bound"
    );
    let (idle, looked) = (desk.timed(|_| ()), desk.look()?);
    let holdings = desk.cloud.holdings.clone();
    let changed = desk.change_singly(population)?;
    let churned = desk.churn(population)?;
    let drained = desk.drain(population)?;
    let (retired, gone) = desk.retire(population)?;
    drop(desk);
    let cold = cold(population, holdings)?;
    Ok(Costs {
        services: population.services,
        addresses: population.addresses(),
        slice,
        declared,
        completed,
        idle,
        looked,
        cold,
        changed,
        churned,
        drained,
        retired,
        gone,
    })
}

/// Every balancer stands as wanted when it is found, and no address is bound.
fn cold(population: &Population, mut holdings: Holdings) -> Result<Duration> {
    holdings.addresses.clear();
    let mut desk = Desk::new();
    for (name, address) in population.nodes() {
        desk.machine.set_node(name, vec![*address]);
    }
    for number in 0..population.services {
        let group = population.group(number, population.endpoints(number));
        let slice = population.slice(number);
        desk.machine.set_endpoints(&slice, Some(group));
        let declaration = population.declaration(number);
        desk.machine.declare(&Population::key(number), declaration);
    }
    desk.cloud.adopt(holdings.clone());
    let time = desk.begin_with(holdings)? + desk.finish()?;
    ensure!(
        desk.cloud.asked.ensure == 0,
        "balancers were written that stood"
    );
    ensure!(
        desk.cloud.holdings.addresses.len() == population.addresses(),
        "not every endpoint is bound"
    );
    Ok(time)
}

impl Desk {
    fn new() -> Self {
        Self {
            machine: Balancers::new(limits(), BalancerTimes::default()),
            cloud: CloudState::default(),
            begin: Instant::now(),
            ahead: Duration::ZERO,
            steps: VecDeque::new(),
        }
    }

    /// The provider was read and has this, and everything that is asked for was told.
    fn begin_with(&mut self, holdings: Holdings) -> Result<Duration> {
        self.next_steps();
        let Some((work, BalancerStep::Read)) = self.steps.pop_front() else {
            bail!("it does not read first");
        };
        let begin = spent();
        self.machine.set_synced();
        let end = BalancerEnd::Read(Ok(holdings));
        self.machine.complete(&work, end, self.now());
        self.next_steps();
        Ok(spent().saturating_sub(begin))
    }

    fn now(&self) -> Duration {
        self.begin.elapsed() + self.ahead
    }

    /// Asks for all steps there are now and takes the news, as a runner does after each event.
    fn next_steps(&mut self) {
        let now = self.now();
        loop {
            let work = self.machine.take_work();
            if work.is_empty() {
                break;
            }
            for one in work {
                while let Some(step) = self.machine.next_step(&one, now) {
                    self.steps.push_back((one.clone(), step));
                }
            }
        }
        drop(self.machine.take_news());
    }

    /// How long an event takes, with the steps that it leads to.
    fn timed(&mut self, event: impl FnOnce(&mut Balancers)) -> Duration {
        let begin = spent();
        event(&mut self.machine);
        self.next_steps();
        spent().saturating_sub(begin)
    }

    /// Has the provider do the next step, and says how long the machine took over its end and whether it
    /// was about a balancer.
    fn end(&mut self) -> Result<Option<(bool, Duration)>> {
        let Some((work, step)) = self.steps.pop_front() else {
            return Ok(None);
        };
        let is_balancer = matches!(step, BalancerStep::Ensure { .. } | BalancerStep::Remove(_));
        let end = match step {
            BalancerStep::Ensure { key, spec, .. } => {
                BalancerEnd::Ensured(Ok(self.cloud.ensure(&key, &spec)))
            }
            BalancerStep::Remove(key) => BalancerEnd::Removed(self.cloud.remove(&key)),
            BalancerStep::Bind(changes) => match self.cloud.bind(&changes) {
                Ok(outcomes) => BalancerEnd::Bound(outcomes),
                Err(fault) => bail!("addresses were refused: {}", fault.message),
            },
            BalancerStep::Read => BalancerEnd::Read(Ok(self.cloud.holdings.clone())),
        };
        let now = self.now();
        let time = self.timed(|machine| machine.complete(&work, end, now));
        Ok(Some((is_balancer, time)))
    }

    /// Ends all steps; the time that the machine took over them.
    fn finish(&mut self) -> Result<Duration> {
        let mut time = Duration::ZERO;
        while let Some((_, more)) = self.end()? {
            time += more;
        }
        Ok(time)
    }

    /// The periodic look at everything, which finds nothing.
    fn look(&mut self) -> Result<Duration> {
        self.ahead += READ_AFTER;
        let now = self.now();
        self.machine.wake(now);
        self.next_steps();
        ensure!(
            matches!(self.steps.front(), Some((_, BalancerStep::Read))),
            "it does not read again"
        );
        let time = self.finish()?;
        Ok(time)
    }

    fn tell(&mut self, population: &Population, number: usize, endpoints: Vec<GroupEndpoint>) {
        let group = population.group(number, endpoints);
        let slice = population.slice(number);
        self.machine.set_endpoints(&slice, Some(group));
    }

    fn change_singly(&mut self, population: &Population) -> Result<Times> {
        let mut times = Times::default();
        for single in 0..SINGLES.min(population.services) {
            let number = spread(single, population.services);
            let mut endpoints = population.endpoints(number);
            endpoints[0] = population.endpoint(population.addresses() + single);
            let (slice, group) = (
                population.slice(number),
                population.group(number, endpoints),
            );
            let told = self.timed(|machine| machine.set_endpoints(&slice, Some(group)));
            let before = self.cloud.asked.bind;
            times.push(told + self.finish()?);
            ensure!(self.cloud.asked.bind > before, "nothing was bound");
            self.tell(population, number, population.endpoints(number));
            self.next_steps();
            self.finish()?;
        }
        Ok(times)
    }

    /// One in a hundred endpoints is replaced, all at once.
    fn churn(&mut self, population: &Population) -> Result<(Duration, usize)> {
        let count = (population.addresses() / 100).clamp(1, population.services);
        let mut groups = Vec::new();
        for single in 0..count {
            let number = single * population.services / count;
            let mut endpoints = population.endpoints(number);
            endpoints[0] = population.endpoint(population.addresses() + single);
            groups.push((
                population.slice(number),
                population.group(number, endpoints),
            ));
        }
        let time = self.timed(|machine| {
            for (slice, group) in groups {
                machine.set_endpoints(&slice, Some(group));
            }
        });
        let time = time + self.finish()?;
        for single in 0..count {
            let number = single * population.services / count;
            self.tell(population, number, population.endpoints(number));
        }
        self.next_steps();
        self.finish()?;
        Ok((time, count))
    }

    /// The endpoints of the first node live on the second from now on.
    fn drain(&mut self, population: &Population) -> Result<(Duration, usize)> {
        let [(from, _), (to, _), ..] = population.nodes() else {
            bail!("there are no two nodes");
        };
        let (mut groups, mut count) = (Vec::new(), 0);
        for number in 0..population.services {
            let mut endpoints = population.endpoints(number);
            let moved = endpoints
                .iter_mut()
                .filter(|one| matches!(&one.place, Whereabouts::Node(at) if at == from));
            let mut has_moved = false;
            for endpoint in moved {
                endpoint.place = Whereabouts::Node(to.clone());
                (has_moved, count) = (true, count + 1);
            }
            if has_moved {
                let group = population.group(number, endpoints);
                groups.push((population.slice(number), group));
            }
        }
        let time = self.timed(|machine| {
            for (slice, group) in groups {
                machine.set_endpoints(&slice, Some(group));
            }
        });
        Ok((time + self.finish()?, count))
    }

    fn retire(&mut self, population: &Population) -> Result<(Times, Times)> {
        let (mut retired, mut gone) = (Times::default(), Times::default());
        let count = SINGLES.min(population.services);
        for single in 0..count {
            let key = Population::key(spread(single, population.services));
            retired.push(self.timed(|machine| machine.retire(&key)));
            gone.push(self.finish()?);
        }
        let left = self.cloud.holdings.balancers.len();
        ensure!(
            left == population.services - count,
            "{left} balancers are left"
        );
        Ok((retired, gone))
    }
}

/// The processor time of this thread, which waits for nobody in between.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Numbers below `len` far from each other, none twice as long as there are no more of them.
fn spread(single: usize, len: usize) -> usize {
    /// A prime, larger than any number of Services that is measured.
    const STEP: usize = 1_000_003;
    single * STEP % len
}
