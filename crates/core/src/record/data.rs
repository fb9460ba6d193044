//! Record data by type, and what can be wrong with it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::digests::{Hex, Sshfp, Tlsa};
use super::parse;
use super::rtype::RecordType;
use super::svcb::Svcb;
use super::text::{Text, write_quoted};
use super::wire;
use crate::name::{Name, NameProblem};
use crate::problem::Shown;

/// The longest record data that a message can carry (RFC 1035 section 3.2.1).
pub const RDATA_LEN_MAX: usize = 65_535;

/// The data of one record, with its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordData {
    /// An IPv4 address.
    A(Ipv4Addr),
    /// An IPv6 address.
    Aaaa(Ipv6Addr),
    /// The name this name is an alias of.
    Cname(Name),
    /// Text.
    Txt(Text),
    /// A mail server.
    Mx {
        /// Lower is tried first.
        preference: u16,
        /// The mail server's name.
        exchange: Name,
    },
    /// A name server.
    Ns(Name),
    /// Where a service runs.
    Srv {
        /// Lower is tried first.
        priority: u16,
        /// Share among targets of one priority.
        weight: u16,
        /// The port.
        port: u16,
        /// The host.
        target: Name,
    },
    /// Who may issue certificates (RFC 8659).
    Caa(Box<Caa>),
    /// The name of an address.
    Ptr(Name),
    /// Start of authority.
    Soa(Box<Soa>),
    /// The digest of an SSH key.
    Sshfp(Box<Sshfp>),
    /// The digest of a certificate.
    Tlsa(Box<Tlsa>),
    /// Where a service is and how to speak to it.
    Svcb(Box<Svcb>),
    /// The same for HTTPS.
    Https(Box<Svcb>),
    /// Data of a type that Bindery does not interpret (RFC 3597).
    Unknown {
        /// The type's number.
        rtype: u16,
        /// The data.
        bytes: Box<[u8]>,
    },
}

/// The data of a CAA record; apart, so that data of all other types stays small.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caa {
    /// 128 makes the property critical.
    pub flags: u8,
    /// The property, such as `issue`.
    pub tag: Box<str>,
    /// The property's value.
    pub value: Box<[u8]>,
}

/// The data of a SOA record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Soa {
    /// The primary name server.
    pub mname: Name,
    /// The mailbox of who is responsible, as a name.
    pub rname: Name,
    /// The zone's version.
    pub serial: u32,
    /// Seconds between checks by secondaries.
    pub refresh: u32,
    /// Seconds before a failed check is tried again.
    pub retry: u32,
    /// Seconds after which secondaries without contact stop answering.
    pub expire: u32,
    /// Seconds for which "no such name" may be remembered.
    pub minimum: u32,
}

/// Why a text or bytes are not record data; the message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataProblem {
    /// A name in the data is wrong.
    Name(NameProblem),
    /// Not an IPv4 address.
    NotIpv4 {
        /// What was written.
        text: Box<str>,
    },
    /// Not an IPv6 address.
    NotIpv6 {
        /// What was written.
        text: Box<str>,
    },
    /// A number that is missing, not a number, or out of range.
    BadNumber {
        /// Which number.
        field: &'static str,
        /// What was written.
        text: Box<str>,
        /// The largest allowed.
        max: u32,
    },
    /// A field that is not there.
    Missing {
        /// Which field.
        field: &'static str,
    },
    /// More than the type takes.
    Surplus {
        /// What was written beyond the last field.
        text: Box<str>,
    },
    /// Quotes that do not close, or a bad escape.
    BadText {
        /// What was written.
        text: Box<str>,
    },
    /// A CAA tag that is not made of letters and digits.
    BadTag {
        /// What was written.
        text: Box<str>,
    },
    /// Digits that are not hexadecimal, or of which there are too few.
    BadHex {
        /// Which field.
        field: &'static str,
    },
    /// A parameter of a service that is wrong.
    BadParam {
        /// Its key.
        key: Box<str>,
        /// What is wrong, and what to write instead.
        why: &'static str,
    },
    /// Data that no message could carry.
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A type that is neither a known name nor `TYPE` and a number.
    UnknownType {
        /// What was written.
        text: Box<str>,
    },
    /// Bytes that are not data of this type.
    Malformed {
        /// The type.
        rtype: RecordType,
    },
}

impl RecordData {
    /// The record type.
    #[must_use]
    pub fn rtype(&self) -> RecordType {
        match self {
            Self::A(_) => RecordType::A,
            Self::Aaaa(_) => RecordType::Aaaa,
            Self::Cname(_) => RecordType::Cname,
            Self::Txt(_) => RecordType::Txt,
            Self::Mx { .. } => RecordType::Mx,
            Self::Ns(_) => RecordType::Ns,
            Self::Srv { .. } => RecordType::Srv,
            Self::Caa(_) => RecordType::Caa,
            Self::Ptr(_) => RecordType::Ptr,
            Self::Soa(_) => RecordType::Soa,
            Self::Sshfp(_) => RecordType::Sshfp,
            Self::Tlsa(_) => RecordType::Tlsa,
            Self::Svcb(_) => RecordType::Svcb,
            Self::Https(_) => RecordType::Https,
            Self::Unknown { rtype, .. } => RecordType::from_code(*rtype),
        }
    }

