//! Signed zones: they validate from the DS that their status tells, through everything that happens to them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, run, text, until};
use crate::stage::{Stage, resolves_at};

crate::cases!(
    a_signed_zone_validates_through_everything,
    a_living_zone_is_signed_and_unsigned_again,
    a_zone_on_several_primaries_is_not_signed_and_says_so,
    a_cluster_signs_its_zone_by_its_own_policy,
    a_primary_that_is_added_never_gets_a_signed_zone,
    zones_that_their_own_server_signs_are_written_and_told,
);

/// A cluster of one primary and one secondary, with a policy.
const CLUSTER: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: signers}
spec:
  primary: {replicas: 1}
  secondary: {replicas: 1}
  global:
    dnssec: {signing: {enabled: true, policy: strict, algorithm: ECDSAP256SHA256}}
";

/// The zone of the example.
const EXAMPLE: &str = include_str!("../../../../examples/signed/zone.yaml");
const ZONE: &str = "dnszone/example-com";
const READY: &str = ".status.conditions[?(@.type=='Ready')].status";
const SIGNED: &str = ".status.conditions[?(@.type=='Signed')].status";
const REASON: &str = ".status.conditions[?(@.type=='Signed')].reason";
const DEGRADED: &str = ".status.conditions[?(@.type=='Degraded')].reason";
const DS: &str = "jsonpath={.status.dnssec.dsRecords[*]}";

/// The example with another value, or none, of `dnssecPolicy`.
fn with_policy(policy: &str) -> String {
    let line = match policy {
        "" => String::new(),
        policy => format!("  dnssecPolicy: {policy}\n"),
    };
    EXAMPLE.replace("  dnssecPolicy: default\n", &line)
}

fn record(name: &str, address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: {name}, labels: {{zone: example.com}}}}\n\
         spec: {{name: {name}, ipv4Addresses: [{address}]}}\n"
    )
}

/// What the zone above would have.
fn ds(machine: &Machine) -> Result<String> {
    let found = machine.kubectl(&["get", ZONE, "-o", DS])?;
    Ok(found.trim().to_owned())
}

fn serial(machine: &Machine, server: u16) -> Result<u32> {
    let soa = machine.dig_at(server, &["+short", "example.com", "SOA"])?;
    let soa = soa.first().context("there is an SOA")?;
    let serial = soa.split_whitespace().nth(2).context("it has a serial")?;
    Ok(serial.parse()?)
}

