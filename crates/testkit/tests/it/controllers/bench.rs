//! One machine in memory: API, name server, engine, controllers, and hands to act on them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bindery_api::{KINDS, Kinds};
use bindery_apiserver::{ApiBody, ApiService};
use bindery_apiserver::{EmbeddedApi, Options};
use bindery_core::{Group, Moment, Name, Record, zones::Limits};
use bindery_engine::{Engine, Servers};
use bindery_kube::{
    Clock, Controllers, Handle, Management, Replica, ServerControllers, ServerSettings, Settings,
};
use bindery_testkit::{FakeLoadBalancer, FakeNameServer};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::servers::FakePods;

/// Virtual time after which something that should have happened did not.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) struct Bench {
    pub(super) client: Client,
    seen: Client,
    pub(super) server: FakeNameServer,
    /// The server of the cluster `inside`, where there is one.
    pub(super) inside: Option<FakeNameServer>,
    management: Management,
    /// The namespaces that the controllers look at; none stands for all.
    pub(super) namespaces: Vec<&'static str>,
    /// The kinds that the controllers look at.
    pub(super) kinds: &'static Kinds,
    /// The pods of name servers, where these are declared as objects.
    pub(super) pods: Option<FakePods>,
    /// Who gives load balancers, where somebody does.
    pub(super) balancer: Option<FakeLoadBalancer>,
    /// Whether Services that name no class have load balancers.
    pub(super) takes_unnamed: bool,
    process: Option<Process>,
    since: tokio::time::Instant,
    _api: EmbeddedApi,
}

struct Process {
    handle: Handle,
    engine: Engine,
    tasks: JoinSet<()>,
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment(1_800_000_000)
    }
}

/// A clock that goes with virtual time.
struct Going(tokio::time::Instant);

impl Clock for Going {
    fn now(&self) -> Moment {
        let passed = i64::try_from(self.0.elapsed().as_secs()).unwrap_or_default();
        Moment(1_800_000_000 + passed)
    }
}

pub(super) const ZONE: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: example, namespace: default}
spec:
  zoneName: example.com
  ttl: 300
  recordsFrom: [{selector: {matchLabels: {zone: example}}}]
";

pub(super) const WWW: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, namespace: default, labels: {zone: example}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
";

pub(super) const WWW_LINE: &str = "www.example.com. 300 IN A 192.0.2.1";

impl Bench {
    /// A machine that manages its server, with the controllers running.
    pub(super) async fn managed() -> Self {
        let mut bench = Self::stopped(Management::Managed).await;
        bench.start();
        bench
    }

    /// A machine whose server is somebody else's and has the zone example.com.
    pub(super) async fn external(lines: &[&str]) -> Self {
        let mut bench = Self::stopped(Management::External).await;
        bench.server.add_zone(&name("example.com"), &records(lines));
        bench.start();
        bench
    }

    /// A machine on which nothing runs yet, with servers of the cluster `inside` beside the usual ones.
    pub(super) async fn clusters(management: Management) -> Self {
        let mut bench = Self::stopped(management).await;
        bench.inside = Some(FakeNameServer::default());
        bench
    }

    /// The server of the cluster `inside`.
    pub(super) fn inside(&self) -> &FakeNameServer {
        self.inside.as_ref().expect("the bench has clusters")
    }

    /// A machine on which nothing runs yet.
    pub(super) async fn stopped(management: Management) -> Self {
        Self::behind(management, EmbeddedApi::client).await
    }

    /// A machine on which nothing runs yet, whose controllers see the API through this client.
    pub(super) async fn behind(
        management: Management,
        seen: impl Fn(&EmbeddedApi) -> Client,
    ) -> Self {
        let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
        let client = api.client();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in bindery_api::crds() {
            let params = PostParams::default();
            crds.create(&params, &crd)
                .await
                .expect("our CRDs are valid");
        }
        Self {
            client,
            seen: seen(&api),
            server: FakeNameServer::default(),
            inside: None,
            management,
            namespaces: Vec::new(),
            kinds: &KINDS,
            pods: None,
            balancer: None,
            takes_unnamed: true,
            process: None,
            since: tokio::time::Instant::now(),
            _api: api,
        }
    }

