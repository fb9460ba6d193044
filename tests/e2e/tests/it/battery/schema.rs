//! What a schema does to a custom object: refusal with the path, defaults, pruning, rules.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, widget};

cases![
    a_missing_required_field_is_named,
    a_missing_spec_is_named,
    a_wrong_type_is_named,
    a_number_for_a_string_is_named,
    a_fraction_for_an_integer_is_refused,
    an_integer_written_as_a_whole_number_is_accepted,
    a_number_over_the_maximum_is_refused,
    a_number_under_the_minimum_is_refused,
    an_exclusive_minimum_is_exclusive,
    a_number_that_is_no_multiple_is_refused,
    a_value_outside_the_enum_lists_the_choices,
    a_pattern_is_matched,
    a_string_that_is_too_short_is_refused,
    a_string_that_is_too_long_is_refused,
    lengths_count_characters,
    a_date_time_is_checked,
    an_address_is_checked,
    base64_is_checked,
    too_many_items_are_refused,
    too_few_items_are_refused,
    too_many_properties_are_refused,
    values_of_a_map_are_checked,
    a_doubled_element_of_a_set_is_refused,
    a_doubled_key_of_a_list_map_is_refused,
    an_element_of_a_list_is_named_by_its_index,
    one_of_two_must_match,
    int_or_string_takes_both,
    int_or_string_takes_nothing_else,
    null_is_kept_where_it_is_allowed,
    null_is_refused_where_it_is_not,
    null_takes_the_default,
    defaults_are_filled_in_at_every_depth,
    defaults_are_filled_in_in_lists,
    a_given_value_wins_over_the_default,
    unknown_fields_are_pruned_at_every_depth,
    unknown_fields_are_kept_where_preserved,
    an_embedded_object_needs_a_kind,
    a_rule_is_refused_with_its_message_and_path,
    a_rule_may_compute_its_message_and_name_its_reason,
    a_transition_rule_holds_on_update_only,
    every_mistake_is_reported_at_once,
    a_mistake_in_the_status_is_refused,
    an_update_with_a_standing_mistake_elsewhere_is_validated,
    big_integers_are_kept_exactly,
    unicode_is_kept,
];

async fn refuse(t: &Scene, spec: Value) -> Value {
    t.post(&t.widgets(), &widget("a", spec))
        .await
        .refused(422, "Invalid")
}

async fn check(t: &Scene, spec: Value, reason: &str, field: &str) -> String {
    let status = refuse(t, spec).await;
    let message = cause(&status, reason, field);
    let whole = status["message"].as_str().unwrap_or_default();
    assert!(
        whole.starts_with("Widget.battery.bindery.dev \"a\" is invalid: "),
        "{whole}"
    );
    assert_eq!(status["details"]["kind"], "Widget");
    assert_eq!(status["details"]["group"], "battery.bindery.dev");
    message
}

async fn a_missing_required_field_is_named(t: Scene) {
    let message = check(&t, json!({}), "FieldValueRequired", "spec.size").await;
    assert_eq!(message, "Required value");
}

async fn a_missing_spec_is_named(t: Scene) {
    let mut body = widget("a", json!({}));
    body.as_object_mut()
        .expect("it is an object")
        .remove("spec");
    let status = t.post(&t.widgets(), &body).await.refused(422, "Invalid");
    cause(&status, "FieldValueRequired", "spec");
}

async fn a_wrong_type_is_named(t: Scene) {
    let message = check(
        &t,
        json!({"size": "big"}),
        "FieldValueTypeInvalid",
        "spec.size",
    )
    .await;
    let expected =
        "Invalid value: \"string\": spec.size in body must be of type integer: \"string\"";
    assert_eq!(message, expected);
}

async fn a_number_for_a_string_is_named(t: Scene) {
    check(
        &t,
        json!({"size": 1, "code": 5}),
        "FieldValueTypeInvalid",
        "spec.code",
    )
    .await;
    check(
        &t,
        json!({"size": 1, "tags": "x"}),
        "FieldValueTypeInvalid",
        "spec.tags",
    )
    .await;
    check(
        &t,
        json!({"size": 1, "map": []}),
        "FieldValueTypeInvalid",
        "spec.map",
    )
    .await;
    check(
        &t,
        json!({"size": 1, "enabled": "yes"}),
        "FieldValueTypeInvalid",
        "spec.enabled",
    )
    .await;
}

