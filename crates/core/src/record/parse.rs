//! Reads record data and zone-file lines.

use super::data::{Caa, DataProblem, RecordData, Soa};
use super::digests::{Sshfp, Tlsa, from_hex};
use super::rtype::RecordType;
use super::svcb::{SvcParam, SvcParams, Svcb};
use super::text::Text;
use super::wire;
use super::{Record, TTL_MAX};
use crate::name::{Name, read_escape};

/// Reads one line: name, TTL, class, type, data.
pub(super) fn record(line: &str) -> Result<Record, DataProblem> {
    let mut fields = Fields { rest: line };
    let name = fields.name("owner name")?;
    let ttl = fields.number("TTL", TTL_MAX)?;
    let mut rtype = fields.word("record type")?;
    if rtype.eq_ignore_ascii_case("IN") {
        rtype = fields.word("record type")?;
    }
    Ok(Record {
        name,
        ttl,
        data: data(rtype.parse()?, fields.rest)?,
    })
}

/// Reads the data of one type.
pub(super) fn data(rtype: RecordType, text: &str) -> Result<RecordData, DataProblem> {
    let mut fields = Fields { rest: text };
    if let Some(after) = fields.rest.trim_start().strip_prefix("\\#") {
        fields.rest = after;
        return generic(rtype, &mut fields);
    }
    let data = known(rtype, &mut fields)?;
    fields.end()?;
    data.checked_len()
}

fn known(rtype: RecordType, fields: &mut Fields<'_>) -> Result<RecordData, DataProblem> {
    Ok(match rtype {
        RecordType::A => {
            let text = fields.word("address")?;
            let address = text
                .parse()
                .map_err(|_| DataProblem::NotIpv4 { text: text.into() })?;
            RecordData::A(address)
        }
        RecordType::Aaaa => {
            let text = fields.word("address")?;
            let address = text
                .parse()
                .map_err(|_| DataProblem::NotIpv6 { text: text.into() })?;
            RecordData::Aaaa(address)
        }
        RecordType::Cname => RecordData::Cname(fields.name("target")?),
        RecordType::Ns => RecordData::Ns(fields.name("name server")?),
        RecordType::Ptr => RecordData::Ptr(fields.name("target")?),
        RecordType::Txt => {
            let mut strings = vec![fields.string("text")?];
            while !fields.is_at_end() {
                strings.push(fields.string("text")?);
            }
            RecordData::Txt(Text::from_strings(&strings))
        }
        RecordType::Mx => RecordData::Mx {
            preference: fields.small("preference")?,
            exchange: fields.name("mail server")?,
        },
        RecordType::Srv => RecordData::Srv {
            priority: fields.small("priority")?,
            weight: fields.small("weight")?,
            port: fields.small("port")?,
            target: fields.name("target")?,
        },
        RecordType::Caa => caa(fields)?,
        RecordType::Soa => RecordData::Soa(Box::new(Soa {
            mname: fields.name("primary name server")?,
            rname: fields.name("mailbox")?,
            serial: fields.number("serial", u32::MAX)?,
            refresh: fields.number("refresh", u32::MAX)?,
            retry: fields.number("retry", u32::MAX)?,
            expire: fields.number("expire", u32::MAX)?,
            minimum: fields.number("minimum", u32::MAX)?,
        })),
        RecordType::Sshfp => RecordData::Sshfp(Box::new(Sshfp {
            algorithm: fields.tiny("algorithm")?,
            fingerprint_type: fields.tiny("fingerprint type")?,
            fingerprint: fields.hex("fingerprint")?,
        })),
        RecordType::Tlsa => RecordData::Tlsa(Box::new(Tlsa {
            usage: fields.tiny("certificate usage")?,
            selector: fields.tiny("selector")?,
            matching_type: fields.tiny("matching type")?,
            data: fields.hex("certificate association data")?,
        })),
        RecordType::Svcb => RecordData::Svcb(svcb(fields)?),
        RecordType::Https => RecordData::Https(svcb(fields)?),
        // Only the generic form of RFC 3597 can say what such data is.
        RecordType::Other(_) => {
            return Err(DataProblem::UnknownType {
                text: rtype.to_string().into(),
            });
        }
    })
}

fn svcb(fields: &mut Fields<'_>) -> Result<Box<Svcb>, DataProblem> {
    let (priority, target) = (fields.small("priority")?, fields.name("target")?);
    let mut params = Vec::new();
    while !fields.is_at_end() {
        params.push(fields.param()?);
    }
    Ok(Box::new(Svcb {
        priority,
        target,
        params: SvcParams::new(params)?,
    }))
}

fn caa(fields: &mut Fields<'_>) -> Result<RecordData, DataProblem> {
    let flags = fields.tiny("flags")?;
    let tag = fields.word("tag")?;
    if !wire::is_caa_tag(tag.as_bytes()) {
        return Err(DataProblem::BadTag { text: tag.into() });
    }
    let value = fields.string("value")?;
    Ok(RecordData::Caa(Box::new(Caa {
        flags,
        tag: tag.into(),
        value: value.into(),
    })))
}

