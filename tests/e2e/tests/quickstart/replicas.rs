//! Several `bindery run` on a real kube-apiserver: one leads, the others stand by, and one that slept while
//! another led undoes nothing.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Process, Server, complain, fetch, until};
use crate::stage::{Peer, Stage};

crate::cases!(
    a_replica_takes_over_when_the_leader_is_told_to_stop,
    a_replica_takes_over_when_the_leader_is_killed,
    a_replica_that_slept_past_its_lease_undoes_nothing,
    an_update_that_arrives_after_another_replica_has_led_does_no_harm,
    a_record_that_is_deleted_while_its_creation_is_on_the_way_does_not_come_back,
    a_replica_that_nobody_replaced_goes_on_where_it_was,
);

const ZONE: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: example-com}
spec:
  zoneName: example.com
  recordsFrom: [{selector: {matchLabels: {zone: example-com}}}]
";

const LINES: &str = "\
example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
example.com. 300 IN NS ns.example.net.";

fn record(name: &str, address: &str) -> String {
    format!(
        "---\napiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: {name}, labels: {{zone: example-com}}}}\n\
         spec: {{name: {name}, ipv4Addresses: [{address}]}}\n"
    )
}

/// What a replica says of itself to those who ask whether it is ready.
fn readiness(metrics: u16) -> String {
    fetch(metrics, "/readyz")
        .map_or_else(|_| String::new(), |(code, body)| format!("{code} {body}"))
}

fn leads(metrics: u16) -> bool {
    let page = fetch(metrics, "/metrics");
    page.is_ok_and(|(_, page)| page.lines().any(|line| line == "bindery_leader 1"))
}

fn until_leads(peer: &Peer) -> Result<()> {
    until("it leads", || Ok(leads(peer.metrics).then_some(()))).with_context(|| peer.process.err())
}

/// A zone with a record that the first replica published, while the second stands by.
fn two_replicas() -> Result<(Stage, crate::wire::Wire, Peer)> {
    let (stage, wire) = Stage::of_replicas("first")?;
    stage.create_zone("example.com", LINES)?;
    until("the first leads", || Ok(leads(stage.metrics).then_some(())))
        .with_context(|| stage.process.err())?;
    let second = stage.start_replica("second")?;
    stage.kubectl_apply(&(ZONE.to_owned() + &record("www", "192.0.2.1")))?;
    stage.wait("Ready", "arecord/www")?;
    stage.wait("Ready", "dnszone/example-com")?;
    let said = until("the second stands by", || {
        let said = readiness(second.metrics);
        Ok(said.starts_with("200").then_some(said))
    })
    .with_context(|| second.process.err())?;
    ensure!(said.starts_with("200 ok: follower; first_"), "{said}");
    until("the leader is ready", || {
        Ok((readiness(stage.metrics) == "200 ok\n").then_some(()))
    })?;
    ensure!(!leads(second.metrics), "two lead");
    Ok((stage, wire, second))
}

/// Publishes a record and waits until it is served; says how long that took since `from`.
fn publish(stage: &Stage, what: &str, from: Instant) -> Result<()> {
    stage.kubectl_apply(&record("next", "192.0.2.2"))?;
    stage.resolves("next.example.com", "A", "192.0.2.2")?;
    complain(&format!(
        "{what}: the next record was served after {:?}",
        from.elapsed()
    ));
    stage.wait("Ready", "arecord/next")
}

fn a_replica_takes_over_when_the_leader_is_told_to_stop(_: Server) -> Result<()> {
    let (mut stage, _wire, second) = two_replicas()?;
    let from = Instant::now();
    stage.process.signal("TERM")?;
    publish(&stage, "SIGTERM", from)?;
    let ended = stage.process.wait()?;
    let log = stage.process.err();
    ensure!(ended.code() == Some(0), "{ended}: {log}");
    ensure!(log.contains("the lease is released"), "{log}");
    until_leads(&second)?;
    // What the first had is as it was, and the second knows that it is ours.
    stage.resolves("www.example.com", "A", "192.0.2.1")?;
    stage.kubectl(&["delete", "--timeout=60s", "arecord/www"])?;
    stage.resolves("www.example.com", "A", "")
}

fn a_replica_takes_over_when_the_leader_is_killed(_: Server) -> Result<()> {
    let (mut stage, _wire, second) = two_replicas()?;
    let from = Instant::now();
    stage.process.signal("KILL")?;
    stage.process.wait()?;
    publish(&stage, "kill -9", from)?;
    until_leads(&second)
}

