//! A resolver that knows every server of a cluster and asks all the time, while one process after the other
//! dies: it finds every name, and never a value that is older than what was called ready.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bindery_core::{Name, RecordData, RecordType};
use bindery_dns::wire::{self, Head, Message, Question, opcode, rcode};

use crate::machine::{Machine, Server, until};
use crate::production::{addresses, all_ready, example, pods, signal};

crate::cases!(a_resolver_never_fails_and_sees_no_old_answer);

/// The port of every pod.
const PORT: u16 = 5353;
/// A server that is silent for so long is passed over; resolvers wait about as long.
const SILENT_AFTER: Duration = Duration::from_millis(500);
/// How often all servers are asked before a name counts as not to be found.
const ROUNDS: usize = 2;
/// More complaints say nothing more.
const COMPLAINTS_MAX: usize = 10;
const NAMESPACE: &str = "dns-system";
const MOVING: &str = "moving.example.com";
/// Every pod of the example.
const PODS: [&str; 4] = [
    "production-dns-primary-0-0",
    "production-dns-primary-1-0",
    "production-dns-secondary-0-0",
    "production-dns-secondary-1-0",
];

/// What stands still, and its address.
const STANDING: [(&str, Ipv4Addr); 2] = [
    ("web-1.example.com", Ipv4Addr::new(192, 0, 2, 1)),
    ("db-10.internal.example", Ipv4Addr::new(198, 51, 100, 10)),
];

/// The value of the record that moves which was called ready last.
#[derive(Default)]
struct Progress {
    ready: AtomicU8,
    done: AtomicBool,
}

/// Asks one server after the other until one has an answer.
struct Resolver {
    servers: Vec<SocketAddr>,
    /// Which server is asked first: each in turn.
    first: usize,
    next_id: u16,
}

/// What one server said.
enum Said {
    Address(Ipv4Addr),
    /// It is silent, or says that it cannot answer: another one may.
    Nothing(String),
    /// It has an answer, and the name is not there.
    Wrong(String),
}

fn a_resolver_never_fails_and_sees_no_old_answer(_: Server) -> Result<()> {
    let machine = example()?;
    all_ready(&machine)?;
    let progress = Progress::default();
    move_to(&machine, 1, &progress)?;
    let servers = addresses(&machine)?
        .iter()
        .map(|one| address_of(one))
        .collect::<Result<Vec<_>>>()?;
    ensure!(servers.len() == PODS.len(), "{servers:?}");

    let (broken, complaints) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until_done(servers, &progress));
        let broken = break_everything(&machine, &progress);
        progress.done.store(true, Ordering::Relaxed);
        (broken, asking.join())
    });
    let (count, complaints) = complaints.map_err(|_| anyhow::anyhow!("the resolver fell"))??;
    ensure!(
        complaints.is_empty(),
        "{} of {count} questions:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    broken?;
    ensure!(count > PODS.len(), "only {count} questions");
    Ok(())
}

/// Each process dies once, and what moves is changed while it is away and after it came back.
///
/// A server that is away for longer than its zones wait for it is another matter: what it had, it serves for a
/// moment when it is back, to whoever asks it past its Service.
fn break_everything(machine: &Machine, progress: &Progress) -> Result<()> {
    let mut value = 1;
    let mut move_on = || {
        value += 1;
        move_to(machine, value, progress)
    };
    for pod in PODS {
        for container in ["bind9", "api"] {
            signal(&pods(machine).join(pod), container, "KILL")?;
            move_on().with_context(|| format!("{container} of {pod} is away"))?;
            all_ready(machine).with_context(|| format!("{container} of {pod} is back"))?;
            move_on()?;
        }
    }
    Ok(())
}

