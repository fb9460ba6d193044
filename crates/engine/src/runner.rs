//! The loop that runs a machine: carries out its steps, some at a time, and wakes it when it asks.

use std::collections::BTreeSet;

use tokio::{
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::machine::{Driver, Machine};

/// Steps carried out at the same time, over all keys. Each holds at most one message of 64 KiB, so this
/// bounds memory at 16 MiB and keeps a slow server from being flooded.
const STEPS_MAX: usize = 256;

/// What runs one machine.
///
/// Guarantees: no more than a bounded number of steps that count are on their way; a key with work is
/// asked until it has no step, and again after each step that ends; when it is stopped, what is on its way
/// is finished and taken in, and nothing new is begun.
pub struct Runner<M: Machine, D: Driver<M>> {
    machine: M,
    driver: D,
    started: Instant,
    ready: BTreeSet<M::Key>,
    running: JoinSet<EndedStep<M, D>>,
    steps_max: usize,
}

/// A step that was carried out.
struct EndedStep<M: Machine, D: Driver<M>> {
    key: M::Key,
    completion: M::Completion,
    ticket: D::Ticket,
}

impl<M: Machine, D: Driver<M>> Runner<M, D> {
    /// A runner whose machine counts time from `started`.
    pub fn new(machine: M, driver: D, started: Instant) -> Self {
        Self {
            machine,
            driver,
            started,
            ready: BTreeSet::new(),
            running: JoinSet::new(),
            steps_max: STEPS_MAX,
        }
    }

    /// Runs until `stop` is cancelled and no step is on its way.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            self.start_steps();
            self.driver.tell(self.machine.take_news());
            let wake = self.machine.next_wake().map(|at| self.started + at);
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.running.join_next() => self.complete(ended),
                input = self.driver.next_input(&self.machine) => {
                    self.driver.take(&mut self.machine, input, self.started.elapsed());
                }
                () = sleep => self.machine.wake(self.started.elapsed()),
            }
        }
        // What is on its way is finished; nothing new is begun.
        while let Some(ended) = self.running.join_next().await {
            self.complete(ended);
        }
        self.driver.tell(self.machine.take_news());
    }

    fn start_steps(&mut self) {
        let now = self.started.elapsed();
        self.ready.extend(self.machine.take_work());
        while self.running.len() - self.driver.abandoned() < self.steps_max
            && let Some(key) = self.ready.pop_first()
        {
            while let Some(step) = self.machine.next_step(&key, now) {
                self.start_step(&key, step);
            }
        }
        self.ready.extend(self.machine.take_work());
    }

    fn start_step(&mut self, key: &M::Key, step: M::Step) {
        let Some((ticket, work)) = self.driver.begin(&self.machine, key, step) else {
            return;
        };
        let key = key.clone();
        // A task of its own: a message leaves while the next one is made up.
        self.running.spawn(async move {
            let completion = work.await;
            EndedStep {
                key,
                completion,
                ticket,
            }
        });
    }

    fn complete(&mut self, ended: Result<EndedStep<M, D>, JoinError>) {
        let EndedStep {
            key,
            completion,
            ticket,
        } = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this task with it.
            Err(_) => return,
        };
        if !self
            .driver
            .counts(&self.machine, (&key, &completion), ticket)
        {
            return;
        }
        let now = self.started.elapsed();
        self.machine.complete(&key, completion, now);
        self.driver.completed(&self.machine, &key);
    }
}

#[cfg(test)]
mod tests;
