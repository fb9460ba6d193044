//! What concerns all servers of a zone: creating it, deleting it, and keeping the others like the leader.

use std::collections::BTreeMap;

use bindery_core::{
    Change, Expect, Fault, FaultKind, Name, Record, RecordData, RecordKey, RecordType, Serial,
    delta::{Delta, Difference},
    fleet::{Known, Past},
    zones::{ZoneContent, restored},
};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{
    ports::NameServer,
    servers::{ServerHandle, Servers},
};

/// Bytes of changes in one message, names uncompressed; the rest is for signature and SOA.
const MESSAGE_LEN_MAX: usize = 60_000;

/// A leader and a server that follows it.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) leader: &'a ServerHandle,
    pub(crate) follower: &'a ServerHandle,
    /// The servers beside the leader that answer.
    pub(crate) others: &'a [ServerHandle],
    /// Cancelled when another server leads: what was read of this one must not be written any more.
    pub(crate) turn: &'a CancellationToken,
}

/// Creates a zone on the leader with these records, and with what other servers still have of it.
pub(crate) async fn open(
    leader: &ServerHandle,
    others: &[ServerHandle],
    zone: &Name,
    records: Vec<Record>,
) -> Result<ZoneContent, Fault> {
    let Some(host) = &leader.host else {
        let message = "no server is managed here that could serve this zone";
        return Err(Fault::new(FaultKind::Missing, message));
    };
    let newest = newest(others, zone).await;
    let rescued = match newest {
        Some((_, follower)) => follower.server.transfer(zone).await.ok(),
        None => None,
    };
    // Where nobody else has a copy, what the server's own files still hold is better than nothing.
    if rescued.is_some() || !host.mend(zone).await? {
        let records = restored(records, rescued, newest.map(|(serial, _)| serial));
        host.create(zone, &records).await?;
    }
    leader.server.transfer(zone).await
}

/// The newest version of a zone that another server has, if it is newer than this.
///
/// # Errors
/// A server that may have it did not answer, so that it is not known.
pub(crate) async fn rescue(
    others: &[ServerHandle],
    zone: &Name,
    than: Serial,
) -> Result<Option<ZoneContent>, Fault> {
    let answers = serials(others, zone).await;
    let silence = |answer: &Result<_, Fault>| {
        let fault = answer.as_ref().err();
        fault.filter(|fault| fault.kind.is_silence()).cloned()
    };
    if let Some(fault) = answers.iter().find_map(silence) {
        return Err(fault);
    }
    let newest = answers.into_iter().flatten().reduce(newer);
    let Some((_, follower)) = newest.filter(|(serial, _)| serial.newer_than(than)) else {
        return Ok(None);
    };
    match follower.server.transfer(zone).await {
        Err(fault) if fault.kind.is_silence() => Err(fault),
        transferred => Ok(transferred.ok()),
    }
}

/// The server beside the leader that has the newest serial of a zone. All are asked at once, so one that is
/// silent holds the others up no longer than itself.
async fn newest<'a>(others: &'a [ServerHandle], zone: &Name) -> Option<At<'a>> {
    let answers = serials(others, zone).await;
    answers.into_iter().flatten().reduce(newer)
}

/// A serial, and the server that has it.
type At<'a> = (Serial, &'a ServerHandle);

async fn serials<'a>(others: &'a [ServerHandle], zone: &Name) -> Vec<Result<At<'a>, Fault>> {
    let ask = |follower: &'a ServerHandle| async move {
        let serial = follower.server.serial(zone).await;
        serial.map(|serial| (serial, follower))
    };
    join_all(others.iter().map(ask)).await
}

fn newer<'a>(one: At<'a>, other: At<'a>) -> At<'a> {
    if other.0.newer_than(one.0) {
        other
    } else {
        one
    }
}

/// Deletes a zone from every server that Bindery manages. One that fails keeps none of the others from it.
///
/// # Errors
/// That a server is silent only where every server that answers has let the zone go.
pub(crate) async fn close(servers: &Servers, zone: &Name) -> Result<(), Fault> {
    let hosts = servers.iter().filter_map(|server| server.host.as_ref());
    let answers = join_all(hosts.map(|host| host.delete(zone))).await;
    let faults = answers.into_iter().filter_map(Result::err);
    let first = faults.min_by_key(|fault| fault.kind.is_silence());
    first.map_or(Ok(()), Err)
}

/// The serial of a secondary, which is given the zone if it does not have it.
pub(crate) async fn probe_follower(pair: Pair<'_>, zone: &Name) -> Result<Serial, Fault> {
    let Pair {
        leader, follower, ..
    } = pair;
    match (follower.server.serial(zone).await, &follower.host) {
        (Err(fault), Some(host)) if fault.kind == FaultKind::Missing => {
            // Handed over, it need not be fetched; without, the secondary fetches it when it can.
            let content = leader.server.transfer(zone).await.ok();
            let serial = content.as_ref().map(|content| content.serial);
            pair.check_newest(zone, serial).await?;
            let content = content.map_or_else(Vec::new, |content| handed_over(zone, content));
            pair.check_turn()?;
            host.create(zone, &content).await?;
            follower.server.serial(zone).await
        }
        (serial, _) => serial,
    }
}

