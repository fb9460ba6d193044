//! Updates: who may, what they do, and what they silently do not.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bindery_core::RecordType::{A, Aaaa, Cname, Mx, Ns, Other, Soa, Txt};
use bindery_core::{FaultKind, Name, RecordData};
use bindery_dns::wire::{Message, WireRecord, class, rcode, rtype};
use bindery_dns::{Algorithm, Key, Server};
use bindery_engine::ports::NameServer;
use tokio::net::TcpStream;

use crate::ask::{self, add, apply, data, empty, remove, serial};
use crate::scene::{Case, Scene, cases};
use crate::subject;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_record_is_added,
        every_type_is_added_and_read_back,
        a_record_is_added_by_udp,
        an_unsigned_update_is_refused,
        a_wrong_secret_is_badsig,
        an_unknown_key_is_badkey,
        a_key_of_another_algorithm_is_badkey,
        a_clock_that_is_off_is_badtime,
        a_zone_that_is_not_there_is_told_apart,
        a_name_outside_the_zone_is_notzone,
        a_zone_section_of_another_type_is_a_format_error,
        an_odd_class_is_a_format_error,
        a_failing_batch_changes_nothing,
        the_serial_rises_once_per_update,
        an_update_without_effect_keeps_the_serial,
        a_record_added_twice_is_there_once,
        one_record_is_removed_and_the_others_stay,
        removing_what_is_not_there_is_no_error,
        a_set_is_removed,
        all_sets_of_a_name_are_removed,
        an_alias_beside_data_is_ignored,
        data_beside_an_alias_is_ignored,
        an_alias_replaces_an_alias,
        data_makes_way_for_an_alias_in_one_update,
        the_zone_keeps_its_soa_and_servers,
        the_last_server_of_the_zone_stays,
        an_soa_with_an_older_serial_is_ignored,
        an_soa_with_a_newer_serial_is_taken,
        a_new_ttl_is_that_of_the_whole_set,
        five_hundred_sets_fit_one_update,
        a_set_may_have_three_hundred_records,
        odd_host_names_are_taken,
        names_with_escapes_are_taken,
        text_of_any_bytes_is_kept,
        updates_of_one_connection_are_all_answered,
        two_writers_of_one_expectation_have_one_winner,
    ]
}

async fn a_record_is_added(scene: Scene) -> Result<()> {
    apply(&scene, vec![add(&scene, "new.@ 60 IN A 192.0.2.10")]).await?;
    ensure!(data(&scene, "new", A).await? == ["192.0.2.10"]);
    Ok(())
}

async fn every_type_is_added_and_read_back(scene: Scene) -> Result<()> {
    let lines = [
        "t.@ 60 IN A 192.0.2.10",
        "t.@ 60 IN AAAA 2001:db8::10",
        "t.@ 60 IN TXT \"a\" \"b c\"",
        "t.@ 60 IN MX 5 mail.@",
        "t.@ 60 IN SRV 1 2 3 www.@",
        "t.@ 60 IN CAA 128 issuewild \";\"",
        "t.@ 60 IN PTR www.@",
        "t.@ 60 IN TYPE65281 \\# 2 ab00",
        "c.@ 60 IN CNAME www.@",
        "n.@ 60 IN NS www.@",
    ];
    apply(&scene, lines.map(|line| add(&scene, line)).to_vec()).await?;
    let content = scene.client().transfer(&scene.zone).await?;
    for line in lines {
        let record = scene.record(line);
        let set = content
            .sets
            .get(&record.key())
            .with_context(|| line.to_owned())?;
        ensure!(
            set.ttl == 60 && set.data() == [record.data],
            "{line}: {set:?}"
        );
    }
    Ok(())
}

async fn a_record_is_added_by_udp(scene: Scene) -> Result<()> {
    let message = ask::update(
        &scene,
        vec![],
        vec![add(&scene, "new.@ 60 IN A 192.0.2.10")],
    );
    let (bytes, transaction) = ask::sign(&message, &scene.key)?;
    let answer = ask::udp_bytes(scene.address, &bytes).await?;
    ensure!(ask::verify(answer, &transaction)? == rcode::NOERROR);
    ensure!(data(&scene, "new", A).await? == ["192.0.2.10"]);
    Ok(())
}

