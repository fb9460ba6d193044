//! The zones of a pod, as the engine has them made and removed: through its sidecar.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bindery_core::zones::{SigningAnswer, SigningPolicy};
use bindery_core::{Fault, FaultKind, Name, Reason, Record, RecordData, Serial};
use bindery_engine::ports::ZoneHost;
use futures::future::BoxFuture;

use crate::answer::SidecarFault;
use crate::client::SidecarClient;
use crate::content;
use crate::wire::{
    ExpectedZone, ExpectedZones, NamedStatus, NewRecord, NewSoa, NewZone, NewZoneConfig,
    SigningKeyFiles, ZonePatch,
};

/// The policy by which `named` takes keys and signatures out of a zone.
const INSECURE: &str = "insecure";
/// The policy that `named` has itself, unless the servers of a cluster have one in its place.
const DEFAULT: &str = "default";

/// Who else serves the zones of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZonePeers {
    /// Of a secondary, from whom it copies: `ADDRESS:PORT key NAME`.
    pub primaries: Option<Vec<String>>,
    /// Of a primary, who is told of changes: `ADDRESS:PORT key NAME`.
    pub notify: Vec<String>,
    /// The key that updates must be signed with; without it the configuration of the server says who may update.
    pub update_key: Option<String>,
    /// Whether the sidecar takes addresses alone and cannot change them later, as bindcar: the key is left out, and
    /// stands in the configuration of the server.
    pub takes_addresses: bool,
    /// The policy by which the server signs zones that say `default`, where that is not the one that `named` has
    /// itself.
    pub default_policy: Option<String>,
}

impl ZonePeers {
    /// Peers as the sidecar takes them.
    fn written(&self, peers: &[String]) -> Vec<String> {
        let written = |peer: &String| match peer.split_once(' ') {
            Some((address, _key)) if self.takes_addresses => address.to_owned(),
            _ => peer.clone(),
        };
        peers.iter().map(written).collect()
    }
}

/// The zones that a pod shall have, with their newest serials; nothing while that is not known.
pub type ZonesOfPod<'a> = &'a (dyn Fn() -> Option<BTreeMap<Name, Serial>> + Send + Sync);

/// What became of the zones of a pod in this process, whoever had it serve them. Clones share it.
#[derive(Clone, Default)]
pub struct PodZones(Arc<Mutex<Expected>>);

/// What a sidecar shall have, and whether it was told.
#[derive(Default)]
struct Expected {
    /// Zones that were made on the pod, and that were taken from it.
    changed: BTreeMap<Name, bool>,
    /// Whether the sidecar knows what it shall have.
    is_told: bool,
}

impl PodZones {
    fn lock(&self) -> MutexGuard<'_, Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes and removes zones through a sidecar.
pub struct SidecarHost {
    client: SidecarClient,
    /// The same sidecar, asked how it is: an answer that comes late is none.
    probe: SidecarClient,
    peers: ZonePeers,
    zones: PodZones,
    /// Whether the zones that it had before know the present peers.
    has_peers: AtomicBool,
}

impl SidecarHost {
    /// The zones of a pod with these peers; `probe` is the client that is in a hurry.
    #[must_use]
    pub fn new(
        client: SidecarClient,
        probe: SidecarClient,
        peers: ZonePeers,
        zones: PodZones,
    ) -> Self {
        Self {
            client,
            probe,
            peers,
            zones,
            has_peers: AtomicBool::new(false),
        }
    }

    /// The keys that the server signs zones with.
    ///
    /// # Errors
    /// If they cannot be had.
    pub async fn signing_keys(&self) -> Result<SigningKeyFiles, SidecarFault> {
        self.client.signing_keys().await
    }

