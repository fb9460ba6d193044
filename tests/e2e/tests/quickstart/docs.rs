//! The manifests of the documentation, applied as they stand.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};

crate::cases!(the_manifests_of_zones_and_records_do_what_the_page_says);

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/zones-and-records.md"
);

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
