use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bindery_core::Uid;
use bindery_core::balancers::SourceRange;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use super::*;

/// Everything that a test waits for comes within this.
const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy that runs, and servers behind it.
struct Stage {
    proxy: Arc<Proxy>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    front: SocketAddr,
}

impl Stage {
    /// Each test has an address of its own, so that ports are free.
    fn new(limits: ProxyLimits, last: u8) -> Self {
        let (proxy, tasks) = Proxy::new(limits);
        let stop = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(tasks.run(stop.clone()));
        Self {
            proxy: Arc::new(proxy),
            stop,
            tasks: running,
            front: SocketAddr::from((Ipv4Addr::new(127, 9, 0, last), 18_080)),
        }
    }

    /// A server that says its name and then everything that it hears, until the client ends.
    async fn backend(&mut self, name: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut reading, mut writing) = stream.split();
                    writing.write_all(name.as_bytes()).await.ok();
                    tokio::io::copy(&mut reading, &mut writing).await.ok();
                    writing.shutdown().await.ok();
                });
            }
        });
        address
    }

    /// A server that answers each datagram with its name.
    async fn datagrams(&mut self, name: &'static str) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("it is bound");
        self.tasks.spawn(async move {
            let mut buffer = [0; 1500];
            while let Ok((_, client)) = socket.recv_from(&mut buffer).await {
                socket.send_to(name.as_bytes(), client).await.ok();
            }
        });
        address
    }

    fn forwarding(&self, protocol: FrontProtocol, endpoints: &[SocketAddr]) -> Forwarding {
        let endpoints: BTreeSet<SocketAddr> = endpoints.iter().copied().collect();
        Forwarding {
            addresses: vec![self.front.ip()],
            ports: [((protocol, self.front.port()), endpoints)].into(),
            ..Forwarding::default()
        }
    }

    async fn apply(&self, forwarding: Forwarding) {
        let applied = self
            .proxy
            .apply(&[(key(1), Some(Arc::new(forwarding)))])
            .await;
        applied.expect("the port is free");
    }

    /// What a client hears that says a word and ends.
    async fn ask(&self, word: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.front).await?;
        stream.write_all(word.as_bytes()).await?;
        stream.shutdown().await?;
        let mut heard = String::new();
        within(stream.read_to_string(&mut heard)).await?;
        Ok(heard)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn key(number: u8) -> BalancerKey {
    BalancerKey::Service(Uid::from(format!("service-{number}").as_str()))
}

fn short() -> ProxyLimits {
    ProxyLimits {
        grace: Duration::from_millis(50),
        connect_timeout: Duration::from_secs(3),
        ..ProxyLimits::default()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it comes in time")
}

#[tokio::test]
async fn a_client_reaches_an_endpoint_and_each_side_may_end_first() {
    let mut stage = Stage::new(short(), 1);
    let one = stage.backend("one ").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one]))
        .await;
    assert_eq!(stage.ask("hello").await.expect("it answers"), "one hello");
    let long = "x".repeat(1_000_000);
    assert_eq!(stage.ask(&long).await.expect("it answers").len(), 1_000_004);
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over() {
    let mut stage = Stage::new(short(), 2);
    let one = stage.backend("one ").await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let dead = closed.local_addr().expect("it is bound");
    drop(closed);
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one, dead]))
        .await;
    for _ in 0..6 {
        assert_eq!(stage.ask("").await.expect("it answers"), "one ");
    }
}

