//! What `bindery install` prints, on a real kube-apiserver with the controllers of Kubernetes.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::kubernetes::Kubernetes;
use tokio::runtime::Runtime;

use crate::machine::{Server, program, text, until};

crate::cases!(what_install_prints_makes_two_replicas_with_few_rights);

fn what_install_prints_makes_two_replicas_with_few_rights(_: Server) -> Result<()> {
    let runtime = Runtime::new().context("a runtime needs only threads")?;
    let scratch = tempfile::tempdir()?;
    let mut kubernetes = runtime.block_on(Kubernetes::start())?;
    let kubeconfig = kubernetes.kubeconfig().display().to_string();
    let kubectl = |arguments: &[&str]| {
        Command::new(bindery_e2e::program::kubectl()?)
            .arg(format!("--kubeconfig={kubeconfig}"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")
    };
    let printed = text(&Command::new(program()?).arg("install").output()?)?;
    let file = scratch.path().join("install.yaml");
    fs::write(&file, printed)?;
    let apply = ["apply", "-f", &file.display().to_string()];
    let applied = kubectl(&apply)?;
    // Also what would be against the restricted profile is a warning.
    let warnings = String::from_utf8_lossy(&applied.stderr).into_owned();
    ensure!(!warnings.contains("Warning"), "{warnings}");
    text(&applied)?;
    let again = text(&kubectl(&apply)?)?;
    // kubectl calls a budget changed whenever it is applied.
    let is_changed = |line: &&str| !line.ends_with(" unchanged") && !line.starts_with("poddis");
    let changed = again.lines().find(is_changed);
    ensure!(changed.is_none(), "a second time it changes {changed:?}");

    // The pods are let in, and made twice.
    kubernetes.start_controllers()?;
    let pods = [
        "-n",
        "bindery",
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ];
    until("two pods", || {
        let names = text(&kubectl(&pods)?)?;
        Ok((names.split_whitespace().count() == 2).then_some(()))
    })?;
    for (verb, what, wanted) in [
        ("update", "leases.coordination.k8s.io/bindery", true),
        ("update", "leases.coordination.k8s.io/other", false),
        // The keys of declared name servers are Secrets.
        ("get", "secrets", true),
        ("delete", "secrets", false),
        ("create", "pods", false),
    ] {
        let who = "--as=system:serviceaccount:bindery:bindery";
        let answer = kubectl(&["auth", "can-i", verb, what, "-n", "bindery", who])?;
        let says = String::from_utf8_lossy(&answer.stdout);
        ensure!((says.trim() == "yes") == wanted, "{verb} {what}: {says}");
    }
    Ok(())
}
