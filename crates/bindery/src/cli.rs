//! The command line: flags, their variables, and help that teaches by example.

pub(crate) mod ask;
mod election;
mod install;
mod line;
mod sidecar;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::address::{Given, LocalCluster};
pub(crate) use election::{ElectionFlags, LeaderElect};
pub(crate) use install::InstallFlags;
pub(crate) use line::read;
pub(crate) use sidecar::SidecarFlags;

/// Binds names to addresses for Kubernetes.
///
/// You declare zones and records as Kubernetes objects; Bindery publishes them on an authoritative
/// name server, reads them back, and only then calls them Ready.
#[derive(Debug, Parser)]
#[command(version, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  Everything on this machine, from a folder of YAML files:
    bindery up examples/quickstart
  In a second terminal:
    dig @127.0.0.1 -p 5300 www.example.com
    kubectl --server=http://127.0.0.1:6430 get dnszones,arecords
    bindery status
    bindery explain arecord/www

  Against a cluster and a name server that takes signed updates:
    bindery crds | kubectl apply -f -
    bindery run --kubeconfig ~/.kube/config --nameserver 192.0.2.53:53 --tsig-key-file bindery.key

Exit codes:
  0  it was told to stop, or did what it was asked to do
  1  it could not start or go on, or status found something that is not Ready; the last message
     says what to do
  2  the command line is wrong";

/// What Bindery is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything on this machine: API, controllers and name server, from a folder of YAML.
    Up(UpFlags),
    /// Run the controllers against a Kubernetes API and an RFC 2136 name server.
    Run(RunFlags),
    /// Run beside a named: an HTTP API for its zones and records, and whether it may be asked yet.
    Sidecar(SidecarFlags),
    /// Show zones, their servers, and the objects that are not ready.
    Status(ask::StatusFlags),
    /// Follow one object from its spec to DNS, and say where it stops.
    Explain(ask::ExplainFlags),
    /// Show what would be written to DNS now, and write nothing.
    Plan(ask::PlanFlags),
    /// Print everything that Bindery needs in a cluster as YAML: kinds, rights, replicas.
    Install(InstallFlags),
    /// Print all CustomResourceDefinitions as YAML.
    #[command(after_long_help = "Example:\n  bindery crds | kubectl apply -f -")]
    Crds,
}

const UP_EXAMPLES: &str = "\
Examples:
  bindery up examples/quickstart
  bindery up zones --server builtin --dns-address '[::1]:5300'
  bindery up zones --api-address 192.0.2.7:6430 --token-file api.token
  bindery up zones --cluster internal --cluster external=1+2

Files *.yaml, *.yml and *.json in the folder (and in folders below it) are applied as with
kubectl. Adding, editing or deleting a file takes effect at once, also if it happened while Bindery
was not running. An object that was changed with kubectl stays so until its file changes. Emptying
or removing the folder itself deletes nothing.

The data folder holds the objects, the zones, the TSIG key (tsig.key) and a file for kubectl
(kubeconfig), which has the token and the certificate where others can reach the API. Without
--data-dir it is $XDG_STATE_HOME/bindery/NAME-HASH, or ~/.local/state/bindery/NAME-HASH: one per
folder of YAML.

Ctrl-C or SIGTERM finishes what is in flight and exits 0; a second one exits at once.";

/// Flags of `up`.
#[derive(Debug, Args)]
#[command(after_long_help = UP_EXAMPLES)]
pub(crate) struct UpFlags {
    /// Folder of YAML and JSON files that is kept applied
    #[arg(value_name = "DIR", env = "BINDERY_DIR", hide_env_values = true)]
    pub(crate) dir: PathBuf,

