//! Decisions from short manifests, and properties over many of them.

mod clusters;
mod properties;
mod rehearsal;
mod sharing;

use bindery_api::{KindInfo, RawObject, Scope, info};
use bindery_core::{Kind, ObjectRef, Record, zones::Going};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::meta::PUBLISHED;
use crate::seal::seal;
use crate::{Catalog, Cause, Decision, Groups, Meta, NextAct, Object, Precedence};

/// Reads manifests as an API server would give them out: each line of text is one object,
/// `KIND name@created {metadata} {spec}` in flow YAML.
fn object(line: &str) -> Object {
    let mut words = line.splitn(3, ' ');
    let kind = kind(words.next().expect("a kind"));
    let (name, created) = words
        .next()
        .and_then(|word| word.split_once('@'))
        .expect("a name and a time");
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let (meta, spec) = words.next().map_or(("{}", "{}"), halves);
    let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).expect("YAML") };
    let (meta, spec) = (yaml(meta), yaml(spec));
    let mut meta: ObjectMeta = serde_json::from_value(meta).expect("the fixture is metadata");
    let created: i64 = created.parse().expect("seconds");
    let time = k8s_openapi::jiff::Timestamp::from_second(created).expect("a time");
    meta.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    meta.namespace = Some(namespace.to_owned());
    meta.name = Some(name.to_owned());
    meta.uid = meta.uid.or_else(|| Some(format!("uid-{name}")));
    meta.generation = Some(1);
    meta.resource_version = meta.resource_version.or_else(|| Some("1".to_owned()));
    // What fixtures say to be published, Bindery wrote.
    let object = Meta::read(info(kind), &meta)
        .expect("the fixture has an identity")
        .object;
    if let Some(text) = meta
        .annotations
        .iter_mut()
        .find_map(|notes| notes.get_mut(PUBLISHED))
    {
        *text = seal(&object, text);
    }
    let object = RawObject::new(meta, [("spec", spec)]);
    Object::read(info(kind), &object).expect("the fixture has an identity")
}

/// Two mappings in flow YAML, one after the other.
fn halves(text: &str) -> (&str, &str) {
    let mut depth = 0;
    let end = text.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at + 1)
    });
    text.split_at(end.expect("the braces are closed"))
}

fn kind(word: &str) -> Kind {
    match word {
        "DNSZone" => Kind::DnsZone,
        "ARecord" => Kind::ARecord,
        "CNAMERecord" => Kind::CnameRecord,
        "DNSEndpoint" => Kind::DnsEndpoint,
        other => unreachable!("no fixture has the kind {other}"),
    }
}

fn catalog(lines: &[&str]) -> Catalog {
    catalog_on(Groups::default(), lines)
}

fn catalog_on(groups: Groups, lines: &[&str]) -> Catalog {
    let mut catalog = Catalog::new(groups);
    for line in lines {
        catalog.upsert(object(line));
    }
    catalog
}

fn find(catalog: &Catalog, kind: Kind, name: &str) -> ObjectRef {
    let id = catalog
        .named(kind, "default", name)
        .expect("it was declared");
    (*id).clone()
}

fn decide(catalog: &Catalog, kind: Kind, name: &str) -> Decision {
    let object = find(catalog, kind, name);
    catalog
        .decide(&object, &|_, _| true)
        .expect("it makes claims")
}

/// What is to be in DNS for an object, or the reasons why nothing is; what has to be written first
/// stands in brackets.
fn said(decision: &Decision) -> Vec<String> {
    let mut said: Vec<String> = match &decision.next {
        NextAct::AwaitAuthor => vec!["held".to_owned()],
        NextAct::WriteMetadata(patch) => {
            let body = patch.body();
            let lines = body["metadata"]["annotations"]["bindery.dev/published"].as_str();
            let lines = lines.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.starts_with("; of "));
            lines.map(|line| format!("[{line}]")).collect()
        }
        NextAct::Declare(parts) => {
            let claims = parts.iter().flat_map(|(group, part)| {
                let claims = part.claims.iter();
                claims.map(move |claim| (group.name(), claim))
            });
            let on =
                |group: Option<&str>| group.map_or_else(String::new, |name| format!(" @{name}"));
            let said = claims.flat_map(|(group, claim)| {
                let records = claim.records();
                records.map(move |record: Record| format!("{record}{}", on(group)))
            });
            said.collect()
        }
    };
    let problems = decision.problems.iter();
    said.extend(problems.map(|problem| format!("{}: {}", problem.reason, problem.field)));
    said
}

