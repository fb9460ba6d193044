//! What was done about load balancers, and how they are.
//!
//! The names are those that engines of this kind are asked for, so that dashboards made for one fit here.

use std::fmt;

use bindery_core::tracker::Phase;
use bindery_engine::balancing::{AddressAct, BalancerMetrics, BalancerOperation};
use bindery_kube::BalancersHandle;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::encoding::{counter_family, counters, gauge_family, histogram, histogram_family};

/// Operations on one balancer; requests with addresses and reading are counted on their own.
const OPERATIONS: [BalancerOperation; 3] = [
    BalancerOperation::Create,
    BalancerOperation::Update,
    BalancerOperation::Delete,
];

/// The states in which a balancer can be.
const STATES: [Phase; 6] = [
    Phase::NotStarted,
    Phase::CreationInProgress,
    Phase::Created,
    Phase::UpdateInProgress,
    Phase::DeletionPending,
    Phase::DeletionInProgress,
];

/// What was done about load balancers.
pub(super) struct BalancerNumbers(pub(super) BalancersHandle);

impl fmt::Debug for BalancerNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BalancerNumbers")
    }
}

impl Collector for BalancerNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let numbers = self.0.engine().metrics();
        encode_operations(encoder, numbers)?;
        encode_times(encoder, numbers)?;
        self.encode_states(encoder)?;
        self.encode_buffers(encoder)?;
        encode_addresses(encoder, numbers)
    }
}

impl BalancerNumbers {
    fn encode_states(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let phases = self.0.engine().phases();
        let rows = STATES.map(|phase| {
            let count = phases.get(&phase).copied().unwrap_or_default();
            (vec![("state", phase.as_str())], count)
        });
        let help = "Load balancers of Services and egress labels by state";
        gauge_family(encoder, ("engine_pending_service_operations", help), rows)?;
        let visits = self.0.queue();
        let rows = [
            ("waiting", visits.waiting),
            ("running", visits.running),
            ("scheduled", visits.scheduled),
        ];
        let rows = rows.map(|(state, count)| (vec![("state", state)], count));
        let help =
            "Services and pods that wait for a visit, are visited, or are visited at a set time";
        gauge_family(encoder, ("engine_visits", help), rows)
    }

    fn encode_buffers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let numbers = self.0.engine().metrics();
        let rows = [
            (
                "endpoints",
                "Endpoints that began to wait for the load balancer of their Service to stand",
                &numbers.buffered_endpoints,
            ),
            (
                "pods",
                "Pods that began to wait for the gateway of their egress label to stand",
                &numbers.buffered_pods,
            ),
        ];
        counters(encoder, "engine_buffered", &rows)?;
        let (endpoints, pods) = self.0.engine().buffered_lens();
        let rows = [("endpoints", endpoints), ("pods", pods)];
        let rows = rows.map(|(what, count)| (vec![("what", what)], count));
        let help = "Endpoints and pods that wait for their load balancer to stand now";
        gauge_family(encoder, ("engine_buffer_len", help), rows)?;
        let help = "Time that endpoints or pods of a load balancer waited until it stood";
        histogram(
            encoder,
            ("engine_buffer_duration", help),
            Some(&Unit::Seconds),
            &numbers.buffer_seconds.distribution(),
        )
    }
}

fn encode_operations(
    encoder: &mut DescriptorEncoder<'_>,
    numbers: &BalancerMetrics,
) -> fmt::Result {
    let counts = numbers.operations();
    let ended = |operation: BalancerOperation| {
        let (mut good, mut bad) = (0, 0);
        for ((_, status), count) in counts.iter().filter(|((one, _), _)| *one == operation) {
            *(if *status == "success" {
                &mut good
            } else {
                &mut bad
            }) += count;
        }
        [("success", good), ("failure", bad)]
    };
    let rows = OPERATIONS.into_iter().flat_map(|operation| {
        let labels = |status| vec![("operation", operation.as_str()), ("status", status)];
        ended(operation).map(|(status, count)| (labels(status), count))
    });
    let help = "Operations on load balancers that ended";
    counter_family(encoder, ("engine_service_operations", help), rows)?;
    let of_status = |(status, count)| (vec![("status", status)], count);
    let rows = ended(BalancerOperation::Locations).map(of_status);
    let help = "Requests with addresses of endpoints that ended";
    counter_family(encoder, ("engine_locations_sync", help), rows)?;
    let rows = ended(BalancerOperation::Read).map(of_status);
    let help = "Times that everything a provider of load balancers has was read";
    counter_family(encoder, ("engine_reads", help), rows)?;
    let faults = counts
        .iter()
        .filter(|((_, status), _)| *status != "success");
    let rows = faults.map(|((operation, kind), count)| {
        (
            vec![("operation", operation.as_str()), ("kind", *kind)],
            *count,
        )
    });
    let help = "Operations that a provider of load balancers did not do, by why not";
    counter_family(encoder, ("engine_operation_faults", help), rows)?;
    let retries = numbers.retries();
    let rows = BalancerOperation::ALL.map(|operation| {
        let count = retries.get(&operation).copied().unwrap_or_default();
        (vec![("operation", operation.as_str())], count)
    });
    let help = "Operations that failed and are tried again";
    counter_family(encoder, ("engine_operation_retries", help), rows)
}

fn encode_times(encoder: &mut DescriptorEncoder<'_>, numbers: &BalancerMetrics) -> fmt::Result {
    let seconds = Some(&Unit::Seconds);
    let rows = OPERATIONS.map(|operation| {
        let labels = vec![("operation", operation.as_str())];
        (labels, numbers.durations(operation))
    });
    let help = "Time that an operation on a load balancer took, without the wait before it";
    histogram_family(
        encoder,
        ("engine_service_operation_duration", help),
        seconds,
        rows,
    )?;
    let rows = OPERATIONS.into_iter().chain([BalancerOperation::Locations]);
    let rows = rows.map(|operation| {
        let labels = vec![("operation", operation.as_str())];
        (labels, numbers.queue_times(operation))
    });
    let help = "Time that an operation waited for others before it began";
    histogram_family(
        encoder,
        ("engine_operation_queue_duration", help),
        seconds,
        rows,
    )?;
    let help = "Time that a request with addresses of endpoints took";
    let seen = numbers.durations(BalancerOperation::Locations);
    histogram(
        encoder,
        ("engine_locations_sync_duration", help),
        seconds,
        &seen,
    )
}

/// The name says no `_total`, which a counter would be given here, so that the type is left open.
fn encode_addresses(encoder: &mut DescriptorEncoder<'_>, numbers: &BalancerMetrics) -> fmt::Result {
    let help = "Addresses of endpoints that were bound as wanted since the start";
    let name = "engine_location_addresses_synced";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Unknown)?;
    let counts = numbers.addresses();
    for act in AddressAct::ALL {
        let count = counts.get(&act).copied().unwrap_or_default();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let labels = [("action", act.as_str())];
        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
