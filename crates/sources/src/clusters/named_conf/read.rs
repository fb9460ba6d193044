//! A spec read: every value as what it is, or a problem that names its field.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use bindery_api::Bind9Config;
use bindery_core::named::OPTIONAL_OPTIONS;
use bindery_core::{Problem, ServerRole, Shown};

use super::dnssec::PolicyStatement;
use super::words::{AclName, AddressElement, KeyName};
use super::{KeySlot, NamedConf, NamedKey};

/// The fields of an instance, and behind them those of its cluster.
pub(super) struct Fields<'a> {
    pub(super) own: Option<&'a Bind9Config>,
    pub(super) global: Option<&'a Bind9Config>,
}

impl<'a> Fields<'a> {
    /// A value with the path of the field that it stands in.
    pub(super) fn find<T>(
        &self,
        path: &str,
        get: impl Fn(&'a Bind9Config) -> Option<&'a T>,
    ) -> Option<(String, &'a T)> {
        let own = self.own.and_then(&get).map(|value| ("config", value));
        let global = || self.global.and_then(&get).map(|value| ("global", value));
        let (layer, value) = own.or_else(global)?;
        Some((format!("spec.{layer}.{path}"), value))
    }
}

/// What is wrong so far.
#[derive(Default)]
pub(super) struct SpecReading {
    pub(super) problems: Vec<Problem>,
}

impl SpecReading {
    /// The value, or the problem with it noted.
    pub(super) fn take<T>(
        &mut self,
        field: impl Into<String>,
        read: Result<T, String>,
    ) -> Option<T> {
        read.map_err(|message| self.problems.push(Problem::invalid(field, message)))
            .ok()
    }

    /// A number within limits; the lowest where it is not.
    pub(super) fn number(&mut self, field: String, given: i64, limits: RangeInclusive<u32>) -> u32 {
        let number = u32::try_from(given)
            .ok()
            .filter(|number| limits.contains(number));
        let (least, most) = (*limits.start(), *limits.end());
        let read = number.ok_or_else(|| format!("{given} is not between {least} and {most}"));
        self.take(field, read).unwrap_or(least)
    }

    fn elements(&mut self, field: &str, texts: &[String]) -> Vec<AddressElement> {
        let read = texts.iter().enumerate().filter_map(|(at, text)| {
            self.take(format!("{field}[{at}]"), AddressElement::read(text))
        });
        read.collect()
    }

