//! What a collector of traces is sent: the example of load balancers, with a collector on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::process::free_port;
use serde_json::Value;

use crate::machine::{Machine, Server, until};

crate::cases!(a_collector_gets_one_trace_of_all_that_is_done_about_a_service);

const POOL: &str = include_str!("../../../../examples/loadbalancer/pool.yaml");
const WEB: &str = include_str!("../../../../examples/loadbalancer/web.yaml");
const INGRESS: &str = ".status.loadBalancer.ingress[0].ip";

/// A collector, and the spans that it was sent. It ends with the process.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let spans = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let taken = take(stream).unwrap_or_default();
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(taken);
            }
        });
        Ok(Self { address, spans })
    }

    /// The spans of this name.
    fn named(&self, name: &str) -> Vec<Value> {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let named = spans.iter().filter(|one| one["name"] == name);
        named.cloned().collect()
    }
}

/// Reads a message and answers it.
fn take(stream: TcpStream) -> Result<Vec<Value>> {
    let mut reader = BufReader::new(stream);
    let mut len = 0;
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("content-length: ") {
            len = number.parse()?;
        }
        lines.push(line);
    }
    let first = lines.first().context("it has a first line")?;
    ensure!(first == "POST /v1/traces HTTP/1.1", "{first}");
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    reader.into_inner().write_all(answer)?;
    let body: Value = serde_json::from_slice(&body)?;
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    spans.cloned().context("it has spans")
}

/// The text of an attribute.
fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let all = span["attributes"].as_array()?;
    let found = all.iter().find(|one| one["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

fn a_collector_gets_one_trace_of_all_that_is_done_about_a_service(server: Server) -> Result<()> {
    let collector = Collector::start()?;
    let port = free_port()?.to_string();
    let mut machine = Machine::idle(server)?;
    machine.extra = vec![
        "--otlp-endpoint".to_owned(),
        format!("http://{}", collector.address),
    ];
    machine.write("pool.yaml", &POOL.replace("127.0.10.0", "127.0.14.0"))?;
    let web = WEB
        .replace("8080", &port)
        .replace("ttl: \"60\"", "ttl: \"1\"");
    machine.write("web.yaml", &web)?;
    machine.start()?;
    machine.says("service/web", INGRESS, "127.0.14.1")?;
    let uid = machine.kubectl(&["get", "service/web", "-o", "jsonpath={.metadata.uid}"])?;

    // The span of the Service ends when nothing is left to do about it.
    let whole = until("the Service's span comes", || {
        Ok(collector.named("load balancer").pop())
    })?;
    ensure!(attribute(&whole, "serviceUID") == Some(&*uid), "{whole}");
    ensure!(attribute(&whole, "state") == Some("created"), "{whole}");
    for name in ["create", "locations"] {
        let of_it: Vec<Value> = collector.named(name);
        // A first try may have come before the pool.
        let below = of_it.iter().find(|one| {
            let is_below =
                one["traceId"] == whole["traceId"] && one["parentSpanId"] == whole["spanId"];
            is_below && attribute(one, "status") == Some("success")
        });
        let below = below.with_context(|| format!("{name}: {of_it:?} and {whole}"))?;
        ensure!(attribute(below, "serviceUID") == Some(&*uid), "{below}");
    }

    // What comes later is a trace of its own.
    machine.kubectl(&["delete", "service/web", "--wait=false"])?;
    let removal = until("the removal's span comes", || {
        Ok(collector.named("delete").pop())
    })?;
    ensure!(removal["traceId"] != whole["traceId"], "{removal}");
    let ended = machine.stop("TERM")?;
    ensure!(ended.success(), "{ended}\n{}", machine.log());
    Ok(())
}
