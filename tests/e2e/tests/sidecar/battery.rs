//! What our client may rely on, whichever sidecar it speaks to.

use anyhow::{Context as _, Result, ensure};
use bindery_core::{Reason, RecordType, Serial};
use bindery_sidecar::SidecarFault;
use bindery_sidecar::wire::{
    AddedRecord, DsPlace, DsSeen, NewRecord, RemovedRecord, ReplacedRecord, ZonePatch,
};

use crate::subject::{Kind, Subject, primary, record, secondary};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_zone_is_made_with_its_records,
        a_zone_that_is_there_is_not_made_again,
        records_are_added_replaced_and_removed,
        a_zone_is_shown_changed_and_removed,
        a_zone_is_frozen_thawed_and_told_of,
        a_secondary_fetches_its_zone,
        a_zone_that_is_not_there_is_not_found,
        who_has_no_token_is_not_let_in,
        what_is_not_understood_is_a_bad_request,
        the_server_tells_how_it_is,
        a_zone_is_signed_and_tells_its_keys,
    ]
}

/// The reason and the code of what failed.
fn why<T>(outcome: Result<T, SidecarFault>) -> Result<(Reason, Option<u16>)> {
    let fault = outcome.err().context("it was done")?;
    let message = fault.message("pod-0");
    ensure!(message.starts_with("Pod pod-0 "), "{message}");
    if let Some(code) = fault.code() {
        ensure!(message.contains(&format!("({code})")), "{message}");
    }
    Ok((fault.reason(), fault.code()))
}

async fn a_zone_is_made_with_its_records(subject: &Subject) -> Result<()> {
    let zone = "made.test";
    let mut new = primary(zone);
    new.zone_config.records.extend([
        record("www", "AAAA", "2001:db8::1"),
        record("alias", "CNAME", "www.made.test."),
        record("@", "TXT", "\"v=spf1 -all\""),
        NewRecord {
            priority: Some(10),
            ..record("@", "MX", "www.made.test.")
        },
    ]);
    let answer = subject.client.create_zone(&new).await?;
    ensure!(answer.success);
    ensure!(subject.serial(zone).await == Some(Serial(100)));
    for (name, rtype, value) in [
        ("www", RecordType::A, "192.0.2.1"),
        ("www", RecordType::Aaaa, "2001:db8::1"),
        ("alias", RecordType::Cname, "www.made.test."),
        ("@", RecordType::Mx, "10 www.made.test."),
        ("@", RecordType::Txt, "\"v=spf1 -all\""),
        ("ns1", RecordType::A, "192.0.2.53"),
    ] {
        let served = subject.served(zone, name, rtype).await?;
        ensure!(served == [value], "{name} {rtype}: {served:?}");
    }
    Ok(())
}

async fn a_zone_that_is_there_is_not_made_again(subject: &Subject) -> Result<()> {
    let zone = "twice.test";
    subject.client.create_zone(&primary(zone)).await?;
    let mut other = primary(zone);
    other.zone_config.records = vec![record("www", "A", "192.0.2.99")];
    let (_, code) = why(subject.client.create_zone(&other).await)?;
    ensure!(code == Some(409));
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}

async fn records_are_added_replaced_and_removed(subject: &Subject) -> Result<()> {
    let zone = "records.test";
    let client = &subject.client;
    client.create_zone(&primary(zone)).await?;
    for value in ["192.0.2.10", "192.0.2.11"] {
        let added = AddedRecord {
            name: "a".to_owned(),
            rtype: "A".to_owned(),
            value: value.to_owned(),
            ttl: 60,
            priority: None,
        };
        client.add_record(zone, &added).await?;
    }
    let served = || subject.served(zone, "a", RecordType::A);
    ensure!(served().await? == ["192.0.2.10", "192.0.2.11"]);
    let replaced = ReplacedRecord {
        name: "a".to_owned(),
        rtype: "A".to_owned(),
        current_value: "192.0.2.10".to_owned(),
        new_value: "192.0.2.12".to_owned(),
        ttl: 60,
        priority: None,
    };
    client.replace_record(zone, &replaced).await?;
    ensure!(served().await? == ["192.0.2.11", "192.0.2.12"]);
    let mut removed = RemovedRecord {
        name: "a".to_owned(),
        rtype: "A".to_owned(),
        value: Some("192.0.2.11".to_owned()),
    };
    client.remove_record(zone, &removed).await?;
    ensure!(served().await? == ["192.0.2.12"]);
    removed.value = None;
    client.remove_record(zone, &removed).await?;
    ensure!(served().await?.is_empty());
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}

