//! How `kubectl` gets at the API of `up`: the kubeconfig that it writes, TLS beyond loopback, and a door
//! that idle connections do not block.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, PATIENCE, Server, text, until};

crate::cases!(
    the_kubeconfig_works_as_printed,
    kubectl_works_beyond_loopback,
    a_token_on_loopback_works_with_kubectl,
    a_thousand_idle_connections_lock_nobody_out,
    kubectl_get_ns_warns_of_nothing,
    what_get_prints_of_records_can_be_applied,
);

const RECORD: &str = "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
    metadata: {name: late, labels: {zone: example-com}}\n\
    spec: {name: late, ipv4Addresses: [192.0.2.44]}\n";

/// `kubectl` with nothing but a kubeconfig.
fn kubectl(machine: &Machine, kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    Command::new(bindery_e2e::program::kubectl()?)
        .args(arguments)
        .env("HOME", machine.scratch.path())
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .context("cannot run kubectl")
}

/// The path that `up` prints after `export KUBECONFIG=`.
fn printed(machine: &mut Machine) -> Result<PathBuf> {
    let out = machine.process()?.out();
    let line = out
        .lines()
        .find_map(|line| line.strip_prefix("  export KUBECONFIG="));
    let path = line.with_context(|| format!("no kubeconfig in\n{out}"))?;
    ensure!(out.contains("\n  kubectl get dnszones,arecords\n"), "{out}");
    Ok(path.into())
}

/// What a socket answers to this, to its end.
fn exchange(port: u16, request: &str) -> Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A machine with the quickstart and a token, whose API listens on this address.
fn with_token(server: Server, host: &'static str) -> Result<(Machine, PathBuf)> {
    let mut machine = Machine::idle(server)?;
    let token = machine.scratch.path().join("api.token");
    fs::write(&token, "0123456789abcdef0123456789abcdef\n")?;
    machine.copy_quickstart()?;
    machine.api_host = host;
    machine.extra = vec!["--token-file".to_owned(), token.display().to_string()];
    machine.start()?;
    Ok((machine, token))
}

fn the_kubeconfig_works_as_printed(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let path = printed(&mut machine)?;
    ensure!(
        path.starts_with(machine.data().canonicalize()?),
        "{}",
        path.display()
    );
    let mode = fs::metadata(&path)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let shown = text(&kubectl(&machine, &path, &["get", "dnszones,arecords"])?)?;
    ensure!(shown.contains("example-com"), "{shown}");
    Ok(())
}

fn kubectl_works_beyond_loopback(server: Server) -> Result<()> {
    // All addresses count as reachable by others, and this test asks by loopback.
    let (mut machine, _) = with_token(server, "0.0.0.0")?;
    let path = printed(&mut machine)?;
    let api = machine.api;
    let config = fs::read_to_string(&path)?;
    ensure!(
        config.contains(&format!("\"https://127.0.0.1:{api}\"")),
        "{config}"
    );
    ensure!(!config.contains("insecure"), "{config}");
    let shown = text(&kubectl(&machine, &path, &["get", "dnszones,arecords"])?)?;
    ensure!(shown.contains("example-com"), "{shown}");
    let file = machine.scratch.path().join("late.yaml");
    fs::write(&file, RECORD)?;
    text(&kubectl(
        &machine,
        &path,
        &["apply", "-f", &file.display().to_string()],
    )?)?;
    machine.resolves(&["late.example.com"], &["192.0.2.44"])?;

    // By another address of this machine, which the certificate has too.
    let other = machine.scratch.path().join("other");
    fs::write(
        &other,
        config.replace("https://127.0.0.1:", "https://localhost:"),
    )?;
    text(&kubectl(&machine, &other, &["get", "dnszones"])?)?;
    fs::write(
        &other,
        config.replace("https://127.0.0.1:", "https://127.0.0.2:"),
    )?;
    text(&kubectl(&machine, &other, &["get", "dnszones"])?)?;

    // Nobody gets in without the token, or in the clear.
    fs::write(
        &other,
        config.replace("0123456789abcdef", "0123456789abcdee"),
    )?;
    let refused = kubectl(&machine, &other, &["get", "dnszones"])?;
    ensure!(!refused.status.success(), "a wrong token is enough");
    let plain = format!("GET /version HTTP/1.1\r\nHost: 127.0.0.1:{api}\r\n\r\n");
    let answer = exchange(api, &plain)?;
    ensure!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("HTTPS"),
        "{answer}"
    );

    // A kubeconfig that was taken elsewhere goes on working after a restart.
    fs::write(&other, &config)?;
    machine.stop("TERM")?;
    machine.start()?;
    text(&kubectl(&machine, &other, &["get", "dnszones"])?).map(drop)
}

fn a_token_on_loopback_works_with_kubectl(server: Server) -> Result<()> {
    let (mut machine, token) = with_token(server, "127.0.0.1")?;
    let path = printed(&mut machine)?;
    text(&kubectl(&machine, &path, &["get", "dnszones"])?)?;
    // Programs that send it over plain HTTP, which stays on this machine, go on working.
    let api = machine.api;
    let ask = |token: &str| {
        exchange(
            api,
            &format!(
                "GET /version HTTP/1.1\r\nHost: localhost:{api}\r\nAuthorization: Bearer {}\r\n\
                 Connection: close\r\n\r\n",
                token.trim()
            ),
        )
    };
    let answer = ask(&fs::read_to_string(token)?)?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask("somebody else's")?;
    ensure!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    Ok(())
}

fn a_thousand_idle_connections_lock_nobody_out(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let mut socket = TcpStream::connect(("127.0.0.1", machine.api))?;
        // Some say nothing, some begin to ask, some have asked and stay.
        let said = match number % 3 {
            0 => String::new(),
            1 => "GET /version HTTP/1.1\r\n".to_owned(),
            _ => format!(
                "GET /version HTTP/1.1\r\nHost: localhost:{}\r\n\r\n",
                machine.api
            ),
        };
        // The server may have closed it already, which is what is wanted.
        socket.write_all(said.as_bytes()).ok();
        idle.push(socket);
        if number % 250 == 249 {
            machine.kubectl(&["get", "dnszones"])?;
        }
    }
    Ok(())
}

fn kubectl_get_ns_warns_of_nothing(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let output = machine.try_kubectl(&["get", "ns"])?;
    let shown = text(&output)?;
    ensure!(shown.contains("kube-system"), "{shown}");
    let warned = String::from_utf8_lossy(&output.stderr);
    ensure!(warned.is_empty(), "{warned}");
    // The short name of name server records.
    machine.kubectl(&["get", "nsr"]).map(drop)
}

fn what_get_prints_of_records_can_be_applied(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let kinds = "dnszones,arecords,dnsendpoints";
    let wait = [
        "wait",
        "--for=condition=Ready",
        "arecord/www",
        "--timeout=60s",
    ];
    machine.kubectl(&wait)?;
    // A status that is written in between makes what was printed an older version, as in any cluster.
    let told = until("no status in between", || {
        let printed = machine.kubectl(&["get", kinds, "-o", "yaml"])?;
        ensure!(printed.contains("kind: List"), "{printed}");
        match machine.apply(&printed, &[]) {
            Err(error) if format!("{error:#}").contains("(Conflict)") => Ok(None),
            told => told.map(Some),
        }
    })?;
    for object in ["dnszone", "arecord", "dnsendpoint"] {
        ensure!(told.contains(object), "{told}");
    }
    machine.kubectl(&wait)?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])
}
