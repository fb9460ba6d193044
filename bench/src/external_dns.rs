//! external-dns as its users run it: with endpoints, by events, and otherwise as it is by itself.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use bindery_core::Name;
use bindery_dns::Key;
use bindery_e2e::program::external_dns;
use tokio::process::Command;

/// What it is pointed at.
pub(crate) struct Peer<'a> {
    pub(crate) kubeconfig: &'a Path,
    pub(crate) server: SocketAddr,
    pub(crate) key_file: &'a Path,
    pub(crate) zones: &'a [Name],
    pub(crate) metrics: SocketAddr,
}

impl Peer<'_> {
    /// How it is started.
    pub(crate) fn command(&self) -> Result<Command> {
        let key = std::fs::read_to_string(self.key_file).context("cannot read the key")?;
        let key = Key::from_key_file(&key).context("the key cannot be used")?;
        let mut command = Command::new(external_dns()?);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(["--source=crd", "--provider=rfc2136", "--events"])
            .args(["--policy=sync", "--txt-owner-id=bench", "--min-ttl=60s"])
            .arg(format!("--rfc2136-host={}", self.server.ip()))
            .arg(format!("--rfc2136-port={}", self.server.port()))
            .args([
                "--rfc2136-tsig-axfr",
                "--rfc2136-tsig-secret-alg=hmac-sha256",
            ])
            .arg(format!("--rfc2136-tsig-keyname={}", key.name()))
            .arg(format!("--rfc2136-tsig-secret={}", secret(&key)?))
            .arg(format!("--metrics-address={}", self.metrics));
        for zone in self.zones {
            let zone = zone.to_string();
            let zone = zone.trim_end_matches('.');
            command
                .arg(format!("--domain-filter={zone}"))
                .arg(format!("--rfc2136-zone={zone}"));
        }
        Ok(command)
    }
}

/// The secret of a key, as its file has it.
fn secret(key: &Key) -> Result<String> {
    let file = key.to_key_file();
    let rest = file
        .split("secret \"")
        .nth(1)
        .context("a key file has a secret")?;
    let (secret, _) = rest.split_once('"').context("a secret ends")?;
    Ok(secret.to_owned())
}
