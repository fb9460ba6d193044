//! The control channel of `named`: one kept connection for any number of commands.
//!
//! A message is a length, the version 1 and a table; a table is entries of a name (with its
//! length in one byte) and a value (a type byte, a length in four bytes, the value). The entry
//! `_auth` comes first and holds the HMAC of all that follows. The first answer brings a nonce
//! that all later messages carry.
//!
//! It is for any `named`, also one that somebody else started.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bindery_dns::{Algorithm, Key, SigningClock};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a command may take; adding a zone of a million records takes seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// The longest answer we take; the text of `status` has some hundred bytes.
const ANSWER_LEN_MAX: u32 = 1 << 20;

/// The field for the algorithm and the base64 of the longest HMAC.
const AUTH_LEN: usize = 89;

const BINARY: u8 = 1;
const TABLE: u8 = 2;

/// Why a command was not carried out.
#[derive(Clone, Debug, Error)]
pub enum RndcFault {
    /// The control channel does not answer.
    #[error("the control channel on {address} failed: {source}")]
    Connection {
        /// Where it should be.
        address: SocketAddr,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// `named` did not do it.
    #[error("it said {text:?}")]
    Failed {
        /// What it said.
        text: String,
        /// Why, where its word for it is known.
        reason: Option<RndcReason>,
    },
    /// `named` hung up on the greeting: it does not know the key, or our clocks differ.
    #[error(
        "the control channel on {address} does not accept the key {key:?}; give both sides the same \
         key, and see that their clocks agree"
    )]
    Denied {
        /// Where it is.
        address: SocketAddr,
        /// The name of the key.
        key: String,
    },
    /// The answer is not from our `named`.
    #[error("the answer of the control channel has a wrong signature")]
    Signature,
    /// The answer cannot be read.
    #[error("the answer of the control channel cannot be read")]
    Malformed,
}

/// Why `named` does not do what a command asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RndcReason {
    /// It has no such zone.
    NotFound,
    /// It has such a zone already.
    Exists,
    /// The zone takes updates, so it is not loaded over what it has.
    DynamicZone,
    /// It has the zone and no data of it.
    NotLoaded,
    /// The zone is a copy.
    NotPrimary,
    /// The zone is frozen already.
    Frozen,
}

impl RndcFault {
    /// Why `named` does not do it, if it said so in a word that is known.
    #[must_use]
    pub fn reason(&self) -> Option<RndcReason> {
        match self {
            Self::Failed { reason, .. } => *reason,
            Self::Connection { .. } | Self::Denied { .. } | Self::Signature | Self::Malformed => {
                None
            }
        }
    }
}

impl RndcReason {
    /// The reason that the field `err` of an answer names. It holds the fixed text of one of the result
    /// codes of `named`, whose numbers differ from version to version.
    fn of(error: &str) -> Option<Self> {
        match error {
            "not found" => Some(Self::NotFound),
            "already exists" => Some(Self::Exists),
            "dynamic zone" => Some(Self::DynamicZone),
            "zone not loaded" => Some(Self::NotLoaded),
            "not primary" => Some(Self::NotPrimary),
            "already frozen" => Some(Self::Frozen),
            _ => None,
        }
    }
}

/// A control channel; it connects when it is first used and again after a failure.
pub struct Rndc {
    address: SocketAddr,
    key: Key,
    clock: SigningClock,
    serial: u32,
    session: Option<Session>,
}

struct Session {
    stream: TcpStream,
    nonce: Vec<u8>,
}

impl Rndc {
    /// A channel to the `named` at `address`; nothing is sent yet. Serials must not repeat within a second,
    /// so the first one is better a random one.
    #[must_use]
    pub fn new(address: SocketAddr, key: Key, clock: SigningClock, first_serial: u32) -> Self {
        Self {
            address,
            key,
            clock,
            serial: first_serial,
            session: None,
        }
    }

    /// Has `named` carry out a command, and returns what it says.
    ///
    /// # Errors
    /// If it cannot be asked, or does not do it.
    ///
    /// # Cancellation
    /// If dropped, the command may have been carried out; the connection is not used again.
    pub async fn command(&mut self, command: &str) -> Result<String, RndcFault> {
        let kept = self.session.take();
        let reused = kept.is_some();
        let first = self.attempt(kept, command).await;
        match first {
            // `named` may have closed a kept connection, for instance because it was restarted.
            Err(RndcFault::Connection { .. }) if reused => self.attempt(None, command).await,
            outcome => outcome,
        }
    }

