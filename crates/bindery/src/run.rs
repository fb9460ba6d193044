//! `bindery run`: the controllers against a Kubernetes API and a name server that is not ours.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use bindery_engine::supervisor::Supervisor;
use bindery_kube::{BalancersHandle, Replica, ServerSettings};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use crate::azure::AzureBalancing;
use crate::balancing::LocalBalancing;
use crate::cli::{BalancerChoice, RunFlags};
use crate::election::{ElectionReport, Part};
use crate::servers::{Connections, ServerSource, ServersKeeper, ServersReading, read_settled};
use crate::stop::Signals;
use crate::surroundings;
use crate::{address, control, kinds, log, metrics, up};

/// Runs until a signal comes or something falls.
pub(crate) async fn run(flags: RunFlags) -> Result<()> {
    let collector = flags.watching.otlp_endpoint.as_deref();
    let traces = log::start(&flags.watching.logging, log::STORY, collector)?;
    let signals = Signals::take()?;
    let stop = CancellationToken::new();
    let (mut base, work, election) = tokio::select! {
        biased;
        () = signals.hurry() => return Ok(()),
        started = start(&flags, stop.clone()) => started?,
    };
    if let Some(traces) = traces {
        base.spawn("traces", traces.run(base.stop_token()));
    }
    up::run(base, work, signals, stop).await?;
    election.map_or(Ok(()), |election| election.check())
}

/// What runs, and what is known of the election where there is one.
type Started = (Supervisor, Supervisor, Option<ElectionReport>);

async fn start(flags: &RunFlags, stop: CancellationToken) -> Result<Started> {
    let source = source(flags);
    let reading = read_settled(&source).await;
    reading.warn(&source);
    let ServersReading { found, files } = reading;
    let found = found.map_err(|problem| anyhow!("{problem}"))?;
    let metrics_address = flags.watching.metrics_address;
    let listener = address::listen(metrics_address, "--metrics-address").await?;
    let client = connect(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
    kinds::check_served(&client, &flags.namespace).await?;
    let mut base = Supervisor::new(CancellationToken::new());
    let mut work = Supervisor::new(stop);
    let (part, election) = part(flags, &client);
    let namespaces = flags.namespace.iter();
    let mut connections = Connections::behind(part.replica.fence.clone());
    let wanted = control::ControllerSetup {
        client: client.clone(),
        groups: connections.open(&found),
        namespaces: namespaces.map(|one| one.as_str().into()).collect(),
        is_after_loss: false,
        servers: server_settings(flags),
        scratch: surroundings::scratch_folder(),
        replica: part.replica.clone(),
    };
    let balancers = start_balancers(flags, &client, &part.replica, &mut work).await?;
    let servers = found.values().flatten();
    let servers: Vec<String> = servers.map(|one| one.info.address.to_string()).collect();
    let (sources, engine) = control::start(wanted, std::future::ready(0), &mut work);
    let mut sources = sources.with_balancers(balancers);
    let read = (found, files);
    let told = (engine, client, part.replica);
    if let Some(keeper) = ServersKeeper::new(source, read, connections, told) {
        sources = sources.with_servers_file(keeper.report());
        work.spawn("servers file", keeper.run(work.stop_token()));
    }
    // It is released when nothing is in flight any more.
    if let Some(holder) = part.holder {
        base.spawn("lease", holder.run(base.stop_token()));
    }
    if let Some(election) = &election {
        sources = sources.with_election(election.clone());
        let lost = election.clone().watch_lost(work.stop_token());
        work.spawn("lost lease", lost);
    }
    base.spawn(
        "metrics",
        metrics::serve(listener, sources, base.stop_token()),
    );
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        nameservers = servers.join(","),
        namespaces = flags.namespace.join(","),
        "bindery runs"
    );
    Ok((base, work, election))
}

/// What gives Services addresses, where something is to.
async fn start_balancers(
    flags: &RunFlags,
    client: &Client,
    replica: &Replica,
    work: &mut Supervisor,
) -> Result<Option<BalancersHandle>> {
    if flags.load_balancer == BalancerChoice::Azure {
        let balancing = AzureBalancing::open(flags.azure_config.as_deref())?;
        return Ok(Some(balancing.start(client, replica, work)));
    }
    let balancing = LocalBalancing::open(flags.load_balancer, false).await?;
    Ok(balancing.map(|balancing| balancing.start(client, replica, work)))
}

/// This process's part among others. One that uses the service account of its pod is in a cluster.
fn part(flags: &RunFlags, client: &Client) -> (Part, Option<ElectionReport>) {
    let is_in_pod = flags.kubeconfig.is_none()
        && flags.context.is_none()
        && !has_kubeconfig()
        && surroundings::variable("KUBERNETES_SERVICE_HOST").is_some();
    Part::of(
        &flags.election,
        client,
        Arc::new(control::TimeOfDay),
        is_in_pod,
    )
}

/// How name servers are run that are declared as objects.
fn server_settings(flags: &RunFlags) -> ServerSettings {
    let default = ServerSettings::default();
    ServerSettings {
        image: flags.image.clone(),
        namespace: surroundings::variable("POD_NAMESPACE")
            .and_then(|name| name.into_string().ok())
            .unwrap_or_else(|| default.namespace.clone()),
        ..default
    }
}

/// Where the name servers come from.
fn source(flags: &RunFlags) -> ServerSource {
    ServerSource {
        given: flags.nameserver.clone(),
        tsig_key_file: flags.tsig_key_file.clone(),
        file: flags.servers.clone(),
    }
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
    use bindery_core::{Group, ServerRole};
    use bindery_dns::Key;
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::servers::FoundServer;

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
        let found = source(&flags).read().found;
        let found = found.map_err(|problem| problem.to_string())?;
        let leader = |(group, servers): (&Group, &Vec<FoundServer>)| {
            let name = group.name().unwrap_or("-");
            let mut primaries = servers
                .iter()
                .filter(|one| one.info.role == ServerRole::Primary);
            let primary = primaries.next().expect("there is one");
            format!("{name} {} +{}", primary.info.address, servers.len() - 1)
        };
        Ok(found.iter().map(leader).collect())
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
                "a:1 is named twice",
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
