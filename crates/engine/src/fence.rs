//! Whether this process may write: it may while it holds the Lease, by a clock that counts on while the
//! process or the machine sleeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bindery_core::{
    Change, Fault, FaultKind, Name, Record, RecordKey, Serial,
    delta::{Delta, Difference},
    zones::{ReadBack, SigningAnswer, SigningPolicy, ZoneContent},
};
use futures::future::BoxFuture;

use crate::{
    ports::{NameServer, ZoneHost},
    servers::{ServerHandle, Servers},
};

/// Time since some moment in the past, also while the process is stopped or the machine sleeps.
pub type Uptime = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What every write of this process passes. Clones are the same fence.
///
/// Guarantees: what asks it right before it writes, writes nothing after the time until which it is open.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<FenceState>>);

struct FenceState {
    uptime: Uptime,
    /// Nanoseconds of uptime at which it closes; 584 years fit.
    until: AtomicU64,
}

impl Fence {
    /// The fence of a process that is the only one, always open.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// A closed one.
    #[must_use]
    pub fn closed(uptime: Uptime) -> Self {
        let until = AtomicU64::new(0);
        Self(Some(Arc::new(FenceState { uptime, until })))
    }

    /// Whether there are others, so that it closes at times.
    #[must_use]
    pub fn has_rivals(&self) -> bool {
        self.0.is_some()
    }

    /// Opens it until this time, or closes it, where that has passed.
    pub fn open_until(&self, until: Duration) {
        if let Some(state) = &self.0 {
            let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
            state.until.store(until, Ordering::SeqCst);
        }
    }

    /// Closes it.
    pub fn close(&self) {
        self.open_until(Duration::ZERO);
    }

    /// Whether something may be written now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let Some(state) = &self.0 else {
            return true;
        };
        let now = (state.uptime)().as_nanos();
        now < u128::from(state.until.load(Ordering::SeqCst))
    }

    /// The same as an answer to those who write to a name server.
    ///
    /// # Errors
    /// Where nothing may be written.
    pub fn check(&self) -> Result<(), Fault> {
        if self.is_open() {
            return Ok(());
        }
        let message = "this replica does not hold the lease, so it wrote nothing";
        Err(Fault::new(FaultKind::Unreachable, message))
    }

    /// The same servers, behind this fence.
    pub(crate) fn before(&self, servers: Servers) -> Servers {
        if self.0.is_none() {
            return servers;
        }
        let fenced = servers.iter().map(|one| ServerHandle {
            info: one.info.clone(),
            server: Arc::new(FencedServer {
                server: Arc::clone(&one.server),
                fence: self.clone(),
            }),
            host: one.host.as_ref().map(|host| {
                let (host, fence) = (Arc::clone(host), self.clone());
                Arc::new(FencedHost { host, fence }) as Arc<dyn ZoneHost>
            }),
        });
        fenced.collect()
    }
}

/// A name server behind the fence: it is asked freely.
struct FencedServer {
    server: Arc<dyn NameServer>,
    fence: Fence,
}

impl NameServer for FencedServer {
    fn transfer<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneContent, Fault>> {
        self.server.transfer(zone)
    }

    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>> {
        self.server.changes_since(zone, serial)
    }

    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.server.mirror(zone, from, steps).await
        })
    }

    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>> {
        self.server.soa(zone)
    }

    fn serial<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Serial, Fault>> {
        self.server.serial(zone)
    }

    fn update<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.server.update(zone, changes).await
        })
    }

    fn read<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<ReadBack, Fault>> {
        self.server.read(zone, keys)
    }
}

/// Who creates and deletes zones, behind the fence.
struct FencedHost {
    host: Arc<dyn ZoneHost>,
    fence: Fence,
}

impl ZoneHost for FencedHost {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.host.create(zone, records).await
        })
    }

    fn mend<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.host.mend(zone).await
        })
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        self.host.refresh(zone)
    }

    fn sign<'a>(
        &'a self,
        zone: &'a Name,
        policy: &'a SigningPolicy,
    ) -> BoxFuture<'a, Result<SigningAnswer, Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.host.sign(zone, policy).await
        })
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.fence.check()?;
            self.host.delete(zone).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_fence_closes_by_itself_and_stays_closed() {
        let time = Arc::new(Mutex::new(Duration::from_secs(5)));
        let read = Arc::clone(&time);
        let fence = Fence::closed(Arc::new(move || *read.lock().expect("nobody panics")));
        let set = |seconds| *time.lock().expect("nobody panics") = Duration::from_secs(seconds);
        assert!(!fence.is_open(), "nobody opened it yet");
        fence.open_until(Duration::from_secs(8));
        assert!(fence.clone().is_open() && fence.check().is_ok());
        set(8);
        assert!(!fence.is_open() && fence.check().is_err());
        set(900);
        assert!(!fence.is_open());
        fence.open_until(Duration::from_secs(904));
        assert!(fence.is_open());
        fence.close();
        assert!(!fence.is_open());
        assert!(Fence::none().is_open());
    }
}