#[tokio::test]
async fn an_endpoint_that_goes_gets_no_new_connections_and_old_ones_go_on() {
    let mut stage = Stage::new(short(), 3);
    let one = stage.backend("one ").await;
    let two = stage.backend("two ").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one]))
        .await;
    let mut old = TcpStream::connect(stage.front).await.expect("it is open");
    let mut heard = [0; 4];
    within(old.read_exact(&mut heard))
        .await
        .expect("it answers");
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[two]))
        .await;
    for _ in 0..5 {
        assert_eq!(stage.ask("").await.expect("it answers"), "two ");
    }
    old.write_all(b"more").await.expect("it is open");
    within(old.read_exact(&mut heard))
        .await
        .expect("it answers");
    assert_eq!(&heard, b"more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_changes_of_endpoints_lose_no_connection() {
    let mut stage = Stage::new(short(), 4);
    let mut all = Vec::new();
    for name in ["one ", "two ", "three ", "four "] {
        all.push(stage.backend(name).await);
    }
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &all))
        .await;
    let mut old = TcpStream::connect(stage.front).await.expect("it is open");
    let done = AtomicBool::new(false);
    let (asked, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let client = async {
        while !done.load(Ordering::Relaxed) {
            asked.fetch_add(1, Ordering::Relaxed);
            let answer = stage.ask("hello").await;
            if !answer.is_ok_and(|text| text.ends_with(" hello")) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let change = async {
        let mut seed = 7_u32;
        for _ in 0..200 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let chosen = (seed >> 16) % 15 + 1;
            let living: Vec<SocketAddr> = all
                .iter()
                .enumerate()
                .filter(|(place, _)| chosen & (1 << place) != 0)
                .map(|(_, endpoint)| *endpoint)
                .collect();
            stage
                .apply(stage.forwarding(FrontProtocol::Tcp, &living))
                .await;
            // Some clients come between any two changes.
            let before = asked.load(Ordering::Relaxed);
            while asked.load(Ordering::Relaxed) == before {
                tokio::task::yield_now().await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(client, change);
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    assert!(asked.load(Ordering::Relaxed) >= 200);
    old.write_all(b"still here").await.expect("it is open");
    old.shutdown().await.expect("it is open");
    let mut heard = String::new();
    within(old.read_to_string(&mut heard))
        .await
        .expect("it answers");
    assert!(heard.ends_with("still here"), "{heard}");
}

#[tokio::test]
async fn deletion_stops_the_traffic() {
    let mut stage = Stage::new(short(), 5);
    let one = stage.backend("one ").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one]))
        .await;
    let mut old = TcpStream::connect(stage.front).await.expect("it is open");
    let mut heard = [0; 4];
    within(old.read_exact(&mut heard))
        .await
        .expect("it answers");
    stage.proxy.apply(&[(key(1), None)]).await.expect("it goes");
    let refused = stage.ask("").await.expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // Whether it is an end or a fault, nothing comes any more.
    let ended = within(old.read(&mut heard)).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    // Somebody else may have the address and port at once.
    let two = stage.backend("two ").await;
    let forwarding = Arc::new(stage.forwarding(FrontProtocol::Tcp, &[two]));
    let applied = stage.proxy.apply(&[(key(2), Some(forwarding))]).await;
    applied.expect("the port is free");
    assert_eq!(stage.ask("").await.expect("it answers"), "two ");
}

#[tokio::test]
async fn only_those_of_the_source_ranges_are_let_in() {
    let mut stage = Stage::new(short(), 6);
    let one = stage.backend("one ").await;
    let range = SourceRange::new(IpAddr::from([127, 0, 0, 2]), 32).expect("a network");
    stage
        .apply(Forwarding {
            source_ranges: vec![range],
            ..stage.forwarding(FrontProtocol::Tcp, &[one])
        })
        .await;
    for (from, expected) in [([127, 0, 0, 1], ""), ([127, 0, 0, 2], "one ")] {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((from, 0))).expect("loopback");
        let mut stream = socket.connect(stage.front).await.expect("it is open");
        stream.shutdown().await.ok();
        let mut heard = String::new();
        within(stream.read_to_string(&mut heard)).await.ok();
        assert_eq!(heard, expected, "{from:?}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_and_nothing_changes() {
    let mut stage = Stage::new(short(), 7);
    let one = stage.backend("one ").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one]))
        .await;
    let other = SocketAddr::new(stage.front.ip(), 18_081);
    let _holder = TcpListener::bind(other).await.expect("it is free");
    let mut both = stage.forwarding(FrontProtocol::Tcp, &[one]);
    both.ports
        .insert((FrontProtocol::Tcp, 18_081), [one].into());
    both.ports
        .insert((FrontProtocol::Tcp, 18_082), [one].into());
    let refused = stage.proxy.apply(&[(key(1), Some(Arc::new(both)))]).await;
    let fault = refused.expect_err("the port is taken");
    assert_eq!(fault.kind, FaultKind::Refused);
    assert!(
        fault.message.contains("127.9.0.7:18081 is taken"),
        "{fault}"
    );
    assert_eq!(stage.ask("").await.expect("it answers"), "one ");
    let third = SocketAddr::new(stage.front.ip(), 18_082);
    assert!(TcpStream::connect(third).await.is_err());
    let found = stage.proxy.read().await.expect("it is there");
    assert_eq!(found[&key(1)].ports.len(), 1);
    assert!(found[&key(1)].is_whole);
}

