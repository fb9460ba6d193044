//! A zone's statement in the configuration of `named`: read from what it shows, changed clause by clause,
//! written so that no value gets out of its place.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use thiserror::Error;

/// The clauses between the braces of a zone's statement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ZoneStatement {
    clauses: Vec<Clause>,
}

/// One clause: its first word, and what follows up to the semicolon.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Clause {
    word: String,
    rest: String,
}

/// What is wrong with a value that is to be part of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ValueProblem {
    /// Not an address with what may follow it.
    #[error("{text:?} in {field} is no address; write ADDRESS or ADDRESS:PORT")]
    Address {
        /// The field.
        field: &'static str,
        /// The value.
        text: String,
    },
    /// Not one of the things that a list of clients may have.
    #[error("{text:?} in {field} is neither address, prefix, `key NAME`, any nor none")]
    Client {
        /// The field.
        field: &'static str,
        /// The value.
        text: String,
    },
    /// Not a name that a configuration may have.
    #[error("{text:?} in {field} may have letters, digits, `.`, `-` and `_` only, and 63 at most")]
    Word {
        /// The field.
        field: &'static str,
        /// The value.
        text: String,
    },
}

impl ZoneStatement {
    /// Reads what `named` shows of a zone: `zone "example.com" { type primary; … };`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut scan = Scan { rest: text };
        scan.until_brace()?;
        let mut clauses = Vec::new();
        loop {
            match scan.clause()? {
                Scanned::Clause(text) => clauses.push(Clause::of(text)?),
                Scanned::End => return Some(Self { clauses }),
            }
        }
    }

    /// What follows this word.
    pub(crate) fn get(&self, word: &str) -> Option<&str> {
        let found = self.clauses.iter().find(|clause| clause.word == word)?;
        Some(&found.rest)
    }

    /// The value of a clause that has a single one, without its quotes.
    pub(crate) fn value(&self, word: &str) -> Option<&str> {
        self.get(word).map(|rest| rest.trim_matches('"'))
    }

    /// Puts a clause in place of those of the same word. `rest` must be made by functions of this file.
    pub(crate) fn set(&mut self, word: &str, rest: impl Into<String>) {
        self.remove(word);
        self.clauses.push(Clause {
            word: word.to_owned(),
            rest: rest.into(),
        });
    }

    /// Takes the clauses of this word out.
    pub(crate) fn remove(&mut self, word: &str) {
        self.clauses.retain(|clause| clause.word != word);
    }
}

impl fmt::Display for ZoneStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for Clause { word, rest } in &self.clauses {
            write!(f, " {word} {rest};")?;
        }
        f.write_str(" };")
    }
}

impl Clause {
    fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text
            .find(|letter: char| letter.is_whitespace() || letter == '{' || letter == '"')
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        (!word.is_empty()).then(|| Self {
            word: word.to_owned(),
            rest: rest.trim().to_owned(),
        })
    }
}

/// Servers to be spoken to, as `{ 192.0.2.1 port 53 key "k"; }`, from `ADDRESS[:PORT][ key NAME]`.
pub(crate) fn servers(field: &'static str, list: &[String]) -> Result<String, ValueProblem> {
    let mut text = String::from("{");
    for server in list {
        let problem = || ValueProblem::Address {
            field,
            text: server.clone(),
        };
        let (address, key) = match server.split_once(" key ") {
            Some((address, key)) => (address.trim(), Some(word(field, key.trim())?)),
            None => (server.trim(), None),
        };
        let (address, port) = address_and_port(address).ok_or_else(problem)?;
        text.push(' ');
        text.push_str(&address.to_string());
        // Writing to a string cannot fail.
        if let Some(port) = port {
            let _ = write!(text, " port {port}");
        }
        if let Some(key) = key {
            let _ = write!(text, " key \"{key}\"");
        }
        text.push(';');
    }
    text.push_str(" }");
    Ok(text)
}

/// Who may do something, as `{ 192.0.2.1; key "k"; }`, from addresses, prefixes, `key NAME` and words.
pub(crate) fn clients(field: &'static str, list: &[String]) -> Result<String, ValueProblem> {
    let mut text = String::from("{");
    for client in list {
        let client = client.trim();
        let shown = match client {
            "any" | "none" | "localhost" | "localnets" => client.to_owned(),
            _ => match client.strip_prefix("key ") {
                Some(key) => format!("key \"{}\"", word(field, key.trim())?),
                None => prefix(client).ok_or_else(|| ValueProblem::Client {
                    field,
                    text: client.to_owned(),
                })?,
            },
        };
        // Writing to a string cannot fail.
        let _ = write!(text, " {shown};");
    }
    text.push_str(" }");
    Ok(text)
}