    /// Where objects, zones and keys are kept; one folder serves one Bindery at a time
    #[arg(
        long,
        value_name = "D",
        env = "BINDERY_DATA_DIR",
        hide_env_values = true
    )]
    pub(crate) data_dir: Option<PathBuf>,

    /// Where the Kubernetes API listens; other than loopback needs --token-file and speaks TLS
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:6430",
        env = "BINDERY_API_ADDRESS",
        hide_env_values = true
    )]
    pub(crate) api_address: SocketAddr,

    /// File with the token that clients of the API must send
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,

    /// Where the name server listens, UDP and TCP
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:5300",
        env = "BINDERY_DNS_ADDRESS",
        hide_env_values = true
    )]
    pub(crate) dns_address: SocketAddr,

    /// Which name server serves the zones
    #[arg(
        long,
        value_enum,
        default_value_t = ServerChoice::Auto,
        env = "BINDERY_SERVER",
        hide_env_values = true
    )]
    pub(crate) server: ServerChoice,

    /// How many name servers take updates; ports count up from --dns-address
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=16),
        env = "BINDERY_PRIMARIES",
        hide_env_values = true
    )]
    pub(crate) primaries: u16,

    /// How many name servers fetch the zones from those; their ports come after
    #[arg(
        long,
        value_name = "M",
        default_value_t = 0,
        value_parser = clap::value_parser!(u16).range(0..=16),
        env = "BINDERY_SECONDARIES",
        hide_env_values = true
    )]
    pub(crate) secondaries: u16,

    /// Another cluster of name servers, for the zones that name it in spec.clusterRef: its name, how many
    /// take updates (1 if left out) and how many fetch from those; repeat it, or separate several by
    /// commas. Ports count on
    #[arg(
        long,
        value_name = "NAME[=N[+M]]",
        value_delimiter = ',',
        value_parser = crate::address::local_cluster,
        env = "BINDERY_CLUSTER",
        hide_env_values = true
    )]
    pub(crate) cluster: Vec<LocalCluster>,

    /// What gives Services of type LoadBalancer an address of an AddressPool and forwards their traffic
    #[arg(
        long,
        value_enum,
        default_value_t = BalancerChoice::Auto,
        env = "BINDERY_LOAD_BALANCER",
        hide_env_values = true
    )]
    pub(crate) load_balancer: BalancerChoice,

    #[command(flatten)]
    pub(crate) watching: Watching,
}

/// What forwards the traffic of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BalancerChoice {
    /// With `up` the proxy; with `run` nftables where it can be used, else the proxy
    Auto,
    /// Rules of the kernel, which stay when Bindery ends; needs root and the program nft
    Nftables,
    /// Sockets of Bindery, without privileges
    Proxy,
    /// Load balancers and NAT gateways of Azure, through a Service Gateway (with `run` and --azure-config); Services
    /// without a class get them
    Azure,
    /// Nothing: Services are left to others
    Off,
}

/// Which name server `up` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerChoice {
    /// BIND's named where it is installed, else the built-in server
    Auto,
    /// BIND's named, as a child process
    Named,
    /// The built-in authoritative server
    Builtin,
}

const RUN_EXAMPLES: &str = "\
Examples:
  bindery run --nameserver 192.0.2.53:53 --tsig-key-file bindery.key
  bindery run --kubeconfig ~/.kube/config --nameserver ns1.example.net:53 --tsig-key-file k.key
  bindery run --nameserver primary=192.0.2.53:53 --nameserver secondary=192.0.2.54:53 \
    --tsig-key-file k.key
  bindery run --namespace web --namespace mail --nameserver 192.0.2.53:53 --tsig-key-file k.key
  bindery run --nameserver internal/192.0.2.53:53 --nameserver external/198.51.100.53:53 \
    --tsig-key-file internal=in.key --tsig-key-file external=out.key
  bindery run --servers servers.yaml

A file of name servers:
  clusters:
  - name: internal                  # zones name it in spec.clusterRef; may be left out
    tsigKeyFile: internal.key       # for all its servers that have no key of their own
    servers:
    - name: ns1                     # who it is, whatever its address and key
      address: 192.0.2.53:53
    - name: ns2
      address: 192.0.2.54:53
      role: secondary               # or primary, if it is left out

The name server must have the zones already, and allow updates and transfers with the key. A zone
that it does not have is Ready=False with reason ZoneNotFound until it exists. Records that Bindery
did not write are left alone.

Where name servers have a cluster in front of them, a zone is on those of the cluster that its
spec.clusterRef names, and one that names none on those without. Where none has, every zone is on all
of them, whatever it names.

