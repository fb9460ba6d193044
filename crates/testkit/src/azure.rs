//! An emulator of Azure: the part of its REST API that load balancers need, over HTTP on loopback.
//!
//! It is checked against recorded exchanges with the real one. It can delay, throttle, fail, lose an answer after
//! it did what was asked, and hang. Simulations reach it in their own process, without a socket.

mod gateway;
mod groups;
mod inside;
mod operations;
mod resources;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_http::{BoxedError, ConnectionLimits, Heard, HttpService};
use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::operations::EmulatedOperation;
pub use self::{gateway::GatewayContent, inside::AzureInside};

/// The subscription that everything is in.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";
/// What Azure's recordings have in place of what differs from time to time.
const ZERO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// Azure on loopback. Dropping it closes every connection.
pub struct AzureEmulator {
    address: SocketAddr,
    state: Arc<Mutex<AzureState>>,
    heard: watch::Receiver<()>,
    /// What serves it.
    _tasks: JoinSet<()>,
}

/// What it has, and what is to go wrong.
#[derive(Default)]
pub struct AzureState {
    /// Resource groups by their name in lower case: the name and the region.
    pub groups: BTreeMap<String, (String, String)>,
    /// Resources by their path in lower case.
    pub resources: BTreeMap<String, Value>,
    /// What gateways have, by their path in lower case.
    pub gateways: BTreeMap<String, GatewayContent>,
    /// Every request, in words: the method and what it is about.
    pub log: Vec<String>,
    /// What is to happen to the next requests that it is meant for, in this order.
    pub faults: VecDeque<AzureFault>,
    /// Addresses that gateways never take: a request with one of them is refused as a whole.
    pub poison: BTreeSet<IpAddr>,
    /// How often an operation is looked at before it has ended.
    pub polls: usize,
    /// Entries in a page of a list; all where it is zero.
    pub page_len: usize,
    /// For how many seconds tokens are valid; none are needed where it is zero.
    pub token_seconds: u64,
    /// The number of changes after which nobody is answered any more; whether the next one is still done. It is as if
    /// the client's process ended there.
    pub silent_after: Option<(usize, bool)>,
    /// Tokens that are accepted.
    pub tokens: BTreeSet<String>,
    operations: BTreeMap<u64, EmulatedOperation>,
    changes_len: usize,
    base: String,
    next: u64,
}

/// Something that goes wrong once.
#[derive(Clone, Debug)]
pub struct AzureFault {
    /// What a line of the log begins with for which it is meant.
    pub request: String,
    /// What happens.
    pub fate: AzureFate,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureFate {
    /// It is done after this time.
    Delayed(Duration),
    /// It is not done: too much to do, for so many milliseconds.
    Throttled(u64),
    /// It is not done: a status, and the code of the error.
    Refused(u16, String),
    /// It is not done, and the answer says so with a good status.
    RefusedWithGoodStatus(String),
    /// It is accepted, and its operation fails.
    OperationFails(String),
    /// It is done, and the answer is a status that says nothing.
    DoneAndFailed(u16),
    /// It is done, and the connection is cut before the answer.
    DoneAndCut,
    /// It is done, and nobody answers.
    DoneAndSilent,
    /// It is not done, and nobody answers.
    Silent,
}

/// A request, read.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Bytes,
    bearer: Option<String>,
    is_metadata: bool,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmulatedAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
}

/// What goes over the wire.
type WireBody = BoxBody<Bytes, io::Error>;

struct Endpoint {
    state: Arc<Mutex<AzureState>>,
    heard: watch::Sender<()>,
}

