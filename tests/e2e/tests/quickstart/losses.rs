//! Name servers that lose, damage or hold back their data: it comes back, and no serial goes back.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::fleet::{ready, record, serial, zone};
use crate::machine::{Machine, Server, run, text, until};

crate::cases!(
    a_zone_file_that_is_gone_or_damaged_is_rebuilt_beyond_its_serial,
    a_second_primary_with_a_damaged_file_is_rebuilt,
    a_zone_with_an_odd_name_is_served_and_deleted,
);

/// Cases that only `named` has.
pub(crate) fn named_cases() -> Vec<crate::Case> {
    vec![
        (
            "quickstart::losses::a_zone_that_rndc_deletes_comes_back_whole",
            a_zone_that_rndc_deletes_comes_back_whole,
        ),
        (
            "quickstart::losses::a_damaged_journal_is_survived",
            a_damaged_journal_is_survived,
        ),
        (
            "quickstart::losses::a_server_that_hangs_is_told_and_taken_back",
            a_server_that_hangs_is_told_and_taken_back,
        ),
        (
            "quickstart::losses::what_others_write_on_a_second_primary_is_kept",
            what_others_write_on_a_second_primary_is_kept,
        ),
    ]
}

const READY: &str = ".status.conditions[?(@.type=='Ready')].reason";
const THEIRS: &str = "update add theirs.example.com 60 A 192.0.2.99";

/// A machine with so many primaries and a zone with one record.
fn machine(server: Server, primaries: u16) -> Result<Machine> {
    let mut machine = Machine::idle(server)?.with_primaries(primaries)?;
    machine.write("zone.yaml", &zone("example", "example.com", ""))?;
    machine.write("www.yaml", &record("www", "example", "192.0.2.1"))?;
    machine.start()?;
    ready(&machine, "arecord/www")?;
    Ok(machine)
}

/// The file of the zone on one of the servers.
fn file(machine: &Machine, server: Server, index: u16) -> PathBuf {
    let suffix = match index {
        0 => String::new(),
        index => format!("-{index}"),
    };
    let folder = match server {
        Server::Named => format!("named{suffix}/zones"),
        Server::Builtin => format!("builtin{suffix}"),
    };
    machine.data().join(folder).join("example.com.zone")
}

/// Everything is served again on every server, with a newer serial, and said to be.
fn comes_right(machine: &Machine, servers: u16, before: u32) -> Result<()> {
    for place in 0..servers {
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.1"])?;
        until("a newer serial", || {
            Ok(serial(machine, place)
                .is_ok_and(|serial| serial > before)
                .then_some(()))
        })?;
    }
    ready(machine, "dnszone/example")?;
    ready(machine, "arecord/www")
}

/// What somebody or something does to a file.
type Harm = (&'static str, fn(&PathBuf) -> Result<()>);

const HARMS: [Harm; 4] = [
    ("gone", |path| Ok(fs::remove_file(path)?)),
    ("empty", |path| Ok(fs::write(path, "")?)),
    ("garbage", |path| Ok(fs::write(path, [7; 300])?)),
    ("cut", |path| {
        let bytes = fs::read(path)?;
        Ok(fs::write(path, &bytes[..bytes.len() * 2 / 3])?)
    }),
];

fn a_zone_file_that_is_gone_or_damaged_is_rebuilt_beyond_its_serial(server: Server) -> Result<()> {
    let mut machine = machine(server, 1)?;
    for (what, harm) in HARMS {
        let before = serial(&machine, 0)?;
        machine.stop("TERM")?;
        harm(&file(&machine, server, 0)).with_context(|| what.to_owned())?;
        machine.start().with_context(|| what.to_owned())?;
        comes_right(&machine, 1, before).with_context(|| what.to_owned())?;
    }
    Ok(())
}

fn a_second_primary_with_a_damaged_file_is_rebuilt(server: Server) -> Result<()> {
    let mut machine = machine(server, 2)?;
    for (what, harm) in HARMS {
        machine.stop("TERM")?;
        harm(&file(&machine, server, 1)).with_context(|| what.to_owned())?;
        machine.start().with_context(|| what.to_owned())?;
        comes_right(&machine, 2, 0).with_context(|| what.to_owned())?;
    }
    Ok(())
}

fn a_zone_with_an_odd_name_is_served_and_deleted(server: Server) -> Result<()> {
    let machine = machine(server, 1)?;
    for name in [r"\046.test", r#"a\"\;b\032.test"#] {
        let yaml = format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\n\
             metadata: {{name: odd, namespace: default}}\nspec: {{zoneName: '{name}'}}\n"
        );
        machine.apply(&yaml, &[])?;
        ready(&machine, "dnszone/odd")?;
        ensure!(!machine.dig(&["+short", name, "SOA"])?.is_empty(), "{name}");
        machine.kubectl(&["delete", "dnszone/odd", "--timeout=60s"])?;
        ensure!(machine.dig(&["+short", name, "SOA"])?.is_empty(), "{name}");
    }
    Ok(())
}

