//! What must be true: always of what is said, and in the end of everything.

use std::{collections::BTreeSet, time::Duration};

use bindery_core::Serial;
use bindery_kube::Management;
use kube::api::DynamicObject;

use super::{World, foreign, list, name};
use crate::{
    nameserver::{Absence, FakeNameServer, is_strange},
    oracle::{Expected, Wanted, expected, id},
    user::{INSIDE, User, ZONES},
    weather::Random,
};

/// How long everything may take to come right once there are no more faults.
const CALM_MAX: Duration = Duration::from_mins(10);

/// How long it must stay right, without a single write.
const KEPT_MIN: Duration = Duration::from_mins(3);

/// How long a new object may be without a condition.
const FIRST_WORD_MAX: Duration = Duration::from_secs(1);

/// Until another server leads, 3 s after the first fell silent, and what is new is on every server in
/// rotation.
const LEAD_MAX: Duration = Duration::from_secs(6);

impl World {
    pub(super) async fn come_right(&mut self, user: &mut User) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + CALM_MAX;
        loop {
            self.pass(Duration::from_secs(5)).await;
            if let Some(lie) = self.lies(user).await? {
                return Err(lie);
            }
            self.check_guests()?;
            self.let_through(user).await?;
            match self.wrongs(user).await? {
                wrongs if wrongs.is_empty() => return Ok(()),
                wrongs if tokio::time::Instant::now() > deadline => {
                    return Err(format!("not right in time:\n  {}", wrongs.join("\n  ")));
                }
                _ => {}
            }
        }
    }

    pub(super) async fn stay_right(&mut self, user: &User) -> Result<(), String> {
        self.pass(Duration::from_secs(10)).await;
        let writes = self.weather.writes();
        let before = list(user).await?;
        self.pass(KEPT_MIN).await;
        if self.weather.writes() != writes {
            let after = list(user).await?;
            let changed: Vec<String> = before
                .iter()
                .zip(&after)
                .filter(|(before, after)| before.data != after.data)
                .map(|(before, after)| {
                    format!("{}\n  {}\n  {}", id(after), before.data, after.data)
                })
                .collect();
            return Err(format!(
                "it goes on writing though all is right: {}",
                changed.join("\n")
            ));
        }
        match self.wrongs(user).await? {
            wrongs if wrongs.is_empty() => Ok(()),
            wrongs => Err(format!("not kept right:\n  {}", wrongs.join("\n  "))),
        }
    }

    /// In some runs everything has to come right while a server is away for long, and once more when it is
    /// back.
    pub(super) async fn come_right_without_some(
        &mut self,
        user: &mut User,
        random: &mut Random,
    ) -> Result<(), String> {
        self.bring_all_back(random);
        if self.servers.len() < 2 || !random.percent(50) {
            return Ok(());
        }
        self.pass(Duration::from_mins(1)).await;
        let away = random.below(self.servers.len());
        let absence = *random.pick(&[Absence::Down, Absence::Stopped, Absence::Out]);
        self.leave(away, absence, random);
        // What strangers wrote over is put right meanwhile.
        self.keep_strangers_out(user).await?;
        self.come_right(user).await?;
        self.bring_all_back(random);
        Ok(())
    }

    /// The storm ceases for a moment, whoever of the servers is away: what is said then must be true, a new
    /// object has a condition within a second, and a new record is served soon if some primary answers.
    pub(super) async fn look_closely(
        &mut self,
        user: &mut User,
        random: &mut Random,
    ) -> Result<(), String> {
        self.weather.clear_up();
        self.weather.note("a look");
        self.pass(Duration::from_secs(20)).await;
        if self.servers.len() > 1 && random.percent(40) {
            let leaves = random.below(self.servers.len());
            if self.servers[leaves].is_present() {
                let absence = *random.pick(&[Absence::Down, Absence::Stopped, Absence::Out]);
                self.leave(leaves, absence, random);
            }
        }
        let probe = user.probe().await;
        let probe = probe.map_err(|error| format!("the probe: {error}"))?;
        self.weather.note(&format!("{probe} is declared"));
        self.pass(FIRST_WORD_MAX).await;
        let objects = list(user).await?;
        let mute = objects.iter().find(|one| ready_condition(one).is_none());
        if let Some(mute) = mute {
            return Err(format!("{} has no condition after a second", id(mute)));
        }
        self.pass(LEAD_MAX).await;
        if let Some(lie) = self.lies(user).await? {
            return Err(lie);
        }
        let objects = list(user).await?;
        let expected = expected(&objects, &self.taken());
        let is_leaving = |one: &DynamicObject| one.metadata.deletion_timestamp.is_some();
        let is_possible = expected.fulfilled.get(&probe) == Some(&true)
            && self.has_primary()
            && !self.is_usurped(&expected, &probe)
            && !objects.iter().any(is_leaving);
        let found = objects.iter().find(|one| id(one) == probe);
        if let Some(found) = found.filter(|one| is_possible && is_ready(one) != Some(true)) {
            let status = &found.data["status"]["conditions"];
            return Err(format!(
                "{probe} is not ready, and a primary is there: {status}"
            ));
        }
        self.weather.storm();
        Ok(())
    }

    /// Whether a stranger's record stands at a name that this object asks for, and may have come while no zone
    /// had the object: what was left of it there was nobody's then, so that the name is the stranger's. Where the
    /// user has done nothing to zones since, the object had one, and what stands in its place has to go.
    fn is_usurped(&self, expected: &Expected, object: &str) -> bool {
        let servers = || self.servers.iter().chain(&self.inside);
        let mut wanted = expected.wanted.iter().filter(|one| one.object == object);
        wanted.any(
            |Wanted {
                 place, name: owner, ..
             }| {
                let came = self.strangers.get(owner);
                let lines = servers().flat_map(|server| server.lines(&name(&place.1)));
                let mut there = lines.filter(|line| line.starts_with(&format!("{owner} ")));
                came.is_some_and(|came| *came <= self.zones_touched)
                    && there.any(|line| is_strange(&line))
            },
        )
    }

    /// Something that says it is ready and is not: a zone whose servers differ, or are behind what a status
    /// told; a record that some server in rotation does not serve.
    pub(super) async fn lies(&mut self, user: &User) -> Result<Option<String>, String> {
        let objects = list(user).await?;
        self.hear(&objects);
        let ready = |object: &&DynamicObject| {
            object.metadata.deletion_timestamp.is_none() && is_ready(object) == Some(true)
        };
        let zones = objects.iter().filter(ready).filter(|object| {
            let cluster = object.data["spec"]["clusterRef"].as_str();
            id(object).starts_with("DNSZone/") && cluster.unwrap_or_default().is_empty()
        });
        for object in zones {
            let zone = object.data["spec"]["zoneName"].as_str().unwrap_or_default();
            if let Some(lie) = self.lie_of(zone) {
                return Ok(Some(lie));
            }
        }
        // A zone that is held on its way out is served on, so its records are in it and not in another.
        let is_leaving = |one: &DynamicObject| {
            one.metadata.deletion_timestamp.is_some() && id(one).starts_with("DNSZone/")
        };
        if objects.iter().any(is_leaving) {
            return Ok(None);
        }
        let expected = expected(&objects, &self.taken());
        let wanted = expected.wanted.iter();
        let mut wanted = wanted.filter(|wanted| {
            let mut ready = objects.iter().filter(ready);
            ready.any(|object| id(object) == wanted.object)
        });
        Ok(wanted.find_map(|wanted| self.lie_of_record(wanted)))
    }

    fn lie_of(&self, zone: &str) -> Option<String> {
        let servers: Vec<&FakeNameServer> = self.answering().map(|(_, server)| server).collect();
        let lines = |server: &FakeNameServer| server.lines(&name(zone));
        let served: Vec<Vec<String>> = servers.iter().map(|server| lines(server)).collect();
        if served.is_empty() {
            return Some(format!("{zone} says Ready and no server answers"));
        }
        if served.iter().any(|lines| *lines != served[0]) {
            return Some(format!(
                "{zone} says Ready and its servers differ: {served:?}"
            ));
        }
        let (_, told) = self.told.get(zone)?;
        servers.iter().find_map(|server| {
            let has = server.content(&name(zone))?.serial;
            told.newer_than(has)
                .then(|| format!("{zone} says Ready at {has} after {told}"))
        })
    }

    fn lie_of_record(&self, wanted: &Wanted) -> Option<String> {
        let Wanted {
            object,
            place: (cluster, zone),
            name: owner,
            rtype,
            value,
        } = wanted;
        let usual = self.answering().map(|(_, server)| server);
        let servers: Vec<&FakeNameServer> = match &**cluster {
            "" => usual.collect(),
            _ => self.inside.iter().collect(),
        };
        if servers.is_empty() {
            return Some(format!("{object} says Ready and no server answers"));
        }
        let is_it = |line: &String| {
            line.starts_with(&format!("{owner} "))
                && line.ends_with(&format!(" IN {rtype} {value}"))
        };
        let lines = |server: &&FakeNameServer| server.lines(&name(zone));
        let missing = servers
            .iter()
            .any(|server| !lines(server).iter().any(is_it));
        missing.then(|| format!("{object} says Ready and {owner} {rtype} {value} is not served"))
    }

    /// Remembers what statuses tell of serials.
    pub(super) fn hear(&mut self, objects: &[DynamicObject]) {
        for object in objects.iter().filter(|one| id(one).starts_with("DNSZone/")) {
            let (spec, status) = (&object.data["spec"], &object.data["status"]);
            let generation = status["observedGeneration"].as_i64();
            let is_elsewhere = !spec["clusterRef"].as_str().unwrap_or_default().is_empty();
            // A status of an earlier generation may speak of another zone.
            if is_elsewhere || generation != object.metadata.generation {
                continue;
            }
            let zone = spec["zoneName"].as_str().unwrap_or_default();
            let deletions = self.servers.iter().map(|one| one.deletions(&name(zone)));
            let deletions = deletions.sum();
            let servers = status["servers"].as_array().into_iter().flatten();
            let serials = servers.filter_map(|one| u32::try_from(one["serial"].as_u64()?).ok());
            for serial in serials.map(Serial) {
                let told = self.told.entry(zone.to_owned());
                let told = told.or_insert((deletions, serial));
                if told.0 != deletions || serial.newer_than(told.1) {
                    *told = (deletions, serial);
                }
            }
        }
    }

    /// Everything that is not as it should be.
    async fn wrongs(&self, user: &User) -> Result<Vec<String>, String> {
        let objects = list(user).await?;
        let leaving = objects
            .iter()
            .filter(|object| object.metadata.deletion_timestamp.is_some());
        // An object does not let go of what a primary that is away may still have.
        let mut wrongs: Vec<String> = leaving
            .filter(|_| self.is_complete())
            .map(|object| format!("{} is still being deleted", id(object)))
            .collect();
        let expected = expected(&objects, &self.taken());
        let all = self.servers.iter().chain(&self.inside);
        wrongs.extend(all.flat_map(FakeNameServer::rewound));
        let servers = self.answering().map(|(_, server)| ("", server));
        let inside = self.inside.iter().map(|server| (INSIDE, server));
        for (cluster, server) in servers.chain(inside) {
            for zone in ZONES {
                self.compare(&expected, (cluster, zone), server, &mut wrongs);
            }
        }
        for (object, fulfilled) in &expected.fulfilled {
            let Some(found) = objects.iter().find(|other| id(other) == *object) else {
                continue;
            };
            // A zone says that a server is away.
            if object.starts_with("DNSZone/") && !self.is_complete() {
                continue;
            }
            if is_ready(found) != Some(*fulfilled) {
                let status = &found.data["status"]["conditions"];
                wrongs.push(format!("{object} should be {fulfilled}: {status}"));
            }
        }
        Ok(wrongs)
    }

    /// Compares one zone on one server with what is to be there.
    fn compare(
        &self,
        expected: &Expected,
        (cluster, zone): (&str, &str),
        server: &FakeNameServer,
        wrongs: &mut Vec<String>,
    ) {
        let place = (cluster.to_owned(), zone.to_owned());
        let wanted = expected.lines.get(&place);
        let is_there = server.content(&name(zone)).is_some();
        if self.management == Management::Managed && is_there != wanted.is_some() {
            // A zone that goes leaves every server that answers, once a primary tells what is in it.
            if !is_there || self.has_primary() {
                wrongs.push(format!("{zone} on {cluster:?} is there: {is_there}"));
            }
        }
        let mut wanted = wanted.cloned().unwrap_or_default();
        let mut standing: BTreeSet<String> = server.lines(&name(zone)).into_iter().collect();
        match self.management {
            Management::External => {
                wanted.extend(foreign(zone).iter().map(ToString::to_string));
            }
            Management::Managed => standing.retain(|line| {
                let is_own = line.contains(" IN NS ") || line.starts_with("ns1.");
                !is_own && !line.starts_with("theirs.")
            }),
        }
        let missing = wanted.difference(&standing);
        wrongs.extend(missing.map(|line| format!("not served: {line}")));
        if expected.lines.contains_key(&place) || self.is_complete() {
            let extra = standing.difference(&wanted);
            wrongs.extend(extra.map(|line| format!("served: {line}")));
        }
    }
}

/// What an object says of itself.
fn ready_condition(object: &DynamicObject) -> Option<&serde_json::Value> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "Programmed" || condition["type"] == "Ready")
}

/// The same, if it speaks of its present generation.
pub(super) fn is_ready(object: &DynamicObject) -> Option<bool> {
    let condition = ready_condition(object)?;
    let generation = object.metadata.generation?;
    (condition["observedGeneration"] == generation).then(|| condition["status"] == "True")
}
