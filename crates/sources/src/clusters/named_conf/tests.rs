//! What is written for which spec, what is refused, and that nothing gets out of its place.

mod hostile;

use bindery_api::ClusterConfig;

use super::*;

/// A configuration from a cluster's spec and an instance's `config`, in YAML, with one key.
fn conf(cluster: &str, own: Option<&str>) -> NamedConf {
    let cluster: ClusterConfig = serde_saphyr::from_str(cluster).unwrap();
    NamedConf {
        role: ServerRole::Primary,
        version: cluster.version,
        global: cluster.global,
        own: own.map(|own| serde_saphyr::from_str(own).unwrap()),
        acls: cluster.acls,
        allow_transfer: cluster.primary.unwrap_or_default().allow_transfer,
        keys: vec![key(KeySlot::Current, "bindery")],
        has_own_zones_file: false,
        signs_requests: false,
    }
}

fn key(slot: KeySlot, name: &str) -> NamedKey {
    let name = name.to_owned();
    NamedKey { slot, name }
}

fn options(conf: &NamedConf) -> String {
    render(conf).unwrap().remove("named.conf.options").unwrap()
}

fn main_file(conf: &NamedConf) -> String {
    render(conf).unwrap().remove("named.conf").unwrap()
}

/// Lines that stand in a text, whatever their indent.
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        let found = text.lines().any(|found| found.trim() == *line);
        assert!(found, "{line} is not in\n{text}");
    }
}

fn has_not(text: &str, word: &str) {
    assert!(!text.contains(word), "{word} is in\n{text}");
}

