//! What others do in a run: servers that lose data, strangers who write past Bindery, a second process.

use std::{sync::Arc, time::Duration};

use bindery_engine::{Engine, Servers};
use bindery_kube::{Controllers, Settings};
use tokio::task::JoinSet;
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
        if let (true, Ok(record)) = (steady, line.parse()) {
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
            if !self.servers[0].lines(&name(zone)).contains(line) {
                return Err(format!("{line} is gone without leave"));
            }
        }
        Ok(())
    }

    /// Somebody deletes a zone or a record set on one of the servers, or brings back an old version.
    fn damage(&self, random: &mut Random) {
        let zone = name(ZONES[random.below(ZONES.len())]);
        let all: Vec<&FakeNameServer> = self.servers.iter().chain(&self.inside).collect();
        let number = random.below(all.len());
        let server = all[number];
        let what = match random.below(4) {
            0 => {
                server.lose_zone(&zone);
                "loses"
            }
            1 if number != SECONDARY => {
                server.break_zone(&zone);
                "cannot load"
            }
            2 if number != SECONDARY => {
                server.lose_changes(&zone, 1 + random.below(10));
                "loses changes of"
            }
            _ if number == SECONDARY => {
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

    /// Somebody writes into a zone past Bindery.
    pub(super) fn meddle(&self, random: &mut Random) {
        let zone = name(ZONES[random.below(ZONES.len())]);
        let servers: Vec<&FakeNameServer> =
            self.servers.iter().take(1).chain(&self.inside).collect();
        let server = *random.pick(&servers);
        let meddling = *random.pick(&[Meddling::Add, Meddling::Replace, Meddling::Usurp]);
        let what = (random.below(6), meddling);
        if let Some(key) = server.meddle(&zone, what, &SPARED) {
            self.weather
                .note(&format!("a stranger: {meddling:?} {key} in {zone}"));
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
            let server = if cluster.is_empty() {
                Some(&self.servers[0])
            } else {
                self.inside.as_ref()
            };
            let standing = server.map_or_else(Vec::new, |server| server.lines(&name(zone)));
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
