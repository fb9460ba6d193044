//! The state machine driven to rest against a plain model of a name server.

mod answers;
mod audits;
mod belated;
mod cuts;
mod flood;
mod followers;
mod guard;
mod leaving;
mod lifecycle;
mod losses;
mod mending;
mod ownership;
mod properties;
mod servers;
mod signing;
mod strangers;
mod wishes;

use std::{collections::BTreeMap, time::Duration};

use super::{
    ClaimStatus, Completion, Hosting, Limits, ReadBack, Sent, SerialFloor, Signing, Step,
    Withdrawal, ZoneContent, ZoneDeclaration, ZoneState, Zones,
};
use crate::{
    Adoption, Change, Claim, Declaration, Fault, FaultKind, Id, Kind, Name, ObjectRef, Ownership,
    Plan, Record, RecordData, RecordKey, RecordSet, RecordType, Serial,
};

use super::{Going, SigningAnswer, SigningPolicy, Tenancy};
use crate::{
    delta::Delta,
    fleet::{FollowerAction, FollowerTask},
    guard::WritePolicy,
    server::{ServerId, ServerInfo, ServerRole},
};

const ZONE: &str = "example.com.";

/// The state machine and the server, with a clock that jumps to the next thing to do.
struct World {
    zones: Zones,
    server: BTreeMap<Name, ZoneContent>,
    /// What other servers answer when they are asked for their serial.
    serials: BTreeMap<ServerId, Result<Serial, Fault>>,
    /// The newest version that another server has.
    others: Option<ZoneContent>,
    /// What another primary has at a serial and the leader does not, until that may go.
    extras: Option<(Serial, String)>,
    /// What the leader answers when its SOA is to be written.
    refusal: Option<Fault>,
    now: Duration,
    /// How many of the coming steps fail as unreachable.
    failures: u32,
    updates: usize,
    messages: Vec<Vec<Change>>,
    /// What the leader was told about signing.
    told: Vec<SigningPolicy>,
}

impl World {
    fn new() -> Self {
        Self {
            zones: Zones::new(Limits::default(), servers(&[ServerRole::Primary])),
            serials: BTreeMap::new(),
            others: None,
            extras: None,
            refusal: None,
            server: BTreeMap::new(),
            now: Duration::ZERO,
            failures: 0,
            updates: 0,
            messages: Vec::new(),
            told: Vec::new(),
        }
    }

    /// A world with a zone that somebody else serves, holding these lines.
    fn with_zone(lines: &str) -> Self {
        let mut world = Self::new();
        world.server.insert(name(ZONE), content(lines));
        world
            .zones
            .declare_zone(zone_declaration(Hosting::Elsewhere));
        world
    }

    /// Carries out steps until nothing is left but looking at serials.
    fn settle(&mut self) {
        let mut active = self.now;
        for _ in 0..1_000 {
            let mut idle = true;
            for zone in self.zones.take_work() {
                while let Some(step) = self.zones.next_step(&zone, self.now) {
                    idle &= step == Step::Check;
                    let completion = self.carry_out(&zone, step);
                    self.zones.complete(&zone, completion, self.now);
                }
            }
            if idle {
                let Some(wake) = self.zones.next_wake() else {
                    return;
                };
                if wake > active + Duration::from_secs(20) {
                    return;
                }
                self.now = self.now.max(wake);
                self.zones.wake(self.now);
            } else {
                active = self.now;
            }
        }
        panic!("the zones do not come to rest");
    }

    /// Lets time pass until servers were looked at again, and everything that follows from it is done.
    fn look(&mut self) {
        self.now += Duration::from_mins(1);
        self.zones.wake(self.now);
        self.settle();
    }

