//! Zones with data in them do not go unasked, from whatever side their removal comes.

use bindery_apiserver::EmbeddedApi;
use bindery_kube::Management;
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, missing, name, records, refusing};

const SHOP: &str = "\
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop, namespace: default}
spec:
  endpoints:
  - {dnsName: shop.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.10]}
";
const SHOP_LINE: &str = "shop.example.com. 60 IN A 192.0.2.10";
const THEIRS: &str = "theirs.example.com. 60 IN A 198.51.100.9";

/// A machine with a served zone, a record of ours and one of others in it.
async fn with_foreign() -> Bench {
    let bench = Bench::managed().await;
    publish(&bench).await;
    write_foreign(&bench);
    bench.until_lines(&[THEIRS, WWW_LINE]).await;
    bench.settle().await;
    bench
}

/// A zone, and a record in it that is served.
async fn publish(bench: &Bench) {
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
}

/// A zone and a record in namespace team, while these paths are not found.
async fn in_team_without(paths: fn(&Method, &str) -> bool) -> Bench {
    let client = move |api: &EmbeddedApi| missing(api, paths);
    let mut bench = Bench::behind(Management::Managed, client).await;
    bench.start();
    in_team(&bench).await;
    bench
}

fn write_foreign(bench: &Bench) {
    let line = records(&[THEIRS]).remove(0);
    bench.server.write_foreign(&name("example.com"), &line);
}

fn serial(bench: &Bench) -> u32 {
    let content = bench.server.content(&name("example.com"));
    content.expect("it is served").serial.0
}

/// Names the digest that a zone's condition shows.
async fn let_through(bench: &Bench, target: &str) {
    let message = bench.until(target, "Guarded", "+Held").await;
    let words = message.split_whitespace();
    let mut words = words.filter_map(|word| word.strip_prefix("bindery.dev/allow-plan="));
    let digest = words.next_back().expect("the message has the command");
    let note = json!({"metadata": {"annotations": {"bindery.dev/allow-plan": digest}}});
    bench.patch(target, note).await;
}

/// What is held stays so, whatever time passes and however often Bindery starts.
async fn stays(bench: &mut Bench, lines: &[&str]) {
    let before = serial(bench);
    for _ in 0..2 {
        bench.settle().await;
        assert_eq!(bench.lines(), lines);
        bench.restart().await;
    }
    bench.settle().await;
    assert_eq!(
        (bench.lines(), serial(bench)),
        (lines.iter().map(ToString::to_string).collect(), before)
    );
}