/// What a secondary is handed of a zone: all of it, or nothing where the zone is signed. Signatures are the
/// leader's own and not ours to copy, and without them resolvers would take the zone for a forgery.
fn handed_over(zone: &Name, mut content: ZoneContent) -> Vec<Record> {
    if content.sift(zone).has_keys() {
        return Vec::new();
    }
    content.records().collect()
}

/// The serial of a secondary that is told to look for news first.
pub(crate) async fn refresh_follower(pair: Pair<'_>, zone: &Name) -> Result<Serial, Fault> {
    if let Some(host) = &pair.follower.host {
        host.refresh(zone).await?;
    }
    probe_follower(pair, zone).await
}

/// What became of a primary that was to be given what the leader has.
pub(crate) enum Synced {
    /// It has this serial now.
    At(Serial),
    /// Nothing was written: at this serial it has records that the leader does not, maybe of others.
    Differs(Serial, Vec<Record>),
}

/// Brings another primary to what the leader has.
///
/// It ends with the leader's serial, unless somebody wrote there meanwhile; then the serials differ and
/// the next round compares everything.
pub(crate) async fn sync(pair: Pair<'_>, zone: &Name, known: Known) -> Result<Synced, Fault> {
    let Pair {
        leader, follower, ..
    } = pair;
    let server = &*follower.server;
    let from = match (server.soa(zone).await, &follower.host) {
        (Ok(soa), _) => soa,
        // One that cannot be loaded is rebuilt as well.
        (Err(fault), Some(host)) if fault.kind.is_nothing_there() => {
            let content = leader.server.transfer(zone).await?.sifted(zone);
            pair.check_newest(zone, Some(content.serial)).await?;
            pair.check_turn()?;
            let records: Vec<Record> = content.records().collect();
            host.create(zone, &records).await?;
            return server.serial(zone).await.map(Synced::At);
        }
        (Err(fault), _) => return Err(fault),
    };
    let serial = serial_of(&from);
    // A serial that we did not see ourselves may be one of the leader's by chance.
    if known.same != Some(serial) {
        return compare(pair, zone, known).await;
    }
    match leader.server.changes_since(zone, serial).await? {
        Delta::UpToDate(_) => Ok(Synced::At(serial)),
        // A server that signs the zone makes its own signatures.
        Delta::Difference(steps) => {
            pair.check_turn()?;
            mirror(server, zone, &from, steps.sifted())
                .await
                .map(Synced::At)
        }
        Delta::Whole(_) => compare(pair, zone, known).await,
    }
}

/// Gives a primary what the leader has, whatever it has now, unless it may have something of others.
async fn compare(pair: Pair<'_>, zone: &Name, known: Known) -> Result<Synced, Fault> {
    let Pair {
        leader, follower, ..
    } = pair;
    let server = &*follower.server;
    let (content, standing) = (
        leader.server.transfer(zone).await?.sifted(zone),
        server.transfer(zone).await?.sifted(zone),
    );
    let soa = Difference::between(zone, &content, &standing).map(|steps| steps.to);
    let steps = Difference::between(zone, &standing, &content);
    let (Some(from), Some(steps)) = (soa, steps) else {
        return Ok(Synced::At(standing.serial));
    };
    let extra = extra(&steps);
    if !extra.is_empty() && known.sifted != Some(standing.serial) {
        let written = match known.past {
            Past::Led(serial) => written_since(server, zone, serial, extra.clone()).await?,
            Past::Unknown => extra.clone(),
            Past::Followed if wrote(known, &standing, &content) => extra.clone(),
            Past::Followed => Vec::new(),
        };
        if !written.is_empty() {
            return Ok(Synced::Differs(standing.serial, written));
        }
        let server = &*follower.info.address;
        let (first, count) = (extra.first().map(ToString::to_string), extra.len());
        tracing::info!(%zone, server, count, first, "an older version of a zone is replaced");
    }
    pair.check_turn()?;
    write_all(server, zone, (&from, &standing, &content), steps)
        .await
        .map(Synced::At)
}

/// Whether somebody wrote on a follower. An older version than we know has nothing new in it.
fn wrote(known: Known, standing: &ZoneContent, content: &ZoneContent) -> bool {
    match known.same {
        Some(same) => standing.serial.newer_than(same),
        None => !content.serial.newer_than(standing.serial),
    }
}

/// Which of these records a former leader was given after this serial, at which everything it had is
/// known. Where it cannot tell, it may be all of them.
async fn written_since(
    server: &dyn NameServer,
    zone: &Name,
    serial: Serial,
    mut records: Vec<Record>,
) -> Result<Vec<Record>, Fault> {
    match server.changes_since(zone, serial).await? {
        Delta::UpToDate(_) => Ok(Vec::new()),
        Delta::Whole(_) => Ok(records),
        Delta::Difference(difference) => {
            let added = difference.added.iter().chain(&difference.returned);
            let added: Vec<&Record> = added.collect();
            records.retain(|record| {
                let is_same = |one: &&Record| one.name == record.name && one.data == record.data;
                added.iter().any(is_same)
            });
            Ok(records)
        }
    }
}

