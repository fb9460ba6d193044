//! NOTIFY: telling secondaries that a zone has changed (RFC 1996).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bindery_core::{Fault, FaultKind, Name, RecordType};
use domain::rdata::tsig::Time48;
use domain::tsig::ClientTransaction;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::key::Key;
use crate::wire::{self, Head, Message, Question, opcode};

/// How often a NOTIFY is sent before it is given up. Secondaries look at the serial by
/// themselves after the refresh time, so more would only repeat what they will find out.
const TRIES: u32 = 4;

/// The first wait for an answer; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Tells `target` that `zone` has changed, signed with `key` at `now` (seconds since 1970); `id`
/// should be unpredictable.
///
/// # Errors
/// `Unreachable` if there was no answer that the key signed; the secondary then finds out at its
/// next refresh.
pub async fn send_notify(
    target: SocketAddr,
    zone: &Name,
    id: u16,
    key: &Key,
    now: u64,
) -> Result<(), Fault> {
    let message = Message {
        head: Head {
            id,
            opcode: opcode::NOTIFY,
            authoritative: true,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), RecordType::Soa.code())],
        ..Message::default()
    };
    let unreachable = |reason: String| {
        Fault::new(
            FaultKind::Unreachable,
            format!("secondary {target} was not told of zone {zone}: {reason}"),
        )
    };
    let now = Time48::from_u64(now);
    let mut composed = message
        .compose(512)
        .map_err(|error| unreachable(error.to_string()))?;
    let transaction = ClientTransaction::request(key.signing(), &mut composed, now)
        .map_err(|error| unreachable(error.to_string()))?;
    let bytes = wire::datagram_bytes(composed);
    let local: SocketAddr = if target.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let exchange = async {
        let socket = UdpSocket::bind(local).await?;
        socket.connect(target).await?;
        // The check of the signature covers the id.
        let is_answer = |bytes: &[u8]| {
            domain::base::Message::from_octets(bytes.to_vec())
                .is_ok_and(|mut answer| transaction.answer(&mut answer, now).is_ok())
        };
        let mut wait = FIRST_WAIT;
        for _ in 0..TRIES {
            socket.send(&bytes).await?;
            let mut answer = [0; 1_232];
            if let Ok(received) = timeout(wait, socket.recv(&mut answer)).await
                && is_answer(&answer[..received?])
            {
                return Ok(());
            }
            wait *= 2;
        }
        Err(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "no answer",
        ))
    };
    exchange
        .await
        .map_err(|error| unreachable(error.to_string()))
}