/// While the first sleeps, the second changes and deletes what the first has published.
fn a_replica_that_slept_past_its_lease_undoes_nothing(_: Server) -> Result<()> {
    let (mut stage, _wire, second) = two_replicas()?;
    stage.kubectl_apply(&record("gone", "192.0.2.7"))?;
    stage.wait("Ready", "arecord/gone")?;
    stage.process.signal("STOP")?;
    // It has seen none of this, or half of it.
    stage.kubectl_apply(&record("www", "192.0.2.99"))?;
    stage.kubectl(&["delete", "--wait=false", "arecord/gone"])?;
    stage.kubectl_apply(&record("new", "192.0.2.8"))?;
    until_leads(&second)?;
    stage.resolves("www.example.com", "A", "192.0.2.99")?;
    stage.resolves("gone.example.com", "A", "")?;
    stage.resolves("new.example.com", "A", "192.0.2.8")?;
    stage.kubectl(&["wait", "--for=delete", "arecord/gone", "--timeout=60s"])?;
    let serial = stage.serial("example.com")?;
    stage.process.signal("CONT")?;
    steps_down(&mut stage.process)?;
    ensure!(stage.serial("example.com")? == serial, "it wrote something");
    for (name, address) in [("www", "192.0.2.99"), ("gone", ""), ("new", "192.0.2.8")] {
        stage.resolves(&format!("{name}.example.com"), "A", address)?;
    }
    // Started again, it stands by.
    let first = stage.start_replica("first")?;
    until("it stands by", || {
        Ok(readiness(first.metrics)
            .starts_with("200 ok: follower; second_")
            .then_some(()))
    })
    .with_context(|| first.process.err())
}

/// It ends by itself and says why.
fn steps_down(process: &mut Process) -> Result<()> {
    let ended = process.wait()?;
    let log = process.err();
    ensure!(ended.code() == Some(1), "{ended}: {log}");
    ensure!(
        log.contains("another replica has the lease bindery/bindery (second_"),
        "{log}"
    );
    Ok(())
}

/// An update that the first has sent is on its way while the second leads, and arrives late.
fn an_update_that_arrives_after_another_replica_has_led_does_no_harm(_: Server) -> Result<()> {
    let (mut stage, wire, second) = two_replicas()?;
    wire.hold();
    stage.kubectl_apply(&record("www", "192.0.2.50"))?;
    until("it is on its way", || Ok((wire.held() > 0).then_some(())))?;
    stage.process.signal("STOP")?;
    stage.kubectl_apply(&record("www", "192.0.2.51"))?;
    until_leads(&second)?;
    stage.resolves("www.example.com", "A", "192.0.2.51")?;
    let serial = stage.serial("example.com")?;
    wire.release();
    stage.process.signal("CONT")?;
    steps_down(&mut stage.process)?;
    stage.resolves("www.example.com", "A", "192.0.2.51")?;
    ensure!(stage.serial("example.com")? == serial, "it wrote something");
    Ok(())
}

/// The same with a record that the first was about to create and that the second had to delete.
fn a_record_that_is_deleted_while_its_creation_is_on_the_way_does_not_come_back(
    _: Server,
) -> Result<()> {
    let (mut stage, wire, second) = two_replicas()?;
    wire.hold();
    stage.kubectl_apply(&record("late", "192.0.2.50"))?;
    until("it is on its way", || Ok((wire.held() > 0).then_some(())))?;
    stage.process.signal("STOP")?;
    stage.kubectl(&["delete", "--wait=false", "arecord/late"])?;
    until_leads(&second)?;
    stage.kubectl(&["wait", "--for=delete", "arecord/late", "--timeout=60s"])?;
    wire.release();
    stage.process.signal("CONT")?;
    steps_down(&mut stage.process)?;
    // What is published from here on is seen by named after what was late.
    stage.kubectl_apply(&record("next", "192.0.2.2"))?;
    stage.wait("Ready", "arecord/next")?;
    stage.resolves("late.example.com", "A", "")
}

/// Nobody else was there, so what it knows is still true.
fn a_replica_that_nobody_replaced_goes_on_where_it_was(_: Server) -> Result<()> {
    let (stage, _wire, mut second) = two_replicas()?;
    second.process.signal("KILL")?;
    second.process.wait()?;
    stage.process.signal("STOP")?;
    stage.kubectl_apply(&record("next", "192.0.2.2"))?;
    stage.await_stale_lease()?;
    stage.process.signal("CONT")?;
    stage.resolves("next.example.com", "A", "192.0.2.2")?;
    stage.wait("Ready", "arecord/next")?;
    let log = stage.process.err();
    ensure!(log.contains("nobody else had it"), "{log}");
    Ok(())
}
