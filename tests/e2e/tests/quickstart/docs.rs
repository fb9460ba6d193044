//! The manifests of the documentation, applied as they stand.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, program, until};

crate::cases!(
    the_manifests_of_zones_and_records_do_what_the_page_says,
    the_commands_of_backups_and_held_deletions_do_what_the_pages_say,
    the_commands_of_upgrades_and_uninstalling_do_what_the_pages_say,
);

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/zones-and-records.md"
);

const BACKUP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backup.md");
const HELD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/held-deletions.md");
const UPGRADE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/upgrade.md");
pub(crate) const UNINSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/uninstall.md");

/// A zone and a record for pages that speak of a shop.
const SHOP: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: shop, namespace: default}
spec: {zoneName: shop.example, recordsFrom: [{selector: {matchLabels: {zone: shop}}}]}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, namespace: default, labels: {zone: shop}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
";

/// The blocks of a page that are marked as shell.
pub(crate) fn scripts(page: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(page).context(page.to_owned())?;
    let blocks = text.split("```sh\n").skip(1);
    let scripts = blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned());
    Ok(scripts.collect())
}

/// Runs a block of a page as a user would who has `bindery` and `kubectl`.
pub(crate) fn run_script(script: &str, kubeconfig: &Path, folder: &Path) -> Result<()> {
    let tools = [program()?.to_owned(), bindery_e2e::program::kubectl()?];
    let tools = tools.iter().filter_map(|tool| tool.parent());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = tools
        .map(Path::to_owned)
        .chain(std::env::split_paths(&path));
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", std::env::join_paths(path)?)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}\n{said}");
    Ok(())
}

/// Runs the blocks of a page, one after the other, each with what is done before it.
fn run_page(machine: &Machine, page: &str, before: &[&dyn Fn() -> Result<()>]) -> Result<()> {
    let scripts = scripts(page)?;
    ensure!(
        scripts.len() == before.len(),
        "{page} has {} blocks",
        scripts.len()
    );
    for (script, prepare) in scripts.iter().zip(before) {
        prepare()?;
        run_script(script, &machine.data().join("kubeconfig"), &machine.data())?;
    }
    Ok(())
}

/// That the names can stay is shown on a real cluster.
fn the_commands_of_upgrades_and_uninstalling_do_what_the_pages_say(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?;
    machine.start()?;
    machine.apply(SHOP, &[])?;
    machine.resolves(&["www.shop.example"], &["192.0.2.1"])?;
    run_page(&machine, UPGRADE, &[&|| Ok(())])?;
    machine.stop("TERM")?;
    machine.start()?;
    machine.resolves(&["www.shop.example"], &["192.0.2.1"])?;
    let scripts = scripts(UNINSTALL)?;
    let [_, go, definitions] = &scripts[..] else {
        anyhow::bail!("the page has {} blocks", scripts.len());
    };
    let kubeconfig = machine.data().join("kubeconfig");
    run_script(go, &kubeconfig, &machine.data())?;
    until("no object is left", || {
        let left = machine.kubectl(&["get", "dnszones,arecords", "-A", "-o", "name"])?;
        Ok(left.is_empty().then_some(()))
    })?;
    machine.resolves(&["www.shop.example"], &[])?;
    run_script(definitions, &kubeconfig, &machine.data())
}

fn the_commands_of_backups_and_held_deletions_do_what_the_pages_say(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?;
    machine.start()?;
    machine.apply(SHOP, &[])?;
    let machine = &machine;
    machine.resolves(&["www.shop.example"], &["192.0.2.1"])?;
    machine.nsupdate("update add theirs.shop.example 60 A 198.51.100.7")?;
    machine.says("dnszone/shop", ".status.foreignCount", "1")?;
    let deleted = || {
        machine.kubectl(&["delete", "dnszone", "shop", "--wait=false"])?;
        let held = ".status.conditions[?(@.type=='Guarded')].reason";
        machine.says("dnszone/shop", held, "Held")
    };
    run_page(machine, HELD, &[&deleted])?;
    machine.resolves(&["theirs.shop.example"], &["198.51.100.7"])?;
    machine.resolves(&["www.shop.example"], &["192.0.2.1"])?;
    let lost = || {
        machine.kubectl(&["delete", "arecord", "www"])?;
        machine.resolves(&["www.shop.example"], &[])
    };
    run_page(machine, BACKUP, &[&|| Ok(()), &lost])?;
    machine.resolves(&["www.shop.example"], &["192.0.2.1"])
}

