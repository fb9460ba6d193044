//! Two clusters of name servers on one machine: a name on both, and a zone that moves.

use anyhow::{Result, ensure};

use crate::fleet::{ready, record, zone};
use crate::machine::{Machine, Server, until};

crate::cases!(
    two_zones_of_one_name_live_on_different_servers,
    servers_that_a_zone_leaves_stop_serving_it,
    a_zone_that_moved_while_nobody_looked_is_not_left_behind,
);

/// The usual primary and its secondary, then those of the cluster.
const OUTSIDE: [u16; 2] = [0, 1];
const INSIDE: [u16; 2] = [2, 3];

fn machine(server: Server) -> Result<Machine> {
    let machine = Machine::idle(server)?.with_secondaries(1)?;
    let mut machine = machine.with_cluster("internal=1+1", 2)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.write("www.yaml", &record("www", "example", "192.0.2.1"))?;
    machine.start()?;
    ready(&machine, "arecord/www")?;
    Ok(machine)
}

/// Waits until a server does not serve the zone.
fn refuses(machine: &Machine, server: u16) -> Result<()> {
    until("the zone is not served", || {
        let answer = machine.dig_at(server, &["example.com", "SOA"])?;
        let refused = answer.iter().any(|line| line.contains("status: REFUSED"));
        Ok(refused.then_some(()))
    })
}

fn two_zones_of_one_name_live_on_different_servers(server: Server) -> Result<()> {
    let machine = machine(server)?;
    let inside = zone("inside", "Example.COM", "  clusterRef: internal\n");
    machine.apply(&inside, &[])?;
    let www =
        record("www", "inside", "10.0.0.1").replace("name: www, namespace", "name: in, namespace");
    machine.apply(&www, &[])?;
    ready(&machine, "dnszone/inside")?;
    ready(&machine, "arecord/in")?;
    // No waiting: Ready means that every server of its own zone has it.
    for (servers, address) in [(OUTSIDE, "192.0.2.1"), (INSIDE, "10.0.0.1")] {
        for place in servers {
            let found = machine.dig_at(place, &["+short", "www.example.com"])?;
            ensure!(found == [address], "server {place}: {found:?}");
        }
    }
    // A second one on the same servers is refused, in whatever case.
    machine.apply(
        &zone("second", "EXAMPLE.com", "  clusterRef: internal\n"),
        &[],
    )?;
    let reason = ".status.conditions[?(@.type=='Ready')].reason";
    machine.says("dnszone/second", reason, "DuplicateZone")?;
    // On servers that are not there it is not guessed where to put it.
    machine.apply(&zone("typo", "example.com", "  clusterRef: intern\n"), &[])?;
    machine.says("dnszone/typo", reason, "ClusterNotFound")?;
    machine.kubectl(&["delete", "dnszone/inside", "dnszone/second", "dnszone/typo"])?;
    for place in INSIDE {
        refuses(&machine, place)?;
    }
    let found = machine.dig(&["+short", "www.example.com"])?;
    ensure!(found == ["192.0.2.1"], "{found:?}");
    Ok(())
}

fn servers_that_a_zone_leaves_stop_serving_it(server: Server) -> Result<()> {
    let machine = machine(server)?;
    let moved = r#"{"spec":{"clusterRef":"internal"}}"#;
    machine.kubectl(&["patch", "dnszone/example", "--type=merge", "-p", moved])?;
    moved_inside(&machine)?;
    let back = r#"{"spec":{"clusterRef":null}}"#;
    machine.kubectl(&["patch", "dnszone/example", "--type=merge", "-p", back])?;
    for place in OUTSIDE {
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.1"])?;
    }
    for place in INSIDE {
        refuses(&machine, place)?;
    }
    Ok(())
}

fn moved_inside(machine: &Machine) -> Result<()> {
    for place in INSIDE {
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.1"])?;
    }
    for place in OUTSIDE {
        refuses(machine, place)?;
    }
    ready(machine, "dnszone/example")?;
    ready(machine, "arecord/www")
}

fn a_zone_that_moved_while_nobody_looked_is_not_left_behind(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    machine.stop("KILL")?;
    let moved = zone("example", "example.com", "  clusterRef: internal\n");
    machine.write("zone.yaml", &moved)?;
    machine.start()?;
    moved_inside(&machine)
}