async fn a_zone_is_shown_changed_and_removed(subject: &Subject) -> Result<()> {
    let zone = "changed.test";
    let client = &subject.client;
    client.create_zone(&primary(zone)).await?;
    let shown = client.zone(zone).await?;
    ensure!(
        shown.zone_type == "primary" && shown.serial == Some(100),
        "{shown:?}"
    );
    ensure!(client.zones().await?.zones.contains(&zone.to_owned()));
    let patch = ZonePatch {
        also_notify: Some(vec!["127.0.0.2".to_owned()]),
        allow_transfer: Some(vec!["127.0.0.2".to_owned()]),
        ..ZonePatch::default()
    };
    client.modify_zone(zone, &patch).await?;
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    let (reason, _) = why(client.modify_zone(zone, &ZonePatch::default()).await)?;
    ensure!(reason == Reason::BindcarBadRequest);
    client.delete_zone(zone).await?;
    ensure!(subject.serial(zone).await.is_none());
    let (reason, code) = why(client.zone(zone).await)?;
    ensure!((reason, code) == (Reason::ZoneNotFound, Some(404)));
    // It can be made anew, and nothing of the former one is left.
    let mut new = primary(zone);
    new.zone_config.records.clear();
    client.create_zone(&new).await?;
    ensure!(subject.served(zone, "www", RecordType::A).await?.is_empty());
    Ok(())
}

async fn a_zone_is_frozen_thawed_and_told_of(subject: &Subject) -> Result<()> {
    let zone = "frozen.test";
    let client = &subject.client;
    client.create_zone(&primary(zone)).await?;
    client.freeze_zone(zone).await?;
    client.thaw_zone(zone).await?;
    client.notify_zone(zone).await?;
    let status = client.zone_status(zone).await?;
    let details = status.details.context("it has the words of named")?;
    ensure!(details.contains("serial: 100"), "{details}");
    // One that takes no updates is read again.
    let mut fixed = primary("fixed.test");
    fixed.update_key_name = None;
    client.create_zone(&fixed).await?;
    client.reload_zone("fixed.test").await?;
    Ok(())
}

async fn a_secondary_fetches_its_zone(subject: &Subject) -> Result<()> {
    // A server cannot be the secondary of itself.
    let other = Subject::start(Kind::Ours, &[])?;
    let zone = "fetched.test";
    let mut new = primary(zone);
    new.zone_config.allow_transfer = Some(vec!["127.0.0.1".to_owned()]);
    other.client.create_zone(&new).await?;
    let copy = secondary(zone, &other.dns_address().to_string());
    subject.client.create_zone(&copy).await?;
    subject.until_served(zone, "www", "192.0.2.1").await?;
    subject.client.retransfer_zone(zone).await?;
    subject.until_served(zone, "www", "192.0.2.1").await?;
    let status = subject.client.zone_status(zone).await?;
    let details = status.details.context("it has the words of named")?;
    ensure!(details.contains("type: secondary"), "{details}");
    subject.client.delete_zone(zone).await?;
    ensure!(subject.serial(zone).await.is_none());
    Ok(())
}

async fn a_zone_that_is_not_there_is_not_found(subject: &Subject) -> Result<()> {
    let (client, zone) = (&subject.client, "nothing.test");
    let missing = (Reason::ZoneNotFound, Some(404));
    ensure!(why(client.zone(zone).await)? == missing);
    ensure!(why(client.zone_status(zone).await)? == missing);
    ensure!(why(client.delete_zone(zone).await)? == missing);
    ensure!(why(client.freeze_zone(zone).await)? == missing);
    ensure!(why(client.thaw_zone(zone).await)? == missing);
    ensure!(why(client.notify_zone(zone).await)? == missing);
    ensure!(why(client.retransfer_zone(zone).await)? == missing);
    ensure!(why(client.reload_zone(zone).await)? == missing);
    let record = AddedRecord {
        name: "a".to_owned(),
        rtype: "A".to_owned(),
        value: "192.0.2.1".to_owned(),
        ttl: 60,
        priority: None,
    };
    ensure!(why(client.add_record(zone, &record).await)? == missing);
    Ok(())
}

