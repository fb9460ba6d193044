//! Measures a real `bindery up`, beside `nsupdate` on the same name server in the same run.
//!
//! It must *never* be part of the tests, judge a run by a time, or touch a server that it did not
//! start itself.
#![expect(
    clippy::disallowed_methods,
    reason = "it measures real time on the machine as it is"
)]
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on the terminal"
)]

mod arguments;
mod balancers;
mod bulk;
mod claims;
mod cluster;
mod controller;
mod dataplane;
mod events;
mod external_dns;
mod figures;
mod growth;
mod http;
mod machine;
mod many_zones;
mod objects;
mod one_server;
mod peer;
mod ports;
mod ready;
mod report;
mod resolver;
mod rndc;
mod servers;
mod standing;
mod subject;
mod table;
mod three_primaries;
mod three_servers;
mod writes;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mimalloc::MiMalloc;

use arguments::{Arguments, Group, HELP, Which};
use table::Row;

/// As in the binary, since the engine is measured in this process too.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        print!("{HELP}");
        return Ok(());
    };
    if let Some(sizes) = &arguments.hold {
        for mebibytes in balancers::hold(sizes, arguments.endpoints).await? {
            println!("{mebibytes}");
        }
        return Ok(());
    }
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None if arguments.groups.iter().any(|group| group.has_binary()) => subject::build()?,
        None => PathBuf::new(),
    };
    for line in machine::describe(&arguments.folder)? {
        println!("{line}");
    }
    println!();
    for (turn, which) in arguments.servers.iter().enumerate() {
        for group in &arguments.groups {
            if turn > 0 && !group.has_server() {
                continue;
            }
            let measured = measure(&arguments, &binary, *which, *group).await;
            let measured =
                measured.with_context(|| format!("{} on {}", group.as_str(), which.as_str()))?;
            if let Some((title, rows)) = measured {
                println!("{}", table::render(&title, &rows));
                println!("load at the end {}\n", machine::load());
            }
        }
    }
    Ok(())
}

/// The title and the lines of one table; none where the server has no part in it.
async fn measure(
    arguments: &Arguments,
    binary: &Path,
    which: Which,
    group: Group,
) -> Result<Option<(String, Vec<Row>)>> {
    let (flags, rows) = match group {
        Group::One => ("", one_server::rows(arguments, binary, which).await?),
        Group::Three => (
            three_servers::FLAGS,
            three_servers::rows(arguments, binary, which).await?,
        ),
        Group::Primaries => (
            three_primaries::FLAGS,
            three_primaries::rows(arguments, binary, which).await?,
        ),
        Group::Growth => ("", growth::rows(arguments, binary, which).await?),
        Group::Zones => ("", many_zones::rows(arguments, binary, which).await?),
        Group::Standing => ("", standing::rows(arguments, binary, which).await?),
        Group::Memory | Group::Cluster if which == Which::Builtin => return Ok(None),
        Group::Memory => {
            let rows = controller::rows(arguments, binary).await?;
            return Ok(Some((controller::TITLE.to_owned(), rows)));
        }
        Group::Cluster => {
            let rows = cluster::rows(arguments, binary).await?;
            return Ok(Some((cluster::TITLE.to_owned(), rows)));
        }
        Group::Servers => {
            let rows = servers::rows(arguments, binary).await?;
            return Ok(Some((servers::TITLE.to_owned(), rows)));
        }
        Group::Balancers => {
            let rows = balancers::rows(arguments).await?;
            return Ok(Some((balancers::TITLE.to_owned(), rows)));
        }
        Group::Dataplane => {
            let rows = dataplane::rows(arguments).await?;
            return Ok(Some((dataplane::TITLE.to_owned(), rows)));
        }
    };
    let title = format!("bindery up --server {}{flags}", which.as_str());
    Ok(Some((title, rows)))
}
