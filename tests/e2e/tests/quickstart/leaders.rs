//! Two local primaries, one of which hangs, dies or loses its data: writing goes on, and nothing is lost.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::fleet::{ready, record, serial, zone};
use crate::losses::signal;
use crate::machine::{Machine, Server, fetch, until};

/// Cases that only `named` has: the built-in server runs in Bindery itself and cannot be stopped alone.
pub(crate) fn cases() -> Vec<crate::Case> {
    vec![
        (
            "quickstart::leaders::another_primary_leads_while_the_first_hangs",
            another_primary_leads_while_the_first_hangs,
        ),
        (
            "quickstart::leaders::a_leader_that_dies_while_away_is_brought_in_line",
            a_leader_that_dies_while_away_is_brought_in_line,
        ),
        (
            "quickstart::leaders::a_leader_that_lost_its_data_while_away_gets_it_back",
            a_leader_that_lost_its_data_while_away_gets_it_back,
        ),
        (
            "quickstart::leaders::a_secondary_that_hangs_is_out_of_rotation",
            a_secondary_that_hangs_is_out_of_rotation,
        ),
        (
            "quickstart::leaders::with_every_server_stopped_nothing_is_ready",
            with_every_server_stopped_nothing_is_ready,
        ),
        (
            "quickstart::leaders::servers_that_come_and_go_all_the_time_lose_nothing",
            servers_that_come_and_go_all_the_time_lose_nothing,
        ),
    ]
}

const DEGRADED: &str = "jsonpath={.status.conditions[?(@.type=='Degraded')].message}";

fn machine(server: Server, primaries: u16) -> Result<Machine> {
    let mut machine = Machine::idle(server)?.with_primaries(primaries)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.write("www.yaml", &record("www", "example", "192.0.2.1"))?;
    machine.start()?;
    ready(&machine, "arecord/www")?;
    ready(&machine, "dnszone/example")?;
    Ok(machine)
}

/// Writes what nobody declares on a server.
fn write_foreign(machine: &Machine, server: u16, name: &str, address: &str) -> Result<()> {
    machine.nsupdate_at(
        server,
        &format!("update add {name}.example.com 60 A {address}"),
    )
}

/// Does something while a `named` is stopped, and lets it go on whatever comes of it.
fn while_stopped<T>(
    machine: &Machine,
    folders: &[&str],
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    for folder in folders {
        signal(machine, folder, "STOP")?;
    }
    let done = act();
    for folder in folders {
        signal(machine, folder, "CONT").ok();
    }
    done
}

/// Both primaries have these names, at one serial, and the zone says that all is well.
fn comes_together(machine: &Machine, names: &[(&str, &str)]) -> Result<()> {
    all_have(machine, names).with_context(|| machine.log())
}

fn all_have(machine: &Machine, names: &[(&str, &str)]) -> Result<()> {
    for place in 0..2 {
        for (name, address) in names {
            machine.resolves_at(place, &[&format!("{name}.example.com")], &[address])?;
        }
    }
    ready(machine, "dnszone/example")?;
    until("one serial", || {
        Ok((serial(machine, 0)? == serial(machine, 1)?).then_some(()))
    })?;
    // What was there stays there.
    for place in 0..2 {
        for (name, address) in names {
            let found = machine.dig_at(place, &["+short", &format!("{name}.example.com")])?;
            ensure!(found == [*address], "server {place}: {name} is {found:?}");
        }
    }
    Ok(())
}

/// Declares a record while the first server is away, and sees it served by the other one.
fn publish_on_the_other(machine: &Machine, before: u32) -> Result<()> {
    machine.apply(&record("api", "example", "192.0.2.2"), &[])?;
    ready(machine, "arecord/api")?;
    // No waiting: Ready means that every server in rotation has it.
    let found = machine.dig_at(1, &["+short", "api.example.com"])?;
    ensure!(found == ["192.0.2.2"], "{found:?}");
    let serial = serial(machine, 1)?;
    ensure!(serial > before, "{serial} is not ahead of {before}");
    Ok(())
}

