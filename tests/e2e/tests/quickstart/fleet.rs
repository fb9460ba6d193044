//! Zones and records on one primary and two secondaries: spreading, drift, the guard, edits, losses.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, PATIENCE, Server, run, text, until};

crate::cases!(
    every_server_has_what_is_ready,
    edits_of_the_zone_are_applied_live,
    drift_is_mended_and_what_others_wrote_is_counted,
    removing_too_much_is_held,
    name_servers_of_the_zone_come_and_go_while_some_are_declared,
    a_zone_with_data_in_it_goes_only_by_its_authors_word,
    records_move_between_zones_with_their_labels,
    a_set_of_several_objects_loses_one_value_at_a_time,
);

pub(crate) fn fleet(server: Server) -> Result<Machine> {
    let mut machine = Machine::idle(server)?.with_secondaries(2)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.start()?;
    Ok(machine)
}

const GUARDED: &str = ".status.conditions[?(@.type=='Guarded')].status";

pub(crate) fn zone(name: &str, apex: &str, more: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\n\
         metadata: {{name: {name}, namespace: default}}\n\
         spec:\n  zoneName: {apex}\n  ttl: 60\n{more}\
         \x20 recordsFrom: [{{selector: {{matchLabels: {{zone: {name}}}}}}}]\n"
    )
}

pub(crate) fn record(name: &str, zone: &str, address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: {name}, namespace: default, labels: {{zone: {zone}}}}}\n\
         spec: {{name: {name}, ipv4Addresses: [{address}]}}\n---\n"
    )
}

pub(crate) fn ready(machine: &Machine, object: &str) -> Result<()> {
    let patience = format!("--timeout={}s", PATIENCE.as_secs());
    machine
        .kubectl(&["wait", "--for=condition=Ready", object, &patience])
        .map(drop)
}

pub(crate) fn serial(machine: &Machine, server: u16) -> Result<u32> {
    let soa = machine
        .dig_at(server, &["+short", "example.com", "SOA"])?
        .join("");
    soa.split(' ')
        .nth(2)
        .and_then(|serial| serial.parse().ok())
        .with_context(|| format!("{soa:?} is no SOA"))
}

fn every_server_has_what_is_ready(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    for number in 1..20 {
        let address = format!("192.0.2.{number}");
        let name = format!("h{number}");
        machine.apply(&record(&name, "example", &address), &[])?;
        ready(&machine, &format!("arecord/{name}"))?;
        // No waiting: Ready means that every server has it.
        for place in 0..3 {
            let found = machine.dig_at(place, &["+short", &format!("{name}.example.com")])?;
            ensure!(found == [address.as_str()], "server {place}: {found:?}");
        }
    }
    let path = "jsonpath={.status.servers[*].serial} {.status.servers[*].role}";
    let wanted = serial(&machine, 0)?;
    let wanted = format!("{wanted} {wanted} {wanted} primary secondary secondary");
    until("the zone's status", || {
        let said = machine.kubectl(&["get", "dnszone/example", "-o", path])?;
        Ok((said == wanted).then_some(()))
    })
}

fn edits_of_the_zone_are_applied_live(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    machine.apply(&record("www", "example", "192.0.2.1"), &[])?;
    ready(&machine, "arecord/www")?;
    let before = serial(&machine, 0)?;
    let edited = "  soaRecord: {negativeTtl: 7}\n  nameServers:\n  - {hostname: a.example.com., \
                  ipv4Address: 192.0.2.53}\n  - {hostname: ns.example.net.}\n";
    machine.write("zone.yaml", &zone("example", "example.com", edited))?;
    for place in 0..3 {
        let names = ["a.example.com.", "ns.example.net."];
        machine.resolves_at(place, &["example.com", "NS"], &names)?;
        machine.resolves_at(place, &["a.example.com"], &["192.0.2.53"])?;
        until("the SOA", || {
            let soa = machine.dig_at(place, &["+short", "example.com", "SOA"])?;
            Ok(soa.join("").ends_with(" 7").then_some(()))
        })?;
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.1"])?;
    }
    ensure!(serial(&machine, 0)? > before, "the serial only grows");
    ensure!(machine.dig(&["+short", "ns1.example.com"])?.is_empty());
    ready(&machine, "dnszone/example")
}

fn drift_is_mended_and_what_others_wrote_is_counted(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    machine.apply(&record("www", "example", "192.0.2.1"), &[])?;
    ready(&machine, "arecord/www")?;
    machine.nsupdate(
        "update delete www.example.com A\n\
         update add theirs.example.com 60 A 192.0.2.99",
    )?;
    for place in 0..3 {
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.1"])?;
        machine.resolves_at(place, &["theirs.example.com"], &["192.0.2.99"])?;
    }
    machine.says("dnszone/example", ".status.foreignCount", "1")?;
    machine.write(
        "zone.yaml",
        &zone("example", "example.com", "  exclusive: true\n"),
    )?;
    for place in 0..3 {
        machine.resolves_at(place, &["theirs.example.com"], &[])?;
    }
    machine.says("dnszone/example", ".status.foreignCount", "0")?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])
}

