//! Zone transfers.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use bindery_core::{FaultKind, RecordType};
use bindery_dns::Server;
use bindery_dns::wire::{Message, WireRecord, rcode, rtype};
use bindery_engine::ports::NameServer;
use tokio::net::TcpStream;

use crate::ask;
use crate::scene::{self, Case, Scene, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_transfer_has_every_record,
        a_transfer_without_the_key_is_refused,
        a_transfer_by_udp_is_an_error,
        a_transfer_shows_one_serial_while_updates_go_on,
        a_large_zone_is_transferred_whole,
        an_incremental_transfer_of_what_is_current_is_the_soa_alone,
        an_incremental_transfer_brings_the_zone_up_to_date,
        a_transfer_after_an_update_has_it,
    ]
}

async fn a_transfer_has_every_record(scene: Scene) -> Result<()> {
    let content = scene.client().transfer(&scene.zone).await?;
    ensure!(content.serial.0 == 100);
    let found: BTreeSet<String> = content
        .sets
        .iter()
        .flat_map(|(key, set)| {
            set.data()
                .iter()
                .map(move |data| format!("{} {} {data}", key.name, set.ttl))
        })
        .collect();
    let wanted: BTreeSet<String> = scene::records(&scene.zone)
        .iter()
        .map(|record| format!("{} {} {}", record.name, record.ttl, record.data))
        .collect();
    ensure!(found == wanted, "{found:#?}");
    Ok(())
}

async fn a_transfer_without_the_key_is_refused(scene: Scene) -> Result<()> {
    let stranger = Server::new(scene.address.to_string(), None);
    let fault = stranger
        .transfer(&scene.zone)
        .await
        .err()
        .context("transferred")?;
    ensure!(fault.is(FaultKind::Refused, rcode::REFUSED), "{fault:?}");
    ensure!(fault.message.contains("allow-transfer"), "{fault}");
    Ok(())
}

async fn a_transfer_by_udp_is_an_error(scene: Scene) -> Result<()> {
    let request = ask::question(&scene.zone, rtype::AXFR);
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(
        answer.head.rcode != rcode::NOERROR && answer.answer.is_empty(),
        "{answer:?}"
    );
    Ok(())
}

async fn fill(scene: &Scene, sets: usize) -> Result<()> {
    let numbers: Vec<usize> = (0..sets).collect();
    for chunk in numbers.chunks(500) {
        let rows = chunk
            .iter()
            .map(|number| ask::add(scene, &format!("host{number}.@ 60 IN A 192.0.2.10")))
            .collect();
        ask::apply(scene, rows).await?;
    }
    Ok(())
}

async fn a_transfer_shows_one_serial_while_updates_go_on(scene: Scene) -> Result<()> {
    fill(&scene, 3_000).await?;
    let writer = async {
        for number in 0..20 {
            // Each update moves the same two records together.
            let rows = vec![
                ask::empty(&scene, "left", RecordType::A, 255),
                ask::empty(&scene, "zright", RecordType::A, 255),
                ask::add(&scene, &format!("left.@ 60 IN A 10.0.0.{number}")),
                ask::add(&scene, &format!("zright.@ 60 IN A 10.0.0.{number}")),
            ];
            ask::apply(&scene, rows).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let client = scene.client();
    let reader = async {
        for _ in 0..10 {
            let content = client.transfer(&scene.zone).await?;
            let set = |name: &str| {
                let key = bindery_core::RecordKey::new(scene.name(name), RecordType::A);
                content.sets.get(&key).cloned()
            };
            ensure!(set("left") == set("zright"), "a transfer mixes two serials");
        }
        Ok(())
    };
    let (wrote, read) = tokio::join!(writer, reader);
    wrote.and(read)
}

async fn a_large_zone_is_transferred_whole(scene: Scene) -> Result<()> {
    fill(&scene, 8_000).await?;
    let content = scene.client().transfer(&scene.zone).await?;
    let hosts = content
        .sets
        .keys()
        .filter(|key| key.name.to_string().starts_with("host"));
    ensure!(hosts.count() == 8_000);
    Ok(())
}

/// The rows of a signed incremental transfer from `serial`.
async fn incremental(scene: &Scene, serial: u32) -> Result<Vec<WireRecord>> {
    let mut request = ask::question(&scene.zone, rtype::IXFR);
    let soa = format!("@ 0 IN SOA ns.@ hostmaster.@ {serial} 7200 900 1209600 30");
    request.authority.push(ask::add(scene, &soa));
    let (bytes, _) = ask::sign(&request, &scene.key)?;
    let mut stream = TcpStream::connect(scene.address).await?;
    ask::send(&mut stream, &bytes).await?;
    let answer = Message::parse(&ask::receive(&mut stream).await?)?;
    ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    Ok(answer.answer)
}

async fn an_incremental_transfer_of_what_is_current_is_the_soa_alone(scene: Scene) -> Result<()> {
    let rows = incremental(&scene, 100).await?;
    ensure!(
        rows.len() == 1 && rows[0].rtype == RecordType::Soa.code(),
        "{rows:?}"
    );
    Ok(())
}

async fn an_incremental_transfer_brings_the_zone_up_to_date(scene: Scene) -> Result<()> {
    ask::apply(&scene, vec![ask::add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    let rows = incremental(&scene, 100).await?;
    // As differences or as the whole zone: either begins and ends with the new SOA.
    ensure!(rows.len() > 2 && rows.first() == rows.last(), "{rows:?}");
    ensure!(
        rows.iter().any(|row| row.name == scene.name("new")),
        "{rows:?}"
    );
    Ok(())
}

async fn a_transfer_after_an_update_has_it(scene: Scene) -> Result<()> {
    ask::apply(&scene, vec![ask::add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    let content = scene.client().transfer(&scene.zone).await?;
    ensure!(content.serial.0 == 101);
    ensure!(content.sets.keys().any(|key| key.name == scene.name("new")));
    Ok(())
}
