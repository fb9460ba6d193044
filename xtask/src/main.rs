//! Checks, generators and set-up of the project, run as `cargo xtask …`.
//!
//! It must *never* link another crate of the workspace: it has to build in seconds on a machine
//! where the rest does not compile yet, because it is what tells why.
#![expect(
    clippy::disallowed_methods,
    reason = "it works on the machine as it is"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool speaks on the terminal"
)]

mod arguments;
mod failures;
mod generated;
mod image;
mod mutants;
mod program;
mod reference;
mod steps;
mod tidy;
mod tools;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use arguments::{Arguments, HELP, Task};
use program::Program;
use tools::Tool;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse(env::args().skip(1))?;
    let root = workspace_root()?;
    match arguments.task {
        Task::Help => {
            print!("{HELP}");
            Ok(())
        }
        Task::Test { only } => steps::run(&root, &only),
        Task::Tidy => tidy::run(&root),
        Task::Crd(mode) => generated::crd(&root, mode),
        Task::Docs(mode) => generated::docs(&root, mode),
        Task::Sim {
            subject,
            first,
            seeds,
        } => steps::simulate(&root, subject, (first, seeds)),
        Task::Mutants { rest } => mutants::run(&root, &rest),
        Task::Bench { rest } => bench(&root, &rest),
        Task::Image(options) => image::run(&root, &options),
        Task::Setup => steps::setup(&root),
    }
}

/// The folder of the workspace, wherever in it the user stands.
///
/// Cargo says where this run belongs. Where it was built counts only without Cargo: checkouts that share a target
/// folder may run one build, which must not check the other checkout.
fn workspace_root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR");
    let built = || env!("CARGO_MANIFEST_DIR").into();
    Path::new(&package.unwrap_or_else(built))
        .parent()
        .map(Path::to_path_buf)
        .context("xtask does not stand in a workspace")
}

fn bench(root: &Path, rest: &[String]) -> Result<()> {
    if !root.join("bench/Cargo.toml").exists() {
        bail!("there is no bench/Cargo.toml in this checkout, so nothing to measure");
    }
    let only = rest.iter().position(|word| word == "--only");
    let groups = only.and_then(|at| rest.get(at + 1));
    let wanted = |name| groups.is_none_or(|groups| groups.split(',').any(|group| group == name));
    if wanted("cluster") {
        tools::ensure(&[
            Tool::Etcd,
            Tool::KubeApiserver,
            Tool::KubeControllerManager,
            Tool::Kubectl,
        ])?;
    }
    let has_peer = !rest.iter().any(|word| word == "--without-peer");
    if wanted("cluster") || (wanted("memory") && has_peer) {
        tools::ensure(&[Tool::ExternalDns])?;
    }
    Program::cargo(
        root,
        ["run", "--release", "--package", "bindery-bench", "--"],
    )
    .args(rest)
    .run()
}
