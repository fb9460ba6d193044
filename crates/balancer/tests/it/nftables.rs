use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bindery_balancer::{DataPlane, Forwarding, FoundForwarding, Nftables, NftablesSettings};
use bindery_core::Uid;
use bindery_core::balancers::{BalancerKey, FrontProtocol, SourceRange, TrafficPolicy};
use tokio::runtime::Runtime;

use crate::namespaces::{Machines, PATIENCE, ask, say};

/// A router with rules, and the test's own way to its async methods.
struct Stage {
    machines: Machines,
    nftables: Nftables,
    runtime: Runtime,
}

impl Stage {
    fn new() -> Option<Self> {
        let machines = Machines::new()?;
        Some(Self {
            nftables: plane(&machines),
            machines,
            runtime: Runtime::new().expect("a runtime"),
        })
    }

    /// Another process, which knows nothing.
    fn restart(&mut self) {
        self.nftables = plane(&self.machines);
    }

    fn apply(&self, name: &str, forwarding: Option<Forwarding>) {
        let changes = [(key(name), forwarding.map(Arc::new))];
        let applied = self.runtime.block_on(self.nftables.apply(&changes));
        applied.expect("the kernel takes it");
    }

    fn read(&self) -> BTreeMap<BalancerKey, FoundForwarding> {
        let found = self.runtime.block_on(self.nftables.read());
        found.expect("the kernel tells it")
    }

    fn rules(&self) -> String {
        let listed = self.machines.exec("router", &["nft", "list", "ruleset"]);
        listed.expect("we are root")
    }

    fn addresses(&self) -> String {
        let shown = self
            .machines
            .exec("router", &["ip", "addr", "show", "dev", "lo"]);
        shown.expect("it is there")
    }

