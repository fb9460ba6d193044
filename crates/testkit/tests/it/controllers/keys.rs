//! Keys of servers as objects: replaced in time, by hand, lost, and given by their author.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::bench::{Bench, poll};
use super::servers::{CLUSTER, CLUSTER_TARGET, bench};

const SECRET: &str = "prod-primary-0-rndc-key";
const INSTANCE: &str = "Bind9Instance/prod-primary-0";

/// A cluster of one primary with these words about its key.
fn cluster(key: &str) -> String {
    CLUSTER.replace("{replicas: 1}", &format!("{{replicas: 1, rndcKey: {key}}}"))
}

async fn secret(bench: &Bench, name: &str) -> Option<Secret> {
    let secrets: Api<Secret> = Api::namespaced(bench.client.clone(), "default");
    secrets.get_opt(name).await.expect("the API answers")
}

fn field(secret: &Secret, name: &str) -> Option<String> {
    let ByteString(bytes) = secret.data.as_ref()?.get(name)?;
    Some(String::from_utf8(bytes.clone()).expect("a field is text"))
}

/// Waits until the Secret has this one key, and no other beside it.
async fn until_key(bench: &Bench, name: &str) -> Secret {
    let found = poll(async || {
        let secret = secret(bench, SECRET).await?;
        let is_alone = field(&secret, "previous.key")?.is_empty();
        let is_used = field(&secret, "key-name").as_deref() == Some(name);
        (is_alone && is_used).then_some(secret)
    });
    found
        .await
        .unwrap_or_else(|| unreachable!("{name} is not the key"))
}

fn annotation(secret: &Secret, name: &str) -> Option<String> {
    let annotations = secret.metadata.annotations.as_ref()?;
    annotations
        .get(&format!("bindy.firestoned.io/{name}"))
        .cloned()
}

/// The key was made an hour before the bench began.
async fn make_older(bench: &Bench) {
    let created = json!({"bindy.firestoned.io/rndc-created-at": "2027-01-15T07:00:00Z"});
    let older = json!({"metadata": {"annotations": created}});
    bench.patch(&format!("Secret/{SECRET}"), older).await;
}

