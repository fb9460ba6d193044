//! The serve gate, and what is told when something is broken. Each case has servers of its own.

use std::fs;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use bindery_core::Reason;
use bindery_sidecar::wire::{ExpectedZone, ExpectedZones, ReadyAnswer};
use futures::future::BoxFuture;

use crate::subject::{KEY, Kind, Subject, primary};

type Run = fn() -> BoxFuture<'static, Result<()>>;

pub(crate) fn cases() -> Vec<(&'static str, Run)> {
    vec![
        ("a_server_is_ready_when_it_has_what_it_should_have", || {
            Box::pin(a_server_is_ready_when_it_has_what_it_should_have())
        }),
        ("an_empty_folder_is_not_ready_before_it_is_filled", || {
            Box::pin(an_empty_folder_is_not_ready_before_it_is_filled())
        }),
        ("a_named_that_was_away_waits_for_the_serials_of_now", || {
            Box::pin(a_named_that_was_away_waits_for_the_serials_of_now())
        }),
        ("a_file_tells_what_there_should_be", || {
            Box::pin(a_file_tells_what_there_should_be())
        }),
        ("a_named_that_is_away_is_told", || {
            Box::pin(a_named_that_is_away_is_told())
        }),
        ("a_key_that_named_does_not_know_is_told", || {
            Box::pin(a_key_that_named_does_not_know_is_told())
        }),
        (
            "a_named_that_began_with_another_key_reads_the_right_one",
            || Box::pin(a_named_that_began_with_another_key_reads_the_right_one()),
        ),
        ("a_sidecar_that_is_away_is_told", || {
            Box::pin(a_sidecar_that_is_away_is_told())
        }),
    ]
}

fn expected(zone: &str, serial: u32) -> ExpectedZones {
    ExpectedZones {
        zones: vec![ExpectedZone {
            name: zone.to_owned(),
            serial: Some(serial),
        }],
    }
}

/// Asks until the answer is as it should be: one that was found a moment ago may be told again.
async fn until_ready(subject: &Subject, wanted: bool) -> Result<ReadyAnswer> {
    let deadline = std::time::Instant::now() + crate::subject::PATIENCE;
    loop {
        let answer = subject.client.ready().await?;
        if answer.ready == wanted {
            return Ok(answer);
        }
        ensure!(std::time::Instant::now() < deadline, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await; // pause between polls
    }
}

async fn a_server_is_ready_when_it_has_what_it_should_have() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &["--wait-for-expected"])?;
    let zone = "gate.test";
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(checks.contains("nobody has told"), "{checks}");
    // Zones alone are not enough, nor is the list.
    subject.client.create_zone(&primary(zone)).await?;
    until_ready(&subject, false).await?;
    subject.client.put_expected(&expected(zone, 101)).await?;
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(
        checks.contains("has serial 100 and should have 101"),
        "{checks}"
    );
    subject.client.put_expected(&expected(zone, 100)).await?;
    until_ready(&subject, true).await?;
    // A restart of the sidecar beside the same zones forgets nothing.
    subject.stop_sidecar();
    subject.start_sidecar()?;
    until_ready(&subject, true).await?;
    subject.client.delete_zone(zone).await?;
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(checks.contains("gate.test. is not loaded"), "{checks}");
    Ok(())
}

async fn an_empty_folder_is_not_ready_before_it_is_filled() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &["--wait-for-expected"])?;
    let zone = "lost.test";
    subject.client.create_zone(&primary(zone)).await?;
    subject.client.put_expected(&expected(zone, 100)).await?;
    until_ready(&subject, true).await?;
    // The pod comes back somewhere else.
    subject.stop_sidecar();
    subject.stop_named();
    fs::remove_dir_all(subject.zones())?;
    fs::create_dir(subject.zones())?;
    subject.start_named()?;
    subject.start_sidecar()?;
    until_ready(&subject, false).await?;
    subject.client.put_expected(&expected(zone, 100)).await?;
    until_ready(&subject, false).await?;
    subject.client.create_zone(&primary(zone)).await?;
    until_ready(&subject, true).await?;
    Ok(())
}

