//! Who may ask at all: requests whose `Host` is not this server's own address, or that carry a foreign
//! `Origin`, are refused before anything else happens.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, StatusCode, Uri, header};
use tokio::sync::Semaphore;

use super::ServeOptions;
use crate::failure::Failure;

pub(super) struct Gate {
    pub(super) local: SocketAddr,
    pub(super) options: ServeOptions,
    pub(super) requests: Semaphore,
}

impl Gate {
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let host = uri.authority().map(http::uri::Authority::as_str);
        let host = host.or_else(|| {
            headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok())
        });
        if !host.is_some_and(|host| self.is_own(host)) {
            return Err(forbidden("the Host header does not name this server"));
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let scheme = if self.options.identity.is_some() {
                "https://"
            } else {
                "http://"
            };
            let own = origin
                .strip_prefix(scheme)
                .is_some_and(|host| self.is_own(host));
            if !own {
                return Err(forbidden("requests from other web pages are refused"));
            }
        }
        self.check_token(headers)
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.options.token else {
            if self.local.ip().is_loopback() {
                return Ok(());
            }
            let why = "this API can be reached from other machines but has no token";
            return Err(forbidden(why));
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .map_or(&b""[..], |value| value.as_bytes());
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        if same_in_constant_time(given, token.as_bytes()) {
            return Ok(());
        }
        Err(Failure::new(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "Unauthorized",
        ))
    }

    /// Whether `host` (with or without port) is this server.
    fn is_own(&self, host: &str) -> bool {
        let (_, port) = split_port(host);
        port.is_none_or(|port| port.parse() == Ok(self.local.port()))
            && is_own_host(host, self.local.ip(), &self.options.host_names)
    }
}

/// Whether `host`, as a `Host` header has it, names a server that listens on `local`: by an address
/// that it has, as localhost, or by one of `names`. A web page that had its own name resolve to this
/// machine would send another.
#[must_use]
pub fn is_own_host(host: &str, local: IpAddr, names: &[String]) -> bool {
    let (name, _) = split_port(host);
    let name = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_lowercase();
    let own_address = name.parse().is_ok_and(|address: IpAddr| {
        address.to_canonical() == local.to_canonical()
            || (address.is_loopback() && local.is_loopback())
            || local.is_unspecified()
    });
    own_address || name == "localhost" || names.contains(&name)
}

fn forbidden(why: &str) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, "Forbidden", why)
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        Some(_) | None => (host, None),
    }
}

/// Compares without telling by its duration where the first difference is.
fn same_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let differences = one
        .iter()
        .zip(other)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn gate(local: &str, token: Option<&str>) -> Gate {
        Gate {
            local: local.parse().unwrap(),
            options: ServeOptions {
                token: token.map(Into::into),
                ..ServeOptions::default()
            },
            requests: Semaphore::new(1),
        }
    }

    fn check(gate: &Gate, headers: &[(&'static str, &str)]) -> u16 {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect();
        match gate.check(&Uri::from_static("/api"), &headers) {
            Ok(()) => 200,
            Err(failure) => failure.code.as_u16(),
        }
    }

    #[test]
    fn only_its_own_names_reach_it() {
        let gate = gate("127.0.0.1:6430", None);
        for host in [
            "127.0.0.1:6430",
            "localhost:6430",
            "localhost",
            "LOCALHOST:6430",
            "[::1]:6430",
        ] {
            assert_eq!(check(&gate, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:6430",
            "127.0.0.1:80",
            "192.0.2.1:6430",
            "",
        ] {
            assert_eq!(check(&gate, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(check(&gate, &[]), 403);
    }

    #[test]
    fn a_foreign_origin_is_refused() {
        let gate = gate("127.0.0.1:6430", None);
        let own = [
            ("host", "localhost:6430"),
            ("origin", "http://localhost:6430"),
        ];
        assert_eq!(check(&gate, &own), 200);
        for origin in [
            "http://evil.example",
            "https://localhost:6430",
            "null",
            "http://localhost:1",
        ] {
            let headers = [("host", "localhost:6430"), ("origin", origin)];
            assert_eq!(check(&gate, &headers), 403, "{origin}");
        }
    }

    #[test]
    fn an_address_others_can_reach_needs_a_token() {
        let host = ("host", "192.0.2.1:6430");
        assert_eq!(check(&gate("192.0.2.1:6430", None), &[host]), 403);
        let gate = gate("192.0.2.1:6430", Some("secret"));
        assert_eq!(check(&gate, &[host]), 401);
        assert_eq!(
            check(&gate, &[host, ("authorization", "Bearer secre")]),
            401
        );
        assert_eq!(
            check(&gate, &[host, ("authorization", "Bearer secret")]),
            200
        );
    }
}
