//! Whatever a spec can say, `named` takes; what it does not take is told in its words.

use std::collections::BTreeMap;

use bindery_bind::{CheckFault, ConfigCheck, find_checkconf};
use bindery_core::ServerRole;
use bindery_sources::clusters::{KeySlot, NamedConf, render};

use super::{conf, key};

/// Specs that are fine, each with what it shows.
const FINE: [(&str, &str); 14] = [
    ("nothing", "{}"),
    (
        "access lists",
        "{acls: {a: [10.0.0.0/8, '!10.1.0.0/16', b], b: ['2001:db8::/32', '::1'], c: []}, \
      global: {allowQuery: ['!b', a, localhost], allowTransfer: [c, 192.0.2.7]}}",
    ),
    (
        "roles",
        "{acls: {a: [::1]}, primary: {allowTransfer: [a]}, secondary: {allowTransfer: [localnets]}}",
    ),
    (
        "lists of nobody",
        "{global: {allowQuery: [], allowTransfer: [], listenOn: [], listenOnV6: []}}",
    ),
    (
        "listening",
        "{global: {listenOn: [127.0.0.1, 10.0.0.0/8], listenOnV6: ['::1']}}",
    ),
    ("a resolver", "{global: {recursion: true}}"),
    (
        "a resolver that forwards",
        "{global: {recursion: true, forwarders: [192.0.2.53, '2001:db8::53'], \
      allowQuery: [10.0.0.0/8], dnssec: {validation: false}}}",
    ),
    (
        "validation",
        "{global: {recursion: true, dnssec: {validation: true}}}",
    ),
    (
        "rate limits",
        "{global: {rateLimit: {responsesPerSecond: 1000, window: 3600, slip: 10}}}",
    ),
    ("a rate", "{global: {rateLimit: {responsesPerSecond: 1}}}"),
    ("signing", "{global: {dnssec: {signing: {enabled: true}}}}"),
    (
        "the built-in policy",
        "{global: {dnssec: {signing: {enabled: true, policy: default}}}}",
    ),
    (
        "two keys and NSEC3",
        "{global: {dnssec: {signing: {enabled: true, policy: Mine-1, kskLifetime: 1y, \
      zskLifetime: 90d, nsec3: true, nsec3Salt: aabbccdd, nsec3Iterations: 10}}}}",
    ),
    ("an older version", "{version: 9.18.10}"),
];

const ALGORITHMS: [&str; 6] = [
    "RSASHA256",
    "RSASHA512",
    "ECDSAP256SHA256",
    "ECDSAP384SHA384",
    "ED25519",
    "ED448",
];

/// What `named-checkconf` says to the rendered files.
async fn checked(conf: &NamedConf) -> Result<(), CheckFault> {
    let files = render(conf).expect("a spec without problems");
    let keys = conf
        .keys
        .iter()
        .map(|key| (key.slot.file_name(), key.name.clone()));
    checked_files(files, keys.collect()).await
}

async fn checked_files(
    mut files: BTreeMap<String, String>,
    keys: BTreeMap<String, String>,
) -> Result<(), CheckFault> {
    let scratch = tempfile::tempdir().expect("a folder");
    let check = ConfigCheck {
        program: find_checkconf().expect("named-checkconf is installed"),
        scratch: scratch.path().to_owned(),
    };
    let zones = "zone \"own.example\" { type primary; file \"own\"; };\n";
    files.insert("named.conf.zones".to_owned(), zones.to_owned());
    check.check(&files, &keys).await
}

#[tokio::test]
async fn named_takes_whatever_a_spec_can_say() {
    for (what, cluster) in FINE {
        for role in [ServerRole::Primary, ServerRole::Secondary] {
            let outcome = checked(&conf(role, cluster)).await;
            assert!(outcome.is_ok(), "{what}: {outcome:?}");
        }
    }
    for algorithm in ALGORITHMS {
        let cluster = format!(
            "{{global: {{dnssec: {{signing: {{enabled: true, algorithm: {algorithm}}}}}}}}}"
        );
        let outcome = checked(&conf(ServerRole::Primary, &cluster)).await;
        assert!(outcome.is_ok(), "{algorithm}: {outcome:?}");
    }
}

#[tokio::test]
async fn named_takes_keys_that_are_replaced_and_zones_of_the_authors_own() {
    let mut conf = conf(ServerRole::Primary, "{}");
    conf.keys.push(key(KeySlot::Previous, "bindery-1"));
    conf.keys.push(key(KeySlot::Further(0), "Partner.example"));
    conf.has_own_zones_file = true;
    checked(&conf).await.expect("all keys have a file");
}

#[tokio::test]
async fn what_only_named_can_know_is_told_in_its_words() {
    let told = [
        ("{global: {allowQuery: [nobody]}}", "undefined ACL 'nobody'"),
        (
            "{global: {dnssec: {signing: {enabled: true, kskLifetime: 1h}}}}",
            "dnssec-policy: key lifetime is shorter than the time it takes to do a rollover",
        ),
    ];
    for (cluster, expected) in told {
        let fault = checked(&conf(ServerRole::Primary, cluster))
            .await
            .expect_err(cluster);
        assert!(fault.is_authors(), "{fault}");
        let said = fault.to_string();
        assert!(
            said.contains(expected) && said.contains("/etc/bind/named.conf"),
            "{said}"
        );
    }
}
