//! The tasks of the controllers and the handle to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_api::{KINDS, Kinds, Role, ServedZone, role};
use bindery_core::{Group, Kind, Name, Serial, ZoneKey};
use bindery_engine::work::{QueueLen, Requeue};
use bindery_engine::{Engine, Receipts, ZoneReceipts};
use bindery_sources::{Id, Precedence};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::context::{Clock, Context, Settings};
use crate::events::write_events;
use crate::metrics::Metrics;
use crate::object_counts::{ObjectState, object_counts};
use crate::replica::Replica;
use crate::sweep::sweep;
use crate::watching::watch;
use crate::{publishing, zone};

/// Everything that the controllers need.
pub struct Controllers {
    /// The Kubernetes API.
    pub client: kube::Client,
    /// Where claims go.
    pub engine: Engine,
    /// How to behave.
    pub settings: Settings,
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// This process among others.
    pub replica: Replica,
}

/// A task for the supervisor: its name and what it does until it is told to stop.
pub type Task = (&'static str, BoxFuture<'static, ()>);

/// What can be asked of running controllers. Cloning is cheap.
#[derive(Clone)]
pub struct Handle(Arc<Context>);

impl Controllers {
    /// The tasks, which end when `stop` is cancelled and their writes are done, and a handle.
    #[must_use]
    pub fn start(self, stop: &CancellationToken) -> (Handle, Vec<Task>) {
        self.start_kinds(&KINDS, stop)
    }

    /// The same for other objects than those of our definitions: each row says where objects of its kind
    /// are, which of them are watched and how they are read.
    #[must_use]
    pub fn start_kinds(
        self,
        kinds: &'static Kinds,
        stop: &CancellationToken,
    ) -> (Handle, Vec<Task>) {
        let Self {
            client,
            engine,
            settings,
            clock,
            replica,
        } = self;
        let cluster = Cluster::new(client, kinds, replica.fence.clone());
        let receipts = engine.listen(|_| true);
        let zones = engine.listen_zones();
        let ctx = Context::new((cluster, engine), settings, clock, kinds, replica);
        let ctx = Arc::new(ctx);
        let run = |role| Box::pin(run(Arc::clone(&ctx), role, stop.clone()));
        let tasks: Vec<Task> = vec![
            (
                "watches",
                Box::pin(watch_all(Arc::clone(&ctx), stop.clone())),
            ),
            (
                "election",
                Box::pin(await_election(Arc::clone(&ctx), stop.clone())),
            ),
            ("zones", run(Role::Zone)),
            ("records", run(Role::Record)),
            ("endpoints", run(Role::Endpoints)),
            (
                "receipts",
                Box::pin(listen(Arc::clone(&ctx), receipts, stop.clone())),
            ),
            (
                "zone receipts",
                Box::pin(listen_zones(Arc::clone(&ctx), zones, stop.clone())),
            ),
            (
                "server listener",
                Box::pin(listen_servers(Arc::clone(&ctx), stop.clone())),
            ),
            ("sweep", Box::pin(sweep(Arc::clone(&ctx), stop.clone()))),
            (
                "events",
                Box::pin(write_events(Arc::clone(&ctx), stop.clone())),
            ),
        ];
        (Handle(ctx), tasks)
    }
}

impl Handle {
    /// Whether everything declared was read, so that work goes on from the whole picture.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Whether everything declared was read by a process that others work before: it could take over now.
    #[must_use]
    pub fn is_warm_standby(&self) -> bool {
        self.0.is_warm_standby()
    }

