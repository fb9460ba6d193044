//! Our own client against the server: reading back, and what it makes of failures.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bindery_core::RecordType::{A, Aaaa, Cname, Ns, Soa, Txt};
use bindery_core::{Change, Expect, FaultKind, RecordData, RecordKey, RecordSet, RecordType};
use bindery_dns::{Server, wire::rcode};
use bindery_engine::ports::NameServer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::ask;
use crate::scene::{self, Case, Scene, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        sets_are_read_back_in_the_order_asked_for,
        reading_back_says_the_serial,
        reading_nothing_says_the_serial,
        what_a_wildcard_lends_is_not_read_as_a_set,
        a_set_like_its_wildcard_is_read,
        a_set_beside_an_alias_is_not_there,
        an_alias_is_read_as_itself,
        the_servers_of_a_delegation_are_read,
        glue_and_what_lies_below_a_delegation_are_read,
        a_delegation_to_a_zone_on_the_same_server_is_read,
        a_thousand_sets_are_read_back,
        a_plan_is_applied_and_read_back,
        a_plan_for_a_changed_set_is_refused,
        a_set_is_created_only_where_there_is_none,
        data_makes_way_for_an_alias_in_one_plan,
        the_servers_of_the_zone_are_replaced_in_one_plan,
        a_message_over_the_limit_is_too_long,
        many_calls_share_the_connection,
        an_update_whose_answer_is_lost_was_applied,
        a_query_survives_a_closed_connection,
        a_server_that_does_not_listen_is_unreachable,
        a_client_without_a_key_may_read_but_not_write,
    ]
}

fn keys(scene: &Scene, list: &[(&str, RecordType)]) -> Vec<RecordKey> {
    list.iter()
        .map(|(name, rtype)| RecordKey::new(scene.name(name), *rtype))
        .collect()
}

async fn read(scene: &Scene, list: &[(&str, RecordType)]) -> Result<Vec<Option<String>>> {
    let back = scene.client().read(&scene.zone, &keys(scene, list)).await?;
    let shown = |set: RecordSet| {
        let mut data: Vec<String> = set.data().iter().map(ToString::to_string).collect();
        data.sort();
        format!("{} {}", set.ttl, data.join(","))
    };
    Ok(back.sets.into_iter().map(|set| set.map(shown)).collect())
}

fn change(scene: &Scene, expect: Expect, remove: &[&str], add: &[&str]) -> Change {
    let records = |lines: &[&str]| -> Vec<RecordData> {
        lines.iter().map(|line| scene.record(line).data).collect()
    };
    let first = remove
        .iter()
        .chain(add)
        .next()
        .map(|line| scene.record(line));
    let key = first.expect("a change changes something").key();
    Change {
        key,
        expect,
        remove: records(remove),
        add: records(add),
        ttl: 60,
    }
}

async fn sets_are_read_back_in_the_order_asked_for(scene: Scene) -> Result<()> {
    let list = [
        ("www", Aaaa),
        ("missing", A),
        ("www", A),
        ("mail", Txt),
        ("mail", A),
    ];
    let found = read(&scene, &list).await?;
    let wanted = [
        Some("300 2001:db8::1"),
        None,
        Some("300 192.0.2.1,192.0.2.2"),
        None,
        Some("300 192.0.2.25"),
    ];
    ensure!(found.iter().map(Option::as_deref).eq(wanted), "{found:?}");
    Ok(())
}

