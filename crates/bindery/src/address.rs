//! Addresses that people give us, and sockets bound to them.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bindery_core::{Group, ServerInfo, ServerRole};
use http::Uri;
use tokio::net::{TcpListener, UdpSocket};

/// Checks `HOST:PORT`, where the host may be a name, an IPv4 or a bracketed IPv6 address.
pub(crate) fn host_and_port(text: &str) -> Result<String, String> {
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(|| without_port(text))?;
    if host.contains(':') || port.is_empty() {
        return Err(without_port(text));
    }
    match port.parse::<u16>() {
        Ok(1..) if !host.is_empty() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(format!(
            "{port:?} is not a port; write for example {host}:53"
        )),
    }
}

/// Reads where a Kubernetes API is: a URL, or `HOST:PORT` for plain HTTP.
pub(crate) fn api_server(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let is_url = |uri: &Uri| {
        let web = ["http", "https"].contains(&uri.scheme_str().unwrap_or_default());
        web && uri.host().is_some_and(|host| !host.is_empty())
    };
    let found = whole.parse().ok().filter(is_url);
    found.ok_or_else(|| "it is no URL; write for example http://127.0.0.1:6430".to_owned())
}

/// A name server that was given, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) group: Group,
    pub(crate) info: ServerInfo,
}

/// Reads `HOST:PORT` with a cluster and a role in front, which may both be left out.
pub(crate) fn name_server(text: &str) -> Result<Given, String> {
    let (group, text) = match text.split_once('/') {
        None => (Group::UNNAMED, text),
        Some((cluster, text)) => (Group::named(cluster_name(cluster)?), text),
    };
    let (role, address) = match text.split_once('=') {
        None => (ServerRole::Primary, text),
        Some(("primary", address)) => (ServerRole::Primary, address),
        Some(("secondary", address)) => (ServerRole::Secondary, address),
        Some((role, address)) => {
            return Err(format!(
                "{role:?} is no role; write primary={address} or secondary={address}"
            ));
        }
    };
    let info = ServerInfo::at(&host_and_port(address)?, role);
    Ok(Given { group, info })
}

/// Whether a text is a label as Kubernetes names things by.
pub(crate) fn is_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = [text.bytes().next(), text.bytes().last()];
    (1..=63).contains(&text.len()) && text.bytes().all(is_plain) && !edges.contains(&Some(b'-'))
}

/// Checks the name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no name of a namespace; write up to 63 small letters, digits and '-', as in default"
    ))
}

/// Checks the name of a cluster, which zones must be able to name and folders to have.
pub(crate) fn cluster_name(text: &str) -> Result<&str, String> {
    if is_label(text) {
        return Ok(text);
    }
    Err(format!(
        "{text:?} is no name of a cluster; write up to 63 small letters, digits and '-', as in internal"
    ))
}

/// Local name servers of a cluster that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalCluster {
    pub(crate) name: String,
    pub(crate) primaries: u16,
    pub(crate) secondaries: u16,
}

/// Reads `NAME`, `NAME=PRIMARIES` or `NAME=PRIMARIES+SECONDARIES`.
pub(crate) fn local_cluster(text: &str) -> Result<LocalCluster, String> {
    let (name, counts) = text.split_once('=').unwrap_or((text, "1"));
    let (primaries, secondaries) = counts.split_once('+').unwrap_or((counts, "0"));
    let count = |text: &str, least| match text.parse::<u16>() {
        Ok(count) if (least..=16).contains(&count) => Ok(count),
        Ok(_) | Err(_) => Err(format!(
            "{text:?} is not a number from {least} to 16; write for example {name}=1+2 for one primary \
             and two secondaries"
        )),
    };
    Ok(LocalCluster {
        name: cluster_name(name)?.to_owned(),
        primaries: count(primaries, 1)?,
        secondaries: count(secondaries, 0)?,
    })
}

/// Listens on `address`, which `flag` gave.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) => bail!(refusal(&error, address, flag)),
    }
}

/// Fails when `address` is taken, before something slow is started that wants it.
///
/// Limits: another process may take it in between; then whoever wants it says so itself.
pub(crate) async fn check_dns_address(address: SocketAddr, flag: &str) -> Result<()> {
    drop(listen(address, flag).await?);
    match UdpSocket::bind(address).await {
        Ok(_) => Ok(()),
        Err(error) => bail!(refusal(&error, address, flag)),
    }
}

/// The address that a listener really has, where port 0 was asked for.
pub(crate) fn local(listener: &TcpListener) -> Result<SocketAddr> {
    listener
        .local_addr()
        .context("a listening socket has no address")
}

