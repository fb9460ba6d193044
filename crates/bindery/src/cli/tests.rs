use clap::{CommandFactory as _, Parser as _};

use super::{Cli, Command, ServerChoice};

/// The long help as it is at 100 columns.
fn help(path: &[&str]) -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut found = &mut command;
    for name in path {
        found = found.find_subcommand_mut(name).expect("the command exists");
    }
    found.render_long_help().to_string()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_teaches() {
    insta::assert_snapshot!("help", help(&[]));
}

#[test]
fn help_of_up_teaches() {
    insta::assert_snapshot!("help_up", help(&["up"]));
}

#[test]
fn help_of_run_teaches() {
    insta::assert_snapshot!("help_run", help(&["run"]));
}

#[test]
fn help_of_sidecar_teaches() {
    insta::assert_snapshot!("help_sidecar", help(&["sidecar"]));
}

#[test]
fn help_of_install_teaches() {
    insta::assert_snapshot!("help_install", help(&["install"]));
}

#[test]
fn help_of_status_teaches() {
    insta::assert_snapshot!("help_status", help(&["status"]));
}

#[test]
fn help_of_explain_teaches() {
    insta::assert_snapshot!("help_explain", help(&["explain"]));
}

#[test]
fn help_of_plan_teaches() {
    insta::assert_snapshot!("help_plan", help(&["plan"]));
}

#[test]
fn every_flag_has_a_variable() {
    for command in Cli::command().get_subcommands() {
        for argument in command.get_arguments() {
            let name = argument.get_id().as_str();
            let wanted = format!("BINDERY_{}", name.to_uppercase());
            let variable = argument
                .get_env()
                .map(|variable| variable.to_string_lossy().into_owned());
            assert_eq!(variable, Some(wanted), "--{name} of {}", command.get_name());
        }
    }
}

#[test]
fn addresses_may_be_ipv6() {
    let line = [
        "bindery",
        "up",
        "zones",
        "--dns-address",
        "[::1]:5300",
        "--server",
        "builtin",
    ];
    let Command::Up(up) = Cli::parse_from(line).command else {
        unreachable!("the line says up");
    };
    assert_eq!(up.dns_address.to_string(), "[::1]:5300");
    assert_eq!(up.server, ServerChoice::Builtin);
}

#[test]
fn a_name_server_needs_a_port() {
    let line = [
        "bindery",
        "run",
        "--nameserver",
        "ns1.example.net",
        "--tsig-key-file",
        "k",
    ];
    let message = Cli::try_parse_from(line)
        .expect_err("the port is missing")
        .to_string();
    assert!(message.contains("ns1.example.net:53"), "{message}");
}

/// Reads a line of `status` where a flag's variable has a value: that of one which cargo always sets.
fn status_with(flags: &[&str], line: &[&str]) -> Result<super::ask::StatusFlags, String> {
    let command = Cli::command().mut_subcommand("status", |status| {
        status.mut_args(|argument| {
            if flags.contains(&argument.get_id().as_str()) {
                argument.env("CARGO_MANIFEST_DIR")
            } else {
                argument
            }
        })
    });
    let line = ["bindery", "status"].iter().chain(line).map(Into::into);
    match super::line::read_from(command, line.collect()) {
        Ok(cli) => match cli.command {
            Command::Status(status) => Ok(status),
            Command::Up(_)
            | Command::Run(_)
            | Command::Sidecar(_)
            | Command::Explain(_)
            | Command::Plan(_)
            | Command::Install(_)
            | Command::Crds => Err("the line says status".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_flag_wins_over_a_variable_that_does_not_go_with_it() {
    let status = status_with(&["kubeconfig"], &[]).expect("a variable counts");
    assert!(status.asking.kubeconfig.is_some());
    let server = ["--server", "http://127.0.0.1:1"];
    let status = status_with(&["kubeconfig"], &server).expect("the flag wins");
    assert_eq!(status.asking.kubeconfig, None);
    let status = status_with(&["namespace"], &["-A"]).expect("the flag wins");
    assert!(status.everywhere.all_namespaces);
    assert_eq!(status.asking.namespace, None);
    let status = status_with(&["kubeconfig"], &["--kubeconfig", "k"]).expect("the flag wins");
    assert_eq!(status.asking.kubeconfig, Some("k".into()));
    // What was given twice on the line is still a mistake.
    let both = ["--server", "http://127.0.0.1:1", "--kubeconfig", "k"];
    let message = status_with(&[], &both).expect_err("they do not go together");
    assert!(message.contains("cannot be used with"), "{message}");
}