impl AzureEmulator {
    /// An Azure without anything in it, on a free port of loopback.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((IpAddr::from([127, 0, 0, 1]), 0)).await?;
        let address = listener.local_addr()?;
        let state = AzureState {
            base: format!("http://{address}"),
            ..AzureState::default()
        };
        let state = Arc::new(Mutex::new(state));
        let stop = CancellationToken::new();
        let (sender, heard) = watch::channel(());
        let endpoint = Arc::new(Endpoint {
            state: Arc::clone(&state),
            heard: sender,
        });
        let limits = ConnectionLimits::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(bindery_http::serve(listener, endpoint, limits, stop));
        Ok(Self {
            address,
            state,
            heard,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has, and what is to go wrong.
    pub fn lock(&self) -> MutexGuard<'_, AzureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request made it so.
    pub async fn wait_for(&self, is_so: impl Fn(&AzureState) -> bool) {
        let mut heard = self.heard.clone();
        while !is_so(&self.lock()) {
            // The emulator listens as long as it is there.
            let _heard = heard.changed().await;
        }
    }

    /// How many requests begin like this.
    #[must_use]
    pub fn requests(&self, start: &str) -> usize {
        let state = self.lock();
        let log = state.log.iter();
        log.filter(|line| line.starts_with(start)).count()
    }

    /// How many requests there were that change something.
    #[must_use]
    pub fn changes(&self) -> usize {
        ["PUT ", "POST ", "PATCH ", "DELETE "]
            .iter()
            .map(|method| self.requests(method))
            .sum()
    }
}

impl AzureFault {
    /// A fault of the next request that begins like this.
    #[must_use]
    pub fn new(request: &str, fate: AzureFate) -> Self {
        Self {
            request: request.to_owned(),
            fate,
        }
    }
}

impl HttpService for Endpoint {
    type Body = WireBody;

    fn tls(&self, _: IpAddr) -> Result<Option<Arc<rustls::ServerConfig>>, BoxedError> {
        Ok(None)
    }

    fn plain_refusal(&self) -> Option<&'static str> {
        None
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Heard<Incoming>>,
        _: SocketAddr,
    ) -> Response<WireBody> {
        let Some(asked) = Asked::read(request).await else {
            return EmulatedAnswer::error(400, "InvalidRequest", "the body was cut off").wire();
        };
        let (told, fate) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.take(&asked)
        };
        self.heard.send_replace(());
        match fate {
            Some(AzureFate::Delayed(time)) => {
                tokio::time::sleep(time).await;
                told.wire()
            }
            Some(AzureFate::DoneAndSilent | AzureFate::Silent) => std::future::pending().await,
            Some(AzureFate::DoneAndCut) => cut(),
            _ => told.wire(),
        }
    }
}

impl AzureState {
    /// Carries out a request, or does not, as is its fate.
    fn take(&mut self, asked: &Asked) -> (EmulatedAnswer, Option<AzureFate>) {
        let line = asked.line();
        let fate = self.silence(asked).or_else(|| self.fate(&line));
        self.log.push(line);
        if let Some(told) = self.login(asked) {
            return (told, fate);
        }
        let told = match &fate {
            Some(AzureFate::Throttled(millis)) => {
                let told = EmulatedAnswer::error(429, "TooManyRequests", "wait a moment");
                told.header("retry-after-ms", millis.to_string())
            }
            Some(AzureFate::Refused(status, code)) => {
                EmulatedAnswer::error(*status, code, "as the test says")
            }
            Some(AzureFate::RefusedWithGoodStatus(code)) => {
                let error = json!({"code": code, "message": "as the test says"});
                EmulatedAnswer::new(200, json!({"status": "Failed", "error": error}))
            }
            Some(AzureFate::Silent) => EmulatedAnswer::empty(500),
            Some(AzureFate::OperationFails(code)) => self.operation_that_fails(code),
            Some(AzureFate::DoneAndFailed(status)) => {
                let _done = self.route(asked);
                EmulatedAnswer::error(*status, "GatewayTimeout", "nobody answered in time")
            }
            _ => self.route(asked),
        };
        (told, fate)
    }

