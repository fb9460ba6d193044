//! `bindery status`: zones, their servers, and what is not ready.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use bindery_api::Role;
use bindery_sources::Id;
use serde::Serialize;

use super::balanced::BalancedService;
use super::inventory::Inventory;
use super::listed_object::{ListedObject, ListedServer};
use super::listing::{Listing, Sight};
use super::table::{Cell, aligned};
use crate::cli::ask::StatusFlags;
use crate::live::{Health, Paint};

/// Everything there is to say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    /// How many objects are ready, zones included.
    ready: usize,
    total: usize,
    zones: Vec<ZoneNode>,
    /// Objects that are in no zone.
    no_zone: Vec<Leaf>,
    /// Services with a load balancer of Bindery.
    load_balancers: BalancerNode,
    /// What is wrong in the folder of `bindery up`.
    folder: Vec<String>,
    /// What is wrong with the file of name servers of `bindery run`.
    servers_file: Vec<String>,
    /// The namespace that was looked at, or none for all.
    namespace: Option<String>,
    /// Which part of what there is was looked at.
    sight: Sight,
    /// Other namespaces in which there are zones, where nothing is declared here.
    elsewhere: Vec<String>,
}

/// A zone with what is in it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ZoneNode {
    zone_name: String,
    #[serde(flatten)]
    own: Leaf,
    /// How many of its records and endpoints are ready.
    ready_count: usize,
    total_count: usize,
    servers: Vec<ListedServer>,
    /// Its records and endpoints that are not ready.
    not_ready: Vec<Leaf>,
}

/// Services with a load balancer of Bindery.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BalancerNode {
    ready_count: usize,
    total_count: usize,
    not_ready: Vec<Leaf>,
    /// They may not be listed.
    is_unseen: bool,
}

/// An object and how it is.
#[derive(Clone, Debug, Serialize)]
struct Leaf {
    object: String,
    ready: bool,
    /// `Ready`, `Programmed`, or the reason why not.
    reason: String,
    message: String,
    #[serde(skip)]
    health: Health,
}

/// Shows the tree; fails softly where something is not ready.
pub(crate) async fn status(flags: StatusFlags) -> Result<ExitCode> {
    let listing = Listing::open(&flags.asking).await?;
    let namespace = listing.namespace(&flags.asking, flags.everywhere);
    // Endpoints may be in zones of other namespaces.
    let (objects, sight) = listing.fetch_all(namespace, &[Role::Zone]).await?;
    let mut tree = tree(&Inventory::new(objects), namespace, sight);
    let services = listing.fetch_services(namespace, None).await?;
    tree.add_services(services.as_deref());
    tree.folder = listing.fetch_folder_problems().await;
    tree.servers_file = listing.fetch_servers_problems().await;
    let is_sound = tree.folder.is_empty() && tree.servers_file.is_empty();
    // Where nothing is declared, the namespace may be misspelled or the manifests not applied.
    let code = if tree.ready == tree.total && tree.total > 0 && is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    super::answer(flags.asking.output, &tree, lines)?;
    Ok(code)
}

impl Tree {
    /// Adds the Services that have a load balancer of Bindery; `None` where they may not be listed.
    fn add_services(&mut self, services: Option<&[BalancedService]>) {
        let ours = services.into_iter().flatten();
        let leaves: Vec<Leaf> = ours.filter(|one| one.is_ours()).map(service_leaf).collect();
        let total_count = leaves.len();
        let not_ready: Vec<Leaf> = leaves.into_iter().filter(|leaf| !leaf.ready).collect();
        let ready_count = total_count - not_ready.len();
        self.total += total_count;
        self.ready += ready_count;
        self.load_balancers = BalancerNode {
            ready_count,
            total_count,
            not_ready,
            is_unseen: services.is_none(),
        };
    }
}

fn service_leaf(service: &BalancedService) -> Leaf {
    let (health, reason, message) = service.row();
    Leaf {
        object: service.object(),
        ready: health == Health::Ready,
        reason: reason.to_owned(),
        message: message.to_owned(),
        health,
    }
}

/// The tree of one namespace, or of all: its zones, and those that its objects are in.
fn tree(inventory: &Inventory, namespace: Option<&str>, sight: Sight) -> Tree {
    let is_shown = |listed: &ListedObject| namespace.is_none_or(|one| one == listed.namespace());
    let mut members: BTreeMap<Id, Vec<Leaf>> = BTreeMap::new();
    let mut no_zone = Vec::new();
    let mut shown = Vec::new();
    for (id, listed) in inventory.claimants().filter(|(_, listed)| is_shown(listed)) {
        let leaf = leaf(id, listed);
        shown.push(leaf.ready);
        let zones = inventory.zones_of(id);
        if zones.is_empty() {
            no_zone.push(leaf.clone());
        }
        for zone in zones {
            members.entry(zone).or_default().push(leaf.clone());
        }
    }
    let zones: Vec<ZoneNode> = inventory
        .zones()
        .filter(|(id, listed)| is_shown(listed) || members.contains_key(*id))
        .map(|(id, listed)| node(id, listed, members.get(id).map_or(&[], Vec::as_slice)))
        .collect();
    shown.extend(zones.iter().map(|zone| zone.own.ready));
    let others: BTreeSet<&str> = inventory
        .zones()
        .map(|(_, zone)| zone.namespace())
        .collect();
    let others = others.into_iter().filter(|_| shown.is_empty());
    Tree {
        ready: shown.iter().filter(|ready| **ready).count(),
        total: shown.len(),
        zones,
        no_zone,
        load_balancers: BalancerNode::default(),
        folder: Vec::new(),
        servers_file: Vec::new(),
        namespace: namespace.map(str::to_owned),
        sight,
        elsewhere: others.map(str::to_owned).collect(),
    }
}