async fn a_fraction_for_an_integer_is_refused(t: Scene) {
    check(
        &t,
        json!({"size": 1.5}),
        "FieldValueTypeInvalid",
        "spec.size",
    )
    .await;
}

async fn an_integer_written_as_a_whole_number_is_accepted(t: Scene) {
    let made = t.make("a", json!({"size": 1, "ratio": 1})).await;
    assert_eq!(made["spec"]["ratio"], 1);
}

async fn a_number_over_the_maximum_is_refused(t: Scene) {
    let message = check(&t, json!({"size": 101}), "FieldValueInvalid", "spec.size").await;
    assert_eq!(
        message,
        "Invalid value: 101: spec.size in body should be less than or equal to 100"
    );
}

async fn a_number_under_the_minimum_is_refused(t: Scene) {
    let message = check(&t, json!({"size": -1}), "FieldValueInvalid", "spec.size").await;
    assert_eq!(
        message,
        "Invalid value: -1: spec.size in body should be greater than or equal to 0"
    );
}

async fn an_exclusive_minimum_is_exclusive(t: Scene) {
    check(
        &t,
        json!({"size": 1, "ratio": 0}),
        "FieldValueInvalid",
        "spec.ratio",
    )
    .await;
    t.make("a", json!({"size": 1, "ratio": 0.01})).await;
}

async fn a_number_that_is_no_multiple_is_refused(t: Scene) {
    check(
        &t,
        json!({"size": 1, "step": 7}),
        "FieldValueInvalid",
        "spec.step",
    )
    .await;
    t.make("a", json!({"size": 1, "step": 10})).await;
}

async fn a_value_outside_the_enum_lists_the_choices(t: Scene) {
    let spec = json!({"size": 1, "color": "pink"});
    let message = check(&t, spec, "FieldValueNotSupported", "spec.color").await;
    assert_eq!(
        message,
        "Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\""
    );
}

async fn a_pattern_is_matched(t: Scene) {
    let spec = json!({"size": 1, "code": "ABC"});
    let message = check(&t, spec, "FieldValueInvalid", "spec.code").await;
    assert_eq!(
        message,
        "Invalid value: \"ABC\": spec.code in body should match '^[a-z]+$'"
    );
}

async fn a_string_that_is_too_short_is_refused(t: Scene) {
    let message = check(
        &t,
        json!({"size": 1, "code": "a"}),
        "FieldValueInvalid",
        "spec.code",
    )
    .await;
    assert!(
        message.contains("should be at least 2 chars long"),
        "{message}"
    );
}

async fn a_string_that_is_too_long_is_refused(t: Scene) {
    let spec = json!({"size": 1, "code": "abcdefghi"});
    let message = check(&t, spec, "FieldValueTooLong", "spec.code").await;
    assert!(
        message.starts_with("Too long: may not be more than 8"),
        "{message}"
    );
}

async fn lengths_count_characters(t: Scene) {
    let made = t.make("a", json!({"size": 1, "map": {"k": "äöüßé"}})).await;
    assert_eq!(made["spec"]["map"]["k"], "äöüßé");
}

async fn a_date_time_is_checked(t: Scene) {
    check(
        &t,
        json!({"size": 1, "when": "noon"}),
        "FieldValueTypeInvalid",
        "spec.when",
    )
    .await;
    t.make("a", json!({"size": 1, "when": "2026-01-02T03:04:05Z"}))
        .await;
}

async fn an_address_is_checked(t: Scene) {
    check(
        &t,
        json!({"size": 1, "address": "1.2.3"}),
        "FieldValueTypeInvalid",
        "spec.address",
    )
    .await;
    t.make("a", json!({"size": 1, "address": "192.0.2.1"}))
        .await;
}

async fn base64_is_checked(t: Scene) {
    check(
        &t,
        json!({"size": 1, "blob": "%%%"}),
        "FieldValueTypeInvalid",
        "spec.blob",
    )
    .await;
    t.make("a", json!({"size": 1, "blob": "aGVsbG8="})).await;
}

async fn too_many_items_are_refused(t: Scene) {
    let spec = json!({"size": 1, "plain": [1, 2, 3, 4]});
    let message = check(&t, spec, "FieldValueTooMany", "spec.plain").await;
    assert_eq!(message, "Too many: 4: must have at most 3 items");
}

