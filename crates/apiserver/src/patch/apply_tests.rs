//! Ownership of fields, compared with what a real server records.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::patch::fields::{Fields, common, paths, subtract, unite};
use crate::patch::{
    ApplyRequest, Conflict, Force, UpdateRequest, conflict_message, infer_update,
    server_side_apply, take_managers, track_update,
};
use crate::schema::Structural;

const VERSION: &str = "bindy.firestoned.io/v1beta1";

fn schema() -> Structural {
    Structural::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "ttl": {"type": "integer"}, "name": {"type": "string"},
            "addresses": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "name": {"type": "string"}, "note": {"type": "string"}}}},
            "soa": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}))
    .unwrap()
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "ARecord", "metadata": {"name": "www"}, "spec": spec})
}

fn apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: Force,
) -> Result<Value, Vec<Conflict>> {
    server_side_apply(ApplyRequest {
        live,
        applied,
        manager,
        force,
        schema: Some(&schema()),
        now: "2026-11-15T22:00:00Z",
        subresource: "",
        api_version: VERSION,
    })
}

fn update(before: Option<&Value>, mut after: Value, manager: &str) -> Value {
    let request = UpdateRequest {
        before,
        manager,
        schema: Some(&schema()),
        now: "2026-11-15T22:00:00Z",
        subresource: "",
        api_version: VERSION,
    };
    track_update(request, &mut after);
    after
}

fn fields(object: &Value, manager: &str) -> Value {
    object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|entry| entry["manager"] == manager)
        .map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[test]
fn an_applied_object_lists_its_leaves() {
    let applied = object(&json!({"ttl": 1, "addresses": ["a"], "plain": ["x"],
        "ports": [{"port": 53, "name": "dns"}], "soa": {}, "free": {"x": {"y": 1}}}));
    let stored = apply(None, &applied, "alice", Force::No).unwrap();
    assert_eq!(
        stored["metadata"]["managedFields"],
        json!([{
            "apiVersion": VERSION, "fieldsType": "FieldsV1", "manager": "alice",
            "operation": "Apply", "time": "2026-11-15T22:00:00Z",
            "fieldsV1": {"f:spec": {
                "f:ttl": {}, "f:addresses": {"v:\"a\"": {}}, "f:plain": {}, "f:soa": {},
                "f:ports": {"k:{\"port\":53}": {".": {}, "f:port": {}, "f:name": {}}},
                "f:free": {"f:x": {".": {}, "f:y": {}}},
            }},
        }])
    );
}

#[test]
fn applying_twice_changes_nothing() {
    let applied = object(&json!({"ttl": 1, "addresses": ["a", "b"], "ports": [{"port": 1}]}));
    let once = apply(None, &applied, "alice", Force::No).unwrap();
    let twice = apply(Some(&once), &applied, "alice", Force::No).unwrap();
    assert_eq!(once, twice);
}

#[test]
fn fields_no_longer_applied_go_unless_another_owns_them() {
    let first = object(&json!({"ttl": 1, "name": "n", "addresses": ["a", "b"],
        "ports": [{"port": 1, "name": "x"}, {"port": 2}], "soa": {"a": 1}}));
    let stored = apply(None, &first, "alice", Force::No).unwrap();
    let bob = object(&json!({"name": "n", "addresses": ["b"], "ports": [{"port": 1}]}));
    let stored = apply(Some(&stored), &bob, "bob", Force::No).unwrap();
    let second = object(&json!({"ttl": 1}));
    let stored = apply(Some(&stored), &second, "alice", Force::No).unwrap();
    assert_eq!(
        stored["spec"],
        json!({"ttl": 1, "name": "n", "addresses": ["b"], "ports": [{"port": 1}]})
    );
    assert_eq!(fields(&stored, "alice"), json!({"f:spec": {"f:ttl": {}}}));
}

#[test]
fn another_value_for_an_owned_field_is_a_conflict() {
    let created = update(
        None,
        object(&json!({"ttl": 1, "name": "n"})),
        "kubectl-client-side-apply",
    );
    let applied = object(&json!({"ttl": 2}));
    let conflicts = apply(Some(&created), &applied, "alice", Force::No).unwrap_err();
    assert_eq!(
        conflict_message(&conflicts),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using \
         bindy.firestoned.io/v1beta1: .spec.ttl"
    );
    assert_eq!(conflicts[0].cause().reason.as_str(), "FieldManagerConflict");
    let forced = apply(Some(&created), &applied, "alice", Force::Yes).unwrap();
    assert_eq!(forced["spec"], json!({"ttl": 2, "name": "n"}));
    assert_eq!(
        fields(&forced, "kubectl-client-side-apply"),
        json!({"f:spec": {".": {}, "f:name": {}}})
    );
    let both = object(&json!({"ttl": 3, "name": "m"}));
    let conflicts = apply(Some(&created), &both, "alice", Force::No).unwrap_err();
    assert_eq!(
        conflict_message(&conflicts),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using \
         bindy.firestoned.io/v1beta1:\n- .spec.name\n- .spec.ttl"
    );
}

