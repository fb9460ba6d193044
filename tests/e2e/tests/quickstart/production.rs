//! BIND clusters on one machine: the example of a production set-up, with a real `named` and a real sidecar for
//! each pod, and what its conditions say while something breaks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, run, text, until};

crate::cases!(
    a_production_cluster_comes_up_and_heals,
    a_cluster_is_scaled_and_stays_served,
    a_zone_waits_for_its_cluster_and_a_bad_configuration_changes_nothing,
);

/// The manifests of the example.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/production");
const REASON: &str = ".status.conditions[?(@.type=='Ready')].reason";

/// The example on a machine of its own.
pub(crate) fn example() -> Result<Machine> {
    let mut machine = Machine::idle(Server::Builtin)?;
    for file in fs::read_dir(EXAMPLE).context("the example is there")? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        machine.write(&name, &fs::read_to_string(file.path())?)?;
    }
    machine.start()?;
    Ok(machine)
}

/// Waits until a path of an object in the example's namespace says this.
fn says(machine: &Machine, object: &str, path: &str, wanted: &str) -> Result<()> {
    let output = format!("jsonpath={{{path}}}");
    let mut last = String::new();
    let found = until(object, || {
        let arguments = ["get", object, "-n", "dns-system", "-o", &output];
        last = machine.kubectl(&arguments).unwrap_or_default();
        Ok((last.trim() == wanted).then_some(()))
    });
    found.with_context(|| format!("{object}: {last:?} is not {wanted:?}"))
}

pub(crate) fn addresses(machine: &Machine) -> Result<Vec<String>> {
    let output = "jsonpath={.items[*].status.podIP}";
    let found = machine.kubectl(&["get", "pods", "-n", "dns-system", "-o", output])?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}

/// Asks one pod for a name, or for a name and a type.
pub(crate) fn ask(address: &str, question: &str) -> Result<String> {
    let server = format!("@{address}");
    let mut asked = vec!["+short", "+time=1", "+tries=1", &server, "-p", "5353"];
    asked.extend(question.split(' '));
    Ok(String::from_utf8_lossy(&run("dig", &asked)?.stdout)
        .trim()
        .to_owned())
}

/// Waits until every pod answers so.
fn served(machine: &Machine, name: &str, wanted: &str) -> Result<()> {
    for address in addresses(machine)? {
        until(&format!("{name} on {address}"), || {
            Ok((ask(&address, name)? == wanted).then_some(()))
        })?;
    }
    Ok(())
}

pub(crate) fn pods(machine: &Machine) -> PathBuf {
    machine.data().join("pods/dns-system")
}

/// Sends a signal to a container of a pod.
pub(crate) fn signal(pod: &Path, container: &str, signal: &str) -> Result<()> {
    let file = pod.join("containers").join(container).join("pid");
    let pid = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
    text(&run("kill", &[&format!("-{signal}"), &pid])?)?;
    Ok(())
}

pub(crate) fn all_ready(machine: &Machine) -> Result<()> {
    says(machine, "b9gc/production-dns", REASON, "ClustersReady")?;
    says(machine, "b9c/production-dns", REASON, "AllReady")?;
    for zone in ["example-com", "example-net", "internal-example"] {
        says(
            machine,
            &format!("zone/{zone}"),
            REASON,
            "ReconcileSucceeded",
        )?;
    }
    Ok(())
}

