//! `bindery up`: everything on one machine, from a folder of YAML files.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bindery_apiserver::{Identity, ServeOptions, System};
use bindery_core::Group;
use bindery_engine::supervisor::{Ended, Supervisor};
use bindery_kube::{BalancersHandle, Replica, ServerSettings};
use bindery_pods::{PodOptions, Pods, Programs, StatefulSets};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::balancing::LocalBalancing;
use crate::banner::Banner;
use crate::cli::UpFlags;
use crate::data::Lost;
use crate::folder::{FolderReader, FolderReport, Keeper};
use crate::kubeconfig::Access;
use crate::live::{Overview, Style};
use crate::stop::Signals;
use crate::surroundings;
use crate::{address, control, data, kinds, kubeconfig, log, metrics, nameserver, out};

/// The shortest token that is worth the name.
const TOKEN_LEN_MIN: usize = 16;

/// Runs until a signal comes or something falls.
pub(crate) async fn up(flags: UpFlags) -> Result<()> {
    let style = if out::is_terminal() {
        Style::Drawn
    } else {
        Style::Lines
    };
    // Where a view is drawn it tells the story, and lines would disturb it.
    let lines = match style {
        Style::Drawn => "warn",
        Style::Lines => log::STORY,
    };
    let collector = flags.watching.otlp_endpoint.as_deref();
    let traces = log::start(&flags.watching.logging, lines, collector)?;
    data::keep_private();
    let signals = Signals::take()?;
    let stop = CancellationToken::new();
    let (mut base, work) = tokio::select! {
        biased;
        () = signals.hurry() => return Ok(()),
        started = start(&flags, style, stop.clone()) => started?,
    };
    if let Some(traces) = traces {
        base.spawn("traces", traces.run(base.stop_token()));
    }
    run(base, work, signals, stop).await
}

/// Starts everything, each part when what it needs is there: data folder, API, kinds, name server,
/// controllers, folder.
async fn start(
    flags: &UpFlags,
    style: Style,
    stop: CancellationToken,
) -> Result<(Supervisor, Supervisor)> {
    check_folder(&flags.dir)?;
    let counts = counts(flags)?;
    let token = token(flags.api_address, flags.token_file.as_deref())?;
    let folder = data_folder(flags.data_dir.as_deref(), &flags.dir)?;
    let lost = Lost::find(&folder)?;
    let api = data::open_api(&folder)?;
    let api_listener = address::listen(flags.api_address, "--api-address").await?;
    let metrics_address = flags.watching.metrics_address;
    let metrics_listener = address::listen(metrics_address, "--metrics-address").await?;
    let key = data::tsig_key(&folder)?;
    let api_address = address::local(&api_listener)?;
    let options = serve_options(&folder, api_address, token)?;
    let client = api.client();
    kinds::install(&client).await?;

    // What the controllers stand on stops after them, so that what is in flight can end.
    let mut base = Supervisor::new(CancellationToken::new());
    let dns = nameserver::start(nameserver::FleetSetup {
        server: flags.server,
        address: flags.dns_address,
        count: counts,
        data: &folder,
        key: &key,
        stop: base.stop_token(),
    })
    .await?;
    let (api_url, kubeconfig) = write_kubeconfig(&folder, api_address, &options)?;
    let banner = Banner {
        folder: flags.dir.clone(),
        data: folder,
        api: api_url,
        kubeconfig,
        dns: dns.members,
        dns_what: dns.what,
        metrics: address::local(&metrics_listener)?,
    };
    banner.say(&FolderReader::peek(flags.dir.clone()).unwrap_or_default());
    if let Some(lost) = &lost {
        out::complain(&format!("bindery: {lost}"));
    }

    base.spawn(
        "API",
        api.clone().serve(api_listener, options, base.stop_token()),
    );
    for task in dns.tasks {
        base.spawn("name server", task);
    }
    let mut work = Supervisor::new(stop);
    let balancers = run_services(flags, &client, &banner.data, (&mut base, &mut work)).await?;
    let (keeper, news) = Keeper::new(flags.dir.clone(), client.clone()).await?;
    let applied = wait_until_applied(news.clone());
    let wanted = control::ControllerSetup {
        client: client.clone(),
        groups: dns.groups,
        is_after_loss: lost.is_some(),
        namespaces: BTreeSet::new(),
        servers: ServerSettings::default(),
        scratch: banner.data.join("check"),
        replica: Replica::alone(),
    };
    let sources = control::start(wanted, applied, &mut work).0.with_api(api);
    let sources = sources.with_balancers(balancers);
    work.spawn("folder", keeper.run(work.stop_token()));
    let view = Overview::new(style, news).run(client, work.stop_token());
    work.spawn("view", view);
    base.spawn(
        "metrics",
        metrics::serve(metrics_listener, sources, base.stop_token()),
    );
    Ok((base, work))
}