async fn reading_back_says_the_serial(scene: Scene) -> Result<()> {
    ask::apply(&scene, vec![ask::add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    let back = scene
        .client()
        .read(&scene.zone, &keys(&scene, &[("new", A)]))
        .await?;
    ensure!(back.serial.0 == 101 && back.sets[0].is_some(), "{back:?}");
    Ok(())
}

async fn reading_nothing_says_the_serial(scene: Scene) -> Result<()> {
    let back = scene.client().read(&scene.zone, &[]).await?;
    ensure!(back.serial.0 == 100 && back.sets.is_empty(), "{back:?}");
    ensure!(scene.client().serial(&scene.zone).await?.0 == 100);
    Ok(())
}

async fn what_a_wildcard_lends_is_not_read_as_a_set(scene: Scene) -> Result<()> {
    let found = read(&scene, &[("x.wild", A), ("x.y.wild", Txt), ("x.wc", Cname)]).await?;
    ensure!(found == [None, None, None], "{found:?}");
    let itself = read(&scene, &[("*.wild", A)]).await?;
    ensure!(itself[0].is_some(), "{itself:?}");
    Ok(())
}

async fn a_set_like_its_wildcard_is_read(scene: Scene) -> Result<()> {
    ask::apply(
        &scene,
        vec![ask::add(&scene, "same.wild.@ 300 IN A 192.0.2.9")],
    )
    .await?;
    let before = ask::serial(&scene).await?;
    let found = read(&scene, &[("same.wild", A), ("other.wild", A)]).await?;
    ensure!(
        found == [Some("300 192.0.2.9".to_owned()), None],
        "{found:?}"
    );
    ensure!(
        ask::serial(&scene).await? == before,
        "reading wrote something"
    );
    Ok(())
}

async fn a_set_beside_an_alias_is_not_there(scene: Scene) -> Result<()> {
    let found = read(&scene, &[("alias", A), ("chain", Aaaa)]).await?;
    ensure!(found == [None, None], "{found:?}");
    Ok(())
}

async fn an_alias_is_read_as_itself(scene: Scene) -> Result<()> {
    let found = read(
        &scene,
        &[("chain", Cname), ("broken", Cname), ("loop1", Cname)],
    )
    .await?;
    ensure!(found.iter().all(Option::is_some), "{found:?}");
    Ok(())
}

async fn the_servers_of_a_delegation_are_read(scene: Scene) -> Result<()> {
    let found = read(&scene, &[("sub", Ns), ("@", Ns)]).await?;
    let wanted = format!("300 ns.example.net.,ns.sub.{}", scene.zone);
    ensure!(
        found[0].as_deref() == Some(&wanted) && found[1].is_some(),
        "{found:?}"
    );
    Ok(())
}

async fn glue_and_what_lies_below_a_delegation_are_read(scene: Scene) -> Result<()> {
    let list = [
        ("ns.sub", A),
        ("hidden.sub", Txt),
        ("missing.sub", A),
        ("sub", Txt),
    ];
    let found = read(&scene, &list).await?;
    ensure!(found[0].as_deref() == Some("300 192.0.2.60"), "{found:?}");
    ensure!(
        found[1].as_deref() == Some("300 \"below the cut\""),
        "{found:?}"
    );
    ensure!(found[2].is_none() && found[3].is_none(), "{found:?}");
    Ok(())
}

async fn a_delegation_to_a_zone_on_the_same_server_is_read(scene: Scene) -> Result<()> {
    let below = scene.name("sub");
    let lines = [
        "@ 60 IN SOA ns.example.net. hostmaster.@ 1 60 60 60 60",
        "@ 60 IN NS other.example.net.",
    ];
    let records: Vec<_> = lines.map(|line| scene::record(&below, line)).into();
    scene.host.create(&below, &records).await?;
    let found = read(&scene, &[("sub", Ns)]).await;
    scene.host.delete(&below).await?;
    let wanted = format!("300 ns.example.net.,ns.sub.{}", scene.zone);
    ensure!(found?[0].as_deref() == Some(wanted.as_str()));
    Ok(())
}

async fn a_thousand_sets_are_read_back(scene: Scene) -> Result<()> {
    let names: Vec<String> = (0..1_000).map(|number| format!("k{number}")).collect();
    for chunk in names.chunks(500) {
        let rows = chunk
            .iter()
            .map(|name| ask::add(&scene, &format!("{name}.@ 60 IN A 192.0.2.10")));
        ask::apply(&scene, rows.collect()).await?;
    }
    let list: Vec<(&str, RecordType)> = names.iter().map(|name| (name.as_str(), A)).collect();
    let found = read(&scene, &list).await?;
    ensure!(found.len() == 1_000 && found.iter().all(Option::is_some));
    Ok(())
}

async fn a_plan_is_applied_and_read_back(scene: Scene) -> Result<()> {
    let known = ["www.@ 0 IN A 192.0.2.1", "www.@ 0 IN A 192.0.2.2"];
    let exactly = Expect::Exactly(known.iter().map(|line| scene.record(line).data).collect());
    let changes = [
        change(&scene, Expect::Absent, &[], &["new.@ 0 IN A 192.0.2.10"]),
        change(&scene, exactly, &known[..1], &["www.@ 0 IN A 192.0.2.3"]),
    ];
    scene.client().update(&scene.zone, &changes).await?;
    let found = read(&scene, &[("new", A), ("www", A)]).await?;
    let wanted = [
        Some("60 192.0.2.10".to_owned()),
        Some("60 192.0.2.2,192.0.2.3".to_owned()),
    ];
    ensure!(found == wanted, "{found:?}");
    Ok(())
}

async fn a_plan_for_a_changed_set_is_refused(scene: Scene) -> Result<()> {
    let old = Expect::Exactly(vec![scene.record("www.@ 0 IN A 192.0.2.1").data]);
    let changes = [change(&scene, old, &["www.@ 0 IN A 192.0.2.1"], &[])];
    let fault = scene
        .client()
        .update(&scene.zone, &changes)
        .await
        .err()
        .context("applied")?;
    ensure!(fault.is(FaultKind::Conflict, rcode::NXRRSET), "{fault:?}");
    ensure!(read(&scene, &[("www", A)]).await?[0].is_some());
    Ok(())
}

async fn a_set_is_created_only_where_there_is_none(scene: Scene) -> Result<()> {
    let changes = [change(
        &scene,
        Expect::Absent,
        &[],
        &["www.@ 0 IN A 192.0.2.10"],
    )];
    let fault = scene
        .client()
        .update(&scene.zone, &changes)
        .await
        .err()
        .context("applied")?;
    ensure!(fault.is(FaultKind::Conflict, rcode::YXRRSET), "{fault:?}");
    Ok(())
}

async fn data_makes_way_for_an_alias_in_one_plan(scene: Scene) -> Result<()> {
    let known = ["mail.@ 0 IN A 192.0.2.25"];
    let exactly = Expect::Exactly(vec![scene.record(known[0]).data]);
    let changes = [
        change(&scene, Expect::Absent, &[], &["mail.@ 0 IN CNAME www.@"]),
        change(&scene, exactly, &known, &[]),
    ];
    scene.client().update(&scene.zone, &changes).await?;
    let found = read(&scene, &[("mail", Cname), ("mail", A)]).await?;
    ensure!(found[0].is_some() && found[1].is_none(), "{found:?}");
    Ok(())
}

async fn the_servers_of_the_zone_are_replaced_in_one_plan(scene: Scene) -> Result<()> {
    let known = ["@ 0 IN NS ns.@"];
    let exactly = Expect::Exactly(vec![scene.record(known[0]).data]);
    let changes = [change(
        &scene,
        exactly,
        &known,
        &["@ 0 IN NS other.example.net."],
    )];
    scene.client().update(&scene.zone, &changes).await?;
    let found = read(&scene, &[("@", Ns)]).await?;
    ensure!(
        found[0].as_deref() == Some("60 other.example.net."),
        "{found:?}"
    );
    Ok(())
}

async fn a_message_over_the_limit_is_too_long(scene: Scene) -> Result<()> {
    let text = "x".repeat(200);
    let changes: Vec<Change> = (0..500)
        .map(|number| {
            let line = format!("t{number}.@ 0 IN TXT \"{text}\"");
            change(&scene, Expect::Absent, &[], &[&line])
        })
        .collect();
    let client = scene.client();
    let fault = client
        .update(&scene.zone, &changes)
        .await
        .err()
        .context("applied")?;
    ensure!(fault.kind == FaultKind::TooLarge, "{fault:?}");
    ensure!(client.serial(&scene.zone).await?.0 == 100);
    Ok(())
}

async fn many_calls_share_the_connection(scene: Scene) -> Result<()> {
    let client = scene.client();
    let wanted = keys(&scene, &[("www", A), ("mail", A)]);
    let reads = (0..50).map(|_| client.read(&scene.zone, &wanted));
    for back in futures::future::try_join_all(reads).await? {
        ensure!(back.sets.iter().all(Option::is_some));
    }
    let changes: Vec<[Change; 1]> = (0..50)
        .map(|number| {
            let line = format!("u{number}.@ 0 IN A 192.0.2.10");
            [change(&scene, Expect::Absent, &[], &[&line])]
        })
        .collect();
    let writes = changes
        .iter()
        .map(|change| client.update(&scene.zone, change));
    futures::future::try_join_all(writes).await?;
    ensure!(client.serial(&scene.zone).await?.0 == 150);
    Ok(())
}

/// Passes what clients send to the server, and nothing back.
async fn one_way(listener: &TcpListener, server: SocketAddr) -> Result<()> {
    loop {
        let (mut from, _) = listener.accept().await?;
        let mut to = TcpStream::connect(server).await?;
        let request = ask::receive(&mut from).await?;
        ask::send(&mut to, &request).await?;
        // The server has answered before the client's connection is closed.
        ask::receive(&mut to).await?;
        from.shutdown().await?;
    }
}

async fn an_update_whose_answer_is_lost_was_applied(scene: Scene) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = Server::new(listener.local_addr()?.to_string(), Some(scene.key.clone()));
    let changes = [change(
        &scene,
        Expect::Absent,
        &[],
        &["new.@ 0 IN A 192.0.2.10"],
    )];
    let outcome = tokio::select! {
        biased;
        outcome = client.update(&scene.zone, &changes) => outcome,
        broken = one_way(&listener, scene.address) => return broken,
    };
    let fault = outcome.err().context("an answer came")?;
    ensure!(fault.kind == FaultKind::Lost, "{fault:?}");
    ensure!(read(&scene, &[("new", A)]).await?[0].is_some());
    Ok(())
}

async fn a_query_survives_a_closed_connection(scene: Scene) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = Server::new(listener.local_addr()?.to_string(), Some(scene.key.clone()));
    // A proxy that serves one exchange per connection and then closes it.
    let proxy = async {
        loop {
            let (mut from, _) = listener.accept().await?;
            let mut to = TcpStream::connect(scene.address).await?;
            let request = ask::receive(&mut from).await?;
            ask::send(&mut to, &request).await?;
            let answer = ask::receive(&mut to).await?;
            ask::send(&mut from, &answer).await?;
        }
    };
    let work = async {
        for _ in 0..5 {
            ensure!(client.serial(&scene.zone).await?.0 == 100);
        }
        Ok(())
    };
    tokio::select! {
        biased;
        done = work => done,
        broken = proxy => broken,
    }
}

