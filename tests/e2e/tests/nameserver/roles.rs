//! Primaries and the secondaries that follow them.

use anyhow::{Context, Result, ensure};
use bindery_core::delta::Delta;
use bindery_core::{FaultKind, RecordType, Serial};
use bindery_dns::Key;
use bindery_dns::local::Replication;
use bindery_dns::wire::{Head, Message, Question, opcode, rcode};
use bindery_engine::ports::NameServer;

use crate::ask;
use crate::pair::{
    self, Kinds, Member, Pair, PairCase, change, eventually, free_address, pair_cases, serial_of,
    steps,
};
use crate::scene;
use crate::subject;

pub(crate) fn cases() -> Vec<PairCase> {
    pair_cases![
        a_copy_follows_an_update,
        two_hundred_updates_arrive,
        changes_travel_as_differences,
        many_differences_come_in_many_messages,
        a_copy_restarts_without_its_primary,
        a_copy_outlives_a_power_cut_without_its_primary,
        a_copy_looks_for_news_by_itself,
        a_copy_that_was_down_catches_up,
        a_copy_is_served_while_its_primary_is_down,
        a_copy_takes_no_updates,
        a_deleted_copy_is_gone_and_can_come_again,
        a_copy_made_before_its_zone_arrives_with_it,
        a_copy_that_was_handed_over_follows,
        a_copy_that_never_arrived_can_be_deleted,
        a_restarted_copy_follows_primaries_that_moved,
        any_primary_may_have_the_news,
        word_of_a_change_with_a_wrong_key_is_ignored,
        a_primarys_address_stands_for_its_word,
        differences_from_an_unknown_serial_are_the_whole_zone,
        differences_survive_a_restart,
    ]
}

async fn a_copy_follows_an_update(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    let question = ask::question(&scene::named(&pair.zone, "h1"), RecordType::A.code());
    let answer = ask::udp(pair.secondary.address, &question).await?;
    ensure!(
        answer.head.authoritative && answer.answer.len() == 1,
        "{answer:?}"
    );
    pair.stop().await
}

async fn two_hundred_updates_arrive(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    for number in 0..200 {
        pair.add_host(number).await?;
    }
    let serial = pair.primary.client().serial(&pair.zone).await?;
    ensure!(serial == Serial(300), "{serial}");
    pair.until_copied().await?;
    pair.stop().await
}

async fn changes_travel_as_differences(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    for number in 1..4 {
        pair.add_host(number).await?;
    }
    pair.until_copied().await?;
    // A copy knows the way only if it came by it.
    for member in [&pair.primary, &pair.secondary] {
        let steps = steps(member, Serial(100)).await?;
        ensure!(steps.removed.is_empty(), "{steps:?}");
        let mut added: Vec<String> = steps.added.iter().map(ToString::to_string).collect();
        added.sort();
        let line = |number| format!("h{number}.{} 60 IN A 192.0.2.{number}", pair.zone);
        ensure!(added == [line(1), line(2), line(3)], "{added:?}");
        ensure!(serial_of(&steps.to) == Some(Serial(103)), "{steps:?}");
        let current = member
            .client()
            .changes_since(&pair.zone, Serial(103))
            .await?;
        ensure!(current == Delta::UpToDate(Serial(103)), "{current:?}");
    }
    pair.stop().await
}

