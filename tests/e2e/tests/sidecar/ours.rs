//! What our sidecar does better than the one whose API it has.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use bindery_core::{Reason, RecordType};
use bindery_sidecar::SidecarFault;
use bindery_sidecar::wire::{AddedRecord, DsPlace, DsSeen, ZonePatch};

use crate::subject::{Kind, Subject, primary, record, secondary};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        making_a_zone_again_touches_nothing_of_it,
        of_many_who_make_a_zone_one_does,
        a_secondary_is_listed_before_it_has_data,
        whom_to_tell_may_have_a_port,
        a_record_that_named_ignores_is_not_called_added,
        a_zone_of_ten_thousand_records_is_made_in_one_call,
        what_named_refuses_is_told_in_its_words_and_leaves_nothing,
        a_key_that_is_not_there_is_not_found,
    ]
}

fn code<T>(outcome: Result<T, SidecarFault>) -> Option<u16> {
    outcome.err().and_then(|fault| fault.code())
}

fn address(name: &str, value: &str) -> AddedRecord {
    AddedRecord {
        name: name.to_owned(),
        rtype: "A".to_owned(),
        value: value.to_owned(),
        ttl: 60,
        priority: None,
    }
}

async fn making_a_zone_again_touches_nothing_of_it(_: &Subject) -> Result<()> {
    // One of its own: its `named` is started anew.
    let subject = Subject::start(Kind::Ours, &[])?;
    let zone = "kept.test";
    subject.client.create_zone(&primary(zone)).await?;
    subject
        .client
        .add_record(zone, &address("later", "192.0.2.7"))
        .await?;
    let journal = subject.zones().join("kept.test.zone.jnl");
    let before = (
        fs::read(subject.zones().join("kept.test.zone"))?,
        fs::read(&journal).context("an update is in the journal")?,
    );
    let mut other = primary(zone);
    other.zone_config.records.clear();
    ensure!(code(subject.client.create_zone(&other).await) == Some(409));
    let after = (
        fs::read(subject.zones().join("kept.test.zone"))?,
        fs::read(&journal)?,
    );
    ensure!(before == after, "its files are other ones");
    subject.stop_named();
    subject.start_named()?;
    subject.until_served(zone, "later", "192.0.2.7").await?;
    subject.until_served(zone, "www", "192.0.2.1").await
}

async fn of_many_who_make_a_zone_one_does(subject: &Subject) -> Result<()> {
    let zone = "race.test";
    let attempts = (0..8).map(|number| async move {
        let mut new = primary(zone);
        new.zone_config.records = vec![record("www", "A", &format!("192.0.2.{number}"))];
        let made = subject.client.create_zone(&new).await;
        (number, made)
    });
    let made = futures::future::join_all(attempts).await;
    let winners: Vec<i32> = made
        .iter()
        .filter(|(_, made)| made.is_ok())
        .map(|(number, _)| *number)
        .collect();
    let [winner] = winners[..] else {
        anyhow::bail!("{winners:?} have made it");
    };
    let others = made.into_iter().filter_map(|(_, made)| made.err());
    for fault in others {
        ensure!(fault.code() == Some(409), "{fault}");
    }
    let served = subject.served(zone, "www", RecordType::A).await?;
    ensure!(served == [format!("192.0.2.{winner}")], "{served:?}");
    Ok(())
}

async fn a_secondary_is_listed_before_it_has_data(subject: &Subject) -> Result<()> {
    let zone = "copy.test";
    let client = &subject.client;
    // Nobody answers there.
    client.create_zone(&secondary(zone, "127.0.0.1:1")).await?;
    ensure!(client.zones().await?.zones.contains(&zone.to_owned()));
    let shown = client.zone(zone).await?;
    ensure!(
        shown.zone_type == "secondary" && shown.serial.is_none(),
        "{shown:?}"
    );
    let status = client.zone_status(zone).await?;
    ensure!(status.loaded == Some(false), "{status:?}");
    // It can be pointed elsewhere.
    let patch = ZonePatch {
        primaries: Some(vec!["127.0.0.1:2 key battery".to_owned()]),
        ..ZonePatch::default()
    };
    client.modify_zone(zone, &patch).await?;
    client.delete_zone(zone).await?;
    ensure!(!client.zones().await?.zones.contains(&zone.to_owned()));
    Ok(())
}

async fn whom_to_tell_may_have_a_port(subject: &Subject) -> Result<()> {
    let zone = "told.test";
    let mut new = primary(zone);
    new.zone_config.also_notify = Some(vec!["127.0.0.2:5300".to_owned()]);
    subject.client.create_zone(&new).await?;
    for list in [
        vec!["127.0.0.3:5301", "127.0.0.4"],
        vec!["127.0.0.5"],
        vec![],
    ] {
        let patch = ZonePatch {
            also_notify: Some(list.into_iter().map(str::to_owned).collect()),
            ..ZonePatch::default()
        };
        subject.client.modify_zone(zone, &patch).await?;
    }
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}

async fn a_record_that_named_ignores_is_not_called_added(subject: &Subject) -> Result<()> {
    let zone = "ignored.test";
    subject.client.create_zone(&primary(zone)).await?;
    let alias = AddedRecord {
        rtype: "CNAME".to_owned(),
        ..address("www", "other.test.")
    };
    ensure!(code(subject.client.add_record(zone, &alias).await) == Some(409));
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}

async fn a_zone_of_ten_thousand_records_is_made_in_one_call(subject: &Subject) -> Result<()> {
    let zone = "large.test";
    let mut new = primary(zone);
    let many = (0..10_000).map(|number| record(&format!("h{number}"), "A", "192.0.2.5"));
    new.zone_config.records.extend(many);
    subject.client.create_zone(&new).await?;
    for name in ["h0", "h9999"] {
        ensure!(subject.served(zone, name, RecordType::A).await? == ["192.0.2.5"]);
    }
    Ok(())
}

async fn what_named_refuses_is_told_in_its_words_and_leaves_nothing(
    subject: &Subject,
) -> Result<()> {
    let zone = "refused.test";
    let mut new = primary(zone);
    new.zone_config.dnssec_policy = Some("no-such-policy".to_owned());
    let fault = subject.client.create_zone(&new).await.err();
    let fault = fault.context("there is no such policy")?;
    ensure!(fault.reason() == Reason::BindcarBadRequest, "{fault}");
    let message = fault.message("pod-0");
    ensure!(message.contains("configure_zone"), "{message}");
    ensure!(!subject.zones().join("refused.test.zone").exists());
    // The same for a zone that is there, which stays as it is.
    subject.client.create_zone(&primary(zone)).await?;
    let patch = ZonePatch {
        dnssec_policy: Some("no-such-policy".to_owned()),
        ..ZonePatch::default()
    };
    ensure!(code(subject.client.modify_zone(zone, &patch).await) == Some(400));
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}

async fn a_key_that_is_not_there_is_not_found(subject: &Subject) -> Result<()> {
    let zone = "keyless.test";
    let mut new = primary(zone);
    new.zone_config.dnssec_policy = Some("default".to_owned());
    new.zone_config.inline_signing = Some(true);
    subject.client.create_zone(&new).await?;
    let seen = DsSeen {
        key_tag: 1,
        ds: DsPlace::Withdrawn,
    };
    ensure!(code(subject.client.check_ds(zone, &seen).await) == Some(404));
    subject.client.create_zone(&primary("plain.test")).await?;
    ensure!(code(subject.client.ds("plain.test").await) == Some(404));
    Ok(())
}
