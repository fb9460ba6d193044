//! Azure's resource manager: resources are read, made and removed; operations that take long are waited for.

use bindery_core::{Fault, FaultKind};
use bindery_engine::balancing::TRACE_TARGET;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;
use tracing::field::Empty;
use zeroize::Zeroizing;

use crate::failure::{Attempt, error_in, failed, fault, malformed};
use crate::identity::AzureTokens;
use crate::secret::AzureSecret;
use crate::settings::{AzureSettings, AzureSetupError, AzureTimes};
use crate::transport::{AzureReply, AzureTransport};
use crate::wire::{API_VERSION, ArmPage, ArmProgress, Outcome};

/// Pages of one list; at a hundred entries each it is a million.
const PAGES_MAX: usize = 10_000;

/// A client of the resource manager.
pub(crate) struct Arm {
    transport: AzureTransport,
    tokens: AzureTokens,
    /// Without the last slash.
    base: String,
    times: AzureTimes,
}

/// Where an operation is looked at.
enum Watched {
    /// A document says how it is (`Azure-AsyncOperation`).
    Status(String),
    /// The answer's status says whether it is done (`Location`).
    Result(String),
}

impl Arm {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// If certificates cannot be used.
    pub(crate) fn new(settings: &AzureSettings) -> Result<Self, AzureSetupError> {
        let transport = AzureTransport::new(&settings.times, settings.authorities.as_deref())?;
        Ok(Self::over(transport, settings))
    }

    /// A client that reaches Azure by this.
    pub(crate) fn over(transport: AzureTransport, settings: &AzureSettings) -> Self {
        let credential = settings.credential.clone();
        let endpoints = settings.endpoints.clone();
        let base = endpoints.management.trim_end_matches('/').to_owned();
        Self {
            tokens: AzureTokens::new(transport.clone(), credential, endpoints),
            transport,
            base,
            times: settings.times,
        }
    }

