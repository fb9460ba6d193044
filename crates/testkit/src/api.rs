//! The embedded API seen through a bad connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bindery_apiserver::{ApiBody, ApiService};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use tower::Service;

use crate::{
    nameserver::{Fate, Operation},
    weather::Weather,
};

/// The API with faults in front.
#[derive(Clone)]
pub struct FaultyApi {
    inner: ApiService,
    weather: Arc<Weather>,
}

impl FaultyApi {
    /// Faults from `weather` in front of an API.
    #[must_use]
    pub fn new(inner: ApiService, weather: Arc<Weather>) -> Self {
        Self { inner, weather }
    }
}

impl Service<Request<kube::client::Body>> for FaultyApi {
    type Response = Response<CutBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let Self { mut inner, weather } = self.clone();
        Box::pin(async move {
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let operation = match *request.method() {
                Method::GET => Operation::Read,
                _ => Operation::Write,
            };
            let what = format!("api {} {}", request.method(), request.uri().path());
            let (fate, delay) = weather.decide(operation, &what);
            tokio::time::sleep(delay).await;
            if matches!(fate, Fate::Unreachable | Fate::LostRequest) {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "connection reset",
                ));
            }
            if fate == Fate::Silence {
                return std::future::pending().await;
            }
            let request = if operation == Operation::Write && weather.keeps_words() {
                explain(&weather, request).await?
            } else {
                request
            };
            let response = match inner.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            match fate {
                Fate::LostAnswer => Err(io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "connection reset",
                )),
                Fate::Crash => {
                    weather.crash();
                    std::future::pending().await
                }
                Fate::Pass | Fate::Unreachable | Fate::LostRequest | Fate::Silence => {
                    let left = if is_watch { weather.cut() } else { None };
                    Ok(response.map(|inner| CutBody { inner, left }))
                }
            }
        })
    }
}

/// Keeps what a request says for whoever reads the words.
async fn explain(
    weather: &Weather,
    request: Request<kube::client::Body>,
) -> Result<Request<kube::client::Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await.map_err(io::Error::other)?;
    weather.explain(&String::from_utf8_lossy(&body));
    Ok(Request::from_parts(head, body.to_vec().into()))
}

/// A body that may end early, as a watch does when its connection drops.
pub struct CutBody {
    inner: ApiBody,
    left: Option<usize>,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut self.inner).poll_frame(context);
        if frame.is_ready()
            && let Some(left) = &mut self.left
        {
            *left -= 1;
        }
        frame
    }
}