    /// Whether the sidecar answers as it should, and which keys its server has, where it tells them. What it was not told yet, it is told now: who else serves its zones, and which zones it shall
    /// have.
    ///
    /// # Errors
    /// Why it does not.
    ///
    /// # Cancellation
    /// If dropped, it may have been told.
    pub async fn tend(&self, awaited: ZonesOfPod<'_>) -> Result<NamedStatus, SidecarFault> {
        let status = self.probe.server_status().await?;
        if !self.has_peers.load(Ordering::Relaxed) {
            self.tell_peers().await?;
            self.has_peers.store(true, Ordering::Relaxed);
        }
        // A pod that came back with an empty folder does not know any more what it shall have.
        let is_told = self.zones.lock().is_told;
        if !is_told || self.is_waiting().await? {
            self.tell_expected(awaited).await?;
        }
        Ok(status)
    }

    /// Whether the sidecar waits to be told which zones there shall be.
    async fn is_waiting(&self) -> Result<bool, SidecarFault> {
        match self.probe.expected().await {
            Ok(_) => Ok(false),
            // Ours does not know them; bindcar does not know what that is, and is not told again and again.
            Err(fault) => match fault.code() {
                Some(404) => Ok(fault.to_string().contains("expected zones")),
                Some(400..=499) => Ok(false),
                _ => Err(fault),
            },
        }
    }