/// Reads `\# length hex…` (RFC 3597 section 5), valid for every type.
fn generic(rtype: RecordType, fields: &mut Fields<'_>) -> Result<RecordData, DataProblem> {
    let malformed = || DataProblem::Malformed { rtype };
    let length = fields.number("length", 65_535)?;
    let bytes = from_hex(fields.rest).ok_or_else(malformed)?;
    if u32::try_from(bytes.len()) != Ok(length) {
        return Err(malformed());
    }
    wire::read(rtype, &bytes)
}

/// The fields of a line that are still to be read.
struct Fields<'a> {
    rest: &'a str,
}

impl<'a> Fields<'a> {
    fn is_at_end(&self) -> bool {
        self.rest.trim_start().is_empty()
    }

    fn end(&self) -> Result<(), DataProblem> {
        match self.rest.trim() {
            "" => Ok(()),
            text => Err(DataProblem::Surplus { text: text.into() }),
        }
    }

    /// The next field, escapes untouched; blanks end it unless they are escaped.
    fn word(&mut self, field: &'static str) -> Result<&'a str, DataProblem> {
        let text = self.rest.trim_start();
        let mut escaped = false;
        let end = text
            .char_indices()
            .find(|&(_, character)| {
                let ends = character.is_whitespace() && !escaped;
                escaped = character == '\\' && !escaped;
                ends
            })
            .map_or(text.len(), |(at, _)| at);
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        if word.is_empty() {
            Err(DataProblem::Missing { field })
        } else {
            Ok(word)
        }
    }

    fn name(&mut self, field: &'static str) -> Result<Name, DataProblem> {
        Name::parse(self.word(field)?).map_err(DataProblem::Name)
    }

    fn number(&mut self, field: &'static str, max: u32) -> Result<u32, DataProblem> {
        let text = self.word(field)?;
        Some(text)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .filter(|number| *number <= max)
            .ok_or_else(|| DataProblem::BadNumber {
                field,
                text: text.into(),
                max,
            })
    }

    fn small(&mut self, field: &'static str) -> Result<u16, DataProblem> {
        let number = self.number(field, u32::from(u16::MAX))?;
        Ok(u16::try_from(number).expect("the number was checked to be at most 65535"))
    }

    fn tiny(&mut self, field: &'static str) -> Result<u8, DataProblem> {
        let number = self.number(field, u32::from(u8::MAX))?;
        Ok(u8::try_from(number).expect("the number was checked to be at most 255"))
    }

    /// The rest as hexadecimal digits, which may stand in groups.
    fn hex(&mut self, field: &'static str) -> Result<Box<[u8]>, DataProblem> {
        let text = std::mem::take(&mut self.rest);
        let bytes = from_hex(text).filter(|bytes| !bytes.is_empty());
        bytes.ok_or(DataProblem::BadHex { field })
    }

    /// A parameter of a service: `key`, or `key=value` with the value quoted or bare.
    fn param(&mut self) -> Result<SvcParam, DataProblem> {
        let text = self.rest.trim_start();
        let ends = |character: char| character == '=' || character.is_whitespace();
        let (key, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        self.rest = rest;
        match rest.strip_prefix('=') {
            Some(value) => {
                self.rest = value;
                SvcParam::parse(key, Some(&self.string("value of a parameter")?))
            }
            None => SvcParam::parse(key, None),
        }
    }

    /// The next character-string, quoted or bare, with its escapes resolved.
    fn string(&mut self, field: &'static str) -> Result<Vec<u8>, DataProblem> {
        let text = self.rest.trim_start();
        if text.is_empty() {
            return Err(DataProblem::Missing { field });
        }
        let bad = || DataProblem::BadText { text: text.into() };
        let quoted = text.starts_with('"');
        let mut bytes = Vec::new();
        let mut rest = text
            .as_bytes()
            .get(usize::from(quoted)..)
            .unwrap_or_default();
        loop {
            match rest {
                [b'"', after @ ..] if quoted => {
                    rest = after;
                    break;
                }
                [] if quoted => return Err(bad()),
                [] => break,
                [byte, ..] if !quoted && byte.is_ascii_whitespace() => break,
                [b'"', ..] => return Err(bad()),
                [b'\\', after @ ..] => {
                    let (byte, after) = read_escape(after).ok_or_else(bad)?;
                    bytes.push(byte);
                    rest = after;
                }
                [byte, after @ ..] => {
                    bytes.push(*byte);
                    rest = after;
                }
            }
        }
        // An escape may take the first byte of a longer character; what is left is then no text.
        self.rest = std::str::from_utf8(rest).map_err(|_| bad())?;
        Ok(bytes)
    }
}