    /// The backends that answer a number of questions.
    fn answers(&self, front: SocketAddr, count: usize) -> BTreeSet<String> {
        let heard = (0..count).map(|_| self.machines.ask(front).expect("it answers"));
        heard
            .map(|text| text.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    }
}

fn plane(machines: &Machines) -> Nftables {
    let settings = NftablesSettings::of_this_machine().expect("nft and ip are installed");
    Nftables::new(NftablesSettings {
        namespace: Some(machines.name("router")),
        ..settings
    })
}

fn key(name: &str) -> BalancerKey {
    BalancerKey::Service(Uid::from(name))
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

const FRONT: &str = "10.77.0.100:80";
const FRONT6: &str = "[fd77::100]:80";
const SERVICE: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn forwarding(endpoints: &[SocketAddr]) -> Forwarding {
    let front = socket(FRONT);
    let endpoints: BTreeSet<SocketAddr> = endpoints.iter().copied().collect();
    let ports = [FrontProtocol::Tcp, FrontProtocol::Udp]
        .map(|protocol| ((protocol, front.port()), endpoints.clone()));
    Forwarding {
        addresses: vec![front.ip(), socket(FRONT6).ip()],
        ports: ports.into(),
        ..Forwarding::default()
    }
}

#[test]
fn a_client_reaches_every_backend_over_both_versions_of_ip() {
    let Some(stage) = Stage::new() else { return };
    let four = ["10.77.1.2", "10.77.1.3"].map(|one| stage.machines.backend(one));
    let six = ["fd77:1::2", "fd77:1::3"].map(|one| stage.machines.backend(one));
    stage.apply(SERVICE, Some(forwarding(&[four, six].concat())));
    let heard = stage.answers(socket(FRONT), 40);
    assert_eq!(heard, ["10.77.1.2", "10.77.1.3"].map(str::to_owned).into());
    let heard = stage.answers(socket(FRONT6), 40);
    assert_eq!(heard, ["fd77:1::2", "fd77:1::3"].map(str::to_owned).into());
    // From the machine itself too.
    let own = stage.machines.within("router", || ask(socket(FRONT)));
    let own = own.join().expect("it ends").expect("it answers");
    assert!(own.ends_with(" hello"), "{own}");
    // And by UDP.
    let heard = stage.machines.within("client", || {
        let client = UdpSocket::bind("0.0.0.0:0").expect("a port");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.send_to(b"?", socket(FRONT)).expect("it is sent");
        let mut buffer = [0; 64];
        let (len, from) = client.recv_from(&mut buffer).expect("an answer");
        (from, String::from_utf8_lossy(&buffer[..len]).into_owned())
    });
    let (from, heard) = heard.join().expect("it ends");
    assert_eq!(from, socket(FRONT));
    assert!(heard.starts_with("10.77.1."), "{heard}");
}

#[test]
fn backends_see_the_client_only_where_the_policy_is_local() {
    let Some(stage) = Stage::new() else { return };
    let one = stage.machines.backend("10.77.1.2");
    stage.apply(SERVICE, Some(forwarding(&[one])));
    let heard = stage.machines.ask(socket(FRONT)).expect("it answers");
    assert_eq!(heard, "10.77.1.2 10.77.1.1 hello");
    let local = Forwarding {
        traffic_policy: TrafficPolicy::Local,
        ..forwarding(&[one])
    };
    stage.apply(SERVICE, Some(local));
    let heard = stage.machines.ask(socket(FRONT)).expect("it answers");
    assert_eq!(heard, "10.77.1.2 10.77.0.2 hello");
}

#[test]
fn two_hundred_changes_of_endpoints_lose_no_connection_and_a_restart_neither() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let all = ["10.77.1.2", "10.77.1.3", "10.77.1.4", "10.77.1.5"]
        .map(|address| stage.machines.backend(address));
    stage.apply(SERVICE, Some(forwarding(&all)));
    let mut old = stage.machines.connect_to(socket(FRONT));
    let done = Arc::new(AtomicBool::new(false));
    let (asked, failed) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (told, counted, failures) = (Arc::clone(&done), Arc::clone(&asked), Arc::clone(&failed));
    let client = stage.machines.within("client", move || {
        while !told.load(Ordering::Relaxed) {
            counted.fetch_add(1, Ordering::Relaxed);
            let heard = ask(socket(FRONT));
            if !heard.as_ref().is_ok_and(|text| text.ends_with(" hello")) {
                failures.lock().expect("nobody panics").push(heard);
            }
        }
    });
    let mut seed = 11_u32;
    for step in 0..200 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let chosen = (seed >> 16) % 15 + 1;
        let living: Vec<SocketAddr> = all
            .iter()
            .enumerate()
            .filter(|(place, _)| chosen & (1 << place) != 0)
            .map(|(_, endpoint)| *endpoint)
            .collect();
        if step % 50 == 49 {
            stage.restart();
            let found = stage.read();
            assert!(!found[&key(SERVICE)].ports.is_empty());
        }
        stage.apply(SERVICE, Some(forwarding(&living)));
    }
    done.store(true, Ordering::Relaxed);
    client.join().expect("it ends");
    let asked = asked.load(Ordering::Relaxed);
    let failed = failed.lock().expect("nobody panics");
    assert!(failed.is_empty(), "{failed:?} of {asked}");
    assert!(asked > 50, "{asked}");
    assert_eq!(
        say(&mut old, "still here").expect("it is open"),
        "still here"
    );
}