async fn an_unsigned_update_is_refused(scene: Scene) -> Result<()> {
    let message = ask::update(
        &scene,
        vec![],
        vec![add(&scene, "new.@ 60 IN A 192.0.2.10")],
    );
    let answer = ask::tcp(scene.address, &message).await?;
    ensure!(answer.head.rcode == rcode::REFUSED, "{answer:?}");
    ensure!(data(&scene, "new", A).await?.is_empty());
    Ok(())
}

async fn refused_with(scene: &Scene, client: Server, word: &str) -> Result<()> {
    let fault = client
        .update(&scene.zone, &[])
        .await
        .err()
        .context("accepted")?;
    ensure!(
        fault.kind == FaultKind::Denied && fault.message.contains(word),
        "{fault:?}"
    );
    Ok(())
}

async fn a_wrong_secret_is_badsig(scene: Scene) -> Result<()> {
    let key = Key::generate(&scene.key.name(), [1; 32])?;
    refused_with(
        &scene,
        Server::new(scene.address.to_string(), Some(key)),
        "BADSIG",
    )
    .await
}

async fn an_unknown_key_is_badkey(scene: Scene) -> Result<()> {
    let key = Key::generate("somebody", [42; 32])?;
    refused_with(
        &scene,
        Server::new(scene.address.to_string(), Some(key)),
        "BADKEY",
    )
    .await
}

async fn a_key_of_another_algorithm_is_badkey(scene: Scene) -> Result<()> {
    let key = Key::new(&scene.key.name(), Algorithm::HmacSha512, vec![42; 32])?;
    refused_with(
        &scene,
        Server::new(scene.address.to_string(), Some(key)),
        "BAD",
    )
    .await
}

async fn a_clock_that_is_off_is_badtime(scene: Scene) -> Result<()> {
    let clock = subject::clock();
    let late = scene.client().with_clock(Arc::new(move || clock() - 3_000));
    let fault = late
        .update(&scene.zone, &[])
        .await
        .err()
        .context("accepted")?;
    ensure!(fault.kind == FaultKind::Denied, "{fault:?}");
    ensure!(
        fault.message.contains("BADTIME") && fault.message.contains("300"),
        "{fault}"
    );
    Ok(())
}

async fn a_zone_that_is_not_there_is_told_apart(scene: Scene) -> Result<()> {
    let other = Name::parse("other.test.")?;
    let client = scene.client();
    let update = client.update(&other, &[]).await.err().context("accepted")?;
    ensure!(update.kind == FaultKind::Missing, "{update:?}");
    let serial = client.serial(&other).await.err().context("accepted")?;
    ensure!(serial.kind == FaultKind::Missing, "{serial:?}");
    let transfer = client.transfer(&other).await.err().context("accepted")?;
    ensure!(transfer.kind == FaultKind::Missing, "{transfer:?}");
    let read = client.read(&other, &[]).await.err().context("accepted")?;
    ensure!(read.kind == FaultKind::Missing, "{read:?}");
    Ok(())
}

async fn a_name_outside_the_zone_is_notzone(scene: Scene) -> Result<()> {
    let mut row = add(&scene, "new.@ 60 IN A 192.0.2.10");
    row.name = Name::parse("www.example.org.")?;
    let good = add(&scene, "good.@ 60 IN A 192.0.2.10");
    let code = ask::signed(&scene, &ask::update(&scene, vec![], vec![good, row])).await?;
    ensure!(code == rcode::NOTZONE, "{code}");
    ensure!(data(&scene, "good", A).await?.is_empty());
    Ok(())
}

async fn a_zone_section_of_another_type_is_a_format_error(scene: Scene) -> Result<()> {
    let mut message = ask::update(&scene, vec![], vec![]);
    message.question[0].rtype = A.code();
    ensure!(ask::signed(&scene, &message).await? == rcode::FORMERR);
    Ok(())
}

async fn an_odd_class_is_a_format_error(scene: Scene) -> Result<()> {
    let mut row = add(&scene, "new.@ 60 IN A 192.0.2.10");
    row.class = 4;
    let code = ask::signed(&scene, &ask::update(&scene, vec![], vec![row])).await?;
    ensure!(code == rcode::FORMERR, "{code}");
    Ok(())
}

