//! What the controllers did, what they see and what waits for them.

use std::collections::BTreeMap;
use std::fmt;

use bindery_kube::Handle;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::encoding::{counter_family, counters, gauge, gauge_family, histogram};

/// What the controllers did, and what they see.
pub(super) struct ControllerNumbers(pub(super) Handle);

impl fmt::Debug for ControllerNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerNumbers")
    }
}

impl Collector for ControllerNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.encode_requests(encoder)?;
        self.encode_events(encoder)?;
        self.encode_queues(encoder)?;
        self.encode_ages(encoder)?;
        histogram(
            encoder,
            (
                "bindery_served_duration",
                "Time from seeing a new generation of a record or endpoint until it was served",
            ),
            Some(&Unit::Seconds),
            &self.0.metrics().served_seconds.distribution(),
        )?;
        self.encode_objects(encoder)
    }
}

impl ControllerNumbers {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let numbers = self.0.metrics();
        let rows = [
            (
                "requests",
                "Requests to the Kubernetes API",
                &numbers.requests,
            ),
            (
                "metadata_writes",
                "Finalizers and annotations written",
                &numbers.metadata_writes,
            ),
            (
                "status_writes",
                "Statuses of records and endpoints written",
                &numbers.status_writes,
            ),
            (
                "zone_status_writes",
                "Statuses of zones written",
                &numbers.zone_status_writes,
            ),
            (
                "faults",
                "Requests that failed and are tried again",
                &numbers.faults,
            ),
            (
                "watch_restarts",
                "Watches that began again with a list",
                &numbers.watch_restarts,
            ),
            (
                "mended",
                "Record sets that others wrote over in DNS and that were put right",
                &numbers.mended,
            ),
            (
                "compared",
                "Objects whose status was compared with what is served, though nothing had happened",
                &numbers.compared,
            ),
        ];
        counters(encoder, "bindery_api", &rows)
    }

    fn encode_events(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let numbers = self.0.metrics();
        let rows = [
            (
                "written",
                "Kubernetes Events written, repeats among them",
                &numbers.events_written,
            ),
            (
                "dropped",
                "Kubernetes Events given up: too many waited, or the API did not take them",
                &numbers.events_dropped,
            ),
        ];
        counters(encoder, "bindery_events", &rows)?;
        let help = "Kubernetes Events that wait to be written";
        let waiting = self.0.events_waiting();
        gauge(encoder, ("bindery_events_waiting", help), waiting)
    }

    fn encode_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.queues();
        let rows = queues.iter().flat_map(|one| {
            [
                ("waiting", one.waiting),
                ("running", one.running),
                ("scheduled", one.scheduled),
            ]
            .map(|(state, count)| (vec![("queue", one.queue), ("state", state)], count))
        });
        let help = "Objects that wait for a visit, are visited, or are visited at a set time";
        gauge_family(encoder, ("bindery_visits", help), rows)?;
        let rows = queues
            .iter()
            .map(|one| (vec![("queue", one.queue)], one.retries));
        let help = "Visits of objects that failed and are tried again";
        counter_family(encoder, ("bindery_visit_retries", help), rows)
    }

    fn encode_ages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time since the API last sent an event or a bookmark of a kind";
        let seconds = Some(&Unit::Seconds);
        let mut family =
            encoder.encode_descriptor("bindery_cache_age", help, seconds, MetricType::Gauge)?;
        for (kind, age) in self.0.cache_ages() {
            let labels = [("kind", kind.as_str())];
            ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_objects(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (standing, count) in self.0.object_counts() {
            let state = match (standing.good, standing.reason) {
                (Some(true), _) => "Ready",
                (Some(false), Some(reason)) => reason.as_str(),
                (Some(false), None) | (None, _) => "Pending",
            };
            *counts.entry((standing.kind.as_str(), state)).or_default() += count;
        }
        let rows = counts
            .into_iter()
            .map(|((kind, state), count)| (vec![("kind", kind), ("state", state)], count));
        let help = "Objects by kind and state: Ready, or the reason why not";
        gauge_family(encoder, ("bindery_objects", help), rows)
    }
}
