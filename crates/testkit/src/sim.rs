//! One run: users, faults and crashes from a seed; then quiet, in which everything must come right
//! and stay so.

mod fleet;
mod judging;
mod mischief;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bindery_apiserver::{EmbeddedApi, Environment, Options, Seeded, Storage};
use bindery_core::{Group, Moment, Name, Record, Serial, zones::Limits};
use bindery_engine::{Engine, Servers, ports::ZoneHost};
use bindery_kube::{Clock, Controllers, Management, Replica, Settings};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use self::fleet::ServerPlace;
use crate::{
    api::FaultyApi,
    nameserver::{FakeNameServer, Fate, Faults, Operation},
    user::{Clusters, INSIDE, User, ZONES},
    weather::{Crashes, DnsWeather, Random, Weather},
};

/// Lines that stand in the zones of an external server before Bindery comes.
const FOREIGN: [&str; 4] = [
    "example.com. 3600 IN NS ns1.example.net.",
    "taken.example.com. 60 IN A 192.0.2.1",
    "mail.example.com. 60 IN MX 10 mx.example.net.",
    "sub.example.com. 3600 IN NS ns1.example.net.",
];

/// Which of several servers is a secondary.
const SECONDARY: usize = 2;

/// What one run is to be like.
#[derive(Clone, Copy, Debug)]
pub struct SimPlan {
    /// The seed of everything.
    pub seed: u64,
    /// How many things the user does.
    pub acts: usize,
    /// When the process crashes.
    pub crashes: Crashes,
    /// Whether what happens is kept in words.
    pub words: Words,
}

/// Whether what happens is kept in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Kept, to be read by a person.
    Kept,
    /// Only digested.
    Dropped,
}

impl SimPlan {
    /// The run of a seed as the simulation takes it.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let acts = 5 + Random::new(seed).below(25);
        Self {
            seed,
            acts,
            crashes: Crashes::Percent(6),
            words: Words::Dropped,
        }
    }
}

/// How a run went.
#[derive(Debug)]
pub struct SimReport {
    /// The same for two runs in which the same happened.
    pub digest: u64,
    /// How many writes the process made.
    pub writes: u64,
    /// How often it crashed.
    pub crashes: u32,
    /// What happened, where it was kept.
    pub words: Vec<String>,
    /// What went wrong.
    pub failure: Option<String>,
}

/// Runs one plan on a runtime of its own with a virtual clock.
///
/// # Panics
/// Where the runtime cannot be built, which needs a broken machine.
#[must_use]
pub fn run(plan: SimPlan) -> SimReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(World::play(plan))
}

struct World {
    api: EmbeddedApi,
    /// A primary; the others are another one and a secondary, where there are any.
    servers: Vec<FakeNameServer>,
    /// Where each of them is, and until when it does not answer.
    places: Vec<ServerPlace>,
    /// The server of another cluster, where there is one.
    inside: Option<FakeNameServer>,
    weather: Arc<Weather>,
    environment: Arc<Seeded>,
    management: Management,
    limits: Limits,
    crashes: u32,
    /// What others wrote into zones, by zone.
    guests: BTreeMap<String, String>,
    /// Whether others write into the zones, so that servers lose nothing.
    has_guests: bool,
    /// When strangers last wrote at a name.
    strangers: BTreeMap<String, Instant>,
    /// When the user last did something to a zone.
    zones_touched: Instant,
    /// The newest serial that a status told of each zone, and after how many deletions of the zone.
    told: BTreeMap<String, (usize, Serial)>,
    engine: Option<Engine>,
    process: Option<JoinSet<()>>,
}

struct SimulatedClock(Arc<Seeded>);

/// A server that cannot be reached.
struct Away;

impl Faults for Away {
    fn fate(&self, _operation: Operation) -> (Fate, Duration) {
        (Fate::Unreachable, Duration::ZERO)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Moment {
        Moment(self.0.now().as_second())
    }
}

/// Limits so low that few records are a flood, or as they are.
fn limits(seed: u64) -> Limits {
    let limits = Limits::default();
    let mut random = Random::new(seed ^ 0x11a1_7500);
    let small = 1 + random.below(3);
    match random.below(3) {
        0 => limits,
        1 => Limits {
            sets_per_message_max: small,
            sets_by_changes_min: 1,
            ..limits
        },
        _ => Limits {
            sets_per_message_max: small,
            sets_by_changes_min: 2,
            ..limits
        },
    }
}

impl World {
    async fn play(plan: SimPlan) -> SimReport {
        let weather = Weather::new(plan.seed, plan.crashes);
        if plan.words == Words::Kept {
            weather.keep_words();
        }
        let mut world = Self::new(plan.seed, Arc::clone(&weather));
        let failure = world.live(plan).await.err();
        if failure.is_some() && plan.words == Words::Kept {
            world.note_state(plan).await;
        }
        SimReport {
            digest: weather.digest(),
            writes: weather.writes(),
            crashes: world.crashes,
            words: weather.words(),
            failure,
        }
    }

