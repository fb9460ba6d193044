//! The flags of an election.

use clap::{Args, ValueEnum};

/// Flags by which one of several replicas leads.
#[derive(Debug, Args)]
pub(crate) struct ElectionFlags {
    /// Whether one of several replicas leads, by a Lease, and the others stand by
    #[arg(
        long,
        value_enum,
        default_value_t = LeaderElect::Auto,
        env = "BINDERY_LEADER_ELECT",
        hide_env_values = true
    )]
    pub(crate) leader_elect: LeaderElect,

    /// Name of the Lease; Binderies with different name servers need different ones
    #[arg(
        long,
        value_name = "NAME",
        default_value = "bindery",
        env = "BINDERY_LEASE_NAME",
        hide_env_values = true
    )]
    pub(crate) lease_name: String,

    /// Namespace of the Lease; without it that of `POD_NAMESPACE`, of the pod or of the kubeconfig
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_parser = crate::address::namespace,
        env = "BINDERY_LEASE_NAMESPACE",
        hide_env_values = true
    )]
    pub(crate) lease_namespace: Option<String>,

    /// Who this replica is, as the Lease names its holder; without it `POD_NAME` or the host's name. A mark
    /// of the process is added
    #[arg(
        long,
        value_name = "NAME",
        env = "BINDERY_LEASE_IDENTITY",
        hide_env_values = true
    )]
    pub(crate) lease_identity: Option<String>,

    /// Seconds after which another replica leads when the leader is silent. It renews the Lease each quarter
    /// of that, and writes nothing when three quarters have passed without
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(2..=300),
        env = "BINDERY_LEASE_DURATION",
        hide_env_values = true
    )]
    pub(crate) lease_duration: u16,
}

/// Whether one of several replicas leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeaderElect {
    /// In a pod
    Auto,
    /// Always
    On,
    /// Never: this is the only replica
    Off,
}
