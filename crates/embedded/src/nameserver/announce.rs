//! Telling secondaries of changes, many at a time and each zone once however often it changed.

use std::sync::PoisonError;

use bindery_dns::send_notify;
use futures::StreamExt;
use futures::stream;

use super::BuiltinServer;

/// Messages to secondaries that wait for their answers.
const IN_FLIGHT_MAX: usize = 64;

/// Runs until dropped.
pub(super) async fn run(server: &BuiltinServer) {
    let inner = &server.inner;
    loop {
        inner.wake.notified().await;
        let changed =
            std::mem::take(&mut *inner.changed.lock().unwrap_or_else(PoisonError::into_inner));
        // Owned, so that the future can be moved between threads whatever it borrows.
        let messages: Vec<_> = changed
            .iter()
            .flat_map(|zone| {
                inner
                    .options
                    .notify
                    .iter()
                    .map(|target| (zone.clone(), *target))
            })
            .collect();
        stream::iter(messages)
            .for_each_concurrent(IN_FLIGHT_MAX, |(zone, target)| async move {
                let id = (inner.options.notify_id)();
                if let Err(fault) = send_notify(target, &zone, id).await {
                    tracing::warn!(%fault, "a secondary was not told of a change");
                }
            })
            .await;
    }
}
