//! The client of a sidecar, ours or bindcar: one pod, kept connections, every answer typed.

mod exchange;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::answer::SidecarFault;
use crate::wire::{
    AddedRecord, DsAnswer, DsSeen, ExpectedZones, HealthAnswer, NamedStatus, NewZone, ReadyAnswer,
    RecordAnswer, RemovedRecord, ReplacedRecord, SigningKeyFiles, ZoneAnswer, ZoneNames, ZonePatch,
    ZoneStatusAnswer, ZoneSummary,
};

/// How long a connection that is not used is kept; the server closes it after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// How a sidecar is reached.
pub struct SidecarClientOptions {
    /// Where it is: `http://ADDRESS:PORT` or `https://NAME:PORT`.
    pub address: String,
    /// What is shown to it.
    pub token: ClientToken,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long a request may take, its answer included.
    pub request_timeout: Duration,
    /// The certificate of the authority that an `https` address is trusted by, in PEM form.
    pub authority: Option<Vec<u8>>,
}

/// What a client shows.
#[derive(Clone)]
pub enum ClientToken {
    /// Nothing.
    None,
    /// This.
    Fixed(Arc<Zeroizing<String>>),
    /// What stands in the first line of a file, which is read for every request: it may be exchanged.
    File(PathBuf),
}

/// Why a client cannot be made.
#[derive(Debug, Error)]
pub enum SidecarSetupError {
    /// The address is none.
    #[error("{address:?} is no address of a sidecar; write http://ADDRESS:PORT")]
    Address {
        /// What was given.
        address: String,
    },
    /// The authority's certificate cannot be used.
    #[error("the authority of {address} is no certificate in PEM form: {why}")]
    Authority {
        /// Of which sidecar.
        address: String,
        /// Why not.
        why: String,
    },
}

/// A client of one sidecar; clones share its connections.
#[derive(Clone)]
pub struct SidecarClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Without the last slash.
    base: Arc<str>,
    token: ClientToken,
    request_timeout: Duration,
}

type Answer<T> = Result<T, SidecarFault>;

impl SidecarClientOptions {
    /// A sidecar at this address, with time limits for one that runs on the same network.
    #[must_use]
    pub fn new(address: impl Into<String>, token: ClientToken) -> Self {
        Self {
            address: address.into(),
            token,
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            authority: None,
        }
    }
}

