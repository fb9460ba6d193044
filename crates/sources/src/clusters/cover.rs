//! Whether an object has what it is to have.

use serde_json::Value;

/// Whether everything that is wanted stands in what there is. Fields that nobody asked for, such as defaults
/// and statuses, do not matter; lists are compared item by item.
#[must_use]
pub fn covers(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => want.iter().all(|(name, want)| {
            let have = have.get(name).unwrap_or(&Value::Null);
            covers(have, want)
        }),
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| covers(have, want))
        }
        // What an API server leaves out is as good as what is empty.
        (Value::Null, Value::Object(want)) => want.values().all(|want| covers(have, want)),
        (Value::Null, Value::Array(want)) => want.is_empty(),
        (have, want) => have == want,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_server_do_not_matter_and_changes_do() {
        let want = json!({"spec": {"replicas": 1, "ports": [{"port": 53}], "labels": {}}});
        let have = json!({
            "spec": {"replicas": 1, "ports": [{"port": 53, "protocol": "TCP"}], "policy": "x"},
            "status": {"replicas": 1},
        });
        assert!(covers(&have, &want));
        for changed in [
            json!({"spec": {"replicas": 2, "ports": [{"port": 53}]}}),
            json!({"spec": {"replicas": 1, "ports": [{"port": 54}]}}),
            json!({"spec": {"replicas": 1, "ports": []}}),
            json!({"spec": {"replicas": 1}}),
        ] {
            assert!(!covers(&changed, &want), "{changed}");
        }
    }
}