    fn list(&mut self, given: Option<(String, &Vec<String>)>) -> Option<Vec<AddressElement>> {
        given.map(|(field, texts)| self.elements(&field, texts))
    }
}

/// How often the same answer may go to the same network.
pub(super) struct RateLimit {
    pub(super) responses_per_second: u32,
    pub(super) window: Option<u32>,
    pub(super) slip: Option<u32>,
}

/// A configuration whose every value is known to be what it has to be.
pub(super) struct NamedSettings {
    pub(super) role: ServerRole,
    pub(super) recursion: bool,
    pub(super) validation: &'static str,
    pub(super) allow_query: Option<Vec<AddressElement>>,
    pub(super) allow_transfer: Vec<AddressElement>,
    pub(super) forwarders: Vec<IpAddr>,
    pub(super) listen_on: Vec<AddressElement>,
    pub(super) listen_on_v6: Vec<AddressElement>,
    pub(super) rate_limit: Option<RateLimit>,
    pub(super) signing: Option<PolicyStatement>,
    pub(super) acls: Vec<(AclName, Vec<AddressElement>)>,
    pub(super) keys: Vec<(KeySlot, KeyName)>,
    pub(super) optional: Vec<&'static (&'static str, &'static str)>,
    pub(super) has_own_zones_file: bool,
    pub(super) signs_requests: bool,
}

impl NamedSettings {
    pub(super) fn read(conf: &NamedConf) -> Result<Self, Vec<Problem>> {
        let mut reading = SpecReading::default();
        let fields = Fields {
            own: conf.own.as_ref(),
            global: conf.global.as_ref(),
        };
        let recursion = fields.find("recursion", |config| config.recursion.as_ref());
        let recursion = recursion.is_some_and(|(_, recursion)| *recursion);
        let validation = fields.find("dnssec.validation", |config| {
            config.dnssec.as_ref()?.validation.as_ref()
        });
        let validated = validation.is_none_or(|(_, validation)| *validation);
        let any = || vec![AddressElement::built_in("any")];
        let query = fields.find("allowQuery", |config| config.allow_query.as_ref());
        let listen_on = fields.find("listenOn", |config| config.listen_on.as_ref());
        let listen_on_v6 = fields.find("listenOnV6", |config| config.listen_on_v6.as_ref());
        let settings = Self {
            role: conf.role,
            recursion,
            validation: if recursion && validated { "auto" } else { "no" },
            allow_query: reading.list(query),
            allow_transfer: allow_transfer(conf, &fields, &mut reading),
            forwarders: forwarders(&fields, &mut reading),
            listen_on: reading.list(listen_on).unwrap_or_else(any),
            listen_on_v6: reading.list(listen_on_v6).unwrap_or_else(any),
            rate_limit: rate_limit(&fields, &mut reading),
            signing: PolicyStatement::read(&fields, &mut reading),
            acls: acls(conf, &mut reading),
            keys: keys(&conf.keys, &mut reading),
            optional: optional(conf.version.as_deref()),
            has_own_zones_file: conf.has_own_zones_file,
            // The servers of the world would refuse a key that they do not know.
            signs_requests: conf.signs_requests && !recursion,
        };
        if reading.problems.is_empty() {
            Ok(settings)
        } else {
            Err(reading.problems)
        }
    }
}

fn allow_transfer(
    conf: &NamedConf,
    fields: &Fields<'_>,
    reading: &mut SpecReading,
) -> Vec<AddressElement> {
    let field = format!("spec.{}.allowTransfer", conf.role.as_str());
    let mut elements = reading.elements(&field, &conf.allow_transfer);
    let general = fields.find("allowTransfer", |config| config.allow_transfer.as_ref());
    elements.extend(reading.list(general).unwrap_or_default());
    elements
}

fn forwarders(fields: &Fields<'_>, reading: &mut SpecReading) -> Vec<IpAddr> {
    let Some((field, texts)) = fields.find("forwarders", |config| config.forwarders.as_ref())
    else {
        return Vec::new();
    };
    let read = texts.iter().enumerate().filter_map(|(at, text)| {
        let address = text.parse();
        let address = address.map_err(|_| format!("{} is not an address", Shown(text)));
        reading.take(format!("{field}[{at}]"), address)
    });
    read.collect()
}

fn rate_limit(fields: &Fields<'_>, reading: &mut SpecReading) -> Option<RateLimit> {
    let (limit, _) = fields.find("rateLimit", |config| config.rate_limit.as_ref())?;
    let responses = fields.find("rateLimit.responsesPerSecond", |config| {
        config.rate_limit.as_ref()?.responses_per_second.as_ref()
    });
    let window = fields.find("rateLimit.window", |config| {
        config.rate_limit.as_ref()?.window.as_ref()
    });
    let slip = fields.find("rateLimit.slip", |config| {
        config.rate_limit.as_ref()?.slip.as_ref()
    });
    let Some((field, number)) = responses else {
        let message = "responsesPerSecond is missing, so nothing would be limited";
        reading.problems.push(Problem::invalid(limit, message));
        return None;
    };
    Some(RateLimit {
        responses_per_second: reading.number(field, *number, 1..=1000),
        window: window.map(|(field, number)| reading.number(field, *number, 1..=3600)),
        slip: slip.map(|(field, number)| reading.number(field, *number, 0..=10)),
    })
}

fn acls(conf: &NamedConf, reading: &mut SpecReading) -> Vec<(AclName, Vec<AddressElement>)> {
    let mut read: Vec<(AclName, Vec<AddressElement>)> = Vec::new();
    for (text, texts) in &conf.acls {
        // A name that is none is shown by the message, where it can do no harm.
        let Some(name) = reading.take("spec.acls", AclName::read(text)) else {
            continue;
        };
        let field = format!("spec.acls.{text}");
        let elements = reading.elements(&field, texts);
        if read.iter().any(|(other, _)| other.is_same(&name)) {
            let message =
                "another list has this name: named does not tell small from capital letters";
            reading.problems.push(Problem::invalid(field, message));
        }
        read.push((name, elements));
    }
    read
}

/// Keys by themselves, read.
pub(super) fn read_keys(given: &[NamedKey]) -> Result<Vec<(KeySlot, KeyName)>, Vec<Problem>> {
    let mut reading = SpecReading::default();
    let keys = keys(given, &mut reading);
    if reading.problems.is_empty() {
        Ok(keys)
    } else {
        Err(reading.problems)
    }
}

fn keys(given: &[NamedKey], reading: &mut SpecReading) -> Vec<(KeySlot, KeyName)> {
    let mut read: Vec<(KeySlot, KeyName)> = Vec::new();
    for key in given {
        let field = match key.slot {
            KeySlot::Current | KeySlot::Previous | KeySlot::Transfer => "spec.rndcKey".to_owned(),
            KeySlot::Further(at) => format!("spec.rndcSecretRefs[{at}]"),
        };
        let Some(name) = reading.take(&field, KeyName::read(&key.name)) else {
            continue;
        };
        if read.iter().any(|(_, other)| *other == name) {
            let message = format!("another key of the server is called {name} too");
            reading.problems.push(Problem::invalid(field, message));
        }
        read.push((key.slot, name));
    }
    read
}

/// The options of some versions that this one has. A version that is not known is taken for a new one.
fn optional(version: Option<&str>) -> Vec<&'static (&'static str, &'static str)> {
    let mut numbers = version.unwrap_or_default().split(['.', '-', '_']);
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let (major, minor, patch) = (number(), number(), number());
    let minor = minor.filter(|_| major == Some(9)).unwrap_or(20);
    // Without a third number it is the newest of its line.
    let has_limits = minor > 18 || (minor == 18 && patch.is_none_or(|patch| patch >= 28));
    let has = |option| match option {
        "max-records-per-type" | "max-types-per-name" => has_limits,
        "lock-file" => minor <= 20,
        _ => minor >= 16,
    };
    OPTIONAL_OPTIONS
        .iter()
        .filter(|(option, _)| has(*option))
        .collect()
}
