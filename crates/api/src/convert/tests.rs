use bindery_core::Problem;
use bindery_core::zones::SigningPolicy;
use serde_json::{Value, json};

use super::*;
use crate::bindy::v1beta1 as api;
use crate::externaldns::v1alpha1::DnsEndpointSpec;

/// The lines or problems of a value.
fn shown<T>(result: Result<T, Vec<Problem>>, show: impl Fn(T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(problems) => Problem::summary(&problems),
    }
}

pub(crate) fn check_record<S: RecordSpec>(spec: Value, expected: &str) {
    let spec: S = serde_json::from_value(spec).expect("a spec of the right shape");
    let printed = shown(spec.declared(), |declared| {
        let data: Vec<String> = declared.data.iter().map(ToString::to_string).collect();
        format!(
            "{} {:?} {} {}",
            declared.name,
            declared.ttl,
            S::TYPE,
            data.join(", ")
        )
    });
    assert_eq!(printed, expected);
}

fn check_zone(spec: Value, expected: &[&str]) {
    let spec: api::DnsZoneSpec = serde_json::from_value(spec).expect("a spec of the right shape");
    let printed = shown(spec.declared(), |declared| {
        let lines: Vec<String> = declared.records().iter().map(ToString::to_string).collect();
        lines.join("\n")
    });
    assert_eq!(printed, expected.join("\n"));
}

fn check_endpoints(endpoints: Value, expected: &[&str]) {
    let spec = Value::from_iter([("endpoints".to_owned(), endpoints)]);
    let spec: DnsEndpointSpec = serde_json::from_value(spec).expect("a spec of the right shape");
    let printed: Vec<String> = spec
        .declared()
        .into_iter()
        .map(|endpoint| {
            shown(endpoint, |declared| {
                let data: Vec<String> = declared.data.iter().map(ToString::to_string).collect();
                format!(
                    "{} {} {:?} {}",
                    declared.index,
                    declared.key,
                    declared.ttl,
                    data.join(", ")
                )
            })
        })
        .collect();
    assert_eq!(printed, expected);
}

#[test]
fn addresses_come_alone_or_in_lists() {
    let one = json!({ "name": "www", "ipv4Address": "192.0.2.1", "ttl": 300 });
    check_record::<api::ARecordSpec>(one, "www Some(300) A 192.0.2.1");
    let many = json!({ "name": "www", "ipv4Addresses": ["192.0.2.2", "192.0.2.1"] });
    check_record::<api::ARecordSpec>(many, "www None A 192.0.2.2, 192.0.2.1");
    let six = json!({ "name": "www", "ipv6Addresses": ["2001:DB8::1"] });
    check_record::<api::AaaaRecordSpec>(six, "www None AAAA 2001:db8::1");
}

#[test]
fn every_bad_field_of_a_record_is_named() {
    check_record::<api::ARecordSpec>(
        json!({ "name": "www", "ipv4Addresses": ["x", "192.0.2.1", "2001:db8::1"], "ttl": -1 }),
        "spec.ttl: is -1: write a whole number from 0 to 2147483647; \
         spec.ipv4Addresses[0]: \"x\" is not an IPv4 address: write one such as 192.0.2.1; \
         spec.ipv4Addresses[2]: \"2001:db8::1\" is not an IPv4 address: write one such as 192.0.2.1",
    );
    for both_or_none in [
        json!({ "name": "www" }),
        json!({ "name": "www", "ipv4Addresses": [] }),
        json!({ "name": "www", "ipv4Address": "192.0.2.1", "ipv4Addresses": ["192.0.2.1"] }),
    ] {
        let expected = "spec: set exactly one of ipv4Address and ipv4Addresses";
        check_record::<api::ARecordSpec>(both_or_none, expected);
    }
    check_record::<api::CnameRecordSpec>(
        json!({ "name": "www", "target": "web" }),
        "spec.target: \"web\" is a single label: write the full name, or end it with a dot if you \
         mean the top-level name",
    );
    check_record::<api::SrvRecordSpec>(
        json!({ "name": "_sip._tcp", "priority": 70000, "weight": 0, "port": -1, "target": "a..b" }),
        "spec.priority: is 70000: write a whole number from 0 to 65535; \
         spec.port: is -1: write a whole number from 0 to 65535; \
         spec.target: \"a..b\" has an empty label: remove the extra dot",
    );
    check_record::<api::TxtRecordSpec>(
        json!({ "name": "@", "text": [] }),
        "spec.text: is empty: write at least one string",
    );
    check_record::<api::CaaRecordSpec>(
        json!({ "name": "@", "flags": 256, "tag": "is sue", "value": "x" }),
        "spec.flags: is 256: write a whole number from 0 to 255; \
         spec.tag: \"is sue\" is not a CAA tag: write letters and digits, such as issue or iodef",
    );
}

