//! The manual test plan for label selectors, typed as it stands: its manifests, its commands.
//!
//! Where it reads logs for `nsupdate` and "zone transfer", what they stand for is looked at: one
//! step of the serial for one change, and that serial on every server.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, text, until};
use crate::stage::{Stage, dig_at, free_address, resolves_at};

crate::cases!(the_plan_works);

const ZONE: &str = include_str!("../../fixtures/manual-zone.yaml");
const RECORD: &str = include_str!("../../fixtures/manual-record.yaml");

/// The zone as somebody made it on a primary that Bindery does not manage.
const CREATED: &str = "\
test.example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
test.example.com. 300 IN NS ns.example.net.";

/// Where the plan is carried out.
struct Desk {
    /// How `kubectl` finds the API.
    flag: String,
    /// A folder for what is typed.
    folder: PathBuf,
    /// The primary first.
    servers: Vec<SocketAddr>,
}

fn the_plan_works(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_secondaries(2)?;
    machine.start()?;
    let ports = machine.dns..=machine.dns + 2;
    let desk = Desk {
        flag: format!("--server=http://127.0.0.1:{}", machine.api),
        folder: machine.scratch.path().to_owned(),
        servers: ports
            .map(|port| (Ipv4Addr::LOCALHOST, port).into())
            .collect(),
    };
    desk.carry_out()
}

pub(crate) fn the_plan_works_on_a_real_cluster(_: Server) -> Result<()> {
    let secondaries = [free_address()?, free_address()?];
    let stage = Stage::new(&secondaries)?;
    stage.create_zone("test.example.com", CREATED)?;
    let start = |address| stage.start_secondary(address, "test.example.com");
    let _running = secondaries
        .map(start)
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let mut servers = vec![stage.primary.address()];
    servers.extend(secondaries);
    let kubeconfig = stage.kubernetes.kubeconfig();
    let desk = Desk {
        flag: format!("--kubeconfig={}", kubeconfig.display()),
        folder: stage.scratch.path().to_owned(),
        servers,
    };
    desk.carry_out().with_context(|| stage.process.err())
}

impl Desk {
    fn carry_out(&self) -> Result<()> {
        self.kubectl("create namespace dns-system", "")?;
        self.kubectl("apply -f -", ZONE)?;
        self.kubectl("apply -f -", RECORD)?;
        self.shows("get dnszone test-zone -n dns-system -o yaml", |yaml| {
            let records = yaml.split("\n  records:\n").nth(1);
            records.is_some_and(|list| list.contains("name: www-test"))
        })?;
        self.shows("get arecord www-test -n dns-system -o yaml", |yaml| {
            yaml.contains("bindy.firestoned.io/zone: test.example.com")
        })?;
        self.answers("192.0.2.1")?;
        let wait = "wait --for=condition=Ready dnszone/test-zone -n dns-system --timeout=60s";
        self.kubectl(wait, "")?;
        let before = serial(self.servers[0])?;

        let patch = "patch arecord www-test -n dns-system --type=merge -p";
        self.kubectl(
            &format!("{patch} {}", r#"{"spec":{"ipv4Address":"192.0.2.2"}}"#),
            "",
        )?;
        self.answers("192.0.2.2")?;
        for server in &self.servers {
            let serial = serial(*server)?;
            ensure!(serial == before + 1, "{server}: {before}, then {serial}");
        }

        self.kubectl("delete arecord www-test -n dns-system", "")?;
        self.answers("")?;
        self.shows("get dnszone test-zone -n dns-system -o yaml", |yaml| {
            !yaml.contains("name: www-test")
        })
    }

    /// What `kubectl` prints for a line of words, with something on its standard input.
    fn kubectl(&self, line: &str, input: &str) -> Result<String> {
        let file = self.folder.join("typed");
        fs::write(&file, input)?;
        let output = Command::new(bindery_e2e::program::kubectl()?)
            .arg(&self.flag)
            .args(line.split(' '))
            .env("HOME", &self.folder)
            .stdin(File::open(&file)?)
            .output()
            .context("cannot run kubectl")?;
        text(&output).with_context(|| format!("kubectl {line}"))
    }

    /// Waits until `kubectl` prints what is wanted.
    fn shows(&self, line: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let mut last = String::new();
        until(line, || {
            last = self.kubectl(line, "")?;
            Ok(wanted(&last).then_some(()))
        })
        .with_context(|| last)
    }

    /// Waits until every server answers this for the record.
    fn answers(&self, wanted: &str) -> Result<()> {
        let mut servers = self.servers.iter();
        servers.try_for_each(|server| resolves_at(*server, "www.test.example.com", "A", wanted))
    }
}

fn serial(server: SocketAddr) -> Result<u32> {
    let soa = dig_at(server, "test.example.com", "SOA")?;
    let serial = soa.split(' ').nth(2).and_then(|serial| serial.parse().ok());
    serial.with_context(|| format!("{soa:?} is no SOA"))
}
