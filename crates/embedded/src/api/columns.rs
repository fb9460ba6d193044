//! Tables of objects, as `kubectl get` prints them.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::present::{Include, partial};

/// The table of `items`.
pub(crate) fn table(_kind: &Kind, include: Include, items: &[Value], metadata: Value) -> Value {
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let object = match include {
                Include::Nothing => Value::Null,
                Include::Metadata => partial(item),
                Include::Object => item.clone(),
            };
            let metadata = &item["metadata"];
            json!({"cells": [metadata["name"], metadata["creationTimestamp"]], "object": object})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ],
        "rows": rows,
    })
}
