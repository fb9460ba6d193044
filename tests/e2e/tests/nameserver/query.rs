//! Questions of every kind.

use std::time::Duration;

use anyhow::{Result, ensure};
use bindery_core::RecordType::{A, Aaaa, Caa, Cname, Mx, Ns, Other, Ptr, Soa, Srv, Txt};
use bindery_core::{Name, RecordData};
use bindery_dns::wire::{Message, Question, WireRecord, class, rcode, rtype};
use tokio::net::{TcpStream, UdpSocket};

use crate::ask::{self, data, data_of, lookup, question};
use crate::scene::{Case, Scene, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        an_address_is_answered_by_udp,
        an_address_is_answered_by_tcp,
        answers_are_authoritative_and_offer_no_recursion,
        the_question_is_repeated_as_it_was_spelled,
        the_id_and_the_wish_for_recursion_are_repeated,
        each_of_the_nine_types_is_served,
        an_unknown_type_is_served_as_it_is,
        names_are_the_same_in_any_case,
        names_with_dots_and_zeros_in_labels_are_served,
        a_missing_name_is_nxdomain_with_the_soa,
        negative_answers_live_as_long_as_the_soa_says,
        a_missing_type_is_nodata_with_the_soa,
        a_name_that_only_has_names_below_it_is_nodata,
        a_wildcard_answers_for_missing_names,
        a_wildcard_answers_for_names_several_labels_below,
        a_wildcard_does_not_answer_for_names_that_exist,
        a_wildcard_does_not_answer_below_names_that_exist,
        a_wildcard_without_the_type_is_nodata,
        a_wildcard_can_be_asked_for_itself,
        a_wildcard_may_be_an_alias,
        a_chain_of_aliases_is_followed,
        an_alias_can_be_asked_for_itself,
        a_loop_of_aliases_ends,
        an_alias_out_of_the_zone_is_left_to_the_asker,
        an_alias_to_nothing_is_nxdomain_with_the_alias,
        an_alias_without_the_type_is_nodata_with_the_alias,
        a_delegation_is_referred_with_glue,
        names_below_a_delegation_are_referred,
        the_parent_answers_for_the_signer_of_a_delegation,
        other_zones_are_refused,
        the_parent_of_a_zone_is_refused,
        another_class_is_refused,
        any_gets_at_least_one_set,
        the_soa_and_the_servers_of_the_zone_are_answered,
        many_questions_on_one_connection_are_all_answered,
        an_unknown_operation_is_not_implemented,
        two_questions_are_a_format_error,
        an_answer_is_not_answered,
        rubbish_does_no_harm,
        a_connection_with_rubbish_does_not_harm_others,
        a_long_text_comes_in_pieces_of_255_bytes,
    ]
}

async fn an_address_is_answered_by_udp(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "www", A).await?;
    let found = data_of(&answer.answer, &scene.name("www"), A);
    ensure!(found == ["192.0.2.1", "192.0.2.2"], "{answer:?}");
    ensure!(
        answer
            .answer
            .iter()
            .all(|row| row.ttl == 300 && row.class == class::IN)
    );
    Ok(())
}

async fn an_address_is_answered_by_tcp(scene: Scene) -> Result<()> {
    let found = data(&scene, "www", Aaaa).await?;
    ensure!(found == ["2001:db8::1"], "{found:?}");
    Ok(())
}

async fn answers_are_authoritative_and_offer_no_recursion(scene: Scene) -> Result<()> {
    let request = ask::bytes(&question(&scene.name("www"), A.code()))?;
    let answer = ask::udp_bytes(scene.address, &request).await?;
    ensure!(answer[2] & 0x04 != 0, "not authoritative");
    ensure!(answer[3] & 0x80 == 0, "offers recursion");
    Ok(())
}

async fn the_question_is_repeated_as_it_was_spelled(scene: Scene) -> Result<()> {
    let name = scene.name("www");
    let mut request = question(&name, A.code());
    let spelled: Vec<u8> = name.as_wire().to_ascii_uppercase();
    request.question[0].spelled = spelled.clone().into();
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(*answer.question[0].spelled == spelled, "{answer:?}");
    ensure!(answer.answer.len() == 2);
    Ok(())
}

async fn the_id_and_the_wish_for_recursion_are_repeated(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.head.id = 0xbeef;
    request.head.recursion_desired = true;
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(answer.head.recursion_desired && answer.head.id == 0xbeef);
    Ok(())
}