#[tokio::test(start_paused = true)]
async fn a_generated_key_is_replaced_when_its_time_comes() {
    let (bench, pods) = bench().await;
    bench
        .create(&cluster("{autoRotate: true, rotateAfter: 1h}"))
        .await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let first = until_key(&bench, "bindy-operator").await;
    assert!(annotation(&first, "rndc-rotate-at").is_some());
    bench.pass(Duration::from_secs(30)).await;
    until_key(&bench, "bindy-operator").await;
    make_older(&bench).await;
    let second = until_key(&bench, "bindy-operator-2").await;
    assert_ne!(field(&first, "secret"), field(&second, "secret"));
    assert_eq!(field(&first, "api-token"), field(&second, "api-token"));
    assert_eq!(
        annotation(&second, "rndc-rotation-count").as_deref(),
        Some("1")
    );
    let instance = bench.get(INSTANCE).await.expect("it is there");
    let told = &instance.data["status"]["rndcKeyRotation"];
    assert_eq!(told["rotationCount"], 1, "{told}");
    assert_eq!(told["createdAt"], told["lastRotatedAt"], "{told}");
    assert_ne!(told["rotateAt"], told["createdAt"], "{told}");
    let events: Api<Event> = Api::namespaced(bench.client.clone(), "default");
    let events = events.list(&ListParams::default()).await;
    let mut events = events.expect("the API answers").items.into_iter();
    assert!(events.any(|event| event.reason.as_deref() == Some("KeyRotated")));
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert!(pods.lock().refused.is_empty(), "{:?}", pods.lock().refused);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_replaced_by_hand_however_often_the_controllers_crash() {
    let (mut bench, pods) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let asked = json!({"metadata": {"annotations": {"bindery.dev/rotate-key": "now"}}});
    bench.patch(&format!("Secret/{SECRET}"), asked).await;
    for millis in [1, 3, 10, 50, 150, 400, 900, 1500, 2500, 5000, 9000] {
        bench.pass(Duration::from_millis(millis)).await;
        bench.restart().await;
    }
    let secret = until_key(&bench, "bindy-operator-2").await;
    assert_eq!(
        annotation(&secret, "rndc-rotation-count").as_deref(),
        Some("1")
    );
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench.pass(Duration::from_mins(1)).await;
    until_key(&bench, "bindy-operator-2").await;
    assert!(pods.lock().refused.is_empty(), "{:?}", pods.lock().refused);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_load_the_new_key_is_named_and_keeps_the_old_one_in_use() {
    let (bench, pods) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    pods.lock().stays_loaded = true;
    let asked = json!({"metadata": {"annotations": {"bindery.dev/rotate-key": "now"}}});
    bench.patch(&format!("Secret/{SECRET}"), asked).await;
    bench.until(INSTANCE, "KeyRotation", "+Progressing").await;
    bench.pass(Duration::from_secs(40)).await;
    let message = bench.condition(INSTANCE, "KeyRotation").await.1;
    assert_eq!(
        message,
        "key bindy-operator-2 waits to be loaded by prod-primary-0-0"
    );
    let known = secret(&bench, SECRET).await.expect("it is there");
    assert_eq!(field(&known, "key-name").as_deref(), Some("bindy-operator"));
    pods.lock().stays_loaded = false;
    until_key(&bench, "bindy-operator-2").await;
    bench.until(INSTANCE, "Ready", "+AllReady").await;
    assert!(pods.lock().refused.is_empty(), "{:?}", pods.lock().refused);
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_does_not_tell_its_keys_keeps_the_key_and_says_so() {
    let (bench, pods) = bench().await;
    pods.lock().tells_nothing = true;
    bench
        .create(&cluster("{autoRotate: true, rotateAfter: 1h}"))
        .await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    make_older(&bench).await;
    let message = bench.until(INSTANCE, "KeyRotation", "-Unsupported").await;
    assert!(message.contains("prod-primary-0-0"), "{message}");
    until_key(&bench, "bindy-operator").await;
}

#[tokio::test(start_paused = true)]
async fn secrets_that_somebody_deletes_are_made_again_as_they_were() {
    let (mut bench, pods) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    for name in [SECRET, "bindery-transfer-key"] {
        let before = secret(&bench, name).await.expect("it is there");
        bench.delete(&format!("Secret/{name}")).await;
        let after = poll(async || secret(&bench, name).await).await;
        let after = after.expect("it is made again");
        assert_eq!(before.data, after.data, "{name}");
        assert_ne!(before.metadata.uid, after.metadata.uid, "{name}");
    }
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert!(pods.lock().refused.is_empty(), "{:?}", pods.lock().refused);
    // Where nobody remembers it, there is another key, and all come together.
    bench.crash().await;
    bench.delete(&format!("Secret/{SECRET}")).await;
    bench.start();
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    until_key(&bench, "bindy-operator").await;
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_an_instance_that_is_made_again_is_its_own() {
    let (bench, _) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let owner = async || -> Option<String> {
        let known = secret(&bench, SECRET).await?;
        Some(known.metadata.owner_references?.first()?.uid.clone())
    };
    let before = owner().await.expect("it has an owner");
    bench.delete(INSTANCE).await;
    let others = async || owner().await.filter(|now| *now != before);
    let after = poll(others).await.expect("it has another owner");
    // It stays: nobody collects it with the instance of before.
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert_eq!(owner().await, Some(after));
}

fn owners(secret: &Secret) -> Vec<(String, String)> {
    let owners = secret.metadata.owner_references.iter().flatten();
    let owners = owners.map(|owner| (owner.name.clone(), owner.uid.clone()));
    owners.collect()
}

#[tokio::test(start_paused = true)]
async fn the_key_of_copying_goes_with_the_last_who_shares_it() {
    let (bench, _) = bench().await;
    bench.create(CLUSTER).await;
    bench
        .create(&CLUSTER.replace("name: prod", "name: other"))
        .await;
    let both = poll(async || {
        let secret = secret(&bench, "bindery-transfer-key").await?;
        (owners(&secret).len() == 2).then_some(())
    });
    both.await.expect("both own it");
    bench.delete("Bind9Cluster/other").await;
    bench.until_gone("Bind9Instance/other-primary-0").await;
    bench.settle().await;
    let kept = secret(&bench, "bindery-transfer-key").await;
    assert_eq!(owners(&kept.expect("it stays"))[0].0, "prod");
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench.delete(CLUSTER_TARGET).await;
    let gone = poll(async || {
        let left = secret(&bench, "bindery-transfer-key").await;
        left.is_none().then_some(())
    });
    gone.await.expect("it goes with the last");
}

fn given(name: &str, key: &str, secret: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: default}}
stringData: {{key-name: {key}, secret: {secret}}}
"
    )
}

#[tokio::test(start_paused = true)]
async fn a_key_that_its_author_edits_is_followed_with_both_valid() {
    let (bench, pods) = bench().await;
    bench.create(&cluster("{secretRef: {name: mine}}")).await;
    let message = bench
        .until(INSTANCE, "Ready", "-ConfigurationInvalid")
        .await;
    assert_eq!(message, "spec.rndcKey.secretRef: there is no Secret mine");
    bench.create(&given("mine", "mine", "one")).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    until_key(&bench, "mine").await;
    let edit = |key: &str, secret: &str| json!({"stringData": {"key-name": key, "secret": secret}});
    bench.patch("Secret/mine", edit("other", "two")).await;
    until_key(&bench, "other").await;
    // The same name with another secret: a key of ours comes between.
    bench.patch("Secret/mine", edit("other", "three")).await;
    let done = poll(async || {
        let secret = until_key(&bench, "other").await;
        (field(&secret, "secret")? == "three").then_some(())
    });
    done.await.expect("the edited key is used");
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert!(pods.lock().refused.is_empty(), "{:?}", pods.lock().refused);
}

#[tokio::test(start_paused = true)]
async fn further_keys_of_a_cluster_are_given_to_its_servers() {
    let (bench, _) = bench().await;
    let refs = "  rndcSecretRefs: [{name: partner}]\n";
    bench
        .create(&given("partner", "partner.example", "abc"))
        .await;
    bench.create(&format!("{CLUSTER}{refs}")).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let known = secret(&bench, SECRET).await.expect("it is there");
    let keys = field(&known, "further.key").expect("it has the field");
    assert!(keys.contains("partner.example"), "{keys}");
    let conf = field(&known, "keys.conf").expect("it has the field");
    assert!(conf.contains("key \"partner.example\";"), "{conf}");
    bench.delete("Secret/partner").await;
    let message = bench
        .until(INSTANCE, "Ready", "-ConfigurationInvalid")
        .await;
    assert_eq!(
        message,
        "spec.rndcSecretRefs[0]: there is no Secret partner"
    );
}
