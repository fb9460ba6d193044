//! Three machines in one: a client, a router with the rules, backends.
//!
//! ```text
//! client 10.77.0.2 ── 10.77.0.1 router 10.77.1.1 ── 10.77.1.2 … 10.77.1.5 backends
//!        fd77::2   ── fd77::1          fd77:1::1 ── fd77:1::2 … fd77:1::5
//! ```

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Everything that a test waits for comes within this.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The port of the backends.
pub const BACKEND_PORT: u16 = 8080;

/// The three namespaces; they go with it.
pub struct Machines {
    prefix: String,
}

impl Machines {
    /// The machines; `None`, told on the terminal, where this one cannot make them.
    #[must_use]
    pub fn new() -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("bindery-{}-{number}", std::process::id());
        let machines = Self { prefix };
        for place in ["client", "router", "backend"] {
            let made = ip(&["netns", "add", &machines.name(place)]);
            if let Err(reason) = made {
                eprintln!(
                    "SKIPPED: network namespaces need root and a kernel that has them: {reason}"
                );
                return None;
            }
        }
        if let Err(reason) = run("nft", &["--version"]) {
            eprintln!("SKIPPED: install the package nftables: {reason}");
            return None;
        }
        machines.connect(
            "client",
            ("10.77.0.2/24", "fd77::2/64"),
            ("10.77.0.1/24", "fd77::1/64"),
        );
        machines.connect(
            "backend",
            ("10.77.1.2/24", "fd77:1::2/64"),
            ("10.77.1.1/24", "fd77:1::1/64"),
        );
        for last in 3..6 {
            let (four, six) = (format!("10.77.1.{last}/24"), format!("fd77:1::{last}/64"));
            machines.add_address("backend", "eth", &four);
            machines.add_address("backend", "eth", &six);
        }
        for (place, four, six) in [
            ("client", "10.77.0.1", "fd77::1"),
            ("backend", "10.77.1.1", "fd77:1::1"),
        ] {
            let name = machines.name(place);
            done(ip(&["-n", &name, "route", "add", "default", "via", four]));
            done(ip(&[
                "-n", &name, "-6", "route", "add", "default", "via", six,
            ]));
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
        done(machines.exec("router", &["sh", "-c", forward]));
        Some(machines)
    }

    /// The name of a namespace.
    #[must_use]
    pub fn name(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }

    /// Runs a program in a namespace, and gives what it printed.
    ///
    /// # Errors
    /// What it said when it failed.
    pub fn exec(&self, place: &str, line: &[&str]) -> Result<String, String> {
        let name = self.name(place);
        let mut arguments = vec!["netns", "exec", name.as_str()];
        arguments.extend(line);
        ip(&arguments)
    }

    /// Does something on a thread in a namespace.
    pub fn within<T: Send + 'static>(
        &self,
        place: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = format!("/run/netns/{}", self.name(place));
        std::thread::spawn(move || {
            let namespace = File::open(file).expect("it was made");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).expect("we are root");
            work()
        })
    }

    /// A backend that says its address and the client's, and then everything that it hears.
    pub fn backend(&self, address: &str) -> SocketAddr {
        let endpoint = SocketAddr::new(address.parse().expect("an address"), BACKEND_PORT);
        let listener = self.within("backend", move || {
            (
                TcpListener::bind(endpoint).expect("it is free"),
                UdpSocket::bind(endpoint).expect("it is free"),
            )
        });
        let (listener, datagrams) = listener.join().expect("it listens");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || echo(stream, endpoint));
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((_, peer)) = datagrams.recv_from(&mut buffer) {
                let text = format!("{} {}", endpoint.ip(), peer.ip());
                datagrams.send_to(text.as_bytes(), peer).ok();
            }
        });
        endpoint
    }

    /// What a client hears that says a word and ends: backend, source, word.
    pub fn ask(&self, front: SocketAddr) -> std::io::Result<String> {
        let asked = self.within("client", move || ask(front));
        asked.join().expect("it ends")
    }

    /// A connection of a client that stays open, and what it heard first.
    pub fn connect_to(&self, front: SocketAddr) -> TcpStream {
        let stream = self.within("client", move || {
            TcpStream::connect_timeout(&front, PATIENCE)
        });
        let mut stream = stream.join().expect("it ends").expect("it is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        say(&mut stream, "first").expect("it answers");
        stream
    }

    fn connect(&self, place: &str, there: (&str, &str), here: (&str, &str)) {
        let (name, router) = (self.name(place), self.name("router"));
        let link = format!("to-{place}");
        let pair = [
            "link", "add", &link, "type", "veth", "peer", "name", "eth", "netns", &name,
        ];
        let mut arguments = vec!["-n", router.as_str()];
        arguments.extend(pair);
        done(ip(&arguments));
        for (place, link, addresses) in [(place, "eth", there), ("router", link.as_str(), here)] {
            self.add_address(place, link, addresses.0);
            self.add_address(place, link, addresses.1);
            let name = self.name(place);
            done(ip(&["-n", &name, "link", "set", link, "up"]));
            done(ip(&["-n", &name, "link", "set", "lo", "up"]));
        }
    }

    fn add_address(&self, place: &str, link: &str, address: &str) {
        let name = self.name(place);
        let mut arguments = vec!["-n", name.as_str(), "addr", "add", address, "dev", link];
        if address.contains(':') {
            arguments.push("nodad");
        }
        done(ip(&arguments));
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for place in ["client", "router", "backend"] {
            ip(&["netns", "del", &self.name(place)]).ok();
        }
    }
}

/// Says a word and hears backend, source and word.
pub fn ask(front: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&front, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"hello")?;
    stream.shutdown(Shutdown::Write)?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard)?;
    Ok(heard)
}

/// Says a word on a connection and hears it come back.
pub fn say(stream: &mut TcpStream, word: &str) -> std::io::Result<String> {
    stream.write_all(word.as_bytes())?;
    let mut heard = String::new();
    let mut buffer = [0; 512];
    while !heard.ends_with(word) {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        heard.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    Ok(heard)
}

fn echo(mut stream: TcpStream, endpoint: SocketAddr) {
    let Ok(peer) = stream.peer_addr() else {
        return;
    };
    let greeting = format!("{} {} ", endpoint.ip(), peer.ip());
    stream.write_all(greeting.as_bytes()).ok();
    let mut buffer = [0; 512];
    while let Ok(len) = stream.read(&mut buffer) {
        if len == 0 || stream.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{program} {}: {said}", arguments.join(" ")))
}

fn done(result: Result<String, String>) {
    if let Err(said) = result {
        panic!("{said}");
    }
}
