//! The string and number formats of schemas that are checked: those of networks, times and numbers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// A format that is checked; all others are ignored, as the real server does with those it does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    name: &'static str,
    check: Check,
}

/// Whether a text has a format.
type Check = fn(&str) -> bool;

/// Formats of strings by name, dashes left out, as the real server compares them.
const STRING_FORMATS: &[(&str, &str, Check)] = &[
    ("uri", "uri", is_request_uri),
    ("hostname", "hostname", is_hostname),
    ("ipv4", "ipv4", is_ipv4),
    ("ipv6", "ipv6", is_ipv6),
    ("cidr", "cidr", is_cidr),
    ("uuid", "uuid", is_uuid),
    ("byte", "byte", is_base64),
    ("date", "date", is_date),
    ("duration", "duration", is_duration),
    ("datetime", "date-time", is_date_time),
];

impl Format {
    /// The format that a schema of this type asks for, if it is one that is checked.
    pub(crate) fn of(kind: &str, format: &str) -> Option<Self> {
        let plain = |name| Self {
            name,
            check: |_| true,
        };
        match kind {
            "integer" => ["int32", "int64"]
                .into_iter()
                .find(|name| *name == format)
                .map(plain),
            "number" => ["float", "double"]
                .into_iter()
                .find(|name| *name == format)
                .map(plain),
            "" | "string" => {
                let plain_name = format.replace('-', "");
                STRING_FORMATS
                    .iter()
                    .find(|(name, _, _)| *name == plain_name)
                    .map(|(_, name, check)| Self {
                        name,
                        check: *check,
                    })
            }
            _ => None,
        }
    }

    /// The name in messages.
    pub(crate) fn as_str(self) -> &'static str {
        self.name
    }

    /// Whether the text has the format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        (self.check)(text)
    }
}

fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (lenient_ipv4(text).is_some() || text.parse::<Ipv6Addr>().is_ok())
}

fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// Dotted quad where, unlike in Rust's parser, leading zeros are let pass.
fn lenient_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 16 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let plain = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|b| b.is_ascii_digit());
    let bits: u32 = if plain {
        bits.parse().unwrap_or(u32::MAX)
    } else {
        return false;
    };
    (lenient_ipv4(address).is_some() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8usize, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        if rest.len() < length || !rest[..length].iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    static BASE64: LazyLock<Regex> = LazyLock::new(|| {
        fixed("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
    });
    BASE64.is_match(text)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        fixed("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
    });
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

fn is_duration(text: &str) -> bool {
    static SCALA: LazyLock<Regex> = LazyLock::new(|| fixed("([0-9]+)\\s*([A-Za-zµ]+)"));
    const PREFIXES: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    const UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    is_go_duration(text)
        || SCALA.captures_iter(text).any(|found| {
            let unit = found[2].to_lowercase();
            UNITS.contains(&unit.as_str()) || PREFIXES.iter().any(|start| unit.starts_with(start))
        })
}

fn is_go_duration(text: &str) -> bool {
    static GO: LazyLock<Regex> = LazyLock::new(|| {
        fixed("^[+-]?(?:0|(?:(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$")
    });
    GO.is_match(text)
}

fn is_hostname(text: &str) -> bool {
    static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
        const ANY: &str = r"[a-zA-Z0-9\p{S}\p{L}]";
        const DASHED: &str = r"[a-zA-Z0-9\-\p{S}\p{L}]";
        fixed(&format!(
            r"^({ANY}((-?{ANY}{{0,62}})?)|({ANY}(({DASHED}{{0,61}}{ANY})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
        ))
    });
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    let scheme_ends = text.find(':').filter(|end| {
        let scheme = &text[..*end];
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if scheme_ends.is_none() && !text.starts_with('/') {
        return false;
    }
    let authority = scheme_ends
        .map_or(text, |end| &text[end + 1..])
        .strip_prefix("//")
        .map(|rest| rest.split(['/', '?']).next().unwrap_or(rest));
    let host_is_clean =
        authority.is_none_or(|host| !host.contains([' ', '<', '>', '"', '\\', '^']));
    host_is_clean && escapes_are_whole(text)
}

fn escapes_are_whole(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or(text);
    path.split('%').skip(1).all(|after| {
        let bytes = after.as_bytes();
        bytes.len() >= 2 && bytes[0].is_ascii_hexdigit() && bytes[1].is_ascii_hexdigit()
    })
}

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that a test compiles")
}