fn leaf(id: &Id, listed: &ListedObject) -> Leaf {
    let row = &listed.row;
    Leaf {
        object: id.to_string(),
        ready: row.health == Health::Ready,
        reason: row.word.to_string(),
        message: row.detail.to_string(),
        health: row.health,
    }
}

fn node(id: &Id, listed: &ListedObject, members: &[Leaf]) -> ZoneNode {
    let not_ready: Vec<Leaf> = members.iter().filter(|one| !one.ready).cloned().collect();
    ZoneNode {
        zone_name: ListedObject::text(&listed.spec, "zoneName")
            .unwrap_or_default()
            .to_owned(),
        own: leaf(id, listed),
        ready_count: members.len() - not_ready.len(),
        total_count: members.len(),
        servers: listed.servers(),
        not_ready,
    }
}

fn lines(tree: &Tree, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let heads: Vec<Vec<Cell>> = tree.zones.iter().map(head).collect();
    for (zone, head) in tree.zones.iter().zip(aligned(&heads, paint)) {
        lines.push(head);
        let servers: Vec<Vec<Cell>> = zone.servers.iter().map(server).collect();
        let leaves: Vec<Vec<Cell>> = zone.not_ready.iter().map(cells).collect();
        let below: Vec<String> = [aligned(&servers, paint), aligned(&leaves, paint)].concat();
        lines.extend(branches(&below));
        lines.push(String::new());
    }
    if !tree.no_zone.is_empty() {
        lines.push("in no zone".to_owned());
        let leaves: Vec<Vec<Cell>> = tree.no_zone.iter().map(cells).collect();
        lines.extend(branches(&aligned(&leaves, paint)));
        lines.push(String::new());
    }
    let balancers = &tree.load_balancers;
    if balancers.total_count > 0 {
        let (ready, total) = (balancers.ready_count, balancers.total_count);
        lines.push(format!("load balancers  {ready}/{total} ready"));
        let leaves: Vec<Vec<Cell>> = balancers.not_ready.iter().map(cells).collect();
        lines.extend(branches(&aligned(&leaves, paint)));
        lines.push(String::new());
    }
    let files = [
        ("in the folder", &tree.folder),
        ("in the file of name servers", &tree.servers_file),
    ];
    for (heading, problems) in files.iter().filter(|(_, problems)| !problems.is_empty()) {
        lines.push((*heading).to_owned());
        lines.extend(branches(problems));
        lines.push(String::new());
    }
    lines.extend(tree.sight.note().map(str::to_owned));
    if balancers.is_unseen {
        lines.push("Services were not looked at: you may not list them".to_owned());
    }
    lines.push(match tree.total {
        0 => nothing(tree),
        total => format!("{} of {total} objects are ready", tree.ready),
    });
    lines
}

/// What to say where nothing is declared.
fn nothing(tree: &Tree) -> String {
    match (&tree.namespace, &tree.elsewhere[..]) {
        (None, _) => "nothing is declared; apply some manifests first".to_owned(),
        (Some(here), []) => {
            format!("nothing is declared in namespace {here}; -A looks at all namespaces")
        }
        (Some(here), others) => {
            let others = others.join(", ");
            format!("nothing is declared in namespace {here}; there are zones in {others}")
        }
    }
}

fn head(zone: &ZoneNode) -> Vec<Cell> {
    let message = if zone.own.ready {
        ""
    } else {
        &zone.own.message
    };
    vec![
        Cell::plain(&zone.zone_name),
        Cell::tinted(&zone.own.reason, zone.own.health),
        Cell::plain(&zone.own.object),
        Cell::plain(format!("{}/{} ready", zone.ready_count, zone.total_count)),
        Cell::plain(message),
    ]
}

fn server(server: &ListedServer) -> Vec<Cell> {
    let serial = server.serial.map(|serial| format!("serial {serial}"));
    let (word, health) = if server.ready {
        ("ready", Health::Ready)
    } else {
        ("not ready", Health::Failing)
    };
    vec![
        Cell::plain(format!("server {}", server.address)),
        Cell::plain(&server.role),
        Cell::plain(serial.unwrap_or_else(|| "no serial".to_owned())),
        Cell::tinted(word, health),
    ]
}

fn cells(leaf: &Leaf) -> Vec<Cell> {
    vec![
        Cell::tinted(&leaf.reason, leaf.health),
        Cell::plain(&leaf.object),
        Cell::plain(&leaf.message),
    ]
}

/// The lines as branches of a tree.
fn branches(lines: &[String]) -> impl Iterator<Item = String> {
    let last = lines.len().saturating_sub(1);
    lines.iter().enumerate().map(move |(at, line)| {
        let branch = if at == last { "└─" } else { "├─" };
        format!("{branch} {line}")
    })
}

#[cfg(test)]
mod tests;
