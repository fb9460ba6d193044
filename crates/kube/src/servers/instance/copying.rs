//! Whether the pods of a secondary have what its primaries have.

use std::collections::BTreeSet;

use bindery_core::{Group, Reason, ServerRole};
use bindery_sources::clusters::Said;

use super::super::ServerContext;
use super::super::store::ObjectPlace;
use super::Observed;

/// Of a secondary, whether its zones are those of the primaries.
pub(super) fn copies(
    shared: &ServerContext,
    observed: &Observed,
    groups: &BTreeSet<Group>,
) -> Option<Said> {
    if observed.role() == ServerRole::Primary {
        return None;
    }
    let states = shared.engine.server_states();
    let servers = groups.iter().filter_map(|group| states.get(group));
    let mut primaries = servers
        .flatten()
        .filter(|one| one.info.role == ServerRole::Primary)
        .peekable();
    let has_primaries = primaries.peek().is_some();
    let is_silent = has_primaries && primaries.all(|one| one.answers == Some(false));
    let pods: BTreeSet<String> = observed
        .pods
        .iter()
        .map(|pod| {
            let place = ObjectPlace::of(pod);
            format!("{}/{}", place.namespace, place.name)
        })
        .collect();
    let behind = shared.engine.behind();
    let behind = behind
        .iter()
        .filter(|(info, _)| pods.contains(info.id.as_str()));
    let behind: usize = behind.map(|(_, count)| count).sum();
    let (holds, reason, message) = if is_silent {
        let message = "no primary answers".to_owned();
        (false, Reason::UpstreamUnreachable, message)
    } else if behind > 0 {
        let message = format!("{behind} zones are not at the serial of the primaries");
        (false, Reason::ZoneTransferFailed, message)
    } else {
        let message = "every zone is at the serial of the primaries".to_owned();
        (true, Reason::ZoneTransferComplete, message)
    };
    Some(Said {
        kind: "ZonesTransferred".to_owned(),
        holds,
        reason,
        message,
    })
}
