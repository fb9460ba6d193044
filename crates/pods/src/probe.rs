//! Probes: whether a container is started, alive and ready.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes of an answer that are read; its first line is all that counts.
const ANSWER_LEN_MAX: usize = 4096;

/// A probe with what Kubernetes takes where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeTerms {
    action: ProbeAction,
    pub(crate) delay: Duration,
    pub(crate) period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
    /// How long a container that it gives up may take to end.
    pub(crate) grace: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeAction {
    Connect {
        host: String,
        port: u16,
    },
    Get {
        host: String,
        port: u16,
        request: String,
    },
}

impl ProbeTerms {
    /// The terms of a probe of a container; none if it has no such probe or one that is refused elsewhere.
    pub(crate) fn of(
        probe: Option<&Probe>,
        container: &Container,
        address: Ipv4Addr,
    ) -> Option<Self> {
        let probe = probe?;
        let own = |host: Option<&String>| host.cloned().unwrap_or_else(|| address.to_string());
        let action = if let Some(get) = &probe.http_get {
            let host = own(get.host.as_ref());
            ProbeAction::Get {
                request: request(get, &host),
                host,
                port: port(&get.port, container)?,
            }
        } else {
            let connect = probe.tcp_socket.as_ref()?;
            ProbeAction::Connect {
                host: own(connect.host.as_ref()),
                port: port(&connect.port, container)?,
            }
        };
        let seconds = |given: Option<i32>, least: u64, default: u64| {
            let given = given.and_then(|given| u64::try_from(given).ok());
            Duration::from_secs(given.filter(|given| *given >= least).unwrap_or(default))
        };
        let count = |given: Option<i32>, default: u32| {
            let given = given.and_then(|given| u32::try_from(given).ok());
            given.filter(|given| *given > 0).unwrap_or(default)
        };
        let grace = probe.termination_grace_period_seconds;
        Some(Self {
            action,
            delay: seconds(probe.initial_delay_seconds, 0, 0),
            period: seconds(probe.period_seconds, 1, 10),
            timeout: seconds(probe.timeout_seconds, 1, 1),
            successes: count(probe.success_threshold, 1),
            failures: count(probe.failure_threshold, 3),
            grace: grace
                .and_then(|grace| u64::try_from(grace).ok())
                .map(Duration::from_secs),
        })
    }

    /// Asks once; says what was wrong.
    pub(crate) async fn send(&self) -> Result<(), String> {
        let asked = match &self.action {
            ProbeAction::Connect { host, port } => {
                timeout(self.timeout, connect(host, *port)).await
            }
            ProbeAction::Get {
                host,
                port,
                request,
            } => timeout(self.timeout, get(host, *port, request)).await,
        };
        asked.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)))
    }

    /// What a further answer makes of what was thought before.
    pub(crate) fn judge(&self, streak: &mut Streak, is_ok: bool) -> Option<bool> {
        if streak.is_ok == is_ok {
            streak.len = streak.len.saturating_add(1);
        } else {
            *streak = Streak { is_ok, len: 1 };
        }
        let needed = if is_ok { self.successes } else { self.failures };
        (streak.len >= needed).then_some(is_ok)
    }
}

/// Answers of the same kind in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streak {
    is_ok: bool,
    len: u32,
}

fn port(given: &IntOrString, container: &Container) -> Option<u16> {
    match given {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let found = ports.find(|port| port.name.as_ref() == Some(name))?;
            u16::try_from(found.container_port).ok()
        }
    }
}

fn request(get: &HTTPGetAction, host: &str) -> String {
    let path = get
        .path
        .as_deref()
        .filter(|path| path.starts_with('/'))
        .unwrap_or("/");
    let mut lines = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for header in get.http_headers.iter().flatten() {
        let is_plain = |text: &str| !text.contains(['\r', '\n']);
        if is_plain(&header.name) && is_plain(&header.value) {
            lines.extend([&header.name, ": ", &header.value, "\r\n"]);
        }
    }
    lines.push_str("User-Agent: bindery-probe\r\nAccept: */*\r\n\r\n");
    lines
}

async fn connect(host: &str, port: u16) -> Result<(), String> {
    let stream = TcpStream::connect((host, port)).await;
    stream
        .map(drop)
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn get(host: &str, port: u16, request: &str) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("Get http://{host}:{port}: {error}");
    let mut stream = TcpStream::connect((host, port)).await.map_err(fault)?;
    stream.write_all(request.as_bytes()).await.map_err(fault)?;
    let mut answer = Vec::new();
    while !answer.contains(&b'\n') && answer.len() < ANSWER_LEN_MAX {
        if stream.read_buf(&mut answer).await.map_err(fault)? == 0 {
            break;
        }
    }
    let line = String::from_utf8_lossy(&answer);
    let code = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.get(..3)?.parse::<u16>().ok());
    match code {
        Some(200..400) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("the answer is not HTTP".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn terms(probe: &str) -> Option<ProbeTerms> {
        let probe: Probe = serde_saphyr::from_str(probe).expect("it is a probe");
        let container = "{name: c, ports: [{name: http, containerPort: 8080}]}";
        let container: Container = serde_saphyr::from_str(container).expect("it is a container");
        ProbeTerms::of(Some(&probe), &container, Ipv4Addr::LOCALHOST)
    }

    #[test]
    fn three_failures_in_a_row_and_one_success_count() {
        let terms = terms("{tcpSocket: {port: http}}").expect("the port has a name");
        let mut streak = Streak::default();
        let answers = [true, false, false, true, false, false, false, true];
        let judged = answers.map(|is_ok| terms.judge(&mut streak, is_ok));
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(judged, [yes, None, None, yes, None, None, no, yes]);
    }

    #[test]
    fn a_port_that_nobody_named_is_no_probe() {
        assert_eq!(terms("{tcpSocket: {port: dns}}"), None);
    }

    #[tokio::test]
    async fn an_answer_is_judged_by_its_code() {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        let terms = terms(&format!("{{httpGet: {{path: /ready, port: {port}}}}}"));
        let terms = terms.expect("it is a probe");
        for (answer, is_ok) in [("200 OK", true), ("302 Found", true), ("503 No", false)] {
            let serve = async {
                let (mut stream, _) = listener.accept().await.expect("it comes");
                let mut asked = vec![0; 1024];
                let len = stream.read(&mut asked).await.expect("it asks");
                assert!(asked[..len].starts_with(b"GET /ready HTTP/1.1\r\n"));
                let answer = format!("HTTP/1.1 {answer}\r\n\r\n");
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("it listens");
            };
            let ((), told) = tokio::join!(serve, terms.send());
            assert_eq!(told.is_ok(), is_ok, "{told:?}");
        }
        drop(listener);
        terms.send().await.expect_err("nobody listens");
    }
}
