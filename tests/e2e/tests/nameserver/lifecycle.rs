//! Zones that come and go, servers that end and start again.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bindery_bind as bind;
use bindery_core::{Change, Expect, FaultKind, Name, RecordData, RecordKey, RecordType};
use bindery_dns::Server;
use bindery_dns::local::Replication;
use bindery_dns::wire::{Message, opcode};
use bindery_engine::ports::{NameServer, ZoneHost};
use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::ask;
use crate::pair::eventually;
use crate::scene::{self, Case, Scene, cases};
use crate::subject::{self, Kind, Own};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        creating_a_zone_again_leaves_it_as_it_is,
        a_deleted_zone_is_refused,
        deleting_a_zone_that_is_not_there_is_no_fault,
        a_zone_made_again_starts_anew,
        a_zone_inside_a_zone_answers_for_its_names,
        acknowledged_updates_survive_kill_9,
        zones_and_updates_survive_a_restart,
        a_deleted_zone_stays_deleted_after_a_restart,
        it_listens_on_ipv6,
        secondaries_are_told_of_changes,
        two_hundred_zones_are_made_and_served,
    ]
}

/// Cases that only make sense for the managed `named`.
pub(crate) fn named_cases() -> Vec<Case> {
    cases![
        a_port_in_use_is_said_with_what_to_do,
        a_configuration_named_refuses_is_quoted,
        a_program_that_is_missing_is_said,
        its_death_is_noticed,
        one_that_was_left_behind_is_ended,
        a_zone_whose_file_was_lost_is_made_again,
    ]
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn client(address: SocketAddr) -> Server {
    Server::new(address.to_string(), Some(subject::key()))
}

fn host(zone: &Name, number: usize) -> Change {
    let octet = u8::try_from(number % 250).unwrap_or(0);
    Change {
        key: RecordKey::new(scene::named(zone, &format!("h{number}")), RecordType::A),
        expect: Expect::Absent,
        remove: Vec::new(),
        add: vec![RecordData::A([192, 0, 2, octet].into())],
        ttl: 60,
    }
}

async fn creating_a_zone_again_leaves_it_as_it_is(scene: Scene) -> Result<()> {
    ask::apply(&scene, vec![ask::add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    scene
        .host
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    ensure!(ask::data(&scene, "new", RecordType::A).await?.len() == 1);
    ensure!(ask::serial(&scene).await? == 101);
    Ok(())
}

async fn a_deleted_zone_is_refused(scene: Scene) -> Result<()> {
    scene.host.delete(&scene.zone).await?;
    let fault = scene
        .client()
        .serial(&scene.zone)
        .await
        .err()
        .context("still served")?;
    ensure!(fault.kind == FaultKind::Missing, "{fault:?}");
    Ok(())
}

async fn deleting_a_zone_that_is_not_there_is_no_fault(scene: Scene) -> Result<()> {
    scene.host.delete(&Name::parse("never.test.")?).await?;
    scene.host.delete(&scene.zone).await?;
    scene.host.delete(&scene.zone).await?;
    Ok(())
}

async fn a_zone_made_again_starts_anew(scene: Scene) -> Result<()> {
    ask::apply(&scene, vec![ask::add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    scene.host.delete(&scene.zone).await?;
    scene
        .host
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    ensure!(ask::data(&scene, "new", RecordType::A).await?.is_empty());
    ensure!(ask::serial(&scene).await? == 100);
    ask::apply(&scene, vec![ask::add(&scene, "again.@ 60 IN A 192.0.2.10")]).await?;
    ensure!(ask::serial(&scene).await? == 101);
    Ok(())
}

async fn a_zone_inside_a_zone_answers_for_its_names(scene: Scene) -> Result<()> {
    let child = scene.name("child");
    scene.host.create(&child, &scene::records(&child)).await?;
    let name = scene::named(&child, "missing");
    let question = ask::question(&name, RecordType::A.code());
    let answer = ask::udp(scene.address, &question).await?;
    ensure!(
        answer
            .authority
            .first()
            .is_some_and(|row| row.name == child),
        "{answer:?}"
    );
    scene.host.delete(&child).await?;
    let answer = ask::udp(scene.address, &question).await?;
    ensure!(
        answer
            .authority
            .first()
            .is_some_and(|row| row.name == scene.zone),
        "{answer:?}"
    );
    Ok(())
}

/// A server of one's own with one zone.
async fn own(kind: Kind, folder: &Path, zone: &Name) -> Result<Own> {
    let mut server = Own::start(kind, folder, loopback(), Replication::default()).await?;
    server.create(zone, &scene::records(zone)).await?;
    Ok(server)
}

/// The server of a folder again, with the zones it has: `named` answers before it has read them.
async fn again(kind: Kind, folder: &Path, zones: &[&Name]) -> Result<Own> {
    let server = Own::start(kind, folder, loopback(), Replication::default()).await?;
    let client = client(server.address());
    for zone in zones {
        let answers = || async { Ok(client.serial(zone).await.is_ok()) };
        eventually(&format!("{zone} answers"), answers).await?;
    }
    Ok(server)
}

async fn acknowledged_updates_survive_kill_9(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let zone = scene.zone.clone();
    let server = own(scene.kind, folder.path(), &zone).await?;
    let address = server.address();
    let writer = client(address);
    let mut acknowledged = 0;
    // The kill comes while updates go on; what was answered before it must be there after.
    let writing = async {
        for number in 0.. {
            if writer.update(&zone, &[host(&zone, number)]).await.is_err() {
                return number;
            }
            acknowledged = number + 1;
        }
        0
    };
    let killing = async {
        let reader = client(address);
        while reader.serial(&zone).await?.0 < 140 {}
        server.kill().await
    };
    let (_, killed) = tokio::join!(writing, killing);
    killed?;
    ensure!(
        acknowledged >= 39,
        "only {acknowledged} updates before the kill"
    );
    let server = again(scene.kind, folder.path(), &[&zone]).await?;
    let address = server.address();
    let content = client(address).transfer(&zone).await?;
    for number in 0..acknowledged {
        ensure!(
            content.sets.contains_key(&host(&zone, number).key),
            "h{number} is lost"
        );
    }
    server.stop().await
}

async fn zones_and_updates_survive_a_restart(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let zone = scene.zone.clone();
    let mut server = own(scene.kind, folder.path(), &zone).await?;
    let address = server.address();
    let second = Name::parse("0/25.2.0.192.in-addr.arpa.")?;
    server.create(&second, &scene::records(&second)).await?;
    client(address).update(&zone, &[host(&zone, 1)]).await?;
    client(address).update(&second, &[host(&second, 1)]).await?;
    server.stop().await?;
    let mut server = again(scene.kind, folder.path(), &[&zone, &second]).await?;
    let address = server.address();
    for zone in [&zone, &second] {
        ensure!(client(address).serial(zone).await?.0 == 101, "{zone}");
        let back = client(address).read(zone, &[host(zone, 1).key]).await?;
        ensure!(back.sets[0].is_some(), "{zone}");
        server.create(zone, &scene::records(zone)).await?;
        client(address).update(zone, &[host(zone, 2)]).await?;
        ensure!(client(address).serial(zone).await?.0 == 102, "{zone}");
    }
    server.stop().await
}

async fn a_deleted_zone_stays_deleted_after_a_restart(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let zone = scene.zone.clone();
    let mut server = own(scene.kind, folder.path(), &zone).await?;
    server.delete(&zone).await?;
    server.kill().await?;
    let mut server = Own::start(
        scene.kind,
        folder.path(),
        loopback(),
        Replication::default(),
    )
    .await?;
    let address = server.address();
    let fault = client(address)
        .serial(&zone)
        .await
        .err()
        .context("it came back")?;
    ensure!(fault.kind == FaultKind::Missing, "{fault:?}");
    server.create(&zone, &scene::records(&zone)).await?;
    ensure!(client(address).serial(&zone).await?.0 == 100);
    server.stop().await
}

async fn it_listens_on_ipv6(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let address: SocketAddr = "[::1]:0".parse()?;
    let mut server = Own::start(scene.kind, folder.path(), address, Replication::default()).await?;
    server
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    let address = server.address();
    ensure!(address.is_ipv6());
    let question = ask::question(&scene.name("www"), RecordType::A.code());
    ensure!(ask::udp(address, &question).await?.answer.len() == 2);
    ensure!(ask::tcp(address, &question).await?.answer.len() == 2);
    client(address)
        .update(&scene.zone, &[host(&scene.zone, 1)])
        .await?;
    ensure!(client(address).transfer(&scene.zone).await?.serial.0 == 101);
    server.stop().await
}

async fn secondaries_are_told_of_changes(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let secondary = UdpSocket::bind("127.0.0.1:0").await?;
    let notify = vec![secondary.local_addr()?];
    let mut server = Own::start(
        scene.kind,
        folder.path(),
        loopback(),
        Replication::Primary { notify },
    )
    .await?;
    server
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    client(server.address())
        .update(&scene.zone, &[host(&scene.zone, 1)])
        .await?;
    let mut buffer = [0; 512];
    let received = timeout(Duration::from_secs(20), secondary.recv_from(&mut buffer)).await;
    let (length, from) = received.context("nobody told us")??;
    let message = Message::parse(&buffer[..length])?;
    ensure!(message.head.opcode == opcode::NOTIFY, "{message:?}");
    ensure!(
        message
            .question
            .first()
            .is_some_and(|asked| asked.name == scene.zone)
    );
    let mut answer = message.clone();
    answer.head.response = true;
    secondary.send_to(&ask::bytes(&answer)?, from).await?;
    server.stop().await
}

async fn two_hundred_zones_are_made_and_served(scene: Scene) -> Result<()> {
    for number in 0..200 {
        let zone = Name::parse(&format!("zone{number}.many.test."))?;
        let line = |line: &str| scene::record(&zone, line);
        let records = [
            line("@ 60 IN SOA ns.example.net. h.example.net. 1 2 3 4 5"),
            line("@ 60 IN NS ns.example.net."),
        ];
        scene.host.create(&zone, &records).await?;
    }
    for number in 0..200 {
        let zone = Name::parse(&format!("zone{number}.many.test."))?;
        ensure!(scene.client().serial(&zone).await?.0 == 1, "{zone}");
    }
    Ok(())
}

/// What starting says when it fails.
async fn failure(options: bind::Options) -> Result<String> {
    match bind::Named::start(options).await {
        Ok(named) => {
            named.stop().await;
            anyhow::bail!("it started")
        }
        Err(error) => Ok(error.to_string()),
    }
}

async fn a_port_in_use_is_said_with_what_to_do(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let error = subject::named_in(folder.path(), scene.address, Replication::default())
        .await
        .err();
    let said = error.context("it started")?.to_string();
    ensure!(
        said.contains("cannot listen on") && said.contains("--dns-address"),
        "{said}"
    );
    Ok(())
}

async fn a_configuration_named_refuses_is_quoted(_scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    // A program that does what a named with a bad configuration does.
    let program = folder.path().join("named");
    std::fs::write(
        &program,
        "#!/bin/sh\n[ \"$1\" = -C ] && exit 0\nexec named \"$@\" -Q\n",
    )?;
    let mut permissions = std::fs::metadata(&program)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&program, permissions)?;
    let mut options = subject::named_options(folder.path(), loopback(), Replication::default())?;
    options.program = program;
    let said = failure(options).await?;
    ensure!(
        said.contains("named ended at once") && said.contains("--server builtin"),
        "{said}"
    );
    ensure!(said.contains("usage: named"), "{said}");
    Ok(())
}

async fn a_program_that_is_missing_is_said(_scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let mut options = subject::named_options(folder.path(), loopback(), Replication::default())?;
    options.program = folder.path().join("nothing");
    let said = failure(options).await?;
    ensure!(said.contains("--server builtin"), "{said}");
    Ok(())
}

async fn its_death_is_noticed(_scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let named = subject::named_in(folder.path(), loopback(), Replication::default()).await?;
    std::process::Command::new("kill")
        .args(["-9", &named.pid().to_string()])
        .status()?;
    let said = timeout(Duration::from_secs(20), named.died())
        .await
        .context("not noticed")?;
    ensure!(said.contains("named ended (signal: 9"), "{said}");
    Ok(())
}

async fn one_that_was_left_behind_is_ended(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let named = subject::named_in(folder.path(), loopback(), Replication::default()).await?;
    named
        .host()
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    let address = named.address();
    // As if Bindery had been killed where the kernel does not end its children.
    std::mem::forget(named);
    let named = subject::named_in(folder.path(), address, Replication::default()).await?;
    ensure!(client(address).serial(&scene.zone).await?.0 == 100);
    named.stop().await;
    Ok(())
}

async fn a_zone_whose_file_was_lost_is_made_again(scene: Scene) -> Result<()> {
    let folder = TempDir::new()?;
    let server = own(Kind::Named, folder.path(), &scene.zone).await?;
    server.stop().await?;
    for entry in std::fs::read_dir(folder.path().join("zones"))? {
        std::fs::remove_file(entry?.path())?;
    }
    let mut server = Own::start(
        Kind::Named,
        folder.path(),
        loopback(),
        Replication::default(),
    )
    .await?;
    let address = server.address();
    server
        .create(&scene.zone, &scene::records(&scene.zone))
        .await?;
    ensure!(client(address).serial(&scene.zone).await?.0 == 100);
    client(address)
        .update(&scene.zone, &[host(&scene.zone, 1)])
        .await?;
    server.stop().await
}
