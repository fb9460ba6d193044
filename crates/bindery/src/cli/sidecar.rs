//! Flags of `sidecar`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::Logging;

const EXAMPLES: &str = "\
Examples:
  Beside a named on this machine, for callers on this machine that have the token:
    bindery sidecar --address 127.0.0.1:8080 --zone-dir /var/cache/bind \\
      --rndc-key-file /etc/bind/rndc.key --token-file api.token
  In a pod, for one service account; TokenReview says whose a token is:
    bindery sidecar --service-account dns/bindery --wait-for-expected
  Then:
    curl -H \"Authorization: Bearer $(cat api.token)\" http://127.0.0.1:8080/api/v1/zones

The named must have `allow-new-zones yes`, a `controls` statement with the key, and the zone folder as
its directory or within its reach. Records are written as signed updates: a zone takes them if it was
created with updateKeyName.

GET /api/v1/ready is 200 when every zone that the server should have is served at its serial, else 503.
Which these are is told by --expected FILE or by PUT /api/v1/expected:
  zones:
  - name: example.com
    serial: 2026111801       # this one or a newer one; may be left out

Variables of bindcar count where neither the flag nor its own variable is given:
  API_PORT, BIND_API_ADDRESS, BIND_ZONE_DIR, RNDC_SERVER, RNDC_KEY_NAME, RNDC_ALGORITHM, RNDC_SECRET,
  NSUPDATE_SERVER, NSUPDATE_PORT, NSUPDATE_KEY_NAME, NSUPDATE_ALGORITHM, NSUPDATE_SECRET,
  BIND_API_TOKEN, DISABLE_AUTH, BINDCAR_ALLOW_INSECURE_AUTH, BIND_TOKEN_AUDIENCES,
  BIND_ALLOWED_SERVICE_ACCOUNTS, BIND_ALLOWED_NAMESPACES, BIND_ALLOW_ANY_SERVICEACCOUNT,
  RATE_LIMIT_ENABLED, RATE_LIMIT_REQUESTS, RATE_LIMIT_PERIOD_SECS, RATE_LIMIT_BURST,
  BIND_TLS_CERT, BIND_TLS_KEY, BIND_TLS_CLIENT_CA, BIND_TLS_RELOAD_INTERVAL, RUST_LOG";

