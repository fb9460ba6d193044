//! Bytes that nobody would send, thrown at everything that reads bytes of others.
//!
//! Coverage guides nothing here; inputs are valid ones, changed a little, which is what reaches the
//! odd corners of small formats. A panic or a law that does not hold is the finding.

use bindery_core::{Name, Record, RecordData};
use bindery_dns::{Key, wire::Message};

use crate::weather::Random;

/// Something that reads bytes, with valid inputs to start from.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    seeds: &'static [&'static [u8]],
    check: fn(&[u8]) -> Result<(), String>,
}

/// Everything that is fuzzed.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "name",
        seeds: &[
            b"www.example.com.",
            b"*.a\\.b.example",
            b"b\xc3\xbccher.example",
            b"_sip._tcp.x",
            b"\\000\\255.y.",
        ],
        check: name,
    },
    Target {
        name: "name-wire",
        seeds: &[b"\x03www\x07example\x03com\0", b"\0", b"\x01*\x01a\0"],
        check: name_wire,
    },
    Target {
        name: "record",
        seeds: &[
            b"www.example.com. 300 IN A 192.0.2.1",
            b"a.example. 60 IN AAAA 2001:db8::1",
            b"a.example. 60 IN TXT \"v=spf1 -all\" \"two\\\"\"",
            b"a.example. 60 IN MX 10 mail.example.",
            b"_s._tcp.example. 60 IN SRV 1 2 3 host.example.",
            b"example. 60 IN CAA 0 issue \"letsencrypt.org\"",
            b"a.example. 60 IN HTTPS 1 . alpn=\"h2,h3\" port=443 ipv4hint=192.0.2.1 key65400=\"x\\001\"",
            b"_dns.example. 60 IN SVCB 0 host.example.",
            b"_443._tcp.example. 60 IN TLSA 3 1 1 c0ffee",
            b"example. 60 IN SSHFP 4 2 c0ffee",
            b"example. 60 IN SOA ns.example. admin.example. 1 2 3 4 5",
            b"example. 60 IN TYPE99 \\# 3 010203",
        ],
        check: record,
    },
    Target {
        name: "message",
        seeds: &[
            b"\x12\x34\x28\0\0\x01\0\x01\0\x01\0\0\x07example\0\0\x06\0\x01\x03www\xc0\x0c\0\x01\0\xfe\0\0\0\0\0\0\x03www\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01",
            b"\x12\x34\xa8\x05\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01",
        ],
        check: message,
    },
    Target {
        name: "key-file",
        seeds: &[b"key \"bindery\" {\n\talgorithm hmac-sha256;\n\tsecret \"AAAAAAAAAAAAAAAAAAAAAA==\";\n};\n"],
        check: key_file,
    },
];

impl Target {
    /// Throws `rounds` inputs of a seed at it.
    ///
    /// # Errors
    /// The first input with which a law does not hold. A panic is left to be seen.
    pub fn run(&self, seed: u64, rounds: usize) -> Result<(), String> {
        let mut random = Random::new(seed);
        for _ in 0..rounds {
            let mut input = random.pick(self.seeds).to_vec();
            for _ in 0..=random.below(6) {
                mutate(&mut input, self.seeds, &mut random);
            }
            (self.check)(&input)
                .map_err(|why| format!("{}: {why}: {}", self.name, input.escape_ascii()))?;
        }
        Ok(())
    }
}

fn mutate(input: &mut Vec<u8>, seeds: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let byte = u8::try_from(random.below(256)).unwrap_or(0);
    match random.below(6) {
        0 if at < input.len() => input[at] = byte,
        1 if at < input.len() => input[at] ^= 1 << random.below(8),
        2 if at < input.len() => {
            input.remove(at);
        }
        3 => input.truncate(at),
        4 => {
            let other = random.pick(seeds);
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input.insert(at, byte),
    }
}

fn name(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(());
    };
    let Ok(name) = Name::parse(text) else {
        return Ok(());
    };
    let again = Name::parse(&name.to_string());
    law(again.as_ref() == Ok(&name), "what is printed is read back")
}

fn name_wire(input: &[u8]) -> Result<(), String> {
    let Ok(name) = Name::from_wire(input) else {
        return Ok(());
    };
    law(name.as_wire().len() <= 255, "a name has 255 bytes at most")?;
    let again = Name::parse(&name.to_string());
    law(again.as_ref() == Ok(&name), "what is printed is read back")
}

fn record(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(());
    };
    let Ok(record) = text.parse::<Record>() else {
        return Ok(());
    };
    let again = record.to_string().parse::<Record>();
    law(
        again.as_ref() == Ok(&record),
        "what is printed is read back",
    )?;
    let wire = RecordData::from_wire(record.data.rtype().code(), &record.data.to_wire());
    law(
        wire.as_ref() == Ok(&record.data),
        "what is sent is received",
    )
}

fn message(input: &[u8]) -> Result<(), String> {
    let Ok(message) = Message::parse(input) else {
        return Ok(());
    };
    let sections = [&message.answer, &message.authority, &message.additional];
    for row in sections.into_iter().flatten() {
        // Whether it can be read is the sender's affair; that it is tried must not harm.
        let _data = row.data();
    }
    let composed = message.compose(usize::from(u16::MAX));
    law(
        composed.is_ok(),
        "what was received in one message fits into one",
    )
}

fn key_file(input: &[u8]) -> Result<(), String> {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(key) = Key::from_key_file(text)
    {
        let again = Key::from_key_file(&key.to_key_file());
        let same = again.is_ok_and(|again| again.name() == key.name());
        return law(same, "what is written is read back");
    }
    Ok(())
}

fn law(holds: bool, what: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("it does not hold that {what}"))
    }
}