fn removing_too_much_is_held(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    let all: String = (1..=30)
        .map(|number| {
            record(
                &format!("h{number}"),
                "example",
                &format!("192.0.2.{number}"),
            )
        })
        .collect();
    machine.apply(&all, &[])?;
    machine.says("dnszone/example", ".status.recordsCount", "30")?;
    machine.kubectl(&["delete", "arecord", "--all", "--wait=false"])?;
    machine.says("dnszone/example", GUARDED, "True")?;
    let message = "jsonpath={.status.conditions[?(@.type=='Guarded')].message}";
    // Objects go on arriving, so the plan is what it is when it rests.
    let answered = until("the rest is let through", || {
        let said = machine.kubectl(&["get", "dnszone/example", "-o", message])?;
        let Some(command) = said.split("kubectl ").nth(1) else {
            return Ok(Some(()));
        };
        let words: Vec<&str> = command.split(' ').collect();
        machine.kubectl(&words)?;
        Ok(None)
    });
    answered?;
    until("all are gone", || {
        let left = machine.kubectl(&["get", "arecord", "-o", "name"])?;
        Ok(left.trim().is_empty().then_some(()))
    })?;
    machine.resolves(&["h30.example.com"], &[])
}

fn name_servers_of_the_zone_come_and_go_while_some_are_declared(server: Server) -> Result<()> {
    let servers = |names: &[&str]| {
        let list = names.iter().map(|name| format!("{{hostname: {name}}}"));
        let list: Vec<String> = list.collect();
        let more = format!("  nameServers: [{}]\n", list.join(", "));
        zone("example", "example.com", &more)
    };
    let answers = |machine: &Machine, names: &[&str]| {
        let mut places = 0..3;
        places.try_for_each(|place| machine.resolves_at(place, &["example.com", "NS"], names))
    };
    let (a, b, c) = ("a.example.net.", "b.example.net.", "c.example.net.");
    let machine = fleet(server)?;
    machine.write("zone.yaml", &servers(&[a, b]))?;
    answers(&machine, &[a, b])?;
    ready(&machine, "dnszone/example")?;
    machine.write("zone.yaml", &servers(&[a]))?;
    answers(&machine, &[a])?;

    // One that an object declares, too, while the zone has others.
    machine.apply(
        &format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: NSRecord\n\
             metadata: {{name: more, namespace: default, labels: {{zone: example}}}}\n\
             spec: {{name: '@', nameserver: {c}}}\n"
        ),
        &[],
    )?;
    answers(&machine, &[a, c])?;
    ready(&machine, "nsrecord/more")?;
    machine.kubectl(&["delete", "nsrecord/more", "--timeout=60s"])?;
    answers(&machine, &[a])?;
    machine.says("dnszone/example", GUARDED, "")?;
    ready(&machine, "dnszone/example")
}

/// A namespace takes no zone with data along; a deletion by name does, unless others wrote into it.
fn a_zone_with_data_in_it_goes_only_by_its_authors_word(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    machine.kubectl(&["create", "namespace", "team"])?;
    let in_team = |yaml: &str| yaml.replace("namespace: default", "namespace: team");
    for (zone_name, apex) in [("one", "one.example"), ("two", "two.example")] {
        machine.apply(&in_team(&zone(zone_name, apex, "")), &[])?;
        machine.apply(&in_team(&record(zone_name, zone_name, "192.0.2.1")), &[])?;
        machine.resolves(&[&format!("{zone_name}.{apex}")], &["192.0.2.1"])?;
    }
    // By name, and nothing in it but what is declared: at once.
    machine.kubectl(&["delete", "-n", "team", "dnszone/one", "--timeout=60s"])?;
    machine.resolves(&["one.one.example"], &[])?;

    machine.kubectl(&["delete", "namespace", "team", "--wait=false"])?;
    let message = "jsonpath={.status.conditions[?(@.type=='Guarded')].message}";
    let said = until("the zone is held", || {
        let said = machine.kubectl(&["get", "-n", "team", "dnszone/two", "-o", message])?;
        Ok((!said.is_empty()).then_some(said))
    })?;
    ensure!(said.contains("namespace team is being deleted"), "{said}");
    machine.resolves(&["two.two.example"], &["192.0.2.1"])?;
    let command = said.split("kubectl ").nth(1).context("it has a command")?;
    let_through(&machine, command)?;
    machine.kubectl(&["wait", "--for=delete", "namespace/team", "--timeout=60s"])?;
    machine.resolves(&["two.two.example"], &[])
}

/// Runs the command that a condition tells.
fn let_through(machine: &Machine, command: &str) -> Result<()> {
    let words: Vec<&str> = command.split(' ').collect();
    machine.kubectl(&words).map(drop)
}

