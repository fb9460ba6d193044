//! The same random updates on `named` and on the built-in server must be answered alike and
//! lead to the same zone.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use bindery_core::RecordType;
use bindery_dns::wire::{Message, WireRecord, class, rcode, rtype};
use bindery_engine::ports::NameServer;

use crate::ask;
use crate::scene::{Case, Scene, cases};
use crate::subject::Kind;

/// Updates per seed.
const UPDATES: usize = 150;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        random_updates_with_seed_1_end_alike,
        random_updates_with_seed_2_end_alike,
        random_updates_with_seed_3_end_alike,
        random_updates_with_seed_4_end_alike,
    ]
}

async fn random_updates_with_seed_1_end_alike(scene: Scene) -> Result<()> {
    end_alike(&scene, 1).await
}

async fn random_updates_with_seed_2_end_alike(scene: Scene) -> Result<()> {
    end_alike(&scene, 2).await
}

async fn random_updates_with_seed_3_end_alike(scene: Scene) -> Result<()> {
    end_alike(&scene, 3).await
}

async fn random_updates_with_seed_4_end_alike(scene: Scene) -> Result<()> {
    end_alike(&scene, 4).await
}

/// A generator that is the same everywhere (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % 1_000_003).unwrap_or(0) % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const NAMES: [&str; 9] = [
    "@", "www", "alias", "a", "b", "x.wild", "*.wild", "ent", "sub",
];
const TYPES: [RecordType; 6] = [
    RecordType::A,
    RecordType::Aaaa,
    RecordType::Cname,
    RecordType::Txt,
    RecordType::Mx,
    RecordType::Ns,
];

/// One record, sometimes one that is there already. No address hangs on the servers of the zone,
/// whose presence BIND checks by itself.
fn line(random: &mut Random) -> String {
    let owner = random.pick(&NAMES);
    let owner = if owner == "@" {
        owner.to_owned()
    } else {
        format!("{owner}.@")
    };
    let data = random.pick(&[
        "A 192.0.2.1",
        "A 192.0.2.2",
        "A 192.0.2.3",
        "AAAA 2001:db8::1",
        "TXT \"hello\" \"world\"",
        "TXT \"x\"",
        "MX 10 mail.@",
        "CNAME www.@",
        "CNAME www.example.net.",
        "NS ns.example.net.",
        "NS ns2.example.net.",
        "SOA ns.@ hostmaster.@ 50 1 1 1 1",
    ]);
    let ttl = random.pick(&["300", "60"]);
    format!("{owner} {ttl} IN {data}")
}

fn rtype_of(random: &mut Random) -> RecordType {
    match random.below(7) {
        6 => RecordType::Other(rtype::ANY),
        number => TYPES[number],
    }
}

fn prerequisite(scene: &Scene, random: &mut Random) -> WireRecord {
    let name = random.pick(&NAMES);
    match random.below(3) {
        0 => ask::empty(scene, name, rtype_of(random), class::ANY),
        1 => ask::empty(scene, name, rtype_of(random), class::NONE),
        _ => ask::value(scene, &line(random)),
    }
}

fn change(scene: &Scene, random: &mut Random) -> WireRecord {
    match random.below(6) {
        0 => ask::empty(scene, random.pick(&NAMES), rtype_of(random), class::ANY),
        1 => ask::remove(scene, &line(random)),
        _ => ask::add(scene, &line(random)),
    }
}

fn update(scene: &Scene, random: &mut Random) -> Message {
    // Most prerequisites fail, so most updates have none.
    let prerequisites = (0..random.below(4).saturating_sub(2))
        .map(|_| prerequisite(scene, random))
        .collect();
    let changes = (0..=random.below(4))
        .map(|_| change(scene, random))
        .collect();
    ask::update(scene, prerequisites, changes)
}

