//! The configuration of the `named` of a cluster or an instance, as text.
//!
//! Nothing that an author typed reaches the text as it is: `words` reads each value as what it has to be, and its
//! writer takes nothing else.

mod dnssec;
mod layers;
mod read;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use bindery_api::Bind9Config;
use bindery_core::named::{OPTIONS, SECONDARY_OPTIONS, logging};
use bindery_core::{Problem, ServerRole};

use read::NamedSettings;
use words::{AddressElement, KeyName, KeyReference, OurFile, Statements, Value};

pub use dnssec::{POLICY_DEFAULT, default_policy};
pub use layers::merged;

/// Where `named` answers.
pub const DNS_PORT: u16 = 5353;

/// Where its control channel is. Whoever is not on the same machine is not let in.
pub const CONTROL_PORT: u16 = 9530;

/// Where it shows, over HTTP, that it is alive: a process that is stopped still has connections accepted.
pub const ALIVE_PORT: u16 = 8053;

/// The access list of all keys that may change records.
const KEYS_ACL: AddressElement = AddressElement::built_in("\"bindery-keys\"");

/// The folder of keys below that of the configuration. What lies in it can change while a server runs.
pub(super) const KEYS_FOLDER: &str = "keys/";

/// What it keeps where; without a name, in the folder itself.
const PLACES: [(&str, &str); 7] = [
    ("directory", ""),
    ("key-directory", ""),
    ("managed-keys-directory", ""),
    ("pid-file", "/named.pid"),
    ("session-keyfile", "/session.key"),
    ("dump-file", "/named_dump.db"),
    ("statistics-file", "/named.stats"),
];

/// What a configuration is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedConf {
    /// What the server does.
    pub role: ServerRole,
    /// The version of BIND as the spec gives it; the newest options are left out for older ones.
    pub version: Option<String>,
    /// What the cluster says.
    pub global: Option<Bind9Config>,
    /// What the instance says, which goes before.
    pub own: Option<Bind9Config>,
    /// Access lists of the cluster.
    pub acls: BTreeMap<String, Vec<String>>,
    /// Who may copy zones, as the cluster says for servers of this role.
    pub allow_transfer: Vec<String>,
    /// The keys of the server.
    pub keys: Vec<NamedKey>,
    /// Whether there is a named.conf.zones of the author's own.
    pub has_own_zones_file: bool,
    /// Whether whatever it asks of others is signed with the key of transfers: its zones cannot name a key.
    pub signs_requests: bool,
}

/// A TSIG key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    /// Which key it is.
    pub slot: KeySlot,
    /// Its name, as its file has it.
    pub name: String,
}

/// Which key of a server a key is. All may transfer, all but that of transfers update, the first two also control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySlot {
    /// The key that is used.
    Current,
    /// The key before it, as long as both are valid.
    Previous,
    /// A key of `rndcSecretRefs`, by its place there.
    Further(usize),
    /// The key with which the servers of a namespace copy from each other.
    Transfer,
}

impl KeySlot {
    /// The name of its file in `/etc/bind/keys`.
    #[must_use]
    pub fn file_name(self) -> String {
        match self {
            Self::Current => "rndc.key".to_owned(),
            Self::Previous => "previous.key".to_owned(),
            Self::Further(at) => format!("further-{at}.key"),
            Self::Transfer => "transfer.key".to_owned(),
        }
    }
}

/// The files of the configuration by their names in `/etc/bind`.
///
/// # Errors
/// Every value that cannot be written, by its field: `spec.global` is the cluster's, `spec.config` the instance's.
pub fn render(conf: &NamedConf) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let settings = NamedSettings::read(conf)?;
    let slots = settings.keys.iter().map(|(slot, _)| *slot);
    let slots = slots.filter(|slot| *slot != KeySlot::Transfer);
    let files = slots.map(OurFile::of_key).collect::<Vec<_>>();
    let files = [
        ("named.conf", named_conf(&settings)),
        ("named.conf.options", named_conf_options(&settings)),
        ("rndc.conf", include("keys/rndc.conf")),
        ("keys/keys.conf", keys_conf(&settings.keys, &files)),
        ("keys/rndc.conf", rndc_conf(&settings.keys)),
    ];
    Ok(files.map(|(name, text)| (name.to_owned(), text)).into())
}

