//! The policy by which zones are signed.

use bindery_api::{Bind9Config, SigningConfig};
use bindery_core::Shown;

use super::read::{Fields, SpecReading};
use super::words::{Period, PolicyName, Statements};

/// The name of the policy where the spec gives none.
pub const POLICY_DEFAULT: &str = "bindery";

/// The policy that `named` has itself, which nobody can declare.
const BUILT_IN: &str = "default";

/// The policy of an author who calls it as the one that `named` has, with parameters of its own.
const OWN_DEFAULT: &str = "bindery-default";

/// Zones with a longer TTL than this are not signed: `named` refuses them, and each roll of a key takes longer than
/// it. Its own limit is a day, which the two days of many NS records exceed.
const TTL_MAX: &str = "P1W";

/// The algorithms that `named` signs with and that are safe, with their numbers. RSASHA1 is not (RFC 9905).
const ALGORITHMS: [(&str, &str); 6] = [
    ("8", "RSASHA256"),
    ("10", "RSASHA512"),
    ("13", "ECDSAP256SHA256"),
    ("14", "ECDSAP384SHA384"),
    ("15", "ED25519"),
    ("16", "ED448"),
];

/// The algorithm where the spec gives none.
const ALGORITHM_DEFAULT: &str = "ECDSAP256SHA256";

/// A policy that has to be written.
pub(super) struct PolicyStatement {
    name: PolicyName,
    algorithm: &'static str,
    /// Of the key-signing and the zone-signing key; one key does both where neither is given.
    lifetimes: Option<(Period, Period)>,
    /// Iterations and the length of the salt.
    nsec3: Option<(u32, u32)>,
}

impl PolicyStatement {
    /// The policy, if zones can be signed and it is not one of `named`'s own.
    pub(super) fn read(fields: &Fields<'_>, reading: &mut SpecReading) -> Option<Self> {
        let (_, enabled) = signing(fields, "enabled", |signing| signing.enabled.as_ref())?;
        if !enabled {
            return None;
        }
        let policy = signing(fields, "policy", |signing| signing.policy.as_ref());
        let given = policy
            .as_ref()
            .map_or(POLICY_DEFAULT, |(_, name)| name.as_str());
        let algorithm = algorithm(fields, reading);
        let lifetimes = lifetimes(fields, reading);
        let nsec3 = nsec3(fields, reading);
        let name = match given {
            BUILT_IN if !fields.is_own_policy() => return None,
            BUILT_IN => OWN_DEFAULT,
            given => given,
        };
        let field = policy.as_ref().map_or("", |(field, _)| field);
        let is_given = |taken: &&str| taken.eq_ignore_ascii_case(given) && given != BUILT_IN;
        let read = if ["none", "insecure", BUILT_IN, OWN_DEFAULT]
            .iter()
            .any(is_given)
        {
            Err(format!(
                "{} means something else to named: choose another name",
                Shown(given)
            ))
        } else {
            PolicyName::read(name)
        };
        let name = reading.take(field, read)?;
        Some(Self {
            name,
            algorithm,
            lifetimes,
            nsec3,
        })
    }

    pub(super) fn write(&self, to: &mut Statements) {
        to.block(&[&"dnssec-policy", &self.name], |to| {
            to.block(&[&"keys"], |to| match self.lifetimes {
                None => self.key(to, "csk", Period::Unlimited),
                Some((ksk, zsk)) => {
                    self.key(to, "ksk", ksk);
                    self.key(to, "zsk", zsk);
                }
            });
            to.say(&[&"max-zone-ttl", &TTL_MAX]);
            if let Some((iterations, salt)) = self.nsec3 {
                to.say(&[
                    &"nsec3param",
                    &"iterations",
                    &iterations,
                    &"optout",
                    &"no",
                    &"salt-length",
                    &salt,
                ]);
            }
        });
    }

    fn key(&self, to: &mut Statements, kind: &'static str, lifetime: Period) {
        to.say(&[
            &kind,
            &"key-directory",
            &"lifetime",
            &lifetime,
            &"algorithm",
            &self.algorithm,
        ]);
    }
}

