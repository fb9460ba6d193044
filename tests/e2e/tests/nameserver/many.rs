//! Zones that `named` is given many at a time, which it reads from a list.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bindery_bind::Named;
use bindery_core::{Change, Expect, FaultKind, Name, RecordData, RecordKey, RecordType};
use bindery_dns::Server;
use bindery_dns::local::Replication;
use bindery_engine::ports::{NameServer, ZoneHost};
use futures::future::join_all;
use tempfile::TempDir;

use crate::pair::{eventually, free_address};
use crate::scene::{self, Case, Scene, cases};
use crate::subject::{self, Own};

/// As many as the engine makes at a time.
const COUNT: usize = 256;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        zones_asked_for_at_once_are_listed_and_survive_kill_9,
        a_single_zone_is_not_listed,
        listed_zones_that_were_deleted_stay_deleted,
        a_listed_zone_made_again_starts_anew,
        a_listed_zone_whose_file_was_lost_is_made_again,
        zones_of_a_list_that_is_refused_are_made_one_by_one,
        copies_that_were_handed_over_need_no_primary,
    ]
}

/// A `named` with zones that were asked for at once.
struct Many {
    folder: TempDir,
    address: SocketAddr,
    role: Replication,
    named: Named,
    zones: Vec<Name>,
}

impl Many {
    async fn start(role: Replication) -> Result<Self> {
        let (folder, address) = (TempDir::new()?, free_address()?);
        let names = (0..COUNT).map(|number| Name::parse(&format!("zone{number}.many.test.")));
        Ok(Self {
            named: subject::named_in(folder.path(), address, role.clone()).await?,
            zones: names.collect::<Result<_, _>>()?,
            folder,
            address,
            role,
        })
    }

    async fn created() -> Result<Self> {
        let many = Self::start(Replication::default()).await?;
        many.create().await?;
        Ok(many)
    }

    /// Asks for all zones at once.
    async fn create(&self) -> Result<()> {
        let host = self.named.host();
        let created = self.zones.iter().map(|zone| {
            let host = host.clone();
            async move { host.create(zone, &scene::records(zone)).await }
        });
        let outcomes = join_all(created).await;
        Ok(outcomes.into_iter().collect::<Result<_, _>>()?)
    }

    async fn delete(&self, zones: &[Name]) -> Result<()> {
        let host = self.named.host();
        let outcomes = join_all(zones.iter().map(|zone| host.delete(zone))).await;
        Ok(outcomes.into_iter().collect::<Result<_, _>>()?)
    }

    fn client(&self) -> Server {
        Server::new(self.address.to_string(), Some(subject::key()))
    }

    /// Waits until a zone has this serial: after its start `named` answers before it has read all zones.
    async fn until_at(&self, zone: &Name, serial: u32) -> Result<()> {
        let client = self.client();
        let at = || async { Ok(client.serial(zone).await?.0 == serial) };
        eventually(&format!("{zone} at serial {serial}"), at).await
    }

    async fn until_all_at(&self, serial: u32) -> Result<()> {
        for zone in &self.zones {
            self.until_at(zone, serial).await?;
        }
        Ok(())
    }

    async fn is_missing(&self, zone: &Name) -> bool {
        let serial = self.client().serial(zone).await;
        serial.is_err_and(|fault| fault.kind == FaultKind::Missing)
    }

    /// The zones that are on the list.
    fn listed(&self) -> Result<Vec<Name>> {
        listed(self.folder.path(), &self.zones)
    }

    /// Kills it and starts it again.
    async fn killed(self) -> Result<Self> {
        Own::Named(Box::new(self.named)).kill().await?;
        let role = self.role.clone();
        let named = subject::named_in(self.folder.path(), self.address, role).await?;
        Ok(Self { named, ..self })
    }
}

fn listed(folder: &Path, zones: &[Name]) -> Result<Vec<Name>> {
    let text = std::fs::read_to_string(folder.join("zones.conf"))?;
    let is_listed = |zone: &&Name| text.contains(&format!("zone \"{zone}\" IN "));
    Ok(zones.iter().filter(is_listed).cloned().collect())
}

