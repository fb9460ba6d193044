//! The data of SVCB and HTTPS records (RFC 9460): where a service is and how to speak to it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::base64;
use super::data::DataProblem;
use super::text::write_quoted;
use crate::name::Name;

/// The data of an SVCB or HTTPS record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svcb {
    /// Lower is tried first; 0 makes the name an alias of the target.
    pub priority: u16,
    /// The host; the root stands for the record's own name.
    pub target: Name,
    /// How to speak to it.
    pub params: SvcParams,
}

/// The parameters of an SVCB or HTTPS record.
///
/// Guarantees: keys increase strictly and lengths add up. Kept in wire form, so it is one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SvcParams(Box<[u8]>);

/// One parameter of an SVCB or HTTPS record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SvcParam {
    /// Keys of parameters that a client has to understand.
    Mandatory(Vec<u16>),
    /// Protocols, such as `h2`.
    Alpn(Vec<Box<[u8]>>),
    /// The protocol that goes without saying is not spoken.
    NoDefaultAlpn,
    /// The port.
    Port(u16),
    /// Addresses of the target.
    Ipv4Hint(Vec<Ipv4Addr>),
    /// Configuration of Encrypted Client Hello.
    Ech(Box<[u8]>),
    /// Addresses of the target.
    Ipv6Hint(Vec<Ipv6Addr>),
    /// Any other key, or a value that is not of its key's form.
    Other(u16, Box<[u8]>),
}

/// Keys with a name (RFC 9460 section 14.3.2, RFC 9461, RFC 9540). The values of the first seven have a
/// form of their own.
const KEYS: [&str; 9] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
];
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;

impl Svcb {
    /// Whether its parts fit together. Servers hand out data that does not, so it is read; nobody should
    /// write it.
    ///
    /// # Errors
    /// Parameters of an alias, a mandatory key that is not there, or `no-default-alpn` without `alpn`.
    pub fn check(&self) -> Result<(), DataProblem> {
        if self.priority == 0
            && let Some(param) = self.params.iter().next()
        {
            return Err(bad(
                param.key(),
                "says nothing beside priority 0, which makes an alias: remove it, or write another priority",
            ));
        }
        let keys: Vec<u16> = self.params.iter().map(|param| param.key()).collect();
        for param in self.params.iter() {
            if let SvcParam::Mandatory(wanted) = &param
                && wanted
                    .iter()
                    .any(|key| *key == MANDATORY || !keys.contains(key))
            {
                return Err(bad(
                    MANDATORY,
                    "names a key that is not set: name keys that are, and not mandatory itself",
                ));
            }
            if param == SvcParam::NoDefaultAlpn && !keys.contains(&ALPN) {
                return Err(bad(NO_DEFAULT_ALPN, "needs alpn: write the protocols too"));
            }
        }
        Ok(())
    }
}

impl SvcParams {
    /// These parameters, in their order on the wire.
    ///
    /// # Errors
    /// A key that stands twice, or a value that is too long.
    pub fn new(params: impl IntoIterator<Item = SvcParam>) -> Result<Self, DataProblem> {
        let mut values: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        for param in params {
            if values.insert(param.key(), param.value()).is_some() {
                return Err(bad(param.key(), "stands twice: write it once"));
            }
        }
        let mut wire = Vec::new();
        for (key, value) in values {
            let len = u16::try_from(value.len())
                .map_err(|_| bad(key, "is too long: write at most 65535 bytes"))?;
            wire.extend_from_slice(&key.to_be_bytes());
            wire.extend_from_slice(&len.to_be_bytes());
            wire.extend_from_slice(&value);
        }
        Ok(Self(wire.into()))
    }

    /// Key, length and value of each.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// Takes the wire form; nothing when keys do not increase or the lengths do not add up.
    pub(super) fn from_wire(wire: &[u8]) -> Option<Self> {
        let (mut rest, mut last) = (wire, None);
        while !rest.is_empty() {
            let (key, _, after) = split(rest)?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            (rest, last) = (after, Some(key));
        }
        Some(Self(wire.into()))
    }

    /// Each parameter, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = SvcParam> {
        let mut rest = self.as_wire();
        std::iter::from_fn(move || {
            let (key, value, after) = split(rest)?;
            rest = after;
            Some(SvcParam::from_wire(key, value))
        })
    }
}

/// The first key and value, and what follows.
fn split(wire: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let ([key_high, key_low, len_high, len_low], rest) = wire.split_first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
    let (value, after) = rest.split_at_checked(len)?;
    Some((u16::from_be_bytes([*key_high, *key_low]), value, after))
}

