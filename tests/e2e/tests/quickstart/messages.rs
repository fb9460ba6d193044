//! When it cannot start it says what to do.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, code, program, run};

/// The definitions as they are generated, a file each.
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

crate::cases!(
    a_port_in_use_names_the_flag,
    a_missing_folder_is_told,
    a_data_folder_in_use_names_the_process,
    a_data_folder_of_a_newer_bindery_is_refused,
    a_named_that_fails_shows_its_last_words,
    without_named_it_says_how_to_get_it,
    an_open_api_needs_a_token,
    a_bad_key_is_told,
    a_cluster_is_named_once,
    a_wrong_command_line_exits_with_two,
    definitions_are_printed_as_yaml,
);

/// Runs `bindery` with arguments that let it fail, to its end.
fn refused(machine: &Machine, extra: &[&str], variables: &[(&str, &str)]) -> Result<String> {
    let output = Command::new(program()?)
        .args(machine.arguments())
        .args(extra)
        .envs(variables.iter().copied())
        .output()
        .context("cannot run bindery")?;
    complaint(&output)
}

fn complaint(output: &Output) -> Result<String> {
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(1),
        "exit {}: {err}",
        code(output.status)
    );
    ensure!(err.starts_with("bindery: "), "{err}");
    Ok(err)
}

fn a_port_in_use_names_the_flag(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    for (port, flag) in [
        (machine.api, "--api-address"),
        (machine.metrics, "--metrics-address"),
        (machine.dns, "--dns-address"),
    ] {
        let _taken = TcpListener::bind(("127.0.0.1", port))?;
        let message = refused(&machine, &[], &[])?;
        ensure!(
            message.contains("in use") && message.contains(flag),
            "{message}"
        );
    }
    let _taken = UdpSocket::bind(("127.0.0.1", machine.dns))?;
    let message = refused(&machine, &[], &[])?;
    ensure!(message.contains("--dns-address"), "{message}");
    if bindery_e2e::program::on_path("named").is_some() {
        let machine = Machine::idle(Server::Named)?;
        let _taken = TcpListener::bind(("127.0.0.1", machine.dns))?;
        let message = refused(&machine, &[], &[])?;
        ensure!(message.contains("--dns-address"), "{message}");
    }
    Ok(())
}

fn a_missing_folder_is_told(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    fs::remove_dir(machine.folder())?;
    let message = refused(&machine, &[], &[])?;
    ensure!(
        message.contains(&machine.folder().display().to_string()),
        "{message}"
    );
    ensure!(!machine.data().exists(), "nothing was made");
    fs::write(machine.folder(), "a file")?;
    let message = refused(&machine, &[], &[])?;
    ensure!(message.contains("is a file"), "{message}");
    Ok(())
}

fn a_data_folder_in_use_names_the_process(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let pid = format!("pid {}", machine.process()?.pid());
    let message = refused(&machine, &[], &[])?;
    ensure!(
        message.contains("in use") && message.contains(&pid),
        "{message}"
    );
    ensure!(message.contains("--data-dir"), "{message}");
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])
}

fn a_data_folder_of_a_newer_bindery_is_refused(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    fs::create_dir(machine.data())?;
    fs::write(machine.data().join("format"), "1000\n")?;
    let message = refused(&machine, &[], &[])?;
    ensure!(
        message.contains("newer") && message.contains("--data-dir"),
        "{message}"
    );
    let machine = Machine::idle(server)?;
    fs::create_dir(machine.data())?;
    fs::write(machine.data().join("letter.txt"), "dear")?;
    let message = refused(&machine, &[], &[])?;
    ensure!(message.contains("not made by Bindery"), "{message}");
    Ok(())
}

fn a_named_that_fails_shows_its_last_words(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let folder = machine.scratch.path().join("bin");
    fs::create_dir(&folder)?;
    let named = folder.join("named");
    fs::write(
        &named,
        "#!/bin/sh\necho 'no space left for names' >&2\nexit 3\n",
    )?;
    fs::set_permissions(&named, fs::Permissions::from_mode(0o755))?;
    let path = folder.display().to_string() + ":/usr/bin:/bin";
    let line = ["--server", "named"];
    let arguments: Vec<String> = machine.arguments();
    let kept: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !["--server", "builtin"].contains(word))
        .collect();
    let output = Command::new(program()?)
        .args(kept)
        .args(line)
        .env("PATH", path)
        .output()
        .context("cannot run bindery")?;
    let message = complaint(&output)?;
    ensure!(message.contains("--server builtin"), "{message}");
    ensure!(message.contains("no space left for names"), "{message}");
    Ok(())
}

fn without_named_it_says_how_to_get_it(_: Server) -> Result<()> {
    // Where named is installed it is found even without PATH; then there is nothing to say.
    if bindery_e2e::program::on_path("named").is_some() {
        return Ok(());
    }
    let message = refused(&Machine::idle(Server::Named)?, &[], &[])?;
    ensure!(
        message.contains("bind9") && message.contains("--server builtin"),
        "{message}"
    );
    Ok(())
}

fn an_open_api_needs_a_token(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let arguments: Vec<String> = machine
        .arguments()
        .into_iter()
        .map(|word| {
            if word.ends_with(&machine.api.to_string()) {
                format!("0.0.0.0:{}", machine.api)
            } else {
                word
            }
        })
        .collect();
    let output = Command::new(program()?).args(&arguments).output()?;
    let message = complaint(&output)?;
    ensure!(message.contains("--token-file"), "{message}");
    Ok(())
}

fn a_bad_key_is_told(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let key = machine.scratch.path().join("bad.key");
    fs::write(&key, "key x { algorithm hmac-md5; secret \"AAAA\"; };")?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    let key = key.display().to_string();
    let line = [
        "run",
        "--nameserver",
        "127.0.0.1:53",
        "--tsig-key-file",
        &key,
    ];
    let output = Command::new(program()?).args(line).output()?;
    let message = complaint(&output)?;
    ensure!(
        message.contains("bad.key") && message.contains("too weak"),
        "{message}"
    );
    Ok(())
}

fn a_cluster_is_named_once(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let message = refused(&machine, &["--cluster", "in,out,in=2"], &[])?;
    ensure!(message.contains("--cluster names in twice"), "{message}");
    Ok(())
}

fn a_wrong_command_line_exits_with_two(_: Server) -> Result<()> {
    for line in [
        &["up"][..],
        &["fly"],
        &["up", "x", "--dns-address", "nowhere"],
    ] {
        let output = Command::new(program()?).args(line).output()?;
        ensure!(
            output.status.code() == Some(2),
            "{line:?}: {}",
            code(output.status)
        );
    }
    Ok(())
}

fn definitions_are_printed_as_yaml(_: Server) -> Result<()> {
    let program = program()?.display().to_string();
    let output = Command::new(&program).arg("crds").output()?;
    let yaml = crate::machine::text(&output)?;
    let kinds = yaml.matches("kind: CustomResourceDefinition").count();
    let generated = fs::read_dir(DEFINITIONS)?.count();
    ensure!(
        kinds == generated,
        "{kinds} definitions are printed, and {DEFINITIONS} has {generated}"
    );
    let output = Command::new(&program).arg("--version").output()?;
    ensure!(
        crate::machine::text(&output)?.starts_with("bindery "),
        "it says its version"
    );
    // A reader that goes away early is no fault.
    let piped = run("sh", &["-c", &format!("{program} crds | head -1; exit 0")])?;
    ensure!(
        piped.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&piped.stderr)
    );
    Ok(())
}
