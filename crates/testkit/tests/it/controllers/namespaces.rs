//! Controllers that are told their namespaces.

use std::sync::{Arc, Mutex};

use bindery_apiserver::EmbeddedApi;
use bindery_kube::Management;
use http::Request;
use kube::Client;
use kube::client::Body;
use tower::ServiceExt as _;

use super::bench::{Bench, WWW, ZONE};

/// The paths that were asked for.
type Paths = Arc<Mutex<Vec<String>>>;

fn noting(api: &EmbeddedApi, paths: &Paths) -> Client {
    let paths = Arc::clone(paths);
    let service = api.service().map_request(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        paths.lock().expect("nobody panics").push(path);
        request
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn controllers_told_their_namespaces_ask_for_nothing_else() {
    let paths = Paths::default();
    let mut bench = Bench::behind(Management::Managed, |api| noting(api, &paths)).await;
    bench.namespaces = vec!["default"];
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let asked = paths.lock().expect("nobody panics").clone();
    let elsewhere = asked
        .iter()
        .find(|path| !path.contains("/namespaces/default/"));
    assert_eq!(elsewhere, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_other_namespaces_is_left_alone() {
    let mut bench = Bench::stopped(Management::Managed).await;
    bench.namespaces = vec!["web", "mail"];
    bench.start();
    bench.create(ZONE).await;
    bench.settle().await;
    let zone = bench.get("DNSZone/example").await.expect("it is there");
    assert!(zone.data["status"].is_null(), "{:?}", zone.data);
    assert_eq!(zone.metadata.finalizers, None);
}
