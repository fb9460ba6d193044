//! Zones and records on several clusters of name servers.

use bindery_core::{Group, Kind};

use super::{WWW, catalog_on, decide, find, object, said};
use crate::{Catalog, Groups, Precedence};

const INTERNAL: &str = "DNSZone internal@5 {} {zoneName: example.com, clusterRef: internal, \
    ttl: 300, recordsFrom: [{selector: {matchLabels: {zone: a}}}]}";
const EXTERNAL: &str = "DNSZone external@6 {} {zoneName: EXAMPLE.com, clusterRef: external, \
    ttl: 300, recordsFrom: [{selector: {matchLabels: {zone: b}}}]}";
const WWW_INTERNAL: &str = "ARecord www@9 {labels: {zone: LABEL}, finalizers: [bindery.dev/dns], \
    resourceVersion: '2', annotations: {bindery.dev/published: \
    \"; on cluster internal\\nwww.example.com. 300 IN A 192.0.2.1\", \
    bindy.firestoned.io/zone: example.com}} {name: www, ipv4Addresses: [192.0.2.1]}";

fn clusters(lines: &[&str]) -> Catalog {
    let groups: Groups = [Group::named("internal"), Group::named("external")]
        .into_iter()
        .collect();
    catalog_on(groups, lines)
}

fn precedence(catalog: &Catalog, name: &str) -> Precedence {
    let zone = find(catalog, Kind::DnsZone, name);
    catalog.zone(&zone).expect("it was declared").precedence
}

#[test]
fn two_zones_of_one_name_live_on_different_servers() {
    let catalog = clusters(&[INTERNAL, EXTERNAL, WWW]);
    assert_eq!(precedence(&catalog, "internal"), Precedence::Active);
    assert_eq!(precedence(&catalog, "external"), Precedence::Active);
    let lines = [
        "[; on cluster internal]",
        "[www.example.com. 300 IN A 192.0.2.1]",
    ];
    assert_eq!(said(&decide(&catalog, Kind::ARecord, "www")), lines);
}

#[test]
fn two_zones_of_one_name_on_the_same_servers_do_not() {
    let moved = EXTERNAL.replace("clusterRef: external", "clusterRef: internal");
    let catalog = clusters(&[INTERNAL, &moved]);
    assert!(matches!(
        precedence(&catalog, "external"),
        Precedence::Duplicate(_)
    ));
}

#[test]
fn a_record_that_moves_to_other_servers_keeps_its_line_there_until_it_is_gone() {
    let stays = WWW_INTERNAL.replace("LABEL", "a");
    let catalog = clusters(&[INTERNAL, EXTERNAL, &stays]);
    let www = "www.example.com. 300 IN A 192.0.2.1";
    assert_eq!(
        said(&decide(&catalog, Kind::ARecord, "www")),
        [format!("{www} @internal")]
    );

    let moves = WWW_INTERNAL.replace("LABEL", "b");
    let catalog = clusters(&[INTERNAL, EXTERNAL, &moves]);
    let wanted = [
        "[; on cluster external]",
        "[www.example.com. 300 IN A 192.0.2.1]",
        "[; on cluster internal]",
        "[www.example.com. 300 IN A 192.0.2.1]",
    ];
    assert_eq!(said(&decide(&catalog, Kind::ARecord, "www")), wanted);
    // What stands on one server says nothing of what stands on another.
    let www = find(&catalog, Kind::ARecord, "www");
    let nowhere = catalog
        .decide(&www, &|_, _| false)
        .expect("it makes claims");
    assert_eq!(
        said(&nowhere),
        ["www.example.com. 300 IN A 192.0.2.1 @external"]
    );
}

#[test]
fn a_zone_on_a_cluster_that_is_not_there_takes_nothing_away() {
    let stays = WWW_INTERNAL.replace("LABEL", "a");
    let place = "{annotations: {bindery.dev/published: example.com. internal}}";
    let elsewhere = INTERNAL.replacen("{}", place, 1);
    let elsewhere = elsewhere.replace("clusterRef: internal", "clusterRef: intern");
    let catalog = clusters(&[&elsewhere, &stays]);
    assert!(matches!(
        precedence(&catalog, "internal"),
        Precedence::Invalid(_)
    ));
    assert_eq!(said(&decide(&catalog, Kind::ARecord, "www"))[0], "held");
}

