//! The engine of load balancers with a provider in memory: what events cost, how long everything takes until
//! nothing is left to do, and what it takes in memory.

mod cloud;
mod costs;
mod memory;
mod population;
mod running;
mod stream;
mod trouble;

use std::time::Duration;

use anyhow::Result;

use self::costs::Costs;
use self::memory::Memory;
use self::population::Population;
use self::running::Life;
use self::stream::Stream;
use self::trouble::Trouble;
use crate::arguments::Arguments;
use crate::figures::{Times, amount, milliseconds, rate, seconds};
use crate::table::{RECORDED, Row};

pub(crate) use self::memory::hold;

/// The title of its table.
pub(crate) const TITLE: &str = "engine of load balancers, a provider in memory";

/// Nodes that the endpoints live on.
const NODES: usize = 100;
/// How often as dear an event may be at the largest size.
const GROWTH_MAX: f64 = 2.0;
/// How long requests to the provider take, beside no time at all.
const LATENCIES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];
/// No more Services than so many in a second of latency are created at the longer latencies: that takes as long
/// as the latency says, and tells nothing new.
const SERVICES_BY_LATENCY: [usize; 2] = [usize::MAX, 1_000];
/// Sizes at which events are costed several times, of which the cheapest counts: what others do on the machine
/// only makes them dearer.
const ROUNDS_MAX: usize = 3;

/// What was measured.
struct Measured {
    costs: Vec<Costs>,
    lives: Vec<Life>,
    streams: Vec<Stream>,
    memory: Option<Memory>,
    trouble: Trouble,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments) -> Result<Vec<Row>> {
    let sizes = &arguments.services;
    let each = arguments.endpoints;
    let populations: Vec<Population> = sizes
        .iter()
        .map(|services| Population::new(*services, each, NODES))
        .collect();
    let mut costs = Vec::new();
    for population in &populations {
        let mut best = costs::measure(population)?;
        for _ in 1..arguments.rounds.min(ROUNDS_MAX) {
            best = best.or_cheaper(costs::measure(population)?);
        }
        costs.push(best);
    }
    let mut lives = Vec::new();
    for population in &populations {
        lives.push(running::measure(population, Duration::ZERO).await?);
    }
    for (latency, most) in LATENCIES.into_iter().zip(SERVICES_BY_LATENCY) {
        for population in &populations {
            if population.services <= most.max(sizes[0]) {
                lives.push(running::measure(population, latency).await?);
            }
        }
    }
    let mut streams = Vec::new();
    for population in ends(&populations) {
        streams.push(stream::measure(population, arguments.churn_seconds).await?);
    }
    let memory = match ends(sizes)[..] {
        [few, many] => Some(memory::measure((*few, *many), each).await?),
        _ => None,
    };
    let trouble = trouble::measure(&populations[0]).await?;
    let measured = Measured {
        costs,
        lives,
        streams,
        memory,
        trouble,
    };
    Ok(measured.rows(each))
}

/// The first and the last, where there are two.
fn ends<T>(all: &[T]) -> Vec<&T> {
    let last = all.last().filter(|_| all.len() > 1);
    all.first().into_iter().chain(last).collect()
}

impl Measured {
    fn rows(&self, each: usize) -> Vec<Row> {
        let mut rows = self.ingest(each);
        rows.extend(self.differences());
        rows.extend(self.deletions());
        rows.extend(self.lives.iter().flat_map(life));
        rows.extend(self.streams());
        if let (Some(memory), [.., last]) = (&self.memory, &self.costs[..]) {
            rows.push(
                Row::new(
                    "memory for each address, by resident memory",
                    format!(
                        "{:.0} B; {:.0} MiB at {} addresses",
                        memory.each, memory.resident.1, last.addresses
                    ),
                )
                .beside(format!("{RECORDED} 763 B of heap, 76 MiB at 100000"), ""),
            );
        }
        rows.extend(self.trouble());
        rows
    }

    fn ingest(&self, each: usize) -> Vec<Row> {
        let total = |costs: &Costs| {
            let time = costs.slice.sum() + costs.declared.sum();
            rate(2 * costs.services, time)
        };
        let totals: Vec<String> = self
            .costs
            .iter()
            .map(|one| format!("{:.0}", total(one)))
            .collect();
        vec![
            Row::new(
                format!("Services, with {each} endpoints each"),
                self.listed(|costs| format!("{} ({} addresses)", costs.services, costs.addresses)),
            ),
            Row::new("slices and Services taken in per second", totals.join(", ")),
            self.flat("a slice comes, p50", |one| one.slice.p50())
                .beside(format!("{RECORDED} 15–29, 16–26, 16–25 µs"), ""),
            Row::new("a slice comes, p99", self.times(|one| one.slice.p99())),
            self.flat("a Service comes, p50", |one| one.declared.p50())
                .beside(format!("{RECORDED} 72–80, 296–352, 626–819 µs"), ""),
            Row::new("a Service comes, p99", self.times(|one| one.declared.p99())),
            self.flat("a creation ends, p50", |one| one.completed.p50())
                .beside(format!("{RECORDED} 113–141, 631–736, 1100–1600 µs"), ""),
        ]
    }