    fn carry_out(&mut self, zone: &Name, step: Step) -> Completion {
        if self.failures > 0 {
            self.failures -= 1;
            return failed(
                step,
                &Fault::new(FaultKind::Unreachable, "connection refused"),
            );
        }
        if let Step::Open(Some(records)) = &step {
            let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
            self.server
                .entry(zone.clone())
                .or_insert_with(|| content(&lines.join("\n")));
        }
        let Some(content) = self.server.get_mut(zone) else {
            return match step {
                Step::Close => Completion::Closed(Ok(())),
                Step::Open(_)
                | Step::Read
                | Step::ReadChanges(..)
                | Step::Check
                | Step::Commit(_)
                | Step::Verify(_)
                | Step::Renew(_)
                | Step::Sign(_)
                | Step::Rescue(_)
                | Step::Follow(_) => failed(step, &Fault::new(FaultKind::Missing, "no such zone")),
            };
        };
        match step {
            Step::Open(_) | Step::Read => Completion::Read(Ok(content.clone())),
            Step::ReadChanges(serial, keys) if serial == content.serial => {
                Completion::ChangesRead(keys, Ok(Delta::UpToDate(serial)))
            }
            Step::ReadChanges(_, keys) => {
                Completion::ChangesRead(keys, Ok(Delta::Whole(content.clone())))
            }
            Step::Check => Completion::Checked(Ok(content.serial)),
            Step::Commit(plan) => {
                self.messages.push(plan.clone().into_changes());
                self.updates += 1;
                Completion::Sent(commit(content, &plan))
            }
            Step::Verify(keys) => {
                let sets = keys
                    .iter()
                    .map(|key| content.sets.get(key).cloned())
                    .collect();
                Completion::Verified(
                    keys,
                    Ok(ReadBack {
                        serial: content.serial,
                        sets,
                    }),
                )
            }
            Step::Renew(record) => {
                let result = renew(content, &record, self.refusal.as_ref());
                Completion::Renewed(record, result)
            }
            Step::Sign(policy) => Completion::Signed(policy.clone(), Ok(self.sign(zone, &policy))),
            Step::Rescue(_) => Completion::Rescued(Ok(self.others.clone())),
            Step::Follow(errand) => {
                let serial = content.serial;
                self.follow(errand, serial)
            }
            Step::Close => {
                self.server.remove(zone);
                Completion::Closed(Ok(()))
            }
        }
    }

    /// The leader is told how to sign a zone; it knows the policy `default`.
    fn sign(&mut self, zone: &Name, policy: &SigningPolicy) -> SigningAnswer {
        self.told.push(policy.clone());
        let Some(content) = self.server.get_mut(zone) else {
            return SigningAnswer::Unsupported;
        };
        match policy {
            SigningPolicy::Named(name) if **name != *"default" => {
                return SigningAnswer::NoPolicy("not found".to_owned());
            }
            SigningPolicy::Named(_) => signing::sign(content),
            SigningPolicy::Unsigned | SigningPolicy::Unsaid => {
                content.sift(zone);
                content.serial = content.serial.next();
            }
        }
        SigningAnswer::Done
    }

    fn follow(&mut self, errand: FollowerTask, leader: Serial) -> Completion {
        let FollowerTask { visit, action } = errand;
        let sifted = match action {
            FollowerAction::Sync(known) => known.sifted,
            FollowerAction::Probe | FollowerAction::Refresh => None,
        };
        if let Some((serial, lines)) = self.extras.take() {
            if sifted != Some(serial) {
                self.extras = Some((serial, lines.clone()));
            }
            return Completion::Differs(visit, serial, records(&lines));
        }
        let followed = self.serials.get(&visit.server).cloned();
        Completion::Followed(visit, followed.unwrap_or(Ok(leader)))
    }

    /// The zone's lines, SOA left out.
    fn lines(&self) -> Vec<String> {
        let content = self.server.get(&name(ZONE)).into_iter();
        let records = content.flat_map(ZoneContent::records);
        records.map(|record| record.to_string()).collect()
    }

    fn status(&self, owner: &str) -> ClaimStatus {
        let event = self
            .zones
            .event(&object(owner))
            .expect("the object has settled");
        event.outcomes[0].status.clone()
    }
}

fn renew(content: &mut ZoneContent, record: &Record, refusal: Option<&Fault>) -> Result<(), Fault> {
    if let Some(fault) = refusal {
        return Err(fault.clone());
    }
    let RecordData::Soa(soa) = &record.data else {
        panic!("{record} is no SOA");
    };
    assert!(Serial(soa.serial).newer_than(content.serial), "{record}");
    content.serial = Serial(soa.serial);
    let set = RecordSet::new(record.ttl, [record.data.clone()]);
    content.sets.insert(record.key(), set);
    Ok(())
}

fn commit(content: &mut ZoneContent, plan: &Plan) -> Sent {
    let mut sent = Sent::default();
    for change in plan.changes() {
        if content.meets(change) {
            content.apply(change);
        }
        sent.to_verify.push(change.key.clone());
    }
    content.serial = content.serial.next();
    sent.messages = 1;
    sent
}