    /// A resource; `None` where it is not there.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Fault> {
        let what = format!("reading {}", last(path));
        let reply = self.call(Method::GET, &self.url(path), None).await?;
        if reply.status == StatusCode::NOT_FOUND && !is_group_missing(&reply) {
            return Ok(None);
        }
        read(&what, &reply).map(Some)
    }

    /// All entries of a list, whatever the number of its pages.
    pub(crate) async fn fetch_list<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Vec<T>, Fault> {
        let what = format!("listing {}", last(path));
        let mut entries = Vec::new();
        let mut url = self.url(path);
        for _ in 0..PAGES_MAX {
            let reply = self.call(Method::GET, &url, None).await?;
            let page: ArmPage<T> = read(&what, &reply)?;
            entries.extend(page.value);
            match page.next.filter(|next| !next.is_empty()) {
                Some(next) => url = next,
                None => return Ok(entries),
            }
        }
        let text = format!("{what}: it has more than {PAGES_MAX} pages");
        Err(Fault::new(FaultKind::Malformed, text))
    }

    /// Makes a resource what `body` says, and waits until it stands.
    ///
    /// Cancellation: dropped, it may stand, or stand soon.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        let what = format!("writing {}", last(path));
        let (url, body) = (self.url(path), to_bytes(body));
        let reply = self.call(Method::PUT, &url, Some(body)).await?;
        if !reply.status.is_success() {
            return Err(fault(&what, &reply, Attempt::Change));
        }
        let outcome: Outcome = serde_json::from_slice(&reply.body).unwrap_or_default();
        let state = outcome.properties.state.as_deref().map(ArmProgress::of);
        if state == Some(ArmProgress::Done) {
            return read(&what, &reply);
        }
        self.wait(&what, &reply).await?;
        let path_gone = || {
            let text = format!("{what}: it was written and is not there");
            Fault::new(FaultKind::Lost, text)
        };
        self.fetch(path).await?.ok_or_else(path_gone)
    }

    /// Removes a resource, and waits until it is gone; one that is not there is no fault.
    ///
    /// Cancellation: dropped, it may be gone, or be gone soon.
    pub(crate) async fn remove(&self, path: &str) -> Result<(), Fault> {
        let what = format!("removing {}", last(path));
        let reply = self.call(Method::DELETE, &self.url(path), None).await?;
        match reply.status {
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => Ok(()),
            status if status.is_success() => self.wait(&what, &reply).await,
            _ => Err(fault(&what, &reply, Attempt::Change)),
        }
    }

    /// Asks a resource to do something, and waits until it is done.
    ///
    /// A gateway answers 200 and is done; headers beside it mean nothing. An error in the answer is one, whatever
    /// its status is.
    ///
    /// Cancellation: dropped, it may be done, or be done soon.
    pub(crate) async fn ask(&self, path: &str, body: &impl Serialize) -> Result<(), Fault> {
        let what = last(path).to_owned();
        let (url, body) = (self.url(path), to_bytes(body));
        let reply = self.call(Method::POST, &url, Some(body)).await?;
        match reply.status {
            StatusCode::OK | StatusCode::NO_CONTENT => check(&what, &reply),
            status if status.is_success() => {
                check(&what, &reply)?;
                self.wait(&what, &reply).await
            }
            _ => Err(fault(&what, &reply, Attempt::Change)),
        }
    }

    /// Waits for the operation that an answer tells of; where it tells of none, there is nothing to wait for.
    async fn wait(&self, what: &str, reply: &AzureReply) -> Result<(), Fault> {
        let watched = match (
            reply.header("azure-asyncoperation"),
            reply.header("location"),
        ) {
            (Some(url), _) => Watched::Status(url.to_owned()),
            (None, Some(url)) => Watched::Result(url.to_owned()),
            (None, None) => return Ok(()),
        };
        let began = Instant::now();
        let mut asked = reply.retry_after();
        let mut pause = self.times.poll_first;
        loop {
            let left = self.times.operation.saturating_sub(began.elapsed());
            if left.is_zero() {
                let seconds = self.times.operation.as_secs();
                let text = format!("{what}: it did not end within {seconds} seconds");
                return Err(Fault::new(FaultKind::Lost, text));
            }
            sleep(asked.unwrap_or(pause).min(left)).await;
            pause = (pause * 2).min(self.times.poll_max);
            let (Watched::Status(url) | Watched::Result(url)) = &watched;
            let reply = match self.call(Method::GET, url, None).await {
                Ok(reply) => reply,
                // It goes on whether somebody looks or not.
                Err(fault) if fault.kind.is_silence() => {
                    asked = fault.retry_after;
                    continue;
                }
                Err(fault) => return Err(lost(what, &fault)),
            };
            asked = reply.retry_after();
            if is_passing(reply.status) {
                continue;
            }
            if let Some(end) = judge(what, &watched, &reply) {
                return end;
            }
        }
    }

    /// Sends a request, and notes it as a part of the operation that it belongs to.
    async fn call(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
    ) -> Result<AzureReply, Fault> {
        let path = url.split('?').next().unwrap_or_default();
        let span = tracing::info_span!(
            target: TRACE_TARGET,
            "request",
            otel.name = %format_args!("{method} {}", last(path)),
            url.path = path,
            status = Empty,
            http.response.status_code = Empty,
        );
        let sent = self.send(method, url, body).instrument(span.clone()).await;
        match &sent {
            Ok(reply) => span.record("http.response.status_code", reply.status.as_u16()),
            Err(fault) => span.record("status", fault.kind.as_str()),
        };
        sent
    }

    /// Sends a request with a token; where the token is refused, once more with a new one.
    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
    ) -> Result<AzureReply, Fault> {
        if !self.is_azure(url) {
            let text = format!("{url} is not at {}: no token is shown there", self.base);
            return Err(Fault::new(FaultKind::Malformed, text));
        }
        let token = self.tokens.fetch().await?;
        let first = request(method.clone(), url, body.clone(), &token)?;
        let reply = self.transport.send(first).await?;
        if reply.status != StatusCode::UNAUTHORIZED {
            return Ok(reply);
        }
        self.tokens.forget(&token).await;
        let token = self.tokens.fetch().await?;
        let second = request(method, url, body, &token)?;
        self.transport.send(second).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}?api-version={API_VERSION}", self.base)
    }

    /// Whether an address that Azure gave is Azure's.
    fn is_azure(&self, url: &str) -> bool {
        is_beneath(&self.base, url)
    }
}

