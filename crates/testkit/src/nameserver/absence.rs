//! A server that does not answer, and comes back.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bindery_core::{Change, Fault, FaultKind, Name};
use tokio::{sync::Notify, time::timeout};

use super::FakeNameServer;

/// How long a client waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Whether a server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// It does.
    #[default]
    Present,
    /// It does not run: connections to it are refused.
    Down,
    /// It is stopped: what it was asked waits, and is carried out when it goes on.
    Stopped,
    /// It was taken out of service, and nobody asks it any more.
    Out,
}

/// Whether a server answers, and who waits for it to.
///
/// Those who wait go on in the order in which they began, so that the same seed gives the same run. Tokio's
/// `watch` draws by lot who is woken first.
#[derive(Debug, Default)]
pub(super) struct Presence {
    absence: Mutex<Absence>,
    changed: Notify,
}

impl Presence {
    fn get(&self) -> Absence {
        *self.absence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, absence: Absence) -> Absence {
        let mut present = self.absence.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *present, absence);
        self.changed.notify_waiters();
        before
    }

    /// How the server is once it is not stopped.
    async fn goes_on(&self) -> Absence {
        loop {
            // Asked for before looking, so that no change in between is missed.
            let changed = self.changed.notified();
            let absence = self.get();
            if absence != Absence::Stopped {
                return absence;
            }
            changed.await;
        }
    }
}

impl FakeNameServer {
    /// How it is.
    #[must_use]
    pub fn absence(&self) -> Absence {
        self.absence.get()
    }

    /// Whether it answers.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.absence() == Absence::Present
    }

    /// Stops answering, or answers again.
    pub fn set_absence(&self, absence: Absence) {
        let before = self.absence.replace(absence);
        let late = std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
        if before != Absence::Stopped || absence != Absence::Present {
            return;
        }
        for (zone, changes) in late {
            // Nobody waits for these answers any more.
            let _unheard = self.work(|zones| self.carry_out(zones, &zone, &changes));
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.absence() == Absence::Stopped
    }

    /// Keeps an update that a stopped server received.
    pub(super) fn arrives_late(&self, zone: &Name, changes: &[Change]) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.push((zone.clone(), changes.to_vec()));
    }

    /// Ends when a request has reached the server.
    pub(super) async fn arrive(&self) -> Result<(), Fault> {
        let goes_on = timeout(ANSWER_MAX, self.absence.goes_on()).await;
        match goes_on.unwrap_or(Absence::Stopped) {
            Absence::Present => Ok(()),
            Absence::Stopped => Err(Fault::new(FaultKind::Lost, "no answer in time")),
            Absence::Down | Absence::Out => {
                Err(Fault::new(FaultKind::Unreachable, "connection refused"))
            }
        }
    }
}
