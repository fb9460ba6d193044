//! What is asked of `named` about its zones: of each by a command of its own, or of many at a time.
//!
//! `named` takes one command after the other. What is asked meanwhile gathers, and whoever gets to
//! the channel next asks for all of it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bindery_core::Name;
use thiserror::Error;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep};

use super::host::on_disk;
use super::listed::Listed;
use super::rndc::{Rndc, RndcFault, RndcReason};
use super::{Options, zones};
use bindery_dns::local::Replication;

/// Additions from which on they are listed together. `addzone` takes `named` 1 ms, reading its
/// configuration again takes it 16 ms and 0.04 ms for each zone it has.
const TOGETHER_MIN: usize = 16;

/// The share of the zones that `named` has, as its denominator, that must be added beyond that.
const TOGETHER_SHARE: usize = 25;

/// Additions from which on more are expected, and waited for.
const GATHER_MIN: usize = 8;

/// How long at most; a list of all that come meanwhile takes as long to read.
const GATHER_MAX: Duration = Duration::from_millis(100);

/// How long none may have come for the list to be taken as complete.
const GATHER_POLL: Duration = Duration::from_millis(10);

/// Why `named` did not do what was asked of it.
#[derive(Clone, Debug, Error)]
pub(super) enum ControlFault {
    /// A command failed.
    #[error(transparent)]
    Command(RndcFault),
    /// The list could not be written.
    #[error("the list {path} could not be written: {source}")]
    WriteList {
        /// The list.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// It runs no more.
    #[error("it has ended")]
    Ended,
}

/// How a zone was made known to `named`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddedBy {
    /// By a command of its own, which ends when the zone is loaded.
    Command,
    /// In the list, together with others; it is loaded after that.
    List,
}

/// The control channel and who waits for it.
pub(super) struct Control {
    waiting: std::sync::Mutex<Wishes>,
    channel: Mutex<Channel>,
}

#[derive(Default)]
struct Wishes {
    adding: Vec<Wish>,
    removing: Vec<Wish>,
}

struct Wish {
    zone: Name,
    tell: oneshot::Sender<Outcome>,
}

type Outcome = Result<AddedBy, ControlFault>;

/// What only one at a time may use.
struct Channel {
    rndc: Rndc,
    role: Replication,
    key_name: String,
    listed: Listed,
    /// How many zones there are, about.
    zone_count: usize,
    /// Whether `named` refused a list; it is not tried again.
    refused: bool,
    closed: bool,
}

impl Control {
    pub(super) fn new(options: &Options, rndc: Rndc, listed: Listed) -> Self {
        let channel = Channel {
            rndc,
            role: options.role.clone(),
            key_name: options.key.name(),
            listed,
            zone_count: zones::count(&options.folder),
            refused: false,
            closed: false,
        };
        Self {
            waiting: std::sync::Mutex::default(),
            channel: Mutex::new(channel),
        }
    }

    /// Has `named` carry out a command that changes no zone.
    pub(super) async fn command(&self, command: &str) -> Result<(), ControlFault> {
        self.channel.lock().await.command(command).await
    }

    /// Has it take on a zone that it does not have.
    ///
    /// # Cancellation
    /// If dropped, whoever comes next may do it.
    pub(super) async fn add(&self, zone: &Name) -> Outcome {
        self.ask(zone, |waiting| &mut waiting.adding).await
    }

    /// Has it drop a zone; nothing if it has none of this name.
    ///
    /// # Cancellation
    /// If dropped, whoever comes next may do it.
    pub(super) async fn remove(&self, zone: &Name) -> Result<Option<AddedBy>, ControlFault> {
        match self.ask(zone, |waiting| &mut waiting.removing).await {
            Ok(way) => Ok(Some(way)),
            Err(fault) if fault.reason() == Some(RndcReason::NotFound) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Has it sign a zone by a policy; nothing where it does.
    ///
    /// # Cancellation
    /// If dropped, it may do so.
    pub(super) async fn sign(&self, zone: &Name, policy: &str) -> Result<(), ControlFault> {
        self.channel.lock().await.sign(zone, policy).await
    }

    /// Ends what is under way and refuses what comes: the folder is about to be another's.
    pub(super) async fn close(&self) {
        self.channel.lock().await.closed = true;
    }

    async fn ask(&self, zone: &Name, list: fn(&mut Wishes) -> &mut Vec<Wish>) -> Outcome {
        let (tell, mut told) = oneshot::channel();
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        list(&mut waiting()).push(Wish {
            zone: zone.clone(),
            tell,
        });
        let mut channel = self.channel.lock().await;
        // Who was here before us may have taken ours along.
        if let Ok(outcome) = told.try_recv() {
            return outcome;
        }
        self.gather().await;
        let wishes = std::mem::take(&mut *waiting());
        channel.carry_out(wishes).await;
        told.try_recv().unwrap_or(Err(ControlFault::Ended))
    }

    /// Waits for the rest where zones come in numbers.
    async fn gather(&self) {
        let count = || {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.adding.len()
        };
        let deadline = Instant::now() + GATHER_MAX;
        let mut before = 0;
        while count() >= GATHER_MIN && count() > before && Instant::now() < deadline {
            before = count();
            sleep(GATHER_POLL).await;
        }
    }
}

impl ControlFault {
    /// Whether `named` answered that it does not do it.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Command(RndcFault::Failed { .. }))
    }

    /// Why `named` does not do it, if it said so in a word that is known.
    pub(super) fn reason(&self) -> Option<RndcReason> {
        match self {
            Self::Command(fault) => fault.reason(),
            Self::WriteList { .. } | Self::Ended => None,
        }
    }
}

impl Wish {
    /// Who asked may be gone.
    fn tell(self, outcome: Outcome) {
        drop(self.tell.send(outcome));
    }
}

impl Channel {
    async fn carry_out(&mut self, wishes: Wishes) {
        let Wishes { adding, removing } = wishes;
        self.remove_all(removing).await;
        if self.is_for_the_list(&adding) {
            return self.add_together(adding).await;
        }
        for wish in adding {
            let outcome = self.add_alone(&wish.zone).await;
            wish.tell(outcome);
        }
    }

