//! Whether this process is one of several, and what it is among them.

use std::sync::Arc;

use anyhow::{Result, bail};
use bindery_apiserver::System;
use bindery_core::{Leadership, LeaseTiming};
use bindery_engine::{Fence, Uptime};
use bindery_kube::{Clock, LeaseHolder, LeaseSettings, LeaseState, Replica};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cli::{ElectionFlags, LeaderElect};
use crate::surroundings;

/// This process's part in the election.
pub(crate) struct Part {
    /// What the controllers know of it.
    pub(crate) replica: Replica,
    /// Who takes, renews and releases the lease; `None` for a process without others.
    pub(crate) holder: Option<LeaseHolder>,
}

/// What can be told of the election. Clones are the same.
#[derive(Clone)]
pub(crate) struct ElectionReport {
    state: watch::Receiver<LeaseState>,
    fence: Fence,
    lease: Arc<str>,
}

impl Part {
    /// The part of a process without others.
    pub(crate) fn alone() -> Self {
        Self {
            replica: Replica::alone(),
            holder: None,
        }
    }

    /// The part that the flags give to this process; `in_pod` says whether it runs in a pod.
    pub(crate) fn of(
        flags: &ElectionFlags,
        client: &Client,
        clock: Arc<dyn Clock>,
        is_in_pod: bool,
    ) -> (Self, Option<ElectionReport>) {
        let is_on = match flags.leader_elect {
            LeaderElect::Auto => is_in_pod,
            LeaderElect::On => true,
            LeaderElect::Off => false,
        };
        if !is_on {
            return (Self::alone(), None);
        }
        let uptime: Uptime = Arc::new(surroundings::uptime);
        let fence = Fence::closed(Arc::clone(&uptime));
        let replica = Replica::standby(fence.clone());
        let settings = settings(flags, client.default_namespace());
        let lease = format!("{}/{}", settings.namespace, settings.name);
        let sources = (uptime, clock);
        let holder = LeaseHolder::new(client.clone(), settings, replica.clone(), sources);
        let report = ElectionReport {
            state: holder.state(),
            fence,
            lease: lease.into(),
        };
        let part = Self {
            replica,
            holder: Some(holder),
        };
        (part, Some(report))
    }
}

impl ElectionReport {
    /// What this process is.
    pub(crate) fn state(&self) -> LeaseState {
        self.state.borrow().clone()
    }

    /// Whether this process may write now.
    pub(crate) fn is_leading(&self) -> bool {
        self.fence.is_open()
    }

    /// What a process that stands by says of itself to those who ask whether it is ready.
    pub(crate) fn follower(&self) -> Option<String> {
        let state = self.state();
        let is_follower = state.leadership == Leadership::Standby;
        let holder = state.holder.as_deref().unwrap_or("nobody");
        is_follower.then(|| format!("follower; {holder} leads"))
    }

    /// What this process waits for.
    pub(crate) fn waiting(&self) -> Vec<Arc<str>> {
        let is_stuck = self.state.borrow().is_failing && !self.is_leading();
        let lease = is_stuck.then(|| format!("the lease {}", self.lease).into());
        lease.into_iter().collect()
    }

    /// Tells `stop` when another replica has led: what this process knows is of no use then.
    pub(crate) async fn watch_lost(mut self, stop: CancellationToken) {
        let is_lost = |state: &LeaseState| state.leadership == Leadership::Lost;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = self.state.wait_for(is_lost) => stop.cancel(),
        }
        stop.cancelled().await;
    }

    /// Whether the process ended because another replica leads.
    ///
    /// # Errors
    /// If so, with what to know about it.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.state();
        if state.is_taken {
            bail!(
                "another replica has the lease {} ({}); this one ends, to begin again with what is there now",
                self.lease,
                state.holder.as_deref().unwrap_or("released since"),
            );
        }
        Ok(())
    }
}

fn settings(flags: &ElectionFlags, default_namespace: &str) -> LeaseSettings {
    let variable = |name: &str| {
        let value = surroundings::variable(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let namespace = flags.lease_namespace.clone();
    let namespace = namespace.or_else(|| variable("POD_NAMESPACE"));
    let identity = flags.lease_identity.clone();
    let identity = identity.or_else(|| variable("POD_NAME"));
    // A container that starts again in the same pod is another replica than the one before it.
    let [a, b, c, d, ..] = System::secret();
    let mark = u32::from_be_bytes([a, b, c, d]);
    let identity = identity.unwrap_or_else(bindery_apiserver::host_name);
    LeaseSettings {
        namespace: namespace.unwrap_or_else(|| default_namespace.to_owned()),
        name: flags.lease_name.clone(),
        identity: format!("{identity}_{mark:08x}"),
        timing: LeaseTiming::of_seconds(flags.lease_duration),
    }
}
