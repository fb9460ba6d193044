//! What is wrong in files, kept in the API for those who ask there.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::document::FileProblem;

/// Where it is kept: a `ConfigMap` that is there while something is wrong.
const NAMESPACE: &str = "kube-system";
/// Its name where it is about the folder of manifests.
pub(crate) const FOLDER: &str = "bindery-folder";
const FIELD: &str = "problems";
/// The field manager of it.
const MANAGER: &str = "bindery-up";
/// Problems that are kept; with [`TEXT_LEN_MAX`] they have 100 KB, a tenth of what an object may have.
const PROBLEMS_MAX: usize = 100;
/// Characters of one problem.
const TEXT_LEN_MAX: usize = 1_000;

/// Keeps problems in the API.
pub(crate) struct Teller {
    api: Api<ConfigMap>,
    name: &'static str,
    written: Option<String>,
}

impl Teller {
    /// One that has written nothing yet, into the `ConfigMap` of this name.
    pub(crate) fn new(client: Client, name: &'static str) -> Self {
        Self {
            api: Api::namespaced(client, NAMESPACE),
            name,
            written: None,
        }
    }

    /// Writes the problems if they are not the ones that were written last.
    ///
    /// Cancellation: the next call writes them.
    pub(crate) async fn write(&mut self, problems: &[FileProblem]) {
        let text = text(problems);
        if self.written.as_ref() == Some(&text) {
            return;
        }
        let done = if text.is_empty() {
            match self.api.delete(self.name, &DeleteParams::default()).await {
                // Who may not delete it did not write it either.
                Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Ok(()),
                deleted => deleted.map(drop),
            }
        } else {
            let body = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self.name},
                "data": {FIELD: &text},
            });
            let params = PatchParams::apply(MANAGER).force();
            let written = self
                .api
                .patch(self.name, &params, &Patch::Apply(&body))
                .await;
            written.map(drop)
        };
        match done {
            Ok(()) => self.written = Some(text),
            Err(error) => {
                let name = format!("{NAMESPACE}/{}", self.name);
                tracing::warn!(%error, name, "what is wrong cannot be kept in a ConfigMap");
            }
        }
    }
}

/// The problems that the `ConfigMap` of this name tells of, one by one; none where there is none.
pub(crate) async fn fetch_problems(client: &Client, name: &str) -> Vec<String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    // In a cluster one may not even be allowed to look.
    let found = api.get_opt(name).await.ok().flatten();
    let text = found.and_then(|map| map.data?.remove(FIELD));
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn text(problems: &[FileProblem]) -> String {
    let mut lines: Vec<String> = problems
        .iter()
        .take(PROBLEMS_MAX)
        .map(|problem| {
            let line = problem.to_string().replace(char::is_control, " ");
            line.chars().take(TEXT_LEN_MAX).collect()
        })
        .collect();
    if problems.len() > PROBLEMS_MAX {
        lines.push(format!("and {} more", problems.len() - PROBLEMS_MAX));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_line_each_and_bounded() {
        let long = FileProblem::at("a.yaml", 3, "two\nlines ".repeat(1_000));
        let kept = text(&vec![long; PROBLEMS_MAX + 5]);
        assert_eq!(kept.lines().count(), PROBLEMS_MAX + 1);
        assert!(kept.starts_with("a.yaml:3: two lines two lines"), "{kept}");
        assert!(kept.ends_with("and 5 more"), "{kept}");
        assert!(
            kept.lines()
                .all(|line| line.chars().count() <= TEXT_LEN_MAX)
        );
        assert_eq!(text(&[]), "");
    }
}
