use bindery_core::{Name, Record};
use bindery_dns::Key;
use bindery_dns::wire::Question;
use bindery_engine::ports::ZoneHost;
use proptest::prelude::*;

use super::*;
use crate::Options;
use bindery_dns::local::Replication;

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn server() -> BuiltinServer {
    let server = BuiltinServer::open(Options {
        folder: None,
        key: Key::generate("bindery", [1; 32]).unwrap(),
        clock: Arc::new(|| 1_800_000_000),
        role: Replication::default(),
        notify_id: Arc::new(|| 1),
    });
    let server = server.unwrap();
    let zone = Name::parse("example.com.").unwrap();
    let records: Vec<Record> = [
        "example.com. 60 IN SOA ns.example.com. h.example.com. 1 2 3 4 5",
        "example.com. 60 IN NS ns.example.com.",
        "www.example.com. 60 IN A 192.0.2.1",
        "*.example.com. 60 IN TXT \"any\"",
    ]
    .iter()
    .map(|line| line.parse().unwrap())
    .collect();
    let created = futures::executor::block_on(server.create(&zone, &records));
    created.unwrap();
    server
}

fn question() -> Vec<u8> {
    let message = Message {
        head: Head {
            id: 9,
            ..Head::default()
        },
        question: vec![Question::new(Name::parse("www.example.com.").unwrap(), 1)],
        additional: vec![edns_row(0)],
        ..Message::default()
    };
    message.compose(512).map(wire::datagram_bytes).unwrap()
}

/// Answers that came at once must be messages that fit and carry the asker's id.
fn check(reply: Reply, request: &[u8], by: Transport) -> Result<(), TestCaseError> {
    if let Reply::Now(bytes) = reply {
        let limit = if by == Transport::Udp {
            usize::from(UDP_LEN_MAX)
        } else {
            MESSAGE_LEN_MAX
        };
        prop_assert!(bytes.len() <= limit, "{} bytes", bytes.len());
        prop_assert_eq!(&bytes[..2], &request[..2]);
        prop_assert!(bytes[2] & 0x80 != 0, "not marked as an answer");
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let server = server();
        for by in [Transport::Udp, Transport::Tcp] {
            check(respond(&server, bytes.clone(), by, FROM), &bytes, by)?;
        }
    }

    #[test]
    fn a_question_with_flipped_bytes_is_answered_or_refused(
        flips in proptest::collection::vec((2_usize..60, any::<u8>()), 1..4),
    ) {
        let server = server();
        let mut bytes = question();
        for (at, value) in flips {
            let at = at % bytes.len();
            if at >= 2 {
                bytes[at] = value;
            }
        }
        for by in [Transport::Udp, Transport::Tcp] {
            check(respond(&server, bytes.clone(), by, FROM), &bytes, by)?;
        }
    }
}

#[test]
fn a_plain_question_is_answered_at_once() {
    let Reply::Now(bytes) = respond(&server(), question(), Transport::Udp, FROM) else {
        panic!("no answer");
    };
    let answer = Message::parse(&bytes).unwrap();
    assert_eq!((answer.answer.len(), answer.head.id), (1, 9));
}
