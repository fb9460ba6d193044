//! Addresses on the loopback interface.
//!
//! All of 127.0.0.0/8 can be bound on Linux, but `named` listens only on addresses that an interface has.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bindery_bind::process;
use tokio::process::Command;
use tokio::time::timeout;

/// How long `ip` may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has the loopback interface have an address.
///
/// # Errors
/// If it has not and cannot be given it, with what to do.
pub(crate) async fn add(address: Ipv4Addr) -> io::Result<()> {
    let said = match change("add", address).await {
        Ok(said) => said,
        Err(error) => error.to_string(),
    };
    if said.is_empty() || said.contains("exists") || said.contains("already assigned") {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "named listens only on addresses of an interface, and lo cannot be given {address}: {said}; run bindery \
         as root, or type `sudo ip address add {address}/32 dev lo`"
    )))
}

/// Takes an address of a pod away from the loopback interface.
pub(crate) async fn remove(address: Ipv4Addr) {
    // One that stays does no harm.
    let _ = change("del", address).await;
}

/// What `ip` complained of.
async fn change(verb: &str, address: Ipv4Addr) -> io::Result<String> {
    let program = process::find("ip").unwrap_or_else(|| PathBuf::from("ip"));
    let run = Command::new(program)
        .args(["address", verb, &format!("{address}/32"), "dev", "lo"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, run).await??;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(String::new()),
        false if said.is_empty() => Ok(output.status.to_string()),
        false => Ok(said),
    }
}
