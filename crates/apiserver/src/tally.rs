//! How many requests were answered, and how.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{Method, StatusCode};

use super::request::{Query, Target};

/// Requests by verb and HTTP code.
///
/// Limits: there are nine verbs and some twenty codes.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Tally {
    /// Counts one answer.
    pub(crate) fn count(&self, verb: &'static str, code: StatusCode) {
        *self.lock().entry((verb, code.as_u16())).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u16, u64)> {
        let counts = self.lock();
        let counts = counts.iter();
        counts
            .map(|((verb, code), count)| (*verb, *code, *count))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, u16), u64>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The verb of a request, as Kubernetes names it, where its target is not known (yet).
pub(crate) fn verb_of(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// The verb of a request about objects.
pub(crate) fn verb(method: &Method, target: &Target, query: &Query) -> &'static str {
    match (verb_of(method), target.name.is_some()) {
        ("get", _) if query.is_true("watch") => "watch",
        ("get", false) => "list",
        ("delete", false) => "deletecollection",
        (verb, _) => verb,
    }
}
