//! One run of load balancers: whole controllers over the API in the process, the provider of Azure over the
//! emulator, and a name server; users, faults and crashes from a seed; then quiet, in which Azure, statuses,
//! finalizers and names must become what is asked for, and stay so.

mod truth;
mod wishes;

use std::{sync::Arc, time::Duration};

use bindery_apiserver::{EmbeddedApi, Environment, Options, Seeded, Storage};
use bindery_azure::{
    AzureBalancer, AzureCredential, AzureEndpoints, AzureSecret, AzureSettings, AzureTimes,
};
use bindery_core::{Moment, balancers::BalancerTimes, zones::Limits};
use bindery_engine::{Engine, Fence, Servers, balancing::BalancerEngine, ports::ZoneHost};
use bindery_kube::{BalancerControllers, Clock, Controllers, Replica, Settings};
use bindery_sources::balancers::BalancerClass;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::wishes::BalancerUser;
use crate::{
    api::FaultyApi,
    azure::{AzureInside, GatewayContent, SUBSCRIPTION},
    nameserver::FakeNameServer,
    sim::{SimPlan, SimReport, Words, install_crds},
    weather::{DnsWeather, Random, Weather},
};

/// The resource group that everything is in.
const GROUP: &str = "group";

/// How long everything may take to come right once there are no more faults. What nobody asks for is found by
/// the periodic read, which comes each five minutes, and left alone for two; an address that was refused waits
/// for ten.
const CALM_MAX: Duration = Duration::from_mins(45);

/// How long after all is right nothing may be written any more: everything was read again.
const SETTLED_AFTER: Duration = Duration::from_mins(6);

/// How long it must stay right, without a change at Azure.
const KEPT_MIN: Duration = Duration::from_mins(12);

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
    runtime.block_on(BalancerWorld::play(plan))
}

/// The run of a seed.
#[must_use]
pub fn plan(seed: u64) -> SimPlan {
    SimPlan {
        acts: 10 + Random::new(seed).below(40),
        ..SimPlan::of_seed(seed)
    }
}

struct BalancerWorld {
    api: EmbeddedApi,
    azure: AzureInside,
    server: FakeNameServer,
    weather: Arc<Weather>,
    environment: Arc<Seeded>,
    crashes: u32,
    process: Option<JoinSet<()>>,
}

struct BalancerClock(Arc<Seeded>);

impl Clock for BalancerClock {
    fn now(&self) -> Moment {
        Moment(self.0.now().as_second())
    }
}

impl BalancerWorld {
    async fn play(plan: SimPlan) -> SimReport {
        let weather = Weather::new(plan.seed, plan.crashes);
        if plan.words == Words::Kept {
            weather.keep_words();
        }
        let mut world = Self::new(plan.seed, Arc::clone(&weather));
        let failure = world.live(plan).await.err();
        SimReport {
            digest: weather.digest(),
            writes: weather.writes(),
            crashes: world.crashes,
            words: match plan.words {
                Words::Kept => weather.words(),
                Words::Dropped => Vec::new(),
            },
            failure,
        }
    }

    fn new(seed: u64, weather: Arc<Weather>) -> Self {
        let environment = Arc::new(Seeded::new(seed));
        let options = Options {
            storage: Storage::Memory,
            environment: Arc::clone(&environment) as Arc<dyn Environment>,
        };
        let api = EmbeddedApi::open(options).expect("an API in memory always opens");
        let azure = AzureInside::new(Arc::clone(&weather), seed);
        furnish(&azure, seed);
        Self {
            api,
            azure,
            server: FakeNameServer::new(DnsWeather(Arc::clone(&weather))),
            weather,
            environment,
            crashes: 0,
            process: None,
        }
    }

    async fn live(&mut self, plan: SimPlan) -> Result<(), String> {
        let client = self.api.client();
        let wrong = |what: &'static str| move |error: kube::Error| format!("{what}: {error}");
        install_crds(client.clone())
            .await
            .map_err(wrong("installing CRDs"))?;
        let mut user = BalancerUser::new(client, plan.seed);
        user.begin().await.map_err(wrong("the first objects"))?;
        let mut pauses = Random::new(plan.seed ^ 0x00de_1a75);
        self.start();
        for _ in 0..plan.acts {
            let act = user.act(&self.azure).await;
            let act = act.map_err(wrong("an act of the user"))?;
            self.weather.note(&act);
            let millis = match pauses.below(4) {
                0 => pauses.next_u64() % 50,
                1 | 2 => pauses.next_u64() % 5_000,
                _ => pauses.next_u64() % 60_000,
            };
            self.pass(Duration::from_millis(millis)).await;
            if user.is_strict() {
                self.check_names()?;
            }
        }
        self.weather.clear_up();
        self.weather.note("calm");
        user.mend().await.map_err(wrong("the user's mending"))?;
        self.come_right(&user).await?;
        self.stay_right(&user).await
    }

