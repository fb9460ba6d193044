//! A stand-in between the controllers and a sidecar: it hands requests on, or answers them as it is told.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// How often it looks whether somebody comes, or whether it is to do something else.
const POLL: Duration = Duration::from_millis(5);
/// How long it waits for either side.
const PATIENCE: Duration = Duration::from_secs(20);
/// The question by which the controllers find out how a sidecar is.
const QUESTION: &[u8] = b"GET /api/v1/server/status ";

/// What becomes of the question how the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The sidecar answers it.
    Real,
    /// It is answered with this code.
    Code(u16),
    /// It is not answered.
    Silence,
    /// Nobody listens, for whatever question.
    Refusal,
    /// It ends.
    End,
}

/// See the module; dropping it ends it.
pub(super) struct StandIn {
    answer: Arc<Mutex<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Listens at one address for the sidecar at another.
    pub(super) fn start(at: SocketAddr, sidecar: SocketAddr) -> Result<Self> {
        let answer = Arc::new(Mutex::new(Answer::Real));
        let listener = listen(at).with_context(|| format!("{at} is free"))?;
        let told = Arc::clone(&answer);
        let thread = thread::spawn(move || serve(Some(listener), at, sidecar, &told));
        let thread = Some(thread);
        Ok(Self { answer, thread })
    }

    pub(super) fn set(&self, answer: Answer) {
        *lock(&self.answer) = answer;
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.set(Answer::End);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn lock(answer: &Mutex<Answer>) -> MutexGuard<'_, Answer> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn serve(
    mut listener: Option<TcpListener>,
    at: SocketAddr,
    sidecar: SocketAddr,
    answer: &Arc<Mutex<Answer>>,
) {
    loop {
        match (*lock(answer), &listener) {
            (Answer::End, _) => return,
            (Answer::Refusal, _) => listener = None,
            (_, None) => listener = listen(at).ok(),
            (_, Some(open)) => {
                if let Ok((client, _)) = open.accept() {
                    let answer = Arc::clone(answer);
                    // One that hangs must not keep the others.
                    thread::spawn(move || exchange(client, sidecar, &answer));
                    continue;
                }
            }
        }
        thread::sleep(POLL); // pause between polls
    }
}

/// One request, after which the connection ends: the next one may get another answer.
fn exchange(mut client: TcpStream, sidecar: SocketAddr, answer: &Mutex<Answer>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let (head, body) = request(&mut client)?;
    let told = if head.starts_with(QUESTION) {
        *lock(answer)
    } else {
        Answer::Real
    };
    match told {
        Answer::Code(code) => {
            let body = r#"{"error": "as it was told"}"#;
            write!(
                client,
                "HTTP/1.1 {code} Told\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            )
        }
        Answer::Silence => {
            // Until the other side gives up.
            let _ = client.read(&mut [0])?;
            Ok(())
        }
        Answer::Real | Answer::Refusal | Answer::End => {
            let mut server = TcpStream::connect_timeout(&sidecar, PATIENCE)?;
            server.set_read_timeout(Some(PATIENCE))?;
            server.write_all(&head)?;
            server.write_all(b"Connection: close\r\n\r\n")?;
            server.write_all(&body)?;
            io::copy(&mut server, &mut client)?;
            Ok(())
        }
    }
}

/// The head of a request without its last empty line, and its body.
fn request(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut read = Vec::new();
    let mut some = [0; 4096];
    let at = loop {
        if let Some(at) = read.windows(END.len()).position(|part| part == END) {
            break at;
        }
        let len = client.read(&mut some)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read.extend(&some[..len]);
    };
    let mut body = read.split_off(at + END.len());
    read.truncate(at + 2);
    let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
    let len = text.split("content-length:").nth(1);
    let len = len.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    while body.len() < len.unwrap_or(0) {
        let more = client.read(&mut some)?;
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        body.extend(&some[..more]);
    }
    Ok((read, body))
}