/// The folder of a `named`, and what ends or stops it.
pub(crate) fn signal(machine: &Machine, folder: &str, signal: &str) -> Result<()> {
    let path = machine.data().join(folder).join("named.pid");
    let pid = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    text(&run("kill", &["-s", signal, pid.trim()])?).map(drop)
}

/// A command to the `named` in this folder, over its control channel.
fn rndc(machine: &Machine, folder: &str, command: &[&str]) -> Result<()> {
    let conf = fs::read_to_string(machine.data().join(folder).join("named.conf"))?;
    let port = conf.split("inet 127.0.0.1 port ").nth(1);
    let port = port.and_then(|rest| rest.split(' ').next());
    let key = conf.find("key \"bindery-control");
    let key = key.and_then(|at| conf[at..].split_inclusive("};").next());
    let path = machine.scratch.path().join("rndc.key");
    fs::write(&path, key.context("the configuration has a control key")?)?;
    let path = path.display().to_string();
    let port = port.context("the configuration has a control channel")?;
    let line = [&["-s", "127.0.0.1", "-k", &path, "-p", port], command].concat();
    text(&run("rndc", &line)?).map(drop)
}

/// A zone that somebody deletes behind our back comes back with what others wrote.
fn a_zone_that_rndc_deletes_comes_back_whole(server: Server) -> Result<()> {
    let machine = machine(server, 1)?;
    machine.nsupdate(THEIRS)?;
    machine.says("dnszone/example", ".status.foreignCount", "1")?;
    let before = serial(&machine, 0)?;
    rndc(&machine, "named", &["delzone", "example.com"])?;
    comes_right(&machine, 1, before)?;
    machine.resolves(&["theirs.example.com"], &["192.0.2.99"])
}

/// A journal that cannot be read costs what only it held, on a running and on a stopped machine.
fn a_damaged_journal_is_survived(server: Server) -> Result<()> {
    for primaries in [1, 2] {
        let mut machine = machine(server, primaries)?;
        for folder in ["named", "named-1"].into_iter().take(primaries.into()) {
            machine.nsupdate(THEIRS)?;
            machine.says("dnszone/example", ".status.foreignCount", "1")?;
            ready(&machine, "dnszone/example")?;
            let journal = machine
                .data()
                .join(folder)
                .join("zones/example.com.zone.jnl");
            let harm = || -> Result<()> {
                let mut bytes = fs::read(&journal).context("there is a journal")?;
                let middle = bytes.len() / 2;
                bytes[middle..].fill(0x5a);
                Ok(fs::write(&journal, bytes)?)
            };
            // `named` alone: Bindery remembers everything.
            let before = serial(&machine, 0)?;
            signal(&machine, folder, "STOP")?;
            harm()?;
            signal(&machine, folder, "KILL")?;
            comes_right(
                &machine,
                primaries,
                if folder == "named" { before } else { 0 },
            )?;
            machine.resolves(&["theirs.example.com"], &["192.0.2.99"])?;
        }
        let before = serial(&machine, 0)?;
        machine.stop("KILL")?;
        signal(&machine, "named", "KILL").ok();
        fs::remove_file(machine.data().join("named/zones/example.com.zone.jnl")).ok();
        machine.start()?;
        comes_right(&machine, primaries, before - 1)?;
    }
    Ok(())
}

/// A server that hangs is named, whichever it is, and its return is seen.
fn a_server_that_hangs_is_told_and_taken_back(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    for folder in ["named", "named-1"] {
        ready(&machine, "dnszone/example")?;
        signal(&machine, folder, "STOP")?;
        // The other one leads.
        let told = machine.says("dnszone/example", READY, "ServerBehind");
        signal(&machine, folder, "CONT")?;
        told?;
    }
    ready(&machine, "dnszone/example")
}

/// A record that others wrote on the second primary only is kept, on both.
fn what_others_write_on_a_second_primary_is_kept(server: Server) -> Result<()> {
    let machine = machine(server, 2)?;
    ready(&machine, "dnszone/example")?;
    machine.nsupdate_at(1, THEIRS)?;
    for place in 0..2 {
        machine.resolves_at(place, &["theirs.example.com"], &["192.0.2.99"])?;
    }
    machine.says("dnszone/example", ".status.foreignCount", "1")?;
    machine.write("www.yaml", &record("www", "example", "192.0.2.7"))?;
    for place in 0..2 {
        machine.resolves_at(place, &["www.example.com"], &["192.0.2.7"])?;
        machine.resolves_at(place, &["theirs.example.com"], &["192.0.2.99"])?;
    }
    ready(&machine, "dnszone/example")
}
