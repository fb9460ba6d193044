//! Response bodies: a finished document or the lines of a watch.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// The body of an answer of the embedded API.
pub struct ApiBody(Content);

enum Content {
    Done(Option<Bytes>),
    Lines(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ApiBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Content::Done((!bytes.is_empty()).then_some(bytes)))
    }

    /// Rewrites a finished document.
    pub(crate) fn map(self, change: impl FnOnce(Bytes) -> Bytes) -> Self {
        match self.0 {
            Content::Done(Some(bytes)) => Self::full(change(bytes)),
            other @ (Content::Done(None) | Content::Lines(_)) => Self(other),
        }
    }

    /// The same, but a watch ends when `stop` is called.
    pub(crate) fn until(self, stop: CancellationToken) -> Self {
        match self.0 {
            Content::Lines(lines) => Self::lines(lines.take_until(stop.cancelled_owned())),
            done @ Content::Done(_) => Self(done),
        }
    }

    pub(crate) fn lines(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Content::Lines(Box::pin(stream)))
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Done(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Lines(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Done(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Done(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Lines(_) => SizeHint::default(),
        }
    }
}
