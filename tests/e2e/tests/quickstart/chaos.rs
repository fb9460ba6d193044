//! A cluster and a server of its own while everything about them is broken, one thing after another, in a fixed and
//! in a drawn order. After each step every server is asked directly and every status is looked at.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::machine::{Machine, Server, complain, until};
use crate::production::{ask, signal};

crate::cases!(
    every_break_heals_in_a_fixed_order,
    every_break_heals_in_a_drawn_order,
);

const NAMESPACE: &str = "chaos";
/// How long nothing may be written after a break was healed.
const QUIET: Duration = Duration::from_secs(2);

/// Two primaries and a secondary, a primary of its own, a zone and its reverse on the ones and a zone on the other.
const MANIFESTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: chaos}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: pool, namespace: chaos}
spec: {primary: {replicas: 2}, secondary: {replicas: 1}}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Instance
metadata: {name: alone, namespace: chaos, labels: {of: alone}}
spec: {clusterRef: '', role: primary, replicas: 1}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: forward, namespace: chaos}
spec:
  zoneName: forward.example
  clusterRef: pool
  recordsFrom: [{selector: {matchLabels: {zone: forward}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: reverse, namespace: chaos}
spec:
  zoneName: 2.0.192.in-addr.arpa
  clusterRef: pool
  recordsFrom: [{selector: {matchLabels: {zone: reverse}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: alone, namespace: chaos}
spec:
  zoneName: alone.example
  bind9InstancesFrom: [{selector: {matchLabels: {of: alone}}}]
  recordsFrom: [{selector: {matchLabels: {zone: alone}}}]
";

/// A record object: kind, object, zone and the rest of its spec; and what is to be answered for which question.
type AskedRecord = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    (&'static str, &'static str),
    &'static str,
);

const RECORDS: [AskedRecord; 10] = [
    (
        "ARecord",
        "www",
        "forward",
        "name: www, ipv4Addresses: [192.0.2.10]",
        ("www.forward.example", "A"),
        "192.0.2.10",
    ),
    (
        "AAAARecord",
        "six",
        "forward",
        "name: six, ipv6Addresses: ['2001:db8::10']",
        ("six.forward.example", "AAAA"),
        "2001:db8::10",
    ),
    (
        "TXTRecord",
        "note",
        "forward",
        "name: note, text: [hello]",
        ("note.forward.example", "TXT"),
        "\"hello\"",
    ),
    (
        "CNAMERecord",
        "alias",
        "forward",
        "name: alias, target: elsewhere.example.",
        ("alias.forward.example", "CNAME"),
        "elsewhere.example.",
    ),
    (
        "MXRecord",
        "mail",
        "forward",
        "name: '@', priority: 10, mailServer: mx.elsewhere.example.",
        ("forward.example", "MX"),
        "10 mx.elsewhere.example.",
    ),
    (
        "NSRecord",
        "sub",
        "forward",
        "name: sub, nameserver: ns.elsewhere.example.",
        ("www.forward.example", "A"),
        "192.0.2.10",
    ),
    (
        "SRVRecord",
        "srv",
        "forward",
        "name: _sip._tcp, priority: 1, weight: 2, port: 5060, target: sip.elsewhere.example.",
        ("_sip._tcp.forward.example", "SRV"),
        "1 2 5060 sip.elsewhere.example.",
    ),
    (
        "CAARecord",
        "caa",
        "forward",
        "name: '@', flags: 0, tag: issue, value: ca.example",
        ("forward.example", "CAA"),
        "0 issue \"ca.example\"",
    ),
    (
        "PTRRecord",
        "ten",
        "reverse",
        "name: '10', target: www.forward.example.",
        ("10.2.0.192.in-addr.arpa", "PTR"),
        "www.forward.example.",
    ),
    (
        "ARecord",
        "only",
        "alone",
        "name: only, ipv4Addresses: [192.0.2.20]",
        ("only.alone.example", "A"),
        "192.0.2.20",
    ),
];

/// What is broken, by its name.
type Break = (&'static str, fn(&mut Chaos) -> Result<()>);

const BREAKS: [Break; 16] = [
    ("named of a primary killed", |it| {
        it.signal("pool-primary-0-0", "bind9", "KILL")
    }),
    ("sidecar of a primary killed", |it| {
        it.signal("pool-primary-1-0", "api", "KILL")
    }),
    ("named of the secondary stopped", |it| {
        it.signal("pool-secondary-0-0", "bind9", "STOP")
    }),
    ("sidecar of a primary stopped", |it| {
        it.signal("pool-primary-0-0", "api", "STOP")
    }),
    ("data of a primary lost", |it| {
        it.lose_data("pool-primary-0-0")
    }),
    ("data of the secondary lost", |it| {
        it.lose_data("pool-secondary-0-0")
    }),
    ("data of the server of its own lost", |it| {
        it.lose_data("alone-0")
    }),
    ("pod deleted", |it| it.delete("pod/pool-primary-1-0")),
    ("StatefulSet deleted", |it| {
        it.delete("statefulset/pool-secondary-0")
    }),
    ("ConfigMap deleted", |it| {
        it.delete("configmap/pool-primary-0-config")
    }),
    ("instance deleted", |it| it.delete("b9/pool-secondary-0")),
    ("every named killed", |it| {
        let pods = [
            "pool-primary-0-0",
            "pool-primary-1-0",
            "pool-secondary-0-0",
            "alone-0",
        ];
        pods.iter()
            .try_for_each(|pod| it.signal(pod, "bind9", "KILL"))
    }),
    ("Bindery killed", |it| {
        it.machine.stop("KILL")?;
        it.machine.start()
    }),
    ("a record changed while a primary is away", |it| {
        it.signal("pool-primary-0-0", "bind9", "STOP")?;
        it.address = it.address.checked_add(1).unwrap_or(30);
        it.declare_moving()
    }),
    ("its Secrets deleted", |it| {
        it.delete("secret/pool-primary-0-rndc-key")?;
        it.delete("secret/bindery-transfer-key")?;
        it.signal("pool-secondary-0-0", "api", "KILL")
    }),
    ("statuses overwritten", |it| {
        let lie = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Lie","message":"",
            "lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
        for object in [
            "zone/forward",
            "b9c/pool",
            "b9/pool-primary-0",
            "arecord/www",
        ] {
            let patch = [
                "patch",
                object,
                "-n",
                NAMESPACE,
                "--subresource=status",
                "--type=merge",
                "-p",
                lie,
            ];
            it.machine.kubectl(&patch)?;
        }
        Ok(())
    }),
];

/// The machine, and the last part of an address that changes.
struct Chaos {
    machine: Machine,
    address: u8,
}

impl Chaos {
    fn start() -> Result<Self> {
        let mut machine = Machine::idle(Server::Builtin)?;
        machine.write("chaos.yaml", MANIFESTS)?;
        let object = |(kind, name, zone, spec, ..): &AskedRecord| {
            format!(
                "---\napiVersion: bindy.firestoned.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, \
                 namespace: chaos, labels: {{zone: {zone}}}}}\nspec: {{{spec}}}\n"
            )
        };
        let records: String = RECORDS.iter().map(object).collect();
        machine.write("records.yaml", &records)?;
        machine.start()?;
        let it = Self {
            machine,
            address: 30,
        };
        it.declare_moving()?;
        Ok(it)
    }

    /// The record that changes.
    fn declare_moving(&self) -> Result<()> {
        let address = self.address;
        let record = format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\nmetadata: {{name: moving, namespace: chaos, \
             labels: {{zone: forward}}}}\nspec: {{name: moving, ipv4Addresses: [192.0.2.{address}]}}\n"
        );
        self.machine.apply(&record, &[]).map(|_| ())
    }

    fn pod(&self, pod: &str) -> PathBuf {
        self.machine.data().join("pods").join(NAMESPACE).join(pod)
    }

    fn signal(&self, pod: &str, container: &str, name: &str) -> Result<()> {
        signal(&self.pod(pod), container, name)
    }

    fn lose_data(&self, pod: &str) -> Result<()> {
        for file in fs::read_dir(self.pod(pod).join("volumes/data"))? {
            fs::remove_file(file?.path())?;
        }
        self.signal(pod, "bind9", "KILL")
    }

    fn delete(&self, object: &str) -> Result<()> {
        let delete = ["delete", object, "-n", NAMESPACE, "--wait=false"];
        self.machine.kubectl(&delete).map(|_| ())
    }

    fn get(&self, objects: &str, output: &str) -> Result<String> {
        let output = format!("jsonpath={output}");
        self.machine
            .kubectl(&["get", objects, "-n", NAMESPACE, "-o", &output])
    }

    /// What is not as it should be, if anything.
    fn wrong(&self) -> Result<Option<String>> {
        let ready = "{range .items[*]}{.kind}/{.metadata.name} {.status.conditions[?(@.type=='Ready')].status} \
                     {.status.conditions[?(@.type=='Ready')].reason}{\"\\n\"}{end}";
        let kinds = "b9c,b9,dnszones,arecords,aaaarecords,txtrecords,cnamerecords,mxrecords,nsrecords,srvrecords,\
                     caarecords,ptrrecords";
        let all = self.get(kinds, ready)?;
        if all.lines().count() != 1 + 4 + 3 + RECORDS.len() + 1 {
            return Ok(Some(format!("objects are missing:\n{all}")));
        }
        let is_fine = |line: &str| line.contains(" True ") && !line.contains(" Lie");
        if let Some(line) = all.lines().find(|line| !is_fine(line)) {
            return Ok(Some(line.to_owned()));
        }
        let pods = self.get(
            "pods",
            "{range .items[*]}{.metadata.name} {.status.podIP}{\"\\n\"}{end}",
        )?;
        if pods.lines().count() != 4 {
            return Ok(Some(format!("pods: {pods}")));
        }
        for (pod, address) in pods.lines().filter_map(|line| line.split_once(' ')) {
            if let Some(wrong) = self.wrong_answer(pod, address)? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    /// What a pod answers wrong, if anything.
    fn wrong_answer(&self, pod: &str, address: &str) -> Result<Option<String>> {
        let is_alone = pod.starts_with("alone");
        for (_, _, zone, _, (name, rtype), wanted) in RECORDS {
            if is_alone != (zone == "alone") {
                continue;
            }
            let answer = ask(address, &format!("{name} {rtype}"))?;
            if answer != wanted {
                return Ok(Some(format!(
                    "{pod} answers {answer:?} for {name} {rtype}, not {wanted:?}"
                )));
            }
        }
        let moving = ask(address, "moving.forward.example A")?;
        let wanted = format!("192.0.2.{}", self.address);
        if !is_alone && moving != wanted {
            return Ok(Some(format!(
                "{pod} answers {moving:?} for what moved to {wanted}"
            )));
        }
        Ok(None)
    }

    fn until_right(&self, what: &str) -> Result<()> {
        let mut last = String::new();
        let begun = Instant::now();
        let found = until(what, || {
            // The API itself may be away.
            last = match self.wrong() {
                Ok(None) => return Ok(Some(())),
                Ok(Some(wrong)) => wrong,
                Err(error) => format!("{error:#}"),
            };
            Ok(None)
        });
        if found.is_err() {
            bail!("{what}: {last}");
        }
        complain(&format!(
            "{what}: right after {:.1} s",
            begun.elapsed().as_secs_f32()
        ));
        Ok(())
    }

    /// Every server of a zone has the same serial, and at rest nothing is written.
    fn until_quiet(&self, what: &str) -> Result<()> {
        let versions = || {
            self.get(
                "b9c,b9,dnszones,arecords,statefulsets",
                "{.items[*].metadata.resourceVersion}",
            )
        };
        let mut last = versions()?;
        let mut since = Instant::now();
        until(&format!("{what}: nothing is written any more"), || {
            let now = versions()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            Ok((since.elapsed() >= QUIET).then_some(()))
        })?;
        let pods = self.get("pods", "{.items[*].status.podIP}")?;
        for zone in ["forward.example", "2.0.192.in-addr.arpa"] {
            let mut serials = Vec::new();
            for address in pods.split_whitespace() {
                let soa = ask(address, &format!("{zone} SOA"))?;
                serials.extend(soa.split(' ').nth(2).map(str::to_owned));
            }
            serials.dedup();
            ensure!(
                serials.len() == 1,
                "{what}: {zone} has the serials {serials:?}"
            );
        }
        Ok(())
    }

    fn run(mut self, order: impl IntoIterator<Item = usize>) -> Result<()> {
        self.until_right("it comes up")?;
        for index in order {
            let (what, break_it) = BREAKS[index];
            break_it(&mut self)?;
            self.until_right(what)?;
            self.until_quiet(what)?;
        }
        Ok(())
    }
}

fn every_break_heals_in_a_fixed_order(_: Server) -> Result<()> {
    Chaos::start()?.run(0..BREAKS.len())
}

/// `BINDERY_CHAOS_SEED` draws another order.
fn every_break_heals_in_a_drawn_order(_: Server) -> Result<()> {
    let seed = std::env::var("BINDERY_CHAOS_SEED").ok();
    let mut state: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let mut order: Vec<usize> = (0..BREAKS.len()).collect();
    for index in (1..order.len()).rev() {
        // Knuth's generator; its high bits are good enough for an order.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or_default() % (index + 1);
        order.swap(index, other);
    }
    Chaos::start()?.run(order)
}