    fn differences(&self) -> Vec<Row> {
        let per = |(time, count): (Duration, usize)| time.div_f64(amount(count.max(1)));
        let all = |what: (Duration, usize)| format!("{} for {}", milliseconds(what.0), what.1);
        vec![
            Row::new(
                "everything is to be bound and nothing is",
                self.listed(|one| milliseconds(one.cold)),
            )
            .beside(
                format!("{RECORDED} –, –, 184–252 ms, and 278–329 ms for the request"),
                "",
            ),
            self.flat("the same for each address", |one| {
                per((one.cold, one.addresses))
            }),
            Row::new("nothing changed", self.times(|one| one.idle))
                .beside(format!("{RECORDED} 13–16, 106–120, 211–220 ms"), ""),
            Row::new(
                "everything was read again and is as it was",
                self.listed(|one| milliseconds(one.looked)),
            ),
            self.flat("the same for each address", |one| {
                per((one.looked, one.addresses))
            }),
            self.flat(
                "one endpoint changes, until both addresses are bound, p50",
                |one| one.changed.p50(),
            )
            .beside(format!("{RECORDED} 10–20, 102–130, 203–231 ms"), ""),
            Row::new(
                "one endpoint changes, p99",
                self.times(|one| one.changed.p99()),
            ),
            Row::new(
                "one in a hundred endpoints changes",
                self.listed(|one| all(one.churned)),
            ),
            self.flat("the same for each", |one| per(one.churned)),
            Row::new(
                "a node is drained to another",
                self.listed(|one| all(one.drained)),
            ),
            self.flat("the same for each endpoint", |one| per(one.drained)),
        ]
    }

    fn deletions(&self) -> Vec<Row> {
        vec![
            self.flat("a Service goes, p50", |one| one.retired.p50())
                .beside(format!("{RECORDED} 1.2–2.5, 19–26, 39–41 ms"), ""),
            self.flat(
                "its addresses are let go of and it is removed, p50",
                |one| one.gone.p50(),
            ),
        ]
    }

    fn streams(&self) -> Vec<Row> {
        let latency = stream::LATENCY.as_millis();
        let mut rows = Vec::new();
        for stream in &self.streams {
            let what = format!(
                "{} events, 100 endpoints a second, {} Services standing, {latency} ms a request",
                stream.events, stream.services
            );
            rows.push(Row::new(
                format!("{what}: until the provider has an endpoint, p50, p99"),
                both(&stream.delays),
            ));
            rows.push(Row::new(
                "… until the endpoints of a Service that comes are bound, p50, p99",
                both(&stream.arrivals),
            ));
            rows.push(Row::new(
                "… endpoints not bound yet, at most; processor time per event",
                format!("{}; {:.3} ms", stream.backlog, stream.cpu),
            ));
        }
        if let [few, many] = &self.streams[..] {
            let growth = many.delays.p99().as_secs_f64() / few.delays.p99().as_secs_f64();
            rows.push(limited(
                Row::new(
                    "… p99 at the larger size to the smaller",
                    format!("{growth:.2} times"),
                ),
                growth,
            ));
        }
        rows
    }

    fn trouble(&self) -> Vec<Row> {
        let Trouble {
            services,
            time,
            asked,
            wrong,
            refused,
        } = &self.trouble;
        let what = format!(
            "{services} Services come, a tenth goes, a tenth changes; 5 % of requests throttled, 2 % done \
             without an answer, one address refused: until all is as it should be"
        );
        let end = Row::new(
            "… what differs in the end; addresses told as refused",
            format!("{wrong}; {refused}"),
        );
        vec![
            Row::new(what, seconds(*time)),
            Row::new(
                "… requests that write, of them throttled, without an answer",
                format!(
                    "{}, {}, {}",
                    asked.writes() + asked.throttled,
                    asked.throttled,
                    asked.lost
                ),
            ),
            if (*wrong, *refused) == (0, 1) {
                end.within("0; 1")
            } else {
                end.beyond("0; 1")
            },
        ]
    }