#[tokio::test(start_paused = true)]
async fn a_zone_deleted_by_name_with_records_of_others_in_it_is_held() {
    let mut bench = with_foreign().await;
    bench.delete("DNSZone/example").await;
    let message = bench.until("DNSZone/example", "Guarded", "+Held").await;
    assert!(
        message.contains("1 of which Bindery did not write: theirs.example.com. A"),
        "{message}"
    );
    stays(&mut bench, &[THEIRS, WWW_LINE]).await;
    bench.until_ready("ARecord/www").await;
    let events = super::events::lines(&bench, "example").await;
    assert!(
        events.iter().any(|one| one.starts_with("Warning Held")),
        "{events:?}"
    );
    // The records go on as before.
    let edit = json!({"spec": {"ipv4Addresses": ["192.0.2.7"]}});
    bench.patch("ARecord/www", edit).await;
    bench
        .until_lines(&[THEIRS, "www.example.com. 300 IN A 192.0.2.7"])
        .await;
    let_through(&bench, "DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    assert!(bench.server.content(&name("example.com")).is_none());
    bench.until("ARecord/www", "Ready", "-NotSelected").await;
}

/// Zone and record in a namespace of their own.
async fn in_team(bench: &Bench) {
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "team"}})).expect("it is one");
    let api: Api<Namespace> = Api::all(bench.client.clone());
    let params = PostParams::default();
    api.create(&params, &namespace).await.expect("it is new");
    for object in [ZONE, WWW] {
        bench
            .create(&object.replace("namespace: default", "namespace: team"))
            .await;
    }
    bench.until_ready("team:ARecord/www").await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_with_data_in_it_does_not_go_with_its_namespace() {
    let mut bench = Bench::managed().await;
    in_team(&bench).await;
    let api: Api<Namespace> = Api::all(bench.client.clone());
    api.delete("team", &DeleteParams::default())
        .await
        .expect("it is there");
    let message = bench
        .until("team:DNSZone/example", "Guarded", "+Held")
        .await;
    assert!(
        message.contains("namespace team is being deleted"),
        "{message}"
    );
    stays(&mut bench, &[WWW_LINE]).await;
    bench.until("team:ARecord/www", "Ready", "-Held").await;
    let_through(&bench, "team:DNSZone/example").await;
    bench.until_gone("team:DNSZone/example").await;
    bench.until_gone("team:ARecord/www").await;
    assert!(bench.server.content(&name("example.com")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_zone_with_data_in_it_does_not_go_with_the_definition_of_its_kind() {
    let mut bench = Bench::managed().await;
    publish(&bench).await;
    let api: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    let kind = "dnszones.bindy.firestoned.io";
    api.delete(kind, &DeleteParams::default())
        .await
        .expect("it is there");
    let message = bench.until("DNSZone/example", "Guarded", "+Held").await;
    assert!(message.contains(kind), "{message}");
    stays(&mut bench, &[WWW_LINE]).await;
    let_through(&bench, "DNSZone/example").await;
    bench.settle().await;
    assert!(bench.server.content(&name("example.com")).is_none());
}

/// A real cluster deletes the objects of a namespace kind by kind.
#[tokio::test(start_paused = true)]
async fn records_that_go_with_the_namespace_of_their_zone_wait_for_its_fate() {
    let mut bench = in_team_without(|_, path| path == "/api/v1/namespaces/team").await;
    bench.delete("team:ARecord/www").await;
    let message = bench.until("team:ARecord/www", "Ready", "-Held").await;
    assert!(
        message.contains("its namespace, or the definition"),
        "{message}"
    );
    let message = bench
        .until("team:DNSZone/example", "Guarded", "+Held")
        .await;
    assert!(
        message.contains("removing 1 of 4 record sets is held, 1 of which"),
        "{message}"
    );
    stays(&mut bench, &[WWW_LINE]).await;
    // Then it is the zone's turn.
    bench.delete("team:DNSZone/example").await;
    bench.settle().await;
    let message = bench
        .until("team:DNSZone/example", "Guarded", "+Held")
        .await;
    assert!(
        message.contains("namespace team is being deleted"),
        "{message}"
    );
    stays(&mut bench, &[WWW_LINE]).await;
    let_through(&bench, "team:DNSZone/example").await;
    bench.until_gone("team:DNSZone/example").await;
    bench.until_gone("team:ARecord/www").await;
    assert!(bench.server.content(&name("example.com")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_record_that_goes_with_its_namespace_and_not_with_its_zone_goes() {
    let bench = in_team_without(|_, path| path == "/api/v1/namespaces/default").await;
    bench.create(SHOP).await;
    bench.until_lines(&[SHOP_LINE, WWW_LINE]).await;
    bench.settle().await;
    bench.delete("DNSEndpoint/shop").await;
    bench.until_gone("DNSEndpoint/shop").await;
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn records_do_not_go_with_the_definition_of_their_kind() {
    let mut bench = Bench::managed().await;
    publish(&bench).await;
    let api: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    api.delete("arecords.bindy.firestoned.io", &DeleteParams::default())
        .await
        .expect("it is there");
    bench.until("ARecord/www", "Ready", "-Held").await;
    stays(&mut bench, &[WWW_LINE]).await;
    let_through(&bench, "DNSZone/example").await;
    bench.until_lines(&[]).await;
    bench.settle().await;
    bench.until_ready("DNSZone/example").await;
}

#[tokio::test(start_paused = true)]
async fn where_bindery_may_not_look_a_zone_is_held_and_the_permission_is_named() {
    let is_namespace = |_: &Method, path: &str| path == "/api/v1/namespaces/default";
    let client = move |api: &EmbeddedApi| refusing(api, is_namespace);
    let mut bench = Bench::behind(Management::Managed, client).await;
    bench.start();
    publish(&bench).await;
    bench.delete("DNSZone/example").await;
    let message = bench.until("DNSZone/example", "Guarded", "+Held").await;
    assert!(
        message.contains("permission to get namespace default"),
        "{message}"
    );
    bench.settle().await;
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_whose_name_is_edited_is_served_until_its_author_lets_it_go() {
    for crash in [false, true] {
        let mut bench = Bench::managed().await;
        publish(&bench).await;
        if crash {
            bench.crash().await;
        }
        let rename = json!({"spec": {"zoneName": "example.net"}});
        bench.patch("DNSZone/example", rename).await;
        if crash {
            bench.start();
        }
        let message = bench.until("DNSZone/example", "Guarded", "+Held").await;
        assert!(
            message.contains("it declares example.net. now"),
            "{message}"
        );
        stays(&mut bench, &[WWW_LINE]).await;
        let net = name("example.net");
        let moved = "www.example.net. 300 IN A 192.0.2.1".to_owned();
        assert!(
            bench.server.lines(&net).contains(&moved),
            "it is in the new zone too"
        );
        bench.until("ARecord/www", "Ready", "-Held").await;
        let_through(&bench, "DNSZone/example").await;
        bench.until_ready("ARecord/www").await;
        bench.until("DNSZone/example", "Guarded", "").await;
        bench.settle().await;
        assert!(bench.server.content(&name("example.com")).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_whose_name_is_edited_back_is_as_it_was() {
    let bench = with_foreign().await;
    let before = serial(&bench);
    for zone in ["example.net", "example.com"] {
        let rename = json!({"spec": {"zoneName": zone}});
        bench.patch("DNSZone/example", rename).await;
        bench.settle().await;
    }
    // Now it is the other zone that has data in it.
    let_through(&bench, "DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
    bench.until_ready("DNSZone/example").await;
    assert!(bench.server.content(&name("example.net")).is_none());
    assert_eq!(
        (bench.lines(), serial(&bench)),
        (vec![THEIRS.to_owned(), WWW_LINE.to_owned()], before)
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_deletion_is_undone_by_taking_the_finalizer_and_applying_again() {
    let bench = with_foreign().await;
    strip_and_apply_again(bench).await;
}

#[tokio::test(start_paused = true)]
async fn records_of_a_zone_whose_object_vanished_are_known_again_after_a_restart() {
    let mut bench = with_foreign().await;
    bench.create(SHOP).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.delete("DNSZone/example").await;
    bench.until("DNSZone/example", "Guarded", "+Held").await;
    let stripped = json!({"metadata": {"finalizers": null}});
    bench.patch("DNSZone/example", stripped).await;
    bench.until_gone("DNSZone/example").await;
    for _ in 0..2 {
        bench.restart().await;
        bench.until("ARecord/www", "Ready", "-NotSelected").await;
        bench.settle().await;
        assert_eq!(bench.lines(), [SHOP_LINE, THEIRS, WWW_LINE]);
    }
    bench.create(ZONE).await;
    bench.until_ready("ARecord/www").await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.delete("ARecord/www").await;
    bench.delete("DNSEndpoint/shop").await;
    bench.until_gone("ARecord/www").await;
    bench.until_lines(&[THEIRS]).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_in_a_zone_whose_object_vanished_are_known_again_beside_those_in_another() {
    let mut bench = with_foreign().await;
    let other = ZONE.replace("name: example,", "name: other,");
    let other = other
        .replace("example.com", "example.net")
        .replace("zone: example", "zone: other");
    bench.create(&other).await;
    let lines = ["shop.example.com", "old.example.net", "new.example.net"];
    let endpoints = |names: &[&str]| {
        let endpoints: Vec<_> = names
            .iter()
            .map(|name| {
                json!({"dnsName": name, "recordType": "A", "recordTTL": 60,
                       "targets": ["192.0.2.10"]})
            })
            .collect();
        json!({"spec": {"endpoints": endpoints}})
    };
    bench.create(SHOP).await;
    let patch = endpoints(&lines[..2]);
    bench.patch("DNSEndpoint/shop", patch).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.delete("DNSZone/example").await;
    bench.until("DNSZone/example", "Guarded", "+Held").await;
    let stripped = json!({"metadata": {"finalizers": null}});
    bench.patch("DNSZone/example", stripped).await;
    bench.until_gone("DNSZone/example").await;
    bench.restart().await;
    bench.settle().await;
    // What is withdrawn in the zone that lives is forgotten; of the other nobody can tell.
    let patch = endpoints(&[lines[0], lines[2]]);
    bench.patch("DNSEndpoint/shop", patch).await;
    bench.settle().await;
    let published = bench.published("DNSEndpoint/shop").await;
    let published = published.expect("it has lines");
    assert!(
        published.contains(lines[0]) && published.contains(lines[2]),
        "{published}"
    );
    assert!(!published.contains(lines[1]), "{published}");

    bench.restart().await;
    bench.create(ZONE).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.delete("DNSEndpoint/shop").await;
    bench.until_gone("DNSEndpoint/shop").await;
    bench.until_lines(&[THEIRS, WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_record_had_in_a_zone_that_was_taken_back_is_forgotten() {
    let bench = Bench::managed().await;
    publish(&bench).await;
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    bench.until("ARecord/www", "Ready", "-NotSelected").await;
    bench.settle().await;
    assert_eq!(bench.published("ARecord/www").await, None);
}

async fn strip_and_apply_again(bench: Bench) {
    let before = serial(&bench);
    bench.delete("DNSZone/example").await;
    bench.until("DNSZone/example", "Guarded", "+Held").await;
    let stripped = json!({"metadata": {"finalizers": null}});
    bench.patch("DNSZone/example", stripped).await;
    bench.until_gone("DNSZone/example").await;
    bench.settle().await;
    assert_eq!(
        bench.lines(),
        [THEIRS, WWW_LINE],
        "it is served on without its object"
    );
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    assert_eq!(
        (bench.lines(), serial(&bench)),
        (vec![THEIRS.to_owned(), WWW_LINE.to_owned()], before)
    );
    // Ours is ours still.
    bench.delete("ARecord/www").await;
    bench.until_gone("ARecord/www").await;
    bench.until_lines(&[THEIRS]).await;
}

/// So many records, h0 and on.
async fn with_hosts(bench: &Bench, count: usize) {
    bench.create(ZONE).await;
    for number in 0..count {
        bench
            .create(&WWW.replace("www", &format!("h{number}")))
            .await;
    }
    for number in 0..count {
        bench.until_ready(&format!("ARecord/h{number}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn twelve_deletions_and_a_crash_over_and_over_are_one_removal_of_too_much() {
    let mut bench = Bench::managed().await;
    with_hosts(&bench, 100).await;
    for round in 0..6 {
        for number in round * 12..(round + 1) * 12 {
            bench.delete(&format!("ARecord/h{number}")).await;
        }
        // Within the minute, and long enough for what may go to go.
        bench.pass(std::time::Duration::from_secs(4)).await;
        bench.restart().await;
    }
    bench.settle().await;
    assert!(
        bench.lines().len() >= 70,
        "{} are left",
        bench.lines().len()
    );
    let message = bench.until("ARecord/h71", "Ready", "-Held").await;
    assert!(message.contains("Guarded"), "{message}");
    let events = super::events::lines(&bench, "h71").await;
    assert_eq!(events, ["Warning Held 1"]);
    let_through(&bench, "DNSZone/example").await;
    bench.until_gone("ARecord/h71").await;
    bench.settle().await;
    assert_eq!(bench.lines().len(), 28);
}

#[tokio::test(start_paused = true)]
async fn single_deletions_go_at_once_and_cost_one_write_more() {
    let bench = Bench::managed().await;
    with_hosts(&bench, 20).await;
    bench.settle().await;
    let zone_writes = || {
        let writes = &bench.handle().metrics().zone_status_writes;
        writes.load(std::sync::atomic::Ordering::Relaxed)
    };
    let before = zone_writes();
    bench.delete("ARecord/h1").await;
    bench.until_gone("ARecord/h1").await;
    bench.settle().await;
    assert_eq!((bench.lines().len(), zone_writes() - before), (19, 2));
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_no_file_declares_any_longer_is_kept_and_says_so() {
    let bench = Bench::managed().await;
    publish(&bench).await;
    let note = |file: Option<&str>| json!({"metadata": {"annotations": {"bindery.dev/no-longer-declared": file}}});
    bench
        .patch("DNSZone/example", note(Some("example.yaml")))
        .await;
    let message = bench
        .until("DNSZone/example", "Guarded", "+NoLongerDeclared")
        .await;
    assert_eq!(
        message,
        "example.yaml no longer declares this zone; it has 1 record sets, so it is kept and served: \
         put it back, or run: kubectl delete dnszone example -n default"
    );
    bench.until_lines(&[WWW_LINE]).await;
    bench.settle().await;
    let events = super::events::lines(&bench, "example").await;
    assert!(
        events.contains(&"Warning NoLongerDeclared 1".to_owned()),
        "{events:?}"
    );
    bench.patch("DNSZone/example", note(None)).await;
    bench.until("DNSZone/example", "Guarded", "").await;
}