    async fn come_right(&mut self, user: &BalancerUser) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + CALM_MAX;
        loop {
            self.pass(Duration::from_secs(10)).await;
            if user.is_strict() {
                self.check_names()?;
            }
            let wrongs = self.wrongs().await?;
            if wrongs.is_empty() {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("not right in time:\n  {}", wrongs.join("\n  ")));
            }
        }
    }

    async fn stay_right(&mut self, user: &BalancerUser) -> Result<(), String> {
        // The next periodic read may find an operation still under way whose client gave up on it, and is told so.
        self.pass(SETTLED_AFTER).await;
        let writes = self.weather.writes();
        self.weather.keep_words();
        self.pass(KEPT_MIN).await;
        if self.weather.writes() != writes {
            let words = self.weather.words();
            let reads = [" GET ", " Read", " POST token"];
            let is_write = |line: &&String| !reads.iter().any(|one| line.contains(one));
            let written: Vec<String> = words.iter().filter(is_write).cloned().collect();
            let written = written.join("\n  ");
            return Err(format!(
                "it goes on writing though all is right:\n  {written}"
            ));
        }
        if user.is_strict() {
            self.check_names()?;
        }
        match self.wrongs().await? {
            wrongs if wrongs.is_empty() => Ok(()),
            wrongs => Err(format!("not kept right:\n  {}", wrongs.join("\n  "))),
        }
    }

    /// Starts the process.
    fn start(&mut self) {
        self.weather.revive();
        let stop = CancellationToken::new();
        let host: Arc<dyn ZoneHost> = Arc::new(self.server.clone());
        let server = Arc::new(self.server.clone());
        let groups = Servers::one("192.0.2.53:53", server, Some(host)).alone();
        let (engine, run) = Engine::start(groups, Limits::default(), &stop);
        let api = FaultyApi::new(self.api.service(), Arc::clone(&self.weather));
        let client = Client::new(api, "default");
        let controllers = Controllers {
            client: client.clone(),
            engine,
            settings: Settings::default(),
            clock: Arc::new(BalancerClock(Arc::clone(&self.environment))),
            replica: Replica::alone(),
        };
        let wire = Arc::new(self.azure.clone());
        let provider = AzureBalancer::over(settings(), wire);
        let provider = Arc::new(provider.expect("the settings are right"));
        let times = BalancerTimes::default();
        let (balancers, running) =
            BalancerEngine::start(provider.clone(), times, Fence::none(), &stop);
        let balancers = BalancerControllers {
            client,
            engine: balancers,
            provider,
            class: BalancerClass {
                name: "bindery.dev/lb".into(),
                takes_unnamed: true,
            },
            clock: Arc::new(BalancerClock(Arc::clone(&self.environment))),
            replica: Replica::alone(),
        };
        let mut process = JoinSet::new();
        process.spawn(run);
        process.spawn(running);
        let tasks = controllers.start(&stop).1.into_iter();
        for (_, task) in tasks.chain(balancers.start(&stop).1) {
            process.spawn(task);
        }
        self.process = Some(process);
    }

    /// Lets time pass; a process that dies is started again after a while.
    async fn pass(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                () = self.weather.crashed() => {}
                () = tokio::time::sleep_until(until) => return,
            }
            if let Some(mut process) = self.process.take() {
                process.shutdown().await;
            }
            self.crashes += 1;
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.start();
        }
    }
}

fn settings() -> AzureSettings {
    let base = AzureInside::BASE.to_owned();
    AzureSettings {
        subscription: SUBSCRIPTION.to_owned(),
        resource_group: GROUP.to_owned(),
        location: "eastus2".to_owned(),
        service_gateway: "servicegateway".to_owned(),
        virtual_network: "vnet".to_owned(),
        virtual_network_group: GROUP.to_owned(),
        cluster: "blue".to_owned(),
        endpoints: AzureEndpoints {
            management: base.clone(),
            authority: base.clone(),
            metadata: base.clone(),
            audience: base,
        },
        credential: AzureCredential::ClientSecret {
            tenant: "tenant".to_owned(),
            client: "client".to_owned(),
            secret: AzureSecret::new("right"),
        },
        authorities: None,
        times: AzureTimes::default(),
    }
}

/// A group with a gateway, on which others have a service and an address.
fn furnish(azure: &AzureInside, seed: u64) {
    let mut state = azure.lock();
    state.polls = 1 + Random::new(seed).below(3);
    state.page_len = 3;
    state.token_seconds = 3600;
    let group = (GROUP.to_owned(), "eastus2".to_owned());
    state.groups.insert(GROUP.to_owned(), group);
    let gateway = path("serviceGateways/servicegateway");
    let shown = json!({"name": "servicegateway", "properties": {}});
    state.resources.insert(gateway.clone(), shown);
    let stray = json!({"name": "stray-pip", "properties": {"ipAddress": "20.99.0.1"}});
    state
        .resources
        .insert(path("publicIPAddresses/stray-pip"), stray);
    state.gateways.insert(gateway, foreign_content());
}

/// What others have at the gateway.
fn foreign_content() -> GatewayContent {
    let service = json!({"name": "theirs", "properties": {"isDefault": false,
        "serviceType": "Outbound", "publicNatGatewayId": path("natGateways/theirs")}});
    let bound = [([10, 9, 0, 1].into(), ["theirs".to_owned()].into())];
    GatewayContent {
        services: [("theirs".to_owned(), service)].into(),
        locations: [([192, 0, 2, 9].into(), bound.into())].into(),
    }
}

/// The path of something in the group, as the emulator keeps it.
fn path(tail: &str) -> String {
    let path = format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network/{tail}"
    );
    path.to_ascii_lowercase()
}
