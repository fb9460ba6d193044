//! The quickstart as the README has it.

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::process::free_port;

use crate::machine::{Machine, Process, Server, fetch, run, text, until};

crate::cases!(
    the_first_lines_say_where_everything_is,
    declared_names_resolve,
    the_zone_can_be_transferred_with_the_key_only,
    pages_for_machines_tell_the_truth,
    a_restart_keeps_objects_and_names,
    signals_end_it_with_zero,
    everything_listens_on_ipv6_too,
);

fn the_first_lines_say_where_everything_is(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let (api, dns) = (machine.api, machine.dns);
    let out = machine.process()?.out();
    for wanted in [
        format!("API      http://127.0.0.1:{api}"),
        format!("DNS      127.0.0.1:{dns}"),
        format!(
            "export KUBECONFIG={}",
            machine.data().canonicalize()?.join("kubeconfig").display()
        ),
        "kubectl get dnszones,arecords".to_owned(),
        format!("dig @127.0.0.1 -p {dns} www.example.com"),
    ] {
        ensure!(out.contains(&wanted), "{wanted:?} is not in\n{out}");
    }
    let process = machine.process()?;
    let wanted = "arecord/default/www Ready example.com www.example.com. A 192.0.2.1 192.0.2.2\n";
    until("the line of the record", || {
        Ok(process.out().contains(wanted).then_some(()))
    })
    .with_context(|| process.out())?;
    ensure!(!process.out().contains('\x1b'), "a pipe gets plain lines");
    let log = process.err();
    let wrong = ["WARN", "ERROR"].iter().any(|level| log.contains(level));
    ensure!(!wrong, "nothing went wrong, but: {log}");
    Ok(())
}

