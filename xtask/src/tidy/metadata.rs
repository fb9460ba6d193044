//! The part of `cargo metadata` that the rules read.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program::Program;

/// Packages of the workspace and of everything it uses.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// All packages.
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// One version of one package.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// As in its manifest.
    pub(crate) name: String,
    /// As in its manifest.
    pub(crate) version: String,
    /// SPDX expression.
    pub(crate) license: Option<String>,
    /// What it asks for, before features are chosen.
    pub(crate) dependencies: Vec<Dependency>,
    id: String,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

/// One line of a dependency table.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// The package asked for.
    pub(crate) name: String,
    /// None for normal, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo, for the platform that we build for.
    pub(crate) fn fetch(root: &Path) -> Result<Self> {
        let program = Program::cargo(root, ["metadata", "--format-version", "1"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
        serde_json::from_str(&program.stdout()?)
            .with_context(|| format!("cannot read the answer of `{program}`"))
    }

    /// Packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Packages of others.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| !self.workspace_members.contains(&package.id))
    }

    /// Whether a second feature set exists at all.
    pub(crate) fn any_member_has_features(&self) -> bool {
        self.members().any(|package| !package.features.is_empty())
    }

    /// Metadata from JSON text.
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("a fixture is valid JSON")
    }
}
