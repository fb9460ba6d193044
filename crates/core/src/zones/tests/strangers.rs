//! Objects and strangers write into one zone, and places that tell what is ours are lost: laws of ownership.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{ClaimStatus, Hosting, World, ZONE, declare, name, object, records, zone_declaration};
use crate::{
    Change, Declaration, Expect, Ownership, Record, RecordData, RecordKey,
    ownership::{Evidence, Trust},
};

/// What objects and strangers write, in sets that they share.
const LINES: [&str; 6] = [
    "www.example.com. 60 IN A 192.0.2.1",
    "www.example.com. 60 IN A 192.0.2.2",
    "www.example.com. 60 IN TXT \"hello\"",
    "www.example.com. 60 IN CNAME a.example.com.",
    "a.example.com. 60 IN A 192.0.2.3",
    "a.example.com. 60 IN A 192.0.2.4",
];

/// A set and a value in it.
type Line = (RecordKey, RecordData);

#[derive(Clone, Debug)]
enum Act {
    /// An object asks for these lines from now on.
    Ask(usize, Vec<usize>),
    /// Somebody else writes a line.
    Stranger(usize),
    /// Of an object, one of the three places that tell what it owns is lost.
    Lose(usize, Place),
    /// The program starts again, and finds what objects say, or only what their status says.
    Restart(Place),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Memory,
    Annotation,
    Status,
}

fn act() -> impl Strategy<Value = Act> {
    let lines = prop::collection::vec(0..LINES.len(), 0..3);
    let place = prop::sample::select(vec![Place::Memory, Place::Annotation, Place::Status]);
    prop_oneof![
        5 => (0_usize..2, lines).prop_map(|(owner, lines)| Act::Ask(owner, lines)),
        2 => (0..LINES.len()).prop_map(Act::Stranger),
        2 => (0_usize..2, place).prop_map(|(owner, place)| Act::Lose(owner, place)),
        1 => prop::sample::select(vec![Place::Annotation, Place::Status]).prop_map(Act::Restart),
    ]
}

/// What a controller has of one object.
#[derive(Clone, Default)]
struct Book {
    asks: BTreeSet<usize>,
    memory: BTreeSet<usize>,
    annotation: BTreeSet<usize>,
    status: BTreeSet<usize>,
}

struct Play {
    world: World,
    books: BTreeMap<usize, Book>,
    /// Lines that objects recorded at some time.
    ever_recorded: BTreeSet<Line>,
    /// Sets that objects had as they asked for them.
    ever_had: BTreeSet<RecordKey>,
    /// Lines that strangers wrote.
    strange: BTreeSet<usize>,
    /// Messages that were looked at.
    judged: usize,
}

fn record(line: usize) -> Record {
    LINES[line].parse().expect("a record")
}

fn line(line: usize) -> Line {
    let record = record(line);
    (record.key(), record.data)
}

fn text(lines: &BTreeSet<usize>) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| LINES[*line]).collect();
    lines.join("\n")
}

impl Play {
    fn new() -> Self {
        Self {
            world: World::with_zone(""),
            books: BTreeMap::new(),
            ever_recorded: BTreeSet::new(),
            ever_had: BTreeSet::new(),
            strange: BTreeSet::new(),
            judged: 0,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Ask(owner, lines) => {
                let book = self.books.entry(*owner).or_default();
                book.asks = lines.iter().copied().collect();
            }
            Act::Stranger(number) => self.intrude(*number),
            Act::Lose(owner, place) => {
                let book = self.books.entry(*owner).or_default();
                match place {
                    Place::Memory => book.memory = book.evidence(None),
                    Place::Annotation => book.annotation.clear(),
                    Place::Status => book.status.clear(),
                }
                book.memory = book.evidence(Some(&book.memory));
                book.annotation = book.memory.clone();
            }
            Act::Restart(lost) => self.restart(*lost),
        }
        self.converge();
    }

    /// A stranger writes a line, unless something stands that it cannot stand beside.
    fn intrude(&mut self, number: usize) {
        let content = self.world.server.get_mut(&name(ZONE)).expect("a zone");
        let (key, data) = line(number);
        let stands = |content: &super::ZoneContent| {
            let set = content.sets.get(&key);
            set.is_some_and(|set| set.data().contains(&data))
        };
        if stands(content) {
            return;
        }
        content.apply(&Change {
            key: key.clone(),
            expect: Expect::Anything,
            remove: Vec::new(),
            add: vec![data.clone()],
            ttl: 60,
        });
        if stands(content) {
            content.serial = content.serial.next();
            self.strange.insert(number);
        }
    }

