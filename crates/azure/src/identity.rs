//! Who we are: tokens of Azure, fetched, kept and renewed in time.

use std::path::PathBuf;
use std::time::Duration;

use bindery_core::{Fault, FaultKind};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde::{Deserialize, Deserializer};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::secret::AzureSecret;
use crate::settings::AzureEndpoints;
use crate::transport::{AzureReply, AzureTransport};

/// A token is renewed when it is valid for no longer than this, so that no request ever shows an old one.
const RENEW_BEFORE: Duration = Duration::from_mins(5);
/// How much of what a token's server says is kept.
const SAID_LEN_MAX: usize = 300;
/// The version of the metadata service.
const METADATA_VERSION: &str = "2018-02-01";

/// Who we are.
#[derive(Clone)]
pub enum AzureCredential {
    /// A token of the cluster that Azure trusts (workload identity). The file is read for each token.
    WorkloadIdentity {
        /// The tenant.
        tenant: String,
        /// The application or managed identity.
        client: String,
        /// The file of the cluster's token.
        token_file: PathBuf,
    },
    /// A password of an application.
    ClientSecret {
        /// The tenant.
        tenant: String,
        /// The application.
        client: String,
        /// The password.
        secret: AzureSecret,
    },
    /// A password of an application, in a file that is read for each token.
    ClientSecretFile {
        /// The tenant.
        tenant: String,
        /// The application.
        client: String,
        /// The file of the password.
        path: PathBuf,
    },
    /// The identity of the machine.
    ManagedIdentity {
        /// Which, where the machine has several.
        client: Option<String>,
    },
}

/// Tokens of one identity.
pub(crate) struct AzureTokens {
    transport: AzureTransport,
    credential: AzureCredential,
    endpoints: AzureEndpoints,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    token: AzureSecret,
    renew_at: Instant,
    valid_until: Instant,
}

#[derive(Deserialize)]
struct TokenText {
    #[serde(deserialize_with = "hidden")]
    access_token: Zeroizing<String>,
    expires_in: Number,
    #[serde(default)]
    refresh_in: Option<Number>,
}

/// A number that some servers write as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: String,
    error_description: String,
}

impl AzureTokens {
    pub(crate) fn new(
        transport: AzureTransport,
        credential: AzureCredential,
        endpoints: AzureEndpoints,
    ) -> Self {
        Self {
            transport,
            credential,
            endpoints,
            kept: Mutex::new(None),
        }
    }

    /// A token that is valid for some minutes at least.
    ///
    /// # Errors
    /// If none can be had; nothing was changed then.
    ///
    /// Cancellation: dropped, the next call asks again.
    pub(crate) async fn fetch(&self) -> Result<AzureSecret, Fault> {
        let mut kept = self.kept.lock().await;
        let now = Instant::now();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.renew_at > now) {
            return Ok(kept.token.clone());
        }
        match self.fetch_new().await {
            Ok(new) => {
                let token = new.token.clone();
                *kept = Some(new);
                Ok(token)
            }
            Err(fault) => match kept.as_ref().filter(|kept| kept.valid_until > now) {
                Some(kept) => {
                    tracing::warn!(why = %fault, "the token of Azure could not be renewed yet");
                    Ok(kept.token.clone())
                }
                None => Err(fault),
            },
        }
    }

    /// A token was not accepted: the next one is new.
    pub(crate) async fn forget(&self, token: &AzureSecret) {
        let mut kept = self.kept.lock().await;
        let is_same = |kept: &mut Kept| kept.token.expose() == token.expose();
        if kept.as_mut().is_some_and(is_same) {
            *kept = None;
        }
    }

    async fn fetch_new(&self) -> Result<Kept, Fault> {
        let asked = Instant::now();
        let request = match &self.credential {
            AzureCredential::WorkloadIdentity {
                tenant,
                client,
                token_file,
            } => {
                let assertion = read(token_file).await?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                let proof = [
                    ("client_assertion_type", kind),
                    ("client_assertion", assertion.expose()),
                ];
                self.authority_request(tenant, client, &proof)
            }
            AzureCredential::ClientSecret {
                tenant,
                client,
                secret,
            } => self.authority_request(tenant, client, &[("client_secret", secret.expose())]),
            AzureCredential::ClientSecretFile {
                tenant,
                client,
                path,
            } => {
                let secret = read(path).await?;
                self.authority_request(tenant, client, &[("client_secret", secret.expose())])
            }
            AzureCredential::ManagedIdentity { client } => self.machine_request(client.as_deref()),
        };
        let request = request.map_err(|error| {
            let text = format!("a token cannot be asked for: {error}");
            Fault::new(FaultKind::Denied, text)
        })?;
        // A token that was given out and not received does no harm.
        let reply = self.transport.send(request).await.map_err(|fault| Fault {
            kind: FaultKind::Unreachable,
            ..fault
        })?;
        read_token(&reply, asked)
    }

    fn authority_request(
        &self,
        tenant: &str,
        client: &str,
        proof: &[(&str, &str)],
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let authority = self.endpoints.authority.trim_end_matches('/');
        let scope = format!("{}/.default", self.endpoints.audience.trim_end_matches('/'));
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials")
            .append_pair("client_id", client)
            .append_pair("scope", &scope)
            .extend_pairs(proof);
        let form = form.finish();
        Request::builder()
            .method(Method::POST)
            .uri(format!("{authority}/{tenant}/oauth2/v2.0/token"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(form)))
    }

    fn machine_request(&self, client: Option<&str>) -> Result<Request<Full<Bytes>>, http::Error> {
        let metadata = self.endpoints.metadata.trim_end_matches('/');
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("api-version", METADATA_VERSION)
            .append_pair("resource", &self.endpoints.audience);
        if let Some(client) = client {
            query.append_pair("client_id", client);
        }
        let query = query.finish();
        Request::builder()
            .method(Method::GET)
            .uri(format!("{metadata}/metadata/identity/oauth2/token?{query}"))
            .header("Metadata", "true")
            .body(Full::new(Bytes::new()))
    }
}