async fn a_failing_batch_changes_nothing(scene: Scene) -> Result<()> {
    let before = serial(&scene).await?;
    let changes = (0..50)
        .map(|number| add(&scene, &format!("b{number}.@ 60 IN A 192.0.2.10")))
        .collect();
    let prerequisites = vec![empty(&scene, "www", A, class::NONE)];
    let code = ask::signed(&scene, &ask::update(&scene, prerequisites, changes)).await?;
    ensure!(code == rcode::YXRRSET, "{code}");
    ensure!(data(&scene, "b0", A).await?.is_empty() && data(&scene, "b49", A).await?.is_empty());
    ensure!(serial(&scene).await? == before);
    Ok(())
}

async fn the_serial_rises_once_per_update(scene: Scene) -> Result<()> {
    let before = serial(&scene).await?;
    let two = ["x.@ 60 IN A 192.0.2.10", "y.@ 60 IN A 192.0.2.10"];
    apply(&scene, two.map(|line| add(&scene, line)).to_vec()).await?;
    ensure!(serial(&scene).await? == before + 1);
    apply(&scene, vec![empty(&scene, "x", A, class::ANY)]).await?;
    ensure!(serial(&scene).await? == before + 2);
    Ok(())
}

async fn an_update_without_effect_keeps_the_serial(scene: Scene) -> Result<()> {
    let before = serial(&scene).await?;
    apply(&scene, vec![add(&scene, "mail.@ 300 IN A 192.0.2.25")]).await?;
    apply(&scene, vec![empty(&scene, "missing", A, class::ANY)]).await?;
    apply(&scene, vec![]).await?;
    ensure!(serial(&scene).await? == before);
    Ok(())
}

async fn a_record_added_twice_is_there_once(scene: Scene) -> Result<()> {
    let row = add(&scene, "new.@ 60 IN A 192.0.2.10");
    apply(&scene, vec![row.clone(), row.clone()]).await?;
    apply(&scene, vec![row]).await?;
    ensure!(data(&scene, "new", A).await? == ["192.0.2.10"]);
    Ok(())
}

async fn one_record_is_removed_and_the_others_stay(scene: Scene) -> Result<()> {
    apply(&scene, vec![remove(&scene, "www.@ 0 IN A 192.0.2.1")]).await?;
    ensure!(data(&scene, "www", A).await? == ["192.0.2.2"]);
    ensure!(data(&scene, "www", Aaaa).await?.len() == 1);
    Ok(())
}

async fn removing_what_is_not_there_is_no_error(scene: Scene) -> Result<()> {
    apply(&scene, vec![remove(&scene, "www.@ 0 IN A 192.0.2.99")]).await?;
    apply(&scene, vec![remove(&scene, "missing.@ 0 IN A 192.0.2.99")]).await?;
    apply(
        &scene,
        vec![empty(&scene, "missing", Other(rtype::ANY), class::ANY)],
    )
    .await?;
    ensure!(data(&scene, "www", A).await?.len() == 2);
    Ok(())
}

async fn a_set_is_removed(scene: Scene) -> Result<()> {
    apply(&scene, vec![empty(&scene, "www", A, class::ANY)]).await?;
    ensure!(data(&scene, "www", A).await?.is_empty());
    ensure!(data(&scene, "www", Txt).await?.len() == 1);
    Ok(())
}

async fn all_sets_of_a_name_are_removed(scene: Scene) -> Result<()> {
    apply(
        &scene,
        vec![empty(&scene, "www", Other(rtype::ANY), class::ANY)],
    )
    .await?;
    let answer = ask::lookup(&scene, "www", A).await?;
    ensure!(answer.head.rcode == rcode::NXDOMAIN, "{answer:?}");
    Ok(())
}

async fn an_alias_beside_data_is_ignored(scene: Scene) -> Result<()> {
    let before = serial(&scene).await?;
    apply(&scene, vec![add(&scene, "www.@ 60 IN CNAME mail.@")]).await?;
    ensure!(data(&scene, "www", Cname).await?.is_empty());
    ensure!(data(&scene, "www", A).await?.len() == 2 && serial(&scene).await? == before);
    Ok(())
}