    /// What stands in the API and on the servers, for whoever looks for a cause.
    async fn note_state(&self, plan: SimPlan) {
        let user = User::new(self.api.client(), plan.seed, Clusters::Two);
        for object in list(&user).await.unwrap_or_default() {
            let text = serde_json::to_string(&object).unwrap_or_default();
            self.weather.note(&text);
        }
        for (number, server) in self.servers.iter().chain(&self.inside).enumerate() {
            for zone in ZONES {
                let lines = server.lines(&name(zone)).join("; ");
                let line = format!("server {number} {zone}: {lines}");
                self.weather.note(&line);
            }
        }
    }

    fn new(seed: u64, weather: Arc<Weather>) -> Self {
        let environment = Arc::new(Seeded::new(seed));
        let options = Options {
            storage: Storage::Memory,
            environment: Arc::clone(&environment) as Arc<dyn Environment>,
        };
        let api = EmbeddedApi::open(options).expect("an API in memory always opens");
        let management = if seed.is_multiple_of(2) {
            Management::Managed
        } else {
            Management::External
        };
        let sky = || DnsWeather(Arc::clone(&weather));
        let mut servers = vec![FakeNameServer::new(sky())];
        if management == Management::External {
            for zone in ZONES {
                servers[0].add_zone(&name(zone), &foreign(zone));
            }
        } else if seed.is_multiple_of(3) {
            servers.push(FakeNameServer::new(sky()));
            servers.push(FakeNameServer::following(sky(), servers.clone()));
        }
        let inside = (seed % 5 < 2).then(|| FakeNameServer::new(sky()));
        if management == Management::External {
            for (zone, server) in ZONES.into_iter().zip(inside.iter().cycle()) {
                server.add_zone(&name(zone), &foreign(zone));
            }
        }
        Self {
            api,
            places: (0..servers.len()).map(ServerPlace::new).collect(),
            servers,
            inside,
            weather,
            environment,
            management,
            limits: limits(seed),
            crashes: 0,
            guests: BTreeMap::new(),
            has_guests: seed.is_multiple_of(4),
            strangers: BTreeMap::new(),
            zones_touched: Instant::now(),
            told: BTreeMap::new(),
            engine: None,
            process: None,
        }
    }

    async fn live(&mut self, plan: SimPlan) -> Result<(), String> {
        let client = self.api.client();
        install_crds(client.clone())
            .await
            .map_err(|error| format!("installing CRDs: {error}"))?;
        let clusters = match self.inside {
            Some(_) => Clusters::Two,
            None => Clusters::One,
        };
        let mut user = User::new(client, plan.seed, clusters);
        user.declare_zones()
            .await
            .map_err(|error| format!("declaring zones: {error}"))?;
        let mut random = Random::new(plan.seed ^ 0x00de_1a75);
        let mut mischief = Random::new(plan.seed ^ 0x5712_a63e);
        let mut moves = Random::new(plan.seed ^ 0x0005_e77e);
        self.start();
        for _ in 0..plan.acts {
            let act = user
                .act()
                .await
                .map_err(|error| format!("the user's act: {error}"))?;
            self.weather.note(&act);
            self.note_zones(&act);
            if self.management == Management::Managed && random.percent(15) {
                self.damage_or_visit(&user, plan.seed, &mut random).await?;
            }
            if random.percent(10) {
                self.let_through(&mut user).await?;
            }
            // Where others write into the zones, nothing else takes away what they wrote.
            let is_quiet = self.management == Management::Managed && plan.seed.is_multiple_of(4);
            if !is_quiet && mischief.percent(25) {
                let done = user.meddle().await;
                let done = done.map_err(|error| format!("the user's mischief: {error}"))?;
                let done = done.unwrap_or_default();
                self.weather.note(&done);
                self.note_zones(&done);
            }
            if !is_quiet && mischief.percent(20) {
                self.meddle(&mut mischief);
            }
            if !is_quiet && mischief.percent(4) {
                self.run_second(Duration::from_millis(mischief.next_u64() % 4_000))
                    .await;
            }
            // Objects are created at least a second apart, so that their order is known.
            let pause = if act.starts_with("delete") && random.percent(50) {
                random.next_u64() % 20
            } else {
                1_000 + random.next_u64() % 4_000
            };
            let pause = Duration::from_millis(pause);
            self.pass(pause).await;
            self.check_guests()?;
            self.move_servers(&mut moves);
            if moves.percent(12) {
                self.look_closely(&mut user, &mut moves).await?;
            }
        }
        self.weather.clear_up();
        self.weather.note("calm");
        self.come_right_without_some(&mut user, &mut moves).await?;
        self.keep_strangers_out(&mut user).await?;
        self.come_right(&mut user).await?;
        self.stay_right(&user).await
    }

