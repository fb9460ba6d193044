//! Flags of the commands that only look: `status`, `explain` and `plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use http::Uri;

use crate::address::Given;

const STATUS_EXAMPLES: &str = "\
Examples:
  bindery status
  bindery status -A -o json
  bindery status --kubeconfig ~/.kube/config -n dns

Each zone is shown with its servers and with the objects in it that are not ready; objects that are
in no zone come after them, and Services whose load balancer is not ready last. Nothing is written.

Exit codes:
  0  everything is Ready
  1  something is not, nothing is declared, or the API could not be asked; the last message says
     which
  2  the command line is wrong";

/// Flags of `status`.
#[derive(Debug, Args)]
#[command(after_long_help = STATUS_EXAMPLES)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) asking: ApiFlags,

    #[command(flatten)]
    pub(crate) everywhere: NamespaceFlags,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  bindery explain arecord/www
  bindery explain zone/example-com -o json
  bindery explain dnsendpoint/shop -n web
  bindery explain service/web
  bindery explain arecord/web/www --kubeconfig ~/.kube/config

The steps are: the object, what it claims, its zone, what is written down in it, the zone's servers,
and what is served. Each has a check mark where it is done, an exclamation mark where it is done for
a part of the object only, a cross where it stops, and a dash where it is not reached. Of a Service
with a load balancer they are: the Service, its validation, its address, its balancer, its
endpoints, its name, and how that is in DNS. Kinds are spelled as for kubectl: arecord, arecords, a.
Nothing is written.

Exit codes:
  0  the object was found
  1  it was not, or the API could not be asked; the message says what to do
  2  the command line is wrong";

/// Flags of `explain`.
#[derive(Debug, Args)]
#[command(after_long_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainFlags {
    /// The object; KIND/NAMESPACE/NAME, as status prints it, works too
    #[arg(
        value_name = "KIND/NAME",
        env = "BINDERY_OBJECT",
        hide_env_values = true
    )]
    pub(crate) object: String,

    #[command(flatten)]
    pub(crate) asking: ApiFlags,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  bindery plan --tsig-key-file ~/.local/state/bindery/quickstart-*/tsig.key
  bindery plan --kubeconfig ~/.kube/config --nameserver 192.0.2.53:53 --tsig-key-file bindery.key
  bindery plan --kubeconfig ~/.kube/config --servers servers.yaml

The first asks a `bindery up examples/quickstart`; it prints its data folder when it starts.

  + a record that would be added
  - a record that would be removed
  ~ an object into which its lines would be written down first
  ! an object of which something would not be written, and why

Zones are transferred and compared with what the objects ask for, by the code that publishes them.
Nothing is written, neither to DNS nor to the objects. What a zone object itself puts into its zone
(SOA, NS, glue) is not compared.

Exit codes:
  0  the plan is complete
  1  a zone could not be read, or the API could not be asked; the message says what to do
  2  the command line is wrong";

/// Flags of `plan`.
#[derive(Debug, Args)]
#[command(after_long_help = PLAN_EXAMPLES)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) asking: ApiFlags,

    #[command(flatten)]
    pub(crate) everywhere: NamespaceFlags,

    /// Name server that the zones are transferred from, after the name of its cluster if there are
    /// several; without it the first one of each zone's status. Of several the first primary counts
    #[arg(
        long,
        value_name = "[CLUSTER/]HOST:PORT",
        value_delimiter = ',',
        value_parser = crate::address::name_server,
        env = "BINDERY_NAMESERVER",
        hide_env_values = true
    )]
    pub(crate) nameserver: Vec<Given>,

    /// TSIG key for transfers, in BIND's key-file format; `bindery up` has it in DATA/tsig.key. With the
    /// name of a cluster in front, for its servers only
    #[arg(
        long,
        value_name = "[CLUSTER=]FILE",
        value_delimiter = ',',
        env = "BINDERY_TSIG_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) tsig_key_file: Vec<String>,

    /// YAML file of name servers, as `bindery run` has it: the zones are transferred from the first primary
    /// of their cluster, with its key
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_SERVERS",
        hide_env_values = true
    )]
    pub(crate) servers: Option<PathBuf>,
}

/// Which API is asked, about what, and how the answer looks.
#[derive(Debug, Args)]
pub(crate) struct ApiFlags {
    /// The Kubernetes API to ask: a URL, or HOST:PORT for plain HTTP. Without it the cluster of
    /// --kubeconfig, --context or $KUBECONFIG; where none of them is there, `http://127.0.0.1:6430`, where
    /// `bindery up` serves
    // `up` has a --server of another meaning, so the variable has another name.
    #[arg(
        id = "api_server",
        long = "server",
        value_name = "URL",
        value_parser = crate::address::api_server,
        conflicts_with_all = ["kubeconfig", "context"],
        env = "BINDERY_API_SERVER",
        hide_env_values = true
    )]
    pub(crate) server: Option<Uri>,

    /// Kubeconfig of the cluster to ask
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

    /// File with the token for --server
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,

    /// Namespace to look at; without it that of the kubeconfig, or default
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        env = "BINDERY_NAMESPACE",
        hide_env_values = true
    )]
    pub(crate) namespace: Option<String>,

    /// How the answer looks
    #[arg(
        short,
        long,
        value_enum,
        default_value_t = Output::Text,
        env = "BINDERY_OUTPUT",
        hide_env_values = true
    )]
    pub(crate) output: Output,
}

/// Whether all namespaces are looked at.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct NamespaceFlags {
    /// Look at all namespaces
    #[arg(
        short = 'A',
        long,
        conflicts_with = "namespace",
        env = "BINDERY_ALL_NAMESPACES",
        hide_env_values = true
    )]
    pub(crate) all_namespaces: bool,
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}
