//! Reading record sets back: pipelined queries, and what an answer says about one exact set.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::zones::ReadBack;
use bindery_core::{Fault, Name, RecordData, RecordKey, RecordSet, RecordType};
use bindery_engine::Fence;

use super::{Server, Transaction};
use crate::link::Ticket;
use crate::update;
use crate::wire::{Message, WireRecord, class, rcode};

/// Queries in flight per call. A hundred small messages fill about one TCP window on a LAN, so
/// more would wait in buffers, not at the server.
const WINDOW: usize = 100;

/// What an answer says about one set.
enum Seen {
    /// The set is not there.
    Nothing,
    /// The set as it was answered; a wildcard may have lent it.
    Set(RecordSet),
    /// The name lies below a delegation, where queries are not answered from the zone.
    Hidden,
}

impl Server {
    /// Reads `keys` back in their order, with the serial the zone had no later than that.
    ///
    /// A set that a wildcard answers for is not there; neither is a set beside a CNAME. The NS
    /// set of a delegation is read from the referral, and what lies below it from a transfer.
    pub(super) async fn fetch_read_back(
        &self,
        zone: &Name,
        keys: &[RecordKey],
    ) -> Result<ReadBack, Fault> {
        let wildcards = wildcards(zone, keys);
        let soa = RecordKey::new(zone.clone(), RecordType::Soa);
        let asked: Vec<&RecordKey> = std::iter::once(&soa)
            .chain(keys)
            .chain(&wildcards)
            .collect();
        let answers = self.fetch_answers(&asked).await?;
        let (serial, answers) = match answers.split_first() {
            Some((soa, rest)) => (self.serial_in(zone, soa)?, rest),
            None => return Err(self.malformed()),
        };
        let (of_keys, of_wildcards) = answers.split_at(keys.len());
        let mut seen = Vec::with_capacity(keys.len());
        for (key, answer) in keys.iter().zip(of_keys) {
            seen.push(self.seen(zone, key, answer)?);
        }
        let mut lent = BTreeMap::new();
        for (key, answer) in wildcards.iter().zip(of_wildcards) {
            if let Seen::Set(set) = self.seen(zone, key, answer)? {
                lent.insert(key.clone(), set);
            }
        }
        self.settle_wildcards(zone, keys, &mut seen, &lent).await?;
        let sets = self.settle_hidden(zone, keys, seen).await?;
        Ok(ReadBack { serial, sets })
    }

    /// One answer per key, in their order.
    async fn fetch_answers(&self, keys: &[&RecordKey]) -> Result<Vec<Message>, Fault> {
        let mut answers = Vec::with_capacity(keys.len());
        for window in keys.chunks(WINDOW) {
            let build = |id, at: usize| Self::query(&window[at].name, window[at].rtype, id);
            answers.extend(self.pipeline(window.len(), build).await?);
        }
        Ok(answers)
    }

    /// Sends `count` messages at once and returns their answers in order; asks again once if
    /// the kept connection had been closed.
    async fn pipeline(
        &self,
        count: usize,
        build: impl Fn(u16, usize) -> Message,
    ) -> Result<Vec<Message>, Fault> {
        match self.pipeline_once(count, &build).await {
            Err(fault) if self.is_gone(&fault).await => self.pipeline_once(count, &build).await,
            answers => answers,
        }
    }

