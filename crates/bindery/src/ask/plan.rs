//! `bindery plan`: what would be written to DNS now, and nothing is.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use bindery_core::zones::ZoneContent;
use bindery_core::{Fault, FaultKind, Group, Name, Record, ServerRole, ZoneKey};
use bindery_dns::Key;
use bindery_engine::ports::NameServer as _;
use bindery_sources::Id;
use bindery_sources::rehearsal::{
    Coverage, Obstacle, RecordChange, Recording, Rehearsed, Transferred, ZoneRehearsal, rehearse,
};
use futures::StreamExt as _;
use serde::Serialize;

use super::inventory::Inventory;
use super::listing::{Listing, Sight};
use crate::address::Given;
use crate::cli::ask::PlanFlags;
use crate::data::TsigKeys;
use crate::live::{Health, Paint};
use crate::servers::{FoundServer, ServerSource};

/// Zones that are transferred at a time.
const TRANSFERS_MAX: usize = 4;

/// What would be written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    zones: Vec<ZonePlan>,
    /// Objects that are in no zone, and zones that cannot be served.
    no_zone: Vec<Refused>,
    /// Which part of what there is was looked at.
    sight: Sight,
}

/// What would be written into one zone.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ZonePlan {
    zone_name: String,
    /// The cluster that it is on, where it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    object: String,
    server: Option<String>,
    serial: Option<u32>,
    changes: Vec<Line>,
    waiting: Vec<Waiting>,
    refused: Vec<Refused>,
    /// Why the zone could not be read.
    fault: Option<String>,
}

/// A record that would come or go.
#[derive(Debug, Serialize)]
struct Line {
    action: Action,
    record: String,
}

/// What would happen to a record.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Action {
    Add,
    Remove,
}

/// An object into which lines have to be written down first.
#[derive(Debug, Serialize)]
struct Waiting {
    object: String,
    lines: Vec<String>,
}

/// An object of which something would not be written, and why.
#[derive(Debug, Serialize)]
struct Refused {
    object: String,
    message: String,
}

/// A zone to look at, and where.
#[derive(Clone, Debug)]
struct Place {
    id: Id,
    zone: ZoneKey,
    server: Option<String>,
}

/// A name server that can be read and not written: this is all that is asked of it.
struct ReadOnly(bindery_dns::Server);

impl ReadOnly {
    async fn transfer(&self, zone: &Name) -> Result<ZoneContent, Fault> {
        self.0.transfer(zone).await
    }
}

/// Shows what would be written.
pub(crate) async fn plan(flags: PlanFlags) -> Result<ExitCode> {
    let listing = Listing::open(&flags.asking).await?;
    let namespace = listing.namespace(&flags.asking, flags.everywhere);
    // Endpoints of other namespaces may have something in the zones of this one.
    let widely = [bindery_api::Role::Zone, bindery_api::Role::Endpoints];
    let (objects, sight) = listing.fetch_all(namespace, &widely).await?;
    let inventory = Inventory::new(objects);
    let listed = fetch_listed(&flags)?;
    let given = listed.iter().map(|(given, _)| given);
    let named: Vec<Given> = flags.nameserver.iter().chain(given).cloned().collect();
    let mut places = places(&inventory, &named);
    places.retain(|place| namespace.is_none_or(|one| *place.id.namespace == *one));
    let is_cluster = |group: &Group| places.iter().any(|place| place.zone.group == *group);
    let keys = PlanKeys {
        given: TsigKeys::read(&flags.tsig_key_file, is_cluster)?,
        listed,
    };
    let transferred = transfer_all(&places, &keys).await;
    let answer = answer(inventory, places, transferred, (namespace, sight));
    let code = if answer.zones.iter().any(|zone| zone.fault.is_some()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    };
    super::answer(flags.asking.output, &answer, lines)?;
    Ok(code)
}

/// The keys of the servers that zones are read at.
struct PlanKeys {
    given: TsigKeys,
    /// Those of the servers file, each with its server.
    listed: Vec<(Given, Key)>,
}

impl PlanKeys {
    fn of(&self, group: &Group, address: Option<&str>) -> Option<&Key> {
        let mut listed = self.listed.iter();
        let listed =
            listed.find(|(one, _)| one.group == *group && Some(&*one.info.address) == address);
        listed.map(|(_, key)| key).or_else(|| self.given.of(group))
    }
}