/// The whole path of the data folder: pods run in folders of their own.
fn data_folder(given: Option<&Path>, manifests: &Path) -> Result<PathBuf> {
    match given {
        Some(folder) => std::path::absolute(folder)
            .with_context(|| format!("cannot tell where --data-dir {} is", folder.display())),
        None => data::default_folder(manifests),
    }
}

/// Runs the pods of this machine, and its load balancers.
async fn run_services(
    flags: &UpFlags,
    client: &Client,
    data: &Path,
    (base, work): (&mut Supervisor, &mut Supervisor),
) -> Result<Option<BalancersHandle>> {
    run_pods(client, data, base);
    let balancing = LocalBalancing::open(flags.load_balancer, true).await?;
    Ok(balancing.map(|balancing| balancing.start(client, &Replica::alone(), work)))
}

/// Runs the pods of name servers that are declared as objects, as processes of this machine.
fn run_pods(client: &Client, data: &Path, base: &mut Supervisor) {
    let programs = Programs {
        named: bindery_bind::find_named(),
        bindery: surroundings::program(),
    };
    let clock = Arc::new(|| {
        let seconds = i64::try_from(surroundings::since_1970().as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    let options = PodOptions::new(data.join("pods"), programs, clock, Arc::new(System::secret));
    let sets = StatefulSets::new(client.clone());
    base.spawn("StatefulSets", sets.run(base.stop_token()));
    let pods = Pods::new(client.clone(), options);
    base.spawn("pods", pods.run(base.stop_token()));
}

/// How the API is served. With a token it speaks TLS, for `kubectl` sends none over plain HTTP.
fn serve_options(
    folder: &Path,
    address: SocketAddr,
    token: Option<Arc<str>>,
) -> Result<ServeOptions> {
    if token.is_none() {
        return Ok(ServeOptions::default());
    }
    let host_names = if address.ip().is_loopback() {
        Vec::new()
    } else {
        vec![bindery_apiserver::host_name()]
    };
    let identity = data::identity(folder, &host_names)?;
    Ok(ServeOptions {
        token,
        host_names,
        identity: Some(Arc::new(identity)),
    })
}

/// Writes the kubeconfig; gives the API's URL and the file's path.
fn write_kubeconfig(
    folder: &Path,
    address: SocketAddr,
    options: &ServeOptions,
) -> Result<(String, PathBuf)> {
    let scheme = options.identity.as_ref().map_or("http", |_| "https");
    let server = format!("{scheme}://{}", nameserver::reachable(address));
    let access = Access {
        server: &server,
        authority: options.identity.as_deref().map(Identity::authority),
        token: options.token.as_deref(),
    };
    let path = kubeconfig::write(folder, &access)?;
    Ok((server, path))
}

/// How many name servers of which cluster there are to be.
fn counts(flags: &UpFlags) -> Result<Vec<(Group, (u16, u16))>> {
    let mut counts = vec![(Group::UNNAMED, (flags.primaries, flags.secondaries))];
    for one in &flags.cluster {
        let group = Group::named(&one.name);
        if counts.iter().any(|(known, _)| *known == group) {
            bail!("--cluster names {} twice; leave one of the two", one.name);
        }
        counts.push((group, (one.primaries, one.secondaries)));
    }
    Ok(counts)
}

/// Waits until the folder was applied once, and says how many objects there must be.
async fn wait_until_applied(mut news: watch::Receiver<FolderReport>) -> usize {
    let settled = news.wait_for(|news| news.settled).await;
    let published = settled.ok().map(|news| news.published);
    match published {
        Some(published) => published,
        // A folder whose keeper is gone is never applied; the supervisor ends the process.
        None => std::future::pending().await,
    }
}

/// Runs until told to stop, the work first and then what it stands on.
pub(crate) async fn run(
    base: Supervisor,
    work: Supervisor,
    signals: Signals,
    stop: CancellationToken,
) -> Result<()> {
    let base_stop = base.stop_token();
    let run_work = async {
        let ended = work.run().await;
        base_stop.cancel();
        ended
    };
    let run_base = async {
        let ended = base.run().await;
        stop.cancel();
        ended
    };
    let both = async { tokio::join!(run_work, run_base) };
    let ended = tokio::select! {
        biased;
        ended = both => ended,
        never = signals.watch(stop.clone()) => match never {},
    };
    match ended {
        (Ended::Fell(what), _) | (_, Ended::Fell(what)) => {
            bail!("the {what} ended by itself; please report this with the lines above")
        }
        (Ended::Stopped, Ended::Stopped) => Ok(()),
    }
}

fn check_folder(folder: &Path) -> Result<()> {
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!(
            "{} is a file; give the folder that holds your YAML files",
            folder.display()
        ),
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot read the folder {}; make it, or give another one",
                folder.display()
            )
        }),
    }
}

