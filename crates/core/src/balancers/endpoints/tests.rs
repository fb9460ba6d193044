use super::*;

fn endpoint(ip: &str) -> GroupEndpoint {
    GroupEndpoint {
        address: ip.parse().expect("an address"),
        place: Whereabouts::Unknown,
        state: EndpointState::Ready,
    }
}

fn port(name: &str, port: u16) -> EndpointPort {
    EndpointPort {
        name: name.into(),
        protocol: FrontProtocol::Tcp,
        port,
    }
}

fn front(name: &str, port: u16) -> FrontPort {
    FrontPort {
        protocol: FrontProtocol::Tcp,
        port,
        name: name.into(),
        target: None,
        node_port: None,
    }
}

/// Which ports lead where, of the address 127.0.0.1.
fn targets(groups: &[(&str, Vec<EndpointPort>)], fronts: Vec<FrontPort>) -> Vec<(u16, u16)> {
    let owner = GroupOwner::Service("default".into(), "web".into());
    let mut book = EndpointBook::default();
    for (name, ports) in groups {
        let key = EndpointsKey::Slice("default".into(), (*name).into());
        let group = EndpointGroup {
            owner: owner.clone(),
            ports: ports.clone(),
            endpoints: vec![endpoint("127.0.0.1"), endpoint("127.0.0.1")],
        };
        book.set_group(&key, Some(group));
    }
    let service = (BalancerKey::Service("u".into()), fronts);
    book.set_service(&owner, Some(service));
    let address = "127.0.0.1".parse().expect("an address");
    let bindings = book.bindings(address, |_| true);
    let targets = bindings.iter().flat_map(|one| one.targets.iter());
    targets.map(|one| (one.port, one.target)).collect()
}

#[test]
fn ports_are_matched_by_name_and_one_address_may_serve_a_port_twice() {
    let two = [
        ("a", vec![port("http", 8081), port("admin", 9000)]),
        ("b", vec![port("http", 8082)]),
    ];
    let found = targets(&two, vec![front("http", 80), front("admin", 90)]);
    assert_eq!(found, [(80, 8081), (80, 8082), (90, 9000)]);
    assert_eq!(targets(&two, vec![front("other", 80)]), []);
    // A port without a name serves the port without one.
    let found = targets(&[("a", vec![port("", 8081)])], vec![front("", 80)]);
    assert_eq!(found, [(80, 8081)]);
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let owner = GroupOwner::Service("default".into(), "web".into());
    let mut book = EndpointBook::default();
    let key = EndpointsKey::Slice("default".into(), "a".into());
    let mut on_node = endpoint("10.0.0.1");
    on_node.place = Whereabouts::Node("n".into());
    let group = EndpointGroup {
        owner: owner.clone(),
        ports: vec![port("", 1)],
        endpoints: vec![on_node, endpoint("10.0.0.2")],
    };
    book.set_node(&"n".into(), vec!["192.0.2.1".parse().expect("an address")]);
    book.set_service(&owner, Some((BalancerKey::Service("u".into()), Vec::new())));
    assert_eq!(book.set_group(&key, Some(group)).len(), 2);
    assert_eq!(book.families(&owner), [Family::V4]);
    assert_eq!(book.set_group(&key, None).len(), 2);
    book.set_service(&owner, None);
    book.set_node(&"n".into(), Vec::new());
    let left = (book.groups.len(), book.owners.len(), book.by_node.len());
    assert_eq!(left, (0, 0, 0));
    assert_eq!((book.by_address.len(), book.nodes.len()), (0, 0));
}
