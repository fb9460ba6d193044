//! The supervisor that owns every task of the process.

use std::{collections::BTreeMap, future::Future, time::Duration};

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long tasks may take to finish after they were told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Owns tasks; the first that ends without having been told to ends all of them.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: JoinSet<()>,
    names: BTreeMap<Id, &'static str>,
    stop: CancellationToken,
}

/// Why everything stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// This task ended by itself, which is a bug of ours or a fault it could not live with.
    Fell(&'static str),
}

impl Supervisor {
    /// A supervisor whose tasks stop when `stop` is cancelled.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            tasks: JoinSet::new(),
            names: BTreeMap::new(),
            stop,
        }
    }

    /// The token that tells the tasks to stop.
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Runs until told to stop or until a task falls; then stops all and waits for them, for a
    /// while.
    pub async fn run(mut self) -> Ended {
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ended::Stopped,
            Some(result) = self.tasks.join_next_with_id() => {
                let id = match &result {
                    Ok((id, ())) => *id,
                    Err(error) => error.id(),
                };
                let name = self.names.get(&id).copied().unwrap_or("unknown");
                if self.stop.is_cancelled() { Ended::Stopped } else { Ended::Fell(name) }
            }
        };
        self.stop.cancel();
        let drained = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
            tracing::warn!("some tasks did not stop in time and are cut off");
            self.tasks.shutdown().await;
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_to_fall_ends_the_others() {
        let mut supervisor = Supervisor::default();
        let stop = supervisor.stop_token();
        supervisor.spawn("patient", async move { stop.cancelled().await });
        supervisor.spawn("brief", async {});
        assert_eq!(supervisor.run().await, Ended::Fell("brief"));
    }

    #[tokio::test]
    async fn stopping_is_not_a_fall() {
        let mut supervisor = Supervisor::default();
        let stop = supervisor.stop_token();
        let told = stop.clone();
        supervisor.spawn("patient", async move { told.cancelled().await });
        stop.cancel();
        assert_eq!(supervisor.run().await, Ended::Stopped);
    }
}
