//! Laws of the patches.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::patch::{MergeKeys, PatchFault, json_patch, merge_patch, strategic_merge};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| json!(number)),
        "[a-c]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether an object has a null member, anywhere.
fn has_null_member(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .values()
            .any(|member| member.is_null() || has_null_member(member)),
        Value::Array(items) => items.iter().any(has_null_member),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(target in any_json(), patch in any_json()) {
        let mut once = target;
        merge_patch(&mut once, &patch);
        let mut twice = once.clone();
        merge_patch(&mut twice, &patch);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn merging_an_object_without_nulls_into_nothing_gives_it(patch in any_json()) {
        prop_assume!(!has_null_member(&patch));
        let mut target = Value::Null;
        merge_patch(&mut target, &patch);
        prop_assert_eq!(target, patch);
    }

    #[test]
    fn replacing_the_whole_object_gives_the_value(target in any_json(), value in any_json()) {
        let ops = json!([{"op": "replace", "path": "", "value": value}]);
        prop_assert_eq!(json_patch(&target, &ops).unwrap(), value);
    }

    #[test]
    fn an_added_member_can_be_tested_and_removed(value in any_json()) {
        let target = json!({"a": 1});
        let ops = json!([
            {"op": "add", "path": "/b~1c", "value": value},
            {"op": "test", "path": "/b~1c", "value": value},
            {"op": "remove", "path": "/b~1c"},
        ]);
        prop_assert_eq!(json_patch(&target, &ops).unwrap(), target);
    }
}

#[test]
fn testing_null_on_a_missing_member_passes() {
    let target = json!({"metadata": {"name": "x"}});
    let ops = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["f"]},
    ]);
    let patched = json_patch(&target, &ops).unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["f"]));
}

#[test]
fn a_failed_test_changes_nothing_and_names_the_path() {
    let target = json!({"a": 1});
    let ops = json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": 3}]);
    let fault = json_patch(&target, &ops).unwrap_err();
    assert_eq!(fault.to_string(), "testing value /a failed: test failed");
    assert!(matches!(fault, PatchFault::Inapplicable(_)));
}

#[test]
fn list_operations_follow_the_real_server() {
    let target = json!({"l": [1, 2, 3]});
    let patched = |ops| json_patch(&target, &ops).map(|patched| patched["l"].clone());
    let add = |path: &str| json!([{"op": "add", "path": path, "value": 9}]);
    assert_eq!(patched(add("/l/-")).unwrap(), json!([1, 2, 3, 9]));
    assert_eq!(patched(add("/l/0")).unwrap(), json!([9, 1, 2, 3]));
    assert_eq!(patched(add("/l/-1")).unwrap(), json!([1, 2, 3, 9]));
    let fault = patched(add("/l/7")).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced"
    );
    let fault = patched(json!([{"op": "remove", "path": "/x/y"}])).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "remove operation does not apply: doc is missing path: \"/x/y\": missing value"
    );
}

#[test]
fn copies_cannot_blow_up_memory() {
    let mut ops = vec![json!({"op": "add", "path": "/a", "value": "x".repeat(1000)})];
    for _ in 0..40 {
        ops.push(json!({"op": "copy", "from": "/a", "path": "/b"}));
        ops.push(json!({"op": "replace", "path": "/a", "value": {}}));
        ops.push(json!({"op": "copy", "from": "/b", "path": "/a/l"}));
        ops.push(json!({"op": "copy", "from": "/b", "path": "/a/r"}));
    }
    let fault = json_patch(&json!({}), &Value::Array(ops)).unwrap_err();
    assert!(matches!(fault, PatchFault::Inapplicable(_)));
    let many = Value::Array(vec![json!({"op": "test", "path": ""}); 10_001]);
    assert!(matches!(
        json_patch(&json!({}), &many),
        Err(PatchFault::TooLarge(_))
    ));
}

fn check_strategic(kind: &str, target: Value, patch: &Value, expected: &Value) {
    let mut target = target;
    strategic_merge(&mut target, patch, &MergeKeys::of(kind)).unwrap();
    assert_eq!(&target, expected);
}

#[test]
fn strategic_lists_merge_by_their_key() {
    check_strategic(
        "Deployment",
        json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b"}]}}),
        &json!({"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "$patch": "delete"}]},
            {"name": "b", "$patch": "delete"}, {"name": "c"}]}}),
        &json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "Y", "value": "2"}]},
            {"name": "c"}]}}),
    );
    check_strategic(
        "Service",
        json!({"spec": {"ports": [{"port": 53, "name": "dns"}], "selector": {"a": "1"}}}),
        &json!({"spec": {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 54}], "selector": {"a": null, "b": "2"}}}),
        &json!({"spec": {"ports": [{"port": 53, "name": "dns", "protocol": "UDP"}, {"port": 54}], "selector": {"b": "2"}}}),
    );
}

#[test]
fn strategic_directives_are_obeyed() {
    check_strategic(
        "Pod",
        json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a"}]}}),
        &json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
                "labels": {"$patch": "replace", "y": "2"}},
            "spec": {"volumes": [{"name": "v", "configMap": {"name": "m"}, "$retainKeys": ["name", "configMap"]}],
                "tolerations": [{"key": "b"}]}}),
        &json!({"metadata": {"finalizers": ["c", "b"], "labels": {"y": "2"}},
            "spec": {"volumes": [{"name": "v", "configMap": {"name": "m"}}], "tolerations": [{"key": "b"}]}}),
    );
    check_strategic(
        "Pod",
        json!({"spec": {"containers": [{"name": "a"}, {"name": "s"}, {"name": "b"}]}}),
        &json!({"spec": {"containers": [{"name": "n"}],
            "$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}]}}),
        &json!({"spec": {"containers": [{"name": "s"}, {"name": "b"}, {"name": "n"}, {"name": "a"}]}}),
    );
    let mut target = json!({"spec": {"containers": []}});
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let fault = strategic_merge(&mut target, &patch, &MergeKeys::of("Pod")).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "map: {\"image\":\"x\"} does not contain declared merge key: name"
    );
}
