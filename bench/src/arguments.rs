//! The command line of the benchmark.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures Bindery on this machine, beside nsupdate on the same name server, and prints a table.

Usage: cargo xtask bench [-- OPTIONS]

  --quick               small sizes, fewer events and rounds; some minutes
  --records N           records that stand while events are measured (10000)
  --zones N             zones that stand, with ten times as many records, when the cost of one
                        event is compared with that at 10 zones and 100 records (1000)
  --new-zones N         zones that are added at once (1000)
  --memory-records N    records that stand when the memory of `bindery run` is taken (100000)
  --standing-records N  records that stand when memory, disk and restarts of `bindery up` are
                        measured, and a tenth of them before (50000)
  --services LIST       Services for which the engine of load balancers is measured, the smallest
                        number first (1000,5000,10000)
  --endpoints N         endpoints of each of them (10)
  --churn-seconds N     how long endpoints and Services come and go (15; 600 tells of backlogs)
  --events N            single writes whose way is timed (300)
  --rounds N            rounds of what is cheap to repeat; the median counts (3)
  --only GROUPS         some of one,three,primaries,growth,zones,standing,memory,
                        cluster,servers,balancers,dataplane (all)
  --server WHICH        named, builtin or both (both)
  --without-peer        do not measure external-dns beside the memory of `bindery run`
  --binary FILE         measure this binary instead of building one
  --folder DIR          where data folders are made; a real disk, or fsync costs nothing (/tmp)
  --help                this text
";

/// A name server that Bindery runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// BIND's.
    Named,
    /// Bindery's own.
    Builtin,
}

impl Which {
    /// As `--server` of `bindery up` takes it, and the name of its folder in the data folder.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Builtin => "builtin",
        }
    }
}

/// Measurements that belong together, with a table of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// One name server.
    One,
    /// One primary and two secondaries.
    Three,
    /// Three primaries.
    Primaries,
    /// Few zones and records, and many.
    Growth,
    /// Many zones added at once.
    Zones,
    /// Memory, disk and restarts with many records.
    Standing,
    /// The controllers alone, with many records; measured on `named`.
    Memory,
    /// The controllers on a real kube-apiserver, beside external-dns; measured on `named`.
    Cluster,
    /// A declared cluster of name servers, as pods.
    Servers,
    /// The engine of load balancers.
    Balancers,
    /// The proxy and the rules of the kernel.
    Dataplane,
}

impl Group {
    /// All, in the order in which they are measured.
    const ALL: [Self; 11] = [
        Self::One,
        Self::Three,
        Self::Primaries,
        Self::Growth,
        Self::Zones,
        Self::Standing,
        Self::Memory,
        Self::Cluster,
        Self::Servers,
        Self::Balancers,
        Self::Dataplane,
    ];

    /// As `--only` takes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Three => "three",
            Self::Primaries => "primaries",
            Self::Growth => "growth",
            Self::Zones => "zones",
            Self::Standing => "standing",
            Self::Memory => "memory",
            Self::Cluster => "cluster",
            Self::Servers => "servers",
            Self::Balancers => "balancers",
            Self::Dataplane => "dataplane",
        }
    }

    /// Whether it is measured on a name server that `--server` chooses.
    pub(crate) const fn has_server(self) -> bool {
        !matches!(self, Self::Servers) && self.has_binary()
    }

    /// Whether the binary is measured, rather than parts of it in this process.
    pub(crate) const fn has_binary(self) -> bool {
        !matches!(self, Self::Balancers | Self::Dataplane)
    }
}