#[test]
fn the_same_value_is_owned_by_both() {
    let applied = object(&json!({"ttl": 1}));
    let stored = apply(None, &applied, "alice", Force::No).unwrap();
    let stored = apply(Some(&stored), &applied, "bob", Force::No).unwrap();
    assert_eq!(fields(&stored, "alice"), fields(&stored, "bob"));
}

#[test]
fn an_update_owns_what_it_changed_and_others_lose_it() {
    let stored = apply(
        None,
        &object(&json!({"ttl": 1, "name": "n"})),
        "alice",
        Force::No,
    )
    .unwrap();
    let mut after = stored.clone();
    after["spec"]["ttl"] = json!(5);
    after["spec"]["soa"] = json!({"a": 1});
    after["metadata"]["labels"] = json!({"x": "y"});
    after["metadata"]["resourceVersion"] = json!("7");
    let stored = update(Some(&stored), after, "bob");
    assert_eq!(fields(&stored, "alice"), json!({"f:spec": {"f:name": {}}}));
    assert_eq!(
        fields(&stored, "bob"),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            "f:spec": {"f:soa": {".": {}, "f:a": {}}, "f:ttl": {}},
        })
    );
    let mut after = stored.clone();
    after["metadata"].as_object_mut().unwrap().remove("labels");
    after["metadata"]["managedFields"] = Value::Null;
    let stored = update(Some(&stored), after, "carol");
    assert_eq!(fields(&stored, "carol"), Value::Null);
    assert_eq!(
        fields(&stored, "bob"),
        json!({"f:spec": {"f:soa": {".": {}, "f:a": {}}, "f:ttl": {}}})
    );
}

#[test]
fn a_write_that_changes_nothing_keeps_times() {
    let created = update(None, object(&json!({"ttl": 1})), "alice");
    let mut again = created.clone();
    let later = UpdateRequest {
        before: Some(&created),
        manager: "alice",
        schema: Some(&schema()),
        now: "2026-11-15T23:00:00Z",
        subresource: "",
        api_version: VERSION,
    };
    track_update(later, &mut again);
    assert_eq!(again, created);
}

#[test]
fn entries_that_were_set_aside_are_tracked_like_those_in_place() {
    let created = update(None, object(&json!({"ttl": 1})), "alice");
    for (subresource, part) in [("", "spec"), ("status", "status")] {
        let request = UpdateRequest {
            before: Some(&created),
            manager: "bob",
            schema: Some(&schema()),
            now: "2026-11-15T23:00:00Z",
            subresource,
            api_version: VERSION,
        };
        let mut in_place = created.clone();
        in_place[part] = json!({"ttl": 2});
        let mut set_aside = in_place.clone();
        track_update(request, &mut in_place);
        let held = take_managers(&mut set_aside);
        let mut before = created.clone();
        take_managers(&mut before);
        let request = UpdateRequest {
            before: Some(&before),
            ..request
        };
        infer_update(request, held, &mut set_aside);
        assert_eq!(set_aside, in_place);
        assert_ne!(fields(&set_aside, "bob"), Value::Null);
    }
}

#[test]
fn kubectl_takes_over_what_it_applied_itself() {
    let mut manifest = object(&json!({"ttl": 1}));
    manifest["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": object(&json!({"ttl": 1})).to_string(),
    });
    let created = update(None, manifest, "kubectl-client-side-apply");
    let applied = object(&json!({"ttl": 2}));
    let stored = apply(Some(&created), &applied, "kubectl", Force::No).unwrap();
    assert_eq!(stored["spec"]["ttl"], 2);
}