/// Whether an address is at the host of another one, or at a host beneath it, by the same protocol and port.
fn is_beneath(base: &str, url: &str) -> bool {
    let place = |text: &str| {
        let uri = text.parse::<Uri>().ok()?;
        let scheme = uri.scheme_str()?.to_owned();
        // Azure writes the usual port out at times.
        let usual = if scheme == "https" { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(usual);
        Some((scheme, port, uri.host()?.to_ascii_lowercase()))
    };
    let (Some((scheme, port, known)), Some((other_scheme, other_port, host))) =
        (place(base), place(url))
    else {
        return false;
    };
    let is_host = host == known || host.ends_with(&format!(".{known}"));
    is_host && scheme == other_scheme && port == other_port
}

fn request(
    method: Method,
    url: &str,
    body: Option<Bytes>,
    token: &AzureSecret,
) -> Result<Request<Full<Bytes>>, Fault> {
    let bearer = Zeroizing::new(format!("Bearer {}", token.expose()));
    let mut bearer = http::HeaderValue::from_str(&bearer)
        .map_err(|_| Fault::new(FaultKind::Denied, "the token of Azure is no token"))?;
    bearer.set_sensitive(true);
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::AUTHORIZATION, bearer)
        .header(header::ACCEPT, "application/json")
        .header(
            header::USER_AGENT,
            concat!("bindery/", env!("CARGO_PKG_VERSION")),
        );
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = Full::new(body.unwrap_or_default());
    request.body(body).map_err(|error| {
        let text = format!("{url} cannot be asked: {error}");
        Fault::new(FaultKind::Malformed, text)
    })
}

fn to_bytes(body: &impl Serialize) -> Bytes {
    let body = serde_json::to_vec(body).expect("our requests have text for keys");
    Bytes::from(body)
}

/// Reads an answer to a question, or to a request that is done.
fn read<T: DeserializeOwned>(what: &str, reply: &AzureReply) -> Result<T, Fault> {
    if !reply.status.is_success() {
        return Err(fault(what, reply, Attempt::Question));
    }
    serde_json::from_slice(&reply.body).map_err(|error| malformed(what, &error))
}

/// Looks for an error in an answer whose status is good.
fn check(what: &str, reply: &AzureReply) -> Result<(), Fault> {
    let outcome: Outcome = serde_json::from_slice(&reply.body).unwrap_or_default();
    match error_in(outcome) {
        Some(error) => Err(failed(what, &error)),
        None => Ok(()),
    }
}

/// How an operation ended; `None` where it goes on.
fn judge(what: &str, watched: &Watched, reply: &AzureReply) -> Option<Result<(), Fault>> {
    if !reply.status.is_success() {
        return Some(Err(match watched {
            // The operation is not known any more.
            Watched::Status(_) => lost(what, &fault(what, reply, Attempt::Question)),
            Watched::Result(_) => fault(what, reply, Attempt::Change),
        }));
    }
    let outcome: Outcome = serde_json::from_slice(&reply.body).unwrap_or_default();
    match watched {
        Watched::Status(_) => {
            match ArmProgress::of(outcome.status.as_deref().unwrap_or_default()) {
                ArmProgress::Done => Some(Ok(())),
                ArmProgress::UnderWay => None,
                ArmProgress::Failed => {
                    let error = error_in(outcome).unwrap_or_default();
                    Some(Err(failed(what, &error)))
                }
            }
        }
        Watched::Result(_) if reply.status == StatusCode::ACCEPTED => None,
        Watched::Result(_) => Some(check(what, reply)),
    }
}

/// Whether a look at an operation failed in a way that says nothing of it.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500..=599)
}

/// Nobody can tell how an operation ended.
fn lost(what: &str, why: &Fault) -> Fault {
    let text = format!("{what}: nobody can tell how it ended: {}", why.message);
    Fault::new(FaultKind::Lost, text)
}

/// Whether the resource group is missing, rather than something in it.
fn is_group_missing(reply: &AzureReply) -> bool {
    let outcome: Outcome = serde_json::from_slice(&reply.body).unwrap_or_default();
    let code = outcome.error.map(|error| error.code).unwrap_or_default();
    matches!(
        code.as_str(),
        "ResourceGroupNotFound" | "SubscriptionNotFound" | "InvalidSubscriptionId"
    )
}

/// What of a path people know: the kind and the name.
fn last(path: &str) -> &str {
    let network = "/providers/Microsoft.Network/";
    path.find(network)
        .map_or(path, |at| &path[at + network.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_to_azure_only() {
        let base = "https://management.azure.com";
        for (url, is_shown) in [
            ("https://management.azure.com/subscriptions", true),
            ("https://MANAGEMENT.azure.com:443/subscriptions", true),
            ("https://eastus2.management.azure.com/x", true),
            ("http://management.azure.com/x", false),
            ("https://management.azure.com:8443/x", false),
            ("https://management.azure.com.example/x", false),
            ("https://example.com/?management.azure.com", false),
            ("/subscriptions", false),
        ] {
            assert_eq!(is_beneath(base, url), is_shown, "{url}");
        }
    }
}
