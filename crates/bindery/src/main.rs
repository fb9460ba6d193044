//! Bindery, the binary: it wires the libraries together and speaks to people.
//!
//! It must *never* hold logic that a library could hold: what to publish is decided in the core,
//! how objects behave in the API, how a name server answers in its adapter.

mod cli;
mod out;
mod pod_ports;

mod address;
mod file;
mod log;
mod otlp;
mod stop;
mod surroundings;

mod azure;
mod balancing;
mod banner;
mod data;
mod folder;
mod kinds;
mod kubeconfig;
mod live;

mod control;
mod election;
mod metrics;
mod nameserver;
mod servers;

mod install;
mod run;
mod sidecar;
mod up;

mod ask;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::cli::{Cli, Command};

/// Objects are trees of small strings; the system's allocator took a third of the processor.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::read().unwrap_or_else(|error| error.exit());
    match start(cli) {
        Ok(code) => code,
        Err(error) => {
            log::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<ExitCode> {
    let runtime = || tokio::runtime::Runtime::new().context("cannot start threads");
    match cli.command {
        Command::Up(flags) => runtime()?.block_on(up::up(flags))?,
        Command::Run(flags) => runtime()?.block_on(run::run(flags))?,
        Command::Sidecar(flags) => runtime()?.block_on(sidecar::sidecar(flags))?,
        Command::Status(flags) => return runtime()?.block_on(ask::status(flags)),
        Command::Explain(flags) => return runtime()?.block_on(ask::explain(flags)),
        Command::Plan(flags) => return runtime()?.block_on(ask::plan(flags)),
        Command::Crds => out::say(bindery_api::crds_yaml().trim_end()),
        Command::Install(flags) => out::say(install::manifests(&flags)?.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}
