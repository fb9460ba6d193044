//! `named` as a child process that is started again when it ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bindery_core::zones::{SigningAnswer, SigningPolicy};
use bindery_core::{Fault, Name, Record};
use bindery_engine::ports::ZoneHost;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{Host, Named, Options, StartError};

/// How long to wait before `named` is started again; doubled up to the maximum when it ends soon.
const RESTART_MIN: Duration = Duration::from_millis(200);
const RESTART_MAX: Duration = Duration::from_secs(10);

/// A `named` that is started again whenever it ends by itself, at the same address.
pub struct NamedSupervisor {
    named: Named,
    options: Options,
    host: SupervisedHost,
}

impl NamedSupervisor {
    /// Starts `named` and waits until it answers. It is started again once [`Self::run`] runs.
    ///
    /// # Errors
    /// If it cannot be started or does not answer, with what it said.
    ///
    /// # Cancellation
    /// If dropped, the process is killed.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let named = Named::start(options.clone()).await?;
        let host = SupervisedHost(Arc::new(Mutex::new(named.host())));
        // Clients know the port that was chosen now, so the next process must have it too.
        let address = named.address();
        let options = Options { address, ..options };
        Ok(Self {
            named,
            options,
            host,
        })
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.options.address
    }

    /// What makes and removes the zones of the process that runs at the time of the call.
    #[must_use]
    pub fn host(&self) -> SupervisedHost {
        self.host.clone()
    }

    /// Starts `named` again whenever it ends by itself; ends it gently on `stop`.
    ///
    /// # Cancellation
    /// If dropped, the process is killed.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            mut named,
            options,
            host,
        } = self;
        let mut pause = RESTART_MIN;
        loop {
            let started = Instant::now();
            tokio::select! {
                biased;
                () = stop.cancelled() => return named.stop().await,
                message = named.died() => tracing::error!(error = %message, "named ended; it is started again"),
            }
            if started.elapsed() > RESTART_MAX {
                pause = RESTART_MIN;
            }
            named = loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = sleep(pause) => {}
                }
                pause = (pause * 2).min(RESTART_MAX);
                match Named::start(options.clone()).await {
                    Ok(named) => break named,
                    Err(error) => {
                        tracing::error!(%error, "named does not start; it is tried again");
                    }
                }
            };
            *host.0.lock().unwrap_or_else(PoisonError::into_inner) = named.host();
        }
    }
}

/// Makes and removes the zones of whichever `named` runs now. Clones reach the same one.
#[derive(Clone)]
pub struct SupervisedHost(Arc<Mutex<Host>>);

impl SupervisedHost {
    fn now(&self) -> Host {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ZoneHost for SupervisedHost {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.create(zone, records).await })
    }

    fn mend<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        let host = self.now();
        Box::pin(async move { host.mend(zone).await })
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.refresh(zone).await })
    }

    fn sign<'a>(
        &'a self,
        zone: &'a Name,
        policy: &'a SigningPolicy,
    ) -> BoxFuture<'a, Result<SigningAnswer, Fault>> {
        let host = self.now();
        Box::pin(async move { host.sign(zone, policy).await })
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.delete(zone).await })
    }
}
