//! The port of whoever gives out addresses of pools.

use std::collections::BTreeMap;

use bindery_core::pools::{Pool, PoolReport};
use futures::future::BoxFuture;

/// Whoever gives out addresses of pools.
pub trait PoolKeeper: Send + Sync + 'static {
    /// Replaces all pools. Whoever has an address keeps it; those who wait for one are tried again.
    fn set_pools(&self, pools: BTreeMap<String, Pool>);

    /// How each pool is.
    fn reports(&self) -> BTreeMap<String, PoolReport>;

    /// Waits until the answer of [`Self::reports`] may be another one.
    ///
    /// Cancellation: dropped, nothing is lost.
    fn usage_changed(&self) -> BoxFuture<'_, ()>;
}