fn declared_names_resolve(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    machine.resolves(&["+tcp", "www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    machine.resolves(&["www.example.com", "AAAA"], &["2001:db8::1"])?;
    machine.resolves(&["docs.example.com", "CNAME"], &["www.example.com."])?;
    machine.resolves(&["example.com", "TXT"], &["\"v=spf1 -all\""])?;
    machine.resolves(&["shop.example.com"], &["192.0.2.10"])?;
    machine.resolves(&["WwW.ExAmPlE.cOm"], &["192.0.2.1", "192.0.2.2"])?;
    let missing = machine.dig(&["nothing.example.com"])?.join("\n");
    ensure!(missing.contains("NXDOMAIN"), "{missing}");
    Ok(())
}

fn the_zone_can_be_transferred_with_the_key_only(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let key = machine.data().join("tsig.key").display().to_string();
    let mode = text(&run("stat", &["-c", "%a", &key])?)?;
    ensure!(mode.trim() == "600", "the key has mode {mode}");
    let mode = text(&run(
        "stat",
        &["-c", "%a", &machine.data().display().to_string()],
    )?)?;
    ensure!(mode.trim() == "700", "the data folder has mode {mode}");
    let zone = machine
        .dig(&["-k", &key, "example.com", "AXFR"])?
        .join("\n");
    for name in ["www.example.com.", "docs.example.com.", "shop.example.com."] {
        ensure!(zone.contains(name), "{name} is not in\n{zone}");
    }
    let refused = machine
        .dig(&["example.com", "AXFR"])
        .unwrap_or_default()
        .join("\n");
    ensure!(!refused.contains("www.example.com."), "{refused}");
    Ok(())
}

/// What somebody who builds alerts relies on; all of them stand in `docs/metrics.md`.
const METRICS: [&str; 12] = [
    "bindery_update_duration_seconds",
    "bindery_update_sets",
    "bindery_served_duration_seconds",
    "bindery_server_behind_zones",
    "bindery_cache_age_seconds",
    "bindery_engine_inbox_objects",
    "bindery_visits",
    "bindery_visit_retries",
    "bindery_api_watch_restarts",
    "bindery_events_written",
    "bindery_events_dropped",
    "bindery_embedded_requests",
];

fn pages_for_machines_tell_the_truth(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    ensure!(fetch(machine.metrics, "/healthz")?.0 == 200, "it lives");
    ensure!(
        fetch(machine.metrics, "/nothing")?.0 == 404,
        "there is no such page"
    );
    until("all objects are counted as ready", || {
        let (_, page) = fetch(machine.metrics, "/metrics")?;
        ensure!(page.ends_with('\n') && !page.contains("# EOF"), "{page}");
        ensure!(page.contains("bindery_build_info{version="), "{page}");
        for name in METRICS {
            let declared = ["", "_total"]
                .iter()
                .any(|suffix| page.contains(&format!("# TYPE {name}{suffix} ")));
            ensure!(declared, "{name} is not in\n{page}");
        }
        let ready = [
            "bindery_objects{kind=\"DNSZone\",state=\"Ready\"} 1",
            "bindery_objects{kind=\"ARecord\",state=\"Ready\"} 1",
            "bindery_objects{kind=\"DNSEndpoint\",state=\"Ready\"} 1",
            "bindery_embedded_requests_total{verb=\"watch\",code=\"200\"}",
            "bindery_cache_age_seconds{kind=\"DNSZone\"}",
            "bindery_events_dropped_total 0",
        ];
        Ok(ready.iter().all(|line| page.contains(line)).then_some(()))
    })
}

fn a_restart_keeps_objects_and_names(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let uids = |machine: &Machine| {
        let path = "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.uid}\n{end}";
        machine.kubectl(&[
            "get",
            "dnszones,arecords,dnsendpoints,namespaces",
            "-o",
            path,
        ])
    };
    let before = uids(&machine)?;
    let key = std::fs::read(machine.data().join("tsig.key"))?;
    machine.stop("TERM")?;
    machine.launch()?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    machine.wait_until_ready()?;
    let after = uids(&machine)?;
    ensure!(
        before == after && before.lines().count() >= 7,
        "{before}\n{after}"
    );
    ensure!(
        key == std::fs::read(machine.data().join("tsig.key"))?,
        "the key changed"
    );
    Ok(())
}

fn signals_end_it_with_zero(server: Server) -> Result<()> {
    for signal in ["INT", "TERM"] {
        let mut machine = Machine::quickstart(server)?;
        let pid = machine.process()?.pid().to_string();
        let children = run("pgrep", &["-P", &pid])?.stdout;
        let ended = machine.stop(signal)?;
        ensure!(ended.code() == Some(0), "SIG{signal}: {ended}");
        for child in String::from_utf8_lossy(&children).lines() {
            let left = run("kill", &["-0", child])?;
            ensure!(!left.status.success(), "its child {child} is still there");
        }
    }
    Ok(())
}

fn everything_listens_on_ipv6_too(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    machine.write(
        "zone.yaml",
        include_str!("../../../../examples/quickstart/zone.yaml"),
    )?;
    let (api, dns, metrics) = (free_port()?, free_port()?, free_port()?);
    let (folder, data) = (machine.folder(), machine.data());
    let line = [
        "up".to_owned(),
        folder.display().to_string(),
        format!("--data-dir={}", data.display()),
        format!("--server={}", server.as_str()),
        format!("--api-address=[::1]:{api}"),
        format!("--dns-address=[::1]:{dns}"),
        format!("--metrics-address=127.0.0.1:{metrics}"),
    ];
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let process = Process::start(&line, machine.scratch.path(), 0)?;
    until("it is ready", || {
        Ok(fetch(metrics, "/readyz")
            .ok()
            .filter(|(code, _)| *code == 200))
    })
    .with_context(|| process.err())?;
    let port = dns.to_string();
    let soa = text(&run(
        "dig",
        &["@::1", "-p", &port, "+short", "example.com", "SOA"],
    )?)?;
    ensure!(soa.contains("hostmaster.example.com."), "{soa}");
    let server = format!("--server=http://[::1]:{api}");
    let zones = text(&run("kubectl", &[&server, "get", "dnszones"])?)?;
    ensure!(zones.contains("example-com"), "{zones}");
    Ok(())
}

/// `named` is a child like any other: it may be killed, and then there is another one.
pub(crate) fn a_dead_named_is_replaced(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let pid = machine.process()?.pid().to_string();
    let child = text(&run("pgrep", &["-P", &pid])?)?;
    text(&run("kill", &["-KILL", child.trim()])?)?;
    let process = machine.process()?;
    until("it is told", || {
        Ok(process.err().contains("named ended").then_some(()))
    })?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    machine.write("late.yaml", &zone("late", "late.test"))?;
    machine.resolves(&["late.test", "SOA"], &[SOA_OF_LATE])
}

const SOA_OF_LATE: &str = "ns1.late.test. hostmaster.late.test. 1 3600 600 604800 3600";

fn zone(name: &str, zone: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\nmetadata: {{name: {name}}}\n\
         spec: {{zoneName: {zone}}}\n"
    )
}