/// Processes of `nsupdate` that are timed one by one.
const SINGLES_MAX: usize = 100;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// Records that stand.
    pub(crate) records: usize,
    /// Zones that stand at the large size, with ten times as many records.
    pub(crate) zones: usize,
    /// Zones that are added at once.
    pub(crate) new_zones: usize,
    /// Records that stand when the memory of the controllers alone is measured.
    pub(crate) memory_records: usize,
    /// Records that stand when memory, disk and restarts are measured.
    pub(crate) standing_records: usize,
    /// Whether external-dns is measured beside the memory of the controllers.
    pub(crate) has_peer: bool,
    /// Services for which the engine of load balancers is measured, the smallest number first.
    pub(crate) services: Vec<usize>,
    /// Endpoints of each of them.
    pub(crate) endpoints: usize,
    /// How long endpoints and Services come and go.
    pub(crate) churn_seconds: usize,
    /// Numbers of Services that this process is to hold, as a part of another run.
    pub(crate) hold: Option<Vec<usize>>,
    /// Single events.
    pub(crate) events: usize,
    /// Rounds of what is repeated.
    pub(crate) rounds: usize,
    /// Which groups.
    pub(crate) groups: Vec<Group>,
    /// On which name servers.
    pub(crate) servers: Vec<Which>,
    /// A binary that was built already.
    pub(crate) binary: Option<PathBuf>,
    /// Where data folders are made.
    pub(crate) folder: PathBuf,
}

impl Arguments {
    /// Reads the command line; `None` where help was asked for.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut parsed = Self {
            records: 10_000,
            zones: 1_000,
            new_zones: 1_000,
            memory_records: 100_000,
            standing_records: 50_000,
            has_peer: true,
            services: vec![1_000, 5_000, 10_000],
            endpoints: 10,
            churn_seconds: 15,
            hold: None,
            events: 300,
            rounds: 3,
            groups: Group::ALL.to_vec(),
            servers: vec![Which::Named, Which::Builtin],
            binary: None,
            folder: std::env::temp_dir(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => {
                    (parsed.records, parsed.events, parsed.rounds) = (1_000, 60, 1);
                    (parsed.zones, parsed.new_zones) = (100, 100);
                    (parsed.memory_records, parsed.standing_records) = (10_000, 5_000);
                    (parsed.services, parsed.churn_seconds) = (vec![200, 1_000], 3);
                }
                "--records" => parsed.records = count(&value()?)?,
                "--zones" => parsed.zones = count(&value()?)?,
                "--new-zones" => parsed.new_zones = count(&value()?)?,
                "--standing-records" => parsed.standing_records = count(&value()?)?,
                "--without-peer" => parsed.has_peer = false,
                "--memory-records" => parsed.memory_records = count(&value()?)?,
                "--services" => parsed.services = counts(&value()?)?,
                "--endpoints" => parsed.endpoints = count(&value()?)?,
                "--churn-seconds" => parsed.churn_seconds = count(&value()?)?,
                // Not in the help: only this program says it, to itself.
                "--hold" => parsed.hold = Some(counts(&value()?)?),
                "--events" => parsed.events = count(&value()?)?,
                "--rounds" => parsed.rounds = count(&value()?)?,
                "--only" => parsed.groups = groups(&value()?)?,
                "--server" => parsed.servers = servers(&value()?)?,
                "--binary" => parsed.binary = Some(value()?.into()),
                "--folder" => parsed.folder = value()?.into(),
                other => bail!("unknown option {other}; see --help"),
            }
        }
        Ok(Some(parsed))
    }

    /// How many processes of `nsupdate` are timed one by one; each is slow to start.
    pub(crate) fn singles(&self) -> usize {
        SINGLES_MAX.min(self.events)
    }
}

fn count(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => bail!("{text} is not a number above 0"),
    }
}

/// Numbers with commas between them, each larger than the one before.
fn counts(text: &str) -> Result<Vec<usize>> {
    let counts: Vec<usize> = text.split(',').map(count).collect::<Result<_>>()?;
    if !counts.is_sorted_by(|one, next| one < next) {
        bail!("{text} does not grow from number to number");
    }
    Ok(counts)
}

fn groups(text: &str) -> Result<Vec<Group>> {
    let known = Group::ALL.map(Group::as_str);
    let named = |word: &str| {
        let found = Group::ALL.into_iter().find(|group| group.as_str() == word);
        found.with_context(|| format!("unknown group {word}; there are {}", known.join(", ")))
    };
    text.split(',').map(named).collect()
}

fn servers(text: &str) -> Result<Vec<Which>> {
    match text {
        "named" => Ok(vec![Which::Named]),
        "builtin" => Ok(vec![Which::Builtin]),
        "both" => Ok(vec![Which::Named, Which::Builtin]),
        other => bail!("unknown server {other}; named, builtin or both"),
    }
}