async fn end_alike(scene: &Scene, seed: u64) -> Result<()> {
    let case = format!("alike{seed}");
    let named = Scene::open(Kind::Named, &case).await?;
    let builtin = Scene::open(Kind::Builtin, &case).await?;
    ensure!(scene.zone != named.zone);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut applied = 0;
    for step in 0..UPDATES {
        let message = update(&named, &mut random);
        let theirs = ask::code(&named, &message).await?;
        let ours = ask::code(&builtin, &message).await?;
        let said = || format!("seed {seed}, step {step}: {}", shown(&message));
        ensure!(
            theirs == ours,
            "named says {}, we say {}, {}",
            rcode::name(theirs),
            rcode::name(ours),
            said()
        );
        applied += usize::from(ours == rcode::NOERROR);
        let theirs = lines(&named).await.with_context(said)?;
        let ours = lines(&builtin).await.with_context(said)?;
        let only_theirs: Vec<&String> = theirs.difference(&ours).collect();
        let only_ours: Vec<&String> = ours.difference(&theirs).collect();
        ensure!(
            theirs == ours,
            "{}
only named: {only_theirs:#?}
only we: {only_ours:#?}",
            said()
        );
    }
    answer_alike(&named, &builtin)
        .await
        .with_context(|| format!("seed {seed}"))?;
    ensure!(applied > UPDATES / 4, "only {applied} updates were applied");
    Ok(())
}

/// Asks both servers everything but SOAs where there are none: BIND gives that answer no time to
/// live, by an option of its own.
async fn answer_alike(named: &Scene, builtin: &Scene) -> Result<()> {
    let further = [
        "missing", "x.y.wild", "x.sub", "ns.sub", "x.a", "x.www", "chain", "_tcp",
    ];
    for name in NAMES.into_iter().chain(further) {
        for rtype in TYPES.into_iter().chain([RecordType::Other(43)]) {
            let theirs = ask::lookup(named, name, rtype).await?;
            let ours = ask::lookup(builtin, name, rtype).await?;
            ensure!(
                essence(&theirs) == essence(&ours),
                "{name} {rtype}: named says {:#?}, we say {:#?}",
                essence(&theirs),
                essence(&ours)
            );
        }
    }
    Ok(())
}

/// What of an answer does not depend on taste: order does, and so does what is added unasked.
fn essence(answer: &Message) -> BTreeSet<String> {
    let head = &answer.head;
    let mut essence = BTreeSet::from([
        format!("rcode {}", rcode::name(head.rcode)),
        format!("authoritative {}", head.authoritative),
    ]);
    for (section, rows) in [("answer", &answer.answer), ("authority", &answer.authority)] {
        for row in rows {
            let data = row
                .data()
                .map_or_else(|_| String::new(), |data| data.to_string());
            let rtype = RecordType::from_code(row.rtype);
            essence.insert(format!("{section} {} {} {rtype} {data}", row.name, row.ttl));
        }
    }
    essence
}

/// All records of a zone, as lines.
async fn lines(scene: &Scene) -> Result<BTreeSet<String>> {
    let content = scene.client().transfer(&scene.zone).await?;
    let sets = content.sets.iter();
    Ok(sets
        .flat_map(|(key, set)| {
            let line = move |data| format!("{} {} {} {data}", key.name, set.ttl, key.rtype);
            set.data().iter().map(line)
        })
        .collect())
}

/// An update in few words.
fn shown(message: &Message) -> String {
    let row = |row: &WireRecord| {
        let data = row
            .data()
            .map_or_else(|_| String::new(), |data| data.to_string());
        let rtype = RecordType::from_code(row.rtype);
        format!(
            "{} {} class {} {rtype} {data}",
            row.name, row.ttl, row.class
        )
    };
    let list = |rows: &[WireRecord]| rows.iter().map(row).collect::<Vec<_>>().join("\n  ");
    format!(
        "if\n  {}\nthen\n  {}",
        list(&message.answer),
        list(&message.authority)
    )
}