    /// Notes when something was done to a zone.
    fn note_zones(&mut self, act: &str) {
        // What is created is told by its spec.
        let is_made = act.starts_with("create") && act.contains("\"zoneName\"");
        let changes = ["edit DNSZone/", "delete DNSZone/", "DNSZone/"];
        if is_made || changes.iter().any(|start| act.starts_with(start)) {
            self.zones_touched = Instant::now();
        }
    }

    /// Sets of others that stood there before Bindery came.
    fn taken(&self) -> BTreeSet<String> {
        let taken =
            (self.management == Management::External).then(|| "taken.example.com. A".to_owned());
        taken.into_iter().collect()
    }

    /// Who creates zones on a server, where Bindery manages it.
    fn host(&self, server: &FakeNameServer) -> Option<Arc<dyn ZoneHost>> {
        let managed = self.management == Management::Managed;
        managed.then(|| Arc::new(server.clone()) as Arc<dyn ZoneHost>)
    }

    /// All servers as the engine reaches them.
    fn groups(&self) -> BTreeMap<Group, Servers> {
        let mut groups = self.usual_servers().alone();
        groups.extend(self.inside.as_ref().map(|server| {
            let servers =
                Servers::one("192.0.2.77:53", Arc::new(server.clone()), self.host(server));
            (Group::named(INSIDE), servers)
        }));
        groups
    }

    /// Starts the process, if it does not run.
    fn start(&mut self) {
        self.weather.revive();
        let stop = CancellationToken::new();
        let groups = self.groups();
        let (engine, run) = Engine::start(groups, self.limits, &stop);
        let api = FaultyApi::new(self.api.service(), Arc::clone(&self.weather));
        let controllers = Controllers {
            client: kube::Client::new(api, "default"),
            engine: engine.clone(),
            settings: Settings::default(),
            clock: Arc::new(SimulatedClock(Arc::clone(&self.environment))),
            replica: Replica::alone(),
        };
        let (_handle, tasks) = controllers.start(&stop);
        let mut process = JoinSet::new();
        process.spawn(run);
        for (_, task) in tasks {
            process.spawn(task);
        }
        self.process = Some(process);
        self.engine = Some(engine);
    }

    /// Lets time pass; a process that dies is started again after a while.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                () = self.weather.crashed() => {}
                () = tokio::time::sleep_until(until) => return,
            }
            self.engine = None;
            if let Some(mut process) = self.process.take() {
                process.shutdown().await;
            }
            self.crashes += 1;
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.start();
        }
    }
}

async fn list(user: &User) -> Result<Vec<DynamicObject>, String> {
    user.objects()
        .await
        .map_err(|error| format!("listing: {error}"))
}

pub(crate) async fn install_crds(client: kube::Client) -> Result<(), kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    for crd in bindery_api::crds() {
        api.create(&PostParams::default(), &crd).await?;
    }
    Ok(())
}

fn foreign(zone: &str) -> Vec<Record> {
    FOREIGN
        .iter()
        .filter_map(|line| line.parse::<Record>().ok())
        .filter(|record| {
            let closest = ZONES
                .iter()
                .map(|zone| name(zone))
                .filter(|zone| record.name.is_in(zone));
            closest.max_by_key(|zone| zone.as_wire().len()) == Some(name(zone))
        })
        .collect()
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name of this file")
}
