//! The rules as they are sent to the kernel.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bindery_core::balancers::{BalancerKey, FrontProtocol};

use super::ruleset::section;
use crate::forwarding::Forwarding;

#[test]
fn a_connection_finds_an_endpoint_though_the_kernel_forgets_the_set_of_choices() {
    let endpoints = ["10.0.0.1:8080", "10.0.0.2:8080"];
    let endpoints: BTreeSet<SocketAddr> = endpoints
        .iter()
        .map(|one| one.parse().expect("an address and a port"))
        .collect();
    let forwarding = Forwarding {
        addresses: vec![[192, 0, 2, 7].into()],
        ports: [((FrontProtocol::Tcp, 80), endpoints)].into(),
        ..Forwarding::default()
    };
    let key = BalancerKey::Service("u1".into());
    let section = section(&key, &forwarding, &BTreeSet::new());
    let ways = section.chains.values().filter(|chain| {
        let notes = chain
            .rules
            .iter()
            .map(|rule| rule.comment.split(' ').next());
        notes.eq([Some("choice"), Some("otherwise")])
    });
    assert_eq!(ways.count(), 1, "{:?}", section.chains);
}