fn failed(step: Step, fault: &Fault) -> Completion {
    match step {
        Step::Open(_) | Step::Read => Completion::Read(Err(fault.clone())),
        Step::ReadChanges(_, keys) => Completion::ChangesRead(keys, Err(fault.clone())),
        Step::Check => Completion::Checked(Err(fault.clone())),
        Step::Commit(plan) => {
            let keys = plan.keys().cloned().collect();
            Completion::Sent(Sent {
                unsent: Some((fault.clone(), keys)),
                ..Sent::default()
            })
        }
        Step::Verify(keys) => Completion::Verified(keys, Err(fault.clone())),
        Step::Renew(record) => Completion::Renewed(record, Err(fault.clone())),
        Step::Sign(policy) => Completion::Signed(policy, Err(fault.clone())),
        Step::Rescue(_) => Completion::Rescued(Err(fault.clone())),
        Step::Follow(task) => Completion::Followed(task.visit, Err(fault.clone())),
        Step::Close => Completion::Closed(Err(fault.clone())),
    }
}

/// Servers of these roles, the first of which leads.
fn servers(roles: &[ServerRole]) -> Vec<ServerInfo> {
    let infos = roles.iter().enumerate();
    let info = |(index, role)| ServerInfo::at(&format!("192.0.2.{}:53", index + 1), role);
    infos.map(|(index, role)| info((index, *role))).collect()
}

/// The server at this place, the leader being 0.
fn server(index: usize) -> ServerId {
    ServerId::new(&format!("192.0.2.{}:53", index + 1))
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn object(owner: &str) -> Id {
    let (namespace, uid) = ("default".into(), "1".into());
    Id::new(ObjectRef {
        kind: Kind::ARecord,
        namespace,
        name: owner.into(),
        uid,
    })
}

fn records(lines: &str) -> Vec<Record> {
    lines
        .lines()
        .map(|line| line.trim().parse().expect("a record"))
        .collect()
}

fn content(lines: &str) -> ZoneContent {
    records(lines).into_iter().collect()
}

fn zone_declaration(hosting: Hosting) -> ZoneDeclaration {
    let owner = ObjectRef {
        kind: Kind::DnsZone,
        ..(*object("zone")).clone()
    };
    ZoneDeclaration {
        zone: name(ZONE),
        owner: Id::new(owner),
        generation: 1,
        hosting,
        tenancy: Tenancy::Shared,
        writes: WritePolicy::Sync,
        allowed: None,
        serial_floor: SerialFloor::New,
        going: None,
        servers: None,
        signing: Signing::default(),
        noted: None,
    }
}

/// A declaration of one object: lines that it asks for, and lines that it may have in DNS.
fn declare(owner: &str, since: i64, asks: &str, carries: &str) -> Declaration {
    let claims = records(asks).into_iter().map(|record| Claim {
        zone: name(ZONE),
        key: RecordKey {
            name: record.name.clone(),
            rtype: record.data.rtype(),
        },
        ttl: record.ttl,
        data: [record.data].into(),
        field: "spec".into(),
    });
    let mut published = records(asks);
    published.extend(records(carries));
    published.sort();
    published.dedup();
    Declaration {
        owner: object(owner),
        generation: 1,
        revision: 0,
        since,
        claims: claims.collect(),
        published,
        had: Vec::new(),
        adoption: Adoption::Refuse,
        ownership: Ownership::Object,
        going: Going::Asked,
    }
}

const WWW: &str = "www.example.com. 300 IN A 192.0.2.1";
const WWW2: &str = "www.example.com. 300 IN A 192.0.2.2";

#[test]
fn a_claim_is_served_and_read_back() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW]);
    assert_eq!(world.status("www"), ClaimStatus::Programmed(Serial(2)));
}

#[test]
fn an_edit_adds_the_new_value_before_it_drops_the_old_in_one_message() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.zones.declare(declare("www", 1, WWW2, WWW));
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
    assert_eq!(world.updates, 2);
    let event = world.zones.event(&object("www")).expect("settled");
    assert_eq!(event.withdrawal, Withdrawal::Done);
}

#[test]
fn what_was_published_before_a_restart_is_taken_away() {
    let mut world = World::with_zone(&format!("old{WWW}\n{WWW}"));
    world
        .zones
        .declare(declare("www", 1, WWW2, &format!("old{WWW}\n{WWW}")));
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
}

#[test]
fn foreign_records_stay_and_a_claim_on_them_is_told() {
    let mut world = World::with_zone(WWW);
    world.zones.declare(declare("www", 1, WWW2, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW]);
    assert_eq!(world.status("www"), ClaimStatus::NotOwned);
    let mut taking = declare("www", 1, WWW2, "");
    taking.adoption = Adoption::Take;
    world.zones.declare(taking);
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
}