impl SvcParam {
    /// The number of a key: one of the known names, or `key` and a number.
    ///
    /// # Errors
    /// [`DataProblem::BadParam`] where it is neither.
    pub fn key_number(text: &str) -> Result<u16, DataProblem> {
        if let Some((number, _)) = (0..)
            .zip(KEYS)
            .find(|(_, key)| key.eq_ignore_ascii_case(text))
        {
            return Ok(number);
        }
        let number = text.strip_prefix("key").filter(|digits| {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with("00")
        });
        number
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| DataProblem::BadParam {
                key: text.into(),
                why: "is not a key: write one such as alpn, port or key65400",
            })
    }

    /// Reads the value of a key as a zone file writes it, with escapes resolved.
    ///
    /// # Errors
    /// [`DataProblem::BadParam`] with what to write instead.
    pub fn parse(key: &str, value: Option<&[u8]>) -> Result<Self, DataProblem> {
        let number = Self::key_number(key)?;
        let bytes = value.unwrap_or_default();
        // The generic spelling of a key takes any value, and says nothing of its form.
        if key.starts_with("key") {
            return Ok(Self::from_wire(number, bytes));
        }
        let text = || {
            std::str::from_utf8(bytes)
                .ok()
                .filter(|text| !text.is_empty())
        };
        let words = || text().map(|text| text.split(','));
        let read = match number {
            MANDATORY => words()
                .and_then(|words| words.map(|key| Self::key_number(key).ok()).collect())
                .map(Self::mandatory),
            ALPN => items(bytes).map(Self::Alpn),
            NO_DEFAULT_ALPN => bytes.is_empty().then_some(Self::NoDefaultAlpn),
            PORT => text().and_then(|text| text.parse().ok()).map(Self::Port),
            IPV4HINT => words()
                .and_then(|words| words.map(|word| word.parse().ok()).collect())
                .map(Self::Ipv4Hint),
            ECH => text().and_then(base64::decode).map(Self::Ech),
            IPV6HINT => words()
                .and_then(|words| words.map(|word| word.parse().ok()).collect())
                .map(Self::Ipv6Hint),
            _ => Some(Self::Other(number, bytes.into())),
        };
        read.ok_or_else(|| bad(number, form(number)))
    }

    /// Keys that a client has to understand, in their order on the wire.
    #[must_use]
    pub fn mandatory(mut keys: Vec<u16>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self::Mandatory(keys)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> u16 {
        match self {
            Self::Mandatory(_) => MANDATORY,
            Self::Alpn(_) => ALPN,
            Self::NoDefaultAlpn => NO_DEFAULT_ALPN,
            Self::Port(_) => PORT,
            Self::Ipv4Hint(_) => IPV4HINT,
            Self::Ech(_) => ECH,
            Self::Ipv6Hint(_) => IPV6HINT,
            Self::Other(key, _) => *key,
        }
    }

    fn value(&self) -> Vec<u8> {
        match self {
            Self::Mandatory(keys) => keys.iter().flat_map(|key| key.to_be_bytes()).collect(),
            Self::Alpn(protocols) => {
                let mut value = Vec::new();
                for protocol in protocols {
                    value.extend(u8::try_from(protocol.len()));
                    value.extend_from_slice(protocol);
                }
                value
            }
            Self::NoDefaultAlpn => Vec::new(),
            Self::Port(port) => port.to_be_bytes().into(),
            Self::Ipv4Hint(hints) => hints.iter().flat_map(Ipv4Addr::octets).collect(),
            Self::Ipv6Hint(hints) => hints.iter().flat_map(Ipv6Addr::octets).collect(),
            Self::Ech(bytes) | Self::Other(_, bytes) => bytes.to_vec(),
        }
    }

    /// What a value on the wire is; one that is not of its key's form is carried as it is.
    fn from_wire(key: u16, value: &[u8]) -> Self {
        let read = match key {
            MANDATORY => list::<2>(value).map(|keys| {
                let keys: Vec<u16> = keys.into_iter().map(u16::from_be_bytes).collect();
                Self::Mandatory(keys)
            }),
            ALPN => strings(value).map(Self::Alpn),
            NO_DEFAULT_ALPN => value.is_empty().then_some(Self::NoDefaultAlpn),
            PORT => value
                .try_into()
                .ok()
                .map(|port| Self::Port(u16::from_be_bytes(port))),
            IPV4HINT => list::<4>(value)
                .map(|hints| Self::Ipv4Hint(hints.into_iter().map(Ipv4Addr::from).collect())),
            ECH => (!value.is_empty()).then(|| Self::Ech(value.into())),
            IPV6HINT => list::<16>(value)
                .map(|hints| Self::Ipv6Hint(hints.into_iter().map(Ipv6Addr::from).collect())),
            _ => None,
        };
        // Only what is written the same again is taken for what it looks like.
        read.filter(|param| param.value() == value && !is_unordered(param))
            .unwrap_or_else(|| Self::Other(key, value.into()))
    }
}

