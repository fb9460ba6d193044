//! Cells and paths compared with what the real server prints.

use serde_json::{Value, json};

use crate::table::{
    JsonPath, RowObject, TableOptions, age, builtin_columns, custom_columns, table,
};

fn at(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

fn cells(columns: &[crate::table::Column], item: &Value) -> Value {
    let options = TableOptions {
        now: at("2026-11-15T22:00:00Z"),
        row_object: RowObject::Metadata,
        metadata: json!({"resourceVersion": "1"}),
    };
    table(columns, &[item], &options)["rows"][0]["cells"].clone()
}

#[test]
fn ages_have_at_most_two_units() {
    let then = at("2026-01-01T00:00:00Z");
    for (seconds, expected) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 1800, "7h30m"),
        (30 * 3600, "30h"),
        (51 * 3600, "2d3h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (-10, "<invalid>"),
    ] {
        let now = then
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
        assert_eq!(age(now, then), expected);
    }
}

#[test]
fn paths_reach_what_definitions_print() {
    let object = json!({"spec": {"a.b": 1, "list": [{"n": 1}, {"n": 2}]},
        "status": {"conditions": [{"type": "X", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    for (path, expected) in [
        (".spec.list[1].n", json!(2)),
        (".spec.list[-1].n", json!(2)),
        (".spec.list[*].n", json!(1)),
        (".spec['a.b']", json!(1)),
        (r".spec.a\.b", json!(1)),
        (
            r#".status.conditions[?(@.type=="Ready")].status"#,
            json!("True"),
        ),
        (
            ".status.conditions[?(@.type=='Ready')].status",
            json!("True"),
        ),
        (
            "{.status.conditions[?(@.type != 'X')].status}",
            json!("True"),
        ),
        ("spec.list[?(@.n>1)].n", json!(2)),
    ] {
        assert_eq!(
            JsonPath::parse(path).unwrap().first(&object),
            Some(&expected),
            "{path}"
        );
    }
    assert_eq!(
        JsonPath::parse(".spec.none.x").unwrap().first(&object),
        None
    );
    for path in [
        "..spec",
        ".spec[",
        ".spec[?(x)]",
        ".a b]c[",
        ".x[?(@.y==z)]",
    ] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn declared_columns_follow_the_name() {
    let version = json!({"additionalPrinterColumns": [
        {"name": "TTL", "type": "integer", "jsonPath": ".spec.ttl"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]});
    let columns = custom_columns(&version).unwrap();
    let item = json!({"metadata": {"name": "www", "creationTimestamp": "2026-11-15T21:55:00Z"},
        "spec": {"ttl": 300}});
    assert_eq!(cells(&columns, &item), json!(["www", 300, null, "5m"]));
    let plain = custom_columns(&json!({})).unwrap();
    assert_eq!(cells(&plain, &item), json!(["www", "5m"]));
    assert_eq!(plain[1].name, "Age");
}

#[test]
fn built_in_kinds_have_their_columns() {
    let created = "2026-11-15T21:55:00Z";
    for (kind, item, expected) in [
        (
            "Namespace",
            json!({"status": {"phase": "Active"}}),
            json!(["n", "Active", "5m"]),
        ),
        (
            "ConfigMap",
            json!({"data": {"a": "b"}}),
            json!(["n", 1, "5m"]),
        ),
        (
            "Secret",
            json!({"type": "Opaque", "data": {}}),
            json!(["n", "Opaque", 0, "5m"]),
        ),
        (
            "Service",
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 53, "protocol": "UDP"}]}}),
            json!([
                "n",
                "ClusterIP",
                "10.0.0.1",
                "<none>",
                "53/UDP",
                "5m",
                "<none>"
            ]),
        ),
        ("CustomResourceDefinition", json!({}), json!(["n", created])),
        (
            "Lease",
            json!({"spec": {"holderIdentity": "me"}}),
            json!(["n", "me", "5m"]),
        ),
        (
            "EndpointSlice",
            json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["1.1.1.1"]}]}),
            json!(["n", "IPv4", "80", "1.1.1.1", "5m"]),
        ),
        ("Widget", json!({}), json!(["n", "5m"])),
    ] {
        let mut item = item;
        item["metadata"] = json!({"name": "n", "creationTimestamp": created});
        assert_eq!(cells(&builtin_columns(kind), &item), expected, "{kind}");
    }
    let event = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Synced", "message": "m\n",
        "involvedObject": {"kind": "ARecord", "name": "www"}, "lastTimestamp": created});
    assert_eq!(
        cells(&builtin_columns("Event"), &event),
        json!([
            "5m",
            "Normal",
            "Synced",
            "arecord/www",
            null,
            "",
            "m",
            "<unknown>",
            1,
            "e"
        ])
    );
}