/// What a resolver makes of a question to this address and port that trusts the DS of the status and nothing else.
fn validated(machine: &Machine, (address, port): (&str, u16), name: &str) -> Result<String> {
    let ds = ds(machine)?;
    let words: Vec<&str> = ds.split_whitespace().collect();
    let [zone, _, _, tag, algorithm, digest_type, digest] = words[..] else {
        return Ok(format!("{ds:?} is no DS"));
    };
    let anchor = format!(
        "trust-anchors {{ {zone} static-ds {tag} {algorithm} {digest_type} \"{digest}\"; }};\n"
    );
    let file = machine.scratch.path().join("anchor");
    fs::write(&file, anchor)?;
    let (file, port) = (file.display().to_string(), port.to_string());
    let address = format!("@{address}");
    let line = [
        "-a",
        &file,
        "+root=example.com",
        &address,
        "-p",
        &port,
        name,
        "A",
    ];
    let output = run("delv", &line)?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Waits until the answer of a server validates and says this.
fn validates_at(machine: &Machine, at: (&str, u16), name: &str, wanted: &[&str]) -> Result<()> {
    let wanted: Vec<&str> = [&["fully validated"], wanted].concat();
    let mut last = String::new();
    until("a signed answer", || {
        last = validated(machine, at, name)?;
        Ok(wanted.iter().all(|part| last.contains(part)).then_some(()))
    })
    .with_context(|| format!("{name} at {at:?}: {last}"))
}

/// The same of so many servers of `up`.
fn validates(machine: &Machine, servers: u16, name: &str, wanted: &[&str]) -> Result<()> {
    (0..servers).try_for_each(|server| {
        validates_at(machine, ("127.0.0.1", machine.dns + server), name, wanted)
    })
}

fn is_signed(machine: &Machine) -> Result<()> {
    machine.says(ZONE, SIGNED, "True")?;
    machine.says(ZONE, REASON, "Signed")?;
    machine.says(ZONE, READY, "True")
}

fn a_signed_zone_validates_through_everything(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_secondaries(1)?;
    machine.write("zone.yaml", EXAMPLE)?;
    machine.start()?;
    is_signed(&machine)?;
    machine.says(ZONE, ".status.foreignCount", "0")?;
    validates(&machine, 2, "www.example.com", &["192.0.2.1"])?;
    let first = ds(&machine)?;

    // Records come and go; what others wrote stays and is counted, signatures are not.
    machine.nsupdate("update add theirs.example.com 60 A 192.0.2.99")?;
    machine.says(ZONE, ".status.foreignCount", "1")?;
    validates(&machine, 2, "theirs.example.com", &["192.0.2.99"])?;
    machine.write("more.yaml", &record("more", "192.0.2.2"))?;
    machine.says("arecord/more", READY, "True")?;
    validates(&machine, 2, "more.example.com", &["192.0.2.2"])?;
    machine.kubectl(&["delete", "arecord/more"])?;
    validates(&machine, 2, "more.example.com", &["negative response"])?;

    // The primary dies and comes back with the keys that it had.
    let before = serial(&machine, 0)?;
    let pid = fs::read_to_string(machine.data().join("named/named.pid"))?;
    text(&run("kill", &["-KILL", pid.trim()])?)?;
    machine.write("again.yaml", &record("again", "192.0.2.3"))?;
    machine.says("arecord/again", READY, "True")?;
    validates(&machine, 2, "again.example.com", &["192.0.2.3"])?;
    is_signed(&machine)?;
    ensure!(ds(&machine)? == first, "the keys are the same");
    ensure!(serial(&machine, 0)? > before, "the serial only grows");

    // A new process of Bindery finds everything as it is to be, and writes nothing.
    machine.stop("TERM")?;
    let log = machine.data().join("named/named.log");
    machine.start()?;
    is_signed(&machine)?;
    validates(&machine, 2, "www.example.com", &["192.0.2.1"])?;
    machine.says(ZONE, ".status.foreignCount", "1")?;
    ensure!(ds(&machine)? == first, "the keys are the same");
    let log = fs::read_to_string(log)?;
    ensure!(
        !log.contains("updating zone"),
        "nothing was written:\n{log}"
    );

    // Another key, another DS.
    roll(&machine, &first)?;
    until("another DS", || {
        let now = ds(&machine)?;
        Ok((!now.is_empty() && now != first).then_some(()))
    })?;
    is_signed(&machine)?;
    validates(&machine, 2, "www.example.com", &["192.0.2.1"])
}

/// Has `named` take another key in place of the one of this DS.
fn roll(machine: &Machine, ds: &str) -> Result<()> {
    let tag = ds.split_whitespace().nth(3).context("a DS has a tag")?;
    let command = ["dnssec", "-rollover", "-key", tag, "example.com"];
    rndc(&machine.data().join("named"), &command)
}

/// Gives a command to the `named` of a folder.
fn rndc(folder: &Path, command: &[&str]) -> Result<()> {
    let config = fs::read_to_string(folder.join("named.conf"))?;
    let port = config.split(" port ").nth(1).context("a control channel")?;
    let port = port.split_whitespace().next().context("a port")?;
    let at = config.find("key \"bindery-control\"").context("its key")?;
    let end = config[at..].find("};").context("the end of its key")?;
    let key = folder.join("rndc.key");
    fs::write(&key, format!("{}}};\n", &config[at..at + end]))?;
    let key = key.display().to_string();
    let line = [&["-s", "127.0.0.1", "-p", port, "-k", &key], command].concat();
    text(&run("rndc", &line)?).map(drop)
}

fn a_living_zone_is_signed_and_unsigned_again(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_secondaries(1)?;
    machine.write("zone.yaml", &with_policy(""))?;
    machine.start()?;
    machine.says(ZONE, READY, "True")?;
    machine.nsupdate("update add theirs.example.com 60 A 192.0.2.99")?;
    machine.resolves_at(1, &["theirs.example.com"], &["192.0.2.99"])?;
    let before = serial(&machine, 0)?;

    // A policy that the server does not have changes nothing and says what to do.
    machine.write("zone.yaml", &with_policy("mine"))?;
    machine.says(ZONE, DEGRADED, "PolicyNotFound")?;
    machine.says(ZONE, SIGNED, "False")?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])?;

    machine.write("zone.yaml", EXAMPLE)?;
    is_signed(&machine)?;
    machine.says(ZONE, DEGRADED, "ReconcileSucceeded")?;
    for name in ["www", "theirs"] {
        validates(&machine, 2, &format!("{name}.example.com"), &[])?;
    }
    let signed = serial(&machine, 0)?;
    ensure!(signed > before, "the serial only grows");

    // Without the field it stays signed, since the zone above may have its DS.
    machine.write("zone.yaml", &with_policy(""))?;
    until("it is told what to do", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Signed')].message}";
        let said = machine.kubectl(&["get", ZONE, "-o", path])?;
        Ok(said
            .contains("set spec.dnssecPolicy to \"none\"")
            .then_some(()))
    })?;
    validates(&machine, 2, "www.example.com", &["192.0.2.1"])?;

    machine.write("zone.yaml", &with_policy("none"))?;
    machine.says(ZONE, ".status.dnssec", "")?;
    machine.says(ZONE, SIGNED, "")?;
    for server in 0..2 {
        machine.resolves_at(server, &["example.com", "DNSKEY"], &[])?;
        machine.resolves_at(server, &["www.example.com"], &["192.0.2.1"])?;
        machine.resolves_at(server, &["theirs.example.com"], &["192.0.2.99"])?;
    }
    machine.says(ZONE, READY, "True")?;
    ensure!(serial(&machine, 0)? > signed, "the serial only grows");
    Ok(())
}

