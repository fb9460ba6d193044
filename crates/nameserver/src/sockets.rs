//! UDP and TCP: reading requests, writing replies, and the limits of both.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::BuiltinServer;
use super::respond::{Reply, Transport, respond};
use super::transfer::Transfer;

/// TCP connections at a time; each costs a task and a buffer, about 70 KB at worst.
const CONNECTIONS_MAX: usize = 256;

/// How long a connection may be silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to receive what it asked for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Updates of one connection (or of one UDP loop) that wait for the disk.
const UPDATES_WAITING_MAX: usize = 100;

/// UDP loops on the one socket; a second one reads while the first answers.
const UDP_LOOPS: usize = 2;

/// Messages of a transfer that wait for the client to take them.
const TRANSFER_QUEUE: usize = 4;

/// How often a free port is looked for where any will do: UDP and TCP must have the same.
const PORT_TRIES: usize = 32;

/// A UDP and a TCP socket on the same address.
pub struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Sockets {
    /// Binds both; with port 0 any port that is free for both.
    ///
    /// # Errors
    /// If the address is in use or not of this machine.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        for _ in 1..PORT_TRIES {
            let tcp = TcpListener::bind(address).await?;
            match UdpSocket::bind(tcp.local_addr()?).await {
                Ok(udp) => return Ok(Self { udp, tcp }),
                Err(error) if address.port() != 0 => return Err(error),
                Err(_) => {}
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "no port is free for both UDP and TCP",
        ))
    }

    /// The address both are bound to.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Answers on both sockets until `stop`.
pub(super) async fn serve(server: BuiltinServer, sockets: Sockets, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let udp = Arc::new(sockets.udp);
    for _ in 0..UDP_LOOPS {
        tasks.spawn(datagrams(server.clone(), Arc::clone(&udp)));
    }
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let stopped = stop.cancelled();
    tokio::pin!(stopped);
    loop {
        let accept = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (sockets.tcp.accept().await, slot)
        };
        tokio::select! {
            biased;
            () = &mut stopped => break,
            Some(_) = tasks.join_next() => {}
            (accepted, slot) = accept => match accepted {
                Ok((stream, _)) => {
                    let server = server.clone();
                    tasks.spawn(async move {
                        // An error ends this connection only; the client connects again.
                        drop(connection(&server, stream).await);
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Out of files: give the others time to close some.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    tasks.shutdown().await;
}

async fn datagrams(server: BuiltinServer, socket: Arc<UdpSocket>) {
    let mut buffer = vec![0; 65_535];
    let mut waiting: FuturesUnordered<BoxFuture<'static, (Vec<u8>, SocketAddr)>> =
        FuturesUnordered::new();
    loop {
        let (bytes, client) = tokio::select! {
            biased;
            Some(done) = waiting.next() => done,
            received = socket.recv_from(&mut buffer) => match received {
                Err(_) => continue,
                Ok((length, client)) => {
                    match respond(&server, buffer[..length].to_vec(), Transport::Udp, client.ip()) {
                        Reply::Now(bytes) => (bytes, client),
                        Reply::Later(reply) if waiting.len() < UPDATES_WAITING_MAX => {
                            waiting.push(Box::pin(async move { (reply.await, client) }));
                            continue;
                        }
                        // Too many updates wait: no answer, and the client tries again.
                        Reply::Later(_) | Reply::Silence | Reply::Stream(_) => continue,
                    }
                }
            },
        };
        // A client that cannot be reached asks again.
        drop(socket.send_to(&bytes, client).await);
    }
}

async fn connection(server: &BuiltinServer, stream: TcpStream) -> io::Result<()> {
    let client = stream.peer_addr()?.ip();
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let mut buffer = BytesMut::new();
    let mut waiting: FuturesUnordered<BoxFuture<'static, Vec<u8>>> = FuturesUnordered::new();
    let mut open = true;
    while open || !waiting.is_empty() {
        let mut out = Vec::new();
        while waiting.len() < UPDATES_WAITING_MAX
            && let Some(message) = next_message(&mut buffer)
        {
            match respond(server, message, Transport::Tcp, client) {
                Reply::Silence => {}
                Reply::Now(bytes) => frame(&bytes, &mut out),
                Reply::Later(reply) => waiting.push(reply),
                Reply::Stream(transfer) => {
                    write(&mut writer, &std::mem::take(&mut out)).await?;
                    send_transfer(server, *transfer, &mut writer).await?;
                }
            }
        }
        write(&mut writer, &out).await?;
        buffer.reserve(4_096);
        let room = waiting.len() < UPDATES_WAITING_MAX;
        tokio::select! {
            biased;
            Some(bytes) = waiting.next() => {
                let mut out = Vec::new();
                frame(&bytes, &mut out);
                write(&mut writer, &out).await?;
            }
            read = timeout(IDLE_TIMEOUT, reader.read_buf(&mut buffer)), if open && room => {
                match read {
                    Ok(length) => open = length? > 0,
                    Err(_) => open = false,
                }
            }
        }
    }
    Ok(())
}

async fn send_transfer(
    server: &BuiltinServer,
    transfer: Transfer,
    writer: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel(TRANSFER_QUEUE);
    let clock = server.clone();
    let work = tokio::task::spawn_blocking(move || transfer.write(|| clock.now(), &sender));
    while let Some(message) = receiver.recv().await {
        write(writer, &message).await?;
    }
    work.await.map_err(io::Error::other)
}

async fn write(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    match timeout(WRITE_TIMEOUT, writer.write_all(bytes)).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The next whole message in the buffer.
fn next_message(buffer: &mut BytesMut) -> Option<Vec<u8>> {
    let length = usize::from(u16::from_be_bytes(*buffer.first_chunk::<2>()?));
    if buffer.len() < length + 2 {
        return None;
    }
    buffer.advance(2);
    Some(buffer.split_to(length).to_vec())
}

fn frame(message: &[u8], out: &mut Vec<u8>) {
    // Replies are composed within the limit of the length prefix.
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}