    /// Counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.cluster.metrics
    }

    /// How many objects of each controller are how far.
    #[must_use]
    pub fn queues(&self) -> [QueueLen; 3] {
        let ctx = &self.0;
        [
            ctx.zones.len("zones"),
            ctx.records.len("records"),
            ctx.endpoints.len("endpoints"),
        ]
    }

    /// Kubernetes Events that wait to be written.
    #[must_use]
    pub fn events_waiting(&self) -> usize {
        self.0.events.len()
    }

    /// How long ago something was last heard of each kind, an event or a bookmark; of several namespaces the
    /// longest counts.
    #[must_use]
    pub fn cache_ages(&self) -> Vec<(Kind, Duration)> {
        let heard = self.0.heard();
        let mut ages: BTreeMap<Kind, Duration> = BTreeMap::new();
        for (watched, at) in heard.iter() {
            let age = ages.entry(watched.kind).or_default();
            *age = at.elapsed().max(*age);
        }
        ages.into_iter().collect()
    }

    /// Whether every watch fails, so that nothing that is declared or changed is heard of.
    #[must_use]
    pub fn all_watches_fail(&self) -> bool {
        self.0.failing().len() == self.0.watched.len()
    }

    /// The zones that are served on some of these groups, by their names.
    #[must_use]
    pub fn zones_on(&self, groups: &BTreeSet<Group>) -> Vec<ServedZone> {
        let state = self.0.state();
        let ids = state.catalog.ids().filter(|id| role(id.kind) == Role::Zone);
        let views = ids.filter_map(|id| state.catalog.zone(id));
        let here = views
            .filter(|view| groups.contains(view.group) && view.precedence == Precedence::Active);
        let mut zones: Vec<ServedZone> = here
            .filter_map(|view| {
                let object = &view.meta.object;
                Some(ServedZone {
                    api_version: object.kind.api_version().to_owned(),
                    kind: object.kind.as_str().to_owned(),
                    name: object.name.to_string(),
                    namespace: object.namespace.to_string(),
                    zone_name: view.name?.to_string(),
                })
            })
            .collect();
        zones.sort_by(|one, other| one.zone_name.cmp(&other.zone_name));
        zones
    }

    /// The zones that are declared for servers of these groups, each with its newest serial as far as that is
    /// known; nothing before everything declared was read.
    pub(crate) fn serials_on(
        &self,
        groups: &BTreeSet<Group>,
    ) -> Option<BTreeMap<Name, Option<Serial>>> {
        if !self.is_synced() {
            return None;
        }
        let state = self.0.state();
        let declared = state.declarers.keys();
        let here = declared.filter(|zone| groups.contains(&zone.group));
        let serial = |zone: &ZoneKey| state.zone_events.get(zone)?.serial;
        Some(here.map(|zone| (zone.name.clone(), serial(zone))).collect())
    }

    /// How many objects are in which state.
    #[must_use]
    pub fn object_counts(&self) -> BTreeMap<ObjectState, usize> {
        object_counts(&self.0.state())
    }
}

/// Lets work begin once this process is elected and everything declared was read.
async fn await_election(ctx: Arc<Context>, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = ctx.replica.elected.cancelled() => ctx.begin(),
    }
    stop.cancelled().await;
}

async fn watch_all(ctx: Arc<Context>, stop: CancellationToken) {
    let all = ctx.watched.iter();
    let watches: FuturesUnordered<_> = all.map(|one| watch(&ctx, one, &stop)).collect();
    watches.collect::<()>().await;
}

/// Runs the controller of one role. It begins only when everything declared was read: what is not seen yet
/// must not be taken for not declared.
async fn run(ctx: Arc<Context>, role: Role, stop: CancellationToken) {
    let mut synced = ctx.synced.subscribe();
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        _ = synced.wait_for(|synced| *synced) => {}
    }
    let reconcile = |id: Id| -> BoxFuture<'_, Requeue> {
        let ctx = &ctx;
        match role {
            Role::Zone => Box::pin(async move { zone::reconcile(&id, ctx).await }),
            Role::Record | Role::Endpoints => {
                Box::pin(async move { publishing::reconcile(&id, ctx).await })
            }
        }
    };
    ctx.queue(role).run(stop, reconcile).await;
}

/// Hands receipts to the controller whose objects they are about.
async fn listen(ctx: Arc<Context>, events: Receipts, stop: CancellationToken) {
    loop {
        let (_, event) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.pop() => event,
        };
        let received = {
            let mut state = ctx.state();
            let received = state.receive(event);
            if let Some(served) = received.as_ref().and_then(|id| state.served(id)) {
                ctx.cluster.metrics.served_seconds.observe_duration(served);
            }
            received
        };
        ctx.push_all(received);
    }
}

/// Looks at zones again when servers come, go or move.
async fn listen_servers(ctx: Arc<Context>, stop: CancellationToken) {
    let mut changes = ctx.engine.server_changes();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Ok(()) = changes.changed() => ctx.on_servers(),
        }
    }
}

/// Hands news of zones to the objects that declared them.
async fn listen_zones(ctx: Arc<Context>, events: ZoneReceipts, stop: CancellationToken) {
    loop {
        let (name, event) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.pop() => event,
        };
        let declarer = {
            let mut state = ctx.state();
            let declarer = state.declarers.get(&name).cloned();
            if declarer.is_some() {
                state.zone_events.insert(name, event);
            }
            declarer
        };
        ctx.push_all(declarer);
    }
}
