//! What the flags of `sidecar` and the variables of bindcar come to.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bindery_dns::{Algorithm, Key};
use bindery_sidecar::{RequestLimits, ReviewPolicy, TlsFiles};
use zeroize::Zeroizing;

use crate::cli::SidecarFlags;

/// Where distributions put the key of the control channel.
const RNDC_KEY: &str = "/etc/bind/rndc.key";
/// What a key is called that comes without a name.
const KEY_NAME: &str = "rndc-key";
/// Requests of one client per minute, and at once.
const PER_MINUTE: f64 = 60_000.0;
const BURST: f64 = 1_000.0;

/// How a variable is looked up.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How the sidecar is to run.
pub(super) struct SidecarSettings {
    pub(super) address: SocketAddr,
    pub(super) zone_dir: PathBuf,
    pub(super) rndc_server: SocketAddr,
    pub(super) rndc_key: Key,
    pub(super) dns_server: String,
    pub(super) update_key: Key,
    pub(super) keys: Option<PathBuf>,
    pub(super) admission: Admission,
    pub(super) limits: Option<RequestLimits>,
    pub(super) expected: Option<PathBuf>,
    pub(super) waits_for_expected: bool,
    pub(super) tls: Option<TlsFiles>,
}

/// Who is let in.
pub(super) enum Admission {
    Anybody,
    Token(Zeroizing<String>),
    TokenFile(PathBuf),
    Review(ReviewPolicy),
}

impl SidecarSettings {
    /// The flags first, then the variables of bindcar, then what is usual.
    pub(super) fn new(flags: &SidecarFlags, variables: Variables<'_>) -> Result<Self> {
        let address = address(flags, variables)?;
        let admission = admission(flags, variables)?;
        let is_insecure =
            flags.i_know_this_is_insecure || is_true(variables, "BINDCAR_ALLOW_INSECURE_AUTH");
        if matches!(admission, Admission::Anybody) && !address.ip().is_loopback() && !is_insecure {
            bail!(
                "without a token {address} would be open to everybody: give --token-file or --token-review, \
                 listen on 127.0.0.1, or say --i-know-this-is-insecure"
            );
        }
        let rndc_key = rndc_key(flags, variables)?;
        Ok(Self {
            address,
            zone_dir: path(flags.zone_dir.as_deref(), variables("BIND_ZONE_DIR"))
                .unwrap_or_else(|| "/var/cache/bind".into()),
            rndc_server: match flags.rndc_server {
                Some(server) => server,
                None => parsed(variables, "RNDC_SERVER")?
                    .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 953))),
            },
            dns_server: dns_server(flags, variables)?,
            update_key: update_key(flags, variables, &rndc_key)?,
            rndc_key,
            keys: flags.keys_dir.clone(),
            admission,
            limits: limits(flags, variables)?,
            expected: flags.expected.clone(),
            waits_for_expected: flags.wait_for_expected,
            tls: tls(flags, variables)?,
        })
    }
}

fn address(flags: &SidecarFlags, variables: Variables<'_>) -> Result<SocketAddr> {
    if let Some(address) = flags.address {
        return Ok(address);
    }
    let ip = parsed(variables, "BIND_API_ADDRESS")?;
    let port = parsed(variables, "API_PORT")?;
    let ip = ip.unwrap_or_else(|| std::net::Ipv4Addr::UNSPECIFIED.into());
    Ok(SocketAddr::new(ip, port.unwrap_or(8080)))
}