#[test]
fn every_kind_has_its_data() {
    let check_target = json!({ "name": "x", "target": "web.example.com" });
    check_record::<api::CnameRecordSpec>(check_target.clone(), "x None CNAME web.example.com.");
    check_record::<api::PtrRecordSpec>(check_target, "x None PTR web.example.com.");
    check_record::<api::TxtRecordSpec>(
        json!({ "name": "@", "text": ["v=spf1 -all", "\"q\" é"] }),
        r#"@ None TXT "v=spf1 -all" "\"q\" \195\169""#,
    );
    check_record::<api::MxRecordSpec>(
        json!({ "name": "@", "priority": 10, "mailServer": "mail.example.com." }),
        "@ None MX 10 mail.example.com.",
    );
    check_record::<api::MxRecordSpec>(
        json!({ "name": "@", "priority": 0, "mailServer": "." }),
        "@ None MX 0 .",
    );
    check_record::<api::NsRecordSpec>(
        json!({ "name": "sub", "nameserver": "ns.example.net" }),
        "sub None NS ns.example.net.",
    );
    check_record::<api::SrvRecordSpec>(
        json!({ "name": "_sip._tcp", "priority": 1, "weight": 2, "port": 3, "target": "a.b" }),
        "_sip._tcp None SRV 1 2 3 a.b.",
    );
    check_record::<api::CaaRecordSpec>(
        json!({ "name": "@", "flags": 0, "tag": "issue", "value": "letsencrypt.org" }),
        r#"@ None CAA 0 issue "letsencrypt.org""#,
    );
}

#[test]
fn a_zone_without_more_than_a_name_has_sane_defaults() {
    check_zone(
        json!({ "zoneName": "Example.com" }),
        &[
            "example.com. 3600 IN SOA ns1.example.com. hostmaster.example.com. 1 3600 600 604800 3600",
            "example.com. 3600 IN NS ns1.example.com.",
        ],
    );
}

#[test]
fn a_zone_with_everything_has_glue_for_its_own_hosts() {
    check_zone(
        json!({
            "zoneName": "test.example.com",
            "ttl": 60,
            "soaRecord": {
                "primaryNs": "ns1.test.example.com.",
                "adminEmail": "jo.doe@test.example.com",
                "serial": 7, "refresh": 1, "retry": 2, "expire": 3, "negativeTtl": 4,
            },
            "nameServers": [
                { "hostname": "ns1.test.example.com.", "ipv4Address": "192.0.2.53" },
                { "hostname": "ns2.example.net", "ipv6Address": "2001:db8::53" },
            ],
            "nameServerIps": { "ns3.test.example.com.": "192.0.2.54" },
        }),
        &[
            r"test.example.com. 60 IN SOA ns1.test.example.com. jo\.doe.test.example.com. 7 1 2 3 4",
            "test.example.com. 60 IN NS ns1.test.example.com.",
            "ns1.test.example.com. 60 IN A 192.0.2.53",
            "test.example.com. 60 IN NS ns2.example.net.",
            "test.example.com. 60 IN NS ns3.test.example.com.",
            "ns3.test.example.com. 60 IN A 192.0.2.54",
        ],
    );
}

#[test]
fn every_bad_field_of_a_zone_is_named() {
    check_zone(
        json!({
            "zoneName": "*.example.com",
            "recordsFrom": [{ "selector": { "matchExpressions": [
                { "key": "zone", "operator": "Like", "values": ["x"] },
            ] } }],
            "nameServers": [{ "hostname": "ns1.example.com", "ipv4Address": "x" }],
        }),
        &[
            "spec.zoneName: \"*.example.com\" is a wildcard: write the name of a zone; \
           spec.recordsFrom[0].selector.matchExpressions[0].operator: unknown operator \"Like\": \
           write In, NotIn, Exists or DoesNotExist; \
           spec.nameServers[0].ipv4Address: \"x\" is not an IPv4 address: write one such as 192.0.2.1",
        ],
    );
    check_zone(
        json!({ "zoneName": "example.com", "soaRecord": { "adminEmail": "a@b@c", "retry": -5 } }),
        &[
            "spec.soaRecord.adminEmail: \"a.b@c\" contains '@': remove it, or write it as \\064; \
           spec.soaRecord.retry: is -5: write a whole number from 0 to 2147483647",
        ],
    );
}