/// The files that a server's Secret has beside its keys: `keys.conf`, by which `named` knows all of them, and
/// `rndc.conf`. They change when a key is replaced, and the rest of the configuration does not. Each slot has a
/// file of its own, and all further keys have one.
///
/// # Errors
/// If a key cannot have its name, or two have the same.
pub fn key_files(keys: &[NamedKey]) -> Result<BTreeMap<String, String>, Vec<Problem>> {
    let keys = read::read_keys(keys)?;
    let files = ["keys/rndc.key", "keys/previous.key", "keys/further.key"];
    let files = files.map(OurFile::of_configuration);
    let files = [
        ("keys.conf", keys_conf(&keys, &files)),
        ("rndc.conf", rndc_conf(&keys)),
    ];
    Ok(files.map(|(name, text)| (name.to_owned(), text)).into())
}

fn include(name: &'static str) -> String {
    let mut to = Statements::new();
    to.say(&[&"include", &OurFile::of_configuration(name)]);
    to.into_text()
}

/// What can change while the server runs: keys, the list of them, and whose commands count.
fn keys_conf(keys: &[(KeySlot, KeyName)], files: &[OurFile]) -> String {
    let mut to = Statements::new();
    for file in files {
        to.say(&[&"include", file]);
    }
    let may_update = keys.iter().filter(|(slot, _)| *slot != KeySlot::Transfer);
    let may_update = may_update.map(|(_, name)| KeyReference(name.clone()));
    let may_update: Vec<KeyReference> = may_update.collect();
    to.list(&[&"acl", &KEYS_ACL], &may_update);
    to.block(&[&"controls"], |to| control_channel(keys, to));
    to.into_text()
}

fn named_conf(settings: &NamedSettings) -> String {
    let mut to = Statements::new();
    to.say(&[&"include", &OurFile::of_configuration("keys/keys.conf")]);
    if transfer_key(settings).is_some() {
        to.say(&[&"include", &OurFile::of_key(KeySlot::Transfer)]);
    }
    for (name, elements) in &settings.acls {
        to.list(&[&"acl", name], elements);
    }
    let options = OurFile::of_configuration("named.conf.options");
    to.say(&[&"include", &options]);
    let alive = u32::from(ALIVE_PORT);
    to.block(&[&"statistics-channels"], |to| {
        to.say(&[&"inet", &"*", &"port", &alive, &"allow { any; }"]);
    });
    sign_requests(settings, &mut to);
    if let Some(signing) = &settings.signing {
        signing.write(&mut to);
    }
    if settings.has_own_zones_file {
        let zones = OurFile::of_configuration("named.conf.zones");
        to.say(&[&"include", &zones]);
    }
    to.into_text() + &logging("stderr")
}

/// Transfers and notifications to whichever server have the key of transfers, where zones cannot name it.
fn sign_requests(settings: &NamedSettings, to: &mut Statements) {
    let mut keys = settings.keys.iter();
    let key = keys.find(|(slot, _)| *slot == KeySlot::Transfer);
    let Some((_, key)) = key.filter(|_| settings.signs_requests) else {
        return;
    };
    for servers in ["0.0.0.0/0", "::/0"] {
        to.block(&[&"server", &servers], |to| to.say(&[&"keys", key]));
    }
}

/// The keys that may control the server: the others are for records only.
fn control_keys(keys: &[(KeySlot, KeyName)]) -> Vec<KeyName> {
    let controlling = keys.iter().filter(|(slot, _)| match slot {
        KeySlot::Current | KeySlot::Previous => true,
        KeySlot::Further(_) | KeySlot::Transfer => false,
    });
    controlling.map(|(_, name)| name.clone()).collect()
}

/// Without a key there is no control channel: `named` would make one of its own.
fn control_channel(keys: &[(KeySlot, KeyName)], to: &mut Statements) {
    let keys = control_keys(keys);
    if keys.is_empty() {
        return;
    }
    let port = u32::from(CONTROL_PORT);
    to.list(
        &[
            &"inet",
            &"*",
            &"port",
            &port,
            &"allow { localhost; }",
            &"keys",
        ],
        &keys,
    );
}

