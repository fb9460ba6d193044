//! What Bindery wrote is Bindery's until its object lets it go, whoever edits what.

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, name, records};

const EDITED: &str = "www.example.com. 300 IN A 192.0.2.61";
const STRANGE: &str = "www.example.com. 300 IN A 198.51.100.9";
const PUBLISHED: &str = "bindery.dev/published";
const CHECK: &str = "bindery.dev/published-check";

/// While the controllers run, or while they do not.
async fn meanwhile(bench: &mut Bench, runs: bool, change: impl AsyncFnOnce(&Bench)) {
    if runs {
        bench.settle().await;
        change(bench).await;
        return;
    }
    bench.crash().await;
    change(bench).await;
    bench.start();
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_hits_the_annotation_too_orphans_nothing() {
    for runs in [true, false] {
        let mut bench = with_www().await;
        meanwhile(&mut bench, runs, async |bench| {
            let note = bench.annotation("ARecord/www", PUBLISHED).await;
            let note = note
                .expect("it is published")
                .replace("192.0.2.1", "192.0.2.61");
            let edit = json!({
                "metadata": {"annotations": {PUBLISHED: note}},
                "spec": {"ipv4Addresses": ["192.0.2.61"]},
            });
            bench.patch("ARecord/www", edit).await;
        })
        .await;
        bench.until_lines(&[EDITED]).await;
        bench.until_ready("ARecord/www").await;
        bench.settle().await;
        assert_eq!(
            bench.published("ARecord/www").await.as_deref(),
            Some(EDITED)
        );
        bench.delete("ARecord/www").await;
        bench.until_gone("ARecord/www").await;
        assert!(bench.lines().is_empty(), "{:?}", bench.lines());
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_export_orphans_nothing() {
    for runs in [true, false] {
        let mut bench = with_www().await;
        let export = bench.get("ARecord/www").await.expect("it is there");
        let edit = json!({"spec": {"ipv4Addresses": ["192.0.2.61"]}});
        bench.patch("ARecord/www", edit).await;
        bench.until_lines(&[EDITED]).await;
        bench.settle().await;
        meanwhile(&mut bench, runs, async |bench| replace(bench, export).await).await;
        bench.until_lines(&[WWW_LINE]).await;
        bench.until_ready("ARecord/www").await;
        bench.settle().await;
        assert_eq!(
            bench.published("ARecord/www").await.as_deref(),
            Some(WWW_LINE)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_annotation_is_written_back_and_told() {
    for runs in [true, false] {
        let mut bench = with_www().await;
        meanwhile(&mut bench, runs, async |bench| {
            let edit = json!({
                "metadata": {"annotations": {PUBLISHED: null}},
                "spec": {"ipv4Addresses": ["192.0.2.61"]},
            });
            bench.patch("ARecord/www", edit).await;
        })
        .await;
        bench.until_lines(&[EDITED]).await;
        bench.settle().await;
        assert_eq!(
            bench.published("ARecord/www").await.as_deref(),
            Some(EDITED)
        );
        let told = told(&bench).await;
        assert!(
            told.iter().any(|message| message.contains(PUBLISHED)),
            "{told:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_known_again_though_annotation_and_status_were_wiped() {
    let mut bench = with_www().await;
    meanwhile(&mut bench, false, async |bench| {
        let wiped = json!({"metadata": {"annotations": {PUBLISHED: null}}});
        bench.patch("ARecord/www", wiped).await;
        let wiped = json!({"status": null});
        api(bench)
            .patch_status("www", &PatchParams::default(), &Patch::Merge(wiped))
            .await
            .expect("a status can be wiped");
    })
    .await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    assert_eq!(
        bench.published("ARecord/www").await.as_deref(),
        Some(WWW_LINE)
    );
    bench.delete("ARecord/www").await;
    bench.until_gone("ARecord/www").await;
    bench.until_lines(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_again_and_again_makes_no_flood_of_writes() {
    let bench = with_www().await;
    bench.settle().await;
    let (before, _) = bench.writes();
    let removal = json!({"metadata": {"annotations": {PUBLISHED: null}}});
    for _ in 0..600 {
        bench.patch("ARecord/www", removal.clone()).await;
        // As somebody who corrects us all the time: pause between polls.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let (after, _) = bench.writes();
    assert!(after - before < 20, "{} writes", after - before);
    bench.settle().await;
    assert_eq!(
        bench.published("ARecord/www").await.as_deref(),
        Some(WWW_LINE)
    );
}

#[tokio::test(start_paused = true)]
async fn no_edit_of_an_annotation_makes_a_foreign_record_ours() {
    let taken = "taken.example.com. 300 IN A 192.0.2.1";
    let mut bench = Bench::external(&[taken]).await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let ours = bench.annotation("ARecord/www", PUBLISHED).await;
    let ours = ours.expect("it is published");
    let stolen = ours.replace("www.example.com", "taken.example.com");
    let check = bench.annotation("ARecord/www", CHECK).await;
    let check = check.expect("it can be checked");
    for note in [taken.to_owned(), stolen, ours] {
        for runs in [true, false] {
            meanwhile(&mut bench, runs, async |bench| {
                let thief = WWW.replace("www", "taken").replace(
                    "labels:",
                    &format!(
                        "finalizers: [bindery.dev/dns], annotations: {}, labels:",
                        json!({PUBLISHED: note, CHECK: check})
                    ),
                );
                bench.create(&thief).await;
            })
            .await;
            bench.until("ARecord/taken", "Ready", "-NotOwned").await;
            bench.delete("ARecord/taken").await;
            bench.until_gone("ARecord/taken").await;
            assert_eq!(bench.lines(), [taken, WWW_LINE]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_version_that_did_not_seal_keep_what_they_have() {
    let mut bench = with_www().await;
    bench.settle().await;
    bench.crash().await;
    let old = json!({"metadata": {"annotations": {PUBLISHED: WWW_LINE}}});
    bench.patch("ARecord/www", old).await;
    let api = Api::<bindery_api::ARecord>::namespaced(bench.client.clone(), "default");
    let old = Patch::Merge(json!({"status": {"published": null}}));
    api.patch_status("www", &PatchParams::default(), &old)
        .await
        .expect("the status can be written");
    bench.start();
    bench.settle().await;
    let edit = json!({"spec": {"ipv4Addresses": ["192.0.2.61"]}});
    bench.patch("ARecord/www", edit).await;
    bench.until_lines(&[EDITED]).await;
    bench.settle().await;
    assert_eq!(
        bench.published("ARecord/www").await.as_deref(),
        Some(EDITED)
    );
    bench.delete("ARecord/www").await;
    bench.until_gone("ARecord/www").await;
    assert!(bench.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_a_stranger_adds_to_our_set_is_taken_out_again_and_told() {
    let bench = Bench::external(&[]).await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    let [strange] = &records(&[STRANGE])[..] else {
        panic!("one line is one record");
    };
    bench.server.write_foreign(&name("example.com"), strange);
    bench.settle().await;
    assert_eq!(bench.lines(), [WWW_LINE]);
    let told = told(&bench).await;
    assert!(
        told.iter().any(|message| message.contains("198.51.100.9")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_restored_from_a_backup_still_has_what_it_had() {
    let mut bench = with_www().await;
    bench.settle().await;
    let mut export = bench.get("ARecord/www").await.expect("it is there");
    bench.crash().await;
    // The cluster is lost, and the servers are not.
    let free = json!({"metadata": {"finalizers": null}});
    bench.patch("ARecord/www", free).await;
    bench.delete("ARecord/www").await;
    export.metadata.uid = None;
    export.metadata.resource_version = None;
    export.metadata.creation_timestamp = None;
    export.data["spec"]["ipv4Addresses"] = json!(["192.0.2.61"]);
    let api = api(&bench);
    api.create(&PostParams::default(), &export)
        .await
        .expect("a backup can be restored");
    bench.start();
    bench.until_lines(&[EDITED]).await;
    bench.until_ready("ARecord/www").await;
}

async fn with_www() -> Bench {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench
}

fn api(bench: &Bench) -> Api<DynamicObject> {
    let kind = kube::core::GroupVersionKind::gvk("bindy.firestoned.io", "v1beta1", "ARecord");
    let kind = kube::core::ApiResource::from_gvk(&kind);
    Api::namespaced_with(bench.client.clone(), "default", &kind)
}

/// Puts an object back as it was exported, as `kubectl replace` does.
async fn replace(bench: &Bench, mut export: DynamicObject) {
    let standing = bench.get("ARecord/www").await.expect("it is there");
    export.metadata.resource_version = standing.metadata.resource_version;
    let name = export.metadata.name.clone().unwrap_or_default();
    api(bench)
        .replace(&name, &PostParams::default(), &export)
        .await
        .expect("an export can be put back");
}

/// What Events say about records that others wrote over.
async fn told(bench: &Bench) -> Vec<String> {
    let api: Api<Event> = Api::all(bench.client.clone());
    let events = api
        .list(&ListParams::default())
        .await
        .expect("the API answers");
    let events = events.items.into_iter();
    events
        .filter(|event| event.reason.as_deref() == Some("Overwritten"))
        .filter_map(|event| event.message)
        .collect()
}