    async fn tell_peers(&self) -> Result<(), SidecarFault> {
        if self.peers.takes_addresses {
            return Ok(());
        }
        let patch = ZonePatch {
            primaries: self.peers.primaries.clone(),
            also_notify: match self.peers.primaries {
                Some(_) => None,
                None => Some(self.peers.notify.clone()),
            },
            // Zones of older versions name a key.
            allow_update: match (&self.peers.primaries, &self.peers.update_key) {
                (None, None) => Some(Vec::new()),
                (Some(_), _) | (None, Some(_)) => None,
            },
            ..ZonePatch::default()
        };
        for zone in self.client.zones().await?.zones {
            match self.client.modify_zone(&zone, &patch).await {
                // Zones that somebody else configured, or that just went, are not ours to change.
                Ok(_) => {}
                Err(fault) if matches!(fault.code(), Some(400..=499)) => {
                    tracing::debug!(zone, %fault, "a zone keeps the peers that it has");
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    async fn tell_expected(&self, awaited: ZonesOfPod<'_>) -> Result<(), SidecarFault> {
        let Some(served) = awaited() else {
            return Ok(());
        };
        let served = served.into_iter();
        let mut zones: BTreeMap<Name, Option<Serial>> =
            served.map(|(zone, serial)| (zone, Some(serial))).collect();
        let changed = self.zones.lock().changed.clone();
        for (zone, is_there) in &changed {
            if *is_there {
                zones.entry(zone.clone()).or_insert(None);
            } else {
                zones.remove(zone);
            }
        }
        let zones = zones.into_iter().map(|(name, serial)| ExpectedZone {
            name: name.to_string(),
            serial: serial.map(|serial| serial.0),
        });
        let list = ExpectedZones {
            zones: zones.collect(),
        };
        match self.client.put_expected(&list).await {
            // bindcar does not know what that is.
            Err(fault) if !matches!(fault.code(), Some(404 | 405)) => return Err(fault),
            Ok(_) | Err(_) => {}
        }
        let mut expected = self.zones.lock();
        expected.is_told = expected.changed == changed;
        Ok(())
    }

    /// Notes that there shall be a zone, or not. The sidecar is told when it is looked after the next time: of many
    /// zones at one go, and with their serials.
    fn expect(&self, zone: &Name, is_there: bool) {
        let mut expected = self.zones.lock();
        let before = expected.changed.insert(zone.clone(), is_there);
        expected.is_told &= before == Some(is_there);
    }

    async fn add_zone(&self, zone: &Name, records: &[Record]) -> Result<(), Fault> {
        let request = self.request(zone, records)?;
        match self.client.create_zone(&request).await {
            Ok(_) => {}
            Err(fault) if fault.code() == Some(409) => self.load(zone, &request).await?,
            Err(fault) => return Err(fault.fault()),
        }
        self.expect(zone, true);
        Ok(())
    }

    /// A zone that is there and cannot be loaded is made anew.
    async fn load(&self, zone: &Name, request: &NewZone) -> Result<(), Fault> {
        let name = zone.to_string();
        let is_loaded = async || {
            let status = self.client.zone_status(&name).await;
            status.is_ok_and(|status| status.loaded != Some(false))
        };
        if self.peers.primaries.is_some() || is_loaded().await {
            return Ok(());
        }
        let _ = self.client.reload_zone(&name).await;
        if is_loaded().await {
            return Ok(());
        }
        tracing::error!(%zone, address = self.client.address(), "a zone cannot be loaded and is made anew");
        self.client
            .delete_zone(&name)
            .await
            .map_err(|fault| fault.fault())?;
        let made = self.client.create_zone(request).await;
        made.map(|_| ()).map_err(|fault| fault.fault())
    }

    async fn sign_zone(&self, zone: &Name, policy: &SigningPolicy) -> Result<SigningAnswer, Fault> {
        let policy = match policy {
            SigningPolicy::Unsaid => return Ok(SigningAnswer::Done),
            SigningPolicy::Unsigned => INSECURE,
            SigningPolicy::Named(policy) => self.policy(policy),
        };
        if self.peers.primaries.is_some() {
            return Ok(SigningAnswer::Unsupported);
        }
        let name = zone.to_string();
        let status = self.client.zone_status(&name).await;
        let status = status.map_err(|fault| fault.fault())?;
        let present = status.dnssec.and_then(|state| state.policy);
        if present.as_deref() == Some(policy) {
            return Ok(SigningAnswer::Done);
        }
        let patch = ZonePatch {
            dnssec_policy: Some(policy.to_owned()),
            // Signed in place, an update and its signatures are one change with one serial.
            inline_signing: Some(false),
            ..ZonePatch::default()
        };
        match self.client.modify_zone(&name, &patch).await {
            Ok(_) => Ok(SigningAnswer::Done),
            // named has the zone, so what it refuses is the policy.
            Err(fault) if fault.code() == Some(400) => {
                let details = fault.details().map(str::to_owned);
                let words = details.unwrap_or_else(|| fault.to_string());
                Ok(SigningAnswer::NoPolicy(words))
            }
            Err(fault) => Err(fault.fault()),
        }
    }

    /// How the server calls a policy.
    fn policy<'a>(&'a self, policy: &'a str) -> &'a str {
        let own = self.peers.default_policy.as_deref();
        own.filter(|_| policy == DEFAULT).unwrap_or(policy)
    }

    fn request(&self, zone: &Name, records: &[Record]) -> Result<NewZone, Fault> {
        let soa = records.iter().find_map(|record| {
            let RecordData::Soa(soa) = &record.data else {
                return None;
            };
            Some((record.ttl, soa))
        });
        let is_secondary = self.peers.primaries.is_some();
        let (ttl, soa) = match soa {
            Some((ttl, soa)) => (
                ttl,
                NewSoa {
                    primary_ns: soa.mname.to_string(),
                    admin_email: soa.rname.to_string(),
                    serial: Some(soa.serial),
                    refresh: soa.refresh,
                    retry: soa.retry,
                    expire: soa.expire,
                    negative_ttl: soa.minimum,
                },
            ),
            None if is_secondary => (0, no_soa(zone)),
            None => {
                let message = format!("zone {zone} has no SOA to begin with");
                return Err(Fault::new(FaultKind::Invalid, message));
            }
        };
        let name_servers = records.iter().filter_map(|record| {
            let RecordData::Ns(host) = &record.data else {
                return None;
            };
            (record.name == *zone).then(|| host.to_string())
        });
        Ok(NewZone {
            zone_name: zone.to_string(),
            zone_type: if is_secondary { "secondary" } else { "primary" }.to_owned(),
            zone_config: NewZoneConfig {
                ttl,
                soa,
                name_servers: name_servers.collect(),
                name_server_ips: BTreeMap::new(),
                records: if is_secondary {
                    Vec::new()
                } else {
                    records
                        .iter()
                        .filter_map(|one| written(zone, one))
                        .collect()
                },
                also_notify: (!is_secondary && !self.peers.notify.is_empty())
                    .then(|| self.peers.written(&self.peers.notify)),
                allow_transfer: None,
                primaries: self
                    .peers
                    .primaries
                    .as_ref()
                    .map(|primaries| self.peers.written(primaries)),
                dnssec_policy: None,
                inline_signing: None,
            },
            update_key_name: self.peers.update_key.clone().filter(|_| !is_secondary),
        })
    }
}

/// A secondary has its SOA from its primaries; a request has one all the same.
fn no_soa(zone: &Name) -> NewSoa {
    NewSoa {
        primary_ns: zone.to_string(),
        admin_email: zone.to_string(),
        serial: Some(0),
        refresh: 3600,
        retry: 600,
        expire: 604_800,
        negative_ttl: 3600,
    }
}

/// A record in the words of a request. What a request has no words for, and what stands in it already, is left
/// out: it is written by an update.
fn written(zone: &Name, record: &Record) -> Option<NewRecord> {
    let is_apex = record.name == *zone;
    if is_apex && matches!(record.data, RecordData::Soa(_) | RecordData::Ns(_)) {
        return None;
    }
    let text = record.to_string();
    let mut words = text.splitn(5, ' ');
    let (name, _, _, rtype, value) = (
        words.next()?,
        words.next()?,
        words.next()?,
        words.next()?,
        words.next()?,
    );
    content::rtype(rtype).ok()?;
    let suffix = format!(".{zone}");
    Some(NewRecord {
        name: if is_apex {
            "@".to_owned()
        } else {
            name.strip_suffix(&suffix)?.to_owned()
        },
        rtype: rtype.to_owned(),
        value: value.to_owned(),
        ttl: Some(record.ttl),
        priority: None,
    })
}

impl ZoneHost for SidecarHost {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.add_zone(zone, records))
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            match self.client.retransfer_zone(&zone.to_string()).await {
                // What it does not have yet needs no word.
                Err(fault) if fault.reason() != Reason::ZoneNotFound => Err(fault.fault()),
                Ok(_) | Err(_) => Ok(()),
            }
        })
    }