async fn each_of_the_nine_types_is_served(scene: Scene) -> Result<()> {
    let www = format!("www.{}", scene.zone);
    for (name, rtype, wanted) in [
        ("mail", A, "192.0.2.25".to_owned()),
        ("www", Aaaa, "2001:db8::1".to_owned()),
        ("alias", Cname, www.clone()),
        ("www", Txt, "\"hello\" \"world\"".to_owned()),
        ("@", Mx, format!("10 mail.{}", scene.zone)),
        ("@", Ns, format!("ns.{}", scene.zone)),
        ("_sip._tcp", Srv, format!("1 2 5060 {www}")),
        ("@", Caa, "0 issue \"ca.example.net\"".to_owned()),
        ("1.ptr", Ptr, www.clone()),
    ] {
        let found = data(&scene, name, rtype).await?;
        ensure!(found == [wanted], "{name} {rtype}: {found:?}");
    }
    Ok(())
}

async fn an_unknown_type_is_served_as_it_is(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "odd", Other(65_280)).await?;
    ensure!(
        answer.answer.len() == 1 && answer.answer[0].rdata == [1, 2, 3],
        "{answer:?}"
    );
    Ok(())
}

async fn names_are_the_same_in_any_case(scene: Scene) -> Result<()> {
    let found = data(&scene, "WwW", A).await?;
    ensure!(found.len() == 2, "{found:?}");
    Ok(())
}

async fn names_with_dots_and_zeros_in_labels_are_served(scene: Scene) -> Result<()> {
    let found = data(&scene, "a\\.b\\000c", A).await?;
    ensure!(found == ["192.0.2.77"], "{found:?}");
    ensure!(lookup(&scene, "a.b\\000c", A).await?.head.rcode == rcode::NXDOMAIN);
    Ok(())
}

fn has_soa(answer: &Message, zone: &Name) -> bool {
    answer.answer.is_empty()
        && answer.authority.len() == 1
        && answer.authority[0].name == *zone
        && answer.authority[0].rtype == Soa.code()
}

async fn a_missing_name_is_nxdomain_with_the_soa(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "missing", A).await?;
    ensure!(
        answer.head.rcode == rcode::NXDOMAIN && answer.head.authoritative,
        "{answer:?}"
    );
    ensure!(has_soa(&answer, &scene.zone), "{answer:?}");
    Ok(())
}

async fn negative_answers_live_as_long_as_the_soa_says(scene: Scene) -> Result<()> {
    for name in ["missing", "mail"] {
        let answer = lookup(&scene, name, Txt).await?;
        ensure!(
            answer.authority.first().is_some_and(|row| row.ttl == 30),
            "{answer:?}"
        );
    }
    Ok(())
}

async fn a_missing_type_is_nodata_with_the_soa(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "mail", Aaaa).await?;
    ensure!(
        answer.head.rcode == rcode::NOERROR && answer.head.authoritative,
        "{answer:?}"
    );
    ensure!(has_soa(&answer, &scene.zone), "{answer:?}");
    Ok(())
}

async fn a_name_that_only_has_names_below_it_is_nodata(scene: Scene) -> Result<()> {
    for name in ["ent", "_tcp", "wild"] {
        let answer = lookup(&scene, name, A).await?;
        ensure!(answer.head.rcode == rcode::NOERROR, "{name}: {answer:?}");
        ensure!(has_soa(&answer, &scene.zone), "{name}: {answer:?}");
    }
    Ok(())
}

async fn a_wildcard_answers_for_missing_names(scene: Scene) -> Result<()> {
    let found = data(&scene, "anything.wild", A).await?;
    ensure!(found == ["192.0.2.9"], "{found:?}");
    Ok(())
}

async fn a_wildcard_answers_for_names_several_labels_below(scene: Scene) -> Result<()> {
    let found = data(&scene, "x.y.z.wild", A).await?;
    ensure!(found == ["192.0.2.9"], "{found:?}");
    Ok(())
}

async fn a_wildcard_does_not_answer_for_names_that_exist(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "real.wild", A).await?;
    ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    ensure!(has_soa(&answer, &scene.zone), "{answer:?}");
    Ok(())
}

async fn a_wildcard_does_not_answer_below_names_that_exist(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "x.real.wild", A).await?;
    ensure!(answer.head.rcode == rcode::NXDOMAIN, "{answer:?}");
    Ok(())
}

async fn a_wildcard_without_the_type_is_nodata(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "x.wild", Aaaa).await?;
    ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    ensure!(has_soa(&answer, &scene.zone), "{answer:?}");
    Ok(())
}

