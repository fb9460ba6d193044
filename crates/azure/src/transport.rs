//! HTTP to Azure: one exchange, with limits.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::{Fault, FaultKind};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::time::timeout;

use crate::settings::{AzureSetupError, AzureTimes};

/// The longest answer that is read: a page of 100,000 addresses takes about 8 MB.
const ANSWER_LEN_MAX: usize = 64 << 20;
/// How long a connection that is not used is kept; Azure closes it after some minutes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How long is waited at most because the other side asks for it.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// What carries requests to Azure and brings the answers, whole.
///
/// Cancellation: dropped, a request may have been carried out.
pub trait AzureWire: Send + Sync + 'static {
    /// One exchange.
    fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, AzureSilence>>;
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum AzureSilence {
    /// The request was not sent.
    NotSent(String),
    /// It may have been carried out.
    CutOff(String),
}

/// A client of HTTP. Clones share connections.
#[derive(Clone)]
pub(crate) struct AzureTransport {
    wire: Arc<dyn AzureWire>,
    request_timeout: Duration,
}

/// HTTP on sockets.
struct HttpWire(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// An answer, whole.
pub(crate) struct AzureReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl AzureTransport {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// If certificates cannot be used.
    pub(crate) fn new(
        times: &AzureTimes,
        authorities: Option<&[u8]>,
    ) -> Result<Self, AzureSetupError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(times.connect));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls(authorities)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            // What was sent on a connection that was just closed may have arrived: only we know whether it may
            // be sent twice.
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self::over(Arc::new(HttpWire(http)), times))
    }

    /// A client of what answers in its own way.
    pub(crate) fn over(wire: Arc<dyn AzureWire>, times: &AzureTimes) -> Self {
        Self {
            wire,
            request_timeout: times.request,
        }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// [`FaultKind::Unreachable`] where nothing was sent, or it was a question; [`FaultKind::Lost`] where it may
    /// have been carried out.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<AzureReply, Fault> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let lost = if request.method() == Method::GET {
            FaultKind::Unreachable
        } else {
            FaultKind::Lost
        };
        match timeout(self.request_timeout, self.wire.exchange(request)).await {
            Ok(Ok(answer)) => {
                let (parts, body) = answer.into_parts();
                Ok(AzureReply {
                    status: parts.status,
                    headers: parts.headers,
                    body,
                })
            }
            Ok(Err(AzureSilence::NotSent(why))) => {
                let text = format!("{host} cannot be reached: {why}");
                Err(Fault::new(FaultKind::Unreachable, text))
            }
            Ok(Err(AzureSilence::CutOff(why))) => {
                let text = format!("the answer of {host} was lost: {why}");
                Err(Fault::new(lost, text))
            }
            Err(_) => {
                let seconds = self.request_timeout.as_secs_f64();
                let text = format!("{host} did not answer within {seconds} seconds");
                Err(Fault::new(lost, text))
            }
        }
    }
}

impl AzureWire for HttpWire {
    fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, AzureSilence>> {
        Box::pin(async move {
            let response = self.0.request(request).await.map_err(|error| {
                let why = deepest(&error);
                if error.is_connect() {
                    AzureSilence::NotSent(why)
                } else {
                    AzureSilence::CutOff(why)
                }
            })?;
            let (parts, body): (_, Incoming) = response.into_parts();
            let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
            let body = body.map_err(|error| AzureSilence::CutOff(deepest(&*error)))?;
            Ok(Response::from_parts(parts, body.to_bytes()))
        })
    }
}

impl AzureReply {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// How long the other side asks to wait: in milliseconds where it says so, else in seconds.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let number = |name: &str| self.header(name)?.trim().parse::<u64>().ok();
        let wait = number("retry-after-ms")
            .or_else(|| number("x-ms-retry-after-ms"))
            .map(Duration::from_millis)
            .or_else(|| number(header::RETRY_AFTER.as_str()).map(Duration::from_secs));
        wait.map(|wait| wait.min(RETRY_AFTER_MAX))
    }
}

fn tls(authorities: Option<&[u8]>) -> Result<rustls::ClientConfig, AzureSetupError> {
    let problem = |why: String| AzureSetupError::Authorities { why };
    let mut roots = RootCertStore::empty();
    // Where the machine has no certificates at all, the first request says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(authorities.unwrap_or_default()) {
        let certificate = certificate.map_err(|error| problem(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| problem(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| problem(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// What is behind an error: the outer ones only say that there is one.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
