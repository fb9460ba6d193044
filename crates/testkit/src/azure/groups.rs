//! Resource groups.

use serde_json::json;

use super::{Asked, AzureState, EmulatedAnswer, SUBSCRIPTION};

impl AzureState {
    pub(super) fn group(&mut self, asked: &Asked, name: &str) -> EmulatedAnswer {
        let key = name.to_ascii_lowercase();
        match asked.method.as_str() {
            "PUT" => {
                let body = match asked.json() {
                    Ok(body) => body,
                    Err(told) => return told,
                };
                let location = body["location"].as_str().unwrap_or_default().to_owned();
                let is_new = self
                    .groups
                    .insert(key, (name.to_owned(), location.clone()))
                    .is_none();
                let id = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}");
                let body = json!({
                    "id": id, "name": name, "type": "Microsoft.Resources/resourceGroups",
                    "location": location, "properties": {"provisioningState": "Succeeded"},
                });
                EmulatedAnswer::new(if is_new { 201 } else { 200 }, body)
            }
            "DELETE" => {
                let Some((group, _)) = self.groups.remove(&key) else {
                    return missing(name);
                };
                let inside = format!("/resourcegroups/{}/", group.to_ascii_lowercase());
                self.resources.retain(|path, _| !path.contains(&inside));
                self.gateways.retain(|path, _| !path.contains(&inside));
                let id = self.begin(None);
                let base = &self.base;
                let url = format!(
                    "{base}/subscriptions/{SUBSCRIPTION}/operationresults/{id}\
                     ?api-version=2021-04-01&t=t&c=c&s=s&h=h"
                );
                EmulatedAnswer::empty(202).header("location", url)
            }
            _ => missing(name),
        }
    }
}

/// There is no such group.
pub(super) fn missing(name: &str) -> EmulatedAnswer {
    let why = format!("Resource group '{name}' could not be found.");
    EmulatedAnswer::error(404, "ResourceGroupNotFound", &why)
        .header("x-ms-failure-cause", "gateway")
}