async fn a_wildcard_can_be_asked_for_itself(scene: Scene) -> Result<()> {
    let found = data(&scene, "*.wild", A).await?;
    ensure!(found == ["192.0.2.9"], "{found:?}");
    Ok(())
}

async fn a_wildcard_may_be_an_alias(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "x.wc", A).await?;
    let www = scene.name("www");
    ensure!(data_of(&answer.answer, &scene.name("x.wc"), Cname) == [www.to_string()]);
    ensure!(data_of(&answer.answer, &www, A).len() == 2, "{answer:?}");
    Ok(())
}

async fn a_chain_of_aliases_is_followed(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "chain", A).await?;
    ensure!(answer.answer.len() == 4, "{answer:?}");
    ensure!(answer.answer[0].name == scene.name("chain") && answer.head.authoritative);
    ensure!(answer.answer[1].name == scene.name("alias"));
    ensure!(data_of(&answer.answer, &scene.name("www"), A).len() == 2);
    Ok(())
}

async fn an_alias_can_be_asked_for_itself(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "chain", Cname).await?;
    ensure!(answer.answer.len() == 1, "{answer:?}");
    Ok(())
}

async fn a_loop_of_aliases_ends(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "loop1", A).await?;
    ensure!(
        data_of(&answer.answer, &scene.name("loop1"), A).is_empty(),
        "{answer:?}"
    );
    ensure!(data(&scene, "www", A).await?.len() == 2);
    Ok(())
}

async fn an_alias_out_of_the_zone_is_left_to_the_asker(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "out", A).await?;
    ensure!(
        answer.head.rcode == rcode::NOERROR && answer.answer.len() == 1,
        "{answer:?}"
    );
    Ok(())
}

async fn an_alias_to_nothing_is_nxdomain_with_the_alias(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "broken", A).await?;
    ensure!(answer.head.rcode == rcode::NXDOMAIN, "{answer:?}");
    ensure!(
        answer.answer.len() == 1 && answer.authority.len() == 1,
        "{answer:?}"
    );
    Ok(())
}

async fn an_alias_without_the_type_is_nodata_with_the_alias(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "alias", Mx).await?;
    ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    ensure!(
        answer.answer.len() == 1 && answer.authority.len() == 1,
        "{answer:?}"
    );
    Ok(())
}

fn is_referral(answer: &Message, scene: &Scene) -> bool {
    let cut = scene.name("sub");
    !answer.head.authoritative
        && answer.head.rcode == rcode::NOERROR
        && answer.answer.is_empty()
        && data_of(&answer.authority, &cut, Ns).len() == 2
        && data_of(&answer.additional, &scene.name("ns.sub"), A) == ["192.0.2.60"]
}

async fn a_delegation_is_referred_with_glue(scene: Scene) -> Result<()> {
    for rtype in [Ns, A, Soa] {
        let answer = lookup(&scene, "sub", rtype).await?;
        ensure!(is_referral(&answer, &scene), "{rtype}: {answer:?}");
    }
    Ok(())
}

async fn names_below_a_delegation_are_referred(scene: Scene) -> Result<()> {
    for name in ["x.sub", "hidden.sub", "ns.sub", "a.b.c.sub"] {
        let answer = lookup(&scene, name, Txt).await?;
        ensure!(is_referral(&answer, &scene), "{name}: {answer:?}");
    }
    Ok(())
}

async fn the_parent_answers_for_the_signer_of_a_delegation(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "sub", Other(43)).await?;
    ensure!(
        answer.head.authoritative && has_soa(&answer, &scene.zone),
        "{answer:?}"
    );
    Ok(())
}

async fn other_zones_are_refused(scene: Scene) -> Result<()> {
    let name = Name::parse("www.example.org.")?;
    let answer = ask::udp(scene.address, &question(&name, A.code())).await?;
    ensure!(
        answer.head.rcode == rcode::REFUSED && answer.answer.is_empty(),
        "{answer:?}"
    );
    Ok(())
}

async fn the_parent_of_a_zone_is_refused(scene: Scene) -> Result<()> {
    for name in [Name::parse("test.")?, Name::root()] {
        let answer = ask::udp(scene.address, &question(&name, Soa.code())).await?;
        ensure!(answer.head.rcode == rcode::REFUSED, "{answer:?}");
    }
    Ok(())
}

async fn another_class_is_refused(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.question[0].class = 4;
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(
        answer.head.rcode != rcode::NOERROR && answer.answer.is_empty(),
        "{answer:?}"
    );
    Ok(())
}