#[test]
fn a_cname_is_not_even_tried_where_a_foreign_set_stands() {
    let mut world = World::with_zone("www.example.com. 60 IN TXT \"foreign\"");
    let cname = "www.example.com. 300 IN CNAME other.example.com.";
    world.zones.declare(declare("www", 1, cname, ""));
    world.settle();
    assert_eq!(world.updates, 0);
    assert_eq!(world.status("www"), ClaimStatus::NotOwned);
}

#[test]
fn a_claim_that_its_object_does_not_carry_is_looked_at_and_not_written() {
    let mut world = World::with_zone(WWW);
    let mut asking = declare("www", 1, WWW, "");
    asking.published.clear();
    world.zones.declare(asking.clone());
    let mut other = declare("other", 1, "other.example.com. 60 IN A 192.0.2.1", "");
    other.published.clear();
    world.zones.declare(other);
    world.settle();
    assert_eq!(
        world.status("www"),
        ClaimStatus::NotOwned,
        "the same record, but not ours"
    );
    assert_eq!(world.status("other"), ClaimStatus::Admissible);
    assert_eq!((world.lines(), world.updates), (vec![WWW.to_owned()], 0));
    asking.adoption = Adoption::Take;
    world.zones.declare(asking);
    assert_eq!(world.status("www"), ClaimStatus::Admissible);
}

#[test]
fn a_line_that_stands_as_it_was_is_known_again_and_no_other() {
    let mut world = World::with_zone(WWW);
    let asking = |line: &str| {
        let mut asking = declare("www", 1, line, "");
        asking.published.clear();
        asking.adoption = Adoption::Known;
        asking
    };
    world.zones.declare(asking(WWW2));
    world.settle();
    assert_eq!(
        world.status("www"),
        ClaimStatus::NotOwned,
        "it says another"
    );
    world.zones.declare(asking(WWW));
    assert_eq!(world.status("www"), ClaimStatus::Admissible);
    let mut beside = World::with_zone(&format!("{WWW}\n{WWW2}"));
    beside.zones.declare(asking(WWW));
    beside.settle();
    let status = beside.status("www");
    assert_eq!(status, ClaimStatus::NotOwned, "nobody asks for the other");
    let mut carrying = declare("www", 1, WWW2, &format!("{WWW}\n{WWW2}"));
    carrying.adoption = Adoption::Known;
    world.zones.declare(carrying);
    world.settle();
    assert_eq!(world.lines(), [WWW2], "from then on it is like any other");
}

#[test]
fn two_objects_share_a_set_and_leave_it_one_by_one() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("one", 1, WWW, ""));
    world.zones.declare(declare("two", 2, WWW2, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW, WWW2]);
    world.zones.declare(declare("one", 1, "", WWW));
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
}

#[test]
fn of_a_cname_and_an_address_the_earlier_stays_until_it_goes() {
    let cname = "www.example.com. 300 IN CNAME other.example.com.";
    let mut world = World::with_zone("");
    world.zones.declare(declare("late", 2, cname, ""));
    world.zones.declare(declare("early", 1, WWW, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW]);
    let conflict = ClaimStatus::Conflict {
        winner: object("early"),
        held: RecordType::A,
    };
    assert_eq!(world.status("late"), conflict);
    world.zones.declare(declare("early", 1, "", WWW));
    world.settle();
    assert_eq!(world.lines(), [cname]);
    let last = world.messages.last().expect("a message");
    assert_eq!(last.len(), 2, "the name changes its type in one message");
    assert!(last[0].is_removal());
}

#[test]
fn a_cname_that_the_server_ignores_is_told_and_tried_again() {
    let cname = "www.example.com. 300 IN CNAME other.example.com.";
    let mut world = World::with_zone("");
    world.settle();
    // Written behind our back, and not noticed yet.
    let sets = content("www.example.com. 60 IN TXT \"foreign\"").sets;
    world.server.insert(
        name(ZONE),
        ZoneContent {
            serial: Serial(1),
            sets,
        },
    );
    world.zones.declare(declare("www", 1, cname, ""));
    let mut told = false;
    for _ in 0..20 {
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                let completion = world.carry_out(&zone, step);
                world.zones.complete(&zone, completion, world.now);
            }
        }
        told |= matches!(
            world
                .zones
                .event(&object("www"))
                .map(|event| event.outcomes[0].status.clone()),
            Some(ClaimStatus::Failing(_))
        );
    }
    assert!(told);
}