/// What became of the zone while it was away, only others know.
async fn a_named_that_was_away_waits_for_the_serials_of_now() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &["--wait-for-expected"])?;
    let zone = "stale.test";
    subject.client.create_zone(&primary(zone)).await?;
    subject.client.put_expected(&expected(zone, 100)).await?;
    until_ready(&subject, true).await?;
    // Its start is told by the second.
    let begun = SystemTime::now();
    while begun.elapsed()? < Duration::from_millis(1_100) {
        tokio::time::sleep(Duration::from_millis(20)).await; // pause between polls
    }
    subject.stop_named();
    subject.start_named()?;
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(
        checks.contains("named started anew") || checks.contains("rndc: error"),
        "{checks}"
    );
    // Whoever tells what there shall be is told that it is awaited.
    let deadline = std::time::Instant::now() + crate::subject::PATIENCE;
    while !matches!(subject.client.expected().await, Err(fault) if fault.code() == Some(404)) {
        ensure!(std::time::Instant::now() < deadline, "nothing is awaited");
        tokio::time::sleep(Duration::from_millis(20)).await; // pause between polls
    }
    subject.client.put_expected(&expected(zone, 101)).await?;
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(
        checks.contains("has serial 100 and should have 101"),
        "{checks}"
    );
    subject.client.put_expected(&expected(zone, 100)).await?;
    until_ready(&subject, true).await?;
    Ok(())
}

async fn a_file_tells_what_there_should_be() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("expected.yaml");
    let flag = file.display().to_string();
    let subject = Subject::start(Kind::Ours, &["--expected", &flag])?;
    until_ready(&subject, false).await?;
    fs::write(&file, "zones: []\n")?;
    until_ready(&subject, true).await?;
    fs::write(&file, "zones:\n- name: filed.test\n  serial: 100\n")?;
    until_ready(&subject, false).await?;
    subject.client.create_zone(&primary("filed.test")).await?;
    until_ready(&subject, true).await?;
    Ok(())
}

async fn a_named_that_is_away_is_told() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &[])?;
    let zone = "away.test";
    subject.client.create_zone(&primary(zone)).await?;
    until_ready(&subject, true).await?;
    subject.stop_named();
    let checks = until_ready(&subject, false).await?.checks.join(" ");
    ensure!(checks.contains("rndc: error"), "{checks}");
    let fault = subject.client.zone_status(zone).await.err();
    let fault = fault.context("nobody can say")?;
    ensure!(fault.reason() == Reason::GatewayError, "{fault}");
    ensure!(fault.message("p-0").contains("(503)"), "{fault}");
    // It heals by itself.
    subject.start_named()?;
    until_ready(&subject, true).await?;
    ensure!(subject.client.zone_status(zone).await?.serial == Some(100));
    Ok(())
}

async fn a_key_that_named_does_not_know_is_told() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &[])?;
    let wrong = bindery_dns::Key::generate("battery", [8; 32])?;
    let file = subject.path("wrong");
    fs::write(&file, wrong.to_key_file().as_bytes())?;
    subject.stop_sidecar();
    subject.start_sidecar_with(&file)?;
    let fault = subject.client.server_status().await.err();
    let fault = fault.context("the key is another one")?;
    ensure!(
        fault.reason() == Reason::RNDCAuthenticationFailed,
        "{fault}"
    );
    let message = fault.message("p-0");
    ensure!(message.contains("does not accept the key"), "{message}");
    until_ready(&subject, false).await?;
    subject.stop_sidecar();
    subject.start_sidecar()?;
    until_ready(&subject, true).await?;
    Ok(())
}

async fn a_named_that_began_with_another_key_reads_the_right_one() -> Result<()> {
    let keys = tempfile::tempdir()?;
    let right = bindery_dns::Key::generate(KEY, [7; 32])?;
    fs::write(keys.path().join("rndc.key"), right.to_key_file().as_bytes())?;
    let flag = keys.path().display().to_string();
    let subject = Subject::start(Kind::Ours, &["--keys-dir", &flag])?;
    until_ready(&subject, true).await?;
    // What it reads when it starts is wrong for a moment.
    let file = subject.path("key");
    let wrong = bindery_dns::Key::generate(KEY, [8; 32])?;
    fs::write(&file, wrong.to_key_file().as_bytes())?;
    subject.stop_named();
    subject.start_named()?;
    until_ready(&subject, false).await?;
    fs::write(&file, right.to_key_file().as_bytes())?;
    until_ready(&subject, true).await?;
    subject.client.server_status().await?;
    Ok(())
}

async fn a_sidecar_that_is_away_is_told() -> Result<()> {
    let subject = Subject::start(Kind::Ours, &[])?;
    subject.client.health().await?;
    subject.stop_sidecar();
    let fault = subject.client.health().await.err();
    let fault = fault.context("it has ended")?;
    ensure!(fault.reason() == Reason::BindcarUnreachable, "{fault}");
    let message = fault.message("p-0");
    ensure!(
        message.starts_with("Pod p-0 cannot connect to Bindcar API"),
        "{message}"
    );
    subject.start_sidecar()?;
    subject.client.health().await?;
    Ok(())
}
