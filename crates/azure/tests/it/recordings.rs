//! The emulator answers as Azure did when it was recorded.

use std::path::{Path, PathBuf};

use bindery_testkit::azure::AzureEmulator;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Recording {
    interactions: Vec<Interaction>,
}

#[derive(Deserialize)]
struct Interaction {
    id: u64,
    request: AskedThen,
    response: ToldThen,
}

#[derive(Deserialize)]
struct AskedThen {
    method: String,
    url: String,
    body: String,
}

#[derive(Deserialize)]
struct ToldThen {
    code: u16,
    body: String,
    headers: std::collections::BTreeMap<String, Vec<String>>,
}

/// Recorded exchanges lie beside the checkout where there are any.
fn recording() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = "shared/conformance/azure-servicegateway.yaml";
    let mut places = here.ancestors().map(|folder| folder.join(file));
    places.find(|place| place.is_file())
}

#[tokio::test]
async fn the_emulator_answers_as_azure_did() {
    let Some(path) = recording() else {
        println!("passed over: there is no recording of Azure beside this checkout");
        return;
    };
    let text = std::fs::read_to_string(path).expect("it can be read");
    let recording: Recording = serde_saphyr::from_str(&text).expect("it is a recording");
    let azure = AzureEmulator::start().await.expect("loopback has ports");
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut operation = String::new();
    let compared = recording.interactions.len();
    for one in recording.interactions {
        let id = one.id;
        let recorded = one
            .request
            .url
            .replace("https://management.azure.com", &azure.base());
        let is_operation = recorded.to_ascii_lowercase().contains("/operation");
        let url = if is_operation {
            operation.clone()
        } else {
            recorded
        };
        let request = Request::builder()
            .method(one.request.method.as_str())
            .uri(url)
            .body(Full::new(Bytes::from(one.request.body)))
            .expect("it is a request");
        let response = client.request(request).await.expect("it answers");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("it is whole").to_bytes();
        assert_eq!(parts.status.as_u16(), one.response.code, "exchange {id}");
        compare_bodies(id, &one.response.body, &body);
        compare_headers(id, &one.response, &parts.headers);
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        if let Some(url) = header("azure-asyncoperation").or_else(|| header("location")) {
            url.clone_into(&mut operation);
        }
    }
    println!("{compared} exchanges with Azure were compared");
}

fn compare_bodies(id: u64, recorded: &str, body: &[u8]) {
    if recorded.is_empty() {
        assert!(body.is_empty(), "exchange {id}");
        return;
    }
    let mut wanted: Value = serde_json::from_str(recorded).expect("it is JSON");
    let got: Value = serde_json::from_slice(body).expect("it is JSON");
    // A policy of the subscription that was recorded adds a tag to groups.
    if wanted["type"] == "Microsoft.Resources/resourceGroups"
        && let Some(group) = wanted.as_object_mut()
    {
        group.remove("tags");
    }
    assert_eq!(got, wanted, "exchange {id}");
}

/// What says how to go on is there if it was there, and nowhere else.
fn compare_headers(id: u64, recorded: &ToldThen, got: &HeaderMap) {
    for name in [
        "Azure-Asyncoperation",
        "Azure-Asyncnotification",
        "Location",
        "Retry-After",
        "X-Ms-Failure-Cause",
        "Content-Type",
    ] {
        let wanted = recorded.headers.get(name).and_then(|all| all.first());
        let found = got.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(found.is_some(), wanted.is_some(), "exchange {id}: {name}");
        let is_url = matches!(name, "Azure-Asyncoperation" | "Location");
        match (wanted, found) {
            (Some(wanted), Some(found)) if is_url => {
                assert_eq!(shape(found), shape(wanted), "exchange {id}: {name}");
            }
            (Some(wanted), Some(found)) => assert_eq!(found, wanted, "exchange {id}: {name}"),
            _ => {}
        }
    }
}

/// The segments of an address, but for its host and the last one, and the names in its query.
fn shape(url: &str) -> (Vec<String>, Vec<String>) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let mut segments: Vec<String> = path.split('/').skip(3).map(str::to_owned).collect();
    segments.pop();
    let mut names: Vec<String> = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()))
        .collect();
    names.sort();
    (segments, names)
}
