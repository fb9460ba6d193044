//! How many objects of each kind are how.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Counts by kind and condition. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census(Arc<Mutex<Counts>>);

type Counts = BTreeMap<(String, String), i64>;

impl Census {
    /// An object of `kind` left one state or entered another.
    pub(crate) fn count(&self, kind: &str, left: Option<&str>, entered: Option<&str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (state, by) in [(left, -1), (entered, 1)] {
            if let Some(state) = state {
                *counts
                    .entry((kind.to_owned(), state.to_owned()))
                    .or_default() += by;
            }
        }
    }
}

impl Collector for Census {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let help = "Objects by kind and condition";
        let mut family =
            encoder.encode_descriptor("bindery_objects", help, None, MetricType::Gauge)?;
        for ((kind, state), count) in counts {
            let labels = [("kind", kind), ("state", state)];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
