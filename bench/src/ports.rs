//! Ports for the servers that a run starts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Where they are looked for: below the ports that the system gives to whoever asks for any, so
/// nobody is given one of them while a server is restarted.
const PORTS: Range<u16> = 20_000..32_000;
/// Runs at the same time begin to look this far from each other, in so many places.
const STRIDE: u16 = 64;
const PLACES: u32 = 128;

/// So many addresses on loopback with ports in a row that nobody uses, neither by TCP nor by UDP.
/// None is given twice in a run.
pub(crate) fn free_addresses(count: u16) -> Result<Vec<SocketAddr>> {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first = next.unwrap_or_else(own_place);
    while first.saturating_add(count) <= PORTS.end {
        let row: Vec<SocketAddr> = (first..first + count)
            .map(|port| (Ipv4Addr::LOCALHOST, port).into())
            .collect();
        first += count;
        if row.iter().all(is_free) {
            *next = Some(first);
            return Ok(row);
        }
    }
    bail!("no {count} free ports in a row in {PORTS:?}")
}

fn own_place() -> u16 {
    let place = u16::try_from(std::process::id() % PLACES).unwrap_or_default();
    PORTS.start + place * STRIDE
}

fn is_free(address: &SocketAddr) -> bool {
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}