async fn too_few_items_are_refused(t: Scene) {
    let message = check(
        &t,
        json!({"size": 1, "plain": []}),
        "FieldValueInvalid",
        "spec.plain",
    )
    .await;
    assert!(
        message.contains("should have at least 1 items"),
        "{message}"
    );
}

async fn too_many_properties_are_refused(t: Scene) {
    let spec = json!({"size": 1, "map": {"a": "", "b": "", "c": "", "d": ""}});
    check(&t, spec, "FieldValueTooMany", "spec.map").await;
}

async fn values_of_a_map_are_checked(t: Scene) {
    let spec = json!({"size": 1, "map": {"key": "much too long"}});
    check(&t, spec, "FieldValueTooLong", "spec.map.key").await;
}

async fn a_doubled_element_of_a_set_is_refused(t: Scene) {
    let spec = json!({"size": 1, "tags": ["a", "b", "a"]});
    let message = check(&t, spec, "FieldValueDuplicate", "spec.tags[2]").await;
    assert_eq!(message, "Duplicate value: \"a\"");
}

async fn a_doubled_key_of_a_list_map_is_refused(t: Scene) {
    let spec = json!({"size": 1, "ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]});
    check(&t, spec, "FieldValueDuplicate", "spec.ports[1]").await;
}

async fn an_element_of_a_list_is_named_by_its_index(t: Scene) {
    let spec = json!({"size": 1, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 0}]});
    check(&t, spec, "FieldValueInvalid", "spec.ports[1].port").await;
    let spec = json!({"size": 1, "ports": [{"name": "a"}]});
    check(&t, spec, "FieldValueRequired", "spec.ports[0].port").await;
}

async fn one_of_two_must_match(t: Scene) {
    for choice in [json!({}), json!({"left": "x", "right": "y"})] {
        let status = refuse(&t, json!({"size": 1, "choice": choice})).await;
        let text = status["message"].as_str().unwrap_or_default();
        let expected = "\"spec.choice\" must validate one and only one schema (oneOf)";
        assert!(text.contains(expected), "{status}");
    }
    t.make("a", json!({"size": 1, "choice": {"left": "x"}}))
        .await;
}

async fn int_or_string_takes_both(t: Scene) {
    t.make("a", json!({"size": 1, "portOrName": 80})).await;
    t.make("b", json!({"size": 1, "portOrName": "http"})).await;
}

async fn int_or_string_takes_nothing_else(t: Scene) {
    refuse(&t, json!({"size": 1, "portOrName": [1]})).await;
    refuse(&t, json!({"size": 1, "portOrName": true})).await;
}

async fn null_is_kept_where_it_is_allowed(t: Scene) {
    let made = t.make("a", json!({"size": 1, "note": null})).await;
    assert_eq!(made["spec"].get("note"), Some(&Value::Null));
}

async fn null_is_refused_where_it_is_not(t: Scene) {
    let status = refuse(&t, json!({"size": null})).await;
    assert!(
        status["message"]
            .as_str()
            .unwrap_or_default()
            .contains("spec.size"),
        "{status}"
    );
}

async fn null_takes_the_default(t: Scene) {
    let made = t.make("a", json!({"size": 1, "color": null})).await;
    assert_eq!(made["spec"]["color"], "red");
}

async fn defaults_are_filled_in_at_every_depth(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    assert_eq!(
        made["spec"],
        json!({"size": 1, "color": "red", "replicas": 1, "nested": {"depth": 7}})
    );
}

async fn defaults_are_filled_in_in_lists(t: Scene) {
    let made = t
        .make("a", json!({"size": 1, "ports": [{"name": "a", "port": 1}]}))
        .await;
    assert_eq!(made["spec"]["ports"][0]["protocol"], "TCP");
}

async fn a_given_value_wins_over_the_default(t: Scene) {
    let made = t
        .make(
            "a",
            json!({"size": 1, "replicas": 0, "nested": {"depth": 1}}),
        )
        .await;
    assert_eq!(
        (&made["spec"]["replicas"], &made["spec"]["nested"]["depth"]),
        (&json!(0), &json!(1))
    );
}