fn another_primary_leads_while_the_first_hangs(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    write_foreign(&machine, 0, "one", "192.0.2.91")?;
    write_foreign(&machine, 1, "two", "192.0.2.92")?;
    comes_together(&machine, &[("one", "192.0.2.91"), ("two", "192.0.2.92")])?;
    let before = serial(&machine, 0)?.max(serial(&machine, 1)?);
    // Nobody but the first has this one when it stops.
    write_foreign(&machine, 0, "unseen", "192.0.2.93")?;
    while_stopped(&machine, &["named"], || {
        publish_on_the_other(&machine, before)?;
        write_foreign(&machine, 1, "late", "192.0.2.94")?;
        machine.kubectl(&["delete", "arecord/www", "--wait=false"])?;
        machine.resolves_at(1, &["www.example.com"], &[])
    })?;
    comes_together(
        &machine,
        &[
            ("api", "192.0.2.2"),
            ("one", "192.0.2.91"),
            ("two", "192.0.2.92"),
            ("unseen", "192.0.2.93"),
            ("late", "192.0.2.94"),
        ],
    )?;
    for place in 0..2 {
        machine.resolves_at(place, &["www.example.com"], &[])?;
    }
    // The one that leads now hangs in its turn.
    let before = serial(&machine, 1)?;
    while_stopped(&machine, &["named-1"], || {
        machine.apply(&record("back", "example", "192.0.2.3"), &[])?;
        ready(&machine, "arecord/back")?;
        machine.resolves_at(0, &["back.example.com"], &["192.0.2.3"])?;
        ensure!(
            serial(&machine, 0)? > before,
            "it is ahead of every server's"
        );
        Ok(())
    })?;
    let names = [
        ("back", "192.0.2.3"),
        ("late", "192.0.2.94"),
        ("api", "192.0.2.2"),
    ];
    comes_together(&machine, &names)
}

fn a_leader_that_dies_while_away_is_brought_in_line(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    write_foreign(&machine, 0, "one", "192.0.2.91")?;
    comes_together(&machine, &[("one", "192.0.2.91")])?;
    let before = serial(&machine, 0)?;
    write_foreign(&machine, 0, "unseen", "192.0.2.93")?;
    while_stopped(&machine, &["named"], || {
        publish_on_the_other(&machine, before)?;
        write_foreign(&machine, 1, "late", "192.0.2.94")?;
        signal(&machine, "named", "KILL")
    })?;
    comes_together(
        &machine,
        &[
            ("www", "192.0.2.1"),
            ("api", "192.0.2.2"),
            ("one", "192.0.2.91"),
            ("unseen", "192.0.2.93"),
            ("late", "192.0.2.94"),
        ],
    )
}

fn a_leader_that_lost_its_data_while_away_gets_it_back(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    write_foreign(&machine, 0, "one", "192.0.2.91")?;
    comes_together(&machine, &[("one", "192.0.2.91")])?;
    let before = serial(&machine, 0)?;
    while_stopped(&machine, &["named"], || {
        publish_on_the_other(&machine, before)?;
        write_foreign(&machine, 1, "late", "192.0.2.94")?;
        for entry in fs::read_dir(machine.data().join("named/zones"))? {
            fs::remove_file(entry?.path())?;
        }
        signal(&machine, "named", "KILL")
    })?;
    comes_together(
        &machine,
        &[
            ("www", "192.0.2.1"),
            ("api", "192.0.2.2"),
            ("one", "192.0.2.91"),
            ("late", "192.0.2.94"),
        ],
    )?;
    ensure!(serial(&machine, 0)? > before, "the serial only grows");
    Ok(())
}

