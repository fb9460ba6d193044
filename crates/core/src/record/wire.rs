//! Record data to and from the wire, names uncompressed.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::data::{Caa, DataProblem, RecordData, Soa};
use super::digests::{Sshfp, Tlsa};
use super::rtype::RecordType;
use super::svcb::{SvcParams, Svcb};
use super::text::Text;
use crate::name::Name;

/// Appends `data` to `out`.
pub(super) fn write(data: &RecordData, out: &mut Vec<u8>) {
    match data {
        RecordData::A(address) => out.extend_from_slice(&address.octets()),
        RecordData::Aaaa(address) => out.extend_from_slice(&address.octets()),
        RecordData::Cname(name) | RecordData::Ns(name) | RecordData::Ptr(name) => {
            out.extend_from_slice(name.as_wire());
        }
        RecordData::Txt(text) => out.extend_from_slice(text.as_wire()),
        RecordData::Mx {
            preference,
            exchange,
        } => {
            out.extend_from_slice(&preference.to_be_bytes());
            out.extend_from_slice(exchange.as_wire());
        }
        RecordData::Srv {
            priority,
            weight,
            port,
            target,
        } => {
            for number in [priority, weight, port] {
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.extend_from_slice(target.as_wire());
        }
        RecordData::Caa(caa) => {
            let Caa { flags, tag, value } = &**caa;
            out.push(*flags);
            out.push(u8::try_from(tag.len()).expect("parsers let no longer tag through"));
            out.extend_from_slice(tag.as_bytes());
            out.extend_from_slice(value);
        }
        RecordData::Soa(soa) => {
            let Soa {
                mname,
                rname,
                serial,
                refresh,
                retry,
                expire,
                minimum,
            } = &**soa;
            out.extend_from_slice(mname.as_wire());
            out.extend_from_slice(rname.as_wire());
            for number in [serial, refresh, retry, expire, minimum] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        RecordData::Sshfp(sshfp) => {
            out.extend_from_slice(&[sshfp.algorithm, sshfp.fingerprint_type]);
            out.extend_from_slice(&sshfp.fingerprint);
        }
        RecordData::Tlsa(tlsa) => {
            out.extend_from_slice(&[tlsa.usage, tlsa.selector, tlsa.matching_type]);
            out.extend_from_slice(&tlsa.data);
        }
        RecordData::Svcb(svcb) | RecordData::Https(svcb) => {
            out.extend_from_slice(&svcb.priority.to_be_bytes());
            out.extend_from_slice(svcb.target.as_wire());
            out.extend_from_slice(svcb.params.as_wire());
        }
        RecordData::Unknown { bytes, .. } => out.extend_from_slice(bytes),
    }
}

/// Reads data that fills `bytes` exactly.
pub(super) fn read(rtype: RecordType, bytes: &[u8]) -> Result<RecordData, DataProblem> {
    read_known(rtype, bytes).ok_or(DataProblem::Malformed { rtype })
}

fn read_known(rtype: RecordType, bytes: &[u8]) -> Option<RecordData> {
    let mut bytes = bytes;
    let rest = &mut bytes;
    let data = match rtype {
        RecordType::A => RecordData::A(Ipv4Addr::from(array::<4>(rest)?)),
        RecordType::Aaaa => RecordData::Aaaa(Ipv6Addr::from(array::<16>(rest)?)),
        RecordType::Cname => RecordData::Cname(name(rest)?),
        RecordType::Ns => RecordData::Ns(name(rest)?),
        RecordType::Ptr => RecordData::Ptr(name(rest)?),
        RecordType::Txt => RecordData::Txt(Text::from_wire(std::mem::take(rest))?),
        RecordType::Mx => RecordData::Mx {
            preference: short(rest)?,
            exchange: name(rest)?,
        },
        RecordType::Srv => RecordData::Srv {
            priority: short(rest)?,
            weight: short(rest)?,
            port: short(rest)?,
            target: name(rest)?,
        },
        RecordType::Caa => caa(std::mem::take(rest))?,
        RecordType::Soa => RecordData::Soa(Box::new(Soa {
            mname: name(rest)?,
            rname: name(rest)?,
            serial: long(rest)?,
            refresh: long(rest)?,
            retry: long(rest)?,
            expire: long(rest)?,
            minimum: long(rest)?,
        })),
        RecordType::Sshfp => {
            let [algorithm, fingerprint_type] = array(rest)?;
            RecordData::Sshfp(Box::new(Sshfp {
                algorithm,
                fingerprint_type,
                fingerprint: std::mem::take(rest).into(),
            }))
        }
        RecordType::Tlsa => {
            let [usage, selector, matching_type] = array(rest)?;
            RecordData::Tlsa(Box::new(Tlsa {
                usage,
                selector,
                matching_type,
                data: std::mem::take(rest).into(),
            }))
        }
        RecordType::Svcb => RecordData::Svcb(svcb(rest)?),
        RecordType::Https => RecordData::Https(svcb(rest)?),
        RecordType::Other(code) => RecordData::Unknown {
            rtype: code,
            bytes: std::mem::take(rest).into(),
        },
    };
    rest.is_empty().then_some(data)
}

fn svcb(rest: &mut &[u8]) -> Option<Box<Svcb>> {
    Some(Box::new(Svcb {
        priority: short(rest)?,
        target: name(rest)?,
        params: SvcParams::from_wire(std::mem::take(rest))?,
    }))
}

fn caa(bytes: &[u8]) -> Option<RecordData> {
    let [flags, length, rest @ ..] = bytes else {
        return None;
    };
    let (tag, value) = rest.split_at_checked(usize::from(*length))?;
    if !is_caa_tag(tag) {
        return None;
    }
    let tag = std::str::from_utf8(tag).ok()?;
    Some(RecordData::Caa(Box::new(Caa {
        flags: *flags,
        tag: tag.into(),
        value: value.into(),
    })))
}

/// Whether bytes are a tag as RFC 8659 section 4.1 wants it: ASCII letters and digits.
pub(super) fn is_caa_tag(tag: &[u8]) -> bool {
    (1..=255).contains(&tag.len()) && tag.iter().all(u8::is_ascii_alphanumeric)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*front)
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    array(rest).map(u16::from_be_bytes)
}

fn long(rest: &mut &[u8]) -> Option<u32> {
    array(rest).map(u32::from_be_bytes)
}

fn name(rest: &mut &[u8]) -> Option<Name> {
    let (name, after) = Name::read_wire(rest).ok()?;
    *rest = after;
    Some(name)
}