async fn data_beside_an_alias_is_ignored(scene: Scene) -> Result<()> {
    let before = serial(&scene).await?;
    apply(&scene, vec![add(&scene, "alias.@ 60 IN TXT \"x\"")]).await?;
    ensure!(data(&scene, "alias", Cname).await?.len() == 1);
    ensure!(serial(&scene).await? == before);
    Ok(())
}

async fn an_alias_replaces_an_alias(scene: Scene) -> Result<()> {
    apply(&scene, vec![add(&scene, "alias.@ 60 IN CNAME mail.@")]).await?;
    let found = data(&scene, "alias", Cname).await?;
    ensure!(found == [scene.name("mail").to_string()], "{found:?}");
    Ok(())
}

async fn data_makes_way_for_an_alias_in_one_update(scene: Scene) -> Result<()> {
    let rows = vec![
        empty(&scene, "mail", A, class::ANY),
        add(&scene, "mail.@ 60 IN CNAME www.@"),
    ];
    apply(&scene, rows).await?;
    ensure!(data(&scene, "mail", Cname).await?.len() == 1);
    Ok(())
}

async fn the_zone_keeps_its_soa_and_servers(scene: Scene) -> Result<()> {
    apply(
        &scene,
        vec![empty(&scene, "@", Other(rtype::ANY), class::ANY)],
    )
    .await?;
    ensure!(data(&scene, "@", Soa).await?.len() == 1 && data(&scene, "@", Ns).await?.len() == 1);
    ensure!(data(&scene, "@", Mx).await?.is_empty());
    for rtype in [Soa, Ns] {
        apply(&scene, vec![empty(&scene, "@", rtype, class::ANY)]).await?;
        ensure!(data(&scene, "@", rtype).await?.len() == 1, "{rtype}");
    }
    Ok(())
}

async fn the_last_server_of_the_zone_stays(scene: Scene) -> Result<()> {
    // BIND refuses a server of the zone that has no address in it.
    let rows = ["ns2.@ 300 IN A 192.0.2.54", "@ 300 IN NS ns2.@"];
    apply(&scene, rows.map(|line| add(&scene, line)).to_vec()).await?;
    apply(&scene, vec![remove(&scene, "@ 0 IN NS ns.@")]).await?;
    let found = data(&scene, "@", Ns).await?;
    ensure!(found == [scene.name("ns2").to_string()], "{found:?}");
    apply(&scene, vec![remove(&scene, "@ 0 IN NS ns2.@")]).await?;
    ensure!(data(&scene, "@", Ns).await?.len() == 1);
    Ok(())
}

async fn an_soa_with_an_older_serial_is_ignored(scene: Scene) -> Result<()> {
    apply(
        &scene,
        vec![add(&scene, "@ 3600 IN SOA x.@ y.@ 99 1 1 1 1")],
    )
    .await?;
    ensure!(serial(&scene).await? == 100);
    Ok(())
}

async fn an_soa_with_a_newer_serial_is_taken(scene: Scene) -> Result<()> {
    apply(
        &scene,
        vec![add(&scene, "@ 60 IN SOA x.@ y.@ 5000 1 2 3 4")],
    )
    .await?;
    let found = data(&scene, "@", Soa).await?;
    ensure!(
        found.len() == 1 && found[0].ends_with(" 5000 1 2 3 4"),
        "{found:?}"
    );
    apply(&scene, vec![add(&scene, "x.@ 60 IN A 192.0.2.10")]).await?;
    ensure!(serial(&scene).await? == 5001);
    Ok(())
}

async fn a_new_ttl_is_that_of_the_whole_set(scene: Scene) -> Result<()> {
    apply(&scene, vec![add(&scene, "www.@ 77 IN A 192.0.2.1")]).await?;
    let answer = ask::lookup(&scene, "www", A).await?;
    ensure!(answer.answer.len() == 2, "{answer:?}");
    ensure!(answer.answer.iter().all(|row| row.ttl == 77), "{answer:?}");
    Ok(())
}