#[test]
fn built_in_lists_merge_by_their_keys() {
    let pod = |containers: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": containers}})
    };
    let applied = pod(json!([{"name": "a", "image": "x", "ports": [{"containerPort": 53}]}]));
    let run = |live: Option<&Value>, applied: &Value, manager: &str| {
        server_side_apply(ApplyRequest {
            live,
            applied,
            manager,
            force: Force::No,
            schema: None,
            now: "2026-11-15T22:00:00Z",
            subresource: "",
            api_version: "v1",
        })
    };
    let stored = run(None, &applied, "alice").unwrap();
    let more = pod(json!([{"name": "b", "image": "y"}]));
    let stored = run(Some(&stored), &more, "bob").unwrap();
    assert_eq!(
        stored["spec"]["containers"],
        json!([{"name": "a", "image": "x", "ports": [{"containerPort": 53}]}, {"name": "b", "image": "y"}])
    );
    assert_eq!(
        fields(&stored, "alice"),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {},
            "f:ports": {"k:{\"containerPort\":53,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}})
    );
}

#[test]
fn owner_references_are_owned_each_as_a_whole() {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}]}});
    let request = UpdateRequest {
        before: None,
        manager: "alice",
        schema: None,
        now: "2026-11-15T22:00:00Z",
        subresource: "",
        api_version: "v1",
    };
    track_update(request, &mut object);
    assert_eq!(
        fields(&object, "alice"),
        json!({"f:metadata": {"f:ownerReferences": {".": {}, "k:{\"uid\":\"1\"}": {}}}})
    );
}

#[test]
fn many_writers_end_in_few_entries() {
    let mut stored = update(None, object(&json!({"ttl": 0})), "writer-0");
    for index in 1..20 {
        let mut after = stored.clone();
        after["metadata"]["labels"][format!("l{index}")] = json!("x");
        stored = update(Some(&stored), after, &format!("writer-{index}"));
    }
    let entries = stored["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .len();
    assert!(entries <= 10, "{entries}");
}

fn any_fields() -> impl Strategy<Value = Fields> {
    let leaf = Just(Value::Object(Map::new()));
    let tree = leaf.prop_recursive(3, 16, 3, |inner| {
        let step = prop_oneof![
            "f:[ab]",
            Just(".".to_owned()),
            Just("k:{\"n\":1}".to_owned()),
            Just("v:\"x\"".to_owned()),
        ];
        prop::collection::btree_map(step, inner, 0..4).prop_map(|members| {
            let mut fields: Fields = members.into_iter().collect();
            if let Some(own) = fields.get_mut(".") {
                *own = json!({});
            }
            if fields.len() == 1 {
                fields.remove(".");
            }
            Value::Object(fields)
        })
    });
    tree.prop_map(|tree| {
        let mut fields = tree.as_object().cloned().unwrap_or_default();
        fields.remove(".");
        fields
    })
}

proptest! {
    #[test]
    fn sets_of_fields_obey_the_laws_of_sets(one in any_fields(), other in any_fields()) {
        let mut both = one.clone();
        unite(&mut both, &other);
        let mut listed = paths(&one);
        listed.extend(paths(&other));
        listed.sort();
        listed.dedup();
        let mut united = paths(&both);
        united.sort();
        prop_assert_eq!(&united, &listed);

        let mut rest = both.clone();
        subtract(&mut rest, &other);
        prop_assert!(common(&rest, &other).is_empty());
        unite(&mut rest, &other);
        prop_assert_eq!(rest, both);
        prop_assert_eq!(common(&one, &one), one);
    }

    #[test]
    fn applying_any_spec_twice_is_applying_it_once(
        ttl in any::<Option<u8>>(),
        addresses in prop::collection::btree_set("[a-d]", 0..4),
        ports in prop::collection::btree_map(0u8..4, "[a-b]", 0..3),
        others in prop::collection::btree_set("[a-f]", 0..4),
    ) {
        let mut spec = json!({"addresses": addresses});
        if let Some(ttl) = ttl {
            spec["ttl"] = json!(ttl);
        }
        let ports: Vec<Value> = ports.iter().map(|(port, name)| json!({"port": port, "name": name})).collect();
        spec["ports"] = json!(ports);
        let applied = object(&spec);
        let base = apply(None, &object(&json!({"addresses": others})), "other", Force::No).unwrap();
        let once = apply(Some(&base), &applied, "alice", Force::Yes).unwrap();
        let twice = apply(Some(&once), &applied, "alice", Force::No).unwrap();
        prop_assert_eq!(&once, &twice);
        let gone = apply(Some(&twice), &object(&json!({})), "alice", Force::No).unwrap();
        prop_assert_eq!(&gone["spec"]["addresses"].as_array().map_or(0, Vec::len), &others.len());
    }
}