async fn read(path: &PathBuf) -> Result<AzureSecret, Fault> {
    match tokio::fs::read_to_string(path).await {
        Ok(text) => Ok(AzureSecret::new(&Zeroizing::new(text))),
        Err(error) => {
            let text = format!("cannot read {}: {error}", path.display());
            Err(Fault::new(FaultKind::Denied, text))
        }
    }
}

fn read_token(reply: &AzureReply, asked: Instant) -> Result<Kept, Fault> {
    let status = reply.status.as_u16();
    if !reply.status.is_success() {
        let kind = match status {
            429 => FaultKind::Throttled,
            500..=599 => FaultKind::Unreachable,
            _ => FaultKind::Denied,
        };
        let refusal: Refusal = serde_json::from_slice(&reply.body).unwrap_or_default();
        let words = refusal.error_description.lines().next().unwrap_or_default();
        let words: String = words.chars().take(SAID_LEN_MAX).collect();
        let text = format!("no token from Azure: {status} {} {words}", refusal.error);
        let fault = Fault::new(kind, text.trim_end()).with_code(status);
        return Err(match reply.retry_after() {
            Some(wait) => fault.with_retry_after(wait),
            None => fault,
        });
    }
    let token: TokenText = serde_json::from_slice(&reply.body).map_err(|_| {
        // The error may quote the token.
        Fault::new(FaultKind::Denied, "no token from Azure: it cannot be read")
    })?;
    let valid_for = Duration::from_secs(token.expires_in.value());
    let renew_after = valid_for.saturating_sub(RENEW_BEFORE).max(valid_for / 2);
    let wished = token
        .refresh_in
        .map(|wish| Duration::from_secs(wish.value()));
    let renew_after = wished.map_or(renew_after, |wish| wish.min(renew_after));
    Ok(Kept {
        token: AzureSecret::new(&token.access_token),
        renew_at: asked + renew_after,
        valid_until: asked + valid_for,
    })
}

fn hidden<'de, D: Deserializer<'de>>(text: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(text).map(Zeroizing::new)
}

impl Number {
    fn value(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;

    fn reply(status: u16, body: &str) -> AzureReply {
        AzureReply {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_it_ends() {
        let asked = Instant::now();
        for (body, renew, end) in [
            (r#"{"access_token":"t","expires_in":3600}"#, 3300, 3600),
            (r#"{"access_token":"t","expires_in":"3600"}"#, 3300, 3600),
            (r#"{"access_token":"t","expires_in":100}"#, 50, 100),
            (
                r#"{"access_token":"t","expires_in":86400,"refresh_in":43200}"#,
                43200,
                86400,
            ),
        ] {
            let kept =
                read_token(&reply(200, body), asked).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!((kept.renew_at - asked).as_secs(), renew, "{body}");
            assert_eq!((kept.valid_until - asked).as_secs(), end, "{body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_told_without_what_is_secret() {
        let body = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret.\r\nTrace"}"#;
        let fault = read_token(&reply(401, body), Instant::now());
        let fault = fault.err().expect("it is refused");
        assert_eq!(fault.kind, FaultKind::Denied);
        let text = "no token from Azure: 401 invalid_client AADSTS7000215: Invalid client secret.";
        assert_eq!(fault.message, text);
        let odd = read_token(&reply(200, r#"{"access_token":"hidden"}"#), Instant::now());
        let odd = odd.err().expect("it has no end");
        assert!(!odd.message.contains("hidden"), "{odd}");
    }
}
