//! `bindery run`: the controllers against a Kubernetes API and a name server that is not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bindery_core::{Group, Role, ServerInfo};
use bindery_dns::Key;
use bindery_engine::supervisor::Supervisor;
use bindery_engine::{ServerHandle, Servers};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use crate::address::Given;
use crate::cli::RunFlags;
use crate::data::TsigKeys;
use crate::stop::Signals;
use crate::surroundings;
use crate::{address, control, kinds, log, metrics, up};

/// Runs until a signal comes or something falls.
pub(crate) async fn run(flags: RunFlags) -> Result<()> {
    log::start(&flags.watching, log::STORY)?;
    let signals = Signals::take()?;
    let stop = CancellationToken::new();
    let (base, work) = tokio::select! {
        biased;
        () = signals.hurry() => return Ok(()),
        started = start(&flags, stop.clone()) => started?,
    };
    up::run(base, work, signals, stop).await
}

async fn start(flags: &RunFlags, stop: CancellationToken) -> Result<(Supervisor, Supervisor)> {
    let groups = groups(flags)?;
    let metrics_address = flags.watching.metrics_address;
    let listener = address::listen(metrics_address, "--metrics-address").await?;
    let client = connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    kinds::check_served(&client, &flags.namespace).await?;
    let mut base = Supervisor::new(CancellationToken::new());
    let mut work = Supervisor::new(stop);
    let namespaces = flags.namespace.iter();
    let wanted = control::ControllerSetup {
        client,
        groups,
        namespaces: namespaces.map(|one| one.as_str().into()).collect(),
        is_after_loss: false,
    };
    let sources = control::start(wanted, std::future::ready(0), (&mut base, &mut work));
    base.spawn(
        "metrics",
        metrics::serve(listener, sources, base.stop_token()),
    );
    let servers = flags.nameserver.iter();
    let servers: Vec<&str> = servers.map(|one| &*one.info.address).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        nameservers = servers.join(","),
        namespaces = flags.namespace.join(","),
        "bindery runs"
    );
    Ok((base, work))
}

/// The name servers that were given, cluster by cluster.
fn groups(flags: &RunFlags) -> Result<BTreeMap<Group, Servers>> {
    let mut groups: BTreeMap<Group, Vec<&ServerInfo>> = BTreeMap::new();
    let mut addresses = BTreeSet::new();
    for Given { group, info } in &flags.nameserver {
        if !addresses.insert(&info.address) {
            bail!(
                "--nameserver names {} twice; a server has one role in one cluster",
                info.address
            );
        }
        groups.entry(group.clone()).or_default().push(info);
    }
    let keys = TsigKeys::read(&flags.tsig_key_file, |group| groups.contains_key(group))?;
    let servers = |(group, members): (Group, Vec<&ServerInfo>)| {
        let key = keys.of(&group).with_context(|| {
            let cluster = group
                .name()
                .map_or_else(String::new, |name| format!("{name}="));
            format!("no --tsig-key-file is for {group}; add --tsig-key-file {cluster}FILE")
        })?;
        let servers = servers(&group, &members, key)?;
        Ok((group, servers))
    };
    groups.into_iter().map(servers).collect()
}

/// The first primary leads.
fn servers(group: &Group, infos: &[&ServerInfo], key: &Key) -> Result<Servers> {
    if !infos.iter().any(|one| one.role == Role::Primary) {
        let cluster = group
            .name()
            .map_or_else(String::new, |name| format!("{name}/"));
        bail!(
            "--nameserver names no primary of {group}, so nobody could take updates; add \
             {cluster}primary=HOST:PORT"
        );
    }
    let handle = |info: &&ServerInfo| ServerHandle {
        info: (*info).clone(),
        server: Arc::new(bindery_dns::Server::new(&*info.address, Some(key.clone()))),
        host: None,
    };
    Ok(infos.iter().map(handle).collect())
}

/// Whether $KUBECONFIG names a file.
pub(crate) fn has_kubeconfig() -> bool {
    surroundings::variable("KUBECONFIG").is_some()
}

/// A client of the cluster of a kubeconfig and its context, or of the usual places, which answers.
pub(crate) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read --kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .with_context(|| format!("cannot use --kubeconfig {}", path.display()))?
        }
        None if context.is_some() || has_kubeconfig() => Config::from_kubeconfig(&options)
            .await
            .context("cannot use the kubeconfig of $KUBECONFIG or ~/.kube/config")?,
        None => Config::infer().await.context(
            "no cluster is configured: give --kubeconfig, set KUBECONFIG, or run in a pod",
        )?,
    };
    let url = config.cluster_url.clone();
    if config.accept_invalid_certs {
        tracing::warn!(%url, "the certificate of the Kubernetes API is not checked");
    }
    let client = Client::try_from(config).context("cannot make a client for the cluster")?;
    match client.apiserver_version().await {
        Err(error) if !is_answer(&error) => {
            Err(error).with_context(|| format!("the Kubernetes API at {url} does not answer"))
        }
        Ok(_) | Err(_) => Ok(client),
    }
}

/// Whether an API answered, if only that this question is not allowed: others may be.
pub(crate) fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    /// The leader of each cluster, or the message; `K` stands for a key file.
    fn check(line: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("there is room");
        let key = folder.path().join("k=1");
        let text = Key::generate("bindery", [7; 32])
            .expect("it is long enough")
            .to_key_file();
        std::fs::write(&key, text.as_bytes()).expect("it is ours");
        let line = format!("bindery run {line}").replace('K', &key.display().to_string());
        let Command::Run(flags) = Cli::parse_from(line.split_whitespace()).command else {
            unreachable!("the line says run");
        };
        let groups = groups(&flags).map_err(|error| format!("{error:#}"))?;
        let leader = |(group, servers): (&Group, &Servers)| {
            let name = group.name().unwrap_or("-");
            let primary = servers.first_primary().expect("there is one");
            let others = servers.iter().count() - 1;
            format!("{name} {} +{others}", primary.info.address)
        };
        Ok(groups.iter().map(leader).collect())
    }

    #[test]
    fn servers_are_sorted_by_their_cluster_and_the_first_primary_leads() {
        let one = "--nameserver secondary=a:1,b:1 --tsig-key-file K";
        assert_eq!(check(one), Ok(vec!["- b:1 +1".to_owned()]));
        let two = "--nameserver in/a:1,out/b:1,in/secondary=c:1 --tsig-key-file in=K,out=K";
        let wanted = vec!["in a:1 +1".to_owned(), "out b:1 +0".to_owned()];
        assert_eq!(check(two), Ok(wanted));
    }

    #[test]
    fn what_does_not_fit_together_is_told_with_what_to_write() {
        for (line, hint) in [
            (
                "--nameserver in/secondary=a:1 --tsig-key-file K",
                "add in/primary=HOST:PORT",
            ),
            (
                "--nameserver in/a:1,out/a:1 --tsig-key-file K",
                "names a:1 twice",
            ),
            (
                "--nameserver in/a:1,out/b:1 --tsig-key-file in=K",
                "add --tsig-key-file out=FILE",
            ),
            (
                "--nameserver in/a:1,b:1 --tsig-key-file in=K",
                "add --tsig-key-file FILE",
            ),
            (
                "--nameserver in/a:1 --tsig-key-file in=K,in=K",
                "a second key",
            ),
        ] {
            let message = check(line).expect_err(line);
            assert!(message.contains(hint), "{line}: {message}");
        }
    }
}
