//! The controller of address pools: what is declared goes to whoever gives addresses out, and how each pool is
//! goes into its status.

mod status;
#[cfg(test)]
mod tests;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bindery_api::AddressPool;
use bindery_core::{Moment, Pool, Problem};
use bindery_engine::pools::PoolKeeper;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Clock;
use crate::controllers::Task;
use crate::replica::Replica;

/// How long usage gathers before statuses are written: many Services come at once.
const GATHER: Duration = Duration::from_millis(200);
/// After which a status that could not be written is tried again, and every status is compared.
const AGAIN: Duration = Duration::from_secs(30);
const FIELD_MANAGER: &str = "bindery";

/// All pools by name, as the API last told them; `None` before they were listed.
type Declared = Option<BTreeMap<String, Arc<AddressPool>>>;

/// Everything that this controller needs.
pub struct PoolController {
    /// The Kubernetes API.
    pub client: Client,
    /// Who gives addresses out.
    pub keeper: Arc<dyn PoolKeeper>,
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// This process among others.
    pub replica: Replica,
}

impl PoolController {
    /// The task, which ends when `stop` is cancelled.
    #[must_use]
    pub fn start(self, stop: &CancellationToken) -> Task {
        let stop = stop.clone();
        ("address pools", Box::pin(self.run(stop)))
    }

    async fn run(self, stop: CancellationToken) {
        let declared = watch::Sender::new(None);
        let told = declared.subscribe();
        let both = async {
            tokio::join!(
                watching::watch_pools(&self.client, &declared),
                self.keep(told),
            )
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _never = both => {}
        }
    }

    /// Hands pools on as they change, and tells how they are.
    ///
    /// Cancellation: a status is written or not; the next start compares all of them.
    async fn keep(&self, mut told: watch::Receiver<Declared>) {
        loop {
            let is_new = tokio::select! {
                biased;
                changed = told.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    true
                }
                () = self.keeper.usage_changed() => false,
                () = tokio::time::sleep(AGAIN) => false,
            };
            let Some(pools) = told.borrow_and_update().clone() else {
                continue;
            };
            let read: BTreeMap<&String, Result<Pool, Vec<Problem>>> = pools
                .iter()
                .map(|(name, pool)| (name, pool.spec.declared(created(pool))))
                .collect();
            if is_new {
                let good = read.iter();
                let good =
                    good.filter_map(|(name, pool)| Some(((*name).clone(), pool.clone().ok()?)));
                self.keeper.set_pools(good.collect());
            }
            tokio::time::sleep(GATHER).await;
            let reports = self.keeper.reports();
            for (name, pool) in &pools {
                let problems = read[name].as_ref().err().map_or(&[][..], Vec::as_slice);
                let report = reports.get(name).cloned().unwrap_or_default();
                let status = status::status(pool, problems, &report, self.clock.now());
                if pool.status.as_ref() != Some(&status) {
                    self.write_status(name, &status).await;
                }
            }
        }
    }

    async fn write_status(&self, name: &str, status: &bindery_api::AddressPoolStatus) {
        if self.replica.stands_by() || self.replica.fence.check().is_err() {
            return;
        }
        let api: Api<AddressPool> = Api::all(self.client.clone());
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        if let Err(error) = api.patch_status(name, &params, &patch).await {
            // It is compared again soon.
            tracing::debug!(pool = name, %error, "the status of a pool was not written");
        }
    }
}

fn created(pool: &AddressPool) -> Moment {
    let created = pool.metadata.creation_timestamp.as_ref();
    Moment(created.map_or(0, |time| time.0.as_second()))
}