fn a_production_cluster_comes_up_and_heals(_: Server) -> Result<()> {
    let machine = example()?;
    all_ready(&machine)?;
    ensure!(addresses(&machine)?.len() == 4, "four pods");
    served(&machine, "web-1.example.com", "192.0.2.1")?;
    served(&machine, "db-10.internal.example", "198.51.100.10")?;
    let message = ".status.conditions[?(@.type=='Bind9Instance-3')].message";
    let child = "Instance production-dns-secondary-1 is ready (1/1 pods)";
    says(&machine, "b9c/production-dns", message, child)?;

    // A process that dies, hangs or loses its data is told of, and healed.
    let condition = ".status.conditions[?(@.type=='Pod-0')].status";
    let primary = pods(&machine).join("production-dns-primary-0-0");
    let secondary = pods(&machine).join("production-dns-secondary-0-0");
    signal(&secondary, "bind9", "KILL")?;
    says(
        &machine,
        "b9/production-dns-secondary-0",
        condition,
        "False",
    )?;
    all_ready(&machine)?;
    signal(&primary, "api", "STOP")?;
    says(
        &machine,
        "b9/production-dns-primary-0",
        REASON,
        "BindcarUnreachable",
    )?;
    all_ready(&machine)?;
    signal(&primary, "bind9", "STOP")?;
    says(&machine, "b9/production-dns-primary-0", condition, "False")?;
    all_ready(&machine)?;
    let data = primary.join("volumes/data");
    for file in fs::read_dir(&data)? {
        fs::remove_file(file?.path())?;
    }
    signal(&primary, "bind9", "KILL")?;
    says(&machine, "b9/production-dns-primary-0", condition, "False")?;
    all_ready(&machine)?;
    served(&machine, "web-1.example.com", "192.0.2.1")?;
    served(
        &machine,
        "www.example.net",
        "web-1.example.net.\n192.0.2.17",
    )
}

fn a_cluster_is_scaled_and_stays_served(_: Server) -> Result<()> {
    let machine = example()?;
    all_ready(&machine)?;
    let wide = "b9gc/production-dns";
    let scale = |patch: &str| machine.kubectl(&["patch", wide, "--type=merge", "-p", patch]);
    scale(r#"{"spec":{"primary":{"replicas":3},"secondary":{"replicas":1}}}"#)?;
    says(&machine, "b9/production-dns-primary-2", REASON, "AllReady")?;
    until("the last secondary goes", || {
        let gone = [
            "get",
            "b9",
            "production-dns-secondary-1",
            "-n",
            "dns-system",
        ];
        Ok(machine.kubectl(&gone).is_err().then_some(()))
    })?;
    says(&machine, "b9c/production-dns", ".status.instanceCount", "4")?;
    all_ready(&machine)?;
    until("four pods", || {
        Ok((addresses(&machine)?.len() == 4).then_some(()))
    })?;
    served(&machine, "web-16.example.com", "192.0.2.16")
}

fn a_zone_waits_for_its_cluster_and_a_bad_configuration_changes_nothing(_: Server) -> Result<()> {
    let machine = example()?;
    all_ready(&machine)?;
    let zone = "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\nmetadata: {name: late, namespace: \
                dns-system}\nspec: {zoneName: late.example, clusterRef: late}\n";
    machine.apply(zone, &[])?;
    says(&machine, "zone/late", REASON, "ClusterNotFound")?;
    let cluster = "apiVersion: bindy.firestoned.io/v1beta1\nkind: Bind9Cluster\nmetadata: {name: late, \
                   namespace: dns-system}\nspec: {primary: {replicas: 1}}\n";
    machine.apply(cluster, &[])?;
    says(&machine, "zone/late", REASON, "ReconcileSucceeded")?;
    let own = "jsonpath={.status.servers[*].address}";
    let servers = machine.kubectl(&["get", "zone/late", "-n", "dns-system", "-o", own])?;
    ensure!(servers.split_whitespace().count() == 1, "{servers}");

    // An access list that is not there: named says so, and goes on with what it has.
    let patch = r#"{"spec":{"global":{"allowQuery":["nowhere"]}}}"#;
    let cluster = [
        "patch",
        "b9c/late",
        "-n",
        "dns-system",
        "--type=merge",
        "-p",
        patch,
    ];
    machine.kubectl(&cluster)?;
    says(
        &machine,
        "b9/late-primary-0",
        REASON,
        "ConfigurationInvalid",
    )?;
    let address = servers.trim().trim_end_matches(":5353");
    ensure!(!ask(address, "ns1.late.example")?.is_empty(), "it goes on");
    let patch = r#"{"spec":{"global":{"allowQuery":["any"]}}}"#;
    let cluster = [
        "patch",
        "b9c/late",
        "-n",
        "dns-system",
        "--type=merge",
        "-p",
        patch,
    ];
    machine.kubectl(&cluster)?;
    says(&machine, "b9/late-primary-0", REASON, "AllReady")?;
    says(&machine, "zone/late", REASON, "ReconcileSucceeded")
}
