use std::collections::BTreeSet;
use std::net::SocketAddr;

use bindery_core::balancers::{
    Binding, Bindings, Family, Front, FrontPort, FrontProtocol, PortTarget, TrafficPolicy,
};
use bindery_core::{AddressRange, SmallSet, Uid};

use super::*;
use crate::forwarding::{Forwarding, FoundForwarding};

/// A data plane that keeps what it is told.
#[derive(Default)]
struct Kept(std::sync::Mutex<BTreeMap<BalancerKey, Arc<Forwarding>>>);

impl Kept {
    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<BalancerKey, Arc<Forwarding>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoints of a balancer's port 80.
    fn endpoints(&self, key: &BalancerKey) -> Vec<String> {
        let all = self.all();
        let ports = all
            .get(key)
            .map(|one| &one.ports[&(FrontProtocol::Tcp, 80)]);
        ports
            .into_iter()
            .flatten()
            .map(SocketAddr::to_string)
            .collect()
    }
}

impl DataPlane for Kept {
    fn apply<'a>(
        &'a self,
        changes: &'a [(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        for (key, forwarding) in changes {
            match forwarding {
                Some(forwarding) => self.all().insert(key.clone(), Arc::clone(forwarding)),
                None => self.all().remove(key),
            };
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn read(&self) -> BoxFuture<'_, Result<BTreeMap<BalancerKey, FoundForwarding>, Fault>> {
        let found = |forwarding: &Arc<Forwarding>| FoundForwarding {
            addresses: forwarding.addresses.clone(),
            ports: forwarding.ports.clone(),
            is_whole: true,
        };
        let all = self.all();
        let found = all
            .iter()
            .map(|(key, one)| (key.clone(), found(one)))
            .collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

fn key(name: &str) -> BalancerKey {
    BalancerKey::Service(Uid::from(name))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn spec(requested: &[&str]) -> BalancerSpec {
    BalancerSpec::Inbound(Front {
        namespace: "default".into(),
        name: "web".into(),
        labels: BTreeMap::new(),
        ports: vec![FrontPort {
            protocol: FrontProtocol::Tcp,
            port: 80,
            name: "".into(),
            target: None,
            node_port: None,
        }],
        families: vec![Family::V4],
        affinity: None,
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        requested: requested.iter().map(|text| ip(text)).collect(),
        options: BTreeMap::new(),
    })
}

fn pools(texts: &[&str]) -> BTreeMap<String, Pool> {
    let ranges = texts
        .iter()
        .map(|text| AddressRange::parse(text).expect("a range"));
    let pool = Pool {
        addresses: ranges.collect(),
        auto_assign: true,
        ..Pool::default()
    };
    [("pool".to_owned(), pool)].into()
}

fn bindings(balancers: &[&str], location: Option<&str>) -> Bindings {
    let mut bindings = SmallSet::default();
    for balancer in balancers {
        bindings.insert(Binding {
            location: location.map(ip),
            balancer: key(balancer),
            targets: [PortTarget {
                protocol: FrontProtocol::Tcp,
                port: 80,
                target: 8080,
            }]
            .into(),
        });
    }
    bindings
}

fn change(address: &str, stood: &[&str], wanted: &[&str]) -> AddressChange {
    AddressChange {
        address: ip(address),
        stood: bindings(stood, None),
        wanted: bindings(wanted, None),
    }
}

/// A provider over a data plane, with pools.
fn provider(plane: &Arc<Kept>, texts: &[&str]) -> LocalBalancer {
    let provider = LocalBalancer::new(Arc::<Kept>::clone(plane));
    provider.set_pools(pools(texts));
    provider.remember(&[]);
    provider
}

async fn address(provider: &LocalBalancer, name: &str) -> Result<String, String> {
    let ensured = provider.ensure(&key(name), &spec(&[]), &[]).await;
    let frontage = ensured.map_err(|fault| fault.message)?;
    let texts: Vec<String> = frontage.addresses.iter().map(ToString::to_string).collect();
    Ok(texts.join(" "))
}

#[tokio::test]
async fn a_used_up_pool_is_told_and_whoever_waits_is_woken_when_an_address_is_free() {
    let plane = Arc::new(Kept::default());
    let provider = provider(&plane, &["192.0.2.1-192.0.2.1"]);
    provider.changed().await;
    assert_eq!(address(&provider, "one").await, Ok("192.0.2.1".to_owned()));
    let refused = address(&provider, "two").await.expect_err("it is used up");
    assert!(
        refused.contains("no IPv4 address is free in pool"),
        "{refused}"
    );
    assert_eq!(provider.reports()["pool"].usage.free(), 0);
    provider.remove(&key("one")).await.expect("it goes");
    provider.changed().await;
    assert_eq!(address(&provider, "two").await, Ok("192.0.2.1".to_owned()));
    assert!(!plane.all().contains_key(&key("one")));
}

#[tokio::test]
async fn endpoints_follow_their_bindings() {
    let plane = Arc::new(Kept::default());
    let provider = provider(&plane, &["192.0.2.0/24"]);
    address(&provider, "one").await.expect("an address");
    address(&provider, "two").await.expect("an address");
    let changes = [
        change("10.0.0.1", &[], &["one", "two"]),
        change("10.0.0.2", &[], &["one"]),
    ];
    let outcomes = provider.bind(&changes).await.expect("it is done");
    assert!(outcomes.iter().all(|one| one.result.is_ok()));
    assert_eq!(
        plane.endpoints(&key("one")),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );
    assert_eq!(plane.endpoints(&key("two")), ["10.0.0.1:8080"]);
    let holdings = provider.read().await.expect("it is there");
    let known: BTreeSet<IpAddr> = holdings.addresses.keys().copied().collect();
    assert_eq!(known, [ip("10.0.0.1"), ip("10.0.0.2")].into());
    assert_eq!(holdings.addresses[&ip("10.0.0.1")], changes[0].wanted);
    let digest = holdings.balancers[&key("one")].digest.clone();
    assert_eq!(digest, Some(spec(&[]).digest()));
    let gone = [change("10.0.0.1", &["one", "two"], &["two"])];
    provider.bind(&gone).await.expect("it is done");
    assert_eq!(plane.endpoints(&key("one")), ["10.0.0.2:8080"]);
    assert_eq!(plane.endpoints(&key("two")), ["10.0.0.1:8080"]);
    // A change of the front keeps the endpoints.
    let asked = spec(&["192.0.2.9"]);
    let moved = provider.ensure(&key("one"), &asked, &[]).await;
    assert_eq!(moved.expect("it is free").addresses, [ip("192.0.2.9")]);
    assert_eq!(plane.endpoints(&key("one")), ["10.0.0.2:8080"]);
}

#[tokio::test]
async fn an_endpoint_that_is_the_balancer_itself_is_refused() {
    let plane = Arc::new(Kept::default());
    let provider = provider(&plane, &["192.0.2.0/24"]);
    address(&provider, "one").await.expect("an address");
    let mut own = change("192.0.2.1", &[], &["one"]);
    own.wanted = SmallSet::default();
    own.wanted.insert(Binding {
        location: None,
        balancer: key("one"),
        targets: [PortTarget {
            protocol: FrontProtocol::Tcp,
            port: 80,
            target: 80,
        }]
        .into(),
    });
    let changes = [
        own,
        change("10.0.0.2", &[], &["one"]),
        change("10.0.0.3", &[], &["none"]),
    ];
    let outcomes = provider.bind(&changes).await.expect("an answer for each");
    let kinds: Vec<Option<FaultKind>> = outcomes
        .iter()
        .map(|one| one.result.as_ref().err().map(|fault| fault.kind))
        .collect();
    assert_eq!(
        kinds,
        [Some(FaultKind::Invalid), None, Some(FaultKind::Missing)]
    );
    assert_eq!(plane.endpoints(&key("one")), ["10.0.0.2:8080"]);
}

#[tokio::test]
async fn endpoints_of_other_nodes_are_left_out_where_the_policy_is_local() {
    let plane = Arc::new(Kept::default());
    let provider = provider(&plane, &["192.0.2.0/24"]);
    let BalancerSpec::Inbound(front) = spec(&[]) else {
        unreachable!("it is one");
    };
    let local = BalancerSpec::Inbound(Front {
        traffic_policy: TrafficPolicy::Local,
        ..front
    });
    provider
        .ensure(&key("one"), &local, &[])
        .await
        .expect("an address");
    let at = |address, node| AddressChange {
        wanted: bindings(&["one"], node),
        ..change(address, &[], &[])
    };
    let changes = [
        at("10.0.0.1", Some("127.0.0.1")),
        at("10.0.0.2", Some("198.51.100.7")),
        at("10.0.0.3", None),
    ];
    provider.bind(&changes).await.expect("it is done");
    assert_eq!(
        plane.endpoints(&key("one")),
        ["10.0.0.1:8080", "10.0.0.3:8080"]
    );
}

#[tokio::test]
async fn a_new_process_keeps_what_the_data_plane_forwards_and_who_has_which_address() {
    let plane = Arc::new(Kept::default());
    let before = provider(&plane, &["192.0.2.0/24"]);
    for name in ["one", "two"] {
        address(&before, name).await.expect("an address");
    }
    before
        .bind(&[change("10.0.0.1", &[], &["two"])])
        .await
        .expect("it is done");
    drop(before);
    let after = LocalBalancer::new(Arc::<Kept>::clone(&plane));
    after.set_pools(pools(&["192.0.2.0/24"]));
    after.remember(&[(key("two"), vec![ip("192.0.2.2")])]);
    let holdings = after.read().await.expect("it is there");
    assert_eq!(holdings.balancers.len(), 2);
    assert_eq!(holdings.balancers[&key("two")].digest, None);
    assert_eq!(
        holdings.balancers[&key("two")].frontage.addresses,
        [ip("192.0.2.2")]
    );
    // A newcomer gets neither the address that is remembered nor the one that was found.
    assert_eq!(address(&after, "new").await, Ok("192.0.2.3".to_owned()));
    assert_eq!(address(&after, "two").await, Ok("192.0.2.2".to_owned()));
    assert_eq!(plane.endpoints(&key("two")), ["10.0.0.1:8080"]);
    // What nobody asks for is swept by its key.
    after.remove(&key("one")).await.expect("it goes");
    assert!(!plane.all().contains_key(&key("one")));
}

#[tokio::test]
async fn what_an_author_should_know_is_told_with_its_reason() {
    let plane = Arc::new(Kept::default());
    let provider = provider(&plane, &[]);
    address(&provider, "one").await.expect_err("there is none");
    let (reason, _) = provider.notice(&key("one")).expect("it is told");
    assert_eq!(reason, Reason::NoAddressPool);
    provider.set_pools(pools(&["192.0.2.0/24"]));
    address(&provider, "one").await.expect("an address");
    assert_eq!(provider.notice(&key("one")), None);
    provider.set_pools(pools(&["198.51.100.0/24"]));
    assert_eq!(address(&provider, "one").await, Ok("192.0.2.1".to_owned()));
    let (reason, text) = provider.notice(&key("one")).expect("it is told");
    assert_eq!(reason, Reason::AddressKept);
    assert!(text.contains("192.0.2.1"), "{text}");
}
