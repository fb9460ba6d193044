//! Zones to their name, SOA, name servers and selectors.

use std::net::{Ipv4Addr, Ipv6Addr};

use bindery_core::selector::Expression;
use bindery_core::zones::{SigningPolicy, Tenancy};
use bindery_core::{Name, NameProblem, Problem, Record, RecordData, Selector, Shown, Soa};

use super::Reading;
use super::record::{ipv4, ipv6};
use crate::bindy::v1beta1::{DnsZoneSpec, LabelSelector, SelectorSource, SoaRecord};

/// The TTL of records where neither the record nor the zone sets one.
pub const ZONE_TTL_DEFAULT: u32 = 3600;

/// What a zone object declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredZone {
    /// The zone's name.
    pub name: Name,
    /// Its SOA record, with defaults for what the object leaves out.
    pub soa: Soa,
    /// The TTL of records that set none.
    pub ttl: u32,
    /// Its name servers, at least one.
    pub name_servers: Vec<DeclaredNameServer>,
    /// Which records belong to it; any may match.
    pub selectors: Vec<Selector>,
    /// Whether what others write into it is removed.
    pub tenancy: Tenancy,
    /// The clusters of name servers that it names, each after the field that does.
    pub clusters: Vec<(&'static str, String)>,
    /// What stands for the instances that it selects by their labels.
    pub selection: Option<String>,
    /// By which policy it is to be signed.
    pub signing: SigningPolicy,
    /// Fields that it sets and that are acted on only where Bindery serves the zone.
    pub hosted_only: Vec<&'static str>,
}

/// A name server of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredNameServer {
    /// Its host name.
    pub host: Name,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

impl DeclaredZone {
    /// What the zone holds before any record object is published: SOA, NS and glue.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let at = |name: &Name, data| Record {
            name: name.clone(),
            ttl: self.ttl,
            data,
        };
        let mut records = vec![at(&self.name, RecordData::Soa(Box::new(self.soa.clone())))];
        for server in &self.name_servers {
            records.push(at(&self.name, RecordData::Ns(server.host.clone())));
            // Addresses of hosts outside the zone are for their own zone to say.
            if server.host.is_in(&self.name) {
                records.extend(
                    server
                        .ipv4
                        .map(|address| at(&server.host, RecordData::A(address))),
                );
                let ipv6 = server
                    .ipv6
                    .map(|address| at(&server.host, RecordData::Aaaa(address)));
                records.extend(ipv6);
            }
        }
        records
    }
}

impl DnsZoneSpec {
    /// The zone, or every field that is wrong.
    ///
    /// # Errors
    /// Every problem, by field.
    pub fn declared(&self) -> Result<DeclaredZone, Vec<Problem>> {
        let mut reading = Reading::default();
        let name = zone_name(&mut reading, &self.zone_name);
        let ttl = reading
            .ttl("spec.ttl", self.ttl)
            .unwrap_or(ZONE_TTL_DEFAULT);
        let selectors = selectors(&mut reading, &self.records_from);
        let mut name_servers = name_servers(&mut reading, self);
        let first = name_servers.first().map(|server| server.host.clone());
        let soa = name
            .as_ref()
            .and_then(|name| soa(&mut reading, self.soa_record.as_ref(), name, first));
        let zone = name.zip(soa).map(|(name, soa)| {
            // The primary of the SOA is a name server of the zone too, as it always was in bindy.
            if name_servers.iter().all(|server| server.host != soa.mname) {
                let host = soa.mname.clone();
                name_servers.insert(
                    0,
                    DeclaredNameServer {
                        host,
                        ipv4: None,
                        ipv6: None,
                    },
                );
            }
            DeclaredZone {
                tenancy: if self.exclusive == Some(true) {
                    Tenancy::Exclusive
                } else {
                    Tenancy::Shared
                },
                clusters: self.clusters(),
                selection: self.selection(),
                signing: self.signing(),
                hosted_only: self.hosted_only(),
                name,
                soa,
                ttl,
                name_servers,
                selectors,
            }
        });
        reading.end(zone)
    }

    fn signing(&self) -> SigningPolicy {
        match self.dnssec_policy.as_deref() {
            None | Some("") => SigningPolicy::Unsaid,
            // The latter is what `named` calls the former.
            Some("none" | "insecure") => SigningPolicy::Unsigned,
            Some(policy) => SigningPolicy::Named(policy.into()),
        }
    }

    fn hosted_only(&self) -> Vec<&'static str> {
        let fields = [
            ("spec.soaRecord", self.soa_record.is_some()),
            ("spec.nameServers", !self.name_servers.is_empty()),
            ("spec.nameServerIps", !self.name_server_ips.is_empty()),
        ];
        set(fields)
    }

    /// The clusters that the zone names, each after the field that does.
    #[must_use]
    pub fn clusters(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("spec.clusterRef", &self.cluster_ref),
            ("spec.clusterProviderRef", &self.cluster_provider_ref),
            ("spec.globalClusterRef", &self.global_cluster_ref),
        ];
        let named = fields.into_iter().filter_map(|(field, name)| {
            let name = name.as_deref().filter(|name| !name.is_empty())?;
            Some((field, name.to_owned()))
        });
        named.collect()
    }
}

