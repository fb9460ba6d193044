//! `bindery sidecar`: the HTTP API beside a `named`.

mod settings;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bindery_apiserver::System;
use bindery_sidecar::{Entry, NamedOptions, ServerSetup, SidecarServer};
use tokio_util::sync::CancellationToken;

use crate::cli::SidecarFlags;
use crate::stop::Signals;
use crate::surroundings;
use crate::{address, log, nameserver};
use settings::{Admission, SidecarSettings};

/// How long named may take to answer a question. The controllers wait for two seconds and are to hear by then that it
/// is named that does not answer.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Runs until a signal comes.
pub(crate) async fn sidecar(mut flags: SidecarFlags) -> Result<()> {
    let text = |name: &str| {
        let value = surroundings::variable(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    flags.logging.log = flags.logging.log.or_else(|| text("RUST_LOG"));
    log::start(&flags.logging, log::STORY, None)?;
    let settings = SidecarSettings::new(&flags, &text)?;
    let signals = Signals::take()?;
    let entry = entry(settings.admission).await?;
    let listener = address::listen(settings.address, "--address").await?;
    let server = SidecarServer::new(ServerSetup {
        named: NamedOptions {
            folder: settings.zone_dir.clone(),
            control: settings.rndc_server,
            control_key: settings.rndc_key,
            dns: settings.dns_server,
            update_key: Some(settings.update_key),
            keys: settings.keys,
            signing_keys: flags.signing_keys_dir.clone(),
            makes_no_signing_keys: flags.make_no_signing_keys,
            patience: PATIENCE,
            clock: nameserver::clock(),
            random: Arc::new(|| {
                let [one, two, three, four, ..] = System::secret();
                u32::from_ne_bytes([one, two, three, four])
            }),
        },
        entry,
        limits: settings.limits,
        expected: settings.expected,
        waits_for_expected: settings.waits_for_expected,
        tls: settings.tls,
    })
    .context("cannot speak TLS")?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %settings.address,
        named = %settings.rndc_server,
        zones = %settings.zone_dir.display(),
        "the sidecar runs"
    );
    let stop = CancellationToken::new();
    tokio::select! {
        biased;
        never = signals.watch(stop.clone()) => match never {},
        () = server.serve(listener, stop.clone()) => {}
    }
    Ok(())
}

async fn entry(admission: Admission) -> Result<Entry> {
    Ok(match admission {
        Admission::Anybody => {
            tracing::warn!("whoever reaches this sidecar can change every zone");
            Entry::Open
        }
        Admission::Token(token) => Entry::Token(token),
        Admission::TokenFile(path) => Entry::TokenFile(path),
        Admission::Review(policy) => {
            // One that is away now may be back when somebody asks.
            let config = kube::Config::infer()
                .await
                .context("no API server to ask whose a token is; give --token-file")?;
            let client = kube::Client::try_from(config).context("cannot make a client")?;
            Entry::Review { client, policy }
        }
    })
}
