use std::net::SocketAddr;

use bindery_core::FaultKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::wire::WireRecord;

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn next_request(stream: &mut TcpStream) -> Message {
    let length = stream.read_u16().await.unwrap();
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await.unwrap();
    Message::parse(&bytes).unwrap()
}

async fn reply(stream: &mut TcpStream, request: &Message, answer: Vec<WireRecord>) {
    let mut head = request.head;
    head.response = true;
    head.authoritative = true;
    let message = Message {
        head,
        question: request.question.clone(),
        answer,
        ..Message::default()
    };
    let bytes = wire::stream_bytes(message.compose(65_535).unwrap());
    stream.write_all(&bytes).await.unwrap();
}

fn zone() -> Name {
    Name::parse("example.com.").unwrap()
}

fn soa(serial: u32) -> WireRecord {
    let line = format!("example.com. 60 IN SOA a.example.com. b.example.com. {serial} 2 3 4 5");
    let record: Record = line.parse().unwrap();
    WireRecord::new(record.name, record.ttl, &record.data)
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let (listener, address) = listener().await;
    drop(listener);
    let server = Server::new(address.to_string(), None);
    let fault = server.update(&zone(), &[]).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable, "{fault}");
}

#[tokio::test]
async fn an_update_whose_answer_never_comes_is_lost() {
    let (listener, address) = listener().await;
    let server =
        Server::new(address.to_string(), None).with_answer_timeout(Duration::from_millis(50));
    let silent = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        next_request(&mut stream).await;
        stream
    };
    let zone = zone();
    let (fault, _stream) = tokio::join!(server.update(&zone, &[]), silent);
    assert_eq!(fault.unwrap_err().kind, FaultKind::Lost);
}

#[tokio::test]
async fn an_update_whose_connection_ends_before_the_answer_is_lost() {
    let (listener, address) = listener().await;
    let server = Server::new(address.to_string(), None);
    let closing = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        next_request(&mut stream).await;
    };
    let zone = zone();
    let (fault, ()) = tokio::join!(server.update(&zone, &[]), closing);
    assert_eq!(fault.unwrap_err().kind, FaultKind::Lost);
}

#[tokio::test]
async fn answers_in_another_order_reach_their_callers() {
    let (listener, address) = listener().await;
    let server = Server::new(address.to_string(), None);
    let zone = zone();
    let backwards = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let first = next_request(&mut stream).await;
        let second = next_request(&mut stream).await;
        // Whoever came second gets the second serial, and its answer first.
        reply(&mut stream, &second, vec![soa(2)]).await;
        reply(&mut stream, &first, vec![soa(1)]).await;
        stream
    };
    let (one, two, _stream) = tokio::join!(server.serial(&zone), server.serial(&zone), backwards);
    assert_eq!((one.unwrap(), two.unwrap()), (Serial(1), Serial(2)));
}

#[tokio::test]
async fn a_query_on_a_connection_closed_meanwhile_is_asked_again() {
    let (listener, address) = listener().await;
    let server = Server::new(address.to_string(), None);
    let zone = zone();
    let serve = async {
        for (serial, answers) in [(1, true), (0, false), (2, true)] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = next_request(&mut stream).await;
            if answers {
                reply(&mut stream, &request, vec![soa(serial)]).await;
            }
        }
    };
    let ask = async {
        // The first connection ends after its answer, the second before it.
        let first = server.serial(&zone).await;
        (first, server.serial(&zone).await)
    };
    let ((first, second), ()) = tokio::join!(ask, serve);
    assert_eq!((first.unwrap(), second.unwrap()), (Serial(1), Serial(2)));
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_the_connection_to_others() {
    let (listener, address) = listener().await;
    let server = Server::new(address.to_string(), None);
    let zone = zone();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let abandoned = next_request(&mut stream).await;
        let wanted = next_request(&mut stream).await;
        reply(&mut stream, &abandoned, vec![soa(1)]).await;
        reply(&mut stream, &wanted, vec![soa(2)]).await;
        stream
    };
    let ask = async {
        let given_up = timeout(Duration::from_millis(30), server.serial(&zone));
        assert!(given_up.await.is_err());
        server.serial(&zone).await
    };
    let (serial, _stream) = tokio::join!(ask, serve);
    assert_eq!(serial.unwrap(), Serial(2));
}

#[tokio::test]
async fn a_server_without_the_zone_is_told_apart_from_one_that_refuses() {
    let server = Server::new("192.0.2.1:53", Some(Key::generate("k", [1; 32]).unwrap()));
    let zone = zone();
    assert_eq!(
        server.update_refused(&zone, rcode::NOTAUTH).kind,
        FaultKind::Missing
    );
    let refused = server.update_refused(&zone, rcode::REFUSED);
    assert!(
        refused.is(FaultKind::Refused, rcode::REFUSED),
        "{refused:?}"
    );
    assert!(
        refused.message.contains("allow-update { key \"k\"; };"),
        "{refused}"
    );
    for code in [
        rcode::YXRRSET,
        rcode::NXRRSET,
        rcode::YXDOMAIN,
        rcode::NXDOMAIN,
    ] {
        let fault = server.update_refused(&zone, code);
        assert!(fault.is(FaultKind::Conflict, code), "{fault:?}");
    }
}

#[tokio::test]
async fn an_unsigned_answer_to_a_signed_update_is_not_believed() {
    let (listener, address) = listener().await;
    let server = Server::new(
        address.to_string(),
        Some(Key::generate("k", [1; 32]).unwrap()),
    );
    let zone = zone();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = next_request(&mut stream).await;
        reply(&mut stream, &request, Vec::new()).await;
        stream
    };
    let (fault, _stream) = tokio::join!(server.update(&zone, &[]), serve);
    let fault = fault.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Denied, "{fault}");
    assert!(fault.message.contains("without a signature"), "{fault}");
}

/// More connections than a server queues would wait for a second each.
#[tokio::test]
async fn few_transfers_run_at_a_time_and_all_get_their_turn() {
    let (listener, address) = listener().await;
    let server = Server::new(address.to_string(), None);
    let transfers = futures::future::join_all((0..3 * TRANSFERS_MAX).map(|_| {
        let server = &server;
        async move { server.fetch_transfer(&zone()).await }
    }));
    // Nobody is answered before as many have come as may come.
    let serving = async {
        for _ in 0..3 {
            let mut streams = Vec::new();
            for _ in 0..TRANSFERS_MAX {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = next_request(&mut stream).await;
                streams.push((stream, request));
            }
            tokio::task::yield_now().await;
            let more = futures::FutureExt::now_or_never(listener.accept());
            assert!(more.is_none(), "more than {TRANSFERS_MAX} came at a time");
            for (stream, request) in &mut streams {
                reply(stream, request, vec![soa(7), soa(7)]).await;
            }
        }
    };
    let (contents, ()) = tokio::join!(transfers, serving);
    assert!(
        contents
            .iter()
            .all(|content| content.as_ref().is_ok_and(|one| one.serial.0 == 7))
    );
}
