//! Numbers as they stand on the page.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bindery_engine::Distribution;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// A label set with as many labels as there are.
pub(super) type MetricLabels<'a> = Vec<(&'static str, &'a str)>;

/// Counters without labels, their names behind `prefix`.
pub(super) fn counters(
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

/// One counter with labels.
pub(super) fn counter_family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    rows: impl IntoIterator<Item = (MetricLabels<'a>, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in rows {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// One gauge without labels.
pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    value: usize,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(amount(value)).encode(metric)
}

/// One gauge with labels.
pub(super) fn gauge_family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    rows: impl IntoIterator<Item = (MetricLabels<'a>, usize)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(amount(value)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A histogram; a unit is added to the name.
pub(super) fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    unit: Option<&Unit>,
    seen: &Distribution,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(seen.sum, seen.count, &seen.buckets, None)
}

/// A histogram with labels; a unit is added to the name.
pub(super) fn histogram_family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    unit: Option<&Unit>,
    rows: impl IntoIterator<Item = (MetricLabels<'a>, Distribution)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, seen) in rows {
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(seen.sum, seen.count, &seen.buckets, None)?;
    }
    Ok(())
}

fn amount(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