    fn sign<'a>(
        &'a self,
        zone: &'a Name,
        policy: &'a SigningPolicy,
    ) -> BoxFuture<'a, Result<SigningAnswer, Fault>> {
        Box::pin(self.sign_zone(zone, policy))
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.expect(zone, false);
            match self.client.delete_zone(&zone.to_string()).await {
                Err(fault) if fault.code() != Some(404) => Err(fault.fault()),
                Ok(_) | Err(_) => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let zone = Name::parse("example.com").expect("a fixture is a name");
        let record: Record = line.parse().expect("a fixture is a record");
        let one = written(&zone, &record)?;
        Some(format!("{} {} {}", one.name, one.rtype, one.value))
    }

    #[test]
    fn peers_have_no_key_where_a_sidecar_takes_addresses_alone() {
        let given = [
            "192.0.2.1:5353 key k".to_owned(),
            "192.0.2.2:5353".to_owned(),
        ];
        let check = |takes_addresses: bool| {
            let peers = ZonePeers {
                takes_addresses,
                ..ZonePeers::default()
            };
            peers.written(&given)
        };
        assert_eq!(check(true), ["192.0.2.1:5353", "192.0.2.2:5353"]);
        assert_eq!(check(false), given);
    }

    #[test]
    fn records_are_written_as_the_sidecar_reads_them() {
        let check = |line: &str, expected: &str| assert_eq!(shown(line).as_deref(), Some(expected));
        check("www.example.com. 60 IN A 192.0.2.1", "www A 192.0.2.1");
        check(
            "example.com. 60 IN MX 10 mail.example.com.",
            "@ MX 10 mail.example.com.",
        );
        check(
            "a.b.example.com. 60 IN TXT \"two words\" \"x\"",
            "a.b TXT \"two words\" \"x\"",
        );
        assert_eq!(shown("example.com. 60 IN NS ns1.example.com."), None);
        check(
            "sub.example.com. 60 IN NS ns1.example.net.",
            "sub NS ns1.example.net.",
        );
    }
}
