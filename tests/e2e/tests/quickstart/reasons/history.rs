//! What the conditions of objects have said, one after the other: some are true for a moment only.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::machine::{Machine, until};

/// A watch of all objects of a kind; dropping it ends it.
pub(super) struct History {
    child: Child,
    file: PathBuf,
}

impl History {
    pub(super) fn of(machine: &Machine, kind: &str) -> Result<Self> {
        let file = machine.scratch.path().join(format!("history-{kind}"));
        let child = Command::new(bindery_e2e::program::kubectl()?)
            .arg(format!("--server=http://127.0.0.1:{}", machine.api))
            .args(["get", kind, "--watch", "-o", "json"])
            .env("HOME", machine.scratch.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .stdout(File::create(&file)?)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run kubectl")?;
        Ok(Self { child, file })
    }

    /// What was told so far of an object, a line for each condition of each state.
    fn lines(&self, object: &str) -> Vec<String> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        // The last one may not be whole yet.
        let states = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let states = states.map_while(Result::ok);
        let states = states.filter(|state| state["metadata"]["name"] == object);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |one: &Value| {
            ["type", "status", "reason", "message"]
                .map(|field| word(&one[field]))
                .join(" ")
        };
        let lines = states.flat_map(|state| {
            let conditions = state["status"]["conditions"].as_array().cloned();
            conditions.unwrap_or_default()
        });
        lines.map(|one| line(&one)).collect()
    }

    /// How much was told of an object so far.
    pub(super) fn mark(&self, object: &str) -> usize {
        self.lines(object).len()
    }

    /// Waits until a condition of an object has begun with these words, after a mark; its message.
    pub(super) fn saw(&self, object: &str, from: usize, wanted: &str) -> Result<String> {
        let mut found = Vec::new();
        let seen = until(wanted, || {
            found = self.lines(object);
            let mut later = found.iter().skip(from);
            let line = later.find_map(|line| line.strip_prefix(wanted));
            Ok(line.map(|message| message.trim().to_owned()))
        });
        seen.with_context(|| {
            let last = found.iter().skip(from).cloned().collect::<Vec<_>>();
            format!("{object} never said {wanted:?}:\n{}", last.join("\n"))
        })
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
