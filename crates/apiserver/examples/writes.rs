//! Measures durable writes: `writes FOLDER WRITERS OBJECTS`. Each object is created, then patched.
#![expect(
    clippy::disallowed_methods,
    reason = "it reads its command line and measures real time"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use bindery_apiserver::{EmbeddedApi, Options};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tower::Service as _;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let usage = "usage: writes FOLDER WRITERS OBJECTS";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, writers, objects] = &arguments[..] else {
        anyhow::bail!(usage)
    };
    let (writers, objects): (usize, usize) = (writers.parse()?, objects.parse()?);
    let api = EmbeddedApi::open(Options::on_disk(folder))?;
    send(&api, "POST", DEFINITIONS, &definition()).await?;
    for (what, patching) in [("create", false), ("patch", true)] {
        let next = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let (api, next) = (api.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= objects {
                            return anyhow::Ok(());
                        }
                        if patching {
                            let path = format!("{THINGS}/thing-{index}");
                            let body = json!({"metadata": {"annotations": {"a": "b"}}});
                            send(&api, "PATCH", &path, &body).await?;
                        } else {
                            send(&api, "POST", THINGS, &thing(index)).await?;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let seconds = start.elapsed().as_secs_f64();
        let rate = f64::from(u32::try_from(objects)?) / seconds;
        tracing_line(&format!(
            "{what}: {objects} by {writers} in {seconds:.2} s = {rate:.0}/s"
        ))?;
    }
    Ok(())
}

fn tracing_line(line: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{line}")
}

async fn send(api: &EmbeddedApi, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
    let media_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(Full::new(Bytes::from(body.to_string())))?;
    let response = api.service().call(request).await.context("no answer")?;
    anyhow::ensure!(
        response.status().is_success(),
        "{method} {path}: {}",
        response.status()
    );
    Ok(())
}

fn thing(index: usize) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": format!("thing-{index}"), "labels": {"app": "bench"}},
        "spec": {"name": format!("host-{index}"), "ttl": 300, "ipv4Addresses": ["192.0.2.1"]},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object", "required": ["name"],
                        "x-kubernetes-validations": [
                            {"rule": "has(self.ipv4Addresses)", "message": "an address is needed"},
                        ],
                        "properties": {
                            "name": {"type": "string", "minLength": 1, "maxLength": 253},
                            "ttl": {"type": "integer", "minimum": 0, "maximum": 2_147_483_647},
                            "ipv4Addresses": {
                                "type": "array", "maxItems": 100,
                                "items": {"type": "string", "format": "ipv4", "maxLength": 15},
                            },
                        },
                    },
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}