async fn a_server_that_does_not_listen_is_unreachable(scene: Scene) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    drop(listener);
    let client = Server::new(address.to_string(), Some(scene.key.clone()))
        .with_answer_timeout(Duration::from_secs(5));
    let changes = [change(
        &scene,
        Expect::Absent,
        &[],
        &["new.@ 0 IN A 192.0.2.10"],
    )];
    for fault in [
        client.update(&scene.zone, &changes).await.err(),
        client.serial(&scene.zone).await.err(),
        client.transfer(&scene.zone).await.err(),
    ] {
        let fault = fault.context("somebody answered")?;
        ensure!(fault.kind == FaultKind::Unreachable, "{fault:?}");
    }
    Ok(())
}

async fn a_client_without_a_key_may_read_but_not_write(scene: Scene) -> Result<()> {
    let client = Server::new(scene.address.to_string(), None);
    let back = client
        .read(&scene.zone, &keys(&scene, &[("www", A), ("@", Soa)]))
        .await?;
    ensure!(back.sets.iter().all(Option::is_some), "{back:?}");
    let changes = [change(
        &scene,
        Expect::Absent,
        &[],
        &["new.@ 0 IN A 192.0.2.10"],
    )];
    let fault = client
        .update(&scene.zone, &changes)
        .await
        .err()
        .context("applied")?;
    ensure!(fault.is(FaultKind::Refused, rcode::REFUSED), "{fault:?}");
    Ok(())
}
