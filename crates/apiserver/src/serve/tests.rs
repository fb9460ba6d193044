//! What connections that do nothing cost the others, over loopback.

use std::time::Duration;

use bindery_http::Patience;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::*;
use crate::Options;

const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(50);
/// Longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// An API that is being served.
struct Scene {
    api: EmbeddedApi,
    address: SocketAddr,
    _serving: JoinHandle<()>,
}

impl Scene {
    async fn new(connections: usize, (first, later): (Duration, Duration)) -> Self {
        let api = EmbeddedApi::open(Options::in_memory()).expect("memory is there");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let limits = ConnectionLimits {
            connections,
            patience: Patience { first, later },
        };
        let (options, stop) = (ServeOptions::default(), CancellationToken::new());
        let serving = api.clone().serve_within(limits, listener, options, stop);
        Self {
            api,
            address,
            _serving: tokio::spawn(serving),
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// A connection with a request, of which nothing is read yet.
    async fn ask(&self, target: &str) -> TcpStream {
        let mut socket = self.connect().await;
        let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        socket
            .write_all(request.as_bytes())
            .await
            .expect("it is open");
        socket
    }

    /// A connection with a request that was answered.
    async fn ask_and_read(&self, target: &str) -> TcpStream {
        let mut socket = self.ask(target).await;
        read_until(&mut socket, "HTTP/1.1 200 OK").await;
        socket
    }

    /// Makes a `ConfigMap` of so many bytes.
    async fn make_map(&self, name: &str, len: usize) {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"a": "x".repeat(len)},
        });
        let request = Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from(
                body.to_string(),
            )))
            .expect("it is a request");
        let Ok(answer) = self.api.service().call(request).await;
        assert_eq!(answer.status(), 201);
    }
}

/// Reads until this was among it.
async fn read_until(socket: &mut TcpStream, wanted: &str) {
    let mut seen = Vec::new();
    let reading = async {
        loop {
            let mut buffer = vec![0; 1 << 16];
            let len = socket.read(&mut buffer).await.expect("it is open");
            assert_ne!(len, 0, "closed before {wanted}");
            seen.extend_from_slice(&buffer[..len]);
            if seen
                .windows(wanted.len())
                .any(|part| part == wanted.as_bytes())
            {
                return;
            }
            // It may be cut in two.
            seen.drain(..seen.len().saturating_sub(wanted.len()));
        }
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    assert!(read.is_ok(), "{wanted} did not come");
}

/// Waits until the server has closed it; what it sends before is thrown away.
async fn closed(socket: &mut TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    let reading = async { while matches!(socket.read(&mut buffer).await, Ok(1..)) {} };
    let end = tokio::time::timeout(PATIENCE, reading).await;
    assert!(end.is_ok(), "it stays open");
}

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";

#[tokio::test]
async fn idle_connections_make_room_for_a_request() {
    let scene = Scene::new(8, (LONG, LONG)).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(scene.connect().await);
    }
    let mut asked = Vec::new();
    for _ in 0..20 {
        asked.push(scene.ask_and_read("/version").await);
    }
    scene.ask_and_read("/version").await;
    closed(&mut silent[0]).await;
    closed(&mut asked[0]).await;
}

#[tokio::test]
async fn half_sent_requests_make_room_for_a_whole_one() {
    let scene = Scene::new(8, (LONG, LONG)).await;
    let mut half = Vec::new();
    for _ in 0..20 {
        let mut socket = scene.connect().await;
        let head = format!(
            "POST /api/v1/namespaces HTTP/1.1\r\nHost: {}\r\nContent-Length: 9\r\n\r\n{{",
            scene.address
        );
        socket.write_all(head.as_bytes()).await.expect("it is open");
        half.push(socket);
    }
    scene.ask_and_read("/version").await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let scene = Scene::new(8, (SHORT, LONG)).await;
    closed(&mut scene.connect().await).await;
    // The beginning of HTTP/2, and then nothing.
    let mut socket = scene.connect().await;
    socket
        .write_all(b"PRI * HTTP/2.0\r\n")
        .await
        .expect("it is open");
    closed(&mut socket).await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends_and_a_watch_that_is_read_lives() {
    let scene = Scene::new(8, (LONG, SHORT)).await;
    let mut read = scene.ask_and_read(WATCH).await;
    let mut unread = scene.ask(WATCH).await;
    for number in 0..24 {
        let name = format!("a{number}");
        scene.make_map(&name, 1_000_000).await;
        read_until(&mut read, &format!("\"name\":\"{name}\"")).await;
    }
    // An idle one is closed after the same time, so that time has passed for the others too.
    closed(&mut scene.ask_and_read("/version").await).await;
    // More than sockets hold is under way to it; had it not ended, reading would never end.
    closed(&mut unread).await;
    scene.make_map("last", 1).await;
    read_until(&mut read, "\"name\":\"last\"").await;
}