#[tokio::test]
async fn an_address_that_the_machine_lacks_is_told() {
    let stage = Stage::new(short(), 8);
    let mut forwarding = stage.forwarding(FrontProtocol::Udp, &[]);
    forwarding.addresses = vec![IpAddr::from([192, 0, 2, 77])];
    let refused = stage
        .proxy
        .apply(&[(key(1), Some(Arc::new(forwarding)))])
        .await;
    let fault = refused.expect_err("nobody has that address");
    assert!(
        fault
            .message
            .contains("does not have the address 192.0.2.77"),
        "{fault}"
    );
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_wait_for_their_turn() {
    let limits = ProxyLimits {
        connections_max: 1,
        ..short()
    };
    let mut stage = Stage::new(limits, 9);
    let one = stage.backend("one ").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Tcp, &[one]))
        .await;
    let mut first = TcpStream::connect(stage.front).await.expect("it is open");
    let mut heard = [0; 4];
    within(first.read_exact(&mut heard))
        .await
        .expect("it answers");
    assert_eq!(stage.proxy.connections(), (1, 1));
    // The kernel takes the second; nobody answers before the first has gone.
    let second = stage.ask("later");
    tokio::pin!(second);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(early.is_err(), "{early:?}");
    drop(first);
    assert_eq!(second.await.expect("it answers"), "one later");
}

#[tokio::test]
async fn datagrams_of_a_client_go_to_one_endpoint_until_it_goes() {
    let mut stage = Stage::new(short(), 10);
    let one = stage.datagrams("one").await;
    let two = stage.datagrams("two").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Udp, &[one, two]))
        .await;
    let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    client.connect(stage.front).await.expect("an address");
    let mut buffer = [0; 16];
    let mut heard = BTreeSet::new();
    for _ in 0..5 {
        client.send(b"?").await.expect("it is sent");
        let len = within(client.recv(&mut buffer)).await.expect("an answer");
        heard.insert(String::from_utf8_lossy(&buffer[..len]).into_owned());
    }
    assert_eq!(heard.len(), 1, "{heard:?}");
    let other = if heard.contains("one") { two } else { one };
    stage
        .apply(stage.forwarding(FrontProtocol::Udp, &[other]))
        .await;
    client.send(b"?").await.expect("it is sent");
    let len = within(client.recv(&mut buffer)).await.expect("an answer");
    assert!(!heard.contains(String::from_utf8_lossy(&buffer[..len]).as_ref()));
    stage.proxy.apply(&[(key(1), None)]).await.expect("it goes");
    let gone = UdpSocket::bind(stage.front).await;
    assert!(gone.is_ok(), "the port is free again");
    assert_eq!(stage.proxy.connections().0, 0);
}

#[tokio::test]
async fn a_flow_that_is_quiet_makes_room() {
    let limits = ProxyLimits {
        connections_max: 1,
        idle_timeout: Duration::from_millis(50),
        ..short()
    };
    let mut stage = Stage::new(limits, 11);
    let one = stage.datagrams("one").await;
    stage
        .apply(stage.forwarding(FrontProtocol::Udp, &[one]))
        .await;
    let mut buffer = [0; 16];
    for _ in 0..2 {
        let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        client.connect(stage.front).await.expect("an address");
        within(async {
            loop {
                client.send(b"?").await.expect("it is sent");
                let pause = Duration::from_millis(20); // pause between polls
                if tokio::time::timeout(pause, client.recv(&mut buffer))
                    .await
                    .is_ok()
                {
                    break;
                }
            }
        })
        .await;
    }
}
