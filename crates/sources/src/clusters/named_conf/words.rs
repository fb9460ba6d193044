//! The only way into a configuration: values that were read as what they are, and a writer that takes no others.
//!
//! Nothing that an author typed is copied. A value is an address, a network, a number or a name of few letters,
//! or it is a problem.

use std::fmt::{self, Display, Write as _};
use std::net::IpAddr;

use bindery_core::named::{CONFIGURATION, STATE};
use bindery_core::{Name, Shown};

use super::KeySlot;

/// The longest name of an access list or a policy.
const LABEL_LEN_MAX: usize = 63;

/// The words that name access lists of `named` itself.
const BUILT_IN: [&str; 4] = ["any", "none", "localhost", "localnets"];

/// The access list of ours.
const OUR_LIST: &str = "bindery-keys";

/// What may stand in a configuration: words of ours and values that were read. Nothing else implements it.
pub(super) trait Value: Display {}

impl Value for &'static str {}
impl Value for u32 {}
impl Value for IpAddr {}
impl Value for AclName {}
impl Value for KeyName {}
impl Value for PolicyName {}
impl Value for KeyReference {}
impl Value for AddressElement {}
impl Value for Period {}
impl Value for OurFile {}
impl Value for &dyn Value {}
impl Value for Box<dyn Value> {}

/// A file whose place we chose.
pub(super) struct OurFile(String);

impl OurFile {
    /// A file of the configuration.
    pub(super) fn of_configuration(name: &'static str) -> Self {
        Self(format!("{CONFIGURATION}/{name}"))
    }

    /// What `named` writes.
    pub(super) fn of_state(name: &'static str) -> Self {
        Self(format!("{STATE}{name}"))
    }

    /// The file of a key.
    pub(super) fn of_key(slot: KeySlot) -> Self {
        Self(format!("{CONFIGURATION}/keys/{}", slot.file_name()))
    }
}

impl Display for OurFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// The name of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AclName(String);

impl AclName {
    /// The name of a list that is being defined.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut taken = BUILT_IN.iter().chain([&OUR_LIST]);
        if taken.any(|word| word.eq_ignore_ascii_case(text)) {
            return Err(format!(
                "{} is a list of named's own: choose another name",
                Shown(text)
            ));
        }
        let mut letters = text.bytes();
        let starts = letters
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic());
        if starts && letters.all(is_name_byte) && text.len() <= LABEL_LEN_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{} is not the name of an access list: it begins with a letter and has letters, digits, - and _ \
                 only, at most {LABEL_LEN_MAX}",
                Shown(text)
            ))
        }
    }
}

impl AclName {
    /// Whether `named` takes both for one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Display for AclName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// The name of a TSIG key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyName(String);

impl KeyName {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let plain = text.bytes().all(|byte| is_name_byte(byte) || byte == b'.');
        if plain && !text.is_empty() && Name::parse(text).is_ok_and(|name| !name.is_root()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(format!(
                "{} is not the name of a key: it has letters, digits, -, _ and dots only",
                Shown(text)
            ))
        }
    }
}

impl Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// A key as an address list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyReference(pub(super) KeyName);

impl Display for KeyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.0)
    }
}

/// The name of a DNSSEC policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyName(String);

impl PolicyName {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut letters = text.bytes();
        let starts = letters
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        if starts && letters.all(is_name_byte) && text.len() <= LABEL_LEN_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{} is not the name of a policy: it has letters, digits, - and _ only, at most {LABEL_LEN_MAX}",
                Shown(text)
            ))
        }
    }
}

impl Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// One element of an address list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressElement {
    is_excluded: bool,
    matched: Matched,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matched {
    BuiltIn(&'static str),
    Address(IpAddr),
    Network(IpAddr, u8),
    Acl(AclName),
}

impl AddressElement {
    /// A list of `named`'s own.
    pub(super) const fn built_in(word: &'static str) -> Self {
        Self {
            is_excluded: false,
            matched: Matched::BuiltIn(word),
        }
    }

    /// Reads `10.0.0.0/8`, `::1`, `localnets`, `partners`, each also with `!` before it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (is_excluded, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let matched = matched(rest).map_err(|wrong| wrong.unwrap_or_else(|| unread(text)))?;
        Ok(Self {
            is_excluded,
            matched,
        })
    }
}