async fn five_hundred_sets_fit_one_update(scene: Scene) -> Result<()> {
    let names: Vec<String> = (0..500).map(|number| format!("s{number}")).collect();
    let absent = names
        .iter()
        .map(|name| empty(&scene, name, A, class::NONE))
        .collect();
    let adds = names
        .iter()
        .map(|name| add(&scene, &format!("{name}.@ 60 IN A 192.0.2.10")));
    let before = serial(&scene).await?;
    let code = ask::signed(&scene, &ask::update(&scene, absent, adds.collect())).await?;
    ensure!(code == rcode::NOERROR, "{code}");
    ensure!(serial(&scene).await? == before + 1);
    ensure!(data(&scene, "s0", A).await?.len() == 1 && data(&scene, "s499", A).await?.len() == 1);
    Ok(())
}

async fn a_set_may_have_three_hundred_records(scene: Scene) -> Result<()> {
    let rows = (0..300)
        .map(|number| {
            let address = format!("10.0.{}.{}", number / 250, number % 250);
            add(&scene, &format!("many.@ 60 IN A {address}"))
        })
        .collect();
    apply(&scene, rows).await?;
    ensure!(data(&scene, "many", A).await?.len() == 300);
    Ok(())
}

async fn odd_host_names_are_taken(scene: Scene) -> Result<()> {
    let lines = [
        "my_host.@ 60 IN A 192.0.2.10",
        "-x-.@ 60 IN A 192.0.2.10",
        "mx.@ 60 IN MX 1 _m.@",
    ];
    apply(&scene, lines.map(|line| add(&scene, line)).to_vec()).await?;
    ensure!(
        data(&scene, "my_host", A).await?.len() == 1 && data(&scene, "-x-", A).await?.len() == 1
    );
    ensure!(data(&scene, "mx", Mx).await?.len() == 1);
    Ok(())
}

async fn names_with_escapes_are_taken(scene: Scene) -> Result<()> {
    for name in [
        "a\\.b",
        "sp\\032ace",
        "q\\\"uote",
        "hi\\255gh",
        "ze\\000ro",
        "semi\\;colon",
    ] {
        let row = WireRecord::new(
            scene.name(name),
            60,
            &scene.record("x.@ 60 IN A 192.0.2.10").data,
        );
        apply(&scene, vec![row]).await?;
        ensure!(data(&scene, name, A).await? == ["192.0.2.10"], "{name}");
    }
    Ok(())
}

async fn text_of_any_bytes_is_kept(scene: Scene) -> Result<()> {
    let bytes: Vec<u8> = (0..=255).collect();
    let text = RecordData::Txt(bindery_core::Text::from_bytes(&bytes));
    apply(&scene, vec![WireRecord::new(scene.name("t"), 60, &text)]).await?;
    let question = ask::question(&scene.name("t"), Txt.code());
    let answer = ask::tcp(scene.address, &question).await?;
    ensure!(answer.answer[0].data()? == text, "{answer:?}");
    Ok(())
}

async fn updates_of_one_connection_are_all_answered(scene: Scene) -> Result<()> {
    let mut stream = TcpStream::connect(scene.address).await?;
    for id in 0..50_u16 {
        let row = add(&scene, &format!("p{id}.@ 60 IN A 192.0.2.10"));
        let mut message = ask::update(&scene, vec![], vec![row]);
        message.head.id = id;
        ask::send(&mut stream, &ask::sign(&message, &scene.key)?.0).await?;
    }
    for _ in 0..50 {
        let answer = Message::parse(&ask::receive(&mut stream).await?)?;
        ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    }
    ensure!(data(&scene, "p49", A).await?.len() == 1);
    ensure!(serial(&scene).await? == 150);
    Ok(())
}

async fn two_writers_of_one_expectation_have_one_winner(scene: Scene) -> Result<()> {
    let attempts = (0..20).map(|number| {
        let row = add(&scene, &format!("once.@ 60 IN A 10.0.0.{number}"));
        let absent = vec![empty(&scene, "once", A, class::NONE)];
        let message = ask::update(&scene, absent, vec![row]);
        let scene = &scene;
        async move { ask::signed(scene, &message).await }
    });
    let codes: Vec<u8> = futures::future::try_join_all(attempts).await?;
    ensure!(
        codes.iter().filter(|code| **code != rcode::NOERROR).count() + 1 == codes.len(),
        "{codes:?}"
    );
    ensure!(data(&scene, "once", A).await?.len() == 1);
    Ok(())
}