fn without_port(text: &str) -> String {
    let host = if text.contains(':') && !text.starts_with('[') {
        format!("[{text}]")
    } else {
        text.to_owned()
    };
    format!("the port is missing; write for example {host}:53")
}

/// What went wrong, and which flag helps.
fn refusal(error: &io::Error, address: SocketAddr, flag: &str) -> String {
    let advice = format!("choose another address with {flag}");
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        format!("{address} is in use, perhaps by another Bindery; stop it or {advice}")
    } else if kind == io::ErrorKind::PermissionDenied {
        format!("not allowed to listen on {address} (ports below 1024 need rights); {advice}")
    } else if kind == io::ErrorKind::AddrNotAvailable {
        format!("{address} is not an address of this machine; {advice}")
    } else {
        format!("cannot listen on {address}: {error}; {advice}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_need_a_port_and_ipv6_needs_brackets() {
        assert_eq!(
            host_and_port("192.0.2.53:53"),
            Ok("192.0.2.53:53".to_owned())
        );
        assert_eq!(host_and_port("[::1]:5300"), Ok("[::1]:5300".to_owned()));
        assert_eq!(
            host_and_port("ns1.example.net:53"),
            Ok("ns1.example.net:53".to_owned())
        );
        for (bad, hint) in [
            ("ns1.example.net", "ns1.example.net:53"),
            ("::1", "[::1]:53"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("ns1:dns", "ns1:53"),
            ("ns1:", "ns1"),
            (":53", "not a port"),
        ] {
            let message = host_and_port(bad).expect_err(bad);
            assert!(message.contains(hint), "{bad}: {message}");
        }
    }

    #[test]
    fn a_name_server_may_have_a_cluster_and_a_role() {
        for (text, cluster, role) in [
            ("192.0.2.53:53", None, ServerRole::Primary),
            ("secondary=[::1]:53", None, ServerRole::Secondary),
            (
                "internal/192.0.2.53:53",
                Some("internal"),
                ServerRole::Primary,
            ),
            ("a-1/secondary=ns1:53", Some("a-1"), ServerRole::Secondary),
        ] {
            let given = name_server(text).expect(text);
            assert_eq!((given.group.name(), given.info.role), (cluster, role));
        }
        for (bad, hint) in [
            ("/192.0.2.53:53", "no name of a cluster"),
            ("Internal/192.0.2.53:53", "no name of a cluster"),
            ("internal/tertiary=192.0.2.53:53", "no role"),
            ("internal/192.0.2.53", "192.0.2.53:53"),
        ] {
            let message = name_server(bad).expect_err(bad);
            assert!(message.contains(hint), "{bad}: {message}");
        }
    }

    #[test]
    fn an_api_is_a_url_or_a_host_and_port() {
        for (text, url) in [
            ("127.0.0.1:6430", "http://127.0.0.1:6430/"),
            ("localhost:6430", "http://localhost:6430/"),
            ("[::1]:6430", "http://[::1]:6430/"),
            ("https://k8s.example:6443", "https://k8s.example:6443/"),
            ("http://proxy.example/api", "http://proxy.example/api"),
        ] {
            let found = api_server(text).map(|url| url.to_string());
            assert_eq!(found, Ok(url.to_owned()));
        }
        for bad in [
            "",
            ":6430",
            "ftp://x",
            "http://",
            "/var/run/x",
            "a b:1",
            "::1",
        ] {
            let message = api_server(bad).expect_err(bad);
            assert!(
                message.contains("http://127.0.0.1:6430"),
                "{bad}: {message}"
            );
        }
    }

    #[test]
    fn a_local_cluster_has_a_primary_at_least() {
        let check =
            |text| local_cluster(text).map(|one| (one.name, one.primaries, one.secondaries));
        assert_eq!(check("internal"), Ok(("internal".to_owned(), 1, 0)));
        assert_eq!(check("a=2"), Ok(("a".to_owned(), 2, 0)));
        assert_eq!(check("a=1+2"), Ok(("a".to_owned(), 1, 2)));
        for bad in ["", "A", "a=0", "a=0+1", "a=1+17", "a=x", "a=", "-a", "a/b"] {
            check(bad).expect_err(bad);
        }
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_flag() {
        let taken = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback has ports");
        let address = local(&taken).expect("it is bound");
        let error = listen(address, "--api-address")
            .await
            .expect_err("it is taken");
        let message = error.to_string();
        assert!(
            message.contains("in use") && message.contains("--api-address"),
            "{message}"
        );
    }
}
