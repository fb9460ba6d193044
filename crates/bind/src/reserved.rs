//! A port that nobody else takes until `named` has it.
//!
//! `named` shares its ports with every process of its user that asks for the same (`SO_REUSEPORT`).
//! If two that start at once were given the same free port, both would run and each would get a part
//! of the other's questions.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tokio::net::TcpSocket;

use super::StartError;

/// Ports that are tried at most, where any will do.
const TRIES_MAX: usize = 8;

/// An address of ours, as long as it lives.
pub(super) struct Reserved {
    /// With the port that was chosen.
    pub(super) address: SocketAddr,
    /// Bound, not listening: whoever looks for a free port passes by, `named` may bind it as well.
    _socket: TcpSocket,
}

impl Reserved {
    /// Reserves `wanted`, or some free port where it has port 0.
    pub(super) fn new(wanted: SocketAddr) -> Result<Self, StartError> {
        let failed = |source| StartError::Address {
            address: wanted,
            source,
        };
        // A port that is free for TCP may be taken for UDP; those are held until another is found.
        let mut tried = Vec::new();
        loop {
            let socket = bound(wanted).map_err(failed)?;
            let address = socket.local_addr().map_err(failed)?;
            match UdpSocket::bind(address) {
                Ok(_) => {
                    return Ok(Self {
                        address,
                        _socket: socket,
                    });
                }
                Err(_) if wanted.port() == 0 && tried.len() < TRIES_MAX => tried.push(socket),
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn bound(wanted: SocketAddr) -> io::Result<TcpSocket> {
    if wanted.port() != 0 {
        // One that listens and shares is told from a free port only by a socket that does not share.
        std::net::TcpListener::bind(wanted)?;
    }
    let socket = if wanted.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(wanted)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    fn any() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    // So many that some would meet if ports were free again at once.
    #[tokio::test]
    async fn no_port_is_given_twice() {
        let reserved: Vec<Reserved> = (0..600)
            .map(|_| Reserved::new(any()).expect("ports are free"))
            .collect();
        let ports: BTreeSet<u16> = reserved.iter().map(|one| one.address.port()).collect();
        assert_eq!(ports.len(), reserved.len());
    }

    #[tokio::test]
    async fn a_port_that_is_taken_for_udp_is_not_free() {
        let udp = UdpSocket::bind(any()).expect("ports are free");
        let address = udp.local_addr().expect("it is bound");
        assert!(matches!(
            Reserved::new(address),
            Err(StartError::Address { .. })
        ));
    }

    #[tokio::test]
    async fn who_shares_may_listen_there() {
        let reserved = Reserved::new(any()).expect("ports are free");
        for shares in [TcpSocket::set_reuseport, TcpSocket::set_reuseaddr] {
            let socket = TcpSocket::new_v4().expect("sockets are to be had");
            shares(&socket, true).expect("ports can be shared");
            socket.bind(reserved.address).expect("it is shared");
            socket.listen(1).expect("nobody else listens");
        }
    }

    #[tokio::test]
    async fn a_port_that_somebody_shares_is_not_free() {
        let socket = bound(any()).expect("ports are free");
        let address = socket.local_addr().expect("it is bound");
        let _listening = socket.listen(1).expect("it is bound");
        assert!(matches!(
            Reserved::new(address),
            Err(StartError::Address { .. })
        ));
    }
}