fn check(lines: &[&str], kind: Kind, name: &str, expected: &[&str]) {
    let catalog = catalog(lines);
    assert_eq!(said(&decide(&catalog, kind, name)), expected);
}

const ZONE: &str = "DNSZone example@5 {} \
    {zoneName: example.com, ttl: 300, recordsFrom: [{selector: {matchLabels: {zone: a}}}]}";
const WWW: &str = "ARecord www@9 {labels: {zone: a}} {name: www, ipv4Addresses: [192.0.2.1]}";
const WWW_HELD: &str = "ARecord www@9 {labels: {zone: a}, finalizers: [bindery.dev/dns], \
    resourceVersion: '2', annotations: {bindery.dev/published: \
    'www.example.com. 300 IN A 192.0.2.1', bindy.firestoned.io/zone: example.com}} \
    {name: www, ipv4Addresses: [192.0.2.1]}";

/// Whatever else is to be done for an object, what tells of its records comes first.
#[test]
fn an_annotation_that_somebody_changed_is_written_back_though_nothing_can_be_published() {
    const LINE: &str = "www.example.com. 300 IN A 192.0.2.1";
    let known = |version: u32, life: &str, published: &str, spec: &str| {
        object(&format!(
            "ARecord www@9 {{labels: {{zone: a}}, finalizers: [bindery.dev/dns], \
             resourceVersion: '{version}'{life}, annotations: {{{published}}}}} {spec}"
        ))
    };
    let (wish, broken) = (
        "{name: www, ipv4Address: 192.0.2.1}",
        "{name: www, ipv4Address: nonsense}",
    );
    let published = format!("bindery.dev/published: {LINE}");
    let deleting = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
    // Its zone is gone; its author has to correct it; it is being deleted.
    for (zones, life, spec) in [
        (&[][..], "", wish),
        (&[ZONE], "", broken),
        (&[ZONE], deleting, wish),
    ] {
        let mut catalog = catalog(zones);
        catalog.upsert(known(2, life, &published, spec));
        let before = decide(&catalog, Kind::ARecord, "www");
        assert!(!matches!(before.next, NextAct::WriteMetadata(_)));
        catalog.upsert(known(3, life, "", spec));
        let after = decide(&catalog, Kind::ARecord, "www");
        let said = said(&after);
        assert_eq!(said.first(), Some(&format!("[{LINE}]")), "{said:?}");
    }
}

/// A record as the API has it once its metadata was written, without the annotation with its lines.
fn wiped(line: &str, kind: Kind, name: &str) -> String {
    let written = decide(&catalog(&[ZONE, line]), kind, name);
    let NextAct::WriteMetadata(patch) = written.next else {
        unreachable!("its lines have to be written: {:?}", written.next);
    };
    let notes = patch.body()["metadata"]["annotations"].clone();
    let check = notes["bindery.dev/published-check"].as_str();
    let check = check.expect("what was written can be checked");
    let meta = format!(
        "{{resourceVersion: '9', finalizers: [bindery.dev/dns], \
         annotations: {{bindery.dev/published-check: '{check}'}}, "
    );
    line.replacen('{', &meta, 1)
}

