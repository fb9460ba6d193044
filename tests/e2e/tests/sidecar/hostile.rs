//! Whatever a request says, `named` goes on with what it had.

use std::fs;

use anyhow::{Result, ensure};
use bindery_core::RecordType;
use bindery_sidecar::SidecarFault;
use bindery_sidecar::wire::{AddedRecord, ZonePatch};

use crate::subject::{Kind, Subject, primary, record};
use crate::{Case, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![no_value_becomes_configuration_or_a_line_of_a_zone]
}

/// What breaks out where it is let.
const HOSTILE: [&str; 14] = [
    "\"",
    "\"; }; zone \"evil.test\" { type primary; file \"/etc/passwd",
    "}; };",
    "a; allow-update { any; }",
    "x\n$INCLUDE /etc/passwd",
    "x\nevil A 192.0.2.66",
    "x\r\nevil A 192.0.2.66",
    "$INCLUDE /etc/passwd",
    "$GENERATE 1-9 evil$ A 192.0.2.66",
    "192.0.2.1 ) evil A ( 192.0.2.66",
    "..%2f..%2fetc",
    "evil.test; any",
    "any; }; also-notify { 192.0.2.66",
    "\\\" ; /* ",
];

/// A request was understood as the value that it is, or refused as a mistake of its author.
fn is_harmless<T>(outcome: Result<T, SidecarFault>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(fault) => matches!(fault.code(), Some(400 | 404 | 409 | 422)),
    }
}

async fn no_value_becomes_configuration_or_a_line_of_a_zone(_: &Subject) -> Result<()> {
    let subject = Subject::start(Kind::Ours, &[])?;
    let client = &subject.client;
    let zone = "victim.test";
    client.create_zone(&primary(zone)).await?;
    for (number, evil) in HOSTILE.into_iter().enumerate() {
        ensure!(
            is_harmless(client.create_zone(&primary(evil)).await),
            "{evil:?}"
        );
        ensure!(is_harmless(client.zone(evil).await), "{evil:?}");
        ensure!(is_harmless(client.delete_zone(evil).await), "{evil:?}");
        try_fields(&subject, number, evil).await?;
        try_records(&subject, (zone, number), evil).await?;
        let list = Some(vec![evil.to_owned()]);
        let mut patch = ZonePatch {
            also_notify: list.clone(),
            ..ZonePatch::default()
        };
        ensure!(
            is_harmless(client.modify_zone(zone, &patch).await),
            "{evil:?}"
        );
        patch.allow_update = list;
        ensure!(
            is_harmless(client.modify_zone(zone, &patch).await),
            "{evil:?}"
        );
    }
    ensure!(subject.served(zone, "www", RecordType::A).await? == ["192.0.2.1"]);
    ensure!(
        subject
            .served(zone, "evil", RecordType::A)
            .await?
            .is_empty()
    );
    ensure!(subject.serial("evil.test").await.is_none());
    // What was made has its file in the folder, and nothing else was made there.
    for entry in fs::read_dir(subject.zones())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+%".contains(&byte);
        ensure!(name.bytes().all(is_plain), "{name}");
    }
    // And it can all be read again.
    subject.stop_named();
    subject.start_named()?;
    subject.until_served(zone, "www", "192.0.2.1").await
}

/// New zones with it in each field that goes into the configuration or the zone's own records.
async fn try_fields(subject: &Subject, number: usize, evil: &str) -> Result<()> {
    for field in 0..7 {
        let mut new = primary(&format!("h{number}-{field}.test"));
        let config = &mut new.zone_config;
        match field {
            0 => evil.clone_into(&mut config.soa.primary_ns),
            1 => evil.clone_into(&mut config.soa.admin_email),
            2 => config.name_servers.push(evil.to_owned()),
            3 => config.also_notify = Some(vec![evil.to_owned()]),
            4 => config.allow_transfer = Some(vec![evil.to_owned()]),
            5 => config.dnssec_policy = Some(evil.to_owned()),
            _ => new.update_key_name = Some(evil.to_owned()),
        }
        let made = subject.client.create_zone(&new).await;
        ensure!(is_harmless(made), "{evil:?} {field}");
    }
    Ok(())
}

/// Records with it as type, value and name.
async fn try_records(subject: &Subject, (zone, number): (&str, usize), evil: &str) -> Result<()> {
    let client = &subject.client;
    for rtype in ["A", "CNAME", "MX", "TXT", "SRV", "CAA", evil] {
        let mut new = primary(&format!("r{number}.test"));
        new.zone_config.records = vec![record("x", rtype, evil), record(evil, "A", "192.0.2.2")];
        ensure!(
            is_harmless(client.create_zone(&new).await),
            "{evil:?} {rtype}"
        );
        let added = AddedRecord {
            name: "x".to_owned(),
            rtype: rtype.to_owned(),
            value: evil.to_owned(),
            ttl: 60,
            priority: None,
        };
        ensure!(
            is_harmless(client.add_record(zone, &added).await),
            "{evil:?} {rtype}"
        );
    }
    Ok(())
}
