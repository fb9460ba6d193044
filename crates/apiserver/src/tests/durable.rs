//! What is on disk.

use std::os::unix::fs::PermissionsExt as _;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{MAPS, config_map, ok};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
use crate::store::OpenError;
use crate::{EmbeddedApi, Options};

fn open(folder: &std::path::Path) -> Result<EmbeddedApi, OpenError> {
    EmbeddedApi::open(Options::on_disk(folder))
}

#[tokio::test]
async fn objects_and_versions_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    let kept = ok(&api, "POST", MAPS, &config_map("kept")).await;
    ok(&api, "POST", MAPS, &config_map("gone")).await;
    let gone = ok(&api, "DELETE", &format!("{MAPS}/gone"), &Value::Null).await;
    assert_eq!(gone["status"], "Success");
    drop(api);

    let api = open(folder.path()).unwrap();
    let listed = ok(&api, "GET", MAPS, &Value::Null).await;
    assert_eq!(listed["items"], json!([kept]));
    let version: u64 = listed["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let more = ok(&api, "POST", MAPS, &config_map("more")).await;
    let next: u64 = more["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(next > version);
}

#[tokio::test]
async fn what_was_acknowledged_is_in_a_copy_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    let made = ok(&api, "POST", MAPS, &config_map("a")).await;
    // A copy taken while the first is still running is what a killed process leaves behind.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let other = open(copy.path()).unwrap();
    let read = ok(&other, "GET", &format!("{MAPS}/a"), &Value::Null).await;
    assert_eq!(read, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_all_get_through_and_share_commits() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    let writers = (0..32).map(|writer| {
        let api = api.clone();
        tokio::spawn(async move {
            for index in 0..20 {
                ok(
                    &api,
                    "POST",
                    MAPS,
                    &config_map(&format!("w{writer}-{index}")),
                )
                .await;
            }
        })
    });
    for ended in join_all(writers).await {
        ended.unwrap();
    }
    let listed = ok(&api, "GET", MAPS, &Value::Null).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 640);
    assert!(
        api.core.store.commits() < 640,
        "{} commits",
        api.core.store.commits()
    );
}

#[tokio::test]
async fn concurrent_patches_of_one_object_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let path = format!("{MAPS}/a");
    let bodies: Vec<Value> = (0..40)
        .map(|index| json!({"data": {format!("k{index}"): "x"}}))
        .collect();
    let writers = bodies.iter().map(|body| ok(&api, "PATCH", &path, body));
    join_all(writers).await;
    let read = ok(&api, "GET", &path, &Value::Null).await;
    assert_eq!(read["data"].as_object().unwrap().len(), 41);
}

#[tokio::test]
async fn a_folder_in_use_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(folder.path()).unwrap();
    let Err(refused) = open(folder.path()) else {
        panic!("opened twice")
    };
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("in use by another Bindery"));
}

#[tokio::test]
async fn a_folder_of_a_newer_bindery_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("format"), "7\n").unwrap();
    let Err(refused) = open(folder.path()) else {
        panic!("opened a newer format")
    };
    assert!(
        matches!(refused, OpenError::Newer { found: 7, .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn objects_of_one_kind_share_what_they_have_in_common() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    ok(&api, "POST", DEFINITIONS, &super::definition()).await;
    let mut longest = (0, 0);
    for index in 0..40 {
        let made = ok(
            &api,
            "POST",
            super::THINGS,
            &super::thing(&format!("t{index}")),
        )
        .await;
        let status = json!({"status": {"seen": index}});
        let path = format!("{}/t{index}/status", super::THINGS);
        let seen = ok(&api, "PATCH", &path, &status).await;
        assert_eq!(seen["metadata"]["uid"], made["metadata"]["uid"]);
        let (kept, text) = (api.core.store.packed_len(&seen), seen.to_string().len());
        longest = longest.max((kept, text));
    }
    assert!(longest.0 * 3 < longest.1, "{longest:?}");
    let listed = ok(&api, "GET", super::THINGS, &Value::Null).await;
    drop(api);
    let api = open(folder.path()).unwrap();
    assert_eq!(ok(&api, "GET", super::THINGS, &Value::Null).await, listed);
}

#[tokio::test]
async fn a_folder_of_an_older_bindery_is_read_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    std::fs::write(folder.path().join("format"), "1\n").unwrap();
    {
        // As it was written before objects were packed.
        let table: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("objects");
        let database = redb::Database::open(folder.path().join("objects.redb")).unwrap();
        let writing = database.begin_write().unwrap();
        let mut old = config_map("old");
        old["metadata"]["namespace"] = json!("default");
        old["metadata"]["resourceVersion"] = json!("3");
        let mut objects = writing.open_table(table).unwrap();
        let text = old.to_string();
        objects
            .insert("configmaps/default/old", text.as_bytes())
            .unwrap();
        drop(objects);
        writing.commit().unwrap();
    }
    let api = open(folder.path()).unwrap();
    let old = ok(&api, "GET", &format!("{MAPS}/old"), &Value::Null).await;
    assert_eq!(old["metadata"]["resourceVersion"], "3");
    let format = std::fs::read_to_string(folder.path().join("format")).unwrap();
    assert_eq!(format, "2\n");
}

#[tokio::test]
async fn the_folder_is_for_its_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let _api = open(&folder).unwrap();
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn every_file_in_the_folder_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    // As an older Bindery left it.
    let database = folder.path().join("objects.redb");
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _api = open(folder.path()).unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
    }
}

#[tokio::test]
async fn a_watch_from_before_the_restart_is_told_to_list_again() {
    let folder = tempfile::tempdir().unwrap();
    let api = open(folder.path()).unwrap();
    let made = ok(&api, "POST", MAPS, &config_map("a")).await;
    ok(&api, "DELETE", &format!("{MAPS}/a"), &Value::Null).await;
    drop(api);
    let api = open(folder.path()).unwrap();
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = super::watch(&api, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let event = super::next_event(&mut events).await.unwrap();
    assert_eq!(event["object"]["code"], 410);
}