/// Mandatory keys increase strictly; others would not be written the same again.
fn is_unordered(param: &SvcParam) -> bool {
    matches!(param, SvcParam::Mandatory(keys) if !keys.is_sorted_by(|one, other| one < other))
}

fn bad(key: u16, why: &'static str) -> DataProblem {
    let key = name(key);
    DataProblem::BadParam {
        key: key.into(),
        why,
    }
}

fn name(key: u16) -> String {
    match KEYS.get(usize::from(key)) {
        Some(name) => (*name).to_owned(),
        None => format!("key{key}"),
    }
}

/// What to write as the value of a key.
fn form(key: u16) -> &'static str {
    match key {
        MANDATORY => "is not a list of keys: write some such as alpn,port",
        ALPN => "is not a list of protocols: write some such as h2,h3",
        NO_DEFAULT_ALPN => "takes no value: remove it",
        PORT => "is not a port: write a whole number from 0 to 65535",
        IPV4HINT => "is not a list of IPv4 addresses: write some such as 192.0.2.1,192.0.2.2",
        ECH => "is not base64: write what the server gives out",
        IPV6HINT => "is not a list of IPv6 addresses: write some such as 2001:db8::1",
        _ => "is not a value of this key",
    }
}

/// Values of one length, at least one of them.
fn list<const N: usize>(value: &[u8]) -> Option<Vec<[u8; N]>> {
    let (chunks, rest) = value.as_chunks::<N>();
    (rest.is_empty() && !chunks.is_empty()).then(|| chunks.to_vec())
}

/// Strings behind their lengths, none of them empty, at least one.
fn strings(value: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let (mut rest, mut strings) = (value, Vec::new());
    while let [len, after @ ..] = rest {
        let (string, after) = after.split_at_checked(usize::from(*len))?;
        if string.is_empty() {
            return None;
        }
        strings.push(string.into());
        rest = after;
    }
    (!strings.is_empty()).then_some(strings)
}

/// Items between commas; a backslash makes the character after it a part of the item (RFC 9460 appendix
/// A.1).
fn items(text: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let (mut items, mut item, mut rest) = (Vec::new(), Vec::new(), text);
    loop {
        match rest {
            [b',', ..] | [] => {
                if !(1..=255).contains(&item.len()) {
                    return None;
                }
                items.push(std::mem::take(&mut item).into());
                let Some(after) = rest.get(1..) else {
                    return Some(items);
                };
                rest = after;
            }
            // An escaped character is taken as it is.
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                item.push(*byte);
                rest = after;
            }
        }
    }
}

impl fmt::Display for Svcb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.priority, self.target)?;
        self.params
            .iter()
            .try_for_each(|param| write!(f, " {param}"))
    }
}

impl fmt::Display for SvcParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = name(self.key());
        match self {
            Self::Mandatory(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| name(*key)).collect();
                write!(f, "{key}={}", keys.join(","))
            }
            Self::Alpn(protocols) => {
                let mut value = Vec::new();
                for (at, protocol) in protocols.iter().enumerate() {
                    value.extend((at > 0).then_some(b','));
                    for byte in protocol {
                        value.extend(matches!(byte, b',' | b'\\').then_some(b'\\'));
                        value.push(*byte);
                    }
                }
                write!(f, "{key}=")?;
                write_quoted(f, &value)
            }
            Self::NoDefaultAlpn => f.write_str(&key),
            Self::Port(port) => write!(f, "{key}={port}"),
            Self::Ipv4Hint(hints) => write!(f, "{key}={}", joined(hints)),
            Self::Ipv6Hint(hints) => write!(f, "{key}={}", joined(hints)),
            Self::Ech(bytes) => write!(f, "{key}={}", base64::encode(bytes)),
            Self::Other(number, bytes) => {
                write!(f, "key{number}")?;
                if bytes.is_empty() {
                    return Ok(());
                }
                f.write_str("=")?;
                write_quoted(f, bytes)
            }
        }
    }
}

fn joined<T: ToString>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    values.join(",")
}