/// The servers of the servers file, with their keys.
fn fetch_listed(flags: &PlanFlags) -> Result<Vec<(Given, Key)>> {
    let source = ServerSource {
        given: Vec::new(),
        tsig_key_file: flags.tsig_key_file.clone(),
        file: flags.servers.clone(),
    };
    if source.file.is_none() {
        return Ok(Vec::new());
    }
    let found = source.read().found;
    let found = found.map_err(|problem| anyhow!("{problem}"))?;
    let servers = found.into_iter().flat_map(|(group, servers)| {
        servers.into_iter().map(move |FoundServer { info, key }| {
            let group = group.clone();
            (Given { group, info }, key)
        })
    });
    Ok(servers.collect())
}

/// Where each zone is read: at the server that was named, or at the first of its status.
fn places(inventory: &Inventory, named: &[Given]) -> Vec<Place> {
    let named = |group: &Group| {
        let mut here = named.iter().filter(|one| one.group == *group);
        let first = here.clone().next();
        let primary = here.find(|one| one.info.role == ServerRole::Primary);
        Some(primary.or(first)?.info.address.to_string())
    };
    let place = |(id, listed): (&Id, &super::listed_object::ListedObject)| {
        let told = || Some(listed.servers().first()?.address.clone());
        let zone = inventory.zone(id)?.key()?;
        Some(Place {
            id: Id::clone(id),
            server: named(&zone.group).or_else(told),
            zone,
        })
    };
    inventory.zones().filter_map(place).collect()
}

async fn transfer_all(places: &[Place], keys: &PlanKeys) -> Transferred {
    // A zone that two objects declare is transferred from where the first of them says.
    let mut wanted: BTreeMap<&ZoneKey, Option<&str>> = BTreeMap::new();
    for place in places {
        let server = wanted.entry(&place.zone).or_default();
        *server = server.or(place.server.as_deref());
    }
    let mut servers: BTreeMap<(&Group, &str), Arc<ReadOnly>> = BTreeMap::new();
    let transfers = wanted.into_iter().map(|(zone, server)| {
        let key = keys.of(&zone.group, server);
        let server = server.map(|address| {
            let server = || Arc::new(ReadOnly(bindery_dns::Server::new(address, key.cloned())));
            let known = servers.entry((&zone.group, address));
            Arc::clone(known.or_insert_with(server))
        });
        async move {
            let content = match server {
                Some(server) => {
                    let content = server.transfer(&zone.name).await;
                    content.map_err(|fault| with_advice(fault, key))
                }
                None => Err(Fault::new(
                    FaultKind::Unreachable,
                    "its status names no server yet; say which one with --nameserver",
                )),
            };
            (zone.clone(), content)
        }
    });
    let transfers: Vec<_> = transfers.collect();
    futures::stream::iter(transfers)
        .buffered(TRANSFERS_MAX)
        .collect()
        .await
}

/// Without a key most servers refuse transfers.
fn with_advice(fault: Fault, key: Option<&Key>) -> Fault {
    if key.is_some() || matches!(fault.kind, FaultKind::Unreachable | FaultKind::Missing) {
        return fault;
    }
    let message = format!(
        "{fault}; no key was given: say which with --tsig-key-file, for `bindery up` it is \
         tsig.key in its data folder"
    );
    Fault::new(fault.kind, message)
}

