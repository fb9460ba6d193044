//! Whose turn it is on a connection: ours while a request is answered or a watch waits for news, the
//! client's while it has asked nothing, still sends, or does not read.
//!
//! A connection on which it is the client's turn for too long is closed, and when all places are taken,
//! the one on which it has been longest. So nobody is locked out by connections that do nothing.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long it may be the client's turn.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until it has sent the headers of its first request.
    pub first: Duration,
    /// Later, and until it goes on reading.
    pub later: Duration,
}

/// The turns of one connection.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    patience: Patience,
    /// Called when the place of this connection is wanted.
    pub(crate) give_way: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Requests on which it is our turn.
    ours: usize,
    /// When that number changed, or the client last took something that we sent.
    since: Instant,
    has_asked: bool,
}

/// Whose turn it is on one request.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    is_ours: AtomicBool,
}

/// The body of a request: while it does not come, it is the client's turn.
pub struct Heard<B> {
    body: B,
    turn: Arc<Turn>,
}

/// The body of an answer: while nobody takes more of it, it is the client's turn.
pub struct Told<B> {
    body: B,
    turn: Arc<Turn>,
}

/// A socket that notes when the client took something.
pub(crate) struct NotedSocket<S> {
    socket: S,
    turns: Arc<Turns>,
}

impl Turns {
    pub(crate) fn new(patience: Patience) -> Arc<Self> {
        let state = State {
            ours: 0,
            since: Instant::now(),
            has_asked: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            patience,
            give_way: CancellationToken::new(),
        })
    }

    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Turn> {
        self.state().has_asked = true;
        let turn = Turn {
            turns: Arc::clone(self),
            is_ours: AtomicBool::new(false),
        };
        turn.take();
        Arc::new(turn)
    }

    /// Since when it has been the client's turn; `None` where it is ours.
    pub(crate) fn quiet_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.ours == 0).then_some(state.since)
    }

    /// Ends when it has been the client's turn for too long, or its place is wanted.
    pub(crate) async fn overdue(&self) {
        loop {
            let due = self.due();
            if due <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.give_way.cancelled() => return,
                () = sleep_until(due) => {}
            }
        }
    }

    fn due(&self) -> Instant {
        let state = self.state();
        if state.ours > 0 {
            return Instant::now() + self.patience.later;
        }
        let patience = if state.has_asked {
            self.patience.later
        } else {
            self.patience.first
        };
        state.since + patience
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    fn take(&self) {
        if !self.is_ours.swap(true, Ordering::Relaxed) {
            let mut state = self.turns.state();
            state.ours += 1;
            state.since = Instant::now();
        }
    }

    fn pass(&self) {
        if self.is_ours.swap(false, Ordering::Relaxed) {
            let mut state = self.turns.state();
            state.ours = state.ours.saturating_sub(1);
            state.since = Instant::now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.pass();
    }
}

impl<B> Heard<B> {
    pub(crate) fn new(body: B, turn: Arc<Turn>) -> Self {
        Self { body, turn }
    }
}

impl<B> Told<B> {
    pub(crate) fn new(body: B, turn: Arc<Turn>) -> Self {
        Self { body, turn }
    }
}

impl<S> NotedSocket<S> {
    pub(crate) fn new(socket: S, turns: Arc<Turns>) -> Self {
        Self { socket, turns }
    }

    fn note(&self, taken: &Poll<io::Result<usize>>) {
        if matches!(taken, Poll::Ready(Ok(1..))) {
            self.turns.state().since = Instant::now();
        }
    }
}

impl<B: Body + Unpin> Body for Heard<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Pending => self.turn.pass(),
            Poll::Ready(_) => self.turn.take(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body + Unpin> Body for Told<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.turn.take();
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.turn.pass();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NotedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NotedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(&taken);
        taken
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.note(&taken);
        taken
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