    async fn attempt(
        &mut self,
        session: Option<Session>,
        command: &str,
    ) -> Result<String, RndcFault> {
        let work = async {
            let mut session = match session {
                Some(session) => session,
                None => self.open().await?,
            };
            let answer = self.exchange(&mut session, command).await?;
            Ok((session, answer))
        };
        let Ok(outcome) = timeout(COMMAND_TIMEOUT, work).await else {
            let source = io::Error::new(io::ErrorKind::TimedOut, "no answer");
            return Err(RndcFault::Connection {
                address: self.address,
                source: Arc::new(source),
            });
        };
        let (session, answer) = outcome?;
        self.session = Some(session);
        answer.outcome()
    }

    async fn open(&mut self) -> Result<Session, RndcFault> {
        let address = self.address;
        let failed = |source| RndcFault::Connection {
            address,
            source: Arc::new(source),
        };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut session = Session {
            stream,
            nonce: Vec::new(),
        };
        let greeting = match self.exchange(&mut session, "null").await {
            // It says nothing to whom it does not know.
            Err(RndcFault::Connection { source, .. })
                if source.kind() == io::ErrorKind::UnexpectedEof =>
            {
                return Err(RndcFault::Denied {
                    address,
                    key: self.key.name(),
                });
            }
            greeted => greeted?,
        };
        session.nonce = greeting.nonce.ok_or(RndcFault::Malformed)?;
        Ok(session)
    }

    async fn exchange(
        &mut self,
        session: &mut Session,
        command: &str,
    ) -> Result<Answer, RndcFault> {
        self.serial = self.serial.wrapping_add(1);
        let now = (self.clock)();
        let signed = request(self.serial, now, &session.nonce, command);
        let bytes = sealed(&self.key, &signed);
        let address = self.address;
        let failed = |source| RndcFault::Connection {
            address,
            source: Arc::new(source),
        };
        session.stream.write_all(&bytes).await.map_err(failed)?;
        let length = session.stream.read_u32().await.map_err(failed)?;
        if length > ANSWER_LEN_MAX {
            return Err(RndcFault::Malformed);
        }
        let mut answer = vec![0; usize::try_from(length).map_err(|_| RndcFault::Malformed)?];
        session
            .stream
            .read_exact(&mut answer)
            .await
            .map_err(failed)?;
        opened(&self.key, &answer)
    }
}

/// What an answer says.
#[derive(Debug, Default)]
struct Answer {
    nonce: Option<Vec<u8>>,
    result: Option<String>,
    text: Option<String>,
    error: Option<String>,
}

impl Answer {
    fn outcome(self) -> Result<String, RndcFault> {
        match self.result.as_deref() {
            None | Some("0") => Ok(self.text.unwrap_or_default()),
            Some(code) => {
                let reason = self.error.as_deref().and_then(RndcReason::of);
                let said = [self.error, self.text]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>();
                let text = if said.is_empty() {
                    format!("result {code}")
                } else {
                    said.join(": ")
                };
                Err(RndcFault::Failed { text, reason })
            }
        }
    }
}

/// The part of a message that is signed.
fn request(serial: u32, now: u64, nonce: &[u8], command: &str) -> Vec<u8> {
    let mut control = Vec::new();
    put(&mut control, "_ser", BINARY, serial.to_string().as_bytes());
    put(&mut control, "_tim", BINARY, now.to_string().as_bytes());
    put(
        &mut control,
        "_exp",
        BINARY,
        (now + 60).to_string().as_bytes(),
    );
    if !nonce.is_empty() {
        put(&mut control, "_nonce", BINARY, nonce);
    }
    let mut data = Vec::new();
    put(&mut data, "type", BINARY, command.as_bytes());
    let mut signed = Vec::new();
    put(&mut signed, "_ctrl", TABLE, &control);
    put(&mut signed, "_data", TABLE, &data);
    signed
}