fn named_conf_options(settings: &NamedSettings) -> String {
    let mut to = Statements::new();
    to.block(&[&"options"], |to| {
        for (option, name) in PLACES {
            to.say(&[&option, &OurFile::of_state(name)]);
        }
        let port = u32::from(DNS_PORT);
        to.list(&[&"listen-on", &"port", &port], &settings.listen_on);
        to.list(&[&"listen-on-v6", &"port", &port], &settings.listen_on_v6);
        access(settings, to);
        to.settings(&OPTIONS);
        match settings.role {
            // Zones name those who are told; the addresses of their NS records are those of Services.
            ServerRole::Primary => to.say(&[&"notify", &"explicit"]),
            ServerRole::Secondary => {
                to.settings(&SECONDARY_OPTIONS);
                to.list(&[&"allow-notify"], &keyed(settings));
            }
        }
        to.settings(settings.optional.iter().copied());
        if let Some(limit) = &settings.rate_limit {
            to.block(&[&"rate-limit"], |to| {
                let rate = limit.responses_per_second;
                to.say(&[&"responses-per-second", &rate]);
                for (option, number) in [("window", limit.window), ("slip", limit.slip)] {
                    if let Some(number) = number {
                        to.say(&[&option, &number]);
                    }
                }
            });
        }
    });
    to.into_text()
}

/// Who may do what.
fn access(settings: &NamedSettings, to: &mut Statements) {
    let built_in = AddressElement::built_in;
    let query = settings.allow_query.as_deref();
    let all = [built_in("any")];
    to.list(&[&"allow-query"], query.unwrap_or(&all));
    if settings.recursion {
        // Whoever may ask may have it ask others; where nobody is named, the neighbours and not the world.
        let neighbours = [built_in("localhost"), built_in("localnets")];
        let allowed = query.unwrap_or(&neighbours);
        to.say(&[&"recursion", &"yes"]);
        to.list(&[&"allow-recursion"], allowed);
        to.list(&[&"allow-query-cache"], allowed);
        if !settings.forwarders.is_empty() {
            to.say(&[&"forward", &"only"]);
            to.list(&[&"forwarders"], &settings.forwarders);
        }
    } else {
        to.say(&[&"recursion", &"no"]);
        to.list(&[&"allow-query-cache"], &[built_in("none")]);
    }
    to.say(&[&"dnssec-validation", &settings.validation]);
    to.list(&[&"allow-update"], &[KEYS_ACL]);
    let keys = keyed(settings);
    let general = settings.allow_transfer.iter();
    let transfer: Vec<&dyn Value> = keys
        .iter()
        .map(|key| &**key)
        .chain(general.map(|element| element as &dyn Value))
        .collect();
    to.list(&[&"allow-transfer"], &transfer);
}

fn transfer_key(settings: &NamedSettings) -> Option<KeyReference> {
    let mut keys = settings.keys.iter();
    let (_, name) = keys.find(|(slot, _)| *slot == KeySlot::Transfer)?;
    Some(KeyReference(name.clone()))
}

/// Whoever has a key of the server.
fn keyed(settings: &NamedSettings) -> Vec<Box<dyn Value>> {
    let mut keys: Vec<Box<dyn Value>> = vec![Box::new(KEYS_ACL)];
    if let Some(key) = transfer_key(settings) {
        keys.push(Box::new(key));
    }
    keys
}

fn rndc_conf(keys: &[(KeySlot, KeyName)]) -> String {
    let mut to = Statements::new();
    to.say(&[&"include", &OurFile::of_key(KeySlot::Current)]);
    to.block(&[&"options"], |to| {
        to.say(&[&"default-server", &"127.0.0.1"]);
        to.say(&[&"default-port", &u32::from(CONTROL_PORT)]);
        let current = keys.iter().find(|(slot, _)| *slot == KeySlot::Current);
        if let Some((_, name)) = current {
            to.say(&[&"default-key", name]);
        }
    });
    to.into_text()
}
