//! Secondaries that are not BIND, configured as the documentation says: Knot and `PowerDNS`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use bindery_e2e::process::ServerProcess as Child;
use bindery_e2e::program::on_path;

use crate::machine::{Server, text, until};
use crate::stage::{Stage, dig_at, free_address, resolves_at};

crate::cases!(knot_and_powerdns_follow);

const PAGE: &str = include_str!("../../../../docs/zones-and-records.md");
const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

const ZONE: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: example}
spec:
  zoneName: example.com
  recordsFrom: [{selector: {matchLabels: {zone: example}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, labels: {zone: example}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
";

/// The zone as somebody made it on the primary.
const CREATED: &str = "\
example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
example.com. 300 IN NS ns.example.net.";

const DEGRADED: &str = ".status.conditions[?(@.type=='Degraded')].message";

/// A secondary and where it keeps its things.
struct Secondary {
    folder: PathBuf,
    address: SocketAddr,
}

fn knot_and_powerdns_follow(_: Server) -> Result<()> {
    let (knot, pdns) = (free_address()?, free_address()?);
    let stage = Stage::new(&[knot, pdns])?;
    stage.create_zone("example.com", CREATED)?;
    let knot = Secondary::new(&stage, "knot", knot)?;
    let pdns = Secondary::new(&stage, "pdns", pdns)?;
    knot.configure_knot(&stage)?;
    pdns.configure_pdns(&stage)?;
    let mut knotd = knot.start_knot()?;
    let _pdns_server = pdns.start_pdns()?;

    let everywhere = [stage.primary.address(), knot.address, pdns.address];
    stage.kubectl_apply(ZONE)?;
    ready_everywhere(&stage, &everywhere, "192.0.2.1")?;
    patch(&stage, "192.0.2.2")?;
    ready_everywhere(&stage, &everywhere, "192.0.2.2")?;

    // One that is gone is named, and the others go on.
    knotd.stop();
    let gone = knot.address.to_string();
    stage.says(&["dnszone/example"], DEGRADED, |said| said.contains(&gone))?;
    patch(&stage, "192.0.2.3")?;
    for server in [stage.primary.address(), pdns.address] {
        resolves_at(server, "www.example.com", "A", "192.0.2.3")?;
    }
    let _knotd = knot.start_knot()?;
    ready_everywhere(&stage, &everywhere, "192.0.2.3")
}

fn patch(stage: &Stage, address: &str) -> Result<()> {
    let patch = format!("{{\"spec\":{{\"ipv4Addresses\":[\"{address}\"]}}}}");
    let line = ["patch", "arecord/www", "--type=merge", "-p", &patch];
    stage.kubectl(&line).map(drop)
}

/// Waits until the record is ready with this address; then every server answers it at once.
fn ready_everywhere(stage: &Stage, servers: &[SocketAddr], address: &str) -> Result<()> {
    // An edit that Bindery has not seen leaves the object Ready, so its generation is looked at too.
    let generation = stage.kubectl(&[
        "get",
        "arecord/www",
        "-o",
        "jsonpath={.metadata.generation}",
    ])?;
    let condition = ".status.conditions[?(@.type=='Ready')]";
    let paths = format!("{condition}.status}}{{{condition}.observedGeneration");
    stage.says(&["arecord/www"], &paths, |said| {
        said == format!("True{generation}")
    })?;
    for server in servers {
        let found = dig_at(*server, "www.example.com", "A")?;
        ensure!(found == address, "{server}: {found:?}, not {address:?}");
    }
    stage.wait("Ready", "dnszone/example")?;
    let soa = dig_at(stage.primary.address(), "example.com", "SOA")?;
    let serial = soa.split(' ').nth(2).context("a SOA has a serial")?;
    let wanted: Vec<String> = servers
        .iter()
        .map(|server| format!("{server} {serial} true;"))
        .collect();
    let wanted = wanted.concat();
    let path = "range .status.servers[*]}{.address} {.serial} {.ready};{end";
    stage.says(&["dnszone/example"], path, |said| said == wanted)
}

impl Secondary {
    fn new(stage: &Stage, name: &str, address: SocketAddr) -> Result<Self> {
        let folder = stage.scratch.path().join(name);
        fs::create_dir(&folder)?;
        Ok(Self { folder, address })
    }

    fn configure_knot(&self, stage: &Stage) -> Result<()> {
        let (folder, port) = (self.folder.display(), self.address.port());
        let head = format!(
            "server:\n    rundir: {folder}\n    listen: 127.0.0.1@{port}\n\
             database:\n    storage: {folder}\n\
             template:\n  - id: default\n    storage: {folder}\n\
             log:\n  - target: stderr\n    any: info\n"
        );
        let text = head + &block("knot.conf", stage)?;
        Ok(fs::write(self.folder.join("knot.conf"), text)?)
    }

    fn start_knot(&self) -> Result<Child> {
        let mut command = tool("knotd")?;
        command.arg("--config").arg(self.folder.join("knot.conf"));
        self.start(&mut command)
    }

    fn configure_pdns(&self, stage: &Stage) -> Result<()> {
        let (folder, port) = (self.folder.display(), self.address.port());
        let store = self.folder.join("pdns.sqlite3");
        let head = format!(
            "local-address=127.0.0.1\nlocal-port={port}\nsocket-dir={folder}\n\
             daemon=no\nguardian=no\ndisable-syslog=yes\n"
        );
        let text_of = block("pdns.conf", stage)?.replace(
            "/var/lib/powerdns/pdns.sqlite3",
            &store.display().to_string(),
        );
        fs::write(self.folder.join("pdns.conf"), head + &text_of)?;
        let schema = fs::File::open(SCHEMA).context("pdns-backend-sqlite3 is not installed")?;
        text(&tool("sqlite3")?.arg(&store).stdin(schema).output()?)?;
        for line in block("pdnsutil", stage)?.lines() {
            let mut words = line.split(' ');
            let mut command = tool(words.next().unwrap_or_default())?;
            command.arg("--config-dir").arg(&self.folder).args(words);
            text(&command.stdin(Stdio::null()).output()?).context(line.to_owned())?;
        }
        Ok(())
    }

    fn start_pdns(&self) -> Result<Child> {
        let mut command = tool("pdns_server")?;
        let folder = self.folder.display();
        command.arg(format!("--config-dir={folder}"));
        self.start(&mut command)
    }

    /// Starts a server and waits until it has the zone.
    fn start(&self, command: &mut Command) -> Result<Child> {
        let mut server = Child::start(command, &self.folder.join("log"))?;
        let answers = until("the secondary has the zone", || {
            if server.has_ended() {
                bail!("it ended");
            }
            let soa = dig_at(self.address, "example.com", "SOA").unwrap_or_default();
            Ok(soa.starts_with("ns.example.net.").then_some(()))
        });
        answers.with_context(|| server.log_tail())?;
        Ok(server)
    }
}

fn tool(name: &str) -> Result<Command> {
    let path = on_path(name);
    let path = path.with_context(|| format!("missing {name}: run `cargo xtask setup` once"))?;
    Ok(Command::new(path))
}

/// The block of the page that has this mark, with this stage's primary and secret.
fn block(mark: &str, stage: &Stage) -> Result<String> {
    let marked = format!("<!-- {mark} -->\n```\n");
    let rest = PAGE.split(&marked).nth(1).with_context(|| marked.clone())?;
    let (text, _) = rest.split_once("```").context("a block ends")?;
    let primary = stage.primary.address();
    Ok(text
        .replace(
            "192.0.2.53@53",
            &format!("{}@{}", primary.ip(), primary.port()),
        )
        .replace("192.0.2.53:53", &primary.to_string())
        .replace("bindery", "bindery-e2e")
        .replace("SECRET", &stage.secret()?))
}