    async fn pipeline_once(
        &self,
        count: usize,
        build: impl Fn(u16, usize) -> Message,
    ) -> Result<Vec<Message>, Fault> {
        let link = self.link().await?;
        let mut bytes = Vec::new();
        let mut waiting: Vec<(Ticket<'_>, Option<Transaction>)> = Vec::with_capacity(count);
        for at in 0..count {
            let ticket = link.enlist().map_err(|down| self.down(&down))?;
            let (message, transaction) = self.signed(&build(ticket.id, at))?;
            bytes.extend_from_slice(&message);
            waiting.push((ticket, transaction));
        }
        self.send(&link, &bytes, &Fence::none()).await?;
        let mut answers = Vec::with_capacity(count);
        for (ticket, transaction) in waiting {
            let answer = self.answer(&link, ticket).await?;
            answers.push(self.verified(answer, transaction.as_ref())?);
        }
        Ok(answers)
    }

    fn seen(&self, zone: &Name, key: &RecordKey, answer: &Message) -> Result<Seen, Fault> {
        if !matches!(answer.head.rcode, rcode::NOERROR | rcode::NXDOMAIN) {
            return Err(self.query_refused(zone, answer.head.rcode));
        }
        if let Some(set) = self.set_in(&answer.answer, key)? {
            // A referral has its servers elsewhere: this is the answer of the zone below the cut, which
            // is on the same server.
            let is_below = key.rtype == RecordType::Ns && key.name != *zone;
            return Ok(if is_below {
                Seen::Hidden
            } else {
                Seen::Set(set)
            });
        }
        if answer.head.authoritative {
            return Ok(Seen::Nothing);
        }
        let cut = answer
            .authority
            .iter()
            .find(|row| row.rtype == RecordType::Ns.code() && key.name.is_in(&row.name));
        match cut {
            // A referral to the zone itself or above it: the server does not own the zone.
            None => Err(self.no_such_zone(zone)),
            Some(row) if row.name == *zone || !row.name.is_in(zone) => Err(self.no_such_zone(zone)),
            Some(row) if row.name == key.name && key.rtype == RecordType::Ns => Ok(self
                .set_in(&answer.authority, key)?
                .map_or(Seen::Nothing, Seen::Set)),
            Some(_) => Ok(self
                .set_in(&answer.additional, key)?
                .map_or(Seen::Hidden, Seen::Set)),
        }
    }

    fn set_in(&self, rows: &[WireRecord], key: &RecordKey) -> Result<Option<RecordSet>, Fault> {
        let mut found: Option<(u32, Vec<RecordData>)> = None;
        for row in rows {
            if row.name == key.name && row.rtype == key.rtype.code() && row.class == class::IN {
                let data = row.data().map_err(|_| self.malformed())?;
                found
                    .get_or_insert_with(|| (row.ttl, Vec::new()))
                    .1
                    .push(data);
            }
        }
        Ok(found.map(|(ttl, data)| RecordSet::new(ttl, data)))
    }

    /// Takes back what a wildcard lent: where a wildcard has the same set, only the zone's own
    /// word on whether the set exists tells them apart. That word is the answer to an update
    /// with this one prerequisite and no change.
    async fn settle_wildcards(
        &self,
        zone: &Name,
        keys: &[RecordKey],
        seen: &mut [Seen],
        lent: &BTreeMap<RecordKey, RecordSet>,
    ) -> Result<(), Fault> {
        let mut doubtful = Vec::new();
        for (at, (key, what)) in keys.iter().zip(seen.iter()).enumerate() {
            let Seen::Set(set) = what else { continue };
            let same = |wildcard: Name| {
                lent.get(&RecordKey::new(wildcard, key.rtype))
                    .is_some_and(|from| from == set)
            };
            if wildcards_over(zone, &key.name).any(same) {
                doubtful.push(at);
            }
        }
        for window in doubtful.chunks(WINDOW) {
            let build = |id, at: usize| {
                let key = &keys[window[at]];
                update::existence(id, zone, &key.name, key.rtype)
            };
            let answers = self.pipeline(window.len(), build).await?;
            for (at, answer) in window.iter().zip(answers) {
                match answer.head.rcode {
                    rcode::NOERROR => {}
                    rcode::NXRRSET => seen[*at] = Seen::Nothing,
                    code => return Err(self.update_refused(zone, code)),
                }
            }
        }
        Ok(())
    }

    async fn settle_hidden(
        &self,
        zone: &Name,
        keys: &[RecordKey],
        seen: Vec<Seen>,
    ) -> Result<Vec<Option<RecordSet>>, Fault> {
        let content = if seen.iter().any(|what| matches!(what, Seen::Hidden)) {
            Some(self.fetch_transfer(zone).await?)
        } else {
            None
        };
        Ok(keys
            .iter()
            .zip(seen)
            .map(|(key, what)| match what {
                Seen::Nothing => None,
                Seen::Set(set) => Some(set),
                Seen::Hidden => content
                    .as_ref()
                    .and_then(|zone| zone.sets.get(key).cloned()),
            })
            .collect())
    }
}

/// The wildcards that could answer for some of `keys`, each once.
fn wildcards(zone: &Name, keys: &[RecordKey]) -> Vec<RecordKey> {
    let candidates: BTreeSet<RecordKey> = keys
        .iter()
        .flat_map(|key| wildcards_over(zone, &key.name).map(|name| RecordKey::new(name, key.rtype)))
        .collect();
    candidates.into_iter().collect()
}

/// `*.PARENT` for each parent of `name` in the zone.
fn wildcards_over<'a>(zone: &'a Name, name: &Name) -> impl Iterator<Item = Name> + use<'a> {
    let own = name.clone();
    std::iter::successors(name.parent(), Name::parent)
        .take_while(move |parent| parent.is_in(zone))
        .filter_map(|parent| {
            let mut wire = vec![1, b'*'];
            wire.extend_from_slice(parent.as_wire());
            Name::from_wire(&wire).ok()
        })
        .filter(move |wildcard| *wildcard != own)
}