fn a_zone_on_several_primaries_is_not_signed_and_says_so(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?.with_primaries(2)?;
    machine.write("zone.yaml", EXAMPLE)?;
    machine.start()?;
    machine.says(ZONE, DEGRADED, "SeveralPrimaries")?;
    machine.says(ZONE, SIGNED, "False")?;
    machine.says(ZONE, READY, "True")?;
    for server in 0..2 {
        machine.resolves_at(server, &["www.example.com"], &["192.0.2.1"])?;
        machine.resolves_at(server, &["example.com", "DNSKEY"], &[])?;
    }
    Ok(())
}

fn a_cluster_signs_its_zone_by_its_own_policy(_: Server) -> Result<()> {
    let mut machine = Machine::idle(Server::Builtin)?;
    let zone = EXAMPLE.replace("  zoneName:", "  clusterRef: signers\n  zoneName:");
    // named has a policy of this name itself, with another algorithm.
    let cluster = CLUSTER.replace(
        "policy: strict, algorithm: ECDSAP256SHA256",
        "policy: default, algorithm: ECDSAP384SHA384, kskLifetime: 365d, zskLifetime: 90d, nsec3: true",
    );
    machine.write("cluster.yaml", &cluster)?;
    machine.write("zone.yaml", &zone)?;
    machine.start()?;
    is_signed(&machine)?;
    machine.says(ZONE, ".status.dnssec.algorithm", "ECDSAP384SHA384")?;
    let pods = ["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"];
    let pods = machine.kubectl(&pods)?;
    let pods: Vec<&str> = pods.split_whitespace().collect();
    ensure!(pods.len() == 2, "{pods:?}");
    let everywhere = |name: &str, wanted: &[&str]| {
        let mut pods = pods.iter();
        pods.try_for_each(|pod| validates_at(&machine, (pod, 5353), name, wanted))
    };
    everywhere("www.example.com", &["192.0.2.1"])?;
    everywhere("nothing.example.com", &["negative response"])?;
    machine.says(ZONE, ".status.foreignCount", "0")?;
    let first = ds(&machine)?;
    // The primary dies and comes back with its keys.
    let pod = machine.data().join("pods/default/signers-primary-0-0");
    let pid = fs::read_to_string(pod.join("containers/bind9/pid"))?;
    let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
    text(&run("kill", &["-KILL", &pid])?)?;
    machine.write("again.yaml", &record("again", "192.0.2.3"))?;
    machine.says("arecord/again", READY, "True")?;
    everywhere("again.example.com", &["192.0.2.3"])?;
    is_signed(&machine)?;
    ensure!(ds(&machine)? == first, "the keys are the same");
    machine.says(ZONE, DEGRADED, "ReconcileSucceeded")
}

