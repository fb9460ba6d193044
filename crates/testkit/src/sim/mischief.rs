//! What others do in a run: servers that lose data, strangers who write past Bindery, a second process.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bindery_engine::{Engine, Servers};
use bindery_kube::{Controllers, Management, Replica, Settings};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Away, SECONDARY, SimulatedClock, World, list, name};
use crate::{
    nameserver::{FakeNameServer, Meddling, is_strange},
    oracle::expected,
    user::{User, ZONES},
    weather::Random,
};

/// How long it may take until what strangers wrote over is put right: they are answered once in a minute.
const STRANGERS_MAX: Duration = Duration::from_mins(5);

/// Labels at which strangers write nothing, because what stands there is foreign from the beginning.
const SPARED: [&[u8]; 4] = [b"taken", b"mail", b"sub", b"ns1"];

impl World {
    /// In some runs servers lose data; in the others, others write into the zones, and what they wrote goes
    /// by leave of the zone's author alone.
    pub(super) async fn damage_or_visit(
        &mut self,
        user: &User,
        seed: u64,
        random: &mut Random,
    ) -> Result<(), String> {
        if !seed.is_multiple_of(4) {
            self.damage(random);
            return Ok(());
        }
        let zone = ZONES[random.below(ZONES.len())];
        let steady = user.is_steady(zone).await;
        let steady = steady.map_err(|error| format!("looking at {zone}: {error}"))?;
        let line = format!("theirs.{zone}. 60 IN A 198.51.100.77");
        // Whoever writes on a server that another one leads is heard when that is looked at. On one that is
        // taken back into service and has an older version yet, nobody can tell what is written from what
        // was withdrawn meanwhile.
        let is_heard = self.is_complete() && self.is_in_line();
        if let (true, true, Ok(record)) = (steady, is_heard, line.parse()) {
            self.servers[0].write_foreign(&name(zone), &record);
            self.weather.note(&format!("somebody writes {line}"));
            self.guests.insert(zone.to_owned(), line);
        }
        Ok(())
    }

    pub(super) async fn let_through(&mut self, user: &mut User) -> Result<(), String> {
        let zones = user.let_through().await;
        for zone in zones.map_err(|error| format!("letting plans through: {error}"))? {
            self.weather.note(&format!("{zone} may go"));
            self.guests.remove(&zone);
        }
        Ok(())
    }

    /// What others wrote is where they wrote it.
    pub(super) fn check_guests(&self) -> Result<(), String> {
        for (zone, line) in &self.guests {
            let mut servers = self.servers.iter();
            if !servers.any(|server| server.lines(&name(zone)).contains(line)) {
                return Err(format!("{line} is gone without leave"));
            }
        }
        Ok(())
    }

    /// Somebody deletes a zone or a record set on one of the servers, or brings back an old version.
    fn damage(&self, random: &mut Random) {
        let servers = self.servers.len() + usize::from(self.inside.is_some());
        let number = random.below(servers);
        self.damage_server(number, random);
    }

    /// The same on this server; the one after the usual ones is that of the other cluster.
    pub(super) fn damage_server(&self, number: usize, random: &mut Random) {
        let zone = name(ZONES[random.below(ZONES.len())]);
        let mut all = self.servers.iter().chain(&self.inside);
        let Some(server) = all.nth(number) else {
            return;
        };
        let is_secondary = number == SECONDARY && number < self.servers.len();
        let what = match random.below(4) {
            0 => {
                server.lose_zone(&zone);
                "loses"
            }
            1 if !is_secondary => {
                server.break_zone(&zone);
                "cannot load"
            }
            2 if !is_secondary => {
                server.lose_changes(&zone, 1 + random.below(10));
                "loses changes of"
            }
            _ if is_secondary => {
                server.fall_back(&zone);
                "falls back to an old version of"
            }
            _ => {
                server.lose_set(&zone, random.below(8));
                "loses a set of"
            }
        };
        self.weather.note(&format!("server {number} {what} {zone}"));
    }