Without --kubeconfig the usual places are tried: $KUBECONFIG, ~/.kube/config, then the service
account of the pod. The CRDs must be installed: bindery crds | kubectl apply -f -";

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunFlags {
    /// Kubeconfig of the cluster
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_KUBECONFIG",
        hide_env_values = true
    )]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; without it the current one
    #[arg(
        long,
        value_name = "NAME",
        env = "BINDERY_CONTEXT",
        hide_env_values = true
    )]
    pub(crate) context: Option<String>,

    /// Namespace to look at; repeat it, or separate several by commas. Without it all are looked at,
    /// which needs rights in all of them
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        value_parser = crate::address::namespace,
        env = "BINDERY_NAMESPACE",
        hide_env_values = true
    )]
    pub(crate) namespace: Vec<String>,

    /// Name server of the zones: primary=HOST:PORT (takes updates by TCP; may be left out) or
    /// secondary=HOST:PORT (is looked at), after the name of its cluster if there are several; repeat it,
    /// or separate several by commas
    #[arg(
        long,
        value_name = "[CLUSTER/][ROLE=]HOST:PORT",
        value_delimiter = ',',
        value_parser = crate::address::name_server,
        env = "BINDERY_NAMESERVER",
        hide_env_values = true
    )]
    pub(crate) nameserver: Vec<Given>,

    /// TSIG key for updates and transfers, in BIND's key-file format (see tsig-keygen); with the name of a
    /// cluster in front, for its servers only
    #[arg(
        long,
        value_name = "[CLUSTER=]FILE",
        value_delimiter = ',',
        env = "BINDERY_TSIG_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) tsig_key_file: Vec<String>,

    /// YAML file of name servers, beside those of --nameserver. It is watched: servers come, go, move and
    /// change their keys while Bindery runs
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_SERVERS",
        hide_env_values = true
    )]
    pub(crate) servers: Option<PathBuf>,

    /// Image of the pods of name servers that are declared as objects: of their sidecar, and of named where
    /// nobody names another
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = concat!("bindery:", env!("CARGO_PKG_VERSION")),
        env = "BINDERY_IMAGE",
        hide_env_values = true
    )]
    pub(crate) image: String,

    /// What gives Services of class bindery.dev/lb an address of an AddressPool and forwards their traffic, on
    /// the machine where Bindery runs; or Azure
    #[arg(
        long,
        value_enum,
        default_value_t = BalancerChoice::Off,
        env = "BINDERY_LOAD_BALANCER",
        hide_env_values = true
    )]
    pub(crate) load_balancer: BalancerChoice,

    /// YAML file that says which subscription, resource group and Service Gateway of Azure are used, and by whom
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_AZURE_CONFIG",
        hide_env_values = true
    )]
    pub(crate) azure_config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) election: ElectionFlags,

    #[command(flatten)]
    pub(crate) watching: Watching,
}

/// Flags by which a running Bindery is watched.
#[derive(Debug, Args)]
pub(crate) struct Watching {
    /// Where /metrics, /healthz, /readyz and /debug/difftracker/ are served
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9970",
        env = "BINDERY_METRICS_ADDRESS",
        hide_env_values = true
    )]
    pub(crate) metrics_address: SocketAddr,

    /// Collector that is sent traces, by OTLP over HTTP: `http://HOST:4318`. Without it none are made
    #[arg(
        long,
        value_name = "URL",
        env = "BINDERY_OTLP_ENDPOINT",
        hide_env_values = true
    )]
    pub(crate) otlp_endpoint: Option<String>,

    #[command(flatten)]
    pub(crate) logging: Logging,
}

/// Flags for the log.
#[derive(Debug, Args)]
pub(crate) struct Logging {
    /// Which messages are logged to stderr: debug, or by crate as in `bindery_dns=debug,warn`
    #[arg(
        long,
        value_name = "FILTER",
        env = "BINDERY_LOG",
        hide_env_values = true
    )]
    pub(crate) log: Option<String>,

    /// How log lines look
    #[arg(
        long,
        value_enum,
        default_value_t = LogFormat::Text,
        env = "BINDERY_LOG_FORMAT",
        hide_env_values = true
    )]
    pub(crate) log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

#[cfg(test)]
mod tests;