fn answer(
    inventory: Inventory,
    places: Vec<Place>,
    transferred: Transferred,
    (namespace, sight): (Option<&str>, Sight),
) -> Answer {
    let seen: BTreeMap<ZoneKey, Result<u32, String>> = transferred
        .iter()
        .map(|(zone, world)| {
            let serial = world.as_ref().map(|content| content.serial.0);
            (zone.clone(), serial.map_err(ToString::to_string))
        })
        .collect();
    let Rehearsed {
        mut zones,
        mut no_zone,
    } = rehearse(inventory.into_catalog(), transferred, coverage(sight));
    let is_shown = |one: &str| namespace.is_none_or(|namespace| namespace == one);
    no_zone.retain(|refusal| is_shown(&refusal.object.namespace));
    let zones = places.into_iter().filter_map(|place| {
        let ZoneRehearsal {
            changes,
            recordings,
            refusals,
        } = zones.remove(&place.zone)?;
        if !is_shown(&place.id.namespace) {
            return None;
        }
        let seen = seen.get(&place.zone).cloned();
        Some(ZonePlan {
            zone_name: place.zone.name.to_string(),
            cluster: place.zone.group.name().map(str::to_owned),
            object: place.id.to_string(),
            server: place.server,
            serial: seen.as_ref().and_then(|seen| seen.clone().ok()),
            fault: seen.and_then(Result::err),
            changes: changes.iter().map(Line::from).collect(),
            waiting: recordings.iter().map(Waiting::from).collect(),
            refused: refusals.into_iter().map(Refused::from).collect(),
        })
    });
    Answer {
        zones: zones.collect(),
        no_zone: no_zone.into_iter().map(Refused::from).collect(),
        sight,
    }
}

/// What was not looked at is not to be taken for a stranger's.
fn coverage(sight: Sight) -> Coverage {
    match sight {
        Sight::Whole => Coverage::Whole,
        Sight::OneNamespace => Coverage::Partial,
    }
}

impl From<&RecordChange> for Line {
    fn from(change: &RecordChange) -> Self {
        let (action, record) = match change {
            RecordChange::Add(record) => (Action::Add, record),
            RecordChange::Remove(record) => (Action::Remove, record),
        };
        let record = record.to_string();
        Self { action, record }
    }
}

impl From<&Recording> for Waiting {
    fn from(recording: &Recording) -> Self {
        Self {
            object: recording.object.to_string(),
            lines: recording.records.iter().map(Record::to_string).collect(),
        }
    }
}

impl From<Obstacle> for Refused {
    fn from(Obstacle { object, message }: Obstacle) -> Self {
        let object = object.to_string();
        Self { object, message }
    }
}

fn lines(answer: &Answer, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for zone in &answer.zones {
        lines.extend(zone_lines(zone, paint));
    }
    if !answer.no_zone.is_empty() {
        lines.push("in no zone".to_owned());
        lines.extend(refusals(&answer.no_zone, paint));
    }
    if lines.is_empty() {
        lines.push("no zone is declared here; -A looks at all namespaces".to_owned());
    }
    lines.extend(answer.sight.note().map(str::to_owned));
    lines
}

fn zone_lines(zone: &ZonePlan, paint: Paint) -> Vec<String> {
    let server = zone.server.as_deref().unwrap_or("no server");
    let serial = zone.serial.map(|serial| format!(", serial {serial}"));
    let cluster = zone.cluster.as_ref();
    let cluster = cluster.map(|name| format!(" on cluster {name}"));
    let mut lines = vec![format!(
        "{}{} {} at {server}{}",
        zone.zone_name,
        cluster.unwrap_or_default(),
        zone.object,
        serial.unwrap_or_default()
    )];
    if let Some(fault) = &zone.fault {
        let mark = paint.tint("!", Health::Failing);
        lines.push(format!("  {mark} the zone cannot be read: {fault}"));
        return lines;
    }
    for waiting in &zone.waiting {
        let mark = paint.tint("~", Health::Pending);
        let written = waiting.lines.join(", ");
        let text = format!(
            "  {mark} {} waits to be written down: {written}",
            waiting.object
        );
        lines.push(text);
    }
    for line in &zone.changes {
        let mark = match line.action {
            Action::Add => paint.tint("+", Health::Ready),
            Action::Remove => paint.tint("-", Health::Failing),
        };
        lines.push(format!("  {mark} {}", line.record));
    }
    if zone.changes.is_empty() && zone.waiting.is_empty() {
        lines.push("  nothing to do".to_owned());
    }
    lines.extend(refusals(&zone.refused, paint));
    lines
}

fn refusals(refused: &[Refused], paint: Paint) -> impl Iterator<Item = String> {
    refused.iter().map(move |one| {
        let mark = paint.tint("!", Health::Failing);
        let message = one.message.replace(char::is_control, " ");
        format!("  {mark} {}: {message}", one.object)
    })
}