fn dns_server(flags: &SidecarFlags, variables: Variables<'_>) -> Result<String> {
    if let Some(server) = &flags.dns_server {
        return Ok(server.clone());
    }
    let host = variables("NSUPDATE_SERVER").unwrap_or_else(|| "127.0.0.1".to_owned());
    let port: u16 = parsed(variables, "NSUPDATE_PORT")?.unwrap_or(53);
    let is_six = host.parse::<std::net::Ipv6Addr>().is_ok();
    Ok(if is_six {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

fn rndc_key(flags: &SidecarFlags, variables: Variables<'_>) -> Result<Key> {
    if let Some(folder) = &flags.keys_dir {
        return key_file(&folder.join("rndc.key"), "--keys-dir");
    }
    if let Some(path) = &flags.rndc_key_file {
        return key_file(path, "--rndc-key-file");
    }
    if let Some(secret) = variables("RNDC_SECRET") {
        let name = variables("RNDC_KEY_NAME");
        return key("RNDC", name, variables("RNDC_ALGORITHM"), secret);
    }
    key_file(Path::new(RNDC_KEY), "--rndc-key-file")
}

fn update_key(flags: &SidecarFlags, variables: Variables<'_>, rndc: &Key) -> Result<Key> {
    if flags.keys_dir.is_some() {
        return Ok(rndc.clone());
    }
    if let Some(path) = &flags.tsig_key_file {
        return key_file(path, "--tsig-key-file");
    }
    let name = variables("NSUPDATE_KEY_NAME");
    match (variables("NSUPDATE_SECRET"), name) {
        (Some(secret), name) => key("NSUPDATE", name, variables("NSUPDATE_ALGORITHM"), secret),
        // The same secret under another name.
        (None, Some(name)) => rndc
            .renamed(&name)
            .map_err(|problem| anyhow!("NSUPDATE_KEY_NAME: {problem}")),
        (None, None) => Ok(rndc.clone()),
    }
}

fn key(
    prefix: &str,
    name: Option<String>,
    algorithm: Option<String>,
    secret: String,
) -> Result<Key> {
    let secret = Zeroizing::new(secret);
    let algorithm = algorithm.unwrap_or_else(|| "hmac-sha256".to_owned());
    // Some write `sha256`.
    let whole = match algorithm.strip_prefix("hmac-") {
        Some(_) => algorithm,
        None => format!("hmac-{algorithm}"),
    };
    let algorithm: Algorithm = whole
        .parse()
        .map_err(|problem| anyhow!("{prefix}_ALGORITHM: {problem}"))?;
    let name = name.unwrap_or_else(|| KEY_NAME.to_owned());
    Key::from_base64(&name, algorithm, &secret)
        .map_err(|problem| anyhow!("{prefix}_SECRET: {problem}"))
}

fn key_file(path: &Path, flag: &str) -> Result<Key> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {flag} {}", path.display()))?;
    let text = Zeroizing::new(text);
    Key::from_key_file(&text).map_err(|problem| anyhow!("{flag} {}: {problem}", path.display()))
}

fn admission(flags: &SidecarFlags, variables: Variables<'_>) -> Result<Admission> {
    if flags.no_auth || is_true(variables, "DISABLE_AUTH") {
        return Ok(Admission::Anybody);
    }
    if let Some(path) = &flags.token_file {
        return Ok(Admission::TokenFile(path.clone()));
    }
    let token = flags
        .keys_dir
        .as_ref()
        .map(|folder| folder.join("api-token"));
    if let Some(token) = token.filter(|token| token.exists()) {
        return Ok(Admission::TokenFile(token));
    }
    if let Some(token) = variables("BIND_API_TOKEN") {
        return Ok(Admission::Token(Zeroizing::new(token)));
    }
    let is_in_a_pod = variables("KUBERNETES_SERVICE_HOST").is_some();
    if !flags.token_review && !is_in_a_pod {
        bail!(
            "nobody could be let in: give --token-file FILE; in a cluster --token-review; on loopback --no-auth"
        );
    }
    let list = |given: &[String], name: &str| {
        if !given.is_empty() {
            return given.to_vec();
        }
        let text = variables(name).unwrap_or_default();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let mut policy = ReviewPolicy {
        audiences: list(&flags.audience, "BIND_TOKEN_AUDIENCES"),
        accounts: list(&flags.service_account, "BIND_ALLOWED_SERVICE_ACCOUNTS"),
        namespaces: list(&flags.account_namespace, "BIND_ALLOWED_NAMESPACES"),
        any_account: flags.any_service_account
            || is_true(variables, "BIND_ALLOW_ANY_SERVICEACCOUNT"),
    };
    if policy.audiences.is_empty() {
        policy.audiences = vec!["bindcar".to_owned()];
    }
    if policy.lets_nobody_in() {
        bail!(
            "no service account could be let in: give --service-account NAMESPACE/NAME, --account-namespace \
             or --any-service-account"
        );
    }
    Ok(Admission::Review(policy))
}

fn limits(flags: &SidecarFlags, variables: Variables<'_>) -> Result<Option<RequestLimits>> {
    if flags.requests_per_minute == Some(0) {
        return Ok(None);
    }
    let given = flags.requests_per_minute.map(f64::from);
    if given.is_none() && variables("RATE_LIMIT_ENABLED").is_some_and(|word| word == "false") {
        return Ok(None);
    }
    let per_minute = match given {
        Some(count) => count,
        None => match parsed::<u32>(variables, "RATE_LIMIT_REQUESTS")? {
            None => PER_MINUTE,
            Some(requests) => {
                let period: u32 = parsed(variables, "RATE_LIMIT_PERIOD_SECS")?.unwrap_or(60);
                f64::from(requests) * 60.0 / f64::from(period.max(1))
            }
        },
    };
    let burst = match flags.request_burst {
        Some(burst) => Some(burst),
        None => parsed(variables, "RATE_LIMIT_BURST")?,
    };
    Ok(Some(RequestLimits {
        per_second: (per_minute / 60.0).max(f64::MIN_POSITIVE),
        burst: burst.map_or(BURST, f64::from).max(1.0),
        ..RequestLimits::default()
    }))
}

fn tls(flags: &SidecarFlags, variables: Variables<'_>) -> Result<Option<TlsFiles>> {
    let certificate = path(flags.tls_cert.as_deref(), variables("BIND_TLS_CERT"));
    let key = path(flags.tls_key.as_deref(), variables("BIND_TLS_KEY"));
    let client_authority = path(
        flags.tls_client_ca.as_deref(),
        variables("BIND_TLS_CLIENT_CA"),
    );
    let seconds = match flags.tls_reload_interval {
        Some(seconds) => seconds,
        None => parsed(variables, "BIND_TLS_RELOAD_INTERVAL")?.unwrap_or(60),
    };
    match (certificate, key) {
        (None, None) if client_authority.is_none() => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
            certificate,
            key,
            client_authority,
            reload: Duration::from_secs(seconds),
        })),
        (None | Some(_), None | Some(_)) => bail!("--tls-cert and --tls-key are needed together"),
    }
}

