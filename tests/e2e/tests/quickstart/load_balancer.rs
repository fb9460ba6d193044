//! A Service with an address of a pool, a name, and traffic to its endpoints: the example, on one machine and
//! without privileges.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};

crate::cases!(
    a_service_gets_an_address_a_name_and_traffic_and_loses_them_in_order,
    a_service_without_a_pool_says_so_and_gets_its_address_when_there_is_one,
);

/// The manifests of the example.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loadbalancer");
const INGRESS: &str = ".status.loadBalancer.ingress[0].ip";
const REASON: &str = ".status.conditions[?(@.type=='Programmed')].reason";

/// Two backends that say their address, and the port that both have.
fn backends() -> Result<u16> {
    let first = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0))?;
    let port = first.local_addr()?.port();
    let second = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 3), port))?;
    for listener in [first, second] {
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), Ok(address)) = (stream, listener.local_addr()) else {
                    continue;
                };
                let _ = stream.write_all(address.ip().to_string().as_bytes());
            }
        });
    }
    Ok(port)
}

/// The example with that port, addresses of a range of its own and a TTL that passes soon.
fn example(port: u16, third: u8) -> Result<Machine> {
    let machine = Machine::idle(Server::Builtin)?;
    for file in fs::read_dir(EXAMPLE).context("the example is there")? {
        let file = file?;
        let text = fs::read_to_string(file.path())?;
        let text = text
            .replace("8080", &port.to_string())
            .replace("127.0.10.0", &format!("127.0.{third}.0"))
            .replace("ttl: \"60\"", "ttl: \"1\"");
        machine.write(&file.file_name().to_string_lossy(), &text)?;
    }
    Ok(machine)
}

/// Who answers at the Service's address.
fn heard(front: SocketAddr) -> Result<String> {
    let patience = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&front, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn a_service_gets_an_address_a_name_and_traffic_and_loses_them_in_order(_: Server) -> Result<()> {
    let port = backends()?;
    let mut machine = example(port, 11)?;
    machine.start()?;
    machine.says("service/web", INGRESS, "127.0.11.1")?;
    machine.resolves(&["web.lab.example"], &["127.0.11.1"])?;
    // No waiting: a name is there only when its address carries traffic.
    let front = SocketAddr::from((Ipv4Addr::new(127, 0, 11, 1), port));
    let answered: Vec<String> = (0..20).map(|_| heard(front)).collect::<Result<_>>()?;
    for backend in ["127.0.0.2", "127.0.0.3"] {
        ensure!(answered.iter().any(|one| one == backend), "{answered:?}");
    }

    // An endpoint that goes gets no more connections.
    let endpoints = r#"{"endpoints":[{"addresses":["127.0.0.3"]}]}"#;
    let slice = [
        "patch",
        "endpointslice/web",
        "--type=merge",
        "-p",
        endpoints,
    ];
    machine.kubectl(&slice)?;
    until("only one backend is asked", || {
        let answered: Vec<String> = (0..20).map(|_| heard(front)).collect::<Result<_>>()?;
        Ok(answered.iter().all(|one| one == "127.0.0.3").then_some(()))
    })?;

    // A status that somebody cleared is written again, and a restart changes nothing.
    let cleared = r#"{"status":{"loadBalancer":{"ingress":null}}}"#;
    let patch = [
        "patch",
        "service/web",
        "--subresource=status",
        "--type=merge",
        "-p",
        cleared,
    ];
    machine.kubectl(&patch)?;
    machine.says("service/web", INGRESS, "127.0.11.1")?;
    machine.stop("KILL")?;
    machine.start()?;
    machine.says("service/web", INGRESS, "127.0.11.1")?;
    until("traffic goes on", || Ok(heard(front).is_ok().then_some(())))?;
    machine.resolves(&["web.lab.example"], &["127.0.11.1"])?;

    // The name goes before the address.
    machine.kubectl(&["delete", "service/web", "--wait=false"])?;
    machine.resolves(&["web.lab.example"], &[])?;
    until("nobody listens any more", || {
        Ok(heard(front).is_err().then_some(()))
    })?;
    until("the Service is gone", || {
        let found = machine.kubectl(&["get", "service/web"]);
        Ok(found.is_err().then_some(()))
    })
}

fn a_service_without_a_pool_says_so_and_gets_its_address_when_there_is_one(
    _: Server,
) -> Result<()> {
    let port = backends()?;
    let mut machine = example(port, 12)?;
    let pool = fs::read_to_string(machine.folder().join("pool.yaml"))?;
    fs::remove_file(machine.folder().join("pool.yaml"))?;
    machine.start()?;
    machine.says("service/web", REASON, "NoAddressPool")?;
    machine.resolves(&["web.lab.example"], &[])?;
    machine.apply(&pool, &[])?;
    machine.says("service/web", INGRESS, "127.0.12.1")?;
    machine.resolves(&["web.lab.example"], &["127.0.12.1"])
}
