//! Spans for collectors that speak `OpenTelemetry`'s protocol over HTTP, as JSON (OTLP/HTTP 1.x). Off unless an endpoint
//! is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bindery_apiserver::System;
use bindery_engine::balancing::TRACE_TARGET;
use http::Uri;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::surroundings;

/// Spans that wait to be sent, of 500 bytes or so each. Further ones are dropped and counted.
const WAITING_MAX: usize = 2048;
/// Spans in one message.
const BATCH_MAX: usize = 256;
/// How long the first span of a message waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How long a collector may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The port where none is given.
const PORT: u16 = 4318;

/// What makes spans into messages.
pub(crate) struct OtlpLayer {
    sender: Sender<Value>,
    dropped: Arc<AtomicU64>,
}

/// What sends them.
pub(crate) struct OtlpExport {
    host: String,
    port: u16,
    path: String,
    receiver: Receiver<Value>,
    dropped: Arc<AtomicU64>,
}

/// A span that has not ended.
struct OpenSpan {
    trace: String,
    id: String,
    parent: Option<String>,
    /// Spans of other traces that it is about, too.
    links: Vec<Value>,
    start: Duration,
    fields: Fields,
}

/// What is known of a span.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    attributes: Vec<Value>,
    has_failed: bool,
}

/// The layer and the exporter for a collector.
///
/// # Errors
/// If the endpoint is none that can be spoken to, why.
pub(crate) fn open(endpoint: &str) -> Result<(OtlpLayer, OtlpExport)> {
    let uri: Uri = endpoint
        .parse()
        .with_context(|| format!("--otlp-endpoint {endpoint} is no URL"))?;
    let host = uri.host().unwrap_or_default().to_owned();
    if uri.scheme_str() != Some("http") || host.is_empty() {
        bail!(
            "--otlp-endpoint {endpoint} is not of the form http://HOST:{PORT}; let a collector beside Bindery \
             speak TLS to others"
        );
    }
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let dropped = Arc::<AtomicU64>::default();
    let layer = OtlpLayer {
        sender,
        dropped: Arc::clone(&dropped),
    };
    let export = OtlpExport {
        port: uri.port_u16().unwrap_or(PORT),
        path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
        host,
        receiver,
        dropped,
    };
    Ok((layer, export))
}

/// Lets the spans through that are exported, and nothing else.
pub(crate) fn filter() -> FilterFn<fn(&Metadata<'_>) -> bool> {
    FilterFn::new(|metadata| metadata.is_span() && metadata.target() == TRACE_TARGET)
}

/// A number of random digits, two for each byte.
fn random(bytes: usize) -> String {
    let drawn = System::secret().into_iter().take(bytes);
    let texts: Vec<String> = drawn.map(|byte| format!("{byte:02x}")).collect();
    texts.concat()
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for OtlpLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let above = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            let open: &OpenSpan = extensions.get()?;
            Some((open.trace.clone(), open.id.clone()))
        });
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let (trace, parent) = above.unzip();
        span.extensions_mut().insert(OpenSpan {
            trace: trace.unwrap_or_else(|| random(16)),
            id: random(8),
            parent,
            links: Vec::new(),
            start: surroundings::since_1970(),
            fields,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let (Some(span), Some(other)) = (context.span(id), context.span(follows)) else {
            return;
        };
        let link = other.extensions().get().map(
            |open: &OpenSpan| json!({"traceId": open.trace.clone(), "spanId": open.id.clone()}),
        );
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            open.links.extend(link);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else {
            return;
        };
        let ended = open.end(span.name());
        if self.sender.try_send(ended).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl OpenSpan {
    fn end(self, name: &str) -> Value {
        let nanos = |time: Duration| time.as_nanos().to_string();
        let code = if self.fields.has_failed { 2 } else { 1 };
        json!({
            "traceId": self.trace,
            "spanId": self.id,
            "parentSpanId": self.parent.unwrap_or_default(),
            "name": self.fields.name.as_deref().unwrap_or(name),
            "kind": 1,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(surroundings::since_1970()),
            "attributes": self.fields.attributes,
            "links": self.links,
            "status": {"code": code},
        })
    }
}

impl Fields {
    fn push(&mut self, field: &Field, value: &Value) {
        let key = field.name();
        self.attributes.push(json!({"key": key, "value": value}));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => self.name = Some(value.to_owned()),
            name => {
                self.has_failed |= name == "status" && value != "success";
                self.push(field, &json!({"stringValue": value}));
            }
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, &json!({"intValue": value.to_string()}));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, &json!({"doubleValue": value}));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.push(field, &json!({"stringValue": format!("{value:?}")}));
    }
}

impl OtlpExport {
    /// Sends spans until `stop`, and then those that wait. What a collector does not take is dropped, and that is
    /// said once until it takes something again.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut is_told = false;
        let mut is_ending = false;
        while !is_ending {
            let mut batch = Vec::new();
            let first = tokio::select! {
                biased;
                span = self.receiver.recv() => span,
                () = stop.cancelled() => None,
            };
            is_ending = first.is_none();
            batch.extend(first);
            let gather = async {
                while batch.len() < BATCH_MAX
                    && let Some(span) = self.receiver.recv().await
                {
                    batch.push(span);
                }
            };
            let wait = if stop.is_cancelled() {
                Duration::ZERO
            } else {
                BATCH_WAIT
            };
            // Whether it is full or the time has come does not matter.
            let _ = tokio::time::timeout(wait, gather).await;
            if batch.is_empty() {
                continue;
            }
            let len = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            match tokio::time::timeout(ANSWER_MAX, self.send(batch)).await {
                Ok(Ok(())) => is_told = false,
                failed => {
                    let dropped = self.dropped.fetch_add(len, Ordering::Relaxed) + len;
                    if !std::mem::replace(&mut is_told, true) {
                        let error = match failed {
                            Ok(Err(error)) => format!("{error:#}"),
                            Ok(Ok(())) | Err(_) => "no answer".to_owned(),
                        };
                        tracing::warn!(error, dropped, "the collector does not take spans");
                    }
                }
            }
        }
    }

    async fn send(&self, spans: Vec<Value>) -> Result<()> {
        let name = json!({"key": "service.name", "value": {"stringValue": "bindery"}});
        let version = env!("CARGO_PKG_VERSION");
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": [name]},
            "scopeSpans": [{"scope": {"name": "bindery", "version": version}, "spans": spans}],
        }]});
        let body = body.to_string();
        let host = self.host.trim_matches(['[', ']']);
        let mut socket = TcpStream::connect((host, self.port)).await?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            self.path,
            self.host,
            self.port,
            body.len()
        );
        socket.write_all(head.as_bytes()).await?;
        socket.write_all(body.as_bytes()).await?;
        // "HTTP/1.1 200"
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        if !answer.contains(" 2") {
            bail!("it answers {answer}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
