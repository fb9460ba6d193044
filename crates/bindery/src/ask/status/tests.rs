use super::*;
use crate::ask::fixture::{TOWN, inventory};

#[test]
fn the_tree_shows_servers_and_what_is_not_ready() {
    let tree = tree(&inventory(TOWN), Some("default"), Sight::Whole);
    assert_eq!(
        lines(&tree, Paint::Plain),
        [
            "example.com  Ready  dnszone/default/example-com  1/2 ready",
            "├─ server 127.0.0.1:5300  primary  serial 7  ready",
            "└─ Conflict  cnamerecord/default/alias  taken",
            "",
            "in no zone",
            "└─ NotSelected  arecord/default/lost  label it",
            "",
            "2 of 4 objects are ready",
        ]
    );
}

#[test]
fn words_have_the_colour_of_their_mood() {
    let tree = tree(&inventory(TOWN), None, Sight::Whole);
    let text = lines(&tree, Paint::Colours).join("\n");
    assert!(text.contains("\x1b[32mReady\x1b[0m"), "{text}");
    assert!(text.contains("\x1b[31mConflict\x1b[0m"), "{text}");
}

#[test]
fn another_namespace_has_nothing_of_it() {
    let tree = tree(&inventory(TOWN), Some("web"), Sight::Whole);
    assert_eq!((tree.ready, tree.total), (0, 0));
    assert_eq!(
        lines(&tree, Paint::Plain),
        ["nothing is declared in namespace web; there are zones in default"]
    );
}

#[test]
fn what_is_being_deleted_stands_in_its_zone() {
    let town = format!(
        "{TOWN}---
kind: DNSEndpoint
metadata:
  name: shop
  deletionTimestamp: '2026-01-01T00:00:00Z'
  finalizers: [bindery.dev/dns]
  annotations: {{bindery.dev/published: shop.example.com. 300 IN A 192.0.2.5}}
spec: {{endpoints: [{{dnsName: shop.example.com, recordType: A, targets: [192.0.2.5]}}]}}
status:
  conditions: [{{type: Programmed, status: 'False', reason: Held, message: it is held, observedGeneration: 1}}]
"
    );
    let tree = tree(&inventory(&town), Some("default"), Sight::Whole);
    let shown = lines(&tree, Paint::Plain);
    assert_eq!(
        shown[3],
        "└─ Deleting  dnsendpoint/default/shop   it is held"
    );
}

#[test]
fn what_could_not_be_seen_is_said() {
    let tree = tree(&inventory(TOWN), Some("default"), Sight::OneNamespace);
    let shown = lines(&tree, Paint::Plain);
    assert!(
        shown[shown.len() - 2].contains("you may not list them"),
        "{shown:?}"
    );
}

#[test]
fn json_has_the_same() {
    let tree = tree(&inventory(TOWN), None, Sight::Whole);
    let json = serde_json::to_value(&tree).expect("it is plain data");
    let zone = &json["zones"][0];
    assert_eq!(zone["zoneName"], "example.com");
    assert_eq!(zone["object"], "dnszone/default/example-com");
    assert_eq!(zone["servers"][0]["serial"], 7);
    assert_eq!(zone["notReady"][0]["reason"], "Conflict");
    assert_eq!(json["noZone"][0]["object"], "arecord/default/lost");
}

fn service(name: &str, class: &str, reason: &str) -> BalancedService {
    let status = if reason == "Programmed" {
        "True"
    } else {
        "False"
    };
    BalancedService(
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": class},
            "status": {"conditions": [{
                "type": "Programmed", "status": status, "reason": reason, "message": "so it is",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }))
        .expect("it is a Service"),
    )
}

#[test]
fn services_with_load_balancers_of_ours_are_counted_and_those_that_are_not_ready_named() {
    let mut tree = tree(&inventory(TOWN), Some("default"), Sight::Whole);
    let ours = "bindery.dev/lb";
    let services = [
        service("web", ours, "Programmed"),
        service("api", ours, "Failed"),
        service("other", "somebody/else", "Failed"),
    ];
    tree.add_services(Some(&services));
    let shown = lines(&tree, Paint::Plain);
    assert_eq!(
        shown[shown.len() - 4..],
        [
            "load balancers  1/2 ready",
            "└─ Failed  service/default/api  so it is",
            "",
            "3 of 6 objects are ready",
        ]
    );
    tree.add_services(None);
    let shown = lines(&tree, Paint::Plain);
    assert!(
        shown
            .iter()
            .any(|line| line.starts_with("Services were not looked at")),
        "{shown:?}"
    );
}
