//! Sizes: EDNS, truncation and what comes by TCP instead.

use anyhow::{Result, ensure};
use bindery_core::RecordType::{A, Txt};
use bindery_dns::wire::{Message, rcode, rtype};

use crate::ask::{self, edns, question};
use crate::scene::{Case, Scene, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        an_asker_with_edns_gets_edns,
        an_asker_without_edns_gets_none,
        another_version_of_edns_is_badvers,
        two_edns_records_are_a_format_error,
        an_answer_over_512_bytes_is_truncated_without_edns,
        an_answer_that_fits_the_askers_size_comes_whole,
        an_answer_over_the_askers_size_is_truncated,
        a_tiny_size_counts_as_512,
        a_truncated_answer_comes_whole_by_tcp,
        an_unknown_option_is_ignored,
        a_signed_answer_that_fits_is_not_truncated,
    ]
}

/// Adds a set of about `count` × 100 bytes and asks for it.
async fn texts(scene: &Scene, count: usize) -> Result<Message> {
    let rows = (0..count)
        .map(|number| {
            let text = format!("{number:03}{}", "t".repeat(80));
            ask::add(scene, &format!("big.@ 60 IN TXT \"{text}\""))
        })
        .collect();
    ask::apply(scene, rows).await?;
    Ok(question(&scene.name("big"), Txt.code()))
}

async fn an_asker_with_edns_gets_edns(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.additional.push(edns(1232, 0));
    let answer = ask::udp(scene.address, &request).await?;
    let option = answer.additional.iter().find(|row| row.rtype == rtype::OPT);
    ensure!(option.is_some_and(|row| row.class >= 512), "{answer:?}");
    Ok(())
}

async fn an_asker_without_edns_gets_none(scene: Scene) -> Result<()> {
    let answer = ask::udp(scene.address, &question(&scene.name("www"), A.code())).await?;
    ensure!(
        answer.additional.iter().all(|row| row.rtype != rtype::OPT),
        "{answer:?}"
    );
    Ok(())
}

async fn another_version_of_edns_is_badvers(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.additional.push(edns(1232, 1));
    let answer = ask::udp(scene.address, &request).await?;
    let option = answer.additional.iter().find(|row| row.rtype == rtype::OPT);
    ensure!(option.is_some_and(|row| row.ttl >> 24 == 1), "{answer:?}");
    ensure!(
        answer.head.rcode == 0 && answer.answer.is_empty(),
        "{answer:?}"
    );
    Ok(())
}

async fn two_edns_records_are_a_format_error(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    request.additional = vec![edns(1232, 0), edns(1232, 0)];
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(answer.head.rcode == rcode::FORMERR, "{answer:?}");
    Ok(())
}

async fn an_answer_over_512_bytes_is_truncated_without_edns(scene: Scene) -> Result<()> {
    let request = ask::bytes(&texts(&scene, 8).await?)?;
    let answer = ask::udp_bytes(scene.address, &request).await?;
    ensure!(answer.len() <= 512, "{} bytes", answer.len());
    ensure!(Message::parse(&answer)?.head.truncated);
    Ok(())
}

async fn an_answer_that_fits_the_askers_size_comes_whole(scene: Scene) -> Result<()> {
    let mut request = texts(&scene, 8).await?;
    request.additional.push(edns(1232, 0));
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(
        !answer.head.truncated && answer.answer.len() == 8,
        "{answer:?}"
    );
    Ok(())
}

async fn an_answer_over_the_askers_size_is_truncated(scene: Scene) -> Result<()> {
    let mut request = texts(&scene, 30).await?;
    request.additional.push(edns(1000, 0));
    let answer = ask::udp_bytes(scene.address, &ask::bytes(&request)?).await?;
    ensure!(answer.len() <= 1000, "{} bytes", answer.len());
    ensure!(Message::parse(&answer)?.head.truncated);
    Ok(())
}

async fn a_tiny_size_counts_as_512(scene: Scene) -> Result<()> {
    let mut request = texts(&scene, 3).await?;
    request.additional.push(edns(10, 0));
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(
        !answer.head.truncated && answer.answer.len() == 3,
        "{answer:?}"
    );
    Ok(())
}

async fn a_truncated_answer_comes_whole_by_tcp(scene: Scene) -> Result<()> {
    let request = texts(&scene, 400).await?;
    let answer = ask::tcp(scene.address, &request).await?;
    ensure!(
        !answer.head.truncated && answer.answer.len() == 400,
        "{}",
        answer.answer.len()
    );
    Ok(())
}

async fn an_unknown_option_is_ignored(scene: Scene) -> Result<()> {
    let mut request = question(&scene.name("www"), A.code());
    let mut option = edns(1232, 0);
    option.rdata = vec![0xff, 0xe0, 0, 2, 1, 2];
    request.additional.push(option);
    let answer = ask::udp(scene.address, &request).await?;
    ensure!(answer.answer.len() == 2, "{answer:?}");
    Ok(())
}

async fn a_signed_answer_that_fits_is_not_truncated(scene: Scene) -> Result<()> {
    let (request, _) = ask::sign(&question(&scene.name("www"), A.code()), &scene.key)?;
    let answer = Message::parse(&ask::udp_bytes(scene.address, &request).await?)?;
    ensure!(
        !answer.head.truncated && answer.answer.len() == 2,
        "{answer:?}"
    );
    let update = ask::update(
        &scene,
        vec![],
        vec![ask::add(&scene, "n.@ 60 IN A 192.0.2.1")],
    );
    let (request, _) = ask::sign(&update, &scene.key)?;
    let answer = Message::parse(&ask::udp_bytes(scene.address, &request).await?)?;
    ensure!(
        !answer.head.truncated && answer.head.rcode == rcode::NOERROR,
        "{answer:?}"
    );
    Ok(())
}
