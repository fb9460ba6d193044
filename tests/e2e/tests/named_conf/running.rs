//! A real `named` does what the configuration promises.

use bindery_core::ServerRole;
use bindery_sources::clusters::KeySlot;

use super::server::Server;
use super::{conf, key};

#[test]
fn it_tells_strangers_nothing_but_the_zones_it_has() {
    let server = Server::start(&conf(ServerRole::Primary, "{}"));
    server.add_zone("");
    let answer = server.dig(&["www.example.com"]);
    assert!(answer.contains("192.0.2.80"), "{answer}");
    let version = server.dig(&["CH", "TXT", "version.bind"]);
    assert!(version.contains("ANSWER: 0"), "{version}");
    let elsewhere = server.dig(&["example.org"]);
    assert!(elsewhere.contains("status: REFUSED"), "{elsewhere}");
    assert!(
        elsewhere.contains("recursion requested but not available"),
        "{elsewhere}"
    );
    let transfer = server.transfer(None);
    assert!(transfer.contains("Transfer failed"), "{transfer}");
    let update = server.update(None, "stranger").expect_err("a stranger");
    assert!(update.contains("REFUSED"), "{update}");
}

#[test]
fn either_key_works_while_one_replaces_the_other() {
    let mut conf = conf(ServerRole::Primary, "{}");
    conf.keys.push(key(KeySlot::Previous, "bindery-1"));
    conf.keys.push(key(KeySlot::Further(0), "partner.example"));
    let server = Server::start(&conf);
    server.add_zone("");
    for slot in [KeySlot::Current, KeySlot::Previous, KeySlot::Further(0)] {
        let text = slot.file_name();
        server
            .update(Some(slot), &text)
            .expect("a key of the server");
        let transfer = server.transfer(Some(slot));
        assert!(
            transfer.contains(&text) && transfer.contains("192.0.2.80"),
            "{transfer}"
        );
    }
    for slot in [KeySlot::Current, KeySlot::Previous] {
        server
            .rndc_with(slot, "status")
            .expect("a key that controls");
    }
    let refused = server.rndc_with(KeySlot::Further(0), "status");
    assert!(
        refused.is_err(),
        "a key for records controls the server: {refused:?}"
    );
}

#[test]
fn who_is_named_may_ask_and_copy() {
    let server = Server::start(&conf(
        ServerRole::Primary,
        "{acls: {here: [127.0.0.0/8]}, primary: {allowTransfer: [here]}, global: {allowQuery: ['!here', any]}}",
    ));
    server.add_zone("");
    let answer = server.dig(&["www.example.com"]);
    assert!(answer.contains("status: REFUSED"), "{answer}");
    let transfer = server.transfer(None);
    assert!(transfer.contains("192.0.2.80"), "{transfer}");
}

#[test]
fn too_many_same_answers_are_cut_short() {
    let mut server = Server::start(&conf(
        ServerRole::Primary,
        "{global: {rateLimit: {responsesPerSecond: 1, window: 15, slip: 1}}}",
    ));
    server.add_zone("");
    server.until("an answer is cut short", |server| {
        // With a cookie, the server would ask for its own instead.
        let answer = server.dig(&["+ignore", "+notcp", "+nocookie", "www.example.com"]);
        answer
            .lines()
            .any(|line| line.starts_with(";; flags:") && line.contains(" tc"))
    });
}

#[test]
fn a_zone_with_the_policy_is_signed() {
    let mut server = Server::start(&conf(
        ServerRole::Primary,
        "{global: {dnssec: {signing: {enabled: true}}}}",
    ));
    server.add_zone("dnssec-policy \"bindery\"; inline-signing yes;");
    server.until("the answer is signed", |server| {
        let answer = server.dig(&["+dnssec", "www.example.com"]);
        answer.contains("RRSIG A 13 3 60") && answer.contains("192.0.2.80")
    });
    let keys = server.dig(&["+short", "DNSKEY", "example.com"]);
    assert!(
        keys.lines().all(|line| line.starts_with("257 3 13 ")),
        "{keys}"
    );
    assert_eq!(keys.lines().count(), 1, "{keys}");
    server
        .update(Some(KeySlot::Current), "late")
        .expect("a signed zone takes updates");
    server.until("what is added is signed too", |server| {
        server
            .dig(&["+dnssec", "TXT", "told.example.com"])
            .contains("RRSIG TXT 13")
    });
}

#[test]
fn keys_and_proofs_are_those_of_the_policy() {
    let signing = "{enabled: true, policy: mine, algorithm: ED25519, kskLifetime: 1y, zskLifetime: 90d, \
                   nsec3: true, nsec3Salt: aabbccdd}";
    let cluster = format!("{{global: {{dnssec: {{signing: {signing}}}}}}}");
    let mut server = Server::start(&conf(ServerRole::Primary, &cluster));
    server.add_zone("dnssec-policy \"mine\"; inline-signing yes;");
    server.until("what is not there is proven by NSEC3", |server| {
        server
            .dig(&["+dnssec", "none.example.com"])
            .contains("NSEC3 1 0 0 ")
    });
    let mut keys: Vec<String> = server
        .dig(&["+short", "DNSKEY", "example.com"])
        .lines()
        .map(str::to_owned)
        .collect();
    keys.sort();
    let kinds: Vec<&str> = keys.iter().map(|key| key.get(..9).unwrap_or(key)).collect();
    assert_eq!(kinds, ["256 3 15 ", "257 3 15 "]);
}