    /// Reads data as a zone file writes it; names are absolute, with or without trailing dot.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(rtype: RecordType, text: &str) -> Result<Self, DataProblem> {
        parse::data(rtype, text)
    }

    /// The data as it goes over the wire, names uncompressed.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_wire(&mut bytes);
        bytes
    }

    /// Appends the data as it goes over the wire, names uncompressed.
    pub fn write_wire(&self, bytes: &mut Vec<u8>) {
        wire::write(self, bytes);
    }

    /// Takes data from the wire, in which names must not be compressed.
    ///
    /// # Errors
    /// [`DataProblem::Malformed`] when the bytes are not data of that type.
    pub fn from_wire(rtype: u16, rdata_uncompressed: &[u8]) -> Result<Self, DataProblem> {
        wire::read(RecordType::from_code(rtype), rdata_uncompressed)
    }

    /// The data itself, unless its parts contradict each other: then it can be read, and nobody should write
    /// it.
    ///
    /// # Errors
    /// See [`Svcb::check`].
    pub fn checked_parts(self) -> Result<Self, DataProblem> {
        match &self {
            Self::Svcb(svcb) | Self::Https(svcb) => svcb.check()?,
            Self::A(_)
            | Self::Aaaa(_)
            | Self::Cname(_)
            | Self::Txt(_)
            | Self::Mx { .. }
            | Self::Ns(_)
            | Self::Srv { .. }
            | Self::Caa(_)
            | Self::Ptr(_)
            | Self::Soa(_)
            | Self::Sshfp(_)
            | Self::Tlsa(_)
            | Self::Unknown { .. } => {}
        }
        Ok(self)
    }

    /// The data itself, unless it is longer than a message can carry.
    ///
    /// # Errors
    /// [`DataProblem::TooLong`].
    pub fn checked_len(self) -> Result<Self, DataProblem> {
        // Only text, values, digests, parameters and raw bytes can be long; the others need no look.
        let length = match &self {
            Self::Txt(text) => text.as_wire().len(),
            Self::Caa(caa) => 2 + caa.tag.len() + caa.value.len(),
            Self::Sshfp(sshfp) => 2 + sshfp.fingerprint.len(),
            Self::Tlsa(tlsa) => 3 + tlsa.data.len(),
            Self::Svcb(svcb) | Self::Https(svcb) => {
                2 + svcb.target.as_wire().len() + svcb.params.as_wire().len()
            }
            Self::Unknown { bytes, .. } => bytes.len(),
            Self::A(_)
            | Self::Aaaa(_)
            | Self::Cname(_)
            | Self::Mx { .. }
            | Self::Ns(_)
            | Self::Srv { .. }
            | Self::Ptr(_)
            | Self::Soa(_) => 0,
        };
        if length > RDATA_LEN_MAX {
            Err(DataProblem::TooLong { length })
        } else {
            Ok(self)
        }
    }
}

impl fmt::Display for RecordData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::A(address) => address.fmt(f),
            Self::Aaaa(address) => address.fmt(f),
            Self::Cname(name) | Self::Ns(name) | Self::Ptr(name) => name.fmt(f),
            Self::Txt(text) => text.fmt(f),
            Self::Mx {
                preference,
                exchange,
            } => write!(f, "{preference} {exchange}"),
            Self::Srv {
                priority,
                weight,
                port,
                target,
            } => {
                write!(f, "{priority} {weight} {port} {target}")
            }
            Self::Caa(caa) => {
                write!(f, "{} {} ", caa.flags, caa.tag)?;
                write_quoted(f, &caa.value)
            }
            Self::Soa(soa) => soa.fmt(f),
            Self::Sshfp(sshfp) => sshfp.fmt(f),
            Self::Tlsa(tlsa) => tlsa.fmt(f),
            Self::Svcb(svcb) | Self::Https(svcb) => svcb.fmt(f),
            Self::Unknown { bytes, .. } => {
                write!(f, "\\# {}", bytes.len())?;
                if !bytes.is_empty() {
                    f.write_str(" ")?;
                }
                Hex(bytes).fmt(f)
            }
        }
    }
}

impl fmt::Display for Soa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mname,
            rname,
            serial,
            refresh,
            retry,
            expire,
            minimum,
        } = self;
        write!(
            f,
            "{mname} {rname} {serial} {refresh} {retry} {expire} {minimum}"
        )
    }
}

impl fmt::Display for DataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(problem) => problem.fmt(f),
            Self::NotIpv4 { text } => write!(
                f,
                "{} is not an IPv4 address: write one such as 192.0.2.1",
                Shown(text)
            ),
            Self::NotIpv6 { text } => write!(
                f,
                "{} is not an IPv6 address: write one such as 2001:db8::1",
                Shown(text)
            ),
            Self::BadNumber { field, text, max } => write!(
                f,
                "{field} is {}: write a whole number from 0 to {max}",
                Shown(text)
            ),
            Self::Missing { field } => write!(f, "the {field} is missing: write it"),
            Self::Surplus { text } => {
                write!(f, "{} is more than the type takes: remove it", Shown(text))
            }
            Self::BadText { text } => write!(
                f,
                "{} has quotes that do not close or a bad escape: write a quote as \\\" and a \
                 backslash as \\\\",
                Shown(text)
            ),
            Self::BadTag { text } => write!(
                f,
                "{} is not a CAA tag: write letters and digits, such as issue or iodef",
                Shown(text)
            ),
            Self::BadHex { field } => write!(
                f,
                "the {field} is not hexadecimal: write pairs of the digits 0 to 9 and a to f"
            ),
            Self::BadParam { key, why } => write!(f, "{key} {why}"),
            Self::TooLong { length } => write!(
                f,
                "the data has {length} bytes, the limit is {RDATA_LEN_MAX}: shorten it"
            ),
            Self::UnknownType { text } => write!(
                f,
                "{} is not a record type: write one such as A, AAAA, CNAME or TXT",
                Shown(text)
            ),
            Self::Malformed { rtype } => write!(f, "the bytes are not the data of {rtype} records"),
        }
    }
}

impl std::error::Error for DataProblem {}