#[test]
fn deletion_stops_the_traffic_and_leaves_nothing_behind() {
    let Some(stage) = Stage::new() else { return };
    let one = stage.machines.backend("10.77.1.2");
    let empty = {
        stage.apply(SERVICE, Some(forwarding(&[])));
        stage.apply(SERVICE, None);
        stage.rules()
    };
    stage.apply(SERVICE, Some(forwarding(&[one])));
    assert!(stage.addresses().contains("10.77.0.100/32"));
    let six = "ip -6 addr show dev to-client";
    let six = || {
        stage
            .machines
            .exec("router", &six.split(' ').collect::<Vec<_>>())
    };
    assert!(six().is_ok_and(|shown| shown.contains("fd77::100/128")));
    let mut old = stage.machines.connect_to(socket(FRONT));
    stage.apply(SERVICE, None);
    assert!(stage.machines.ask(socket(FRONT)).is_err());
    assert!(say(&mut old, "anybody there").is_err());
    assert!(!stage.addresses().contains("10.77.0.100"));
    assert!(six().is_ok_and(|shown| !shown.contains("fd77::100")));
    let strip = |rules: &str| -> Vec<String> {
        let lines = rules.lines().filter(|line| !line.contains("expires"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(strip(&stage.rules()), strip(&empty));
    assert_eq!(stage.read(), BTreeMap::new());
    // The same front again is not taken for the one that is gone.
    stage.apply(SERVICE, Some(forwarding(&[one])));
    let mut new = stage.machines.connect_to(socket(FRONT));
    assert_eq!(say(&mut new, "again").expect("it is open"), "again");
}

#[test]
fn a_front_without_endpoints_refuses_at_once() {
    let Some(stage) = Stage::new() else { return };
    stage.apply(SERVICE, Some(forwarding(&[])));
    let refused = stage
        .machines
        .ask(socket(FRONT))
        .expect_err("nobody is there");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let own = stage.machines.within("router", || ask(socket(FRONT)));
    let refused = own.join().expect("it ends").expect_err("nobody is there");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn only_those_of_the_source_ranges_get_through() {
    let Some(stage) = Stage::new() else { return };
    let one = stage.machines.backend("10.77.1.2");
    let ranged = |address: [u8; 4], len| Forwarding {
        source_ranges: vec![SourceRange::new(IpAddr::from(address), len).expect("a network")],
        ..forwarding(&[one])
    };
    stage.apply(SERVICE, Some(ranged([10, 77, 0, 0], 24)));
    assert!(stage.machines.ask(socket(FRONT)).is_ok());
    stage.apply(SERVICE, Some(ranged([192, 0, 2, 0], 24)));
    let front = socket(FRONT);
    let refused = stage.machines.within("client", move || {
        TcpStream::connect_timeout(&front, Duration::from_millis(300))
    });
    assert!(refused.join().expect("it ends").is_err());
    stage.apply(SERVICE, Some(ranged([0, 0, 0, 0], 0)));
    assert!(stage.machines.ask(socket(FRONT)).is_ok());
}

#[test]
fn a_client_keeps_its_endpoint_where_the_service_says_so() {
    let Some(stage) = Stage::new() else { return };
    let all = ["10.77.1.2", "10.77.1.3", "10.77.1.4", "10.77.1.5"]
        .map(|address| stage.machines.backend(address));
    let kept = |endpoints: &[SocketAddr]| Forwarding {
        affinity: Some(Duration::from_mins(10)),
        ..forwarding(endpoints)
    };
    stage.apply(SERVICE, Some(kept(&all)));
    let first = stage.answers(socket(FRONT), 12);
    assert_eq!(first.len(), 1, "{first:?}");
    // Others may come and go; its own may go.
    let is_own = |endpoint: &SocketAddr| first.contains(&endpoint.ip().to_string());
    let other = all.iter().copied().find(|one| !is_own(one));
    let without: Vec<SocketAddr> = all
        .iter()
        .copied()
        .filter(|one| Some(*one) != other)
        .collect();
    stage.apply(SERVICE, Some(kept(&without)));
    assert_eq!(stage.answers(socket(FRONT), 8), first);
    let rest: Vec<SocketAddr> = all.iter().copied().filter(|one| !is_own(one)).collect();
    stage.apply(SERVICE, Some(kept(&rest)));
    let second = stage.answers(socket(FRONT), 8);
    assert!(
        second.len() == 1 && second.is_disjoint(&first),
        "{second:?}"
    );
    stage.apply(SERVICE, None);
    assert!(!stage.rules().contains("clients-"));
}

#[test]
fn a_new_process_finds_what_stands_and_changes_nothing_of_it() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let one = stage.machines.backend("10.77.1.2");
    let wanted = Forwarding {
        affinity: Some(Duration::from_mins(10)),
        ..forwarding(&[one])
    };
    stage.apply(SERVICE, Some(wanted.clone()));
    assert!(stage.read()[&key(SERVICE)].is_whole);
    let before = stage.rules();
    stage.restart();
    let found = stage.read();
    let found = &found[&key(SERVICE)];
    assert!(!found.is_whole, "this process has not written it");
    assert_eq!(found.addresses, wanted.addresses);
    assert_eq!(found.ports, wanted.ports);
    stage.apply(SERVICE, Some(wanted));
    assert_eq!(stage.rules(), before);
    assert!(stage.read()[&key(SERVICE)].is_whole);
}

#[test]
fn what_others_change_is_found_and_put_right_and_nothing_else_is_touched() {
    let Some(stage) = Stage::new() else { return };
    let one = stage.machines.backend("10.77.1.2");
    stage.apply(SERVICE, Some(forwarding(&[one])));
    let router = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        stage.machines.exec("router", &words).expect("we are root")
    };
    router("nft add table inet others");
    router("nft add chain inet others mine");
    let damages = [
        "nft delete element inet bindery services-4 { 10.77.0.100 . tcp . 80 }",
        "nft flush chain inet bindery prerouting",
        "nft add chain inet bindery stray",
        "nft add element inet bindery fronts-4 { 192.0.2.9 . tcp . 9 }",
        "nft delete table inet bindery",
        "ip addr del 10.77.0.100/32 dev lo",
    ];
    for damage in damages {
        let before = stage.rules();
        router(damage);
        let found = stage.read();
        assert!(
            !found.get(&key(SERVICE)).is_some_and(|one| one.is_whole),
            "{damage}"
        );
        stage.apply(SERVICE, Some(forwarding(&[one])));
        assert!(stage.read()[&key(SERVICE)].is_whole, "{damage}");
        assert!(stage.machines.ask(socket(FRONT)).is_ok(), "{damage}");
        let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
        assert_eq!(lines(&stage.rules()), lines(&before), "{damage}");
    }
    // Without looking first, too.
    router("nft delete table inet bindery");
    let two = stage.machines.backend("10.77.1.3");
    stage.apply(SERVICE, Some(forwarding(&[one, two])));
    assert!(stage.machines.ask(socket(FRONT)).is_ok());
    assert!(stage.rules().contains("table inet others"));
}

#[test]
fn an_address_that_the_machine_has_stays_its_own() {
    let Some(stage) = Stage::new() else { return };
    let one = stage.machines.backend("10.77.1.2");
    let own = Forwarding {
        addresses: vec![IpAddr::from([10, 77, 0, 1])],
        ..forwarding(&[one])
    };
    stage.apply(SERVICE, Some(own));
    assert!(stage.machines.ask(socket("10.77.0.1:80")).is_ok());
    assert!(!stage.addresses().contains("10.77.0.1/"));
    stage.apply(SERVICE, None);
    let shown = stage.machines.exec("router", &["ip", "addr", "show"]);
    assert!(shown.expect("it is there").contains("10.77.0.1/24"));
    // Two Services at once, of which one goes.
    stage.apply(SERVICE, Some(forwarding(&[one])));
    let other = Forwarding {
        addresses: vec![IpAddr::from([10, 77, 0, 101])],
        ..forwarding(&[one])
    };
    stage.apply("another", Some(other));
    stage.apply(SERVICE, None);
    assert!(stage.machines.ask(socket(FRONT)).is_err());
    assert!(stage.machines.ask(socket("10.77.0.101:80")).is_ok());
    let mut rest = Vec::new();
    let stream = stage.machines.connect_to(socket("10.77.0.101:80"));
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    (&stream).read_to_end(&mut rest).expect("it ends");
}