    /// Whether nobody is answered any more.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent_after
            .is_some_and(|(after, _)| self.changes_len > after)
    }

    fn silence(&mut self, asked: &Asked) -> Option<AzureFate> {
        let (after, is_done) = self.silent_after?;
        let is_change = asked.method != "GET" && !asked.path.ends_with("/token");
        self.changes_len += usize::from(is_change);
        match self.changes_len.checked_sub(after)? {
            0 => None,
            1 if is_change && is_done => Some(AzureFate::DoneAndSilent),
            _ => Some(AzureFate::Silent),
        }
    }

    /// Answers again, and counts changes from here on.
    pub fn speak(&mut self) {
        self.silent_after = None;
        self.changes_len = 0;
    }

    fn fate(&mut self, line: &str) -> Option<AzureFate> {
        let is_meant = |fault: &AzureFault| line.starts_with(&fault.request);
        let at = self.faults.iter().position(is_meant)?;
        self.faults.remove(at).map(|fault| fault.fate)
    }

    /// Gives out tokens, and refuses whoever has none; `None` where a request goes on.
    fn login(&mut self, asked: &Asked) -> Option<EmulatedAnswer> {
        let is_token = asked.path.ends_with("/oauth2/v2.0/token");
        let is_machine = asked.path == "/metadata/identity/oauth2/token";
        if is_token || is_machine {
            return Some(self.give_token(asked, is_machine));
        }
        let bearer = asked.bearer.as_ref();
        let is_known = bearer.is_some_and(|token| self.tokens.contains(token));
        if self.token_seconds == 0 || is_known {
            return None;
        }
        let why = "The access token is invalid.";
        Some(EmulatedAnswer::error(
            401,
            "InvalidAuthenticationToken",
            why,
        ))
    }

    fn give_token(&mut self, asked: &Asked, is_machine: bool) -> EmulatedAnswer {
        let form = asked.form();
        let has = |name: &str, value: &str| form.get(name).is_some_and(|one| one == value);
        let is_shown = if is_machine {
            asked.is_metadata && asked.query.contains_key("resource")
        } else {
            let assertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            let has_secret = has("client_secret", "right");
            let is_trusted =
                has("client_assertion_type", assertion) && has("client_assertion", "trusted");
            has("grant_type", "client_credentials") && (has_secret || is_trusted)
        };
        if !is_shown {
            let why = "AADSTS7000215: Invalid client secret provided.";
            let body = json!({"error": "invalid_client", "error_description": why});
            return EmulatedAnswer::new(401, body);
        }
        self.next += 1;
        let token = format!("token-{}", self.next);
        self.tokens.insert(token.clone());
        let seconds = self.token_seconds;
        EmulatedAnswer::new(
            200,
            json!({"token_type": "Bearer", "expires_in": seconds.to_string(), "access_token": token}),
        )
    }

    fn route(&mut self, asked: &Asked) -> EmulatedAnswer {
        let segments: Vec<&str> = asked
            .path
            .split('/')
            .filter(|one| !one.is_empty())
            .collect();
        let lower: Vec<String> = segments
            .iter()
            .map(|one| one.to_ascii_lowercase())
            .collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        match lower.as_slice() {
            ["subscriptions", _, "resourcegroups", _] => self.group(asked, segments[3]),
            ["subscriptions", _, "operationresults", id]
            | [
                "subscriptions",
                _,
                "providers",
                "microsoft.network",
                "locations",
                _,
                "operationresults",
                id,
            ] => self.operation_result(id),
            [
                "subscriptions",
                _,
                "providers",
                "microsoft.network",
                "locations",
                _,
                "operations",
                id,
            ] => self.operation_status(id),
            [
                "subscriptions",
                _,
                "resourcegroups",
                group,
                "providers",
                "microsoft.network",
                ..,
            ] => {
                if !self.groups.contains_key(*group) {
                    return groups::missing(segments[3]);
                }
                self.network(asked, &segments[5..])
            }
            _ => EmulatedAnswer::error(404, "InvalidResourceType", "there is nothing like this"),
        }
    }
}

impl Asked {
    async fn read(request: Request<impl Body<Data = Bytes>>) -> Option<Self> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let query = form(parts.uri.query().unwrap_or_default());
        let bearer = parts.headers.get(http::header::AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        Some(Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query,
            body,
            bearer: bearer.map(str::to_owned),
            is_metadata: parts.headers.contains_key("metadata"),
        })
    }

    /// The request in words: the method, and what of the path is after the provider.
    fn line(&self) -> String {
        let lower = self.path.to_ascii_lowercase();
        let provider = "/providers/microsoft.network/";
        let tail = match lower.find(provider) {
            Some(at) => &self.path[at + provider.len()..],
            None => self.path.as_str(),
        };
        let method = &self.method;
        // Of what a gateway is asked to do only the act counts: there is one gateway.
        match tail.rsplit('/').next() {
            Some(act) if method == "POST" => format!("POST {act}"),
            _ => format!("{method} {tail}"),
        }
    }

    fn json(&self) -> Result<Value, EmulatedAnswer> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let why = format!("the body is not understood: {error}");
            EmulatedAnswer::error(400, "InvalidRequestContent", &why)
        })
    }

    fn form(&self) -> BTreeMap<String, String> {
        form(&String::from_utf8_lossy(&self.body))
    }
}

/// The pairs of a form or a query; what is escaped stays so, but for what tokens need.
fn form(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let plain = |text: &str| {
        text.replace("%3A", ":")
            .replace("%24", "$")
            .replace("%2F", "/")
    };
    pairs
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

impl EmulatedAnswer {
    fn new(status: u16, body: Value) -> Self {
        let body = Some(body);
        let headers = Vec::new();
        Self {
            status,
            headers,
            body,
        }
    }

    fn empty(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        Self::new(status, json!({"error": {"code": code, "message": message}}))
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn wire(self) -> Response<WireBody> {
        let whole = |body| Full::new(body).map_err(|never| match never {}).boxed();
        self.whole().map_or_else(cut, |told| told.map(whole))
    }

    /// The answer with all of its body; `None` where it cannot be told.
    fn whole(self) -> Option<Response<Bytes>> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(*name, value);
        }
        let body = match self.body {
            Some(body) => {
                response = response.header("content-type", "application/json; charset=utf-8");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        response.body(body).ok()
    }
}

/// An answer that ends before it is whole.
fn cut() -> Response<WireBody> {
    let broken: Result<Frame<Bytes>, io::Error> = Err(io::ErrorKind::ConnectionReset.into());
    let parts = [Ok(Frame::data(Bytes::from_static(b"{"))), broken];
    Response::new(StreamBody::new(stream::iter(parts)).boxed())
}