#[test]
fn an_object_that_asks_for_what_was_written_has_it_though_nothing_tells_the_lines() {
    let record = |address: &str| {
        format!("ARecord www@9 {{labels: {{zone: a}}}} {{name: www, ipv4Address: {address}}}")
    };
    let endpoints = "DNSEndpoint www@9 {labels: {zone: a}} {endpoints: [\
        {dnsName: www.example.com, recordType: A, targets: [192.0.2.1]}, \
        {dnsName: api.example.com, recordType: A, targets: [192.0.2.1]}]}";
    for (kind, line, count) in [
        (Kind::ARecord, record("192.0.2.1").as_str(), 1),
        (Kind::DnsEndpoint, endpoints, 2),
    ] {
        let wiped = wiped(line, kind, "www");
        let known = |lines: &[&str]| {
            let catalog = catalog(lines);
            let id = find(&catalog, kind, "www");
            catalog.decide(&id, &|_, _| false).expect("it makes claims")
        };
        let decision = known(&[ZONE, &wiped]);
        assert_eq!(said(&decision).len(), count, "{:?}", said(&decision));
        assert!(said(&decision).iter().all(|line| line.starts_with('[')));
        // As long as its zone is not there, what tells of it stays.
        assert_eq!(known(&[&wiped]).cleanup, None);
        // Of another object, or for something else, it tells nothing.
        let copied = wiped.replacen("{resourceVersion", "{uid: copy, resourceVersion", 1);
        let edited = wiped.replace("192.0.2.1", "192.0.2.2");
        for other in [copied, edited] {
            let decision = known(&[ZONE, &other]);
            let NextAct::Declare(parts) = decision.next else {
                unreachable!("it is a question: {:?}", decision.next);
            };
            assert!(parts[0].1.published.is_empty(), "{other}");
        }
    }
}

#[test]
fn a_crash_between_annotation_and_status_leaves_nothing_to_write() {
    let line = |ttl: u32| format!("www.example.com. {ttl} IN A 192.0.2.1");
    let record = object(&format!(
        "ARecord www@9 {{labels: {{zone: a}}, finalizers: [bindery.dev/dns], annotations: \
         {{bindery.dev/published: {}, bindy.firestoned.io/zone: example.com}}}} \
         {{name: www, ipv4Addresses: [192.0.2.1]}}",
        line(300)
    ));
    // The TTL changed; the annotation was written, the status was not.
    let status =
        json!({"published": seal(&record.meta.object, &line(60)), "observedGeneration": 1});
    let id = record.meta.object.clone();
    let mut catalog = catalog(&[ZONE]);
    catalog.upsert(record.with_status(&status));
    let decision = catalog.decide(&id, &|_, _| true).expect("it is known");
    assert!(
        matches!(decision.next, NextAct::Declare(_)),
        "{:?}",
        decision.next
    );
    assert_eq!(decision.cleanup, None);
}

#[test]
fn claims_are_written_down_before_they_are_declared() {
    let line = "www.example.com. 300 IN A 192.0.2.1";
    check(&[ZONE, WWW], Kind::ARecord, "www", &[&format!("[{line}]")]);
    check(&[ZONE, WWW, WWW_HELD], Kind::ARecord, "www", &[line]);
}

#[test]
fn an_edit_keeps_the_older_line_until_it_is_gone() {
    let edited = WWW_HELD.replace("[192.0.2.1]", "[192.0.2.2]");
    let lines = [ZONE, &edited];
    let expected = [
        "[www.example.com. 300 IN A 192.0.2.1]",
        "[www.example.com. 300 IN A 192.0.2.2]",
    ];
    check(&lines, Kind::ARecord, "www", &expected);
}

#[test]
fn what_is_settled_is_trimmed_and_what_is_empty_is_released() {
    let catalog = catalog(&[ZONE, WWW_HELD]);
    assert_eq!(decide(&catalog, Kind::ARecord, "www").cleanup, None);
    let deselected = WWW_HELD.replace("{zone: a}", "{zone: b}");
    let lines = [ZONE, &deselected];
    let catalog = self::catalog(&lines);
    let decision = decide(&catalog, Kind::ARecord, "www");
    assert_eq!(said(&decision), ["NotSelected: metadata.labels"]);
    let body = decision.cleanup.expect("the finalizer goes").body();
    assert_eq!(body["metadata"]["finalizers"], Value::Null);
    assert_eq!(
        body["metadata"]["annotations"]["bindery.dev/published"],
        Value::Null
    );
    assert_eq!(body["metadata"]["resourceVersion"], "2");
}

