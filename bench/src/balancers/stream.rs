//! A stream of changes, as a cluster at work makes it: how long until the provider has each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_core::balancers::GroupEndpoint;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::cloud::Cloud;
use super::population::Population;
use super::running::Running;
use crate::figures::{Times, amount};
use crate::machine;

/// Endpoints that are replaced in a second; beside them a Service comes and one goes.
const CHANGES_PER_SECOND: usize = 100;
/// The time between two changes.
const TICK: Duration = Duration::from_millis(10);
/// So many Services that came are there at a time.
const STAYS: usize = 5;
/// How long one request to the provider takes.
pub(crate) const LATENCY: Duration = Duration::from_millis(20);
/// How long the last change may take.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);

/// What came of it.
pub(crate) struct Stream {
    pub(crate) services: usize,
    pub(crate) events: usize,
    /// From an event until the provider had done it.
    pub(crate) delays: Times,
    /// The same of the endpoints of Services that came.
    pub(crate) arrivals: Times,
    /// Changes that were not done yet, at most.
    pub(crate) backlog: usize,
    /// Milliseconds of processor time for each event.
    pub(crate) cpu: f64,
}

/// Changes that the provider was not seen to do yet.
#[derive(Default)]
struct Awaiting {
    sent: HashMap<IpAddr, (Instant, bool)>,
    delays: Times,
    arrivals: Times,
    backlog: usize,
}

impl Awaiting {
    fn expect(&mut self, endpoint: &GroupEndpoint, at: Instant, is_arrival: bool) {
        self.sent.insert(endpoint.address, (at, is_arrival));
    }

    fn take(&mut self, seen: &mut mpsc::UnboundedReceiver<(IpAddr, Instant)>) {
        while let Ok((address, at)) = seen.try_recv() {
            if let Some((sent, is_arrival)) = self.sent.remove(&address) {
                let times = if is_arrival {
                    &mut self.arrivals
                } else {
                    &mut self.delays
                };
                times.push(at.saturating_duration_since(sent));
            }
        }
        self.backlog = self.backlog.max(self.sent.len());
    }
}

/// Measures for so many seconds with the population standing.
pub(crate) async fn measure(population: &Population, seconds: usize) -> Result<Stream> {
    let cloud = Arc::new(Cloud::new(Duration::ZERO));
    let running = Running::start(&cloud);
    running.tell_all(population);
    let (services, addresses) = (population.services, population.addresses());
    running.wait_for(services, addresses).await?;
    running.end().await?;

    // From now on requests take their time.
    let holdings = std::mem::take(&mut cloud.lock().holdings);
    let cloud = Arc::new(Cloud::new(LATENCY));
    let (sender, mut seen) = mpsc::unbounded_channel();
    cloud.lock().adopt(holdings);
    cloud.lock().seen = Some(sender);
    let running = Running::start(&cloud);
    running.tell_all(population);
    running.wait_for(services, addresses).await?;

    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let pid = std::process::id();
    let cpu = machine::cpu_seconds(pid)?;
    let mut awaiting = Awaiting::default();
    let mut events = 0;
    for change in 0..seconds * CHANGES_PER_SECOND {
        ticks.tick().await;
        awaiting.take(&mut seen);
        events += 1;
        let number = change % services;
        let mut endpoints = population.endpoints(number);
        // Behind all that there are, and those of Services that come.
        let fresh = 2 * addresses + change;
        endpoints[0] = population.endpoint(fresh);
        awaiting.expect(&endpoints[0], Instant::now(), false);
        let group = population.group(number, endpoints);
        let slice = population.slice(number);
        running.engine.set_endpoints(slice, Some(group));
        if change % CHANGES_PER_SECOND == 0 {
            let comes = services + change / CHANGES_PER_SECOND;
            let now = Instant::now();
            for endpoint in population.endpoints(comes) {
                awaiting.expect(&endpoint, now, true);
            }
            running.tell_slice(population, comes);
            running.tell_service(population, comes);
            events += 2;
            if let Some(goes) = comes.checked_sub(STAYS).filter(|one| *one >= services) {
                running.engine.retire(Population::key(goes));
                running.engine.set_endpoints(population.slice(goes), None);
                events += 2;
            }
        }
    }
    finish(&mut awaiting, &mut seen).await?;
    let cpu = (machine::cpu_seconds(pid)? - cpu) * 1000.0 / amount(events);
    running.end().await?;
    Ok(Stream {
        services,
        events,
        delays: awaiting.delays,
        arrivals: awaiting.arrivals,
        backlog: awaiting.backlog,
        cpu,
    })
}

async fn finish(
    awaiting: &mut Awaiting,
    seen: &mut mpsc::UnboundedReceiver<(IpAddr, Instant)>,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !awaiting.sent.is_empty() {
        if Instant::now() > deadline {
            let left = awaiting.sent.keys().next().context("one is left")?;
            bail!(
                "{} changes, {left} among them, were not done after {PATIENCE:?}",
                awaiting.sent.len()
            );
        }
        sleep(POLL).await;
        awaiting.take(seen);
    }
    Ok(())
}