/// A name of the configuration, such as that of a key or a policy.
pub(crate) fn word<'a>(field: &'static str, text: &'a str) -> Result<&'a str, ValueProblem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let starts = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts && text.len() <= 63 && text.bytes().all(is_plain) {
        return Ok(text);
    }
    Err(ValueProblem::Word {
        field,
        text: text.to_owned(),
    })
}

/// A path in quotes.
pub(crate) fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

fn address_and_port(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, None));
    }
    let both: std::net::SocketAddr = text.parse().ok()?;
    (both.port() > 0).then(|| (both.ip(), Some(both.port())))
}

fn prefix(text: &str) -> Option<String> {
    let Some((address, length)) = text.split_once('/') else {
        return text
            .parse::<IpAddr>()
            .ok()
            .map(|address| address.to_string());
    };
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (length <= longest).then(|| format!("{address}/{length}"))
}

/// A text that is read clause by clause.
struct Scan<'a> {
    rest: &'a str,
}

enum Scanned<'a> {
    Clause(&'a str),
    End,
}

impl<'a> Scan<'a> {
    /// Goes behind the first brace that is not in quotes.
    fn until_brace(&mut self) -> Option<()> {
        let at = self.find(|letter, _| letter == '{')?;
        self.rest = &self.rest[at + 1..];
        Some(())
    }

    /// The next clause, or the end of the statement.
    fn clause(&mut self) -> Option<Scanned<'a>> {
        let at = self.find(|letter, depth| depth == 0 && matches!(letter, ';' | '}'))?;
        let (text, rest) = self.rest.split_at(at);
        let is_end = rest.starts_with('}');
        self.rest = &rest[1..];
        if !is_end {
            return Some(Scanned::Clause(text));
        }
        text.trim().is_empty().then_some(Scanned::End)
    }

    /// Where the first letter is that is not in quotes and that `is_it`, which is told how deep it lies.
    fn find(&self, is_it: impl Fn(char, usize) -> bool) -> Option<usize> {
        let (mut depth, mut in_quotes, mut escaped) = (0_usize, false, false);
        for (at, letter) in self.rest.char_indices() {
            if in_quotes {
                match letter {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => in_quotes = false,
                    _ => {}
                }
                continue;
            }
            if is_it(letter, depth) {
                return Some(at);
            }
            match letter {
                '"' => in_quotes = true,
                '{' => depth += 1,
                '}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = r#"zone "a.test" { type primary; file "/var/a{;}\"b.zone"; allow-transfer  { 127.0.0.2/32; key "k"; }; also-notify { 127.0.0.2 port 5300; }; };"#;

    #[test]
    fn what_named_shows_is_read_and_written_again() {
        let statement = ZoneStatement::parse(SHOWN).unwrap();
        assert_eq!(statement.value("type"), Some("primary"));
        assert_eq!(
            statement.to_string(),
            r#"{ type primary; file "/var/a{;}\"b.zone"; allow-transfer { 127.0.0.2/32; key "k"; }; also-notify { 127.0.0.2 port 5300; }; };"#
        );
        assert_eq!(ZoneStatement::parse("zone \"a\" { type primary;"), None);
        assert_eq!(ZoneStatement::parse("no such zone"), None);
    }

    #[test]
    fn one_clause_is_changed_and_the_others_stay() {
        let mut statement = ZoneStatement::parse(SHOWN).unwrap();
        let list = ["192.0.2.1:5300".to_owned(), "2001:db8::1".to_owned()];
        statement.set("also-notify", servers("alsoNotify", &list).unwrap());
        statement.remove("allow-transfer");
        assert_eq!(
            statement.to_string(),
            r#"{ type primary; file "/var/a{;}\"b.zone"; also-notify { 192.0.2.1 port 5300; 2001:db8::1; }; };"#
        );
    }

    #[test]
    fn servers_may_have_a_port_and_a_key() {
        let list = ["[2001:db8::1]:53 key transfer".to_owned()];
        assert_eq!(
            servers("primaries", &list).unwrap(),
            r#"{ 2001:db8::1 port 53 key "transfer"; }"#
        );
        for bad in [
            "192.0.2.1:0",
            "host:53",
            "192.0.2.1; }",
            "192.0.2.1 key a b",
            "",
            "192.0.2.1 port 53",
        ] {
            assert!(servers("primaries", &[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_are_addresses_prefixes_keys_and_words() {
        let list = ["192.0.2.0/24", "2001:db8::1", "key k.1", "any"].map(str::to_owned);
        assert_eq!(
            clients("allowTransfer", &list).unwrap(),
            r#"{ 192.0.2.0/24; 2001:db8::1; key "k.1"; any; }"#
        );
        for bad in [
            "192.0.2.0/33",
            "all",
            "key \"k\"",
            "key",
            "any; }; type hint",
            "!any",
            "\n",
        ] {
            assert!(
                clients("allowTransfer", &[bad.to_owned()]).is_err(),
                "{bad}"
            );
        }
    }
}