async fn unknown_fields_are_pruned_at_every_depth(t: Scene) {
    let spec = json!({
        "size": 1, "x": 1, "nested": {"y": 2},
        "ports": [{"name": "a", "port": 1, "z": 3}],
    });
    let mut body = widget("a", spec);
    body["top"] = json!(true);
    let made = t.post(&t.widgets(), &body).await.is(201);
    assert!(made.get("top").is_none() && made["spec"].get("x").is_none());
    assert_eq!(made["spec"]["nested"], json!({"depth": 7}));
    assert_eq!(
        made["spec"]["ports"],
        json!([{"name": "a", "port": 1, "protocol": "TCP"}])
    );
}

async fn unknown_fields_are_kept_where_preserved(t: Scene) {
    let anything = json!({"deep": {"er": [1, {"x": null}]}});
    let made = t.make("a", json!({"size": 1, "anything": anything})).await;
    assert_eq!(made["spec"]["anything"], anything);
}

async fn an_embedded_object_needs_a_kind(t: Scene) {
    let status = refuse(&t, json!({"size": 1, "template": {"data": {}}})).await;
    cause(&status, "FieldValueRequired", "spec.template.apiVersion");
    cause(&status, "FieldValueRequired", "spec.template.kind");
    let template =
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "free": 1});
    let made = t.make("a", json!({"size": 1, "template": template})).await;
    assert_eq!(made["spec"]["template"], template);
}

async fn a_rule_is_refused_with_its_message_and_path(t: Scene) {
    let spec = json!({"size": 1, "minSize": 5});
    let message = check(&t, spec, "FieldValueInvalid", "spec.size").await;
    assert!(
        message.ends_with("size must not be below minSize"),
        "{message}"
    );
    t.make("a", json!({"size": 5, "minSize": 5})).await;
}

async fn a_rule_may_compute_its_message_and_name_its_reason(t: Scene) {
    for (limit, text) in [(5, "above a low maxSize"), (60, "above a high maxSize")] {
        let spec = json!({"size": 99, "maxSize": limit});
        let message = check(&t, spec, "FieldValueForbidden", "spec").await;
        assert_eq!(message, format!("Forbidden: {text}"));
    }
}

async fn a_transition_rule_holds_on_update_only(t: Scene) {
    t.make("a", json!({"size": 1, "fixed": "one"})).await;
    let change = json!({"spec": {"fixed": "two"}});
    let status = t
        .patch(&t.widget("a"), Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    let message = cause(&status, "FieldValueInvalid", "spec.fixed");
    assert!(message.contains("fixed cannot be changed"), "{message}");
    let change = json!({"spec": {"size": 2}});
    t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    // Taking the field away is no transition of it.
    t.patch(
        &t.widget("a"),
        Patch::Merge,
        &json!({"spec": {"fixed": null}}),
    )
    .await
    .is(200);
}

async fn every_mistake_is_reported_at_once(t: Scene) {
    let status = refuse(&t, json!({"size": 500, "code": "A", "color": "pink"})).await;
    cause(&status, "FieldValueInvalid", "spec.size");
    cause(&status, "FieldValueInvalid", "spec.code");
    cause(&status, "FieldValueNotSupported", "spec.color");
    assert!(
        status["message"]
            .as_str()
            .unwrap_or_default()
            .contains("is invalid: ["),
        "{status}"
    );
}

async fn a_mistake_in_the_status_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"replicas": "many"}});
    let status = t.patch(&t.widget("a/status"), Patch::Merge, &change).await;
    cause(
        &status.refused(422, "Invalid"),
        "FieldValueTypeInvalid",
        "status.replicas",
    );
    let change = json!({"status": {"conditions": [{"type": "Ready"}]}});
    let status = t.patch(&t.widget("a/status"), Patch::Merge, &change).await;
    cause(
        &status.refused(422, "Invalid"),
        "FieldValueRequired",
        "status.conditions[0].status",
    );
}

async fn an_update_with_a_standing_mistake_elsewhere_is_validated(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"spec": {"code": "X"}});
    t.patch(&t.widget("a"), Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
}

async fn big_integers_are_kept_exactly(t: Scene) {
    let made = t
        .make(
            "a",
            json!({"size": 1, "anything": {"n": 9_007_199_254_740_993_i64}}),
        )
        .await;
    assert_eq!(made["spec"]["anything"]["n"], 9_007_199_254_740_993_i64);
}

async fn unicode_is_kept(t: Scene) {
    let text = "日本語 \u{1F600} \u{0} \" \\ <>&";
    let made = t.make("a", json!({"size": 1, "note": text})).await;
    assert_eq!(made["spec"]["note"], text);
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["note"], text);
}