    /// Whether others write into the zones, so that nothing may be lost.
    pub(super) fn has_guests(&self) -> bool {
        self.management == Management::External || self.has_guests
    }

    /// Somebody writes into a zone past Bindery.
    pub(super) fn meddle(&mut self, random: &mut Random) {
        let zone = name(ZONES[random.below(ZONES.len())]);
        // Nobody writes to a secondary, nor to a server that is away.
        let primaries = self.answering().filter(|(index, _)| *index != SECONDARY);
        let primaries = primaries.map(|(_, server)| server);
        let servers: Vec<&FakeNameServer> = primaries.chain(&self.inside).collect();
        if servers.is_empty() {
            return;
        }
        let server = *random.pick(&servers);
        let meddling = *random.pick(&[Meddling::Add, Meddling::Replace, Meddling::Usurp]);
        let what = (random.below(6), meddling);
        if let Some(key) = server.meddle(&zone, what, &SPARED) {
            self.weather
                .note(&format!("a stranger: {meddling:?} {key} in {zone}"));
            self.strangers.insert(key.name.to_string(), Instant::now());
        }
    }

    /// For a while, another process that cannot reach its server works on the same objects.
    pub(super) async fn run_second(&mut self, time: Duration) {
        self.weather.note("a second process");
        let stop = CancellationToken::new();
        let server = FakeNameServer::new(Away);
        let groups = Servers::one("192.0.2.99:53", Arc::new(server), None).alone();
        let (engine, run) = Engine::start(groups, self.limits, &stop);
        let controllers = Controllers {
            client: self.api.client(),
            engine,
            settings: Settings::default(),
            clock: Arc::new(SimulatedClock(Arc::clone(&self.environment))),
            replica: Replica::alone(),
        };
        let (_handle, tasks) = controllers.start(&stop);
        let mut second = JoinSet::new();
        second.spawn(run);
        for (_, task) in tasks {
            second.spawn(task);
        }
        self.pass(time).await;
        second.shutdown().await;
    }

    /// Once all is quiet, a set of ours is served without what strangers wrote, unless they came first; then
    /// they leave.
    pub(super) async fn keep_strangers_out(&mut self, user: &mut User) -> Result<(), String> {
        for _ in 0..4 {
            self.pass(STRANGERS_MAX / 4).await;
            self.let_through(user).await?;
        }
        self.pass(STRANGERS_MAX).await;
        let objects = list(user).await?;
        let expected = expected(&objects, &self.taken());
        let mut wrongs = Vec::new();
        for ((cluster, zone), wanted) in &expected.lines {
            let usual = self.answering().map(|(_, server)| server);
            let servers: Vec<&FakeNameServer> = match &**cluster {
                "" => usual.collect(),
                _ => self.inside.iter().collect(),
            };
            for server in servers {
                wrongs.extend(strangers_beside(&server.lines(&name(zone)), wanted));
            }
        }
        let servers = self.servers.iter().chain(&self.inside);
        for server in servers {
            for zone in ZONES {
                server.chase_strangers(&name(zone));
            }
        }
        if wrongs.is_empty() {
            return Ok(());
        }
        Err(format!(
            "strangers are not kept out:\n  {}",
            wrongs.join("\n  ")
        ))
    }
}

/// What strangers wrote beside lines of ours, and lines of ours that are missing though nothing is in their
/// way.
fn strangers_beside(standing: &[String], wanted: &BTreeSet<String>) -> Vec<String> {
    let mut wrongs = Vec::new();
    for line in wanted {
        let key: Vec<&str> = line.split(' ').collect();
        let beside = standing.iter().filter(|one| is_strange(one));
        let mut beside = beside.filter(|one| one.starts_with(&format!("{} ", key[0])));
        let is_same = |one: &&String| one.contains(&format!(" IN {} ", key[3]));
        if standing.contains(line) {
            wrongs.extend(
                beside
                    .find(is_same)
                    .map(|one| format!("beside ours: {one}")),
            );
        } else if beside.next().is_none() {
            wrongs.push(format!("not served, though nothing is in its way: {line}"));
        }
    }
    wrongs
}
