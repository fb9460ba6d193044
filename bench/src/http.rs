//! One kept HTTP connection to an API server, as a client that writes much would hold it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A connection over which one request at a time is sent.
pub(crate) struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// The events of a watch, as they arrive.
pub(crate) struct Watch {
    body: Incoming,
    pending: BytesMut,
}

impl Http {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true).context("cannot set up TCP")?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .context("cannot set up HTTP")?;
        // It ends when the sender is dropped; its error shows in the requests.
        tokio::spawn(async { drop(connection.await) });
        Ok(Self {
            sender,
            host: address.to_string(),
        })
    }

    /// The answer's body as it came; any status but success is an error.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        self.send(Method::GET, path, None).await
    }

    /// Creates an object and returns the answer as it came.
    pub(crate) async fn create(&mut self, path: &str, object: &Value) -> Result<Bytes> {
        let body = ("application/json", object);
        self.send(Method::POST, path, Some(body)).await
    }

    /// Changes an object by a merge patch and returns the answer as it came.
    pub(crate) async fn patch(&mut self, path: &str, change: &Value) -> Result<Bytes> {
        let body = ("application/merge-patch+json", change);
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// Begins a watch, for which the connection is used up.
    pub(crate) async fn watch(mut self, path: &str) -> Result<Watch> {
        let (status, body) = self.begin(Method::GET, path, None).await?;
        if !status.is_success() {
            bail!("GET {path}: {status}");
        }
        Ok(Watch {
            body,
            pending: BytesMut::new(),
        })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Bytes> {
        let what = format!("{method} {path}");
        let (status, body) = self.begin(method, path, body).await?;
        let bytes = body.collect().await.context("the answer broke off")?;
        let bytes = bytes.to_bytes();
        if !status.is_success() {
            bail!("{what}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    async fn begin(
        &mut self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(StatusCode, Incoming)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("accept", "application/json");
        let mut bytes = Bytes::new();
        if let Some((media_type, value)) = body {
            request = request.header("content-type", media_type);
            bytes = value.to_string().into();
        }
        let request = request.body(Full::new(bytes)).context("a bad request")?;
        self.sender.ready().await.context("the connection closed")?;
        let response = self.sender.send_request(request).await;
        let (head, body) = response
            .with_context(|| format!("{path}: no answer"))?
            .into_parts();
        Ok((head.status, body))
    }
}

impl Watch {
    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line = self.pending.split_to(end + 1);
                return serde_json::from_slice(&line).context("a watch line is no JSON");
            }
            let frame = self.body.frame().await.context("the watch ended")?;
            if let Ok(data) = frame.context("the watch broke off")?.into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }
}
