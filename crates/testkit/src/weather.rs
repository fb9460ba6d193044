//! The faults of one run, drawn from its seed.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::nameserver::{Fate, Faults, Operation};

/// A stream of numbers that is a function of its seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next_u64() % bound).unwrap_or(0)
    }

    /// One of a list, which must not be empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// When the process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    /// After this many writes in a hundred.
    Percent(usize),
    /// After exactly the write of this number, counted from zero.
    AfterWrite(u64),
    /// Never.
    Never,
}

/// Decides what becomes of each request of the process, and when the process dies.
pub struct Weather {
    random: Mutex<Random>,
    crashes: Crashes,
    stormy: AtomicBool,
    alive: AtomicBool,
    crashed: Notify,
    writes: AtomicU64,
    trace: Mutex<Trace>,
    start: tokio::time::Instant,
}

/// What happened, as a number that differs if anything differs, and in words if wanted.
#[derive(Debug, Default)]
struct Trace {
    digest: u64,
    lines: Option<Vec<String>>,
}

impl Weather {
    /// The weather of a seed.
    #[must_use]
    pub fn new(seed: u64, crashes: Crashes) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(Random::new(seed ^ 0x5eed)),
            crashes,
            stormy: AtomicBool::new(true),
            alive: AtomicBool::new(true),
            crashed: Notify::new(),
            writes: AtomicU64::new(0),
            trace: Mutex::default(),
            start: tokio::time::Instant::now(),
        })
    }

    /// Keeps what happens in words from now on.
    pub fn keep_words(&self) {
        lock(&self.trace).lines.get_or_insert_default();
    }

    /// No more faults.
    pub fn clear_up(&self) {
        self.stormy.store(false, Ordering::SeqCst);
    }

    /// Faults again.
    pub fn storm(&self) {
        self.stormy.store(true, Ordering::SeqCst);
    }

    /// Kills the process: whatever it asks for from now on never happens.
    pub fn crash(&self) {
        self.note("crash");
        self.alive.store(false, Ordering::SeqCst);
        self.crashed.notify_one();
    }

    /// Waits until the process was killed.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// A new process may make requests.
    pub fn revive(&self) {
        self.alive.store(true, Ordering::SeqCst);
    }

    /// How many writes the process made.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Notes what happened.
    pub fn note(&self, what: &str) {
        let mut trace = lock(&self.trace);
        let line = format!("{:>9.3} {what}", self.start.elapsed().as_secs_f64());
        trace.digest = line
            .bytes()
            .fold(trace.digest ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        if let Some(lines) = &mut trace.lines {
            lines.push(line);
        }
    }

    /// Whether what happens is kept in words.
    pub fn keeps_words(&self) -> bool {
        lock(&self.trace).lines.is_some()
    }

    /// Keeps a detail for whoever reads the words; the digest does not know of it.
    pub fn explain(&self, what: &str) {
        if let Some(lines) = &mut lock(&self.trace).lines {
            lines.push(format!("            {what}"));
        }
    }

    /// A number that is the same for two runs in which the same happened.
    pub fn digest(&self) -> u64 {
        lock(&self.trace).digest
    }

    /// What happened in words, where it was kept.
    pub fn words(&self) -> Vec<String> {
        lock(&self.trace).lines.clone().unwrap_or_default()
    }

    /// Whether there are faults.
    pub(crate) fn is_stormy(&self) -> bool {
        self.stormy.load(Ordering::SeqCst)
    }

    /// After how many events a watch is cut, if it is.
    pub(crate) fn cut(&self) -> Option<usize> {
        if !self.stormy.load(Ordering::SeqCst) {
            return None;
        }
        let mut random = lock(&self.random);
        random.percent(30).then(|| random.below(6))
    }

    /// The fate of a request, noted with what it is.
    pub(crate) fn decide(&self, operation: Operation, what: &str) -> (Fate, Duration) {
        if !self.alive.load(Ordering::SeqCst) {
            return (Fate::Silence, Duration::ZERO);
        }
        let number = match operation {
            Operation::Write => self.writes.fetch_add(1, Ordering::SeqCst),
            Operation::Read => u64::MAX,
        };
        let mut random = lock(&self.random);
        let delay = Duration::from_micros(200 + 100 * (random.next_u64() % 20));
        let fate = match (self.crashes, operation) {
            (Crashes::AfterWrite(after), Operation::Write) if after == number => Fate::Crash,
            (Crashes::AfterWrite(_), _) => Fate::Pass,
            (Crashes::Percent(_) | Crashes::Never, _) if !self.stormy.load(Ordering::SeqCst) => {
                Fate::Pass
            }
            (Crashes::Percent(percent), Operation::Write) if random.percent(percent) => Fate::Crash,
            (Crashes::Percent(_) | Crashes::Never, _) => match random.below(40) {
                0 => Fate::Unreachable,
                1 => Fate::LostRequest,
                2 => Fate::LostAnswer,
                _ => Fate::Pass,
            },
        };
        drop(random);
        self.note(&format!("{what}: {fate:?}"));
        (fate, delay)
    }
}

/// The weather as the name server sees it.
pub struct DnsWeather(pub Arc<Weather>);

impl Faults for DnsWeather {
    fn fate(&self, operation: Operation) -> (Fate, Duration) {
        self.0.decide(operation, &format!("dns {operation:?}"))
    }

    fn crash(&self) {
        self.0.crash();
    }

    fn explain(&self, what: &dyn Fn() -> String) {
        if self.0.keeps_words() {
            self.0.explain(&what());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