async fn who_has_no_token_is_not_let_in(subject: &Subject) -> Result<()> {
    let stranger = subject.client_with("wrong")?;
    let (reason, code) = why(stranger.zones().await)?;
    ensure!((reason, code) == (Reason::BindcarAuthFailed, Some(401)));
    let (reason, _) = why(stranger.create_zone(&primary("stranger.test")).await)?;
    ensure!(reason == Reason::BindcarAuthFailed);
    ensure!(subject.serial("stranger.test").await.is_none());
    // How it is, anybody may ask.
    ensure!(stranger.health().await?.status == "healthy");
    ensure!(stranger.ready().await?.ready);
    Ok(())
}

async fn what_is_not_understood_is_a_bad_request(subject: &Subject) -> Result<()> {
    let client = &subject.client;
    let bad = (Reason::BindcarBadRequest, Some(400));
    let mut new = primary("bad.test");
    "third".clone_into(&mut new.zone_type);
    ensure!(why(client.create_zone(&new).await)? == bad);
    let mut new = primary("bad.test");
    new.zone_config.records = vec![record("a", "A", "not an address")];
    ensure!(why(client.create_zone(&new).await)? == bad);
    ensure!(why(client.create_zone(&primary("a b;c")).await)? == bad);
    ensure!(why(client.create_zone(&primary("..\u{2f}x")).await)? == bad);
    ensure!(subject.serial("bad.test").await.is_none());
    Ok(())
}

async fn the_server_tells_how_it_is(subject: &Subject) -> Result<()> {
    let status = subject.client.server_status().await?.status;
    ensure!(status.contains("server is up and running"), "{status}");
    let ready = subject.client.ready().await?;
    ensure!(
        ready.ready && ready.checks.contains(&"rndc: ok".to_owned()),
        "{ready:?}"
    );
    Ok(())
}

async fn a_zone_is_signed_and_tells_its_keys(subject: &Subject) -> Result<()> {
    let zone = "signed.test";
    let client = &subject.client;
    let mut new = primary(zone);
    new.zone_config.dnssec_policy = Some("default".to_owned());
    new.zone_config.inline_signing = Some(true);
    client.create_zone(&new).await?;
    let deadline = std::time::Instant::now() + crate::subject::PATIENCE;
    let tag = loop {
        // A zone that was just made may not tell of its keys yet.
        let dnssec = client.zone_status(zone).await?.dnssec;
        if let Some(told) = &dnssec {
            ensure!(told.policy.as_deref() == Some("default"), "{told:?}");
            if let Some(key) = told.keys.first().filter(|key| key.published) {
                break key.tag;
            }
        }
        ensure!(std::time::Instant::now() < deadline, "{dnssec:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await; // pause between polls
    };
    match subject.kind {
        Kind::Ours => {
            let ds = loop {
                // The keys are in the zone a moment after they are there.
                match client.ds(zone).await {
                    Ok(ds) => break ds,
                    Err(fault) => ensure!(std::time::Instant::now() < deadline, "{fault}"),
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await; // pause between polls
            };
            ensure!(ds.ds_records[0].key_tag == tag, "{ds:?}");
        }
        // It has no folder of keys.
        Kind::Bindcar => {
            let wanted = (Reason::BindcarNotImplemented, Some(501));
            ensure!(why(client.ds(zone).await)? == wanted);
        }
    }
    let seen = DsSeen {
        key_tag: tag,
        ds: DsPlace::Published,
    };
    client.check_ds(zone, &seen).await?;
    // Whoever checks signatures must not lose them all at once.
    let patch = ZonePatch {
        dnssec_policy: Some("none".to_owned()),
        ..ZonePatch::default()
    };
    let (_, code) = why(client.modify_zone(zone, &patch).await)?;
    ensure!(code == Some(409));
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    Ok(())
}