fn unread(text: &str) -> String {
    format!(
        "{} is none of these: an address, a network such as 10.0.0.0/8, the name of an access list, any, none, \
         localhost, localnets",
        Shown(text)
    )
}

fn matched(text: &str) -> Result<Matched, Option<String>> {
    if let Some(word) = BUILT_IN.iter().find(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(Matched::BuiltIn(word));
    }
    if let Ok(address) = text.parse() {
        return Ok(Matched::Address(address));
    }
    let Some((address, length)) = text.split_once('/') else {
        return AclName::read(text).map(Matched::Acl).map_err(|_| None);
    };
    let address: IpAddr = address.parse().map_err(|_| None)?;
    let plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = plain.then(|| length.parse().ok()).flatten().ok_or(None)?;
    let network = masked(address, length).ok_or(None)?;
    if network == address {
        Ok(Matched::Network(address, length))
    } else {
        let message = format!(
            "{} is not the first address of its network: write {network}/{length}",
            Shown(text)
        );
        Err(Some(message))
    }
}

/// The first address of a network.
fn masked(address: IpAddr, length: u8) -> Option<IpAddr> {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let left = u32::BITS.checked_sub(length)?;
            let mask = u32::MAX.checked_shl(left).unwrap_or(0);
            Some(IpAddr::V4((address.to_bits() & mask).into()))
        }
        IpAddr::V6(address) => {
            let left = u128::BITS.checked_sub(length)?;
            let mask = u128::MAX.checked_shl(left).unwrap_or(0);
            Some(IpAddr::V6((address.to_bits() & mask).into()))
        }
    }
}

impl Display for AddressElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_excluded {
            f.write_char('!')?;
        }
        match &self.matched {
            Matched::BuiltIn(word) => f.write_str(word),
            Matched::Address(address) => address.fmt(f),
            Matched::Network(address, length) => write!(f, "{address}/{length}"),
            Matched::Acl(name) => name.fmt(f),
        }
    }
}

/// How long a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    /// For ever.
    Unlimited,
    /// So many seconds.
    Seconds(u32),
}

impl Period {
    /// Reads `365d`, `90` (seconds) or `unlimited`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let wrong = || {
            format!(
                "{} is not a time: write a number with s, m, h, d, w or y, such as 90d, or unlimited",
                Shown(text)
            )
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
        let unit: u32 = match unit {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            "y" => 31_536_000,
            _ => return Err(wrong()),
        };
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(unit).filter(|seconds| *seconds > 0);
        seconds.map(Self::Seconds).ok_or_else(wrong)
    }
}

impl Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Seconds(seconds) => seconds.fmt(f),
        }
    }
}

/// Writes statements, each on a line of its own.
#[derive(Default)]
pub(super) struct Statements {
    text: String,
    depth: usize,
}

impl Statements {
    /// A configuration begins with who wrote it.
    pub(super) fn new() -> Self {
        Self {
            text: "// Written by Bindery; changes here are lost.\n".to_owned(),
            depth: 0,
        }
    }

    /// A statement: `recursion no;`.
    pub(super) fn say(&mut self, words: &[&dyn Value]) {
        self.words(words);
        self.text.push_str(";\n");
    }

    /// A statement with a list: `allow-query { any; };`. An empty one matches nobody.
    pub(super) fn list<V: Value>(&mut self, words: &[&dyn Value], elements: &[V]) {
        self.words(words);
        self.text.push_str(" { ");
        for element in elements {
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{element}; ");
        }
        if elements.is_empty() {
            self.text.push_str("none; ");
        }
        self.text.push_str("};\n");
    }

    /// A block of statements.
    pub(super) fn block(&mut self, words: &[&dyn Value], fill: impl FnOnce(&mut Self)) {
        self.words(words);
        self.text.push_str(" {\n");
        self.depth += 1;
        fill(self);
        self.depth -= 1;
        self.indent();
        self.text.push_str("};\n");
    }

    /// Options of ours, each with its value.
    pub(super) fn settings<'a>(
        &mut self,
        settings: impl IntoIterator<Item = &'a (&'static str, &'static str)>,
    ) {
        for (option, value) in settings {
            self.say(&[option, value]);
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn words(&mut self, words: &[&dyn Value]) {
        self.indent();
        for (at, word) in words.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{space}{word}");
        }
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n('\t', self.depth));
    }
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