    fn is_for_the_list(&self, adding: &[Wish]) -> bool {
        let enough = TOGETHER_MIN + self.zone_count / TOGETHER_SHARE;
        // One that is on it after a lost answer must not be added otherwise too.
        let is_known = |wish: &Wish| self.listed.contains(&wish.zone);
        (!self.refused && adding.len() >= enough) || adding.iter().any(is_known)
    }

    async fn add_alone(&mut self, zone: &Name) -> Outcome {
        let command = zones::add_command(zone, &self.role, &self.key_name);
        match self.command(&command).await {
            Ok(()) => self.zone_count += 1,
            Err(fault) if fault.reason() == Some(RndcReason::Exists) => {}
            Err(fault) => return Err(fault),
        }
        Ok(AddedBy::Command)
    }

    async fn add_together(&mut self, adding: Vec<Wish>) {
        let mut longer = self.listed.clone();
        for wish in &adding {
            let statement = zones::statement(&wish.zone, &self.role, &self.key_name);
            longer.insert(&wish.zone, statement);
        }
        let outcome = self.extend_list(longer).await;
        if outcome.is_ok() {
            self.zone_count += adding.len();
        }
        for wish in adding {
            wish.tell(outcome.clone());
        }
    }

    async fn extend_list(&mut self, longer: Listed) -> Outcome {
        let before = self.listed.clone();
        self.write_list(longer).await?;
        match self.command("reconfig").await {
            Ok(()) => Ok(AddedBy::List),
            // It goes on with what it had; each of these is added by itself when it is tried again.
            Err(fault) if fault.is_refusal() => {
                self.refused = true;
                self.write_list(before).await?;
                Err(fault)
            }
            // It may have read the list all the same.
            Err(fault) => Err(fault),
        }
    }

    async fn sign(&mut self, zone: &Name, policy: &str) -> Result<(), ControlFault> {
        let shown = self.ask(&zones::show_command(zone)).await?;
        if zones::is_signed_by(&shown, policy) {
            return Ok(());
        }
        let statement = zones::signed_statement(zone, &self.role, &self.key_name, policy);
        if !self.listed.contains(zone) {
            return self.command(&zones::change_command(&statement)).await;
        }
        // What is changed by a command is not kept of a zone that its configuration has.
        let before = self.listed.clone();
        let mut changed = before.clone();
        changed.insert(zone, statement);
        self.write_list(changed).await?;
        match self.command("reconfig").await {
            Err(fault) if fault.is_refusal() => {
                self.write_list(before).await?;
                Err(fault)
            }
            done => done,
        }
    }

    async fn remove_all(&mut self, removing: Vec<Wish>) {
        let is_listed = |wish: &Wish| self.listed.contains(&wish.zone);
        let (listed, alone): (Vec<_>, Vec<_>) = removing.into_iter().partition(is_listed);
        for wish in alone {
            let outcome = self.remove_one(&wish.zone, AddedBy::Command).await;
            wish.tell(outcome);
        }
        if listed.is_empty() {
            return;
        }
        let mut shorter = self.listed.clone();
        for wish in &listed {
            shorter.remove(&wish.zone);
        }
        // Before `named` drops them: a kill in between must not bring them back without their data.
        let written = self.write_list(shorter).await;
        for wish in listed {
            let outcome = match &written {
                Ok(()) => self.remove_one(&wish.zone, AddedBy::List).await,
                Err(fault) => Err(fault.clone()),
            };
            wish.tell(outcome);
        }
    }

    async fn remove_one(&mut self, zone: &Name, way: AddedBy) -> Outcome {
        self.command(&zones::remove_command(zone)).await?;
        self.zone_count = self.zone_count.saturating_sub(1);
        Ok(way)
    }

    async fn command(&mut self, command: &str) -> Result<(), ControlFault> {
        self.ask(command).await.map(drop)
    }

    /// Has it answer a command.
    async fn ask(&mut self, command: &str) -> Result<String, ControlFault> {
        if self.closed {
            return Err(ControlFault::Ended);
        }
        let said = self.rndc.command(command).await;
        said.map_err(ControlFault::Command)
    }

    async fn write_list(&mut self, list: Listed) -> Result<(), ControlFault> {
        if self.closed {
            return Err(ControlFault::Ended);
        }
        let path = list.path().to_owned();
        let writing = list.clone();
        let written = on_disk(move || writing.write()).await;
        written.map_err(|source| ControlFault::WriteList {
            path,
            source: Arc::new(source),
        })?;
        self.listed = list;
        Ok(())
    }
}
