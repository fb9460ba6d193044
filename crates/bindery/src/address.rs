//! Addresses that people give us, and sockets bound to them.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bindery_core::fleet::{Member, Role};
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

/// Reads `HOST:PORT` with a role in front, which may be left out for a primary.
pub(crate) fn name_server(text: &str) -> Result<Member, String> {
    let (role, address) = match text.split_once('=') {
        None => (Role::Primary, text),
        Some(("primary", address)) => (Role::Primary, address),
        Some(("secondary", address)) => (Role::Secondary, address),
        Some((role, address)) => {
            return Err(format!(
                "{role:?} is no role; write primary={address} or secondary={address}"
            ));
        }
    };
    Ok(Member {
        address: host_and_port(address)?.into(),
        role,
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