fn a_primary_that_is_added_never_gets_a_signed_zone(_: Server) -> Result<()> {
    let mut machine = Machine::idle(Server::Builtin)?;
    let zone = with_policy("strict");
    let zone = zone.replace("  zoneName:", "  clusterRef: signers\n  zoneName:");
    // Keys that nobody keeps.
    let cluster = CLUSTER.replace("policy: strict,", "policy: strict, exportToSecret: false,");
    machine.write("cluster.yaml", &cluster)?;
    machine.write("zone.yaml", &zone)?;
    machine.start()?;
    is_signed(&machine)?;
    machine.write(
        "cluster.yaml",
        &cluster.replace("primary: {replicas: 1}", "primary: {replicas: 2}"),
    )?;
    let added = ".status.conditions[?(@.type=='Bind9Instance-1')].status";
    machine.says("b9c/signers", added, "True")?;
    until("the added one is named", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Signed')].message}";
        let said = machine.kubectl(&["get", ZONE, "-o", path])?;
        Ok(said.contains("1 more primaries").then_some(()))
    })?;
    let address =
        |pod: &str| machine.kubectl(&["get", "pod", pod, "-o", "jsonpath={.status.podIP}"]);
    let second = address("signers-primary-1-0")?;
    let is_refused = || {
        let at = format!("@{second}");
        let asked = run(
            "dig",
            &[&at, "-p", "5353", "+time=2", "+tries=2", "www.example.com"],
        )?;
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        ensure!(said.contains("status: REFUSED"), "{said}");
        Ok(())
    };
    is_refused()?;
    // Its storage goes with the pod, and its keys with that: the status tells the new DS, and all is signed by it.
    let first = ds(&machine)?;
    machine.kubectl(&["delete", "pod", "signers-primary-0-0"])?;
    until("another DS", || {
        is_refused()?;
        let now = ds(&machine)?;
        Ok((!now.is_empty() && now != first).then_some(()))
    })?;
    is_signed(&machine)?;
    is_refused()?;
    for pod in ["signers-primary-0-0", "signers-secondary-0-0"] {
        validates_at(
            &machine,
            (&address(pod)?, 5353),
            "www.example.com",
            &["192.0.2.1"],
        )?;
    }
    machine.says(ZONE, ".status.dnssec.signer", "default/signers-primary-0-0")
}

/// In place, and inline: there the serial runs ahead of the updates, and these are served a moment after their answer.
fn zones_that_their_own_server_signs_are_written_and_told(_: Server) -> Result<()> {
    let stage = Stage::new(&[])?;
    let folder = stage.scratch.path().join("named");
    for (name, inline) in [("place", "no"), ("inline", "yes")] {
        let zone = format!("{name}.test");
        let lines = format!(
            "{zone}. 300 IN SOA ns.{zone}. root.{zone}. 7 3600 600 604800 300\n\
             {zone}. 300 IN NS ns.{zone}.\nns.{zone}. 300 IN A 192.0.2.53\n"
        );
        fs::write(folder.join(format!("{name}.zone")), lines)?;
        let statement = format!(
            "{zone} {{ type primary; file \"{name}.zone\"; dnssec-policy default; inline-signing {inline}; }};"
        );
        rndc(&folder, &["addzone", &statement])?;
        let objects = EXAMPLE.replace("example.com", &zone);
        let objects = objects
            .replace("example-com", name)
            .replace("metadata: {name: www", &format!("metadata: {{name: {name}"));
        let objects = objects.replace("  dnssecPolicy: default\n", "");
        stage.kubectl_apply(&objects)?;
        let (zone_object, object) = (format!("dnszone/{name}"), format!("arecord/{name}"));
        stage.says(&[&zone_object], SIGNED, |said| said == "True")?;
        stage.says(&[&zone_object], READY, |said| said == "True")?;
        stage.says(&[&object], READY, |said| said == "True")?;
        // Its name server and that one's address are theirs.
        stage.says(&[&zone_object], ".status.foreignCount", |said| said == "1")?;
        stage.says(&[&zone_object], ".status.dnssec.dsRecords[0]", |said| {
            said.contains(" IN DS ")
        })?;
        for number in 2..5 {
            let address = format!("192.0.2.{number}");
            let patch = format!("{{\"spec\":{{\"ipv4Addresses\":[\"{address}\"]}}}}");
            stage.kubectl(&["patch", &object, "--type=merge", "-p", &patch])?;
            resolves_at(
                stage.primary.address(),
                &format!("www.{zone}"),
                "A",
                &address,
            )?;
            stage.says(&[&object], READY, |said| said == "True")?;
        }
    }
    Ok(())
}
