//! Primaries that are kept alike: what one has become, written to another as one update.

use anyhow::{Context, Result, ensure};
use bindery_core::delta::Difference;
use bindery_core::{FaultKind, Serial};
use bindery_dns::local::Replication;
use bindery_dns::wire::rcode;
use bindery_engine::ports::NameServer;

use crate::pair::{
    self, Kinds, Member, PairCase, change, free_address, pair_cases, serial_of, steps,
};

pub(crate) fn cases() -> Vec<PairCase> {
    pair_cases![
        mirroring_makes_two_primaries_alike,
        mirroring_stops_where_the_target_has_moved,
        mirroring_what_does_not_fit_is_said,
    ]
}

/// Two primaries that begin alike and know nothing of each other.
async fn twins(kinds: Kinds) -> Result<(Member, Member)> {
    let mut one = Member::start(kinds.0, free_address()?, Replication::default()).await?;
    let mut other = Member::start(kinds.1, free_address()?, Replication::default()).await?;
    one.create(&pair::zone()).await?;
    other.create(&pair::zone()).await?;
    Ok((one, other))
}

async fn mirroring_makes_two_primaries_alike(kinds: Kinds) -> Result<()> {
    let (mut one, mut other) = twins(kinds).await?;
    let (source, target, zone) = (one.client(), other.client(), pair::zone());
    change(
        &one,
        &["new.@ 60 IN A 192.0.2.10", "brief.@ 60 IN A 192.0.2.10"],
    )
    .await?;
    // A new TTL, another kind of record in a name's place, and all name servers replaced.
    change(
        &one,
        &["- brief.@ 60 IN A 192.0.2.10", "www.@ 90 IN A 192.0.2.1"],
    )
    .await?;
    change(
        &one,
        &["- mail.@ 300 IN A 192.0.2.25", "mail.@ 60 IN CNAME www.@"],
    )
    .await?;
    change(
        &one,
        &["- alias.@ 300 IN CNAME www.@", "alias.@ 60 IN A 192.0.2.30"],
    )
    .await?;
    change(&one, &["@ 600 IN NS ns.example.net.", "- @ 600 IN NS ns.@"]).await?;
    let from = target.soa(&zone).await?;
    let before = serial_of(&from).context("no serial")?;
    target
        .mirror(&zone, &from, &steps(&one, before).await?)
        .await?;
    let (left, right) = (source.transfer(&zone).await?, target.transfer(&zone).await?);
    ensure!(left == right, "{left:#?} is not {right:#?}");
    ensure!(left.serial == Serial(105), "{}", left.serial);
    ensure!(source.soa(&zone).await? == target.soa(&zone).await?);
    // A leap of the serial is followed exactly, and the way back from it is known.
    let leap = "@ 3600 IN SOA ns.@ other.@ 2000 7200 900 1209600 30";
    change(&one, &[leap, "late.@ 60 IN A 192.0.2.11"]).await?;
    target
        .mirror(
            &zone,
            &target.soa(&zone).await?,
            &steps(&one, Serial(105)).await?,
        )
        .await?;
    let (left, right) = (source.transfer(&zone).await?, target.transfer(&zone).await?);
    ensure!(left == right && left.serial == Serial(2000), "{right:#?}");
    ensure!(steps(&other, Serial(105)).await? == steps(&one, Serial(105)).await?);
    one.stop().await?;
    other.stop().await
}

async fn mirroring_stops_where_the_target_has_moved(kinds: Kinds) -> Result<()> {
    let (mut one, mut other) = twins(kinds).await?;
    let (source, target, zone) = (one.client(), other.client(), pair::zone());
    let from = target.soa(&zone).await?;
    change(&one, &["new.@ 60 IN A 192.0.2.10"]).await?;
    change(&one, &["newer.@ 60 IN A 192.0.2.10"]).await?;
    change(&other, &["own.@ 60 IN A 192.0.2.11"]).await?;
    let before = target.transfer(&zone).await?;
    let sent = target
        .mirror(&zone, &from, &steps(&one, Serial(100)).await?)
        .await;
    let fault = sent.err().context("it was mirrored")?;
    ensure!(fault.is(FaultKind::Conflict, rcode::NXRRSET), "{fault:?}");
    ensure!(
        target.transfer(&zone).await? == before,
        "something was changed"
    );
    // The way from what the target has now leads to the same end.
    let whole = source.transfer(&zone).await?;
    let way = Difference::between(&zone, &before, &whole).context("no SOA")?;
    target
        .mirror(&zone, &target.soa(&zone).await?, &way)
        .await?;
    ensure!(target.transfer(&zone).await? == whole, "not alike");
    one.stop().await?;
    other.stop().await
}

async fn mirroring_what_does_not_fit_is_said(kinds: Kinds) -> Result<()> {
    let (mut one, mut other) = twins(kinds).await?;
    let (target, zone) = (other.client(), pair::zone());
    let from = target.soa(&zone).await?;
    let text = "x".repeat(200);
    let lines: Vec<String> = (0..200)
        .map(|number| format!("long{number}.@ 60 IN TXT \"{text}\""))
        .collect();
    change(&one, &lines).await?;
    let more: Vec<String> = lines
        .iter()
        .map(|line| line.replace("long", "more"))
        .collect();
    change(&one, &more).await?;
    let sent = target
        .mirror(&zone, &from, &steps(&one, Serial(100)).await?)
        .await;
    let kind = sent.err().map(|fault| fault.kind);
    ensure!(kind == Some(FaultKind::TooLarge), "{kind:?}");
    ensure!(target.serial(&zone).await? == Serial(100));
    one.stop().await?;
    other.stop().await
}
