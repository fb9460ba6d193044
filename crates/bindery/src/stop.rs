//! Ctrl-C and SIGTERM: the first asks to stop, the second does not wait.

use std::convert::Infallible;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What a shell reports for a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// The signals that end Bindery.
pub(crate) struct Signals(Mutex<(Signal, Signal)>);

impl Signals {
    /// From here on the signals are ours to answer.
    pub(crate) fn take() -> Result<Self> {
        let take = |kind| signal(kind).context("cannot listen for signals");
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self(Mutex::new((take(interrupt)?, take(terminate)?))))
    }

    /// Waits for a signal while nothing has to be drained yet.
    pub(crate) async fn hurry(&self) {
        self.next().await;
    }

    /// Cancels `stop` at the first signal; ends the process at the second.
    pub(crate) async fn watch(self, stop: CancellationToken) -> Infallible {
        self.next().await;
        stop.cancel();
        self.next().await;
        std::process::exit(INTERRUPTED);
    }

    async fn next(&self) {
        let mut signals = self.0.lock().await;
        let (interrupt, terminate) = &mut *signals;
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