impl SidecarClient {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// If the address or the authority cannot be used.
    pub fn new(options: SidecarClientOptions) -> Result<Self, SidecarSetupError> {
        let base = options.address.trim_end_matches('/').to_owned();
        let is_address = base.parse::<Uri>().is_ok_and(|uri| {
            let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
            is_http && uri.authority().is_some() && uri.path() == "/"
        });
        if !is_address {
            return Err(SidecarSetupError::Address { address: base });
        }
        let tls = tls(&base, options.authority.as_deref())?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_timeout));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Ok(Self {
            http,
            base: base.into(),
            token: options.token,
            request_timeout: options.request_timeout,
        })
    }

    /// Where the sidecar is.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.base
    }

    /// Whether the sidecar runs.
    ///
    /// # Errors
    /// If it does not.
    pub async fn health(&self) -> Answer<HealthAnswer> {
        self.fetch("health").await
    }

    /// Whether the server may be asked, and what is in the way. bindcar answers 200 in any case, ours 503
    /// where it may not; both are an answer here.
    ///
    /// # Errors
    /// If the sidecar does not say.
    pub async fn ready(&self) -> Answer<ReadyAnswer> {
        let whole = self.send(Method::GET, "ready", None).await?;
        if whole.code == StatusCode::SERVICE_UNAVAILABLE
            && let Ok(answer) = serde_json::from_slice(&whole.body)
        {
            return Ok(answer);
        }
        self.read(&whole)
    }

    /// What `named` says of itself.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub async fn server_status(&self) -> Answer<NamedStatus> {
        self.fetch("server/status").await
    }

    /// The keys that `named` signs zones with.
    ///
    /// # Errors
    /// If they cannot be had.
    pub async fn signing_keys(&self) -> Answer<SigningKeyFiles> {
        self.fetch("dnssec/keys").await
    }

    /// Every zone.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub async fn zones(&self) -> Answer<ZoneNames> {
        self.fetch("zones").await
    }

    /// One zone.
    ///
    /// # Errors
    /// If it is not there (404), or cannot be shown.
    pub async fn zone(&self, zone: &str) -> Answer<ZoneSummary> {
        self.fetch(&path(zone, "")).await
    }

    /// How a zone is.
    ///
    /// # Errors
    /// If it is not there (404), or cannot be shown.
    pub async fn zone_status(&self, zone: &str) -> Answer<ZoneStatusAnswer> {
        self.fetch(&path(zone, "/status")).await
    }

    /// What a signed zone's parent is to publish.
    ///
    /// # Errors
    /// If the zone is not there or not signed (404), or bindcar has no folder of keys (501).
    pub async fn ds(&self, zone: &str) -> Answer<DsAnswer> {
        self.fetch(&path(zone, "/ds")).await
    }

    /// Makes a zone, with its records.
    ///
    /// # Errors
    /// If it is there (409), or cannot be made.
    ///
    /// # Cancellation
    /// If dropped, it may have been made.
    pub async fn create_zone(&self, zone: &NewZone) -> Answer<ZoneAnswer> {
        self.change(Method::POST, "zones", zone).await
    }

    /// Changes who gets a zone, who may change it, and how it is signed.
    ///
    /// # Errors
    /// If it is not there (404), or cannot be changed so.
    ///
    /// # Cancellation
    /// If dropped, it may have been changed.
    pub async fn modify_zone(&self, zone: &str, patch: &ZonePatch) -> Answer<ZoneAnswer> {
        self.change(Method::PATCH, &path(zone, ""), patch).await
    }

    /// Removes a zone and its data.
    ///
    /// # Errors
    /// If it is not there (404), or cannot be removed.
    ///
    /// # Cancellation
    /// If dropped, it may have been removed.
    pub async fn delete_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::DELETE, zone, "").await
    }

    /// Has a zone's file read again.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn reload_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::POST, zone, "/reload").await
    }

    /// Has a zone take no updates.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn freeze_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::POST, zone, "/freeze").await
    }

    /// Has a zone take updates again.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn thaw_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::POST, zone, "/thaw").await
    }

    /// Has the secondaries of a zone told.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn notify_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::POST, zone, "/notify").await
    }

    /// Has a secondary fetch a zone, whatever it has.
    ///
    /// # Errors
    /// If that cannot be done.
    pub async fn retransfer_zone(&self, zone: &str) -> Answer<ZoneAnswer> {
        self.act(Method::POST, zone, "/retransfer").await
    }

    /// Tells what was seen at the parent of a signed zone.
    ///
    /// # Errors
    /// If there is no such key (404), or it cannot be noted.
    pub async fn check_ds(&self, zone: &str, seen: &DsSeen) -> Answer<ZoneAnswer> {
        let path = path(zone, "/dnssec/checkds");
        self.change(Method::POST, &path, seen).await
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If that cannot be done.
    ///
    /// # Cancellation
    /// If dropped, it may have been added.
    pub async fn add_record(&self, zone: &str, record: &AddedRecord) -> Answer<RecordAnswer> {
        let path = path(zone, "/records");
        self.change(Method::POST, &path, record).await
    }

    /// Puts a record in place of another.
    ///
    /// # Errors
    /// If that cannot be done.
    ///
    /// # Cancellation
    /// If dropped, it may have been done.
    pub async fn replace_record(
        &self,
        zone: &str,
        record: &ReplacedRecord,
    ) -> Answer<RecordAnswer> {
        let path = path(zone, "/records");
        self.change(Method::PUT, &path, record).await
    }

    /// Takes a record out.
    ///
    /// # Errors
    /// If that cannot be done.
    ///
    /// # Cancellation
    /// If dropped, it may have been taken out.
    pub async fn remove_record(&self, zone: &str, record: &RemovedRecord) -> Answer<RecordAnswer> {
        let path = path(zone, "/records");
        self.change(Method::DELETE, &path, record).await
    }

    /// Which zones the server should have.
    ///
    /// # Errors
    /// If it was not told yet (404), or cannot say.
    pub async fn expected(&self) -> Answer<ExpectedZones> {
        self.fetch("expected").await
    }

    /// Tells which zones the server should have; bindcar does not know it (404).
    ///
    /// # Errors
    /// If it cannot be told.
    ///
    /// # Cancellation
    /// If dropped, it may have been told.
    pub async fn put_expected(&self, zones: &ExpectedZones) -> Answer<ZoneAnswer> {
        self.change(Method::PUT, "expected", zones).await
    }
}

fn path(zone: &str, end: &str) -> String {
    /// What a zone's name may have besides letters and digits and need not be escaped in a path.
    const PLAIN: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');
    format!("zones/{}{end}", utf8_percent_encode(zone, PLAIN))
}

fn tls(address: &str, authority: Option<&[u8]>) -> Result<rustls::ClientConfig, SidecarSetupError> {
    let problem = |why: String| SidecarSetupError::Authority {
        address: address.to_owned(),
        why,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.unwrap_or_default()) {
        let certificate = certificate.map_err(|error| problem(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| problem(error.to_string()))?;
    }
    if authority.is_some() && roots.is_empty() {
        return Err(problem("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| problem(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