fn problems(conf: &NamedConf) -> Vec<String> {
    let problems = render(conf).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_spec_that_says_nothing_gets_an_authoritative_server() {
    let conf = conf("{}", None);
    let text = options(&conf);
    has(
        &text,
        &[
            "directory \"/var/cache/bind\";",
            "listen-on port 5353 { any; };",
            "listen-on-v6 port 5353 { any; };",
            "allow-query { any; };",
            "recursion no;",
            "allow-query-cache { none; };",
            "dnssec-validation no;",
            "allow-update { \"bindery-keys\"; };",
            "allow-transfer { \"bindery-keys\"; };",
            "allow-new-zones yes;",
            "version none;",
            "notify explicit;",
            "notify-delay 0;",
            "max-records-per-type 0;",
        ],
    );
    has_not(&text, "rate-limit");
    has_not(&text, "forward");
    let main = main_file(&conf);
    has(
        &main,
        &[
            "include \"/etc/bind/keys/keys.conf\";",
            "include \"/etc/bind/named.conf.options\";",
            "category queries { null; };",
        ],
    );
    has(
        &render(&conf).unwrap()["keys/keys.conf"],
        &[
            "include \"/etc/bind/keys/rndc.key\";",
            "inet * port 9530 allow { localhost; } keys { \"bindery\"; };",
        ],
    );
    has_not(&main, "dnssec-policy");
    has_not(&main, "named.conf.zones");
    let rndc = &render(&conf).unwrap()["keys/rndc.conf"];
    has(rndc, &["default-key \"bindery\";", "default-port 9530;"]);
}

#[test]
fn requests_are_signed_where_zones_cannot_name_a_key_and_nobody_recurses() {
    let check = |cluster: &str, signs: bool| {
        let mut conf = conf(cluster, None);
        conf.keys.push(key(KeySlot::Transfer, "bindery-transfer"));
        conf.signs_requests = signs;
        main_file(&conf).contains("server 0.0.0.0/0 {\n\tkeys \"bindery-transfer\";")
    };
    assert!(check("{}", true), "{}", main_file(&conf("{}", None)));
    assert!(!check("{}", false));
    assert!(!check("{global: {recursion: true}}", true));
}

#[test]
fn what_the_spec_says_is_written() {
    let cluster = r#"
global:
  recursion: true
  allowQuery: [10.0.0.0/8, "!10.1.0.0/16", partners, "2001:db8::/32", LocalHost]
  allowTransfer: [192.0.2.7]
  forwarders: [192.0.2.53, "2001:db8::53"]
  listenOn: [192.0.2.1]
  listenOnV6: []
  rateLimit: {responsesPerSecond: 20, window: 5, slip: 1}
acls:
  partners: [198.51.100.0/24]
primary:
  allowTransfer: [partners]
"#;
    let mut conf = conf(cluster, None);
    conf.has_own_zones_file = true;
    let allowed = "{ 10.0.0.0/8; !10.1.0.0/16; \"partners\"; 2001:db8::/32; localhost; };";
    has(
        &options(&conf),
        &[
            "recursion yes;",
            &format!("allow-query {allowed}"),
            &format!("allow-recursion {allowed}"),
            &format!("allow-query-cache {allowed}"),
            "forward only;",
            "forwarders { 192.0.2.53; 2001:db8::53; };",
            "listen-on port 5353 { 192.0.2.1; };",
            "listen-on-v6 port 5353 { none; };",
            "allow-transfer { \"bindery-keys\"; \"partners\"; 192.0.2.7; };",
            "responses-per-second 20;",
            "window 5;",
            "slip 1;",
            "dnssec-validation auto;",
        ],
    );
    let main = main_file(&conf);
    has(
        &main,
        &[
            "acl \"partners\" { 198.51.100.0/24; };",
            "include \"/etc/bind/named.conf.zones\";",
        ],
    );
}

#[test]
fn a_resolver_is_not_open_to_the_world_unless_somebody_says_so() {
    let text = options(&conf("global: {recursion: true}", None));
    has(
        &text,
        &[
            "allow-query { any; };",
            "allow-recursion { localhost; localnets; };",
            "allow-query-cache { localhost; localnets; };",
        ],
    );
    let text = options(&conf("global: {forwarders: [192.0.2.53]}", None));
    has_not(&text, "forward");
    let off = "global: {recursion: true, dnssec: {validation: false}}";
    has(&options(&conf(off, None)), &["dnssec-validation no;"]);
}

#[test]
fn two_keys_are_valid_while_one_replaces_the_other() {
    let mut conf = conf("{}", None);
    conf.keys = vec![
        key(KeySlot::Current, "bindery-2"),
        key(KeySlot::Previous, "bindery-1"),
        key(KeySlot::Further(3), "Partner.example."),
    ];
    let text = options(&conf);
    let listed = ["allow-update", "allow-transfer"];
    let listed = listed.map(|option| format!("{option} {{ \"bindery-keys\"; }};"));
    has(&text, &listed.each_ref().map(String::as_str));
    let files = render(&conf).expect("the keys have names");
    has(
        &files["keys/keys.conf"],
        &[
            "acl \"bindery-keys\" { key \"bindery-2\"; key \"bindery-1\"; key \"partner.example\"; };",
            "include \"/etc/bind/keys/rndc.key\";",
            "include \"/etc/bind/keys/previous.key\";",
            "include \"/etc/bind/keys/further-3.key\";",
            "inet * port 9530 allow { localhost; } keys { \"bindery-2\"; \"bindery-1\"; };",
        ],
    );
    conf.keys[2].name = "bindery-1".to_owned();
    let told = "spec.rndcSecretRefs[3]: another key of the server is called \"bindery-1\" too";
    assert_eq!(problems(&conf), [told]);
}

#[test]
fn a_secondary_looks_often_and_is_told_with_the_key() {
    let mut conf = conf("{}", None);
    conf.role = ServerRole::Secondary;
    conf.allow_transfer = vec!["nobody here".to_owned()];
    let told = &problems(&conf)[0];
    assert!(
        told.starts_with("spec.secondary.allowTransfer[0]: \"nobody here\" is none of"),
        "{told}"
    );
    conf.allow_transfer.clear();
    let text = options(&conf);
    let lines = [
        "notify no;",
        "max-refresh-time 20;",
        "allow-notify { \"bindery-keys\"; };",
    ];
    has(&text, &lines);
}

#[test]
fn options_of_newer_versions_are_left_out_for_older_ones() {
    let written = |version: &str| {
        let text = options(&conf(&format!("version: \"{version}\""), None));
        let has = |option| text.contains(option);
        [
            has("max-records-per-type"),
            has("lock-file"),
            has("max-ixfr-ratio"),
        ]
    };
    assert_eq!(written("9.18"), [true, true, true]);
    assert_eq!(written("9.18.27"), [false, true, true]);
    assert_eq!(written("9.18.28-alpine"), [true, true, true]);
    assert_eq!(written("9.11"), [false, true, false]);
    assert_eq!(written("9.21"), [true, false, true]);
    assert_eq!(written("latest"), [true, true, true]);
}

#[test]
fn a_default_of_the_authors_own_has_another_name_on_the_server() {
    let check = |signing: &str, wanted: Option<&str>| {
        let cluster = format!("global: {{dnssec: {{signing: {signing}}}}}");
        let conf = conf(&cluster, None);
        let config = merged(conf.global.as_ref(), None);
        assert_eq!(default_policy(&config), wanted, "{signing}");
        let text = main_file(&conf);
        let written = text.contains("dnssec-policy \"bindery-default\"");
        assert_eq!(written, wanted == Some("bindery-default"), "{text}");
        assert!(!text.contains("dnssec-policy \"default\""), "{text}");
    };
    let own = Some("bindery-default");
    check("{enabled: true, policy: default, kskLifetime: 365d}", own);
    check("{enabled: true, policy: default, nsec3: true}", own);
    check("{enabled: true, policy: default, algorithm: '15'}", own);
    check("{enabled: true, algorithm: ED25519}", Some("bindery"));
    check("{enabled: true, policy: default}", None);
    check(
        "{enabled: true, policy: default, algorithm: '13', zskLifetime: unlimited}",
        None,
    );
    check("{enabled: true}", None);
    check("{enabled: false, policy: default, nsec3: true}", None);
    check("{enabled: true, policy: mine, nsec3: true}", None);
}

#[test]
fn a_policy_is_written_as_the_spec_says() {
    let policy = |signing: &str| {
        let text = main_file(&conf(
            &format!("global: {{dnssec: {{signing: {signing}}}}}"),
            None,
        ));
        let from = text.find("dnssec-policy").map(|from| &text[from..]);
        let policy = from
            .and_then(|text| text.split_once("\n};"))
            .map(|(policy, _)| policy);
        policy.unwrap_or_default().replace(['\n', '\t'], " ")
    };
    assert_eq!(policy("{policy: mine}"), "");
    assert_eq!(policy("{enabled: false, policy: \"}{\"}"), "");
    assert_eq!(
        policy("{enabled: true, policy: default, algorithm: ECDSAP256SHA256}"),
        ""
    );
    assert_eq!(
        policy("{enabled: true}"),
        "dnssec-policy \"bindery\" {  keys {   csk key-directory lifetime unlimited algorithm ECDSAP256SHA256;  }; \
         max-zone-ttl P1W;"
            .replace("}; max", "};  max")
    );
    let all = policy(
        "{enabled: true, policy: mine, algorithm: ed25519, kskLifetime: 1y, zskLifetime: 90d, nsec3: true, \
         nsec3Salt: aabbccdd, nsec3Iterations: 5}",
    );
    for part in [
        "dnssec-policy \"mine\" {",
        "ksk key-directory lifetime 31536000 algorithm ED25519;",
        "zsk key-directory lifetime 7776000 algorithm ED25519;",
        "nsec3param iterations 5 optout no salt-length 4;",
    ] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_field() {
    let check = |cluster: &str, expected: &str| {
        let told = problems(&conf(cluster, None)).join("; ");
        assert!(told.starts_with(expected), "{cluster}: {told}");
    };
    check(
        "global: {allowQuery: [any, ::1, 10.0.0.0/33]}",
        "spec.global.allowQuery[2]: \"10.0.0.0/33\" is none of these: an address,",
    );
    check(
        "global: {listenOn: [10.0.0.5/24]}",
        "spec.global.listenOn[0]: \"10.0.0.5/24\" is not the first address of its network: write 10.0.0.0/24",
    );
    check(
        "global: {forwarders: [dns.example.com]}",
        "spec.global.forwarders[0]: \"dns.example.com\" is not an address",
    );
    check(
        "acls: {any: [::1]}",
        "spec.acls: \"any\" is a list of named's own: choose another name",
    );
    check(
        "acls: {office: [::1], Office: [::1]}",
        "spec.acls.office: another list has this name",
    );
    check(
        "acls: {office: [\"::1;\"]}",
        "spec.acls.office[0]: \"::1;\" is none of these",
    );
    check(
        "global: {rateLimit: {window: 5}}",
        "spec.global.rateLimit: responsesPerSecond is missing",
    );
    check(
        "global: {rateLimit: {responsesPerSecond: 0}}",
        "spec.global.rateLimit.responsesPerSecond: 0 is not between 1 and 1000",
    );
}

#[test]
fn what_is_wrong_with_a_policy_is_told_with_its_field() {
    let check = |signing: &str, expected: &str| {
        let cluster = format!("global: {{dnssec: {{signing: {{enabled: true, {signing}}}}}}}");
        let told = problems(&conf(&cluster, None)).join("; ");
        assert!(
            told.starts_with(&format!("spec.global.dnssec.signing.{expected}")),
            "{told}"
        );
    };
    check(
        "policy: none",
        "policy: \"none\" means something else to named",
    );
    check(
        "policy: Insecure",
        "policy: \"Insecure\" means something else",
    );
    check(
        "policy: Default",
        "policy: \"Default\" means something else",
    );
    check(
        "policy: \"a b\"",
        "policy: \"a b\" is not the name of a policy",
    );
    check(
        "policy: bindery-default",
        "policy: \"bindery-default\" means something else",
    );
    check(
        "algorithm: RSASHA1",
        "algorithm: \"RSASHA1\" is none of RSASHA256,",
    );
    check(
        "kskLifetime: 1month",
        "kskLifetime: \"1month\" is not a time",
    );
    check(
        "zskLifetime: 999999y",
        "zskLifetime: \"999999y\" is not a time",
    );
    check("zskLifetime: 0d", "zskLifetime: \"0d\" is not a time");
    check(
        "nsec3: true, nsec3Salt: abc",
        "nsec3Salt: \"abc\" is not a salt",
    );
    check(
        "nsec3: true, nsec3Iterations: 51",
        "nsec3Iterations: 51 is not between 0 and 50",
    );
}

#[test]
fn an_instance_goes_before_its_cluster_field_by_field() {
    let cluster = "
global:
  recursion: true
  allowQuery: [192.0.2.1]
  rateLimit: {responsesPerSecond: 20, slip: 3}
  dnssec: {validation: false, signing: {enabled: true, algorithm: ED25519}}
  bindcarConfig: {port: 8081, logLevel: info, envVars: [{name: A}]}
";
    let own = "
allowQuery: [192.0.2.2]
rateLimit: {slip: 4}
dnssec: {signing: {policy: mine}}
bindcarConfig: {logLevel: debug}
";
    let conf = conf(cluster, Some(own));
    let one = merged(conf.global.as_ref(), conf.own.as_ref());
    let expected: Bind9Config = serde_saphyr::from_str(
        "
recursion: true
allowQuery: [192.0.2.2]
rateLimit: {responsesPerSecond: 20, slip: 4}
dnssec: {validation: false, signing: {enabled: true, algorithm: ED25519, policy: mine}}
bindcarConfig: {port: 8081, logLevel: debug, envVars: [{name: A}]}
",
    )
    .unwrap();
    assert_eq!(one, expected);
    let alone = NamedConf {
        global: None,
        own: Some(one),
        ..conf.clone()
    };
    assert_eq!(render(&conf), render(&alone));
    assert_eq!(merged(None, None), Bind9Config::default());
    let mut wrong = conf;
    wrong
        .own
        .as_mut()
        .unwrap()
        .rate_limit
        .as_mut()
        .unwrap()
        .slip = Some(11);
    assert_eq!(
        problems(&wrong),
        ["spec.config.rateLimit.slip: 11 is not between 0 and 10"]
    );
}
