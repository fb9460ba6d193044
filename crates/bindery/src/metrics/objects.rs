//! Counters of engine and controllers, and how many objects are how.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bindery_engine::Engine;
use bindery_kube::Handle;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// What the engine did.
pub(super) struct EngineCounters(pub(super) Engine);

/// What the controllers did, and what they see.
pub(super) struct ControllerCounters(pub(super) Handle);

impl fmt::Debug for EngineCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineCounters")
    }
}

impl fmt::Debug for ControllerCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerCounters")
    }
}

impl Collector for EngineCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = self.0.metrics();
        let rows = [
            ("batches", "Update messages sent", &counters.batches),
            ("sets_sent", "Record sets sent", &counters.sets_sent),
            (
                "sets_verified",
                "Record sets read back",
                &counters.sets_verified,
            ),
            (
                "sets_refused",
                "Record sets that a server refused",
                &counters.sets_refused,
            ),
            (
                "steps_failed",
                "Steps that failed and are tried again",
                &counters.steps_failed,
            ),
            ("transfers", "Transfers of whole zones", &counters.transfers),
        ];
        encode_counters(&mut encoder, "bindery_engine", &rows)
    }
}

impl Collector for ControllerCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = self.0.metrics();
        let rows = [
            (
                "requests",
                "Requests to the Kubernetes API",
                &counters.requests,
            ),
            (
                "metadata_writes",
                "Finalizers and annotations written",
                &counters.metadata_writes,
            ),
            (
                "status_writes",
                "Statuses of records and endpoints written",
                &counters.status_writes,
            ),
            (
                "zone_status_writes",
                "Statuses of zones written",
                &counters.zone_status_writes,
            ),
            (
                "faults",
                "Requests that failed and are tried again",
                &counters.faults,
            ),
            (
                "watch_restarts",
                "Watches that began again with a list",
                &counters.watch_restarts,
            ),
        ];
        encode_counters(&mut encoder, "bindery_api", &rows)?;
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for row in self.0.rows() {
            let state = match (row.good, row.reason) {
                (Some(true), _) => "Ready",
                (Some(false), Some(reason)) => reason.as_str(),
                (Some(false), None) | (None, _) => "Pending",
            };
            *counts.entry((row.object.kind.as_str(), state)).or_default() += 1;
        }
        let help = "Objects by kind and state: Ready, or the reason why not";
        let mut family =
            encoder.encode_descriptor("bindery_objects", help, None, MetricType::Gauge)?;
        for ((kind, state), count) in counts {
            let labels = [("kind", kind), ("state", state)];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn encode_counters(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    rows: &[(&str, &str, &AtomicU64)],
) -> fmt::Result {
    for (name, help, value) in rows {
        let counter = ConstCounter::new(value.load(Ordering::Relaxed));
        let name = format!("{prefix}_{name}");
        let metric = encoder.encode_descriptor(&name, help, None, counter.metric_type())?;
        counter.encode(metric)?;
    }
    Ok(())
}