/// Changes the record that moves and waits until the change is called ready.
fn move_to(machine: &Machine, value: u8, progress: &Progress) -> Result<()> {
    let record = format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\nmetadata: {{name: moving, namespace: {NAMESPACE}, \
         labels: {{zone: example-com}}}}\nspec: {{name: moving, ipv4Addresses: [192.0.2.{value}]}}\n"
    );
    machine.apply(&record, &[])?;
    let output = "jsonpath={.metadata.generation} {.status.conditions[?(@.type=='Ready')].observedGeneration} \
                  {.status.conditions[?(@.type=='Ready')].status}";
    let get = ["get", "arecord/moving", "-n", NAMESPACE, "-o", output];
    let mut last = String::new();
    until("what moves is ready", || {
        last = machine.kubectl(&get)?;
        let words: Vec<&str> = last.split_whitespace().collect();
        let is_ready = matches!(words[..], [wanted, seen, "True"] if wanted == seen);
        Ok(is_ready.then_some(()))
    })
    .with_context(|| format!("generation, observed, Ready: {last}"))?;
    progress.ready.store(value, Ordering::SeqCst);
    Ok(())
}

fn address_of(pod: &str) -> Result<SocketAddr> {
    let ip = pod
        .parse()
        .with_context(|| format!("{pod} is no address"))?;
    Ok(SocketAddr::new(ip, PORT))
}

/// Asks for every name over and over; returns how many questions there were, and what was wrong.
fn ask_until_done(servers: Vec<SocketAddr>, progress: &Progress) -> Result<(usize, Vec<String>)> {
    let mut resolver = Resolver {
        servers,
        first: 0,
        next_id: 0,
    };
    let (mut count, mut complaints) = (0, Vec::new());
    while !progress.done.load(Ordering::Relaxed) && complaints.len() < COMPLAINTS_MAX {
        for (name, wanted) in STANDING {
            match resolver.resolve(name)? {
                Ok((_, address)) if address == wanted => {}
                Ok((server, address)) => complaints.push(format!("{server}: {name} is {address}")),
                Err(wrong) => complaints.push(wrong),
            }
            count += 1;
        }
        let ready = progress.ready.load(Ordering::SeqCst);
        match resolver.resolve(MOVING)? {
            Ok((_, address)) if address.octets()[3] >= ready => {}
            Ok((server, address)) => {
                let old = format!("{server}: {MOVING} is {address}, and {ready} was ready");
                complaints.push(old);
            }
            Err(wrong) => complaints.push(wrong),
        }
        count += 1;
    }
    Ok((count, complaints))
}

impl Resolver {
    /// The address of a name and who said so, or why there is none.
    fn resolve(&mut self, name: &str) -> Result<Result<(SocketAddr, Ipv4Addr), String>> {
        self.first += 1;
        let mut heard = Vec::new();
        for turn in 0..ROUNDS * self.servers.len() {
            let server = self.servers[(self.first + turn) % self.servers.len()];
            match self.ask(server, name)? {
                Said::Address(address) => return Ok(Ok((server, address))),
                Said::Nothing(why) => heard.push(format!("{server} {why}")),
                Said::Wrong(what) => return Ok(Err(format!("{server}: {name} {what}"))),
            }
        }
        Ok(Err(format!("{name} is not found: {}", heard.join("; "))))
    }

    fn ask(&mut self, server: SocketAddr, name: &str) -> Result<Said> {
        self.next_id = self.next_id.wrapping_add(1);
        let question = Message {
            head: Head {
                id: self.next_id,
                opcode: opcode::QUERY,
                ..Head::default()
            },
            question: vec![Question::new(Name::parse(name)?, RecordType::A.code())],
            ..Message::default()
        };
        let bytes = wire::datagram_bytes(question.compose(512)?);
        // A socket of its own for each question: no late answer to another one arrives there.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(SILENT_AFTER))?;
        socket.connect(server)?;
        let mut buffer = [0; 512];
        let received = socket.send(&bytes).and_then(|_| socket.recv(&mut buffer));
        let answer = match received {
            Ok(length) => Message::parse(&buffer[..length])?,
            Err(error) => return Ok(Said::Nothing(error.to_string())),
        };
        match answer.head.rcode {
            rcode::NOERROR => {}
            rcode::SERVFAIL | rcode::REFUSED => {
                return Ok(Said::Nothing(format!("says code {}", answer.head.rcode)));
            }
            code => return Ok(Said::Wrong(format!("has code {code}"))),
        }
        let first = answer.answer.first().map(wire::WireRecord::data);
        Ok(match first {
            Some(Ok(RecordData::A(address))) => Said::Address(address),
            other => Said::Wrong(format!("is {other:?}")),
        })
    }
}