fn a_secondary_that_hangs_is_out_of_rotation(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_secondaries(2)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.start()?;
    ready(&machine, "dnszone/example")?;
    let address = format!("127.0.0.1:{}", machine.dns + 2);
    let is_counted = |machine: &Machine, number: &str| {
        let line = format!("server=\"{address}\"");
        until("the metric", || {
            let (_, page) = fetch(machine.metrics, "/metrics")?;
            let mut lines = page.lines();
            let found = lines
                .find(|one| one.starts_with("bindery_server_in_rotation") && one.contains(&line));
            Ok(found.is_some_and(|one| one.ends_with(number)).then_some(()))
        })
    };
    is_counted(&machine, " 1")?;
    while_stopped(&machine, &["named-2"], || {
        for number in 1..=3 {
            let (name, value) = (format!("h{number}"), format!("192.0.2.{number}"));
            machine.apply(&record(&name, "example", &value), &[])?;
            ready(&machine, &format!("arecord/{name}"))?;
            machine.resolves_at(1, &[&format!("{name}.example.com")], &[&value])?;
        }
        is_counted(&machine, " 0")?;
        let said = until("the zone names it", || {
            let said = machine.kubectl(&["get", "dnszone/example", "-o", DEGRADED])?;
            Ok(said.contains(&address).then_some(said))
        })?;
        ensure!(said.matches(&address).count() == 1, "{said}");
        let status =
            machine.kubectl(&["get", "dnszone/example", "-o", "jsonpath={.status.servers}"])?;
        ensure!(
            status.contains(&format!("{{\"address\":\"{address}\",\"ready\":false")),
            "{status}"
        );
        Ok(())
    })?;
    is_counted(&machine, " 1")?;
    for number in 1..=3 {
        let found = machine.dig_at(2, &["+short", &format!("h{number}.example.com")])?;
        ensure!(
            found == [format!("192.0.2.{number}")],
            "it counts only when it caught up: {found:?}"
        );
    }
    ready(&machine, "dnszone/example")
}

fn with_every_server_stopped_nothing_is_ready(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    let status = ".status.conditions[?(@.type=='Ready')].status";
    while_stopped(&machine, &["named", "named-1"], || {
        machine.says("arecord/www", status, "False")?;
        machine.says("dnszone/example", status, "False")?;
        machine.apply(&record("api", "example", "192.0.2.2"), &[])?;
        machine.says("arecord/api", status, "False")
    })?;
    for object in ["arecord/www", "arecord/api", "dnszone/example"] {
        ready(&machine, object)?;
    }
    comes_together(&machine, &[("www", "192.0.2.1"), ("api", "192.0.2.2")])
}

fn servers_that_come_and_go_all_the_time_lose_nothing(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    write_foreign(&machine, 0, "one", "192.0.2.91")?;
    write_foreign(&machine, 1, "two", "192.0.2.92")?;
    let mut wanted = vec![
        ("one".to_owned(), "192.0.2.91".to_owned()),
        ("two".to_owned(), "192.0.2.92".to_owned()),
        ("www".to_owned(), "192.0.2.1".to_owned()),
    ];
    for round in 0..8_u16 {
        let folder = if round % 2 == 0 { "named" } else { "named-1" };
        let (name, value) = (format!("r{round}"), format!("192.0.2.{}", 10 + round));
        let (theirs, their_value) = (format!("f{round}"), format!("192.0.2.{}", 110 + round));
        // The other one is there all the time, for others too.
        let other = 1 - round % 2;
        while_stopped(&machine, &[folder], || {
            machine.apply(&record(&name, "example", &value), &[])?;
            write_foreign(&machine, other, &theirs, &their_value)?;
            // Sometimes it is back before anybody noticed, sometimes it is not.
            if round % 3 == 0 {
                ready(&machine, &format!("arecord/{name}"))?;
            }
            Ok(())
        })?;
        wanted.extend([(name, value), (theirs, their_value)]);
    }
    let names: Vec<(&str, &str)> = wanted
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    comes_together(&machine, &names)
}
