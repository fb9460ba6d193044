//! `bindery up examples/loadbalancer`: a Service from its endpoints to its name, and how that is seen.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::process::free_port;
use serde_json::Value;

use crate::ask::{ask, has, printed};
use crate::machine::{Machine, Server, fetch, run, text, until};

crate::cases!(
    the_example_is_seen_from_its_endpoints_to_its_name,
    a_service_that_gets_no_address_says_what_to_do,
);

const POOL: &str = include_str!("../../../../examples/loadbalancer/pool.yaml");
const WEB: &str = include_str!("../../../../examples/loadbalancer/web.yaml");
const ZONE: &str = include_str!("../../../../examples/loadbalancer/zone.yaml");
const PAGE: &str = include_str!("../../../../docs/load-balancers.md");

/// A machine with the example on it; the port of its Service and its endpoints is another one, which is free.
fn example(server: Server, files: &[(&str, &str)]) -> Result<(Machine, u16)> {
    let mut machine = Machine::idle(server)?;
    let port = free_port()?;
    for (name, content) in files {
        machine.write(name, &content.replace("8080", &port.to_string()))?;
    }
    machine.start()?;
    Ok((machine, port))
}

/// Answers whoever connects with its own address, for as long as the case runs.
fn answer_at(host: &str, port: u16) -> Result<()> {
    let listener = TcpListener::bind((host, port)).context("an endpoint of the example")?;
    let name = host.to_owned();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            client.write_all(name.as_bytes()).ok();
        }
    });
    Ok(())
}

/// The way of a Service once its last line is this.
fn explained(machine: &Machine, end: &str) -> Result<String> {
    let mut seen = String::new();
    let found = until(end, || {
        seen = printed(&ask(machine, &["explain", "service/web"])?);
        Ok(seen.trim_end().ends_with(end).then(|| seen.clone()))
    });
    found.with_context(|| format!("{seen}\n{}", machine.log()))
}

fn the_example_is_seen_from_its_endpoints_to_its_name(server: Server) -> Result<()> {
    let files = [("pool.yaml", POOL), ("web.yaml", WEB), ("zone.yaml", ZONE)];
    let (mut machine, port) = example(server, &files)?;
    let web = WEB.replace("8080", &port.to_string());
    for host in ["127.0.0.2", "127.0.0.3"] {
        answer_at(host, port)?;
    }
    let shown = explained(&machine, "it is served as declared")?;
    it_is_what_the_page_says(&shown, port, machine.dns)?;

    // Who asks for the name reaches an endpoint.
    let dns = machine.dns.to_string();
    let found = text(&run(
        "dig",
        &["@127.0.0.1", "-p", &dns, "+short", "web.lab.example"],
    )?)?;
    let address: SocketAddr = format!("{}:{port}", found.trim()).parse()?;
    let mut answer = String::new();
    TcpStream::connect(address)?.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("127.0.0."), "{answer:?}");

    until("everything is ready", || {
        let status = ask(&machine, &["status"])?;
        let is_ready = status.status.success();
        Ok(is_ready
            .then(|| printed(&status))
            .filter(|all| all.contains("load balancers  1/1 ready")))
    })?;
    machines_read_it_too(&machine)?;

    // Nobody answers any more, which is where the way stops.
    let (service, _) = web
        .split_once("  - addresses")
        .context("it has endpoints")?;
    machine.write(
        "web.yaml",
        &service.replace("endpoints:\n", "endpoints: []\n"),
    )?;
    let shown = explained(&machine, "it stops at: endpoints")?;
    has(&shown, &["no endpoint is ready, so that nobody answers"])?;
    let ended = machine.stop("TERM")?;
    ensure!(ended.success(), "{ended}\n{}", machine.log());
    Ok(())
}

/// Compares an answer with the example of the page, in which ports and serials are others.
fn it_is_what_the_page_says(shown: &str, port: u16, dns: u16) -> Result<()> {
    let (_, rest) = PAGE
        .split_once("$ bindery explain service/web\n")
        .context("the page has an example")?;
    let wanted = rest.split("```").next().unwrap_or_default();
    let wanted = wanted
        .replace("8080", &port.to_string())
        .replace("5300", &dns.to_string());
    let without_serial = |text: &str| -> Vec<String> {
        let lines = text.trim_end().lines();
        lines
            .map(|line| line.split(" serial ").next().unwrap_or_default().to_owned())
            .collect()
    };
    let (shown, wanted) = (without_serial(shown), without_serial(&wanted));
    ensure!(shown == wanted, "{shown:#?}\n{wanted:#?}");
    Ok(())
}

fn machines_read_it_too(machine: &Machine) -> Result<()> {
    let (code, page) = fetch(machine.metrics, "/debug/difftracker/services")?;
    ensure!(code == 200, "{page}");
    let page: Value = serde_json::from_str(&page)?;
    let service = &page["services"][0];
    ensure!(service["name"] == "web", "{page}");
    ensure!(service["carriesTraffic"] == true, "{page}");
    ensure!(service["endpoints"]["bound"] == 2, "{page}");
    let (_, page) = fetch(machine.metrics, "/metrics")?;
    has(
        &page,
        &[
            "engine_service_operations_total{operation=\"create\",status=\"success\"} 1",
            "engine_pending_service_operations{state=\"created\"} 1",
            "engine_location_addresses_synced{action=\"add\"} 2",
        ],
    )
}

fn a_service_that_gets_no_address_says_what_to_do(server: Server) -> Result<()> {
    let (machine, _) = example(server, &[("web.yaml", WEB), ("zone.yaml", ZONE)])?;
    let shown = explained(&machine, "it stops at: address")?;
    has(&shown, &["there is no AddressPool: apply one"])?;
    let status = ask(&machine, &["status"])?;
    ensure!(!status.status.success(), "a Service is not ready");
    has(
        &printed(&status),
        &["load balancers  0/1 ready", "service/default/web"],
    )?;
    let (_, page) = fetch(machine.metrics, "/debug/difftracker/buffered")?;
    let page: Value = serde_json::from_str(&page)?;
    ensure!(page["endpoints"] == 2, "{page}");
    ensure!(page["buffered"][0]["name"] == "web", "{page}");

    // The pool comes, and with it everything else.
    machine.write("pool.yaml", POOL)?;
    explained(&machine, "it is served as declared")?;
    let empty = until("nothing waits", || {
        let (_, page) = fetch(machine.metrics, "/debug/difftracker/buffered")?;
        let page: Value = serde_json::from_str(&page)?;
        Ok((page["total"] == 0).then_some(page))
    })?;
    ensure!(empty["endpoints"] == 0, "{empty}");
    Ok(())
}
