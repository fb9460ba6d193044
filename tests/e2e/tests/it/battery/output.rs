//! Other shapes of an answer: tables, partial objects, media types.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, names, widget};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

cases![
    a_table_has_the_columns_of_the_definition,
    a_table_has_a_row_per_object,
    a_table_of_one_object_has_one_row,
    a_table_row_carries_partial_metadata,
    a_table_row_can_carry_nothing_or_everything,
    a_table_shows_conditions_by_filter,
    a_missing_value_is_null_in_a_table,
    a_table_of_a_kind_without_columns_shows_the_age,
    a_table_of_config_maps_counts_data,
    a_table_of_namespaces_shows_the_phase,
    a_table_is_paged,
    a_table_is_selected,
    a_partial_object_has_metadata_only,
    a_partial_list_has_metadata_only,
    a_write_can_be_answered_as_a_partial_object,
    an_unknown_transformation_is_not_acceptable,
    an_unknown_media_type_is_not_acceptable,
    any_media_type_is_json,
    yaml_is_served_when_asked_for,
    an_unknown_body_type_is_not_supported,
];

fn columns(table: &Value) -> Vec<String> {
    let list = table["columnDefinitions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    list.iter()
        .filter_map(|column| column["name"].as_str())
        .map(str::to_owned)
        .collect()
}

async fn table(t: &Scene, target: &str) -> Value {
    let table = t.get_as(target, TABLE).await.is(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    table
}

async fn a_table_has_the_columns_of_the_definition(t: Scene) {
    let table = table(&t, &t.widgets()).await;
    let expected = ["Name", "Size", "Color", "Ready", "Ratio", "Enabled", "Age"];
    assert_eq!(columns(&table), expected);
    let size = &table["columnDefinitions"][1];
    assert_eq!(
        (&size["type"], &size["priority"]),
        (&json!("integer"), &json!(0))
    );
    assert_eq!(size["description"], "How big it is");
    assert_eq!(table["columnDefinitions"][4]["priority"], 1);
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
}

async fn a_table_has_a_row_per_object(t: Scene) {
    t.make("a", json!({"size": 3, "ratio": 0.5, "enabled": true}))
        .await;
    t.make("b", json!({"size": 4, "color": "blue"})).await;
    let table = table(&t, &t.widgets()).await;
    let rows = table["rows"].as_array().expect("a table has rows");
    assert_eq!(rows.len(), 2);
    let cells = rows[0]["cells"].as_array().expect("a row has cells");
    assert_eq!(cells[..3], [json!("a"), json!(3), json!("red")]);
    assert_eq!(cells[4..6], [json!(0.5), json!(true)]);
    assert!(
        cells[6].as_str().is_some_and(|age| age.ends_with('s')),
        "{cells:?}"
    );
}

async fn a_table_of_one_object_has_one_row(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let table = table(&t, &t.widget("a")).await;
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(table["rows"][0]["cells"][0], "a");
}

async fn a_table_row_carries_partial_metadata(t: Scene) {
    let made = t.make("a", json!({"size": 3})).await;
    let table = table(&t, &t.widgets()).await;
    let object = &table["rows"][0]["object"];
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(object.get("spec").is_none());
}

async fn a_table_row_can_carry_nothing_or_everything(t: Scene) {
    let made = t.make("a", json!({"size": 3})).await;
    let none = table(&t, &format!("{}?includeObject=None", t.widgets())).await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let all = table(&t, &format!("{}?includeObject=Object", t.widgets())).await;
    assert_eq!(all["rows"][0]["object"], made);
}

async fn a_table_shows_conditions_by_filter(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let change = json!({"status": {"conditions": [
        {"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"},
    ]}});
    t.patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    let table = table(&t, &t.widgets()).await;
    assert_eq!(table["rows"][0]["cells"][3], "True");
}

async fn a_missing_value_is_null_in_a_table(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let table = table(&t, &t.widgets()).await;
    assert_eq!(table["rows"][0]["cells"][3], Value::Null);
    assert_eq!(table["rows"][0]["cells"][4], Value::Null);
}

async fn a_table_of_a_kind_without_columns_shows_the_age(t: Scene) {
    let table = table(&t, "/apis/battery.bindery.dev/v1/gadgets").await;
    assert_eq!(columns(&table), ["Name", "Age"]);
}

async fn a_table_of_config_maps_counts_data(t: Scene) {
    t.make_map("a", json!({"x": "1", "y": "2"})).await;
    let target = format!("{}?fieldSelector=metadata.name%3Da", t.core("configmaps"));
    let table = table(&t, &target).await;
    assert_eq!(columns(&table), ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], 2);
}

async fn a_table_of_namespaces_shows_the_phase(t: Scene) {
    let table = table(&t, &format!("/api/v1/namespaces/{}", t.ns)).await;
    assert_eq!(columns(&table), ["Name", "Status", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], "Active");
}

async fn a_table_is_paged(t: Scene) {
    for name in ["a", "b"] {
        t.make(name, json!({"size": 3})).await;
    }
    let table = table(&t, &format!("{}?limit=1", t.widgets())).await;
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    assert!(
        table["metadata"]["continue"]
            .as_str()
            .is_some_and(|token| !token.is_empty())
    );
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
}

async fn a_table_is_selected(t: Scene) {
    for name in ["a", "b"] {
        t.make(name, json!({"size": 3})).await;
    }
    let table = table(
        &t,
        &format!("{}?fieldSelector=metadata.name%3Db", t.widgets()),
    )
    .await;
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(table["rows"][0]["cells"][0], "b");
}

async fn a_partial_object_has_metadata_only(t: Scene) {
    let made = t.make("a", json!({"size": 3})).await;
    let partial = t.get_as(&t.widget("a"), PARTIAL).await.is(200);
    let expected = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    });
    assert_eq!(partial, expected);
}

async fn a_partial_list_has_metadata_only(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let list = t.get_as(&t.widgets(), PARTIAL_LIST).await.is(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(names(&list), ["a"]);
    assert!(list["items"][0].get("spec").is_none());
}

async fn a_write_can_be_answered_as_a_partial_object(t: Scene) {
    let call = bindery_e2e::http::Call::new(http::Method::POST, t.widgets());
    let call = call
        .json(&widget("a", json!({"size": 1})))
        .header("accept", PARTIAL);
    assert_eq!(t.call(call).await.is(201)["kind"], "PartialObjectMetadata");
}

async fn an_unknown_transformation_is_not_acceptable(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let accept = "application/json;as=Sculpture;g=meta.k8s.io;v=v1";
    t.get_as(&t.widget("a"), accept)
        .await
        .refused(406, "NotAcceptable");
}

async fn an_unknown_media_type_is_not_acceptable(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.get_as(&t.widget("a"), "image/png")
        .await
        .refused(406, "NotAcceptable");
}

async fn any_media_type_is_json(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    for accept in ["*/*", "application/*", "image/png, */*;q=0.1"] {
        let answer = t.get_as(&t.widget("a"), accept).await;
        let content_type = answer
            .headers
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        assert_eq!(content_type, Some("application/json"), "{accept}");
        assert_eq!(answer.is(200), made);
    }
}

async fn yaml_is_served_when_asked_for(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t.get_as(&t.widget("a"), "application/yaml").await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert!(answer.text.contains("\nkind: Widget\n"), "{}", answer.text);
}

async fn an_unknown_body_type_is_not_supported(t: Scene) {
    let call = bindery_e2e::http::Call::new(http::Method::POST, t.widgets());
    t.call(call.body("text/html", "<p>"))
        .await
        .refused(415, "UnsupportedMediaType");
}