#[test]
fn endpoints_are_judged_one_by_one() {
    check_endpoints(
        json!([
            { "dnsName": "a.example.com", "recordType": "A", "targets": ["192.0.2.2", "192.0.2.1"] },
            null,
            { "dnsName": "b.example.com.", "recordType": "AAAA", "targets": ["::1"], "recordTTL": 60 },
            { "dnsName": "c.example.com", "recordType": "CNAME", "targets": ["a.example.com."] },
            { "dnsName": "t.example.com", "recordType": "TXT", "targets": ["plain text", "\"in\" \"quotes\""] },
            { "dnsName": "m.example.com", "recordType": "MX", "targets": ["10 mail.example.com"], "recordTTL": 0 },
            { "dnsName": "a..b", "recordType": "A", "targets": ["192.0.2.1", "no"], "recordTTL": 2_147_483_648_u32 },
            { "dnsName": "x.example.com", "recordType": "NAPTR", "targets": ["x"] },
            { "dnsName": "x.example.com", "targets": ["192.0.2.1"] },
            { "dnsName": "x.example.com", "recordType": "A" },
            { "dnsName": "x.example.com", "recordType": "CNAME", "targets": ["a.b", "c.d"] },
        ]),
        &[
            "0 a.example.com. A None 192.0.2.1, 192.0.2.2",
            "2 b.example.com. AAAA Some(60) ::1",
            "3 c.example.com. CNAME None a.example.com.",
            "4 t.example.com. TXT None \"in\" \"quotes\", \"plain text\"",
            "5 m.example.com. MX None 10 mail.example.com.",
            "spec.endpoints[6].dnsName: \"a..b\" has an empty label: remove the extra dot; \
             spec.endpoints[6].recordTTL: is 2147483648: write a whole number from 0 to 2147483647; \
             spec.endpoints[6].targets[1]: \"no\" is not an IPv4 address: write one such as 192.0.2.1",
            "spec.endpoints[7].recordType: NAPTR records cannot be declared by an endpoint: remove it",
            "spec.endpoints[8].recordType: is missing: write one such as A, AAAA, CNAME or TXT",
            "spec.endpoints[9].targets: is empty: write where the name points",
            "spec.endpoints[10].targets: an alias has one target: remove the others",
        ],
    );
}

#[test]
fn null_is_no_list() {
    let spec: DnsEndpointSpec = serde_json::from_value(json!({ "endpoints": null })).expect("fine");
    assert!(spec.declared().is_empty());
    let zone = json!({ "zoneName": "example.com", "nameServers": null, "recordsFrom": null });
    let zone: api::DnsZoneSpec = serde_json::from_value(zone).expect("fine");
    assert!(zone.declared().is_ok());
}

#[test]
fn a_type_that_exists_and_is_not_published_is_unsupported_and_a_misspelled_one_invalid() {
    use bindery_core::Reason;
    for (rtype, reason) in [
        ("NAPTR", Reason::Unsupported),
        ("naptr", Reason::Unsupported),
        ("SOA", Reason::Unsupported),
        ("TYPE99", Reason::Unsupported),
        ("NAPTER", Reason::Invalid),
        ("", Reason::Invalid),
    ] {
        let spec =
            json!({"endpoints": [{"dnsName": "a.example", "recordType": rtype, "targets": ["x"]}]});
        let spec: DnsEndpointSpec =
            serde_json::from_value(spec).expect("a spec of the right shape");
        let problems = spec.declared().remove(0).expect_err(rtype);
        assert_eq!(problems[0].reason, reason, "{rtype}");
    }
}