#[test]
fn a_deleted_object_asks_for_nothing_however_broken_it_is() {
    let deleted = WWW_HELD
        .replace(
            "{labels",
            "{deletionTimestamp: '2026-01-01T00:00:00Z', labels",
        )
        .replace("[192.0.2.1]}", "[nonsense]}");
    let lines = [ZONE, &deleted];
    check(&lines, Kind::ARecord, "www", &[]);
}

#[test]
fn a_broken_edit_takes_nothing_away() {
    let broken = WWW_HELD.replace("[192.0.2.1]}", "[nonsense]}");
    let lines = [ZONE, &broken];
    let expected = ["held", "Invalid: spec.ipv4Addresses[0]"];
    check(&lines, Kind::ARecord, "www", &expected);
    let zone = ZONE.replace("ttl: 300", "ttl: -1").replace(
        "{} {zoneName",
        "{annotations: {bindery.dev/published: example.com.}} {zoneName",
    );
    let lines = [&zone, WWW_HELD];
    check(
        &lines,
        Kind::ARecord,
        "www",
        &["held", "NotSelected: metadata.labels"],
    );
}

#[test]
fn a_cname_cannot_stand_at_the_apex() {
    let alias = "CNAMERecord www@1 {labels: {zone: a}} {name: '@', target: example.net}";
    check(
        &[ZONE, alias],
        Kind::CnameRecord,
        "www",
        &["held", "Invalid: spec.name"],
    );
}

#[test]
fn the_older_zone_of_a_name_is_active() {
    let younger = "DNSZone other/young@7 {} {zoneName: EXAMPLE.com.}";
    for lines in [[ZONE, younger], [younger, ZONE]] {
        let catalog = catalog(&lines);
        let young = catalog
            .named(Kind::DnsZone, "other", "young")
            .expect("declared");
        let old = find(&catalog, Kind::DnsZone, "example");
        let precedence = |object: &ObjectRef| catalog.zone(object).map(|view| view.precedence);
        assert_eq!(precedence(&old), Some(Precedence::Active));
        assert_eq!(precedence(&young), Some(Precedence::Duplicate(old.into())));
    }
}

#[test]
fn a_named_zone_goes_before_selectors() {
    let second = "DNSZone second@5 {} {zoneName: example.net}";
    let www = WWW.replace("{name: www", "{zoneRef: second, name: www");
    let lines = [ZONE, second, &www];
    let expected = ["[www.example.net. 3600 IN A 192.0.2.1]"];
    check(&lines, Kind::ARecord, "www", &expected);
    let lines = [ZONE, &www];
    check(
        &lines,
        Kind::ARecord,
        "www",
        &["ZoneNotFound: spec.zoneRef"],
    );
}

#[test]
fn an_endpoint_goes_to_the_longest_zone_whatever_its_namespace() {
    let longer = "DNSZone other/longer@9 {} {zoneName: b.example.com, ttl: 7}";
    let endpoints = "DNSEndpoint e@1 {} {endpoints: [\
        {dnsName: x.b.example.com, recordType: A, targets: [192.0.2.1]}, \
        {dnsName: xb.example.com, recordType: A, targets: [192.0.2.2]}, \
        {dnsName: example.org, recordType: A, targets: [192.0.2.3]}, \
        {dnsName: example.com, recordType: NAPTR, targets: [x]}]}";
    let expected = [
        "[x.b.example.com. 7 IN A 192.0.2.1]",
        "[xb.example.com. 300 IN A 192.0.2.2]",
        "NoMatchingZone: spec.endpoints[2].dnsName",
    ];
    let catalog = catalog(&[ZONE, longer, endpoints]);
    let said = said(&decide(&catalog, Kind::DnsEndpoint, "e"));
    assert_eq!(said.len(), 4);
    for one in expected {
        assert!(said.contains(&one.to_owned()), "{one} in {said:?}");
    }
}