/// A fenced block of YAML and the reason why it is not to become ready, if it is not.
pub(crate) struct Block {
    pub(crate) yaml: String,
    reason: Option<String>,
}

/// The fenced blocks of YAML on a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut reason = None;
    let mut yaml: Option<String> = None;
    for line in page.lines() {
        match (&mut yaml, line) {
            (None, "```yaml") => yaml = Some(String::new()),
            (Some(_), "```") => {
                let reason = reason.take();
                blocks.extend(yaml.take().map(|yaml| Block { yaml, reason }));
            }
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, line) => {
                if let Some(said) = line.strip_prefix("<!-- not ready: ") {
                    reason = Some(said.trim_end_matches(" -->").to_owned());
                }
            }
        }
    }
    blocks
}

fn the_manifests_of_zones_and_records_do_what_the_page_says(server: Server) -> Result<()> {
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let machine = Machine::idle(server)?.with_secondaries(2)?;
    let mut machine = machine.with_cluster("internal", 1)?;
    machine.start()?;
    let blocks = blocks(&page);
    ensure!(blocks.len() >= 6, "the page has {} manifests", blocks.len());
    for Block { yaml, reason } in blocks {
        let applied = machine.apply(&yaml, &["-o", "name"])?;
        for object in applied.lines() {
            // A DNSEndpoint has other conditions than the rest.
            let (kind, good) = if object.starts_with("dnsendpoint") {
                ("Programmed", "Programmed")
            } else {
                ("Ready", "ReconcileSucceeded")
            };
            let wanted = reason.as_deref().unwrap_or(good);
            let path = format!(".status.conditions[?(@.type=='{kind}')].reason");
            machine.says(object, &path, wanted)?;
        }
    }
    for place in 0..3 {
        machine.resolves_at(place, &["www.shop.example"], &["192.0.2.1", "192.0.2.2"])?;
        machine.resolves_at(place, &["any.apps.shop.example"], &["192.0.2.80"])?;
        let mail = ["10 mail.shop.example.", "20 backup.shop.example."];
        machine.resolves_at(place, &["shop.example", "MX"], &mail)?;
        let srv = ["10 5 5060 www.shop.example."];
        machine.resolves_at(place, &["_sip._tcp.shop.example", "SRV"], &srv)?;
        let caa = ["0 issue \"letsencrypt.org\""];
        machine.resolves_at(place, &["shop.example", "CAA"], &caa)?;
        let alias = ["0 www.shop.example."];
        machine.resolves_at(place, &["shop.example", "HTTPS"], &alias)?;
        let web = ["1 . alpn=\"h2,h3\" ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1"];
        machine.resolves_at(place, &["www.shop.example", "HTTPS"], &web)?;
        let resolver = [
            "1 www.shop.example. mandatory=alpn alpn=\"h2\" no-default-alpn port=8443 \
                         key7=\"/dns-query{?dns}\" key65400=\"what you like\"",
        ];
        machine.resolves_at(place, &["_dns.resolver.shop.example", "SVCB"], &resolver)?;
        let key = ["3 1 1 8CB0FC6C527506A053F4F14C8464BEBBD6DEDE2738D11468DD953D7D6A3021F1"];
        let query = ["+nosplit", "_443._tcp.www.shop.example", "TLSA"];
        machine.resolves_at(place, &query, &key)?;
        let host = ["4 2 A87F1B687AC0E57D2A081A2F282672334D90ED316D2B818CA9580EA384D92401"];
        let query = ["+nosplit", "bastion.shop.example", "SSHFP"];
        machine.resolves_at(place, &query, &host)?;
    }
    // The page has two zones of one name.
    machine.resolves_at(0, &["www.split.example"], &["192.0.2.1"])?;
    machine.resolves_at(3, &["www.split.example"], &["10.0.0.1"])?;
    machine.resolves_at(3, &["app.split.example"], &["10.0.0.2"])?;
    until("the lowest TTL counts", || {
        let answer = machine.dig(&["+noall", "+answer", "shop.example", "MX"])?;
        let lowest = answer
            .iter()
            .all(|line| line.split_whitespace().nth(1) == Some("60"));
        Ok((answer.len() == 2 && lowest).then_some(()))
    })
}
