//! Random requests on the Widgets of one namespace.

use std::fmt;

use anyhow::Result;
use bindery_e2e::http::{Answer, Call, Http};
use http::Method;
use serde_json::{Value, json};

use super::random::{Random, Whole};

/// A request that is the same for every server, but for versions that it reads first.
pub(crate) struct Request {
    method: Method,
    target: String,
    content_type: &'static str,
    body: Body,
}

enum Body {
    Fixed(Value),
    /// Replaces the spec of what is there, under its version.
    Replacing {
        object: String,
        spec: Value,
    },
}

const NAMES: [&str; 2] = ["a", "b"];
const MANAGERS: [&str; 3] = ["one", "two", "three"];
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn namespace(name: &str) -> Call {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    Call::new(Method::POST, "/api/v1/namespaces").json(&body)
}

/// Any request.
pub(crate) fn draw(random: &mut Random, namespace: &str) -> Request {
    let widgets = format!("/apis/battery.bindery.dev/v1/namespaces/{namespace}/widgets");
    let name = *random.pick(&NAMES);
    let object = format!("{widgets}/{name}");
    let manager = *random.pick(&MANAGERS);
    let query = query(random, manager);
    match random.below(20) {
        0..=3 => {
            let body = widget(name, random.spec(Whole::Yes));
            fixed(Method::POST, format!("{widgets}?{query}"), JSON, body)
        }
        4..=8 => {
            let force = if random.once_in(3) { "&force=true" } else { "" };
            let partly = random.once_in(3);
            let whole = if partly { Whole::No } else { Whole::Yes };
            let mut body = widget(name, random.spec(whole));
            if random.once_in(4) {
                body["metadata"]["labels"] = json!({manager: "x"});
            }
            let target = format!("{object}?{query}{force}");
            fixed(Method::PATCH, target, APPLY, body)
        }
        9..=11 => {
            let body = json!({"spec": random.spec(Whole::No)});
            fixed(Method::PATCH, format!("{object}?{query}"), MERGE, body)
        }
        rare @ 12..=18 => draw_rare(random, rare, (name, &object), &query),
        _ => fixed(Method::GET, widgets, JSON, Value::Null),
    }
}

/// A request of the kinds that are drawn less often.
fn draw_rare(random: &mut Random, kind: u64, (name, object): (&str, &str), query: &str) -> Request {
    let target = format!("{object}?{query}");
    match kind {
        12 => fixed(Method::PATCH, target, JSON_PATCH, operations(random)),
        13 => {
            let body = json!({"status": status(random), "spec": {"size": 1}});
            let target = format!("{object}/status?{query}");
            fixed(Method::PATCH, target, MERGE, body)
        }
        14 => {
            let mut body = widget(name, json!({"size": 1}));
            body["status"] = status(random);
            let target = format!("{object}/status?{query}&force=true");
            fixed(Method::PATCH, target, APPLY, body)
        }
        15 => Request {
            method: Method::PUT,
            target,
            content_type: JSON,
            body: Body::Replacing {
                object: object.to_owned(),
                spec: random.spec(Whole::Yes),
            },
        },
        16 => {
            let finalizers = random
                .pick(&[json!(null), json!(["bindery.dev/x"])])
                .clone();
            let body = json!({"metadata": {"finalizers": finalizers}});
            fixed(Method::PATCH, target, MERGE, body)
        }
        17 => fixed(Method::GET, format!("{object}/scale"), JSON, Value::Null),
        _ => fixed(Method::DELETE, object.to_owned(), JSON, json!({})),
    }
}

fn fixed(method: Method, target: String, content_type: &'static str, body: Value) -> Request {
    Request {
        method,
        target,
        content_type,
        body: Body::Fixed(body),
    }
}

impl Request {
    /// Sends it to one server.
    pub(crate) async fn send(&self, http: &Http) -> Result<Answer> {
        let call = Call::new(self.method.clone(), self.target.clone());
        let body = match &self.body {
            Body::Fixed(Value::Null) => return http.send(call).await,
            Body::Fixed(body) => body.clone(),
            Body::Replacing { object, spec } => {
                let held = http.send(Call::new(Method::GET, object.clone())).await?;
                let mut body = held.json;
                if held.code != 200 {
                    body = widget(object.rsplit('/').next().unwrap_or_default(), Value::Null);
                    body["metadata"]["resourceVersion"] = json!("1");
                }
                body["spec"] = spec.clone();
                body
            }
        };
        http.send(call.body(self.content_type, body.to_string()))
            .await
    }
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} {} {} ",
            self.method, self.target, self.content_type
        )?;
        match &self.body {
            Body::Fixed(body) => write!(out, "{body}"),
            Body::Replacing { spec, .. } => write!(out, "(as it is) with spec {spec}"),
        }
    }
}

fn query(random: &mut Random, manager: &str) -> String {
    let dry = if random.once_in(8) { "&dryRun=All" } else { "" };
    let strict = if random.once_in(6) {
        "&fieldValidation=Strict"
    } else {
        ""
    };
    format!("fieldManager={manager}{dry}{strict}")
}

fn widget(name: &str, spec: Value) -> Value {
    let mut body = json!({
        "apiVersion": "battery.bindery.dev/v1", "kind": "Widget", "metadata": {"name": name},
    });
    body["spec"] = spec;
    body
}

fn status(random: &mut Random) -> Value {
    let texts = [
        json!({"phase": "Done"}),
        json!({"replicas": 2, "selector": "a=b"}),
        json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        json!({"conditions": [{"type": "Other", "status": "False", "reason": "Why"}]}),
        json!({"conditions": [{"type": "Ready"}]}),
        json!({"phase": 5}),
    ];
    random.pick(&texts).clone()
}

fn operations(random: &mut Random) -> Value {
    let all = [
        json!({"op": "replace", "path": "/spec/size", "value": 9}),
        json!({"op": "add", "path": "/spec/map", "value": {"k": "v"}}),
        json!({"op": "add", "path": "/spec/tags/-", "value": "z"}),
        json!({"op": "remove", "path": "/spec/color"}),
        json!({"op": "test", "path": "/spec/size", "value": 9}),
        json!({"op": "copy", "from": "/spec/size", "path": "/spec/minSize"}),
        json!({"op": "move", "from": "/spec/minSize", "path": "/spec/maxSize"}),
        json!({"op": "add", "path": "/metadata/labels", "value": {"l": "v"}}),
        json!({"op": "remove", "path": "/spec/nowhere"}),
    ];
    let len = 1 + random.below(2);
    Value::Array((0..len).map(|_| random.pick(&all).clone()).collect())
}