/// The token of the API, without which it listens on loopback only.
fn token(address: SocketAddr, file: Option<&Path>) -> Result<Option<Arc<str>>> {
    let Some(file) = file else {
        if !address.ip().is_loopback() {
            bail!(
                "--api-address {address} can be reached from other machines and would be open to \
                 all; protect it with --token-file, or use 127.0.0.1"
            );
        }
        return Ok(None);
    };
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read --token-file {}", file.display()))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < TOKEN_LEN_MIN || !is_plain {
        bail!(
            "--token-file {} must hold at least {TOKEN_LEN_MIN} plain characters on one line; try \
             `openssl rand -hex 32`",
            file.display()
        );
    }
    Ok(Some(token.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_is_a_whole_path_wherever_a_process_runs() {
        let check = |given: &str| data_folder(Some(Path::new(given)), Path::new("."));
        let found = check("some/data").expect("there is a working folder");
        assert!(found.is_absolute(), "{}", found.display());
        assert!(found.ends_with("some/data"), "{}", found.display());
        assert_eq!(check("/var/data").ok(), Some(PathBuf::from("/var/data")));
    }

    fn check(address: &str, content: Option<&str>) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().expect("there is room");
        let file: Option<PathBuf> = content.map(|content| {
            let file = folder.path().join("token");
            fs::write(&file, content).expect("it is ours");
            file
        });
        let address = address.parse().expect("a fixture is an address");
        let found = token(address, file.as_deref()).map_err(|error| format!("{error:#}"))?;
        Ok(found.map(|token| token.to_string()))
    }

    #[test]
    fn only_loopback_is_open_without_a_token() {
        assert_eq!(check("127.0.0.1:1", None), Ok(None));
        assert_eq!(check("[::1]:1", None), Ok(None));
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            let message = check(address, None).expect_err(address);
            assert!(message.contains("--token-file"), "{message}");
        }
    }

    #[test]
    fn a_token_has_to_be_one() {
        let token = "0123456789abcdef".to_owned();
        assert_eq!(
            check("0.0.0.0:1", Some("0123456789abcdef\n")),
            Ok(Some(token))
        );
        for bad in ["", "short", "two words that are long enough", "a\nb"] {
            check("0.0.0.0:1", Some(bad)).expect_err(bad);
        }
    }

    #[test]
    fn a_missing_folder_is_told() {
        let message = format!(
            "{:#}",
            check_folder(Path::new("/nonexistent")).expect_err("it is not")
        );
        assert!(message.contains("/nonexistent"), "{message}");
    }
}
