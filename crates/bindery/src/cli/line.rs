//! How the command line is read: a flag wins over a variable, also over one that does not go with it.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

use super::Cli;

use crate::surroundings;

/// Reads the command line of this process.
///
/// # Errors
/// What is wrong with it; `clap` says it and ends the process.
pub(crate) fn read() -> Result<Cli, clap::Error> {
    read_from(Cli::command(), surroundings::command_line())
}

/// Reads a command line as one of `command`.
pub(super) fn read_from(command: Command, line: Vec<OsString>) -> Result<Cli, clap::Error> {
    let command = without_rivals(command, &line);
    let matches = command.try_get_matches_from(line)?;
    Cli::from_arg_matches(&matches)
}

/// The same command, deaf to the variables of flags that do not go with one that was given.
fn without_rivals(command: Command, line: &[OsString]) -> Command {
    let flags_only = command
        .clone()
        .mut_subcommands(|one| one.mut_args(deaf))
        .ignore_errors(true);
    let matches = flags_only.try_get_matches_from(line);
    let Some((name, given)) = matches.ok().and_then(|mut all| all.remove_subcommand()) else {
        return command;
    };
    let was_given = |argument: &Arg| {
        let id = argument.get_id();
        given.ids().any(|one| one == id)
            && given.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    };
    command.mut_subcommands(|one| {
        if one.get_name() != name {
            return one;
        }
        let mut rivals = Vec::new();
        for argument in one.get_arguments() {
            for other in one.get_arg_conflicts_with(argument) {
                for (one, other) in [(argument, other), (other, argument)] {
                    if was_given(one) && !was_given(other) {
                        rivals.push(other.get_id().clone());
                    }
                }
            }
        }
        let is_rival = |argument: &Arg| rivals.contains(argument.get_id());
        one.mut_args(|argument| {
            if is_rival(&argument) {
                deaf(argument)
            } else {
                argument
            }
        })
    })
}

fn deaf(argument: Arg) -> Arg {
    argument.env(Resettable::Reset)
}