    fn listed(&self, tell: impl Fn(&Costs) -> String) -> String {
        let all: Vec<String> = self.costs.iter().map(tell).collect();
        all.join(", ")
    }

    fn times(&self, time: impl Fn(&Costs) -> Duration) -> String {
        let all: Vec<String> = self.costs.iter().map(|one| micros(time(one))).collect();
        format!("{} µs", all.join(", "))
    }

    /// A line about the cost of an event, which may not grow with what stands.
    fn flat(&self, what: &str, time: impl Fn(&Costs) -> Duration) -> Row {
        let growth = match ends(&self.costs)[..] {
            [few, many] => time(many).as_secs_f64() / time(few).as_secs_f64(),
            _ => 1.0,
        };
        let row = Row::new(what, format!("{}: {growth:.2} times", self.times(time)));
        limited(row, growth)
    }
}

impl Costs {
    /// The cheaper of two rounds, line by line.
    fn or_cheaper(self, other: Self) -> Self {
        let cheaper = |one: Times, other: Times| {
            if other.p50() < one.p50() { other } else { one }
        };
        Self {
            slice: cheaper(self.slice, other.slice),
            declared: cheaper(self.declared, other.declared),
            completed: cheaper(self.completed, other.completed),
            idle: self.idle.min(other.idle),
            looked: self.looked.min(other.looked),
            cold: self.cold.min(other.cold),
            changed: cheaper(self.changed, other.changed),
            churned: self.churned.min(other.churned),
            drained: self.drained.min(other.drained),
            retired: cheaper(self.retired, other.retired),
            gone: cheaper(self.gone, other.gone),
            ..self
        }
    }
}

fn life(life: &Life) -> Vec<Row> {
    let (services, latency) = (life.services, life.latency.as_millis());
    let what = format!("{services} Services, {latency} ms a request");
    let each =
        |time: Duration| format!("{}, {:.0} per second", seconds(time), rate(services, time));
    let created = Row::new(format!("{what} → all carry traffic"), each(life.created));
    let deleted = Row::new("… → all deleted", each(life.deleted));
    let asked = life.asked;
    let restarted = Row::new(
        "… restart with everything in sync; requests that wrote",
        format!("{}; {}", seconds(life.restarted), life.rewritten),
    );
    let restarted = restarted.beside(format!("{RECORDED} a write for each Service"), "");
    let mut rows = vec![
        recorded(created, RECORDED_CREATED, services, latency, life.created),
        Row::new(
            "… requests: balancers, addresses; the largest with addresses",
            format!(
                "{}, {}; {} addresses, {} kB",
                asked.ensure,
                asked.bind,
                asked.largest_len,
                asked.largest_bytes / 1000
            ),
        ),
        recorded(deleted, RECORDED_DELETED, services, latency, life.deleted),
        if life.rewritten == 0 {
            restarted.within("no write")
        } else {
            restarted.beyond("no write")
        },
    ];
    if latency == 0 {
        let cpu = format!("{:.3} ms", life.cpu);
        rows.insert(1, Row::new("… processor time for each Service", cpu));
    }
    rows
}

/// Services, latency in ms, and how many per second the engine of cloud-provider-azure was recorded to do; at
/// which size that was with a latency is not recorded.
type Recorded = (usize, u128, f64);

const RECORDED_CREATED: &[Recorded] = &[
    (1_000, 0, 280.0),
    (2_000, 0, 140.0),
    (5_000, 0, 35.0),
    (1_000, 20, 146.0),
    (1_000, 200, 16.0),
];
const RECORDED_DELETED: &[Recorded] = &[(1_000, 0, 170.0), (2_000, 0, 56.0), (5_000, 0, 13.0)];

fn recorded(row: Row, known: &[Recorded], services: usize, latency: u128, time: Duration) -> Row {
    let mut known = known.iter();
    let found = known.find(|(size, at, _)| (*size, *at) == (services, latency));
    let Some((.., per_second)) = found else {
        return row;
    };
    let ours = rate(services, time);
    row.beside(
        if latency == 0 {
            format!("{RECORDED} {per_second:.0} per second")
        } else {
            format!("{RECORDED} {per_second:.0} per second, size unknown")
        },
        format!("{:.2}", per_second / ours),
    )
}

fn limited(row: Row, growth: f64) -> Row {
    row.budget("≤ 2 times", growth / GROWTH_MAX)
}

fn both(times: &Times) -> String {
    format!(
        "{}, {}",
        milliseconds(times.p50()),
        milliseconds(times.p99())
    )
}

/// A very short time in microseconds, without the unit.
fn micros(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}
