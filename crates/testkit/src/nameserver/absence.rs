//! A server that does not answer, and comes back.

use std::{sync::PoisonError, time::Duration};

use bindery_core::{Change, Fault, FaultKind, Name};
use tokio::time::timeout;

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

impl FakeNameServer {
    /// How it is.
    #[must_use]
    pub fn absence(&self) -> Absence {
        *self.absence.borrow()
    }

    /// Whether it answers.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.absence() == Absence::Present
    }

    /// Stops answering, or answers again.
    pub fn set_absence(&self, absence: Absence) {
        let before = self.absence.send_replace(absence);
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
        let mut absence = self.absence.subscribe();
        let goes_on = absence.wait_for(|absence| *absence != Absence::Stopped);
        let absence = match timeout(ANSWER_MAX, goes_on).await {
            Ok(Ok(absence)) => *absence,
            Ok(Err(_)) | Err(_) => Absence::Stopped,
        };
        match absence {
            Absence::Present => Ok(()),
            Absence::Stopped => Err(Fault::new(FaultKind::Lost, "no answer in time")),
            Absence::Down | Absence::Out => {
                Err(Fault::new(FaultKind::Unreachable, "connection refused"))
            }
        }
    }
}
