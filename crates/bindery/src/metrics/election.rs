//! What this process is among others.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::encoding::{counter_family, gauge};
use crate::election::ElectionReport;

/// What this process is among others.
pub(super) struct ElectionNumbers(pub(super) ElectionReport);

impl fmt::Debug for ElectionNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElectionNumbers")
    }
}

impl Collector for ElectionNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let help = "Whether this replica holds the lease and may write: 1 if so";
        let is_leading = usize::from(self.0.is_leading());
        gauge(encoder, ("bindery_leader", help), is_leading)?;
        let state = self.0.state();
        let help = "How often this replica came to hold the lease, or could not renew it in time";
        let rows = [
            (vec![("change", "gained")], state.gained),
            (vec![("change", "lost")], state.lost),
        ];
        counter_family(encoder, ("bindery_lease_changes", help), rows)
    }
}