    pub(super) fn start(&mut self) {
        let mut groups = BTreeMap::new();
        let inside = self.inside.as_ref();
        let inside = inside.map(|server| (Group::named("inside"), "192.0.2.77:53", server));
        let usual = (Group::UNNAMED, "192.0.2.53:53", &self.server);
        for (group, address, server) in std::iter::once(usual).chain(inside) {
            let host: Option<Arc<dyn bindery_engine::ports::ZoneHost>> = match self.management {
                Management::Managed => Some(Arc::new(server.clone())),
                Management::External => None,
            };
            let servers = Servers::one(address, Arc::new(server.clone()), host);
            groups.insert(group, servers);
        }
        let settings = Settings {
            namespaces: self.namespaces.iter().map(|&one| one.into()).collect(),
            ..Settings::default()
        };
        let stop = CancellationToken::new();
        let (engine, running) = Engine::start(groups, Limits::default(), &stop);
        let mut tasks = JoinSet::new();
        tasks.spawn(running);
        if let Some(pods) = &self.pods {
            let servers = ServerControllers {
                client: self.seen.clone(),
                engine: engine.clone(),
                settings: ServerSettings::default(),
                clock: Arc::new(Going(self.since)),
                replica: Replica::alone(),
                ports: Arc::new(pods.clone()),
            };
            for (_, task) in servers.start(&stop).1 {
                tasks.spawn(task);
            }
            tasks.spawn(pods.clone().run(self.client.clone()));
        }
        if let Some(provider) = &self.balancer {
            let tasks = (&stop, &mut tasks);
            super::balancers::start(self.seen.clone(), provider, self.takes_unnamed, tasks);
        }
        let controllers = Controllers {
            client: self.seen.clone(),
            engine: engine.clone(),
            settings,
            clock: Arc::new(Still),
            replica: Replica::alone(),
        };
        let (handle, work) = controllers.start_kinds(self.kinds, &stop);
        for (_, task) in work {
            tasks.spawn(task);
        }
        self.process = Some(Process {
            handle,
            engine,
            tasks,
        });
    }

    /// All usual servers are taken out.
    pub(super) fn take_servers_out(&self) {
        let process = self.process.as_ref().expect("it runs");
        let none = std::iter::empty().collect();
        process.engine.set_servers(&Group::UNNAMED, none);
    }

