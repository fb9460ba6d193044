//! `named` as a child process that is started again when it ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bindery_core::{Fault, Name, Record};
use bindery_embedded::System;
use bindery_embedded::bind::{Host, Named, Options};
use bindery_engine::ports::ZoneHost;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{One, RunningOne, client, clock};

/// How long to wait before `named` is started again; doubled up to the maximum when it ends soon.
const RESTART_MIN: Duration = Duration::from_millis(200);
const RESTART_MAX: Duration = Duration::from_secs(10);

/// Starts `program` and waits until it answers.
pub(super) async fn start(program: PathBuf, wanted: One<'_>) -> Result<RunningOne> {
    let options = options(program, &wanted);
    let what = format!("BIND, {}", options.program.display());
    let again = copy(&options);
    let named = Named::start(options)
        .await
        .context("cannot start the name server")?;
    let address = named.address();
    let host = CurrentHost(Arc::new(Mutex::new(named.host())));
    let server = Arc::new(client(address, wanted.key));
    let again = Options { address, ..again };
    let task = keep_named(named, again, host.clone(), wanted.stop);
    Ok(RunningOne {
        address,
        what,
        server,
        host: Arc::new(host),
        task: Box::pin(task),
    })
}

/// Starts `named` again whenever it ends by itself, until `stop`.
async fn keep_named(
    mut named: Named,
    options: Options,
    host: CurrentHost,
    stop: CancellationToken,
) {
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
            match Named::start(copy(&options)).await {
                Ok(named) => break named,
                Err(error) => tracing::error!(%error, "named does not start; it is tried again"),
            }
        };
        *host.0.lock().unwrap_or_else(PoisonError::into_inner) = named.host();
    }
}

/// The zones of the `named` that runs now.
#[derive(Clone)]
struct CurrentHost(Arc<Mutex<Host>>);

impl CurrentHost {
    fn now(&self) -> Host {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ZoneHost for CurrentHost {
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

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        let host = self.now();
        Box::pin(async move { host.delete(zone).await })
    }
}

fn options(program: PathBuf, wanted: &One<'_>) -> Options {
    Options {
        program,
        folder: wanted.data.join(format!("named{}", wanted.suffix)),
        address: wanted.address,
        key: wanted.key.clone(),
        role: wanted.role.clone(),
        clock: clock(),
        random: Arc::new(System::secret),
    }
}

fn copy(options: &Options) -> Options {
    Options {
        program: options.program.clone(),
        folder: options.folder.clone(),
        address: options.address,
        key: options.key.clone(),
        role: options.role.clone(),
        clock: Arc::clone(&options.clock),
        random: Arc::clone(&options.random),
    }
}
