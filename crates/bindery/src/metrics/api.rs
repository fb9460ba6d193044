//! What was asked of the embedded API.

use std::fmt;

use bindery_apiserver::EmbeddedApi;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::encoding::counter_family;

/// What was asked of the embedded API, by whomever.
pub(super) struct ApiNumbers(pub(super) EmbeddedApi);

impl fmt::Debug for ApiNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiNumbers")
    }
}

impl Collector for ApiNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let requests: Vec<(&str, String, u64)> = self
            .0
            .requests()
            .into_iter()
            .map(|(verb, code, count)| (verb, code.to_string(), count))
            .collect();
        let rows = requests
            .iter()
            .map(|(verb, code, count)| (vec![("verb", *verb), ("code", code.as_str())], *count));
        let help = "Requests that the embedded API answered, those of Bindery itself among them";
        counter_family(&mut encoder, ("bindery_embedded_requests", help), rows)
    }
}