#[test]
fn what_a_server_makes_by_signing_cannot_be_declared_and_is_told_what_to_do_instead() {
    let signing = [
        "RRSIG",
        "nsec",
        "DNSKEY",
        "NSEC3",
        "NSEC3PARAM",
        "CDS",
        "CDNSKEY",
        "TYPE48",
        "TYPE65534",
    ];
    for rtype in signing {
        let spec =
            json!({"endpoints": [{"dnsName": "a.example", "recordType": rtype, "targets": ["x"]}]});
        let spec: DnsEndpointSpec =
            serde_json::from_value(spec).expect("a spec of the right shape");
        let problems = spec.declared().remove(0).expect_err(rtype);
        assert_eq!(problems[0].reason, bindery_core::Reason::Unsupported);
        assert!(problems[0].message.contains("dnssecPolicy"), "{rtype}");
    }
}

#[test]
fn zones_that_select_alike_have_the_same_servers() {
    let selection = |more: Value| {
        let mut zone = json!({"zoneName": "example.com"});
        for (name, value) in more.as_object().into_iter().flatten() {
            zone[name] = value.clone();
        }
        let zone: api::DnsZoneSpec = serde_json::from_value(zone).expect("of the right shape");
        zone.declared().expect("it is valid").selection
    };
    let by = |role: &str| json!([{"selector": {"matchLabels": {"role": role}}}]);
    let first = selection(json!({"bind9InstancesFrom": by("primary")}));
    assert!(first.is_some());
    assert_eq!(
        first,
        selection(json!({"instancesFrom": by("primary"), "ttl": 60}))
    );
    assert_ne!(
        first,
        selection(json!({"bind9InstancesFrom": by("secondary")}))
    );
    let both = json!({"bind9InstancesFrom": by("primary"), "clusterRef": "prod"});
    assert_ne!(first, selection(both));
    assert_eq!(selection(json!({"clusterRef": "prod"})), None);
}

#[test]
fn fields_that_are_not_acted_on_are_named() {
    let zone = json!({
        "zoneName": "example.com", "dnssecPolicy": "default", "soaRecord": {}, "nameServerIps": {},
        "bind9InstancesFrom": [{"selector": {}}], "instancesFrom": [{"selector": {}}],
    });
    let zone: api::DnsZoneSpec = serde_json::from_value(zone).expect("a spec of the right shape");
    let zone = zone.declared().expect("it is valid");
    assert_eq!(zone.signing, SigningPolicy::Named("default".into()));
    assert_eq!(zone.hosted_only, ["spec.soaRecord"]);
    let plain = json!({"zoneName": "example.com", "dnssecPolicy": "none"});
    let plain: api::DnsZoneSpec = serde_json::from_value(plain).expect("a spec of the right shape");
    let plain = plain.declared().expect("it is valid");
    assert_eq!(plain.signing, SigningPolicy::Unsigned);

    let endpoint = json!({"endpoints": [{
        "dnsName": "a.example", "recordType": "A", "targets": ["192.0.2.1"], "setIdentifier": "eu",
        "providerSpecific": [{"name": "aws/weight", "value": "10"}], "labels": {"owner": "me"},
    }]});
    let endpoint: DnsEndpointSpec =
        serde_json::from_value(endpoint).expect("a spec of the right shape");
    let endpoint = endpoint.declared().remove(0).expect("it is valid");
    let fields: Vec<&str> = endpoint.ignored.fields().collect();
    assert_eq!(fields, ["setIdentifier", "providerSpecific"]);
}

#[test]
fn endpoints_take_services_and_digests_in_zone_file_form() {
    check_endpoints(
        json!([
            { "dnsName": "example.com", "recordType": "HTTPS", "targets": ["1 . alpn=h2,h3"] },
            { "dnsName": "_dns.example.com", "recordType": "SVCB", "targets": ["0 dns.example.net"] },
            { "dnsName": "_443._tcp.example.com", "recordType": "TLSA", "targets": ["3 1 1 C0FFEE"] },
            { "dnsName": "host.example.com", "recordType": "SSHFP", "targets": ["4 2 c0ffee"] },
            { "dnsName": "example.com", "recordType": "HTTPS", "targets": ["0 b. port=1"] },
        ]),
        &[
            "0 example.com. HTTPS None 1 . alpn=\"h2,h3\"",
            "1 _dns.example.com. SVCB None 0 dns.example.net.",
            "2 _443._tcp.example.com. TLSA None 3 1 1 c0ffee",
            "3 host.example.com. SSHFP None 4 2 c0ffee",
            "spec.endpoints[4].targets[0]: port says nothing beside priority 0, which makes an alias: \
             remove it, or write another priority",
        ],
    );
}
