//! From an HTTP request to its answer.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use tower::Service;

use super::body::ApiBody;
use super::failure::Failure;
use super::present::{View, row_object};
use super::request::{Form, Part, Query, Target, segments};
use super::{Core, EmbeddedApi, tally};

/// How long a client may take to send a body; 3 MiB at a modem's speed would be longer.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes a request body may have, as in the real server.
const BODY_BYTES_MAX: usize = 3 << 20;

/// The API as a tower service; `kube::Client` and the HTTP server call the same one.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
}

/// One call: what is meant, how, and with which body.
pub(crate) struct Call {
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
}

impl Call {
    /// How the caller wants to see objects.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            kind: &self.target.kind,
            form: self.form,
            row_object: row_object(&self.query),
            now: self.now,
        }
    }
}

/// An answer before it becomes an HTTP response.
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) body: ApiBody,
    pub(crate) warnings: Vec<String>,
    pub(crate) content_type: &'static str,
}

impl Reply {
    pub(crate) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Self {
        Self::new(code, ApiBody::full(bytes))
    }

    pub(crate) fn new(code: StatusCode, body: ApiBody) -> Self {
        Self {
            code,
            body,
            warnings: Vec::new(),
            content_type: "application/json",
        }
    }

    /// The same for human readers; a watch stays as it is.
    fn indented(mut self) -> Self {
        self.body = self.body.map(|bytes| {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
            parsed
                .and_then(|value| serde_json::to_vec_pretty(&value))
                .map_or(bytes, Bytes::from)
        });
        self
    }

    /// The same as YAML; a watch and what is no JSON stay as they are.
    fn in_yaml(mut self) -> Self {
        let mut content_type = self.content_type;
        self.body = self.body.map(|bytes| {
            let parsed: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
            let text = parsed.and_then(|value| serde_saphyr::to_string(&value).ok());
            text.map_or(bytes, |text| {
                content_type = "application/yaml";
                Bytes::from(text)
            })
        });
        self.content_type = content_type;
        self
    }

    pub(crate) fn ok(value: &serde_json::Value) -> Self {
        Self::json(StatusCode::OK, value.to_string())
    }
}

impl EmbeddedApi {
    /// The API as a service, without a socket.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService {
            core: Arc::clone(&self.core),
        }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ApiBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        Box::pin(async move { Ok(answer(&core, request).await) })
    }
}

async fn answer<B>(core: &Arc<Core>, request: Request<B>) -> Response<ApiBody>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
{
    let (parts, body) = request.into_parts();
    let mut verb = tally::verb_of(&parts.method);
    let response = answer_whole(core, (parts, body), &mut verb).await;
    core.tally.count(verb, response.status());
    response
}

async fn answer_whole<B>(
    core: &Arc<Core>,
    (parts, body): (Parts, B),
    verb: &mut &'static str,
) -> Response<ApiBody>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
{
    let reading = Limited::new(body, BODY_BYTES_MAX).collect();
    let body = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return refused(&unread(&*error)),
        Err(_) => {
            let message = "the body of the request did not arrive in time";
            return refused(&Failure::new(
                StatusCode::REQUEST_TIMEOUT,
                "Timeout",
                message,
            ));
        }
    };
    let pretty = Query::parse(parts.uri.query()).is_true("pretty");
    let yaml = Form::is_yaml(&parts.headers);
    match dispatch(core, (parts, body), verb).await {
        Ok(reply) if yaml => accepted(reply.in_yaml()),
        Ok(reply) if pretty => accepted(reply.indented()),
        Ok(reply) => accepted(reply),
        Err(failure) => refused(&failure),
    }
}

/// Answers a request, and says in `verb` what it turned out to be.
async fn dispatch(
    core: &Arc<Core>,
    (parts, body): (Parts, Bytes),
    verb: &mut &'static str,
) -> Result<Reply, Failure> {
    let path = parts.uri.path().to_owned();
    let segments = segments(&path);
    let kinds = core.registry.current(&core.store);
    if let Some(reply) = unready(core, &segments) {
        return Ok(reply);
    }
    if let Some(reply) = super::discovery::answer(&kinds, &segments, &parts, &body)? {
        return Ok(reply);
    }
    let target = Target::find(&kinds, &segments)?;
    let mut query = Query::parse(parts.uri.query());
    if target.is_old_watch(&segments) {
        query.set("watch", "true");
    }
    *verb = tally::verb(&parts.method, &target, &query);
    let form = Form::accepted(&parts.headers)?;
    let now = core.environment.now();
    let call = Call {
        target,
        query,
        form,
        parts,
        body,
        now,
    };
    let deprecated = call.target.kind.deprecated.clone();
    let mut reply = serve(core, &call).await?;
    reply.warnings.extend(deprecated);
    Ok(reply)
}

/// What `/readyz` says while nothing can be written.
fn unready(core: &Core, segments: &[Cow<'_, str>]) -> Option<Reply> {
    let asked = segments.first().is_some_and(|first| first == "readyz");
    let refused = core.store.refused().filter(|_| asked)?;
    let text = format!(
        "[-]storage failed: {}\nreadyz check failed\n",
        refused.message
    );
    let mut reply = Reply::json(StatusCode::INTERNAL_SERVER_ERROR, text);
    reply.content_type = "text/plain; charset=utf-8";
    Some(reply)
}

async fn serve(core: &Arc<Core>, call: &Call) -> Result<Reply, Failure> {
    let named = call.target.name.is_some();
    let method = call.parts.method.clone();
    match (method, named, call.target.part) {
        (Method::GET, _, Part::Whole) if call.query.is_true("watch") => core.watch(call),
        (Method::GET, false, Part::Whole) => core.list(call),
        (Method::GET, true, Part::Scale) => core.get_scale(call),
        (Method::GET, true, _) => core.get(call),
        (Method::POST, false, Part::Whole) => core.create(call).await,
        (Method::PUT, true, _) => core.replace(call).await,
        (Method::PATCH, true, _) => core.patch(call).await,
        (Method::DELETE, true, Part::Whole) => core.delete(call).await,
        (Method::DELETE, false, Part::Whole)
            if call.target.is_scattered() || &*call.target.kind.resource == "namespaces" =>
        {
            Err(Failure::method_not_allowed())
        }
        (Method::DELETE, false, Part::Whole) => core.delete_collection(call).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

fn unread(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Failure {
    if error.is::<LengthLimitError>() {
        let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
        return Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        );
    }
    Failure::bad_request(format!("cannot read the body: {error}"))
}

fn accepted(reply: Reply) -> Response<ApiBody> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = reply.code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(reply.content_type),
    );
    for warning in reply.warnings {
        let text = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

/// A failure as an HTTP response.
pub(crate) fn refused(failure: &Failure) -> Response<ApiBody> {
    let mut reply = Reply::ok(&failure.to_status());
    reply.code = failure.code;
    accepted(reply)
}