/// Flags of `sidecar`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct SidecarFlags {
    /// Where the API listens [default: 0.0.0.0:8080]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "BINDERY_ADDRESS",
        hide_env_values = true
    )]
    pub(crate) address: Option<SocketAddr>,

    /// Folder of the zones' files [default: /var/cache/bind]
    #[arg(
        long,
        value_name = "DIR",
        env = "BINDERY_ZONE_DIR",
        hide_env_values = true
    )]
    pub(crate) zone_dir: Option<PathBuf>,

    /// Where named's control channel listens [default: 127.0.0.1:953]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "BINDERY_RNDC_SERVER",
        hide_env_values = true
    )]
    pub(crate) rndc_server: Option<SocketAddr>,

    /// Key of the control channel, in BIND's key-file format [default: /etc/bind/rndc.key]
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_RNDC_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) rndc_key_file: Option<PathBuf>,

    /// Where named answers DNS [default: 127.0.0.1:53]
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_parser = crate::address::host_and_port,
        env = "BINDERY_DNS_SERVER",
        hide_env_values = true
    )]
    pub(crate) dns_server: Option<String>,

    /// Key that records are written with; without it that of the control channel
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TSIG_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) tsig_key_file: Option<PathBuf>,

    /// Folder of keys that are followed while it runs: rndc.key counts instead of the two keys above, previous.key
    /// is valid beside it, api-token is what callers show; when they change, named reads them again
    #[arg(
        long,
        value_name = "DIR",
        env = "BINDERY_KEYS_DIR",
        hide_env_values = true,
        conflicts_with_all = ["rndc_key_file", "tsig_key_file"]
    )]
    pub(crate) keys_dir: Option<PathBuf>,

    /// Folder of keys that sign zones, as a Secret has them (_ for +): those of a zone are taken before it is signed
    /// for the first time
    #[arg(
        long,
        value_name = "DIR",
        env = "BINDERY_SIGNING_KEYS_DIR",
        hide_env_values = true
    )]
    pub(crate) signing_keys_dir: Option<PathBuf>,

    /// Sign no zone that has no key there
    #[arg(long, env = "BINDERY_MAKE_NO_SIGNING_KEYS", hide_env_values = true)]
    pub(crate) make_no_signing_keys: bool,

    /// File with the tokens that callers may show, one in each line; it is read again and again
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,

    /// Have the API server of the cluster say whose a token is; so it is in a pod without --token-file
    #[arg(long, env = "BINDERY_TOKEN_REVIEW", hide_env_values = true)]
    pub(crate) token_review: bool,

    /// For whom a token must be made, with --token-review [default: bindcar]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "BINDERY_AUDIENCE",
        hide_env_values = true
    )]
    pub(crate) audience: Vec<String>,

    /// Service account whose tokens count, with --token-review; repeat it, or separate several by commas
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        value_delimiter = ',',
        env = "BINDERY_SERVICE_ACCOUNT",
        hide_env_values = true
    )]
    pub(crate) service_account: Vec<String>,

    /// Namespace whose service accounts all count, with --token-review
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        env = "BINDERY_ACCOUNT_NAMESPACE",
        hide_env_values = true
    )]
    pub(crate) account_namespace: Vec<String>,

    /// Let every service account count, with --token-review
    #[arg(long, env = "BINDERY_ANY_SERVICE_ACCOUNT", hide_env_values = true)]
    pub(crate) any_service_account: bool,

    /// Ask callers for nothing; on loopback only
    #[arg(long, env = "BINDERY_NO_AUTH", hide_env_values = true)]
    pub(crate) no_auth: bool,

    /// Let --no-auth count on other addresses too: whoever reaches it can take every zone away
    #[arg(long, env = "BINDERY_I_KNOW_THIS_IS_INSECURE", hide_env_values = true)]
    pub(crate) i_know_this_is_insecure: bool,

    /// Requests of one client per minute; 0 for no limit [default: 60000]
    #[arg(
        long,
        value_name = "N",
        env = "BINDERY_REQUESTS_PER_MINUTE",
        hide_env_values = true
    )]
    pub(crate) requests_per_minute: Option<u32>,

    /// Requests of one client at once after a pause [default: 1000]
    #[arg(
        long,
        value_name = "N",
        env = "BINDERY_REQUEST_BURST",
        hide_env_values = true
    )]
    pub(crate) request_burst: Option<u32>,

    /// File with the zones that the server should have; it is read again and again
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_EXPECTED",
        hide_env_values = true
    )]
    pub(crate) expected: Option<PathBuf>,

    /// Be not ready before somebody has told, by PUT /api/v1/expected, which zones the server should have
    #[arg(long, env = "BINDERY_WAIT_FOR_EXPECTED", hide_env_values = true)]
    pub(crate) wait_for_expected: bool,

    /// Certificate to speak TLS with, in PEM form; it is read again when it is exchanged
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TLS_CERT",
        hide_env_values = true
    )]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Key of the certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TLS_KEY",
        hide_env_values = true
    )]
    pub(crate) tls_key: Option<PathBuf>,

    /// Authority that callers must have a certificate from
    #[arg(
        long,
        value_name = "FILE",
        env = "BINDERY_TLS_CLIENT_CA",
        hide_env_values = true
    )]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// After how many seconds the files for TLS are looked at again [default: 60]
    #[arg(
        long,
        value_name = "SECONDS",
        env = "BINDERY_TLS_RELOAD_INTERVAL",
        hide_env_values = true
    )]
    pub(crate) tls_reload_interval: Option<u64>,

    #[command(flatten)]
    pub(crate) logging: Logging,
}
