use proptest::prelude::*;

use super::*;

fn set(texts: &[&str]) -> AddressSet {
    texts
        .iter()
        .map(|text| AddressRange::parse(text).expect("a good range"))
        .collect()
}

fn pool(texts: &[&str]) -> Pool {
    Pool {
        addresses: set(texts),
        auto_assign: true,
        ..Pool::default()
    }
}

fn ips(texts: &str) -> Vec<IpAddr> {
    texts
        .split_whitespace()
        .map(|text| text.parse().expect("an address"))
        .collect()
}

fn v4(has: &str) -> AddressRequest {
    AddressRequest {
        needs: [Family::V4].into(),
        has: ips(has),
        ..AddressRequest::default()
    }
}

fn open(pools: &[(&str, Pool)]) -> AddressPools<&'static str> {
    let mut all = AddressPools::default();
    for (name, pool) in pools {
        all.declare(name, pool.clone());
    }
    all.open();
    all
}

/// The addresses and the problem of a Service, as a line.
fn shown(pools: &AddressPools<&'static str>, key: &'static str) -> String {
    let allocation = pools.allocation(&key).expect("it was heard of");
    let addresses: Vec<String> = allocation
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    let reason = allocation.problem.as_ref().map(AddressProblem::reason);
    let reason = reason.map_or(String::new(), |reason| format!(" {reason}"));
    format!("{}{reason}", addresses.join(" "))
}