    /// The process starts again: what it remembered is gone, and so is one place more.
    fn restart(&mut self, lost: Place) {
        let server = std::mem::take(&mut self.world.server);
        let (now, messages) = (self.world.now, std::mem::take(&mut self.world.messages));
        self.world = World::new();
        (self.world.server, self.world.now, self.world.messages) = (server, now, messages);
        self.world
            .zones
            .declare_zone(zone_declaration(Hosting::Elsewhere));
        for book in self.books.values_mut() {
            match lost {
                Place::Annotation => book.annotation.clear(),
                Place::Status | Place::Memory => book.status.clear(),
            }
            book.memory = book.evidence(None);
            book.annotation = book.memory.clone();
        }
    }

    /// Does for every object what controllers do, until nothing changes.
    fn converge(&mut self) {
        for _ in 0..4 {
            let owners: Vec<usize> = self.books.keys().copied().collect();
            for owner in &owners {
                self.declare(*owner);
            }
            self.world.look();
            self.judge();
            for owner in &owners {
                self.receive(*owner);
            }
        }
    }

    fn declare(&mut self, owner: usize) {
        let book = &self.books[&owner];
        let had = book.status.iter().map(|number| line(*number).0);
        let declaration = Declaration {
            published: records(&text(&book.memory)),
            had: had.collect(),
            ownership: Ownership::Object,
            ..declare(&owner.to_string(), 1, &text(&book.asks), "")
        };
        self.world.zones.declare(declaration);
    }

    /// Records what may be, and what was seen.
    fn receive(&mut self, owner: usize) {
        let Some(receipt) = self.world.zones.event(&object(&owner.to_string())) else {
            return;
        };
        let book = self.books.get_mut(&owner).expect("it asks");
        let lines_of = |key: &RecordKey, of: &BTreeSet<usize>| -> BTreeSet<usize> {
            let lines = of.iter().copied();
            lines.filter(|number| line(*number).0 == *key).collect()
        };
        if receipt.withdrawal == super::Withdrawal::Done {
            book.memory.retain(|number| book.asks.contains(number));
        }
        let mut status = BTreeSet::new();
        for outcome in &receipt.outcomes {
            let lines = lines_of(&outcome.claim.key, &book.asks);
            if outcome.status == ClaimStatus::Admissible {
                self.ever_recorded
                    .extend(lines.iter().map(|one| line(*one)));
                book.memory.extend(lines);
            } else if matches!(outcome.status, ClaimStatus::Programmed(_)) {
                self.ever_had.insert(outcome.claim.key.clone());
                status.extend(lines);
            }
        }
        book.status = status;
        book.annotation = book.memory.clone();
    }

    /// What was sent since the last look keeps the law.
    fn judge(&mut self) {
        let messages = &self.world.messages[self.judged..];
        for change in messages.iter().flatten() {
            let is_ours = |data: &RecordData| {
                self.ever_recorded
                    .contains(&(change.key.clone(), data.clone()))
            };
            let stood = match &change.expect {
                Expect::Exactly(data) => data.as_slice(),
                Expect::Absent | Expect::Anything => &[],
            };
            let is_our_set = self.ever_had.contains(&change.key) || stood.iter().any(is_ours);
            let is_usurper = self.ever_had.iter().any(|had| had.name == change.key.name);
            for gone in &change.remove {
                assert!(
                    is_our_set || is_usurper || is_ours(gone),
                    "{gone} goes: {change:?}"
                );
            }
            for new in &change.add {
                assert!(
                    is_ours(new),
                    "{new} is sent before it is durable: {change:?}"
                );
            }
        }
        self.judged = self.world.messages.len();
    }
}

impl Book {
    /// Puts together what is left of the three places.
    fn evidence(&self, memory: Option<&BTreeSet<usize>>) -> BTreeSet<usize> {
        let evidence = Evidence {
            memory,
            annotation: &self.annotation,
            trust: Trust::Own,
            status: (!self.status.is_empty()).then_some(&self.status),
        };
        let (one, more) = evidence.owned();
        one.into_iter().chain(more).flatten().copied().collect()
    }
}

proptest! {
    #[test]
    fn strangers_keep_what_is_theirs_and_we_take_all_of_ours_along(
        acts in prop::collection::vec(act(), 0..12),
    ) {
        let mut play = Play::new();
        for act in &acts {
            play.act(act);
        }
        let owners: Vec<usize> = play.books.keys().copied().collect();
        for owner in owners {
            play.act(&Act::Ask(owner, Vec::new()));
        }
        play.converge();
        let left: BTreeSet<String> = play.world.lines().into_iter().collect();
        for (number, text) in LINES.iter().enumerate() {
            let (key, data) = line(number);
            let wrote_ours = play.ever_recorded.contains(&(key, data));
            if wrote_ours && !play.strange.contains(&number) {
                prop_assert!(!left.contains(*text), "{text} is left");
            }
        }
    }
}
