//! Engine and controllers, the same for `up` and `run`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bindery_api::{Role, role};
use bindery_core::zones::Limits;
use bindery_core::{Group, Moment, Reason};
use bindery_engine::supervisor::Supervisor;
use bindery_engine::{Engine, ServerState, Servers};
use bindery_kube::{
    Clock, Controllers, Handle, ObjectState, Replica, ServerControllers, ServerSettings, Settings,
};
use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Gate, Readiness, Sources};
use crate::pod_ports::NetworkPods;
use crate::surroundings;

/// How often to look whether all objects were seen to.
const SETTLE_POLL: Duration = Duration::from_millis(100);

/// What the controllers work on.
pub(crate) struct ControllerSetup {
    /// The Kubernetes API.
    pub(crate) client: Client,
    /// The name servers, cluster by cluster.
    pub(crate) groups: BTreeMap<Group, Servers>,
    /// Whether the objects were lost and what they have in DNS was not.
    pub(crate) is_after_loss: bool,
    /// The namespaces that are looked at; none stands for all.
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// How name servers are run that are declared as objects.
    pub(crate) servers: ServerSettings,
    /// Where configurations are checked.
    pub(crate) scratch: PathBuf,
    /// This process among others.
    pub(crate) replica: Replica,
}

/// Starts engine and controllers as tasks of `work`. `begun` says, when everything was declared, how many
/// objects that makes.
pub(crate) fn start(
    setup: ControllerSetup,
    begun: impl Future<Output = usize> + Send + 'static,
    work: &mut Supervisor,
) -> (Sources, Engine) {
    let ControllerSetup {
        client,
        groups,
        is_after_loss,
        namespaces,
        servers,
        scratch,
        replica,
    } = setup;
    let readiness = Readiness::default();
    let (fence, stop) = (replica.fence.clone(), work.stop_token());
    let (engine, running) = Engine::start_fenced(groups, Limits::default(), fence, &stop);
    work.spawn("engine", running);
    let (states, elected) = (engine.clone(), replica.elected.clone());
    readiness.ask(move || {
        // One that stands by asks no server anything.
        let states = elected.is_cancelled().then(|| states.server_states());
        silent_groups(&states.unwrap_or_default())
    });
    let servers = ServerControllers {
        client: client.clone(),
        engine: engine.clone(),
        settings: ServerSettings {
            namespaces: namespaces.clone(),
            ..servers
        },
        clock: Arc::new(TimeOfDay),
        replica: replica.clone(),
        ports: Arc::new(NetworkPods::new(scratch)),
    };
    let (servers, tasks) = servers.start(&stop);
    for (name, task) in tasks {
        work.spawn(name, task);
    }
    let settings = Settings {
        namespaces,
        is_after_loss,
    };
    let controllers = Controllers {
        client,
        engine: engine.clone(),
        settings,
        clock: Arc::new(TimeOfDay),
        replica,
    };
    let (controllers, tasks) = controllers.start(&work.stop_token());
    servers.set_zones(controllers.clone());
    for (name, task) in tasks {
        let (servers, stop) = (servers.clone(), work.stop_token());
        // A zone that is read before its cluster would say that there is none.
        work.spawn(name, async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = servers.known() => {}
            }
            task.await;
        });
    }
    let gate = readiness.gate("the first objects");
    let settled = watch_settled(controllers.clone(), begun, gate, work.stop_token());
    work.spawn("readiness", settled);
    let sources = Sources::new(readiness, engine.clone(), controllers);
    (sources, engine)
}

/// The groups none of whose servers answers. Servers that are declared tell by their own conditions.
fn silent_groups(states: &BTreeMap<Group, Vec<ServerState>>) -> Vec<Arc<str>> {
    let is_silent = |servers: &[ServerState]| servers.iter().all(|one| one.answers != Some(true));
    let given = states.iter().filter(|(group, _)| !group.is_declared());
    let silent = given.filter(|(_, servers)| is_silent(servers));
    let sentence = silent.map(|(group, servers)| match (&servers[..], group.name()) {
        ([one], _) => format!("the name server {}", one.info.address),
        ([], None) => "name servers".to_owned(),
        ([], Some(name)) => format!("name servers of cluster {name}"),
        (_, None) => "a name server".to_owned(),
        (_, Some(name)) => format!("a name server of cluster {name}"),
    });
    sentence.map(Into::into).collect()
}

/// Opens `gate` once everything that was declared when `begun` ended is settled, or, where another process
/// works, known; then waits for `stop`.
async fn watch_settled(
    controllers: Handle,
    begun: impl Future<Output = usize>,
    gate: Gate,
    stop: CancellationToken,
) {
    let settle = async {
        let count = begun.await;
        while !controllers.is_synced() || !is_settled(&controllers.object_counts(), count) {
            if controllers.is_warm_standby() {
                gate.open();
            }
            sleep(SETTLE_POLL).await;
        }
        gate.open();
        let objects: usize = controllers.object_counts().values().sum();
        tracing::info!(objects, "all that was declared was looked at");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = settle => {}
    }
}

/// Whether at least `count` objects are known and each one is as good as it will get by waiting.
fn is_settled(object_counts: &BTreeMap<ObjectState, usize>, count: usize) -> bool {
    // Where a zone cannot be had, what is in it waits for ever.
    let is_hopeless = object_counts
        .keys()
        .any(|one| role(one.kind) == Role::Zone && one.good == Some(false) && !is_moving(*one));
    object_counts.values().sum::<usize>() >= count
        && object_counts.keys().all(|one| {
            let waits = one.reason == Some(Reason::ZoneNotReady);
            one.good == Some(true)
                || (one.good.is_some() && !is_moving(*one) && (!waits || is_hopeless))
        })
}

/// Whether work on such objects is under way.
fn is_moving(standing: ObjectState) -> bool {
    matches!(
        standing.reason,
        Some(Reason::Progressing | Reason::Pending) | None
    )
}

/// The clock on the wall.
pub(crate) struct TimeOfDay;

impl Clock for TimeOfDay {
    fn now(&self) -> Moment {
        let seconds = surroundings::since_1970().as_secs();
        Moment(i64::try_from(seconds).unwrap_or(i64::MAX))
    }
}
