//! Ctrl-C and SIGTERM: the first asks to stop, the second does not wait.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What a shell reports for a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// The signals that end Bindery.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on the signals are ours to answer.
    pub(crate) fn take() -> Result<Self> {
        let take = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
        })
    }

    /// Cancels `stop` at the first signal; ends the process at the second.
    pub(crate) async fn watch(mut self, stop: CancellationToken, farewell: impl Fn() + Send) {
        self.next().await;
        stop.cancel();
        self.next().await;
        farewell();
        std::process::exit(INTERRUPTED);
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