    /// Ends the process between two of its steps, as `kill -9` would.
    pub(super) async fn crash(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.tasks.shutdown().await;
        }
    }

    pub(super) async fn restart(&mut self) {
        self.crash().await;
        self.start();
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.process.as_ref().expect("the controllers run").handle
    }

    /// Metadata and status writes of records and endpoints so far.
    pub(super) fn writes(&self) -> (u64, u64) {
        let metrics = self.handle().metrics();
        (
            metrics.metadata_writes.load(Ordering::Relaxed),
            metrics.status_writes.load(Ordering::Relaxed),
        )
    }

    pub(super) async fn create(&self, yaml: &str) {
        let object: DynamicObject = serde_saphyr::from_str(yaml).expect("the fixture is YAML");
        let api = self.api(&object);
        let params = PostParams::default();
        api.create(&params, &object)
            .await
            .expect("the fixture is valid");
    }

    /// Merges JSON into an object: `kind/name`, with `namespace:` before it where that is another.
    pub(super) async fn patch(&self, target: &str, patch: Value) {
        let (api, name) = self.target(target);
        let params = PatchParams::default();
        api.patch(name, &params, &Patch::Merge(&patch))
            .await
            .expect("the patch is valid");
    }

    pub(super) async fn delete(&self, target: &str) {
        let (api, name) = self.target(target);
        let params = DeleteParams::default();
        api.delete(name, &params)
            .await
            .expect("the object is there");
    }

    pub(super) async fn get(&self, target: &str) -> Option<DynamicObject> {
        let (api, name) = self.target(target);
        api.get_opt(name).await.expect("the API answers")
    }

    /// Reason and message of a condition, with `+` before the reason where it is `True`.
    pub(super) async fn condition(&self, target: &str, kind: &str) -> (String, String) {
        let Some(object) = self.get(target).await else {
            return ("gone".to_owned(), String::new());
        };
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        let found = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind);
        let Some(found) = found else {
            return (String::new(), String::new());
        };
        let observed = found["observedGeneration"].as_i64();
        assert!(
            observed <= object.metadata.generation,
            "a generation yet to come"
        );
        let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        let sign = if found["status"] == "True" { "+" } else { "-" };
        (format!("{sign}{}", word("reason")), word("message"))
    }

    /// Waits until a condition of an object, at its newest generation, has this reason.
    pub(super) async fn until(&self, target: &str, kind: &str, reason: &str) -> String {
        let told = async || {
            let object = self.get(target).await?;
            let observed = object.data["status"]["observedGeneration"].as_i64();
            if observed != object.metadata.generation {
                return None;
            }
            let (word, message) = self.condition(target, kind).await;
            (word == reason).then_some(message)
        };
        let message = poll(told).await;
        let object = self.get(target).await;
        let status = object.map(|object| object.data["status"].to_string());
        message.unwrap_or_else(|| unreachable!("{target} never had {kind} {reason}: {status:?}"))
    }

    pub(super) async fn until_ready(&self, target: &str) {
        self.until(target, "Ready", "+ReconcileSucceeded").await;
    }

    pub(super) async fn until_gone(&self, target: &str) {
        let gone = async || self.get(target).await.is_none().then_some(());
        let left = poll(gone).await;
        assert!(
            left.is_some(),
            "{target} never went: {:?}",
            self.get(target).await
        );
    }

    /// Waits until example.com holds exactly these lines beside its apex.
    pub(super) async fn until_lines(&self, lines: &[&str]) {
        let same = async || (self.lines() == lines).then_some(());
        let seen = poll(same).await;
        assert!(
            seen.is_some(),
            "expected {lines:?}, found {:?}",
            self.lines()
        );
    }

    /// What example.com holds beside its apex and the address of its name server.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.server.lines(&name("example.com")).into_iter();
        let mut lines: Vec<String> = lines
            .filter(|line| !line.starts_with("example.com. ") && !line.starts_with("ns1."))
            .collect();
        lines.sort();
        lines
    }

    /// Lets virtual time pass, so that whatever wants to happen does.
    pub(super) async fn settle(&self) {
        self.pass(Duration::from_mins(2)).await;
    }

    /// Lets some virtual time pass.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::timeout(time, std::future::pending::<()>())
            .await
            .expect_err("nothing ends what never ends");
    }

    pub(super) async fn annotation(&self, target: &str, key: &str) -> Option<String> {
        let object = self.get(target).await?;
        object.metadata.annotations?.get(key).cloned()
    }

    /// The lines that an object says it has in DNS, without the seal.
    pub(super) async fn published(&self, target: &str) -> Option<String> {
        let text = self.annotation(target, "bindery.dev/published").await?;
        let lines = text.lines().filter(|line| !line.starts_with("; of "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    pub(super) async fn finalizers(&self, target: &str) -> Vec<String> {
        let object = self.get(target).await;
        object
            .and_then(|object| object.metadata.finalizers)
            .unwrap_or_default()
    }

    fn target<'a>(&self, target: &'a str) -> (Api<DynamicObject>, &'a str) {
        let (namespace, target) = match target.split_once(':') {
            Some((namespace, target)) => (namespace, target),
            None => ("default", target),
        };
        let (kind, name) = target.split_once('/').expect("kind/name");
        let (group, version) = match kind {
            "DNSEndpoint" => ("externaldns.k8s.io", "v1alpha1"),
            "Beacon" => ("test.bindery.dev", "v1"),
            "ConfigMap" | "Service" | "Pod" | "Node" | "Secret" => ("", "v1"),
            "EndpointSlice" => ("discovery.k8s.io", "v1"),
            _ => ("bindy.firestoned.io", "v1beta1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        (self.place(namespace, &resource), name)
    }

    fn api(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let types = object.types.as_ref().expect("the fixture has a kind");
        let gvk = GroupVersionKind::try_from(types).expect("the kind has a group");
        let resource = ApiResource::from_gvk(&gvk);
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        self.place(namespace, &resource)
    }

    /// Where objects of a kind are: some belong to the whole cluster.
    fn place(&self, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
        let client = self.client.clone();
        match resource.kind.as_str() {
            "Beacon" | "CustomResourceDefinition" | "Bind9GlobalCluster" | "Node" => {
                Api::all_with(client, resource)
            }
            _ => Api::namespaced_with(client, namespace, resource),
        }
    }
}

/// Asks until there is an answer, for a while.
/// A client of the API for somebody who may do everything but some requests.
pub(super) fn refusing(api: &EmbeddedApi, refused: Refused) -> Client {
    answering(api, refused, StatusCode::FORBIDDEN)
}

/// A client of the API that does not find some of what it asks for.
pub(super) fn missing(api: &EmbeddedApi, refused: Refused) -> Client {
    answering(api, refused, StatusCode::NOT_FOUND)
}

fn answering(api: &EmbeddedApi, refused: Refused, code: StatusCode) -> Client {
    let inner = api.service();
    let client = Refusing {
        inner,
        refused,
        code,
    };
    Client::new(client, "default")
}

/// A client of the API whose answers to written statuses come late, though they are carried out at once.
pub(super) fn slow(api: &EmbeddedApi, late: Duration) -> Client {
    let inner = api.service();
    Client::new(Slow { inner, late }, "default")
}

#[derive(Clone)]
struct Slow {
    inner: ApiService,
    late: Duration,
}

impl Service<Request<kube::client::Body>> for Slow {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let Self { mut inner, late } = self.clone();
        let is_status = request.uri().path().ends_with("/status");
        Box::pin(async move {
            let response = inner.call(request).await?;
            if is_status {
                // On virtual time, as a busy server or network: pause between polls.
                tokio::time::sleep(late).await;
            }
            Ok(response)
        })
    }
}

/// Which requests are refused, by method and path.
type Refused = fn(&Method, &str) -> bool;

#[derive(Clone)]
struct Refusing {
    inner: ApiService,
    refused: Refused,
    code: StatusCode,
}

impl Service<Request<kube::client::Body>> for Refusing {
    type Response = Response<Either<ApiBody, Full<Bytes>>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (mut inner, code) = (self.inner.clone(), self.code);
        let is_refused = (self.refused)(request.method(), request.uri().path());
        Box::pin(async move {
            if is_refused {
                let status = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "reason": code.canonical_reason(), "message": "not you", "code": code.as_u16(),
                });
                let body = Full::from(status.to_string());
                let mut response = Response::new(Either::Right(body));
                *response.status_mut() = code;
                return Ok(response);
            }
            let response = inner.call(request).await?;
            Ok(response.map(Either::Left))
        })
    }
}

pub(super) async fn poll<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    while tokio::time::Instant::now() < deadline {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        ticks.tick().await;
    }
    None
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).expect("the fixture is a name")
}

pub(super) fn records(lines: &[&str]) -> Vec<Record> {
    let parse = |line: &&str| line.parse().expect("the fixture is a line");
    lines.iter().map(parse).collect()
}