/// A whole message around the signed part.
fn sealed(key: &Key, signed: &[u8]) -> Vec<u8> {
    let mut auth = Vec::new();
    put(&mut auth, "hsha", BINARY, &auth_field(key, signed));
    let mut table = Vec::new();
    put(&mut table, "_auth", TABLE, &auth);
    table.extend_from_slice(signed);
    let mut bytes = Vec::with_capacity(table.len() + 8);
    // Messages are far below four gigabytes.
    bytes.extend_from_slice(
        &u32::try_from(table.len() + 4)
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    bytes.extend_from_slice(&1_u32.to_be_bytes());
    bytes.extend_from_slice(&table);
    bytes
}

fn auth_field(key: &Key, signed: &[u8]) -> [u8; AUTH_LEN] {
    let mut field = [0; AUTH_LEN];
    field[0] = algorithm_byte(key);
    let mac = BASE64.encode(key.hmac(signed));
    field[1..=mac.len()].copy_from_slice(mac.as_bytes());
    field
}

/// The byte that stands for a key's algorithm.
fn algorithm_byte(key: &Key) -> u8 {
    match key.algorithm() {
        Algorithm::HmacSha256 => 163,
        Algorithm::HmacSha384 => 164,
        Algorithm::HmacSha512 => 165,
    }
}

/// Whether a field of [`AUTH_LEN`] is the signature of a message.
fn is_signed(key: &Key, signed: &[u8], field: &[u8]) -> bool {
    let Some((algorithm, text)) = field.split_first() else {
        return false;
    };
    if *algorithm != algorithm_byte(key) {
        return false;
    }
    let end = text
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(text.len());
    BASE64
        .decode(&text[..end])
        .is_ok_and(|mac| key.verifies(signed, &mac))
}

/// Checks an answer's signature and reads it.
fn opened(key: &Key, bytes: &[u8]) -> Result<Answer, RndcFault> {
    let table = bytes
        .strip_prefix(&1_u32.to_be_bytes())
        .ok_or(RndcFault::Malformed)?;
    let (name, auth, signed) = next(table).ok_or(RndcFault::Malformed)?;
    let (_, given, _) = next(auth).ok_or(RndcFault::Malformed)?;
    if name != b"_auth" || !is_signed(key, signed, given) {
        return Err(RndcFault::Signature);
    }
    let mut answer = Answer::default();
    let mut rest = signed;
    while !rest.is_empty() {
        let (_, mut inner, after) = next(rest).ok_or(RndcFault::Malformed)?;
        while !inner.is_empty() {
            let (name, value, after) = next(inner).ok_or(RndcFault::Malformed)?;
            let text = || Some(String::from_utf8_lossy(value).into_owned());
            match name {
                b"_nonce" => answer.nonce = Some(value.to_vec()),
                b"result" => answer.result = text(),
                b"text" => answer.text = text(),
                b"err" => answer.error = text(),
                _ => {}
            }
            inner = after;
        }
        rest = after;
    }
    Ok(answer)
}

fn put(table: &mut Vec<u8>, name: &str, kind: u8, value: &[u8]) {
    // Names are ours and short; values are far below four gigabytes.
    table.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    table.extend_from_slice(name.as_bytes());
    table.push(kind);
    table.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    table.extend_from_slice(value);
}

/// The first entry of a table: its name, its value and what follows.
fn next(table: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = table.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (_, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::generate("control", [3; 32]).unwrap()
    }

    #[test]
    fn a_sealed_message_opens_with_the_same_key_only() {
        let mut data = Vec::new();
        put(&mut data, "result", BINARY, b"1");
        put(&mut data, "err", BINARY, b"not found");
        put(&mut data, "text", BINARY, b"no such zone");
        let mut signed = Vec::new();
        put(&mut signed, "_data", TABLE, &data);
        let bytes = sealed(&key(), &signed);
        let fault = opened(&key(), &bytes[4..]).unwrap().outcome().unwrap_err();
        assert_eq!(fault.to_string(), "it said \"not found: no such zone\"");
        let other = Key::generate("control", [4; 32]).unwrap();
        assert!(matches!(
            opened(&other, &bytes[4..]),
            Err(RndcFault::Signature)
        ));
    }

    #[test]
    fn cut_answers_are_refused() {
        let bytes = sealed(&key(), &request(1, 2, b"9", "status"));
        for length in 0..bytes.len() - 4 {
            assert!(opened(&key(), &bytes[4..4 + length]).is_err(), "{length}");
        }
    }
}
