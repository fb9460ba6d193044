//! A provider that throttles, does not answer and refuses an address: whether the end is as it should be.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bindery_core::balancers::{BalancerKey, Bindings};
use tokio::time::sleep;

use super::cloud::{Asked, Cloud, CloudFaults};
use super::population::Population;
use super::running::Running;

/// Of a hundred requests five are throttled, and two are done and not answered.
const FAULTS: CloudFaults = CloudFaults {
    throttled: 5,
    retry_after: Duration::from_secs(1),
    lost: 2,
};
/// How long one request takes.
const LATENCY: Duration = Duration::from_millis(5);
/// How long the end may take before it is told that it did not come.
const PATIENCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(20);
/// One in so many Services goes, and one gets another endpoint, in the middle of it.
const PARTS: usize = 10;

/// What came of it.
pub(crate) struct Trouble {
    pub(crate) services: usize,
    pub(crate) time: Duration,
    pub(crate) asked: Asked,
    /// Balancers and addresses that the provider has and should not, has not and should, or has otherwise.
    pub(crate) wrong: usize,
    /// Addresses that the engine tells as refused.
    pub(crate) refused: usize,
}

/// What the provider is to have in the end.
struct Truth {
    balancers: Vec<BalancerKey>,
    addresses: BTreeMap<IpAddr, Bindings>,
}

/// Measures with the population, while requests fail.
pub(crate) async fn measure(population: &Population) -> Result<Trouble> {
    let cloud = Arc::new(Cloud::new(LATENCY));
    let poisoned = population.services / 2 + 1;
    let poison = population.endpoints(poisoned)[0].address;
    {
        let mut state = cloud.lock();
        state.faults = Some(FAULTS);
        state.poison.insert(poison);
    }
    let begin = Instant::now();
    let running = Running::start(&cloud);
    running.tell_all(population);
    while running.standing().0 < population.services / 2 && begin.elapsed() < PATIENCE {
        sleep(POLL).await;
    }
    for number in (0..population.services).step_by(PARTS) {
        running.engine.retire(Population::key(number));
        running.engine.set_endpoints(population.slice(number), None);
    }
    for number in (1..population.services).step_by(PARTS) {
        let mut endpoints = population.endpoints(number);
        if number != poisoned {
            endpoints[0] = population.endpoint(population.addresses() + number);
        }
        let group = population.group(number, endpoints);
        let slice = population.slice(number);
        running.engine.set_endpoints(slice, Some(group));
    }
    let truth = Truth::new(population, poisoned, poison);
    while truth.wrong(&cloud) > 0 && begin.elapsed() < PATIENCE {
        sleep(POLL).await;
    }
    let time = begin.elapsed();
    let report = running.engine.report(&Population::key(poisoned));
    let asked = cloud.lock().asked;
    let trouble = Trouble {
        services: population.services,
        time,
        asked,
        wrong: truth.wrong(&cloud),
        refused: report.map_or(0, |report| report.refused.1),
    };
    running.end().await?;
    Ok(trouble)
}

impl Truth {
    fn new(population: &Population, poisoned: usize, poison: IpAddr) -> Self {
        let stays = |number: &usize| !number.is_multiple_of(PARTS);
        let balancers = (0..population.services)
            .filter(stays)
            .map(Population::key)
            .collect();
        let mut addresses = BTreeMap::new();
        for number in (0..population.services).filter(stays) {
            let mut endpoints = population.endpoints(number);
            if number % PARTS == 1 && number != poisoned {
                endpoints[0] = population.endpoint(population.addresses() + number);
            }
            for endpoint in endpoints {
                addresses.insert(endpoint.address, population.bindings(number, &endpoint));
            }
        }
        addresses.remove(&poison);
        Self {
            balancers,
            addresses,
        }
    }

    /// How much of what the provider has differs.
    fn wrong(&self, cloud: &Cloud) -> usize {
        let state = cloud.lock();
        let held = &state.holdings;
        let missing = self.balancers.iter();
        let missing = missing.filter(|key| !held.balancers.contains_key(*key));
        let missing = missing.count();
        let known = self.balancers.len() - missing;
        let more = held.balancers.len() - known;
        let other = self.addresses.iter();
        let other = other.filter(|(address, wanted)| held.addresses.get(*address) != Some(*wanted));
        let extra = held.addresses.keys();
        let extra = extra.filter(|address| !self.addresses.contains_key(*address));
        missing + more + other.count() + extra.count()
    }
}