impl DnsZoneSpec {
    /// The label selectors of the instances that serve the zone, under either name.
    pub fn instance_selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let sources = self.bind9_instances_from.iter().chain(&self.instances_from);
        sources.map(|source| &source.selector)
    }

    /// What stands for the instances that the zone selects by their labels, beside the clusters that it names:
    /// zones that choose the same way have the same servers.
    #[must_use]
    pub fn selection(&self) -> Option<String> {
        self.instance_selectors().next()?;
        let selectors: Vec<&LabelSelector> = self.instance_selectors().collect();
        let text = serde_json::to_vec(&(selectors, self.clusters())).unwrap_or_default();
        // FNV-1a: it only has to tell selections of one namespace apart.
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Some(format!("selected-{hash:016x}"))
    }
}

fn set<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(field, _)| field).collect()
}

fn zone_name(reading: &mut Reading, text: &str) -> Option<Name> {
    let field = "spec.zoneName";
    let name = reading.take(field, Name::parse(text))?;
    if name.is_wildcard() {
        let message = format!("{} is a wildcard: write the name of a zone", Shown(text));
        reading.problems.push(Problem::invalid(field, message));
        return None;
    }
    Some(name)
}

fn soa(
    reading: &mut Reading,
    record: Option<&SoaRecord>,
    zone: &Name,
    first_server: Option<Name>,
) -> Option<Soa> {
    let given = record.cloned().unwrap_or_default();
    let mname = match (given.primary_ns.as_deref(), first_server) {
        (Some(text), _) => reading.target("spec.soaRecord.primaryNs", text),
        (None, Some(first)) => Some(first),
        (None, None) => reading.take("spec.zoneName", Name::parse_in("ns1", zone)),
    };
    let rname = match given.admin_email.as_deref() {
        Some(text) => reading.take("spec.soaRecord.adminEmail", mailbox(text)),
        None => reading.take("spec.zoneName", Name::parse_in("hostmaster", zone)),
    };
    let mut seconds = |field: &str, value: Option<i64>, default: u32, max: u32| {
        value.map_or(Some(default), |value| {
            reading.number(format!("spec.soaRecord.{field}"), value, max)
        })
    };
    let serial = seconds("serial", given.serial, 1, u32::MAX);
    let refresh = seconds("refresh", given.refresh, 3600, i32::MAX.unsigned_abs());
    let retry = seconds("retry", given.retry, 600, i32::MAX.unsigned_abs());
    let expire = seconds("expire", given.expire, 604_800, i32::MAX.unsigned_abs());
    let minimum = seconds(
        "negativeTtl",
        given.negative_ttl,
        3600,
        i32::MAX.unsigned_abs(),
    );
    Some(Soa {
        mname: mname?,
        rname: rname?,
        serial: serial?,
        refresh: refresh?,
        retry: retry?,
        expire: expire?,
        minimum: minimum?,
    })
}

/// A mailbox as a name: the part before `@` becomes the first label (RFC 1035 section 8).
fn mailbox(text: &str) -> Result<Name, NameProblem> {
    match text.split_once('@') {
        Some((user, host)) => {
            let user = user.replace('\\', "\\\\").replace('.', "\\.");
            Name::parse(&format!("{user}.{host}"))
        }
        None => Name::parse(text),
    }
}

fn name_servers(reading: &mut Reading, spec: &DnsZoneSpec) -> Vec<DeclaredNameServer> {
    let mut servers: Vec<DeclaredNameServer> = Vec::new();
    for (at, server) in spec.name_servers.iter().enumerate() {
        let field = format!("spec.nameServers[{at}]");
        let v4 = server
            .ipv4_address
            .as_deref()
            .and_then(|text| reading.take(format!("{field}.ipv4Address"), ipv4(text)));
        let v6 = server
            .ipv6_address
            .as_deref()
            .and_then(|text| reading.take(format!("{field}.ipv6Address"), ipv6(text)));
        if let Some(host) = reading.target(format!("{field}.hostname"), &server.hostname) {
            servers.push(DeclaredNameServer {
                host,
                ipv4: v4,
                ipv6: v6,
            });
        }
    }
    for (hostname, address) in &spec.name_server_ips {
        let field = format!("spec.nameServerIps[{hostname}]");
        let v4 = reading.take(field.clone(), ipv4(address));
        let Some(host) = reading.target(field, hostname) else {
            continue;
        };
        match servers.iter_mut().find(|server| server.host == host) {
            Some(server) => server.ipv4 = server.ipv4.or(v4),
            None => servers.push(DeclaredNameServer {
                host,
                ipv4: v4,
                ipv6: None,
            }),
        }
    }
    servers
}

fn selectors(reading: &mut Reading, sources: &[SelectorSource]) -> Vec<Selector> {
    let mut selectors = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        match read_selector(
            &source.selector,
            &format!("spec.recordsFrom[{at}].selector"),
        ) {
            Ok(selector) => selectors.push(selector),
            Err(problems) => reading.problems.extend(problems),
        }
    }
    selectors
}

/// Reads a label selector.
///
/// # Errors
/// Every problem, below the field.
pub fn read_selector(selector: &LabelSelector, field: &str) -> Result<Selector, Vec<Problem>> {
    let labels = selector.match_labels.clone().unwrap_or_default();
    let expressions: Vec<Expression<'_>> = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|requirement| Expression {
            key: &requirement.key,
            operator: &requirement.operator,
            values: requirement.values.as_deref().unwrap_or_default(),
        })
        .collect();
    Selector::new(&labels, &expressions, field)
}
