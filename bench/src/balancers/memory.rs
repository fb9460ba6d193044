//! What each address takes in memory: in a process of its own, which holds two sizes one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_engine::balancing::AddressAct;
use tokio::process::Command;
use tokio::time::sleep;

use super::NODES;
use super::cloud::Cloud;
use super::population::Population;
use super::running::Running;
use crate::figures::amount;
use crate::machine;

/// After this the process has put its memory in order.
const REST: Duration = Duration::from_secs(2);
/// How long a size may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(10);
/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

/// What the smaller and the larger size took.
pub(crate) struct Memory {
    /// In MiB.
    pub(crate) resident: (f64, f64),
    /// Bytes for each address of those that came with the larger one.
    pub(crate) each: f64,
}

/// Has another process of this program hold the sizes.
pub(crate) async fn measure((few, many): (usize, usize), each: usize) -> Result<Memory> {
    let ours: PathBuf = std::env::current_exe().context("cannot tell where this program lies")?;
    let output = Command::new(ours)
        .arg("--hold")
        .arg(format!("{few},{many}"))
        .args(["--endpoints", &each.to_string()])
        .output()
        .await
        .context("cannot start another process of this program")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(first)), Some(Ok(second))) = (words.next(), words.next()) else {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("it tells no sizes:\n{text}{errors}");
    };
    let more = amount((many - few) * each);
    Ok(Memory {
        resident: (first, second),
        each: (second - first) * MIB / more,
    })
}

/// Holds each size in turn and says how much memory that took, in MiB.
pub(crate) async fn hold(sizes: &[usize], each: usize) -> Result<Vec<f64>> {
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let population = Population::new(largest, each, NODES);
    let cloud = Arc::new(Cloud::new(Duration::ZERO));
    // Else what it keeps would be counted as well.
    cloud.lock().is_forgetful = true;
    let running = Running::start(&cloud);
    for (name, address) in population.nodes() {
        running.engine.set_node(Arc::clone(name), vec![*address]);
    }
    running.engine.set_synced();
    let mut held = Vec::new();
    let mut from = 0;
    for &services in sizes {
        for number in from..services {
            running.tell_slice(&population, number);
            running.tell_service(&population, number);
        }
        from = services;
        let deadline = Instant::now() + PATIENCE;
        let bound = || {
            let done = running.engine.metrics().addresses();
            let bound = done.get(&AddressAct::Add).copied().unwrap_or_default();
            usize::try_from(bound).unwrap_or(usize::MAX)
        };
        while bound() < services * each || running.standing() != (services, true) {
            if Instant::now() > deadline {
                bail!("{} addresses are bound after {PATIENCE:?}", bound());
            }
            sleep(POLL).await;
        }
        sleep(REST).await;
        held.push(machine::resident_mib(std::process::id())?);
    }
    running.end().await?;
    Ok(held)
}