async fn many_differences_come_in_many_messages(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    for hundreds in 0..6 {
        let line = |number: u32| format!("m{hundreds}-{number}.@ 60 IN A 192.0.2.1");
        let lines: Vec<String> = (0..500).map(line).collect();
        change(&pair.primary, &lines).await?;
    }
    let steps = steps(&pair.primary, Serial(100)).await?;
    ensure!(steps.added.len() == 3_000, "{}", steps.added.len());
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_restarts_without_its_primary(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    let before = pair.secondary.client().transfer(&pair.zone).await?;
    pair.primary.stop().await?;
    pair.secondary.stop().await?;
    pair.secondary.start_again().await?;
    let after = pair.secondary.client().transfer(&pair.zone).await?;
    ensure!(after == before, "{after:#?} is not {before:#?}");
    pair.secondary.stop().await
}

async fn a_copy_outlives_a_power_cut_without_its_primary(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    let before = pair.secondary.client().transfer(&pair.zone).await?;
    pair.primary.kill().await?;
    pair.secondary.kill().await?;
    pair.secondary.start_again().await?;
    let after = pair.secondary.client().transfer(&pair.zone).await?;
    ensure!(after == before, "{after:#?} is not {before:#?}");
    pair.secondary.stop().await
}

/// Has a primary tell nobody from now on.
async fn silence(primary: &mut Member) -> Result<()> {
    primary.stop().await?;
    primary.role = Replication::default();
    primary.start_again().await
}

async fn a_copy_looks_for_news_by_itself(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    let often = "@ 3600 IN SOA ns.@ hostmaster.@ 200 1 1 1209600 30";
    change(&pair.primary, &[often]).await?;
    pair.until_copied().await?;
    silence(&mut pair.primary).await?;
    for number in 1..3 {
        pair.add_host(number).await?;
        pair.until_copied().await?;
    }
    pair.stop().await
}

async fn a_copy_that_was_down_catches_up(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.secondary.kill().await?;
    pair.add_host(1).await?;
    pair.add_host(2).await?;
    pair.secondary.start_again().await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_is_served_while_its_primary_is_down(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    pair.primary.kill().await?;
    let question = ask::question(&scene::named(&pair.zone, "h1"), RecordType::A.code());
    let answer = ask::udp(pair.secondary.address, &question).await?;
    ensure!(answer.answer.len() == 1, "{answer:?}");
    pair.primary.start_again().await?;
    pair.add_host(2).await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_takes_no_updates(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    let update = [pair::host(&pair.zone, 1)];
    let sent = pair.secondary.client().update(&pair.zone, &update).await;
    let fault = sent.err().context("a copy was updated")?;
    let mut codes = [rcode::REFUSED, rcode::NOTIMP].into_iter();
    ensure!(
        codes.any(|code| fault.is(FaultKind::Refused, code)),
        "{fault:?}"
    );
    let serial = pair.secondary.client().serial(&pair.zone).await?;
    ensure!(serial == Serial(100), "{serial}");
    pair.stop().await
}

async fn a_deleted_copy_is_gone_and_can_come_again(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.secondary.delete(&pair.zone).await?;
    let secondary = pair.secondary.client();
    let kind = secondary
        .serial(&pair.zone)
        .await
        .err()
        .map(|fault| fault.kind);
    ensure!(kind == Some(FaultKind::Missing), "{kind:?}");
    pair.secondary.delete(&pair.zone).await?;
    pair.secondary.create(&pair.zone).await?;
    pair.secondary.create(&pair.zone).await?;
    pair.until_copied().await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_made_before_its_zone_arrives_with_it(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::start(kinds).await?;
    pair.secondary.create(&pair.zone).await?;
    let secondary = pair.secondary.client();
    let failed = Some(FaultKind::ServerFailed);
    let kind = secondary
        .serial(&pair.zone)
        .await
        .err()
        .map(|fault| fault.kind);
    ensure!(kind == failed, "{kind:?}");
    // What has not arrived is not handed on as an empty zone.
    let handed_on = secondary.transfer(&pair.zone).await;
    ensure!(handed_on.is_err(), "{handed_on:?}");
    // Making it again does no harm.
    pair.secondary.create(&pair.zone).await?;
    pair.primary.create(&pair.zone).await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_that_was_handed_over_follows(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::start(kinds).await?;
    pair.primary.create(&pair.zone).await?;
    // As old as what another server of the zone may have handed over.
    pair.add_host(1).await?;
    let old = scene::records(&pair.zone);
    pair.secondary.create_with(&pair.zone, &old).await?;
    pair.until_copied().await?;
    pair.add_host(2).await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_copy_that_never_arrived_can_be_deleted(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::start(kinds).await?;
    pair.secondary.create(&pair.zone).await?;
    pair.secondary.delete(&pair.zone).await?;
    pair.secondary.stop().await?;
    pair.secondary.start_again().await?;
    let found = pair.secondary.client().serial(&pair.zone).await;
    let kind = found.err().map(|fault| fault.kind);
    ensure!(kind == Some(FaultKind::Missing), "{kind:?}");
    pair.stop().await
}

async fn a_restarted_copy_follows_primaries_that_moved(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.primary.stop().await?;
    pair.secondary.stop().await?;
    pair.primary.address = free_address()?;
    pair.secondary.role = Replication::Secondary {
        primaries: vec![pair.primary.address],
    };
    pair.primary.start_again().await?;
    pair.secondary.start_again().await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    pair.stop().await
}

async fn any_primary_may_have_the_news(kinds: Kinds) -> Result<()> {
    let addresses = [free_address()?, free_address()?, free_address()?];
    let zone = pair::zone();
    let role = || Replication::Primary {
        notify: vec![addresses[2]],
    };
    let mut first = Member::start(kinds.0, addresses[0], role()).await?;
    let mut second = Member::start(kinds.0, addresses[1], role()).await?;
    let primaries = addresses[..2].to_vec();
    let mut secondary =
        Member::start(kinds.1, addresses[2], Replication::Secondary { primaries }).await?;
    for member in [&mut first, &mut second, &mut secondary] {
        member.create(&zone).await?;
    }
    // Only the second has it, while the first answers and then does not.
    for number in [1, 2] {
        second
            .client()
            .update(&zone, &[pair::host(&zone, number)])
            .await?;
        let wanted = second.client().transfer(&zone).await?;
        eventually("the news arrive", || async {
            Ok(secondary.client().transfer(&zone).await? == wanted)
        })
        .await?;
        if number == 1 {
            first.stop().await?;
        }
    }
    secondary.stop().await?;
    second.stop().await
}

/// Word of a change of the zone.
fn notice() -> Message {
    Message {
        head: Head {
            id: 0x4444,
            opcode: opcode::NOTIFY,
            authoritative: true,
            ..Head::default()
        },
        question: vec![Question::new(pair::zone(), RecordType::Soa.code())],
        ..Message::default()
    }
}

/// The response code to word of a change, signed with a key.
async fn notified(member: &Member, key: &Key) -> Result<u8> {
    let (bytes, _) = ask::sign(&notice(), key)?;
    let answer = ask::udp_bytes(member.address, &bytes).await?;
    Ok(Message::parse(&answer)?.head.rcode)
}

async fn word_of_a_change_with_a_wrong_key_is_ignored(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    silence(&mut pair.primary).await?;
    pair.add_host(1).await?;
    let code = notified(&pair.secondary, &Key::generate("bindery-test", [1; 32])?).await?;
    ensure!(code == rcode::NOTAUTH, "{code}");
    let code = notified(&pair.secondary, &Key::generate("stranger", [42; 32])?).await?;
    ensure!(code == rcode::NOTAUTH, "{code}");
    let serial = pair.secondary.client().serial(&pair.zone).await?;
    ensure!(serial == Serial(100), "{serial}");
    let code = notified(&pair.secondary, &subject::key()).await?;
    ensure!(code == rcode::NOERROR, "{code}");
    pair.until_copied().await?;
    pair.stop().await
}

async fn a_primarys_address_stands_for_its_word(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    silence(&mut pair.primary).await?;
    pair.add_host(1).await?;
    // Without a signature, but from the address that the primary has.
    let answer = ask::udp(pair.secondary.address, &notice()).await?;
    ensure!(answer.head.rcode == rcode::NOERROR, "{answer:?}");
    pair.until_copied().await?;
    pair.stop().await
}

async fn differences_from_an_unknown_serial_are_the_whole_zone(kinds: Kinds) -> Result<()> {
    let pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    for member in [&pair.primary, &pair.secondary] {
        let client = member.client();
        let delta = client.changes_since(&pair.zone, Serial(7)).await?;
        let whole = client.transfer(&pair.zone).await?;
        ensure!(delta == Delta::Whole(whole), "{delta:?}");
    }
    pair.stop().await
}

async fn differences_survive_a_restart(kinds: Kinds) -> Result<()> {
    let mut pair = Pair::copied(kinds).await?;
    pair.add_host(1).await?;
    pair.until_copied().await?;
    pair.primary.kill().await?;
    pair.primary.start_again().await?;
    let steps = steps(&pair.primary, Serial(100)).await?;
    ensure!(steps.added.len() == 1, "{steps:?}");
    pair.stop().await
}
