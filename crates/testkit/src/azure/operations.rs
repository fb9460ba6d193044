//! Operations that take long.

use serde_json::{Value, json};

use super::{AzureState, EmulatedAnswer, SUBSCRIPTION};

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct EmulatedOperation {
    /// How often it is looked at before it has ended.
    left: usize,
    /// How it fails.
    error: Option<Value>,
    /// The resource that is written by it.
    pub(super) resource: Option<String>,
}

impl AzureState {
    /// Begins an operation on a resource.
    pub(super) fn begin(&mut self, resource: Option<String>) -> u64 {
        self.next += 1;
        let operation = EmulatedOperation {
            left: self.polls,
            error: None,
            resource,
        };
        self.operations.insert(self.next, operation);
        self.next
    }

    pub(super) fn operation_that_fails(&mut self, code: &str) -> EmulatedAnswer {
        let id = self.begin(None);
        let error = json!({"code": code, "message": "as the test says"});
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.error = Some(error);
        }
        let told = EmulatedAnswer::new(
            202,
            json!({"properties": {"provisioningState": "Updating"}}),
        );
        self.with_operation(told, id)
    }

    /// An answer that tells where an operation is looked at.
    pub(super) fn with_operation(&self, told: EmulatedAnswer, id: u64) -> EmulatedAnswer {
        let url = self.operation_url("operations", id);
        told.header("azure-asyncnotification", "Enabled")
            .header("azure-asyncoperation", url)
    }

    /// Where an operation is looked at.
    pub(super) fn operation_url(&self, kind: &str, id: u64) -> String {
        let base = &self.base;
        format!(
            "{base}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Network/locations/eastus2/{kind}/{id}\
             ?api-version=2025-05-01&t=t&c=c&s=s&h=h"
        )
    }

    /// Operations get on whether somebody looks at them or at something else.
    pub(super) fn age(&mut self) {
        for operation in self.operations.values_mut() {
            operation.left = operation.left.saturating_sub(1);
        }
    }

    /// Whether an operation on a resource is under way.
    pub(super) fn is_under_way(&self, path: &str) -> bool {
        let mut operations = self.operations.values();
        operations.any(|one| one.left > 0 && one.resource.as_deref() == Some(path))
    }

    /// Looks at an operation; whether it has ended.
    fn look(&mut self, id: &str) -> Option<(bool, Option<Value>)> {
        let operation = self.operations.get_mut(&id.parse().ok()?)?;
        if operation.left > 0 {
            operation.left -= 1;
            return Some((false, None));
        }
        Some((true, operation.error.clone()))
    }

    pub(super) fn operation_status(&mut self, id: &str) -> EmulatedAnswer {
        match self.look(id) {
            None => EmulatedAnswer::error(404, "OperationNotFound", "there is no such operation"),
            Some((false, _)) => EmulatedAnswer::new(200, json!({"status": "InProgress"})),
            Some((true, None)) => EmulatedAnswer::new(200, json!({"status": "Succeeded"})),
            Some((true, Some(error))) => {
                EmulatedAnswer::new(200, json!({"status": "Failed", "error": error}))
            }
        }
    }

    pub(super) fn operation_result(&mut self, id: &str) -> EmulatedAnswer {
        match self.look(id) {
            None => EmulatedAnswer::error(404, "OperationNotFound", "there is no such operation"),
            Some((false, _)) => {
                let id = id.parse().unwrap_or_default();
                let url = self.operation_url("operationResults", id);
                EmulatedAnswer::empty(202).header("location", url)
            }
            Some((true, None)) => EmulatedAnswer::empty(200),
            Some((true, Some(error))) => EmulatedAnswer::new(409, json!({"error": error})),
        }
    }
}
