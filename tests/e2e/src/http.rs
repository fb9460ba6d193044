//! A small HTTP client that hides nothing: status, headers, JSON and watch lines as the server sent them.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

/// Longer than any server needs for one answer or event, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection pool to one API server.
#[derive(Clone)]
pub struct Http {
    client: kube::Client,
}

/// One request that is not yet sent.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// The response headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub text: String,
    /// The body as JSON; null where it is none.
    pub json: Value,
}

/// A watch that is being read.
pub struct WatchStream {
    body: Body,
    pending: Vec<u8>,
    events: VecDeque<Value>,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        let headers = vec![("accept", "application/json".to_owned())];
        Self {
            method,
            target: target.into(),
            headers,
            body: Vec::new(),
        }
    }

    /// Sends JSON.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sends bytes of some content type.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self.header("content-type", content_type)
        }
    }

    /// Sets a header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(existing, _)| *existing != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn request(self) -> Result<Request<Body>> {
        let target: Uri = self
            .target
            .parse()
            .with_context(|| format!("bad target {}", self.target))?;
        let mut request = Request::builder().method(self.method).uri(target);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body)).context("bad header")
    }
}

impl Http {
    /// Speaks to a server at `url`; its certificate is not checked, since it made that itself.
    ///
    /// # Errors
    /// When the URL or the token cannot be used.
    pub fn connect(url: &str, token: Option<&str>) -> Result<Self> {
        let mut config = kube::Config::new(url.parse().context("bad URL")?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().context("bad token")?;
            config.headers.push((http::header::AUTHORIZATION, value));
        }
        Ok(Self {
            client: kube::Client::try_from(config).context("cannot set up HTTP")?,
        })
    }

    /// The same pool as a typed client.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Sends a request and reads the whole answer, whatever its status.
    ///
    /// # Errors
    /// Only when there is no answer.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        let what = format!("{} {}", call.method, call.target);
        let request = call.request()?;
        let exchange = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|fault| anyhow!(fault))?;
            let (parts, body) = response.into_parts();
            let bytes = body
                .collect()
                .await
                .map_err(|fault| anyhow!(fault))?
                .to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let json = serde_json::from_str(&text).unwrap_or(Value::Null);
            Ok(Answer {
                code: parts.status.as_u16(),
                headers: parts.headers,
                text,
                json,
            })
        };
        timeout(PATIENCE, exchange)
            .await
            .map_err(|_| anyhow!("{what}: no answer in {PATIENCE:?}"))?
            .map_err(|fault: anyhow::Error| fault.context(what))
    }

    /// Opens a watch; an answer other than 200 comes back as it is.
    ///
    /// # Errors
    /// Only when there is no answer.
    pub async fn watch(&self, target: &str) -> Result<Result<WatchStream, Answer>> {
        let request = Call::new(Method::GET, target).request()?;
        let response = timeout(PATIENCE, self.client.send(request))
            .await
            .map_err(|_| anyhow!("watch {target}: no answer in {PATIENCE:?}"))??;
        let (parts, body) = response.into_parts();
        if parts.status == http::StatusCode::OK {
            return Ok(Ok(WatchStream {
                body,
                pending: Vec::new(),
                events: VecDeque::new(),
            }));
        }
        let bytes = body
            .collect()
            .await
            .map_err(|fault| anyhow!(fault))?
            .to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Err(Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            text,
            json,
        }))
    }
}

impl WatchStream {
    /// The next event, `None` when the server has ended the watch.
    ///
    /// # Errors
    /// When nothing comes for [`PATIENCE`] or a line is no JSON.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        self.next_within(PATIENCE).await
    }

    /// The next event within a time of the caller's choice.
    ///
    /// # Errors
    /// When nothing comes in that time or a line is no JSON.
    pub async fn next_within(&mut self, patience: Duration) -> Result<Option<Value>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let frame = timeout(patience, self.body.frame())
                .await
                .map_err(|_| anyhow!("no watch event in {patience:?}"))?;
            let Some(frame) = frame else { return Ok(None) };
            let Ok(data) = frame.map_err(|fault| anyhow!(fault))?.into_data() else {
                continue;
            };
            self.pending.extend_from_slice(&data);
            self.take_lines()?;
        }
    }

    fn take_lines(&mut self) -> Result<()> {
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            self.events
                .push_back(serde_json::from_slice(&line).context("a line is no JSON")?);
        }
        Ok(())
    }
}
