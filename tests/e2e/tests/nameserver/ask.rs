//! Plain questions and updates, written by hand so that a bug of our client cannot hide one of
//! a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bindery_core::{Name, RecordData, RecordType};
use bindery_dns::Key;
use bindery_dns::wire::{self, Head, Message, Question, WireRecord, class, opcode, rtype};
use domain::rdata::tsig::Time48;
use domain::tsig::ClientTransaction;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::scene::Scene;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A question for a name and a type code.
pub(crate) fn question(name: &Name, rtype: u16) -> Message {
    Message {
        head: Head {
            id: 0x4242,
            opcode: opcode::QUERY,
            ..Head::default()
        },
        question: vec![Question::new(name.clone(), rtype)],
        ..Message::default()
    }
}

/// The EDNS record of an asker that takes `size` bytes.
pub(crate) fn edns(size: u16, version: u8) -> WireRecord {
    WireRecord {
        name: Name::root(),
        rtype: rtype::OPT,
        class: size,
        ttl: u32::from(version) << 16,
        rdata: Vec::new(),
    }
}

/// An update of the scene's zone.
pub(crate) fn update(
    scene: &Scene,
    prerequisites: Vec<WireRecord>,
    changes: Vec<WireRecord>,
) -> Message {
    Message {
        head: Head {
            id: 0x4343,
            opcode: opcode::UPDATE,
            ..Head::default()
        },
        question: vec![Question::new(scene.zone.clone(), RecordType::Soa.code())],
        answer: prerequisites,
        authority: changes,
        ..Message::default()
    }
}

/// Bytes of a message without a signature.
pub(crate) fn bytes(message: &Message) -> Result<Vec<u8>> {
    Ok(wire::datagram_bytes(message.compose(65_535)?))
}

