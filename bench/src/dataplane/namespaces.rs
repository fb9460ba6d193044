//! Three machines in one, which go with the run.
//!
//! ```text
//! client 10.77.0.2 ── 10.77.0.1 router 10.77.1.1 ── 10.77.1.2 backend
//! ```

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where the router is for the client.
pub(super) const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// Where the backend is.
pub(super) const BACKEND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 2));

const PLACES: [&str; 3] = ["client", "router", "backend"];
/// What each namespace is told: packets go through; and there are ports for many connections after each other.
const SETTINGS: &str = "cd /proc/sys/net/ipv4 && echo 1 > ip_forward && echo 1 > tcp_tw_reuse \
                        && echo 1024 65535 > ip_local_port_range";

/// See the module.
pub(super) struct Machines {
    prefix: String,
}

impl Machines {
    /// Makes them.
    pub(super) fn new() -> Result<Self> {
        let prefix = format!("bindery-bench-{}", std::process::id());
        let machines = Self { prefix };
        for place in PLACES {
            ip(&["netns", "add", &machines.name(place)])?;
        }
        machines.connect("client", "10.77.0.2/24", "10.77.0.1/24")?;
        machines.connect("backend", "10.77.1.2/24", "10.77.1.1/24")?;
        for (place, gateway) in [("client", "10.77.0.1"), ("backend", "10.77.1.1")] {
            let name = machines.name(place);
            ip(&["-n", &name, "route", "add", "default", "via", gateway])?;
        }
        for place in PLACES {
            let name = machines.name(place);
            ip(&["netns", "exec", &name, "sh", "-c", SETTINGS])?;
        }
        Ok(machines)
    }

    /// The name of a namespace.
    pub(super) fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }

    /// Does something on a thread in a namespace, and waits for it.
    pub(super) fn within<T: Send + 'static>(
        &self,
        place: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let file = format!("/run/netns/{}", self.name(place));
        let namespace = File::open(&file).with_context(|| file)?;
        let thread = std::thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)
                .context("cannot enter a network namespace")?;
            anyhow::Ok(work())
        });
        let ended = thread.join();
        ended.map_err(|_| anyhow!("a thread in {place} fell"))?
    }

    fn connect(&self, place: &str, there: &str, here: &str) -> Result<()> {
        let (name, router) = (self.name(place), self.name("router"));
        let link = format!("to-{place}");
        ip(&[
            "-n", &router, "link", "add", &link, "type", "veth", "peer", "name", "eth", "netns",
            &name,
        ])?;
        for (name, link, address) in [(&name, "eth", there), (&router, &*link, here)] {
            ip(&["-n", name, "addr", "add", address, "dev", link])?;
            ip(&["-n", name, "link", "set", link, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for place in PLACES {
            // What is not there needs not go.
            ip(&["netns", "del", &self.name(place)]).ok();
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.context("cannot run ip (Debian: apt install iproute2)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "ip {}: {said}",
        arguments.join(" ")
    );
    Ok(())
}