#[test]
fn an_object_goes_along_with_its_definition_or_with_the_namespace_of_its_zone() {
    let elsewhere = ZONE.replace("example@5", "other/example@5");
    for (zone, with_namespace) in [(ZONE, Going::Along), (&elsewhere, Going::Asked)] {
        let catalog = catalog(&[zone, WWW_HELD]);
        let www = find(&catalog, Kind::ARecord, "www");
        let rows = [
            (None, Going::Unsaid),
            (Some(Cause::ByName), Going::Asked),
            (Some(Cause::Unknown), Going::Asked),
            (Some(Cause::WithNamespace), with_namespace),
            (Some(Cause::WithDefinition), Going::Along),
        ];
        for (cause, going) in rows {
            assert_eq!(catalog.going(&www, cause), going, "{cause:?}");
        }
    }
}

#[test]
fn an_object_that_cannot_carry_its_lines_says_so() {
    let text = "x".repeat(250);
    let many: Vec<String> = (0..1000)
        .map(|at| format!("{{dnsName: n{at}.example.com, recordType: TXT, targets: [{text}]}}"))
        .collect();
    let endpoints = format!("DNSEndpoint e@1 {{}} {{endpoints: [{}]}}", many.join(", "));
    let catalog = catalog(&[ZONE, &endpoints]);
    let decision = decide(&catalog, Kind::DnsEndpoint, "e");
    assert_eq!(said(&decision), ["held", "Invalid: spec"]);
    assert!(decision.problems[0].message.contains("split it"));
}

#[test]
fn an_object_that_vanished_still_takes_its_lines_along() {
    let mut catalog = catalog(&[ZONE, WWW_HELD]);
    let www = find(&catalog, Kind::ARecord, "www");
    assert_eq!(catalog.remove(&www).len(), 1);
    let Some(NextAct::Declare(parts)) = catalog
        .decide(&www, &|_, _| true)
        .map(|decision| decision.next)
    else {
        unreachable!("what has lines in DNS is withdrawn");
    };
    assert!(parts[0].1.claims.is_empty());
    assert_eq!(parts[0].1.published.len(), 1);
    catalog.purge(&www);
    assert_eq!(catalog.decide(&www, &|_, _| true), None);
}

#[test]
fn an_older_version_changes_nothing() {
    let mut catalog = catalog(&[ZONE, WWW_HELD]);
    assert!(catalog.upsert(object(WWW)).is_empty());
    let www = decide(&catalog, Kind::ARecord, "www");
    assert_eq!(said(&www), ["www.example.com. 300 IN A 192.0.2.1"]);
}

#[test]
fn a_recreated_object_is_another_one() {
    let mut catalog = catalog(&[ZONE, WWW_HELD]);
    let before = find(&catalog, Kind::ARecord, "www");
    let again = WWW.replace("{labels", "{uid: second, resourceVersion: '3', labels");
    let affected = catalog.upsert(object(&again));
    assert!(affected.iter().any(|id| **id == before));
    assert_ne!(find(&catalog, Kind::ARecord, "www"), before);
    // What the first one had in DNS is its own to take away.
    assert!(matches!(
        catalog
            .decide(&before, &|_, _| true)
            .map(|decision| decision.next),
        Some(NextAct::Declare(_))
    ));
}

#[test]
fn an_object_of_the_whole_cluster_has_an_identity_without_a_namespace() {
    let meta = || ObjectMeta {
        name: Some("shared".to_owned()),
        uid: Some("uid".to_owned()),
        resource_version: Some("7".to_owned()),
        ..ObjectMeta::default()
    };
    let row = info(Kind::DnsEndpoint);
    assert!(Meta::read(row, &meta()).is_none(), "it must have one");
    let row = KindInfo {
        scope: Scope::Cluster,
        ..*row
    };
    let spec =
        json!({"endpoints": [{"dnsName": "a.b", "recordType": "A", "targets": ["192.0.2.1"]}]});
    let object = RawObject::new(meta(), [("spec", spec)]);
    let object = Object::read(&row, &object).expect("it has an identity");
    assert_eq!(object.meta.object.to_string(), "dnsendpoint/shared");
    let mut catalog = Catalog::new(Groups::default());
    catalog.upsert(object);
    let found = catalog.named(Kind::DnsEndpoint, "", "shared");
    assert!(found.is_some(), "it is found by its name alone");
}