impl Pair<'_> {
    /// Fails where another server leads by now.
    fn check_turn(&self) -> Result<(), Fault> {
        if self.turn.is_cancelled() {
            let message = "another server leads the zone by now";
            return Err(Fault::new(FaultKind::Lost, message));
        }
        Ok(())
    }

    /// Fails where another server is ahead of the serial that a follower without the zone would be given. The
    /// follower may have been as far, and what it served must not go back; the leader goes beyond first.
    async fn check_newest(&self, zone: &Name, given: Option<Serial>) -> Result<(), Fault> {
        let newest = newest(self.others, zone).await;
        let (Some(given), Some((serial, other))) = (given, newest) else {
            return Ok(());
        };
        if !serial.newer_than(given) {
            return Ok(());
        }
        let ahead = &other.info.address;
        let message = format!(
            "name server {ahead} is at serial {serial}, ahead of {given} on the first server, which \
             goes beyond it before this server is given the zone"
        );
        Err(Fault::new(FaultKind::Behind, message))
    }
}

/// The records that go without another of their set coming instead.
fn extra(steps: &Difference) -> Vec<Record> {
    let came = |gone: &&Record| {
        let same = |added: &Record| added.name == gone.name && added.data == gone.data;
        !steps.added.iter().any(same)
    };
    steps.removed.iter().filter(came).cloned().collect()
}

async fn write_all(
    server: &dyn NameServer,
    zone: &Name,
    (from, standing, content): (&Record, &ZoneContent, &ZoneContent),
    steps: Difference,
) -> Result<Serial, Fault> {
    if content.serial.newer_than(standing.serial) {
        return mirror(server, zone, from, steps).await;
    }
    // The same serial by chance: with its own differences the server goes ahead, and the leader goes
    // beyond it.
    if content.serial == standing.serial {
        for batch in split(stepwise(steps.removed, steps.added)) {
            server.update(zone, &batch).await?;
        }
    }
    server.serial(zone).await
}

async fn mirror(
    server: &dyn NameServer,
    zone: &Name,
    from: &Record,
    steps: Difference,
) -> Result<Serial, Fault> {
    match server.mirror(zone, from, &steps).await {
        Ok(()) => Ok(serial_of(&steps.to)),
        Err(fault) if fault.kind == FaultKind::TooLarge => {
            mirror_in_parts(server, zone, steps).await?;
            server.serial(zone).await
        }
        Err(fault) => Err(fault),
    }
}

/// Differences that do not fit into one message: the name server serves what lies between for a moment.
async fn mirror_in_parts(
    server: &dyn NameServer,
    zone: &Name,
    steps: Difference,
) -> Result<(), Fault> {
    let Difference {
        to, removed, added, ..
    } = steps;
    for batch in split(stepwise(removed, added)) {
        server.update(zone, &batch).await?;
    }
    server.update(zone, &[renewal(&to)]).await
}

pub(crate) fn serial_of(soa: &Record) -> Serial {
    if let RecordData::Soa(soa) = &soa.data {
        Serial(soa.serial)
    } else {
        Serial(0)
    }
}

/// The change that gives a zone this SOA; a server ignores one whose serial is not newer.
pub(crate) fn renewal(soa: &Record) -> Change {
    Change {
        key: RecordKey::new(soa.name.clone(), RecordType::Soa),
        expect: Expect::Anything,
        remove: Vec::new(),
        add: vec![soa.data.clone()],
        ttl: soa.ttl,
    }
}

/// Single records that went and came, as changes of their sets.
fn stepwise(removed: Vec<Record>, added: Vec<Record>) -> Vec<Change> {
    let mut changes: BTreeMap<RecordKey, Change> = BTreeMap::new();
    let mut of = |record: Record, came: bool| {
        let key = RecordKey::new(record.name, record.data.rtype());
        let change = changes.entry(key.clone()).or_insert_with(|| Change {
            key,
            expect: Expect::Anything,
            remove: Vec::new(),
            add: Vec::new(),
            ttl: record.ttl,
        });
        if came {
            change.ttl = record.ttl;
            change.add.push(record.data);
        } else {
            change.remove.push(record.data);
        }
    };
    for record in removed {
        of(record, false);
    }
    for record in added {
        of(record, true);
    }
    changes.into_values().collect()
}

/// Changes in as many messages as they need; the sets of one name stay together.
fn split(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut batches: Vec<Vec<Change>> = Vec::new();
    let mut len = 0;
    for change in changes {
        len += change.wire_len_max();
        match batches.last_mut() {
            Some(batch)
                if len <= MESSAGE_LEN_MAX
                    || batch
                        .last()
                        .is_some_and(|last| last.key.name == change.key.name) =>
            {
                batch.push(change);
            }
            Some(_) | None => {
                len = change.wire_len_max();
                batches.push(vec![change]);
            }
        }
    }
    batches
}
