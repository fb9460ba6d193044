//! What the operating system knows about this process.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// Resident memory and uptime, read when asked.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    started: Instant,
}

impl ProcessMetrics {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let uptime = ConstGauge::new(self.started.elapsed().as_secs_f64());
        let metric = encoder.encode_descriptor(
            "bindery_uptime_seconds",
            "Seconds since this process started",
            None,
            uptime.metric_type(),
        )?;
        uptime.encode(metric)?;
        // A system without /proc has no such number; then there is no such line.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(bytes) = resident_bytes(&status) {
            let resident = ConstGauge::new(bytes);
            let metric = encoder.encode_descriptor(
                "process_resident_memory_bytes",
                "Resident memory",
                None,
                resident.metric_type(),
            )?;
            resident.encode(metric)?;
        }
        Ok(())
    }
}

/// `VmRSS` of `/proc/self/status`, which is in KiB.
fn resident_bytes(status: &str) -> Option<i64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(
            resident_bytes("Name:\tbindery\nVmRSS:\t   12 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(resident_bytes("Name:\tbindery\n"), None);
    }
}