fn path(given: Option<&Path>, variable: Option<String>) -> Option<PathBuf> {
    given
        .map(Path::to_owned)
        .or_else(|| variable.map(Into::into))
}

fn is_true(variables: Variables<'_>, name: &str) -> bool {
    variables(name).is_some_and(|word| matches!(word.to_lowercase().as_str(), "true" | "1" | "yes"))
}

fn parsed<T: FromStr>(variables: Variables<'_>, name: &str) -> Result<Option<T>> {
    let Some(text) = variables(name) else {
        return Ok(None);
    };
    let value = text.trim().parse().ok();
    let value =
        value.with_context(|| format!("the variable {name} has no such value: {text:?}"))?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    /// What comes of a line and variables (`NAME=VALUE`).
    fn check(line: &str, variables: &[&str]) -> Result<SidecarSettings, String> {
        let line = format!("bindery sidecar {line}");
        let Command::Sidecar(flags) = Cli::parse_from(line.split_whitespace()).command else {
            unreachable!("the line says sidecar");
        };
        let variable = |name: &str| {
            let mut all = variables.iter().filter_map(|one| one.split_once('='));
            let (_, value) = all.find(|(known, _)| *known == name)?;
            Some(value.to_owned())
        };
        SidecarSettings::new(&flags, &variable).map_err(|error| format!("{error:#}"))
    }

    const SECRET: &str = "RNDC_SECRET=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTIz";

    #[test]
    fn a_pod_of_bindy_can_run_it_as_it_is() {
        let settings = check(
            "",
            &[
                SECRET,
                "RNDC_ALGORITHM=hmac-sha512",
                "BIND_ZONE_DIR=/zones",
                "API_PORT=9090",
                "NSUPDATE_PORT=5353",
                "RNDC_SERVER=127.0.0.1:9530",
                "BIND_ALLOWED_SERVICE_ACCOUNTS=system:serviceaccount:bindy-system:bindy",
                "BIND_TOKEN_AUDIENCES=bindcar",
                "KUBERNETES_SERVICE_HOST=10.0.0.1",
            ],
        );
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(settings.address.to_string(), "0.0.0.0:9090");
        assert_eq!(settings.zone_dir, Path::new("/zones"));
        assert_eq!(settings.rndc_server.to_string(), "127.0.0.1:9530");
        assert_eq!(settings.dns_server, "127.0.0.1:5353");
        assert_eq!(settings.rndc_key.algorithm(), Algorithm::HmacSha512);
        let Admission::Review(policy) = settings.admission else {
            panic!("tokens are reviewed");
        };
        assert_eq!(
            policy.accounts,
            ["system:serviceaccount:bindy-system:bindy"]
        );
    }

    #[test]
    fn a_flag_counts_more_than_a_variable_of_bindcar() {
        let variables = [
            SECRET,
            "API_PORT=9090",
            "BIND_API_TOKEN=t",
            "BIND_ZONE_DIR=/a",
        ];
        let settings = check("--address 127.0.0.1:8081 --zone-dir /b", &variables);
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(settings.address.port(), 8081);
        assert_eq!(settings.zone_dir, Path::new("/b"));
        assert!(matches!(settings.admission, Admission::Token(_)));
    }

    #[test]
    fn nobody_is_let_in_by_accident() {
        for (line, variables, hint) in [
            ("", vec![SECRET], "--token-file"),
            ("--no-auth", vec![SECRET], "--i-know-this-is-insecure"),
            (
                "",
                vec![SECRET, "DISABLE_AUTH=true"],
                "--i-know-this-is-insecure",
            ),
            ("--token-review", vec![SECRET], "--service-account"),
            ("--token-file t --tls-cert c", vec![SECRET], "--tls-key"),
            ("--token-file t", vec![SECRET, "API_PORT=x"], "API_PORT"),
        ] {
            let error = check(line, &variables).err().expect(line);
            assert!(error.contains(hint), "{line}: {error}");
        }
        assert!(check("--no-auth --address 127.0.0.1:1", &[SECRET]).is_ok());
        assert!(check("--no-auth --i-know-this-is-insecure", &[SECRET]).is_ok());
    }

    #[test]
    fn limits_may_be_given_in_either_way() {
        let limits = |line: &str, variables: &[&str]| {
            let line = format!("--token-file t {line}");
            let variables = [&[SECRET], variables].concat();
            let settings = check(&line, &variables);
            settings.unwrap_or_else(|error| panic!("{error}")).limits
        };
        let rate =
            |limits: Option<RequestLimits>| limits.map(|limits| (limits.per_second, limits.burst));
        assert_eq!(rate(limits("", &[])), Some((1_000.0, 1_000.0)));
        let of_bindcar = ["RATE_LIMIT_REQUESTS=600", "RATE_LIMIT_BURST=50"];
        assert_eq!(rate(limits("", &of_bindcar)), Some((10.0, 50.0)));
        assert_eq!(rate(limits("", &["RATE_LIMIT_ENABLED=false"])), None);
        assert_eq!(rate(limits("--requests-per-minute 0", &of_bindcar)), None);
    }
}
