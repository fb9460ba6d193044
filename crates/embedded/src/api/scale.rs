//! The `/scale` subresource: replicas of any kind that declares where they stand.

use http::StatusCode;
use serde_json::{Value, json};

use super::Core;
use super::failure::{Failure, Fault};
use super::kinds::Kind;
use super::present::at;
use super::request::WriteOptions;
use super::service::{Call, Reply};

impl Core {
    pub(crate) fn get_scale(&self, call: &Call) -> Result<Reply, Failure> {
        let name = call.target.name.as_deref().unwrap_or_default();
        let stored = self
            .store
            .visible(&call.target.id_of(name))
            .ok_or_else(|| Failure::not_found(call.target.kind.subject(), name))?;
        Ok(Reply::ok(&scale(&call.target.kind, &stored.value())))
    }

    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn replace_scale(
        &self,
        call: &Call,
        wanted: &Value,
        options: &WriteOptions,
    ) -> Result<Reply, Failure> {
        self.patch_scale(call, options, |_| Ok(wanted.clone())).await
    }

    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn patch_scale(
        &self,
        call: &Call,
        options: &WriteOptions,
        edit: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<Reply, Failure> {
        let kind = &call.target.kind;
        let reply = self
            .change(call, options, |current| {
                let before = scale(kind, current);
                let wanted = edit(&before)?;
                let given = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                let held = before["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                let name = call.target.name.as_deref().unwrap_or_default();
                if !given.is_empty() && given != held {
                    return Err(Failure::stale(kind.subject(), name));
                }
                let replicas = &wanted["spec"]["replicas"];
                let replicas = if replicas.is_null() { &json!(0) } else { replicas };
                if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
                    let why = "must be greater than or equal to 0";
                    let fault = Fault::invalid("spec.replicas", replicas, why);
                    return Err(Failure::invalid(kind.subject(), name, &[fault]));
                }
                let mut value = current.clone();
                if let Some(paths) = &kind.scale {
                    set(&mut value, &paths.spec_replicas, replicas.clone());
                }
                Ok(value)
            })
            .await?;
        let name = call.target.name.as_deref().unwrap_or_default();
        let stored = self.store.visible(&call.target.id_of(name));
        let value = stored.map(|stored| stored.value()).unwrap_or_default();
        let mut answer = Reply::ok(&scale(kind, &value));
        answer.code = StatusCode::OK;
        answer.warnings = reply.warnings;
        Ok(answer)
    }
}

/// An object seen as its scale.
fn scale(kind: &Kind, value: &Value) -> Value {
    let Some(paths) = &kind.scale else { return Value::Null };
    let number = |path: &str| at(value, path).and_then(Value::as_i64).unwrap_or(0);
    let metadata = &value["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    let selector = match &paths.selector {
        Some(path) => at(value, path).and_then(Value::as_str).map(ToOwned::to_owned),
        None => value["spec"]["selector"]["matchLabels"].as_object().map(|labels| {
            let terms: Vec<String> = labels
                .iter()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            terms.join(",")
        }),
    };
    if let Some(selector) = selector {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// Sets the value at a dotted path, making objects on the way.
fn set(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for segment in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[segment];
    }
    *place = new;
}
