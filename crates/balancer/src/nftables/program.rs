//! The programs `nft` and `ip`, by which the kernel is told and asked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use bindery_core::balancers::SourceRange;
use bindery_core::{Fault, FaultKind};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::content::{FAMILY, TABLE};
use super::reading::{FoundTable, table};

/// How long one of them may take; a transaction of ten thousand rules takes a second.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The interface that every machine has.
const LOOPBACK: &str = "lo";
/// Folders where they live that a service's PATH may lack.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Which programs are used, and where.
#[derive(Clone, Debug)]
pub struct NftablesSettings {
    /// `nft` of the package nftables.
    pub nft: PathBuf,
    /// `ip` of the package iproute2.
    pub ip: PathBuf,
    /// The network namespace; the one of this process where it is `None`.
    pub namespace: Option<String>,
}

/// The addresses of this machine, and where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Interfaces {
    pub(super) addresses: BTreeMap<IpAddr, String>,
    /// The networks that it is in, other than by loopback.
    networks: Vec<(SourceRange, String)>,
}

/// The programs.
pub(super) struct KernelPrograms {
    settings: NftablesSettings,
}

impl NftablesSettings {
    /// The programs of this machine; `None` where one is not installed.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        let find = |name: &str| {
            let mut files = FOLDERS
                .iter()
                .map(|folder| PathBuf::from(folder).join(name));
            files.find(|file| file.is_file())
        };
        Some(Self {
            nft: find("nft")?,
            ip: find("ip")?,
            namespace: None,
        })
    }
}

impl Interfaces {
    fn read(links: &Value) -> Self {
        let mut interfaces = Self::default();
        for link in links.as_array().into_iter().flatten() {
            let name = link["ifname"].as_str().unwrap_or_default();
            for shown in link["addr_info"].as_array().into_iter().flatten() {
                let address = shown["local"].as_str().and_then(|text| text.parse().ok());
                let len = shown["prefixlen"]
                    .as_u64()
                    .and_then(|len| len.try_into().ok());
                let Some((address, len)) = address.zip(len) else {
                    continue;
                };
                interfaces.addresses.insert(address, name.to_owned());
                if name != LOOPBACK
                    && let Some(network) = SourceRange::new(address, len)
                {
                    interfaces.networks.push((network, name.to_owned()));
                }
            }
        }
        interfaces
    }

    /// The interface that is to have an address. Every interface answers for an IPv4 address of the machine, so
    /// that loopback has it; an IPv6 address is answered for only where it is (RFC 4861 section 7.2.3).
    pub(super) fn home(&self, address: IpAddr) -> &str {
        let mut networks = self.networks.iter();
        let network = networks.find(|(network, _)| address.is_ipv6() && network.contains(address));
        network.map_or(LOOPBACK, |(_, name)| name)
    }
}

impl KernelPrograms {
    pub(super) fn new(settings: NftablesSettings) -> Self {
        Self { settings }
    }

    /// Reads our table; a machine that has none has an empty one.
    pub(super) async fn fetch_table(&self) -> Result<FoundTable, Fault> {
        let output = self
            .output(&self.settings.nft, &["-j", "list", "tables"], None)
            .await?;
        let tables = read(&output, "nft -j list tables")?;
        let ours = json!({ "family": FAMILY, "name": TABLE });
        let is_there = tables["nftables"].as_array().is_some_and(|all| {
            all.iter().any(|one| {
                let one = &one["table"];
                one["family"] == ours["family"] && one["name"] == ours["name"]
            })
        });
        if !is_there {
            return Ok(FoundTable::default());
        }
        let arguments = ["-j", "list", "table", FAMILY, TABLE];
        let output = self.output(&self.settings.nft, &arguments, None).await?;
        Ok(table(&read(&output, "nft -j list table")?))
    }

    /// Carries out all commands or none.
    pub(super) async fn send_commands(&self, commands: &[Value]) -> Result<(), Fault> {
        let text = json!({ "nftables": commands }).to_string();
        let nft = &self.settings.nft;
        let output = self.output(nft, &["-j", "-f", "-"], Some(text)).await?;
        done(&output, "nft -j -f -")
    }

    /// All addresses of this machine.
    pub(super) async fn fetch_interfaces(&self) -> Result<Interfaces, Fault> {
        let ip = &self.settings.ip;
        let output = self.output(ip, &["-j", "addr", "show"], None).await?;
        Ok(Interfaces::read(&read(&output, "ip -j addr show")?))
    }

    /// Gives an interface an address, or takes it away.
    pub(super) async fn send_address(
        &self,
        verb: &str,
        address: IpAddr,
        interface: &str,
    ) -> Result<(), Fault> {
        let (prefix, more): (_, &[&str]) = match address {
            IpAddr::V4(_) => (format!("{address}/32"), &[]),
            // Nobody else has it, so that it need not wait to be used.
            IpAddr::V6(_) if verb == "add" => (format!("{address}/128"), &["nodad"]),
            IpAddr::V6(_) => (format!("{address}/128"), &[]),
        };
        let mut arguments = vec!["addr", verb, &prefix, "dev", interface];
        arguments.extend(more);
        let output = self.output(&self.settings.ip, &arguments, None).await?;
        done(&output, &format!("ip {}", arguments.join(" ")))
    }

    async fn output(
        &self,
        program: &PathBuf,
        arguments: &[&str],
        input: Option<String>,
    ) -> Result<Output, Fault> {
        let mut command = match &self.settings.namespace {
            Some(namespace) => {
                let mut command = Command::new(&self.settings.ip);
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let name = program.display();
        let broken = |error: std::io::Error| {
            let text = format!("{name} cannot be run: {error}");
            Fault::new(FaultKind::Unreachable, text)
        };
        let mut child = command.spawn().map_err(broken)?;
        let stdin = child.stdin.take();
        let talk = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A program that ends early says why in its output.
                let _ended_early = stdin.write_all(input.as_bytes()).await;
            }
        };
        let both = async { tokio::join!(talk, child.wait_with_output()).1 };
        if let Ok(output) = tokio::time::timeout(TIMEOUT, both).await {
            return output.map_err(broken);
        }
        let text = format!("{name} did not end within {} s", TIMEOUT.as_secs());
        Err(Fault::new(FaultKind::Lost, text))
    }
}

fn read(output: &Output, what: &str) -> Result<Value, Fault> {
    done(output, what)?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let text = format!("`{what}` printed no JSON: {error}");
        Fault::new(FaultKind::Malformed, text)
    })
}

fn done(output: &Output, what: &str) -> Result<(), Fault> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find(|line| !line.trim().is_empty());
    let said = said.unwrap_or("it said nothing");
    let kind = if said.contains("not permitted") || said.contains("you must be root") {
        FaultKind::Denied
    } else {
        FaultKind::ServerFailed
    };
    Err(Fault::new(kind, format!("`{what}` failed: {said}")))
}