fn signing<'a, T>(
    fields: &Fields<'a>,
    name: &str,
    get: impl Fn(&'a SigningConfig) -> Option<&'a T>,
) -> Option<(String, &'a T)> {
    let path = format!("dnssec.signing.{name}");
    fields.find(&path, |config| {
        get(config.dnssec.as_ref()?.signing.as_ref()?)
    })
}

fn algorithm(fields: &Fields<'_>, reading: &mut SpecReading) -> &'static str {
    let given = signing(fields, "algorithm", |signing| signing.algorithm.as_ref());
    let Some((field, text)) = given else {
        return ALGORITHM_DEFAULT;
    };
    let known = ALGORITHMS
        .iter()
        .find(|(number, name)| number == text || name.eq_ignore_ascii_case(text));
    let names = ALGORITHMS.map(|(_, name)| name).join(", ");
    let read = known
        .map(|(_, name)| *name)
        .ok_or_else(|| format!("{} is none of {names}", Shown(text)));
    reading.take(field, read).unwrap_or(ALGORITHM_DEFAULT)
}

fn lifetimes(fields: &Fields<'_>, reading: &mut SpecReading) -> Option<(Period, Period)> {
    let ksk = signing(fields, "kskLifetime", |signing| {
        signing.ksk_lifetime.as_ref()
    });
    let zsk = signing(fields, "zskLifetime", |signing| {
        signing.zsk_lifetime.as_ref()
    });
    if ksk.is_none() && zsk.is_none() {
        return None;
    }
    let [ksk, zsk] = [ksk, zsk].map(|given| {
        let read = given.and_then(|(field, text)| reading.take(field, Period::read(text)));
        read.unwrap_or(Period::Unlimited)
    });
    Some((ksk, zsk))
}

fn nsec3(fields: &Fields<'_>, reading: &mut SpecReading) -> Option<(u32, u32)> {
    let (_, enabled) = signing(fields, "nsec3", |signing| signing.nsec3.as_ref())?;
    let iterations = signing(fields, "nsec3Iterations", |signing| {
        signing.nsec3_iterations.as_ref()
    });
    let salt = signing(fields, "nsec3Salt", |signing| signing.nsec3_salt.as_ref());
    let iterations = iterations.map_or(0, |(field, number)| reading.number(field, *number, 0..=50));
    let salt = salt.and_then(|(field, text)| reading.take(field, salt_len(text)));
    enabled.then_some((iterations, salt.unwrap_or(0)))
}

/// How many bytes a salt has. `named` draws them itself.
fn salt_len(text: &str) -> Result<u32, String> {
    let digits = if text == "-" { "" } else { text };
    let plain =
        digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = u32::try_from(digits.len() / 2).ok();
    let length = length.filter(|length| plain && *length <= 255);
    length.ok_or_else(|| {
        let shown = Shown(text);
        format!("{shown} is not a salt: write an even number of hexadecimal digits, or - for none")
    })
}

impl Fields<'_> {
    /// Whether the spec has a policy of its own rather than the one that `named` has.
    fn is_own_policy(&self) -> bool {
        differs(&super::merged(self.global, self.own))
    }
}

/// Under which name servers of this configuration have the policy that their zones call `default`; nothing where it
/// is the one that `named` has itself.
#[must_use]
pub fn default_policy(config: &Bind9Config) -> Option<&'static str> {
    let signing = config.dnssec.as_ref()?.signing.as_ref()?;
    if signing.enabled != Some(true) || !differs(config) {
        return None;
    }
    match signing.policy.as_deref() {
        None => Some(POLICY_DEFAULT),
        Some(BUILT_IN) => Some(OWN_DEFAULT),
        Some(_) => None,
    }
}

/// Whether keys are to be other than by the policy that `named` has itself.
fn differs(config: &Bind9Config) -> bool {
    let signing = config.dnssec.as_ref().and_then(|one| one.signing.as_ref());
    let Some(signing) = signing else {
        return false;
    };
    let is_usual = |text: &String| text.eq_ignore_ascii_case(ALGORITHM_DEFAULT) || text == "13";
    let is_ended = |text: &String| text != "unlimited";
    !signing.algorithm.as_ref().is_none_or(is_usual)
        || signing.ksk_lifetime.as_ref().is_some_and(is_ended)
        || signing.zsk_lifetime.as_ref().is_some_and(is_ended)
        || signing.nsec3 == Some(true)
}
