//! Names that answer all the time while their values change.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bindery_core::{Name, RecordData, RecordType};
use bindery_dns::wire::{self, Head, Message, Question, opcode, rcode};
use bindery_e2e::http::{Call, Http};
use futures::future::try_join_all;
use http::Method;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::fleet::{fleet, record, serial};
use crate::machine::{Machine, Server, until};

crate::cases!(names_answer_while_values_change);

/// A thousand changes: so many names, each changed so often.
const NAMES: u8 = 25;
const ROUNDS: u8 = 40;
/// The primary and its two secondaries.
const SERVERS: u16 = 3;
/// A datagram may get lost; it is sent again after this.
const LOST_AFTER: Duration = Duration::from_secs(2);
const RECORDS: &str = "/apis/bindy.firestoned.io/v1beta1/namespaces/default/arecords";

/// Asks by UDP, one question at a time.
struct Asker {
    socket: UdpSocket,
    first_port: u16,
    next_id: u16,
}

fn names_answer_while_values_change(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    let all: String = (0..NAMES)
        .map(|name| {
            record(
                &format!("h{name}"),
                "example",
                &address(0, name).to_string(),
            )
        })
        .collect();
    machine.apply(&all, &[])?;
    let mut asker = Asker::new(machine.dns)?;
    until_all_answer(&mut asker, 0)?;
    let before = serial(&machine, 0)?;

    let done = AtomicBool::new(false);
    let (changed, count) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(&done, machine.dns));
        let changed = change_all(&machine, &mut asker, &asking);
        done.store(true, Ordering::Relaxed);
        (changed, asking.join())
    });
    // A gap is the finding; that nothing was changed after it only follows from it.
    let count = count.map_err(|_| anyhow::anyhow!("the asker fell"))??;
    changed?;
    ensure!(count > usize::from(ROUNDS), "only {count} questions");
    until_all_answer(&mut asker, ROUNDS)?;
    let steps = serial(&machine, 0)? - before;
    ensure!(
        steps >= u32::from(ROUNDS),
        "only {steps} steps of the serial"
    );
    Ok(())
}

/// Changes every value in every round; a round begins when the primary has the one before, so that
/// no value is skipped.
fn change_all<T>(
    machine: &Machine,
    asker: &mut Asker,
    asking: &std::thread::ScopedJoinHandle<'_, T>,
) -> Result<()> {
    let runtime = Runtime::new().context("a runtime needs only threads")?;
    let _entered = runtime.enter();
    let http = Http::connect(&format!("http://127.0.0.1:{}", machine.api), None)?;
    for round in 1..=ROUNDS {
        let patches = (0..NAMES).map(|name| patch(&http, name, round));
        runtime.block_on(try_join_all(patches))?;
        ensure!(!asking.is_finished(), "the asker ended in round {round}");
        for name in 0..NAMES {
            asker.until_answers(0, name, round)?;
        }
    }
    Ok(())
}

async fn patch(http: &Http, name: u8, round: u8) -> Result<()> {
    let patch = json!({"spec": {"ipv4Addresses": [address(round, name)]}});
    let call = Call::new(Method::PATCH, format!("{RECORDS}/h{name}"))
        .body("application/merge-patch+json", patch.to_string());
    let answer = http.send(call).await?;
    ensure!(answer.code == 200, "{}: {}", answer.code, answer.text);
    Ok(())
}

/// Asks every server for every name, over and over, and counts; each must answer with one value.
fn ask_until(done: &AtomicBool, first_port: u16) -> Result<usize> {
    let mut asker = Asker::new(first_port)?;
    let mut count = 0;
    while !done.load(Ordering::Relaxed) {
        for name in 0..NAMES {
            for server in 0..SERVERS {
                asker.ask(server, name)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

fn until_all_answer(asker: &mut Asker, round: u8) -> Result<()> {
    for name in 0..NAMES {
        for server in 0..SERVERS {
            until("the name is there", || Ok(asker.ask(server, name).ok()))?;
            asker.until_answers(server, name, round)?;
        }
    }
    Ok(())
}

fn address(round: u8, name: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, round, name)
}

impl Asker {
    fn new(first_port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(LOST_AFTER))?;
        Ok(Self {
            socket,
            first_port,
            next_id: 0,
        })
    }

    fn until_answers(&mut self, server: u16, name: u8, round: u8) -> Result<()> {
        let mut last = Ipv4Addr::UNSPECIFIED;
        until("the value of this round", || {
            last = self.ask(server, name)?;
            Ok((last == address(round, name)).then_some(()))
        })
        .with_context(|| format!("server {server}: h{name} in round {round} is {last}"))
    }

    /// The one address that a server has for a name.
    fn ask(&mut self, server: u16, name: u8) -> Result<Ipv4Addr> {
        let name = Name::parse(&format!("h{name}.example.com"))?;
        let answer = self.exchange(server, &name)?;
        let code = answer.head.rcode;
        ensure!(
            code == rcode::NOERROR,
            "server {server}: {name} has code {code}"
        );
        let [row] = &answer.answer[..] else {
            bail!("server {server}: {name} has {} values", answer.answer.len());
        };
        match row.data() {
            Ok(RecordData::A(address)) => Ok(address),
            other => bail!("server {server}: {name} is {other:?}"),
        }
    }

    fn exchange(&mut self, server: u16, name: &Name) -> Result<Message> {
        until("an answer by UDP", || {
            self.next_id = self.next_id.wrapping_add(1);
            let question = Message {
                head: Head {
                    id: self.next_id,
                    opcode: opcode::QUERY,
                    ..Head::default()
                },
                question: vec![Question::new(name.clone(), RecordType::A.code())],
                ..Message::default()
            };
            let bytes = wire::datagram_bytes(question.compose(512)?);
            let target = (Ipv4Addr::LOCALHOST, self.first_port + server);
            self.socket.send_to(&bytes, target)?;
            let mut buffer = [0; 512];
            let Ok(length) = self.socket.recv(&mut buffer) else {
                return Ok(None);
            };
            let answer = Message::parse(&buffer[..length])?;
            // A late answer to a question that was given up is not this one's.
            Ok((answer.head.id == self.next_id).then_some(answer))
        })
    }
}