#[test]
fn endpoints_are_in_the_oldest_zone_unless_they_name_a_cluster() {
    let endpoints = |note: &str| {
        format!(
            "DNSEndpoint e@9 {{annotations: {{{note}}}}} {{endpoints: [{{dnsName: \
             api.example.com, recordType: A, targets: [192.0.2.7]}}]}}"
        )
    };
    for (note, cluster) in [
        ("", "internal"),
        ("bindery.dev/cluster: external", "external"),
    ] {
        let catalog = clusters(&[INTERNAL, EXTERNAL, &endpoints(note)]);
        let first = said(&decide(&catalog, Kind::DnsEndpoint, "e"))[0].clone();
        assert_eq!(first, format!("[; on cluster {cluster}]"));
    }
    // A cluster that is not there is not guessed at, and nothing is taken away.
    let line = "bindery.dev/published: 'api.example.com. 300 IN A 192.0.2.7'";
    let typo = endpoints(&format!("{line}, bindery.dev/cluster: other"));
    let catalog = clusters(&[INTERNAL, EXTERNAL, &typo]);
    let decision = decide(&catalog, Kind::DnsEndpoint, "e");
    assert_eq!(said(&decision)[0], "held");
    assert!(
        decision.problems[0]
            .message
            .contains("name one of external, internal")
    );
    // Where no cluster has a name, names mean nothing.
    let catalog = catalog_on(
        Groups::default(),
        &[INTERNAL, &endpoints("bindery.dev/cluster: any")],
    );
    let line = said(&decide(&catalog, Kind::DnsEndpoint, "e"));
    assert_eq!(line, ["[api.example.com. 300 IN A 192.0.2.7]"]);
}

#[test]
fn older_names_of_the_field_count_too() {
    for field in ["clusterProviderRef", "globalClusterRef"] {
        let older = EXTERNAL.replace("clusterRef", field);
        let catalog = clusters(&[INTERNAL, &older]);
        assert_eq!(
            precedence(&catalog, "external"),
            Precedence::Active,
            "{field}"
        );
        let both = INTERNAL.replace(
            "clusterRef: internal",
            &format!("clusterRef: internal, {field}: external"),
        );
        let catalog = clusters(&[&both]);
        assert!(
            matches!(precedence(&catalog, "internal"), Precedence::Invalid(_)),
            "{field}"
        );
    }
}

#[test]
fn what_is_on_servers_that_are_gone_can_be_given_up() {
    let gone = WWW_INTERNAL
        .replace("LABEL", "b")
        .replace("cluster internal", "cluster gone");
    let catalog = clusters(&[EXTERNAL, &gone]);
    let lines = said(&decide(&catalog, Kind::ARecord, "www"));
    assert!(
        lines.contains(&"[; on cluster gone]".to_owned()),
        "{lines:?}"
    );
    let given_up = gone.replace(
        "annotations: {",
        "annotations: {bindery.dev/abandon: 'true', ",
    );
    let catalog = clusters(&[EXTERNAL, &given_up]);
    let lines = said(&decide(&catalog, Kind::ARecord, "www"));
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_zone_says_which_zones_it_has_where() {
    let text = "bindery.dev/published: \"example.com. internal\\nexample.net.\"";
    let zone = object(&INTERNAL.replacen("{}", &format!("{{annotations: {{{text}}}}}"), 1));
    let places: Vec<String> = zone
        .meta
        .owned_zones()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(places, ["example.com. on cluster internal", "example.net."]);
    let patch = crate::MetadataPatch::owned_zones(
        &zone.meta,
        &zone.meta.owned_zones().into_iter().collect(),
    );
    let written = &patch.body()["metadata"]["annotations"]["bindery.dev/published"];
    let written = written.as_str().unwrap_or_default();
    assert!(
        written.starts_with("example.com. internal\nexample.net.\n; of "),
        "{written}"
    );
}
