use std::time::Duration;

use bindery_core::{Change, Expect, RecordData, RecordKey, RecordType};
use bindery_dns::Server;
use bindery_engine::ports::NameServer;
use tempfile::TempDir;

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn records(zone: &str) -> Vec<Record> {
    [
        format!("{zone} 60 IN SOA ns.{zone} h.{zone} 1 2 3 4 5"),
        format!("{zone} 60 IN NS ns.{zone}"),
        format!("ns.{zone} 60 IN A 192.0.2.53"),
    ]
    .iter()
    .map(|line| line.parse().unwrap())
    .collect()
}

fn open(folder: &TempDir) -> BuiltinServer {
    BuiltinServer::open(Options {
        folder: Some(folder.path().to_owned()),
        key: key(),
        clock: Arc::new(|| 1_800_000_000),
        role: Replication::default(),
        notify_id: Arc::new(|| 1),
    })
    .unwrap()
}

fn key() -> Key {
    Key::generate("bindery", [1; 32]).unwrap()
}

fn add(name_text: &str, address: &str) -> Change {
    Change {
        key: RecordKey::new(name(name_text), RecordType::A),
        expect: Expect::Absent,
        remove: Vec::new(),
        add: vec![RecordData::A(address.parse().unwrap())],
        ttl: 60,
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_opening_again() {
    let folder = TempDir::new().unwrap();
    let zone = name("example.com.");
    {
        let server = open(&folder);
        server
            .create(&zone, &records("example.com."))
            .await
            .unwrap();
        server
            .create(&name("b\\.c.example."), &records("b\\.c.example."))
            .await
            .unwrap();
        let sockets = Sockets::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = sockets.local_addr().unwrap();
        let client = Server::new(address.to_string(), Some(key()))
            .with_clock(Arc::new(|| 1_800_000_000))
            .with_answer_timeout(Duration::from_secs(5));
        let stop = CancellationToken::new();
        let work = async {
            client
                .update(&zone, &[add("www.example.com.", "192.0.2.1")])
                .await
                .unwrap();
            let refused = client
                .update(&zone, &[add("www.example.com.", "192.0.2.2")])
                .await;
            assert!(refused.unwrap_err().is(FaultKind::Conflict, rcode::YXRRSET));
            stop.cancel();
        };
        tokio::join!(server.serve(sockets, stop.clone()), work);
    }
    let server = open(&folder);
    assert_eq!(server.zones(), [name("b\\.c.example."), zone.clone()]);
    let content = server.zone(&zone).unwrap().content();
    assert_eq!(content.serial().unwrap().0, 2);
    assert!(
        content
            .set(&name("www.example.com."), RecordType::A)
            .is_some()
    );
}

#[tokio::test]
async fn a_deleted_zone_does_not_come_back() {
    let folder = TempDir::new().unwrap();
    let server = open(&folder);
    let zone = name("example.com.");
    server
        .create(&zone, &records("example.com."))
        .await
        .unwrap();
    let standing = server.zone(&zone).unwrap();
    server.delete(&zone).await.unwrap();
    server.delete(&zone).await.unwrap();
    assert_eq!(
        standing.update(Vec::new(), Vec::new()).await.unwrap_err(),
        rcode::NOTAUTH
    );
    assert!(server.zone_of(&name("www.example.com.")).is_none());
    assert!(open(&folder).zones().is_empty());
}

#[tokio::test]
async fn creating_a_zone_that_exists_leaves_it_as_it_is() {
    let folder = TempDir::new().unwrap();
    let server = open(&folder);
    let zone = name("example.com.");
    server
        .create(&zone, &records("example.com."))
        .await
        .unwrap();
    let mut other = records("example.com.");
    other.push("x.example.com. 60 IN A 192.0.2.1".parse().unwrap());
    server.create(&zone, &other).await.unwrap();
    assert!(
        server
            .zone(&zone)
            .unwrap()
            .content()
            .node(&name("x.example.com."))
            .is_none()
    );
    let fault = server.create(&name("n.example."), &[]).await.unwrap_err();
    assert!(fault.message.contains("without an SOA"), "{fault}");
}

#[tokio::test]
async fn a_damaged_file_costs_its_zone_what_was_damaged_and_nobody_else_anything() {
    let folder = TempDir::new().unwrap();
    let zones = ["one.example.", "two.example.", "three.example."].map(name);
    {
        let server = open(&folder);
        for zone in &zones {
            let records = records(&zone.to_string());
            server.create(zone, &records).await.unwrap();
        }
    }
    let path = |zone: &Name| folder.path().join(zone_file_name(zone));
    // A commit that was whole, and one that was not.
    let mut bytes = fs::read(path(&zones[1])).unwrap();
    bytes.extend_from_slice(&[7; 64]);
    bytes.extend_from_slice(&[0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    let at = bytes.len() - 78;
    bytes[at..at + 4].copy_from_slice(&[0, 0, 0, 8]);
    fs::write(path(&zones[1]), &bytes).unwrap();
    fs::write(path(&zones[2]), "garbage").unwrap();
    let server = open(&folder);
    assert_eq!(server.zones(), zones[..2]);
    assert!(server.zone(&zones[1]).unwrap().content().soa().is_some());
    let kept = fs::read_dir(folder.path().join("broken")).unwrap();
    assert_eq!(kept.count(), 2);
    // What was lost can be made anew, and what was mended is sound.
    let records = records("three.example.");
    server.create(&zones[2], &records).await.unwrap();
    drop(server);
    assert_eq!(open(&folder).zones().len(), 3);
}
