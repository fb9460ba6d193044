//! Bindery, the binary: it wires the libraries together and speaks to people.
//!
//! It must *never* hold logic that a library could hold: what to publish is decided in the core,
//! how objects behave in the API, how a name server answers in its adapter.

mod cli;
mod out;

mod address;
mod log;
mod stop;

mod folder;
mod live;
mod metrics;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::complain(&format!("bindery: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Up(_) | Command::Run(_) | Command::Crds => anyhow::bail!("not there yet"),
    }
}