/// Sends bytes by UDP and returns the bytes that come back.
pub(crate) async fn udp_bytes(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let local: SocketAddr = if address.is_ipv4() {
        "127.0.0.1:0".parse()?
    } else {
        "[::1]:0".parse()?
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(address).await?;
    socket.send(request).await?;
    let mut buffer = vec![0; 65_535];
    let length = timeout(PATIENCE, socket.recv(&mut buffer))
        .await
        .context("no answer by UDP")??;
    buffer.truncate(length);
    Ok(buffer)
}

/// Asks by UDP.
pub(crate) async fn udp(address: SocketAddr, message: &Message) -> Result<Message> {
    let answer = Message::parse(&udp_bytes(address, &bytes(message)?).await?)?;
    ensure!(
        answer.head.response && answer.head.id == message.head.id,
        "not our answer"
    );
    Ok(answer)
}

/// Asks by TCP.
pub(crate) async fn tcp(address: SocketAddr, message: &Message) -> Result<Message> {
    let mut stream = TcpStream::connect(address).await?;
    send(&mut stream, &bytes(message)?).await?;
    let answer = Message::parse(&receive(&mut stream).await?)?;
    ensure!(
        answer.head.response && answer.head.id == message.head.id,
        "not our answer"
    );
    Ok(answer)
}

/// Sends a message with its length.
pub(crate) async fn send(stream: &mut TcpStream, message: &[u8]) -> Result<()> {
    let mut framed = u16::try_from(message.len())?.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await?;
    Ok(())
}

/// Receives a message with its length.
pub(crate) async fn receive(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let work = async {
        let length = stream.read_u16().await?;
        let mut bytes = vec![0; usize::from(length)];
        stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    };
    timeout(PATIENCE, work).await.context("no answer by TCP")?
}

/// The answer to a question for a name of the scene's zone.
pub(crate) async fn lookup(scene: &Scene, name: &str, rtype: RecordType) -> Result<Message> {
    udp(scene.address, &question(&scene.name(name), rtype.code())).await
}

/// Sends a signed update by TCP and returns its response code; the answer's signature must hold.
pub(crate) async fn signed(scene: &Scene, message: &Message) -> Result<u8> {
    let (bytes, transaction) = sign(message, &scene.key)?;
    let mut stream = TcpStream::connect(scene.address).await?;
    send(&mut stream, &bytes).await?;
    verify(receive(&mut stream).await?, &transaction)
}

/// Like [`signed`], for messages that a server may find so bad that it does not sign its answer.
pub(crate) async fn code(scene: &Scene, message: &Message) -> Result<u8> {
    let (bytes, _) = sign(message, &scene.key)?;
    let mut stream = TcpStream::connect(scene.address).await?;
    send(&mut stream, &bytes).await?;
    Ok(Message::parse(&receive(&mut stream).await?)?.head.rcode)
}

/// A message signed now, and what its answer is checked with.
pub(crate) fn sign(
    message: &Message,
    key: &Key,
) -> Result<(Vec<u8>, ClientTransaction<Arc<domain::tsig::Key>>)> {
    let mut composed = message.compose(65_000)?;
    let transaction = ClientTransaction::request(key.signing(), &mut composed, Time48::now())
        .map_err(|_| anyhow::anyhow!("no room for a signature"))?;
    Ok((wire::datagram_bytes(composed), transaction))
}

/// Checks an answer's signature and returns its response code.
pub(crate) fn verify(
    answer: Vec<u8>,
    transaction: &ClientTransaction<Arc<domain::tsig::Key>>,
) -> Result<u8> {
    let mut raw = domain::base::Message::from_octets(answer)
        .map_err(|_| anyhow::anyhow!("the answer is too short"))?;
    transaction.answer(&mut raw, Time48::now())?;
    Ok(raw.header().rcode().to_int())
}

/// Applies changes that must succeed.
pub(crate) async fn apply(scene: &Scene, changes: Vec<WireRecord>) -> Result<()> {
    let code = signed(scene, &update(scene, Vec::new(), changes)).await?;
    ensure!(code == 0, "the update was answered with {code}");
    Ok(())
}

/// A row that adds a zone-file line.
pub(crate) fn add(scene: &Scene, line: &str) -> WireRecord {
    let record = scene.record(line);
    WireRecord::new(record.name, record.ttl, &record.data)
}

/// A row that removes the record of a zone-file line.
pub(crate) fn remove(scene: &Scene, line: &str) -> WireRecord {
    WireRecord {
        class: class::NONE,
        ttl: 0,
        ..add(scene, line)
    }
}

/// A row without data: a prerequisite or the removal of a set.
pub(crate) fn empty(scene: &Scene, name: &str, rtype: RecordType, class: u16) -> WireRecord {
    WireRecord::empty(scene.name(name), rtype, class)
}

/// The prerequisite that a record of a set has this value.
pub(crate) fn value(scene: &Scene, line: &str) -> WireRecord {
    WireRecord {
        ttl: 0,
        ..add(scene, line)
    }
}

/// The data of answered records with this owner and type, in presentation form, sorted.
pub(crate) fn data_of(rows: &[WireRecord], name: &Name, rtype: RecordType) -> Vec<String> {
    let mut data: Vec<String> = rows
        .iter()
        .filter(|row| row.name == *name && row.rtype == rtype.code())
        .map(|row| {
            row.data()
                .map_or_else(|_| "malformed".to_owned(), |data| data.to_string())
        })
        .collect();
    data.sort();
    data
}

/// What a question for a name and type of the zone is answered with, sorted.
pub(crate) async fn data(scene: &Scene, name: &str, rtype: RecordType) -> Result<Vec<String>> {
    let question = question(&scene.name(name), rtype.code());
    let answer = tcp(scene.address, &question).await?;
    Ok(data_of(&answer.answer, &scene.name(name), rtype))
}

/// The serial as a query shows it.
pub(crate) async fn serial(scene: &Scene) -> Result<u32> {
    let answer = tcp(
        scene.address,
        &question(&scene.zone, RecordType::Soa.code()),
    )
    .await?;
    let row = answer.answer.first().context("no SOA")?;
    let RecordData::Soa(soa) = row.data()? else {
        anyhow::bail!("not an SOA: {row:?}")
    };
    Ok(soa.serial)
}