fn addition(zone: &Name) -> Change {
    Change {
        key: RecordKey::new(scene::named(zone, "new"), RecordType::A),
        expect: Expect::Absent,
        remove: Vec::new(),
        add: vec![RecordData::A([192, 0, 2, 99].into())],
        ttl: 60,
    }
}

async fn zones_asked_for_at_once_are_listed_and_survive_kill_9(_scene: Scene) -> Result<()> {
    let many = Many::created().await?;
    let listed = many.listed()?;
    // How many gather is a matter of the machine's speed.
    ensure!(!listed.is_empty(), "none is listed");
    for zone in &many.zones {
        many.client().update(zone, &[addition(zone)]).await?;
    }
    let many = many.killed().await?;
    many.until_all_at(101).await?;
    many.named.stop().await;
    Ok(())
}

async fn a_single_zone_is_not_listed(_scene: Scene) -> Result<()> {
    let many = Many::start(Replication::default()).await?;
    let one = many.zones.first().context("there are zones")?;
    many.named.host().create(one, &scene::records(one)).await?;
    ensure!(many.listed()?.is_empty());
    many.named.stop().await;
    Ok(())
}

async fn listed_zones_that_were_deleted_stay_deleted(_scene: Scene) -> Result<()> {
    let many = Many::created().await?;
    let (gone, kept) = many.zones.split_at(COUNT / 2);
    many.delete(gone).await?;
    for zone in gone {
        ensure!(many.is_missing(zone).await, "{zone} is still served");
    }
    ensure!(many.listed()?.iter().all(|zone| kept.contains(zone)));
    let files = std::fs::read_dir(many.folder.path().join("zones"))?.count();
    ensure!(files == kept.len(), "{files} files are left");
    let many = many.killed().await?;
    let (gone, kept) = many.zones.split_at(COUNT / 2);
    for zone in gone {
        ensure!(many.is_missing(zone).await, "{zone} came back");
    }
    for zone in kept {
        many.until_at(zone, 100).await?;
    }
    many.named.stop().await;
    Ok(())
}

async fn a_listed_zone_made_again_starts_anew(_scene: Scene) -> Result<()> {
    let many = Many::created().await?;
    let zone = many.listed()?.pop().context("one is listed")?;
    many.client().update(&zone, &[addition(&zone)]).await?;
    many.named.host().delete(&zone).await?;
    let host = many.named.host();
    host.create(&zone, &scene::records(&zone)).await?;
    many.until_at(&zone, 100).await?;
    many.client().update(&zone, &[addition(&zone)]).await?;
    let many = many.killed().await?;
    many.until_at(&zone, 101).await?;
    many.named.stop().await;
    Ok(())
}

async fn a_listed_zone_whose_file_was_lost_is_made_again(_scene: Scene) -> Result<()> {
    let many = Many::created().await?;
    let zone = many.listed()?.pop().context("one is listed")?;
    for entry in std::fs::read_dir(many.folder.path().join("zones"))? {
        std::fs::remove_file(entry?.path())?;
    }
    let many = many.killed().await?;
    ensure!(many.client().serial(&zone).await.is_err(), "it has no file");
    let host = many.named.host();
    host.create(&zone, &scene::records(&zone)).await?;
    many.until_at(&zone, 100).await?;
    many.create().await?;
    many.until_all_at(100).await?;
    many.named.stop().await;
    Ok(())
}

async fn zones_of_a_list_that_is_refused_are_made_one_by_one(_scene: Scene) -> Result<()> {
    let many = Many::start(Replication::default()).await?;
    let config = many.folder.path().join("named.conf");
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, format!("{text}\nnonsense;\n"))?;
    ensure!(
        many.create().await.is_err(),
        "a list was read with nonsense"
    );
    ensure!(
        many.listed()?.is_empty(),
        "what was refused is still listed"
    );
    many.create().await?;
    let many = many.killed().await?;
    many.until_all_at(100).await?;
    many.named.stop().await;
    Ok(())
}

async fn copies_that_were_handed_over_need_no_primary(_scene: Scene) -> Result<()> {
    let primaries = vec![free_address()?];
    let many = Many::start(Replication::Secondary { primaries }).await?;
    many.create().await?;
    many.until_all_at(100).await?;
    let many = many.killed().await?;
    many.until_all_at(100).await?;
    many.named.stop().await;
    Ok(())
}
