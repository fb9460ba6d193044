//! The `/scale` subresource: replicas of any kind that declares where they stand.

use serde_json::{Value, json};

use super::Core;
use super::failure::{Failure, Fault};
use super::kinds::Kind;
use super::modify::{Ownership, Request};
use super::present::{self, at};
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
    pub(crate) async fn change_scale(
        &self,
        request: &Request<'_>,
        edit: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<Reply, Failure> {
        let call = request.call;
        let kind = &call.target.kind;
        let changed = |current: &Value| rescaled(kind, current, &edit);
        let (stored, warnings) = self.change(request, Ownership::Tracked, changed).await?;
        let mut answer = Reply::ok(&scale(kind, &present::converted(kind, &stored)));
        answer.warnings = warnings;
        Ok(answer)
    }
}

/// The object with the replicas that `edit` makes of its scale.
fn rescaled(
    kind: &Kind,
    current: &Value,
    edit: &impl Fn(&Value) -> Result<Value, Failure>,
) -> Result<Value, Failure> {
    let before = scale(kind, current);
    let wanted = edit(&before)?;
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let given = wanted["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if !given.is_empty() && before["metadata"]["resourceVersion"] != given {
        return Err(Failure::stale(kind.subject(), name));
    }
    let replicas = &wanted["spec"]["replicas"];
    let replicas = if replicas.is_null() {
        &json!(0)
    } else {
        replicas
    };
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
}

/// An object seen as its scale.
fn scale(kind: &Kind, value: &Value) -> Value {
    let Some(paths) = &kind.scale else {
        return Value::Null;
    };
    let number = |path: &str| at(value, path).and_then(Value::as_i64).unwrap_or(0);
    let metadata = &value["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    // Go programs leave a zero out here, and clients read it as one.
    let replicas = number(&paths.spec_replicas);
    if replicas != 0 {
        scale["spec"]["replicas"] = json!(replicas);
    }
    let selector = match &paths.selector {
        Some(path) => at(value, path)
            .and_then(Value::as_str)
            .map(ToOwned::to_owned),
        None => value["spec"]["selector"]["matchLabels"]
            .as_object()
            .map(|labels| {
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