#[test]
fn a_network_gives_its_hosts_and_a_range_all_that_it_names() {
    let shown = |text| AddressRange::parse(text).map(|range| range.to_string());
    let good = [
        ("192.0.2.0/24", "192.0.2.1-192.0.2.254"),
        ("192.0.2.8/30", "192.0.2.9-192.0.2.10"),
        ("192.0.2.8/31", "192.0.2.8-192.0.2.9"),
        ("192.0.2.8/32", "192.0.2.8"),
        ("192.0.2.0-192.0.2.255", "192.0.2.0-192.0.2.255"),
        ("192.0.2.7 - 192.0.2.9", "192.0.2.7-192.0.2.9"),
        ("192.0.2.7", "192.0.2.7"),
        ("1.0.0.0", "1.0.0.0"),
        ("2001:db8::/64", "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff"),
        ("2001:db8::/127", "2001:db8::-2001:db8::1"),
    ];
    for (text, expected) in good {
        assert_eq!(shown(text), Ok(expected.to_owned()), "{text}");
    }
    let bad = [
        ("192.0.2.5/24", "write 192.0.2.0/24"),
        ("192.0.2.0/33", "from 0 to 32"),
        ("192.0.2.0/+8", "from 0 to 32"),
        ("192.0.2.9-192.0.2.7", "write 192.0.2.7-192.0.2.9"),
        ("192.0.2.9-2001:db8::1", "different IP versions"),
        ("0.0.0.0/0", "begins with 0"),
        ("224.0.0.0/24", "multicast"),
        ("10.0.0.1-255.255.255.255", "multicast"),
        ("ff02::/64", "multicast"),
        ("::ffff:10.0.0.0/120", "write them as IPv4"),
        ("::/0", "multicast"),
        ("hosts", "write a network"),
        ("", "write a network"),
    ];
    for (text, part) in bad {
        let problem = AddressRange::parse(text).map_or_else(|it| it, |it| it.to_string());
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn the_lowest_free_address_is_given_and_a_released_one_is_free_again() {
    let mut pools = open(&[("a", pool(&["192.0.2.0/30", "192.0.2.9-192.0.2.9"]))]);
    for key in ["one", "two", "three", "four"] {
        pools.request(&key, v4(""));
    }
    assert_eq!(shown(&pools, "one"), "192.0.2.1");
    assert_eq!(shown(&pools, "two"), "192.0.2.2");
    assert_eq!(shown(&pools, "three"), "192.0.2.9");
    assert_eq!(shown(&pools, "four"), " AddressPoolUsedUp");
    let usage = pools.usage("a");
    assert_eq!((usage.total, usage.used, usage.free()), (3, 3, 0));
    pools.take_changed();
    pools.release(&"two");
    assert_eq!(shown(&pools, "four"), "192.0.2.2");
    assert_eq!(pools.take_changed(), ["four"].into());
}

#[test]
fn a_huge_pool_costs_nothing() {
    let mut pools = open(&[("a", pool(&["2001:db8::/32"]))]);
    let request = AddressRequest {
        needs: [Family::V6].into(),
        ..AddressRequest::default()
    };
    pools.request(&"one", request.clone());
    pools.request(&"two", request);
    assert_eq!(shown(&pools, "one"), "2001:db8::1");
    assert_eq!(shown(&pools, "two"), "2001:db8::2");
    assert_eq!(pools.usage("a").total, (1 << 96) - 1);
}

#[test]
fn nobody_gets_anything_before_all_are_known() {
    let mut pools = AddressPools::default();
    pools.declare("a", pool(&["192.0.2.1-192.0.2.2"]));
    pools.request(&"new", v4(""));
    assert_eq!(shown(&pools, "new"), " Pending");
    pools.request(&"old", v4("192.0.2.1"));
    pools.open();
    assert_eq!(shown(&pools, "old"), "192.0.2.1");
    assert_eq!(shown(&pools, "new"), "192.0.2.2");
}

#[test]
fn an_address_in_use_is_kept_and_told_when_its_pool_shrinks_goes_or_selects_others() {
    let wide = pool(&["192.0.2.1-192.0.2.4"]);
    let mut pools = open(&[("a", wide.clone())]);
    pools.request(&"one", v4(""));
    pools.declare("a", pool(&["192.0.2.3-192.0.2.4"]));
    assert_eq!(shown(&pools, "one"), "192.0.2.1 AddressKept");
    pools.declare("a", wide.clone());
    assert_eq!(shown(&pools, "one"), "192.0.2.1");
    let labels = Labels::from([("tier".to_owned(), "front".to_owned())]);
    let selector = Selector::new(&labels, &[], "").expect("a good selector");
    let picky = Pool {
        selector: Some(selector),
        ..wide
    };
    pools.declare("a", picky);
    assert_eq!(shown(&pools, "one"), "192.0.2.1 AddressKept");
    pools.withdraw("a");
    assert_eq!(shown(&pools, "one"), "192.0.2.1 AddressKept");
    // The same after a restart.
    let mut pools = open(&[]);
    pools.request(&"one", v4("192.0.2.1"));
    assert_eq!(shown(&pools, "one"), "192.0.2.1 AddressKept");
    // A pool that comes later gives its address to nobody else.
    pools.declare("b", pool(&["192.0.2.1-192.0.2.2"]));
    pools.request(&"two", v4(""));
    assert_eq!(shown(&pools, "one"), "192.0.2.1");
    assert_eq!(shown(&pools, "two"), "192.0.2.2");
}

#[test]
fn a_pool_that_is_withdrawn_gives_nothing_and_is_listed_no_more() {
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.4"]))]);
    pools.request(&"one", v4(""));
    assert_eq!(pools.names().collect::<Vec<_>>(), ["a"]);
    assert_eq!(pools.usage("a").free(), 3);
    assert_eq!(pools.holder(ips("192.0.2.1")[0]), Some(&"one"));
    pools.withdraw("a");
    pools.request(&"two", v4(""));
    assert_eq!(shown(&pools, "two"), " NoAddressPool");
    assert_eq!(pools.names().count(), 0);
}

#[test]
fn at_the_start_who_asks_for_an_address_by_name_comes_before_who_takes_any() {
    let mut pools = AddressPools::default();
    pools.declare("a", pool(&["192.0.2.1-192.0.2.2"]));
    pools.request(&"any", v4(""));
    let asked = ips("192.0.2.1");
    pools.request(&"asks", AddressRequest { asked, ..v4("") });
    pools.open();
    assert_eq!(shown(&pools, "asks"), "192.0.2.1");
    assert_eq!(shown(&pools, "any"), "192.0.2.2");
}

#[test]
fn who_got_what_it_asked_for_keeps_it_whatever_becomes_of_pools() {
    let asked = ips("192.0.2.7");
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.9"]))]);
    pools.request(&"one", AddressRequest { asked, ..v4("") });
    pools.declare("b", pool(&["203.0.113.1"]));
    assert_eq!(shown(&pools, "one"), "192.0.2.7");
    pools.withdraw("a");
    assert_eq!(shown(&pools, "one"), "192.0.2.7 AddressKept");
}

#[test]
fn addresses_that_a_change_of_a_pool_sets_free_go_to_who_waits() {
    let ask = |text| AddressRequest {
        asked: ips(text),
        ..v4("")
    };
    for (asking, waiting) in [(&["x"][..], &["a"][..]), (&["x", "y"], &["a", "b"])] {
        let mut pools = open(&[("p", pool(&["192.0.2.1-192.0.2.2"]))]);
        for key in ["x", "y"] {
            pools.request(&key, v4(""));
        }
        for key in ["a", "b"] {
            pools.request(&key, v4(""));
        }
        for (key, wanted) in asking.iter().zip(["192.0.2.5", "192.0.2.6"]) {
            pools.request(key, ask(wanted));
        }
        pools.declare("p", pool(&["192.0.2.1-192.0.2.2", "192.0.2.5-192.0.2.6"]));
        let served = ["a", "b"].into_iter().filter(|key| {
            let allocation = pools.allocation(key);
            allocation.is_some_and(|one| !one.addresses.is_empty())
        });
        assert!(served.count() >= waiting.len(), "{asking:?}");
    }
}

#[test]
fn of_several_addresses_of_one_version_a_service_keeps_the_first() {
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.4"]))]);
    pools.request(&"one", v4("192.0.2.3 192.0.2.3 192.0.2.1"));
    assert_eq!(shown(&pools, "one"), "192.0.2.3");
    pools.request(&"two", v4(""));
    assert_eq!(shown(&pools, "two"), "192.0.2.1");
}

#[test]
fn an_address_is_asked_for_by_name() {
    let ask = |texts| AddressRequest {
        asked: ips(texts),
        ..v4("")
    };
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.9"]))]);
    pools.request(&"one", ask("192.0.2.7"));
    pools.request(&"two", ask("192.0.2.7"));
    pools.request(&"three", ask("203.0.113.1"));
    pools.request(&"four", ask("192.0.2.1 192.0.2.2"));
    assert_eq!(shown(&pools, "one"), "192.0.2.7");
    assert_eq!(shown(&pools, "two"), " AddressUnavailable");
    assert_eq!(shown(&pools, "three"), " AddressUnavailable");
    assert_eq!(shown(&pools, "four"), " Invalid");
    // Who has an address keeps it until the one that it asks for is free.
    pools.request(&"five", v4(""));
    pools.request(&"five", ask("192.0.2.7"));
    assert_eq!(shown(&pools, "five"), "192.0.2.1 AddressUnavailable");
    pools.release(&"two");
    pools.release(&"one");
    assert_eq!(shown(&pools, "five"), "192.0.2.7");
    pools.request(&"six", v4(""));
    assert_eq!(shown(&pools, "six"), "192.0.2.1");
}

#[test]
fn a_pool_is_asked_for_by_name_and_may_keep_to_those_who_ask() {
    let reserved = Pool {
        auto_assign: false,
        ..pool(&["192.0.2.1-192.0.2.2"])
    };
    let mut pools = open(&[("reserved", reserved)]);
    pools.request(&"one", v4(""));
    assert_eq!(shown(&pools, "one"), " NoAddressPool");
    let named = AddressRequest {
        pool: Some("reserved".to_owned()),
        ..v4("")
    };
    pools.request(&"two", named.clone());
    assert_eq!(shown(&pools, "two"), "192.0.2.1");
    // By address too, and an author who names a pool later is moved.
    pools.declare("b", pool(&["198.51.100.1"]));
    assert_eq!(shown(&pools, "one"), "198.51.100.1");
    pools.request(&"one", named);
    assert_eq!(shown(&pools, "one"), "192.0.2.2");
    pools.release(&"two");
    let asked = AddressRequest {
        asked: ips("192.0.2.1"),
        ..v4("")
    };
    pools.request(&"three", asked);
    assert_eq!(shown(&pools, "three"), "192.0.2.1");
}

#[test]
fn both_versions_or_nothing_where_both_are_needed() {
    let both = AddressRequest {
        needs: [Family::V4, Family::V6].into(),
        ..AddressRequest::default()
    };
    let either = AddressRequest {
        needs: [Family::V4].into(),
        prefers: [Family::V6].into(),
        ..AddressRequest::default()
    };
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.2"]))]);
    pools.request(&"both", both);
    pools.request(&"either", either);
    assert_eq!(shown(&pools, "both"), " NoAddressPool");
    assert_eq!(shown(&pools, "either"), "192.0.2.1 NoAddressPool");
    pools.declare("b", pool(&["2001:db8::/64"]));
    assert_eq!(shown(&pools, "both"), "192.0.2.2 2001:db8::1");
    assert_eq!(shown(&pools, "either"), "192.0.2.1 2001:db8::2");
}

#[test]
fn of_pools_that_overlap_the_older_one_has_the_addresses() {
    let older = Pool {
        created: Moment(1),
        auto_assign: false,
        ..pool(&["192.0.2.1-192.0.2.5"])
    };
    let younger = Pool {
        created: Moment(2),
        ..pool(&["192.0.2.4-192.0.2.6"])
    };
    let mut pools = open(&[("y", younger), ("z", older)]);
    let overlap = pools.overlap("y").expect("they overlap");
    assert_eq!(
        (overlap.older.as_str(), overlap.range.to_string().as_str()),
        ("z", "192.0.2.4-192.0.2.5")
    );
    assert_eq!(pools.overlap("z"), None);
    assert_eq!((pools.usage("y").total, pools.usage("z").total), (1, 5));
    pools.request(&"one", v4(""));
    pools.request(&"two", v4(""));
    assert_eq!(shown(&pools, "one"), "192.0.2.6");
    assert_eq!(shown(&pools, "two"), " AddressPoolUsedUp");
}

#[test]
fn of_two_with_one_address_the_older_keeps_it_and_the_other_is_told() {
    for order in [["old", "young"], ["young", "old"]] {
        let mut pools = AddressPools::default();
        pools.declare("a", pool(&["192.0.2.1-192.0.2.9"]));
        for key in order {
            let created = Moment(if key == "old" { 1 } else { 2 });
            let has = v4("192.0.2.5");
            pools.request(&key, AddressRequest { created, ..has });
        }
        pools.open();
        assert_eq!(shown(&pools, "old"), "192.0.2.5");
        assert_eq!(shown(&pools, "young"), "192.0.2.1 Conflict");
    }
}

#[test]
fn every_problem_says_what_to_do() {
    let address = ips("192.0.2.1")[0];
    let all = [
        AddressProblem::NoPool(Family::V6),
        AddressProblem::UsedUp(Family::V4, vec!["a".to_owned(), "b".to_owned()]),
        AddressProblem::Outside(address),
        AddressProblem::Taken(address, "service/default/web".to_owned()),
        AddressProblem::AskedTwice(Family::V4),
    ];
    for problem in all {
        let text = problem.to_string();
        assert!(text.contains(": "), "{text}");
    }
}

/// One event of a random script.
#[derive(Clone, Debug)]
enum Event {
    Request(u8, Option<u8>, bool),
    Release(u8),
    Declare(u8, u8, u8),
    Withdraw(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..12_u8, proptest::option::weighted(0.2, 0..24_u8), any::<bool>())
            .prop_map(|(key, asked, both)| Event::Request(key, asked, both)),
        2 => (0..12_u8).prop_map(Event::Release),
        1 => (0..3_u8, 0..20_u8, 0..6_u8).prop_map(|(name, first, len)| Event::Declare(name, first, len)),
        1 => (0..3_u8).prop_map(Event::Withdraw),
    ]
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

fn apply(pools: &mut AddressPools<u8>, event: &Event) {
    match event {
        Event::Request(key, asked, both) => {
            let asked = asked.iter().map(|number| address(*number)).collect();
            let prefers = both.then_some(Family::V6).into_iter().collect();
            let request = AddressRequest {
                prefers,
                asked,
                ..v4("")
            };
            pools.request(key, request);
        }
        Event::Release(key) => pools.release(key),
        Event::Declare(name, first, len) => {
            let text = format!("192.0.2.{first}-192.0.2.{}", first + len);
            let created = Moment(i64::from(*name) % 2);
            let declared = Pool {
                created,
                ..pool(&[&text, "2001:db8::1-2001:db8::4"])
            };
            pools.declare(&name.to_string(), declared);
        }
        Event::Withdraw(name) => pools.withdraw(&name.to_string()),
    }
}

/// No address twice, and the books agree.
fn check(pools: &AddressPools<u8>) {
    let mut seen = BTreeMap::new();
    for (key, tenant) in &pools.services {
        for address in &tenant.allocation.addresses {
            assert_eq!(seen.insert(*address, *key), None, "{address} twice");
            assert!(pools.occupied.contains(*address));
        }
    }
    assert_eq!(seen, pools.taken);
    assert_eq!(pools.occupied.count(), seen.len() as u128);
}

proptest! {
    #[test]
    fn no_address_belongs_to_two_and_nothing_is_taken_away(
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let mut pools = AddressPools::default();
        pools.open();
        for event in &events {
            let before = pools.services.clone();
            apply(&mut pools, event);
            check(&pools);
            for (key, tenant) in &before {
                let Some(after) = pools.services.get(key) else { continue };
                let asks = matches!(event, Event::Request(one, ..) if one == key);
                // Only its author moves a Service: by asking now, or by having asked for what is free now.
                let moves = asks || !tenant.request.asked.is_empty();
                for address in &tenant.allocation.addresses {
                    let stays = after.allocation.addresses.contains(address);
                    prop_assert!(stays || moves, "{key} lost {address} by {event:?}");
                }
            }
        }
    }

    #[test]
    fn a_restart_gives_everybody_what_they_had_in_whatever_order_they_come(
        events in proptest::collection::vec(event(), 0..60),
        seed in any::<u64>(),
    ) {
        let mut before = AddressPools::default();
        before.open();
        for event in &events {
            apply(&mut before, event);
        }
        let mut keys: Vec<u8> = before.services.keys().copied().collect();
        let mut state = seed | 1;
        keys.sort_by_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        });
        let mut after: AddressPools<u8> = AddressPools::default();
        let (early, late) = keys.split_at(keys.len() / 2);
        let request = |pools: &mut AddressPools<u8>, key: &u8| {
            let tenant = &before.services[key];
            let has = tenant.allocation.addresses.clone();
            pools.request(key, AddressRequest { has, ..tenant.request.clone() });
        };
        for key in early {
            request(&mut after, key);
        }
        for (name, declared) in &before.pools {
            after.declare(name, declared.pool.clone());
        }
        for key in late {
            request(&mut after, key);
        }
        after.open();
        check(&after);
        for (key, tenant) in &before.services {
            let now = after.allocation(key).expect("it was heard of");
            for address in &tenant.allocation.addresses {
                prop_assert!(now.addresses.contains(address), "{key} lost {address}");
            }
        }
    }

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out(
        steps in proptest::collection::vec((any::<bool>(), 1..60_u8, 0..12_u8), 0..40),
    ) {
        let mut ours = AddressSet::default();
        let mut model = BTreeSet::new();
        for (is_insert, first, len) in steps {
            let last = first + len;
            let text = format!("192.0.2.{first}-192.0.2.{last}");
            let range = AddressRange::parse(&text).expect("a good range");
            if is_insert {
                ours.insert(range);
                model.extend(first..=last);
            } else {
                ours.remove(range);
                model.retain(|number| !(first..=last).contains(number));
            }
            prop_assert_eq!(ours.count(), model.len() as u128);
            let lowest = (first..=last).find(|number| !model.contains(number)).map(address);
            prop_assert_eq!(ours.lowest_outside(range), lowest);
            let common = ours.common(range).map(|range| range.first());
            prop_assert_eq!(common, (first..=last).find(|number| model.contains(number)).map(address));
            for number in 0..80_u8 {
                prop_assert_eq!(ours.contains(address(number)), model.contains(&number));
            }
        }
    }
}

/// Two move in one round, which frees the address that somebody who was asked before them waits for.
#[test]
fn an_address_that_others_free_as_they_move_goes_to_who_waits_for_it() {
    let mut pools = open(&[("a", pool(&["192.0.2.1-192.0.2.4"]))]);
    let rows = [
        ("holds", "192.0.2.1", "", 0),
        ("first", "192.0.2.3", "192.0.2.1", 2),
        ("second", "192.0.2.4", "192.0.2.3", 3),
        ("waits", "", "192.0.2.4", 1),
    ];
    for (key, has, asked, created) in rows {
        let request = AddressRequest {
            asked: ips(asked),
            created: Moment(created),
            ..v4(has)
        };
        pools.request(&key, request);
    }
    assert_eq!(shown(&pools, "waits"), " AddressUnavailable");
    pools.release(&"holds");
    let all = ["first", "second", "waits"].map(|key| shown(&pools, key));
    assert_eq!(all, ["192.0.2.1", "192.0.2.3", "192.0.2.4"]);
}