async fn any_gets_at_least_one_set(scene: Scene) -> Result<()> {
    let answer = ask::tcp(scene.address, &question(&scene.name("www"), rtype::ANY)).await?;
    ensure!(!answer.answer.is_empty(), "{answer:?}");
    ensure!(
        answer
            .answer
            .iter()
            .all(|row| row.name == scene.name("www")),
        "{answer:?}"
    );
    Ok(())
}

async fn the_soa_and_the_servers_of_the_zone_are_answered(scene: Scene) -> Result<()> {
    let answer = lookup(&scene, "@", Soa).await?;
    let Some(Ok(RecordData::Soa(soa))) = answer.answer.first().map(WireRecord::data) else {
        anyhow::bail!("{answer:?}");
    };
    ensure!(soa.serial == 100 && soa.minimum == 30 && answer.head.authoritative);
    let answer = lookup(&scene, "@", Ns).await?;
    ensure!(data_of(&answer.answer, &scene.zone, Ns).len() == 1 && answer.head.authoritative);
    Ok(())
}

async fn many_questions_on_one_connection_are_all_answered(scene: Scene) -> Result<()> {
    let mut stream = TcpStream::connect(scene.address).await?;
    for id in 0..200 {
        let mut request = question(&scene.name("www"), A.code());
        request.head.id = id;
        ask::send(&mut stream, &ask::bytes(&request)?).await?;
    }
    let mut ids = Vec::new();
    for _ in 0..200 {
        let answer = Message::parse(&ask::receive(&mut stream).await?)?;
        ensure!(answer.answer.len() == 2);
        ids.push(answer.head.id);
    }
    ids.sort_unstable();
    ensure!(ids == (0..200).collect::<Vec<_>>());
    Ok(())
}

async fn an_unknown_operation_is_not_implemented(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.head.opcode = 2;
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(answer.head.rcode == rcode::NOTIMP, "{answer:?}");
    Ok(())
}

async fn two_questions_are_a_format_error(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request
        .question
        .push(Question::new(scene.name("mail"), A.code()));
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(answer.head.rcode == rcode::FORMERR, "{answer:?}");
    Ok(())
}

async fn an_answer_is_not_answered(scene: Scene) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(scene.address).await?;
    let mut request = question(&scene.name("www"), A.code());
    request.head.response = true;
    socket.send(&ask::bytes(&request)?).await?;
    request.head.response = false;
    request.head.id = 2;
    socket.send(&ask::bytes(&request)?).await?;
    let mut buffer = [0; 512];
    let length = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer)).await??;
    ensure!(Message::parse(&buffer[..length])?.head.id == 2);
    Ok(())
}

async fn rubbish_does_no_harm(scene: Scene) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(scene.address).await?;
    let good = ask::bytes(&question(&scene.name("www"), A.code()))?;
    for length in 0..good.len() {
        // An error for one of these may come back as an error of the socket.
        socket.send(&good[..length]).await.ok();
    }
    let mut pointer_loop = good.clone();
    pointer_loop[12] = 0xc0;
    pointer_loop[13] = 12;
    socket.send(&pointer_loop).await?;
    ensure!(data(&scene, "www", A).await?.len() == 2);
    Ok(())
}

async fn a_connection_with_rubbish_does_not_harm_others(scene: Scene) -> Result<()> {
    let mut stream = TcpStream::connect(scene.address).await?;
    ask::send(&mut stream, &[0xff; 40]).await?;
    let mut half = TcpStream::connect(scene.address).await?;
    tokio::io::AsyncWriteExt::write_all(&mut half, &[0xff, 0xff, 1, 2, 3]).await?;
    ensure!(data(&scene, "www", A).await?.len() == 2);
    drop((stream, half));
    Ok(())
}

async fn a_long_text_comes_in_pieces_of_255_bytes(scene: Scene) -> Result<()> {
    let text = "x".repeat(600);
    let long = bindery_core::Text::from_bytes(text.as_bytes());
    let row = WireRecord::new(scene.name("long"), 60, &RecordData::Txt(long));
    ask::apply(&scene, vec![row]).await?;
    let answer = ask::tcp(scene.address, &question(&scene.name("long"), Txt.code())).await?;
    let rdata = &answer.answer[0].rdata;
    ensure!(rdata.len() == 603 && rdata[0] == 255 && rdata[256] == 255 && rdata[512] == 90);
    Ok(())
}
