//! Holds the Lease by which one of several replicas leads.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::{Election, Leadership, LeaseAct, LeaseTiming, LeaseWrite, Moment, SeenLease};
use bindery_engine::Uptime;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Clock;
use crate::replica::Replica;

/// Seconds after which the server ends a watch, so that a connection that died is noticed.
const WATCH_SECONDS: u32 = 290;

/// Which Lease it is, and who this replica is.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Where the Lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who this replica is; no other, and no earlier process of its own, may have the same.
    pub identity: String,
    /// How long it holds.
    pub timing: LeaseTiming,
}

/// What a replica is, and who leads as far as it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// What it is.
    pub leadership: Leadership,
    /// Who holds the Lease.
    pub holder: Option<Arc<str>>,
    /// How often it began to lead, or led on after a lapse.
    pub gained: u64,
    /// How often it could not renew the Lease in time, or lost it.
    pub lost: u64,
    /// Whether the API does not let it look at the Lease, or write it.
    pub is_failing: bool,
    /// Whether somebody else has had the Lease since this replica led.
    pub is_taken: bool,
}

/// A request about the Lease that did not do what was asked.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("reading the lease failed")]
    Get {
        #[source]
        source: kube::Error,
    },
    #[error("watching the lease failed")]
    Watch {
        #[source]
        source: kube::Error,
    },
    #[error("writing the lease failed")]
    Write {
        #[source]
        source: kube::Error,
    },
    #[error("a request about the lease got no answer in time")]
    Await,
}

/// Takes, renews and releases the Lease, and opens and closes the fence by it.
pub struct LeaseHolder {
    api: Api<Lease>,
    settings: LeaseSettings,
    election: Election,
    replica: Replica,
    uptime: Uptime,
    clock: Arc<dyn Clock>,
    state: watch::Sender<LeaseState>,
    /// When it was taken, and as the how manieth.
    acquired: (i32, Moment),
}

impl LeaseHolder {
    /// One that has not looked at the Lease yet.
    #[must_use]
    pub fn new(
        client: Client,
        settings: LeaseSettings,
        replica: Replica,
        (uptime, clock): (Uptime, Arc<dyn Clock>),
    ) -> Self {
        let election = Election::new(&*settings.identity, settings.timing);
        Self {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            election,
            replica,
            uptime,
            clock,
            state: watch::Sender::new(LeaseState {
                leadership: Leadership::Standby,
                holder: None,
                gained: 0,
                lost: 0,
                is_failing: false,
                is_taken: false,
            }),
            acquired: (-1, Moment(0)),
        }
    }

