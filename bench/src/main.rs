//! Measures a real `bindery up`, beside `nsupdate` on the same name server in the same run.
//!
//! It must *never* be part of the tests, judge a run by a time, or touch a server that it did not
//! start itself.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on the terminal"
)]

mod arguments;
mod bulk;
mod claims;
mod events;
mod figures;
mod http;
mod machine;
mod objects;
mod one_server;
mod peer;
mod ports;
mod report;
mod resolver;
mod subject;
mod table;
mod writes;

use std::path::Path;

use anyhow::{Context as _, Result};

use arguments::{Arguments, Group, HELP, Which};
use table::Row;

#[tokio::main]
async fn main() -> Result<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        print!("{HELP}");
        return Ok(());
    };
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => subject::build()?,
    };
    for line in machine::describe(&arguments.folder)? {
        println!("{line}");
    }
    println!();
    for which in &arguments.servers {
        for group in &arguments.groups {
            let (title, rows) = measure(&arguments, &binary, *which, *group)
                .await
                .with_context(|| format!("{} on {}", group.as_str(), which.as_str()))?;
            println!("{}", table::render(&title, &rows));
            println!("load at the end {}\n", machine::load());
        }
    }
    Ok(())
}

/// The title and the lines of one table.
async fn measure(
    arguments: &Arguments,
    binary: &Path,
    which: Which,
    group: Group,
) -> Result<(String, Vec<Row>)> {
    let (flags, rows) = match group {
        Group::One => ("", one_server::rows(arguments, binary, which).await?),
    };
    let title = format!("bindery up --server {}{flags}", which.as_str());
    Ok((title, rows))
}
