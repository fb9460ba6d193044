//! Assertions that show the answer when they fail, and the objects that cases send.

use bindery_e2e::http::Answer;
use serde_json::{Value, json};

/// Assertions on an answer that show it when they fail.
pub(crate) trait Expect {
    /// The status is this; gives the body.
    fn is(self, code: u16) -> Value;
    /// The answer is a Status of this code and reason; gives it.
    fn refused(self, code: u16, reason: &str) -> Value;
    /// The texts of the Warning headers.
    fn warnings(&self) -> Vec<String>;
}

impl Expect for Answer {
    #[track_caller]
    fn is(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.json
    }

    #[track_caller]
    fn refused(self, code: u16, reason: &str) -> Value {
        assert_eq!(
            (self.code, self.json["reason"].as_str()),
            (code, Some(reason)),
            "{}",
            self.text
        );
        assert_eq!(self.json["kind"], "Status", "{}", self.text);
        assert_eq!(self.json["apiVersion"], "v1", "{}", self.text);
        assert_eq!(self.json["status"], "Failure", "{}", self.text);
        assert_eq!(self.json["code"], code, "{}", self.text);
        assert!(
            self.json["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{}",
            self.text
        );
        self.json
    }

    fn warnings(&self) -> Vec<String> {
        let texts = self.headers.get_all("warning").iter();
        texts
            .filter_map(|text| text.to_str().ok())
            .map(str::to_owned)
            .collect()
    }
}

/// The Status names this field for this reason; gives the message.
#[track_caller]
pub(crate) fn cause(status: &Value, reason: &str, field: &str) -> String {
    let causes = status["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = causes
        .iter()
        .find(|cause| cause["reason"] == reason && cause["field"] == field);
    assert!(found.is_some(), "no {reason} on {field} in {status}");
    found
        .and_then(|cause| cause["message"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// A Widget of the current version.
pub(crate) fn widget(name: &str, spec: Value) -> Value {
    let mut body = json!({
        "apiVersion": "battery.bindery.dev/v1", "kind": "Widget", "metadata": {"name": name},
    });
    body["spec"] = spec;
    body
}

/// A `ConfigMap`.
pub(crate) fn config_map(name: &str, data: Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    body["data"] = data;
    body
}

/// The names of a list's items, in its order.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The version of an object or list.
#[track_caller]
pub(crate) fn version(object: &Value) -> String {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .expect("everything that is stored has a version")
        .to_owned()
}
