//! Requests to a sidecar and what comes back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{Answer, ClientToken, SidecarClient, path};
use crate::answer::{Answered, SidecarFault};
use crate::wire::{ErrorAnswer, ZoneAnswer};

/// The longest answer that is read: a list of 100,000 zones takes about 3 MB.
const ANSWER_LEN_MAX: usize = 32 << 20;
/// How much of a text that is not the usual object is shown.
const SHOWN_LEN_MAX: usize = 200;

/// An answer, whole.
pub(super) struct Whole {
    pub(super) code: StatusCode,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl SidecarClient {
    pub(super) async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        let whole = self.send(Method::GET, path, None).await?;
        self.read(&whole)
    }

    pub(super) async fn act(&self, method: Method, zone: &str, end: &str) -> Answer<ZoneAnswer> {
        let whole = self.send(method, &path(zone, end), None).await?;
        self.read(&whole)
    }

    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Answer<T> {
        let body = serde_json::to_vec(body).expect("our requests have text for keys");
        let whole = self.send(method, path, Some(body)).await?;
        self.read(&whole)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Answer<Whole> {
        let request = self.request(method, path, body).await?;
        let asked = timeout(self.request_timeout, self.exchange(request)).await;
        asked.unwrap_or_else(|_| {
            Err(SidecarFault::TimedOut {
                address: self.base.to_string(),
                limit: self.request_timeout,
            })
        })
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Answer<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1/{path}", self.base));
        if let Some(token) = self.token().await? {
            let value = Zeroizing::new(format!("Bearer {}", token.as_str()));
            request = request.header(header::AUTHORIZATION, value.as_str());
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        request.body(body).map_err(|error| self.unreachable(&error))
    }

    async fn token(&self) -> Answer<Option<Zeroizing<String>>> {
        match &self.token {
            ClientToken::None => Ok(None),
            ClientToken::Fixed(token) => Ok(Some(Zeroizing::new(token.trim().to_owned()))),
            ClientToken::File(path) => {
                let text = tokio::fs::read_to_string(path).await;
                let text = Zeroizing::new(text.map_err(|error| SidecarFault::Unreachable {
                    address: self.base.to_string(),
                    why: format!("the token file {}: {error}", path.display()),
                })?);
                let first = text.lines().next().unwrap_or_default();
                Ok(Some(Zeroizing::new(first.trim().to_owned())))
            }
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Answer<Whole> {
        let response = self.http.request(request).await;
        let response = response.map_err(|error| {
            if error.is_connect() {
                self.unreachable(&error)
            } else {
                self.cut_off(&error)
            }
        })?;
        let (parts, body): (_, Incoming) = response.into_parts();
        let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
        let body = body.map_err(|error| self.cut_off(&*error))?;
        Ok(Whole {
            code: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    pub(super) fn read<T: DeserializeOwned>(&self, whole: &Whole) -> Answer<T> {
        if !whole.code.is_success() {
            return Err(SidecarFault::Answered(whole.answered()));
        }
        serde_json::from_slice(&whole.body).map_err(|error| SidecarFault::Malformed {
            address: self.base.to_string(),
            why: error.to_string(),
        })
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> SidecarFault {
        SidecarFault::Unreachable {
            address: self.base.to_string(),
            why: deepest(error),
        }
    }

    fn cut_off(&self, error: &dyn std::error::Error) -> SidecarFault {
        SidecarFault::CutOff {
            address: self.base.to_string(),
            why: deepest(error),
        }
    }
}

impl Whole {
    fn answered(&self) -> Answered {
        let said = serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            // A gateway, or bindcar on a body that it cannot read.
            let text = String::from_utf8_lossy(&self.body);
            ErrorAnswer {
                error: text.trim().chars().take(SHOWN_LEN_MAX).collect(),
                details: None,
                reason: None,
            }
        });
        let wait = self.headers.get(header::RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
        Answered {
            code: self.code.as_u16(),
            said,
            retry_after: wait.map(Duration::from_secs),
        }
    }
}

/// What is behind an error: the outer ones only say that there is one.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
