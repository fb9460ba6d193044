//! The command line of `install`.

use clap::Args;

const INSTALL_EXAMPLES: &str = "\
Examples:
  bindery install | kubectl apply -f -
  kubectl -n bindery create secret generic bindery-servers \
    --from-file=servers.yaml --from-file=bindery.key
  bindery install --nameserver 192.0.2.53:53 --tsig-key bindery.key --image registry.example/bindery:1

The Secret has the file of name servers, servers.yaml, and the keys that it names; until it is there
the pods wait for it. With --nameserver it has only the keys.";

/// Flags of `install`.
#[derive(Debug, Args)]
#[command(after_long_help = INSTALL_EXAMPLES)]
pub(crate) struct InstallFlags {
    /// Namespace that Bindery runs in
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        default_value = "bindery",
        value_parser = crate::address::namespace,
        env = "BINDERY_NAMESPACE",
        hide_env_values = true
    )]
    pub(crate) namespace: String,

    /// Image of the replicas; cargo xtask image builds one
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = concat!("bindery:", env!("CARGO_PKG_VERSION")),
        env = "BINDERY_IMAGE",
        hide_env_values = true
    )]
    pub(crate) image: String,

    /// How many replicas run; one of them leads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        value_parser = clap::value_parser!(u16).range(1..=9),
        env = "BINDERY_REPLICAS",
        hide_env_values = true
    )]
    pub(crate) replicas: u16,

    /// Secret with servers.yaml and TSIG keys
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bindery-servers",
        env = "BINDERY_SECRET",
        hide_env_values = true
    )]
    pub(crate) secret: String,

    /// Name server, as `bindery run` takes it, instead of servers.yaml; repeat it, or separate several by
    /// commas
    #[arg(
        long,
        value_name = "[CLUSTER/][ROLE=]HOST:PORT",
        value_delimiter = ',',
        env = "BINDERY_NAMESERVER",
        hide_env_values = true
    )]
    pub(crate) nameserver: Vec<String>,

    /// Name of a TSIG key file in the Secret, for --nameserver; with the name of a cluster in front, for its
    /// servers only
    #[arg(
        long,
        value_name = "[CLUSTER=]NAME",
        value_delimiter = ',',
        default_value = "tsig.key",
        env = "BINDERY_TSIG_KEY",
        hide_env_values = true
    )]
    pub(crate) tsig_key: Vec<String>,
}
