//! What the engine did, and how its servers are.

use std::fmt;

use bindery_engine::Engine;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::encoding::{counters, gauge, gauge_family, histogram};
use crate::servers::ServersReport;

/// What the engine did.
pub(super) struct EngineNumbers(pub(super) Engine);

impl fmt::Debug for EngineNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineNumbers")
    }
}

impl Collector for EngineNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let numbers = self.0.metrics();
        let rows = [
            (
                "batches",
                "Batches of changes sent; a refused one is sent again in halves",
                &numbers.batches,
            ),
            ("sets_sent", "Record sets sent", &numbers.sets_sent),
            (
                "sets_verified",
                "Record sets read back",
                &numbers.sets_verified,
            ),
            (
                "sets_refused",
                "Record sets that a server refused",
                &numbers.sets_refused,
            ),
            (
                "steps_failed",
                "Steps that failed and are tried again",
                &numbers.steps_failed,
            ),
            ("transfers", "Transfers of whole zones", &numbers.transfers),
        ];
        counters(encoder, "bindery_engine", &rows)?;
        histogram(
            encoder,
            (
                "bindery_update_duration",
                "Time until the leader answered an UPDATE with changes",
            ),
            Some(&Unit::Seconds),
            &numbers.update_seconds.distribution(),
        )?;
        histogram(
            encoder,
            ("bindery_update_sets", "Record sets in an answered UPDATE"),
            None,
            &numbers.update_sets.distribution(),
        )?;
        gauge(
            encoder,
            (
                "bindery_engine_inbox_objects",
                "Zones and objects that wait to be taken in by the engine",
            ),
            self.0.waiting(),
        )?;
        let held = "Zones of which a plan is held because it would remove too much";
        gauge(encoder, ("bindery_held_plans", held), self.0.held_plans())?;
        encode_servers(encoder, &self.0)
    }
}

/// How each server is.
fn encode_servers(encoder: &mut DescriptorEncoder<'_>, engine: &Engine) -> fmt::Result {
    let behind = engine.behind();
    let rows = behind.iter().map(|(info, zones)| {
        let role = info.role.as_str();
        (vec![("server", &*info.address), ("role", role)], *zones)
    });
    gauge_family(
        encoder,
        (
            "bindery_server_behind_zones",
            "Zones in which a server beside the leader does not have the leader's serial",
        ),
        rows,
    )?;
    let states = engine.server_states();
    let states = states.iter().flat_map(|(group, servers)| {
        let cluster = group.name().unwrap_or_default();
        servers.iter().map(move |one| (cluster, one))
    });
    let rows = states.map(|(cluster, one)| {
        let role = one.info.role.as_str();
        let labels = vec![
            ("server", &*one.info.address),
            ("name", one.info.id.as_str()),
            ("role", role),
            ("cluster", cluster),
        ];
        (labels, usize::from(one.in_rotation))
    });
    gauge_family(
        encoder,
        (
            "bindery_server_in_rotation",
            "Whether a server answers and has caught up in every zone: 1 if so",
        ),
        rows,
    )
}

/// Whether the file of name servers can be used.
#[derive(Debug)]
pub(super) struct ServersFileNumbers(pub(super) ServersReport);

impl Collector for ServersFileNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the file of name servers cannot be used, so that those of before stay: 1 if so";
        let is_refused = usize::from(self.0.is_refused());
        gauge(
            &mut encoder,
            ("bindery_servers_file_refused", help),
            is_refused,
        )
    }
}