    /// What the replica is, now and later.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.subscribe()
    }

    /// Takes part until `stop`, then releases the Lease. Once another replica has led, it does nothing more.
    ///
    /// Cancellation: the Lease is held until it runs out.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let done = match self.election.next((self.uptime)()) {
                LeaseAct::Read => self.read().await,
                LeaseAct::Write(write) => self.write(&write).await,
                LeaseAct::WaitUntil(until) => tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    done = self.wait(until) => done,
                },
                LeaseAct::Stop => {
                    stop.cancelled().await;
                    break;
                }
            };
            let failed = done.err();
            self.note_failing(failed.as_ref());
            self.publish();
            if failed.is_some() {
                self.election.doubt();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(self.settings.timing.period() / 4) => {}
                }
            }
        }
        self.release().await;
    }

    async fn read(&mut self) -> Result<(), LeaseError> {
        let name = &self.settings.name;
        let found = self.in_time(self.api.get_opt(name)).await?;
        let found = found.map_err(|source| LeaseError::Get { source })?;
        let now = (self.uptime)();
        self.election.see(found.as_ref().map(seen_lease), now);
        Ok(())
    }

    async fn write(&mut self, write: &LeaseWrite) -> Result<(), LeaseError> {
        let (sent, now) = ((self.uptime)(), self.clock.now());
        if self.acquired.0 != write.transitions {
            self.acquired = (write.transitions, now);
        }
        match self.send(write, now).await? {
            Some(lease) => self.election.wrote(sent, seen_lease(&lease)),
            None => self.election.doubt(),
        }
        Ok(())
    }

    /// Writes the Lease; `None` where something else stands there than was expected.
    async fn send(&self, write: &LeaseWrite, now: Moment) -> Result<Option<Lease>, LeaseError> {
        let (params, lease) = (PostParams::default(), self.body(write, now));
        let written = match write.version {
            Some(_) => {
                let name = &self.settings.name;
                self.in_time(self.api.replace(name, &params, &lease)).await
            }
            None => self.in_time(self.api.create(&params, &lease)).await,
        };
        match written? {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
            Err(source) => Err(LeaseError::Write { source }),
        }
    }

    /// Waits until this time; a replica that stands by is told when the Lease changes.
    async fn wait(&mut self, until: Duration) -> Result<(), LeaseError> {
        let now = (self.uptime)();
        match self.election.leadership(now) {
            Leadership::Standby => self.watch().await,
            Leadership::Leading | Leadership::Lapsed | Leadership::Lost => {
                tokio::time::sleep(until.saturating_sub(now)).await;
                Ok(())
            }
        }
    }

    /// Follows the Lease until there is something to do, or it cannot be followed.
    async fn watch(&mut self) -> Result<(), LeaseError> {
        let Some(version) = self.election.version().cloned() else {
            return Ok(());
        };
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={}", self.settings.name)),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let wrap = |source| LeaseError::Watch { source };
        let events = self.in_time(self.api.watch(&params, &version)).await?;
        let mut events = events.map_err(wrap)?.boxed();
        loop {
            let now = (self.uptime)();
            let LeaseAct::WaitUntil(until) = self.election.next(now) else {
                return Ok(());
            };
            let event = tokio::select! {
                biased;
                event = events.next() => event.transpose().map_err(wrap)?,
                () = tokio::time::sleep(until.saturating_sub(now)) => return Ok(()),
            };
            let seen = match event {
                Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => {
                    Some(seen_lease(&lease))
                }
                Some(WatchEvent::Deleted(_)) => None,
                Some(WatchEvent::Bookmark(_)) => continue,
                // What it was to begin with is gone, or the server ended it: it is looked at again.
                Some(WatchEvent::Error(_)) | None => {
                    self.election.doubt();
                    return Ok(());
                }
            };
            self.election.see(seen, (self.uptime)());
            self.publish();
        }
    }

    /// Opens or closes the fence, and tells what became of the election.
    fn publish(&mut self) {
        self.replica
            .fence
            .open_until(self.election.valid_until().unwrap_or_default());
        let is = self.election.leadership((self.uptime)());
        let holder = self.election.holder().cloned();
        let before = self.state.borrow().clone();
        self.state.send_if_modified(|state| {
            state.gained += u64::from(is == Leadership::Leading && before.leadership != is);
            let is_loss = matches!(is, Leadership::Lapsed | Leadership::Lost);
            state.lost += u64::from(is_loss && before.leadership == Leadership::Leading);
            state.leadership = is;
            state.is_taken = is == Leadership::Lost && self.election.is_taken();
            state.holder.clone_from(&holder);
            *state != before
        });
        self.tell(&before, is, holder.as_deref());
        if is == Leadership::Leading {
            self.replica.elected.cancel();
        }
    }

    fn tell(&self, before: &LeaseState, is: Leadership, holder: Option<&str>) {
        let lease = format!("{}/{}", self.settings.namespace, self.settings.name);
        let me = &*self.settings.identity;
        match (before.leadership, is) {
            (Leadership::Standby, Leadership::Leading) => {
                tracing::info!(lease, me, "this replica leads");
            }
            (Leadership::Lapsed, Leadership::Leading) => {
                tracing::info!(lease, me, "the lease is held again, and nobody else had it");
            }
            (Leadership::Leading, Leadership::Lapsed) => {
                tracing::warn!(
                    lease,
                    me,
                    "the lease was not renewed in time; nothing is written until it is"
                );
            }
            (Leadership::Standby, Leadership::Standby)
                if before.holder.as_deref() != holder && holder.is_some_and(|one| one != me) =>
            {
                tracing::info!(lease, me, holder, "this replica stands by");
            }
            // The last words of the process tell it.
            (_, _) => {}
        }
    }

    /// Tells once that the Lease cannot be looked at or written.
    fn note_failing(&self, error: Option<&LeaseError>) {
        let was_failing = self.state.borrow().is_failing;
        self.state
            .send_modify(|state| state.is_failing = error.is_some());
        if let Some(error) = error.filter(|_| !was_failing) {
            let cause = std::error::Error::source(error).map(tracing::field::display);
            tracing::warn!(%error, cause, "it is not known who leads; it is tried again");
        }
    }

    /// Releases the Lease, so that another replica leads at once.
    ///
    /// Cancellation: as in [`Self::run`].
    async fn release(mut self) {
        let Some(write) = self.election.release() else {
            return;
        };
        // First nothing is written any more.
        self.publish();
        match self.send(&write, self.clock.now()).await {
            Ok(Some(_)) => tracing::info!(me = self.settings.identity, "the lease is released"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the lease is left to run out"),
        }
    }

    fn body(&self, write: &LeaseWrite, now: Moment) -> Lease {
        let at = |moment: Moment| {
            let at = Timestamp::from_second(moment.0);
            Some(MicroTime(at.unwrap_or(Timestamp::UNIX_EPOCH)))
        };
        let seconds = self.settings.timing.duration().as_secs();
        Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                namespace: Some(self.settings.namespace.clone()),
                resource_version: write.version.as_deref().map(str::to_owned),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: write.holder.as_deref().map(str::to_owned),
                lease_duration_seconds: i32::try_from(seconds).ok(),
                lease_transitions: Some(write.transitions),
                acquire_time: at(self.acquired.1),
                renew_time: at(now),
                ..LeaseSpec::default()
            }),
        }
    }

    /// A request that hangs must leave time for another one.
    async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, LeaseError> {
        let patience = self.settings.timing.deadline() / 2;
        tokio::time::timeout(patience, request)
            .await
            .map_err(|_| LeaseError::Await)
    }
}

fn seen_lease(lease: &Lease) -> SeenLease {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let version = lease.metadata.resource_version.as_deref();
    SeenLease {
        holder: holder.filter(|holder| !holder.is_empty()).map(Into::into),
        duration: seconds.map(Duration::from_secs),
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or(0),
        version: version.unwrap_or_default().into(),
    }
}