fn records_move_between_zones_with_their_labels(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    machine.apply(&zone("other", "example.net", ""), &[])?;
    machine.apply(&record("www", "example", "192.0.2.1"), &[])?;
    ready(&machine, "arecord/www")?;
    machine.kubectl(&["label", "arecord/www", "zone=other", "--overwrite"])?;
    machine.resolves(&["www.example.net"], &["192.0.2.1"])?;
    machine.resolves(&["www.example.com"], &[])?;
    machine.says("arecord/www", ".status.zone", "example.net")?;
    let mark = ".metadata.annotations.bindy\\.firestoned\\.io/zone";
    machine.says("arecord/www", mark, "example.net")?;
    machine.kubectl(&["label", "arecord/www", "zone-"])?;
    machine.resolves(&["www.example.net"], &[])?;
    let reason = ".status.conditions[?(@.type=='Ready')].reason";
    machine.says("arecord/www", reason, "NotSelected")
}

fn a_set_of_several_objects_loses_one_value_at_a_time(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    let text_record = |name: &str, text: &str, ttl: u32| {
        format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: TXTRecord\n\
             metadata: {{name: {name}, namespace: default, labels: {{zone: example}}}}\n\
             spec: {{name: '@', ttl: {ttl}, text: ['{text}']}}\n---\n"
        )
    };
    machine.apply(&text_record("spf", "v=spf1 -all", 60), &[])?;
    machine.apply(&text_record("proof", "site=1", 300), &[])?;
    ready(&machine, "txtrecord/spf")?;
    ready(&machine, "txtrecord/proof")?;
    machine.resolves(&["example.com", "TXT"], &["\"site=1\"", "\"v=spf1 -all\""])?;
    machine.kubectl(&["delete", "txtrecord/spf"])?;
    machine.resolves(&["example.com", "TXT"], &["\"site=1\""])
}

/// What waits for a server that does not come back goes when its author says so.
pub(crate) fn what_is_abandoned_does_not_wait_for_a_server(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_primaries(2)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.start()?;
    for name in ["www", "api"] {
        machine.apply(&record(name, "example", "192.0.2.1"), &[])?;
        ready(&machine, &format!("arecord/{name}"))?;
    }
    let lost = machine.data().join("named-1/named.pid");
    let pid = fs::read_to_string(&lost).with_context(|| lost.display().to_string())?;
    text(&run("kill", &["-s", "STOP", pid.trim()])?)?;
    let ended = (|| {
        // It has left the leader, and still waits for the server that might lead and bring it back.
        machine.kubectl(&["delete", "arecord/www", "--wait=false"])?;
        machine.resolves(&["www.example.com"], &[])?;
        let reason = ".status.conditions[?(@.type=='Ready')].reason";
        machine.says("dnszone/example", reason, "ServerBehind")?;
        machine.kubectl(&["get", "arecord/www"])?;
        abandon(&machine, "arecord/www")?;
        // The zone is not closed on the server either.
        fs::remove_file(machine.folder().join("zone.yaml"))?;
        machine.kubectl(&["delete", "dnszone/example", "--wait=false"])?;
        until("the leader has lost the zone", || {
            let soa = machine.dig(&["+short", "example.com", "SOA"])?;
            Ok(soa.is_empty().then_some(()))
        })?;
        machine.kubectl(&["get", "dnszone/example"])?;
        abandon(&machine, "dnszone/example")
    })();
    text(&run("kill", &["-s", "CONT", pid.trim()])?)?;
    ended
}

fn abandon(machine: &Machine, object: &str) -> Result<()> {
    machine.kubectl(&["annotate", object, "bindery.dev/abandon=true"])?;
    let patience = format!("--timeout={}s", PATIENCE.as_secs());
    machine
        .kubectl(&["wait", "--for=delete", object, &patience])
        .map(drop)
}

/// A primary that lost everything is given everything again, and secondaries never answer nothing.
pub(crate) fn a_primary_that_lost_its_data_gets_it_back(server: Server) -> Result<()> {
    let machine = fleet(server)?;
    machine.apply(&record("www", "example", "192.0.2.1"), &[])?;
    ready(&machine, "arecord/www")?;
    machine.nsupdate("update add theirs.example.com 60 A 192.0.2.99")?;
    machine.resolves_at(1, &["theirs.example.com"], &["192.0.2.99"])?;
    let folder = machine.data().join("named");
    let pid = fs::read_to_string(folder.join("named.pid"))?;
    text(&run("kill", &["-s", "STOP", pid.trim()])?)?;
    for entry in fs::read_dir(folder.join("zones"))? {
        fs::remove_file(entry?.path())?;
    }
    text(&run("kill", &["-s", "KILL", pid.trim()])?)?;
    until("the primary is back with its data", || {
        for place in 1..3 {
            let found = machine.dig_at(place, &["+short", "www.example.com"])?;
            ensure!(found == ["192.0.2.1"], "server {place} says {found:?}");
        }
        let found = machine
            .dig(&["+short", "www.example.com"])
            .unwrap_or_default();
        Ok((found == ["192.0.2.1"]).then_some(()))
    })?;
    machine.resolves(&["theirs.example.com"], &["192.0.2.99"])?;
    ready(&machine, "dnszone/example")
}
