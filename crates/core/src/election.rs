//! Which of several replicas leads: what to do about their Lease, from what was seen of it.
//!
//! Only this machine's own clock counts, and of the Lease only that it changed: the times that others wrote
//! into it are not looked at, so clocks of machines may differ. A replica that leads believes in it for three
//! quarters of the Lease's duration from the moment at which it *sent* the last request that renewed it. The
//! others wait the whole duration from the moment at which they *saw* the Lease change, which is later. So at
//! most one believes that it leads, as long as no clock runs faster than another by a quarter.

use std::{sync::Arc, time::Duration};

/// How long a Lease holds, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    duration: Duration,
}

impl LeaseTiming {
    /// A Lease that holds for so many seconds, two at least.
    #[must_use]
    pub fn of_seconds(seconds: u16) -> Self {
        Self {
            duration: Duration::from_secs(seconds.max(2).into()),
        }
    }

    /// How long others wait after the Lease last changed.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.duration
    }

    /// How long its holder may write after it sent the last request that renewed it.
    #[must_use]
    pub fn deadline(self) -> Duration {
        self.duration * 3 / 4
    }

    /// How often its holder renews it: three attempts have room before the deadline.
    #[must_use]
    pub fn period(self) -> Duration {
        self.duration / 4
    }
}

/// A Lease as the API showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLease {
    /// Who holds it; `None` where it was released.
    pub holder: Option<Arc<str>>,
    /// How long its holder keeps it, where that is said.
    pub duration: Option<Duration>,
    /// How often it went to another holder.
    pub transitions: i32,
    /// Changes with every write.
    pub version: Arc<str>,
}

/// A Lease as it is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseWrite {
    /// Who is to hold it; `None` releases it.
    pub holder: Option<Arc<str>>,
    /// How often it went to another holder.
    pub transitions: i32,
    /// The version that must stand there; `None` where there must be no Lease.
    pub version: Option<Arc<str>>,
}

/// What a replica is to do about the Lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAct {
    /// Look at it: what is known of it may be wrong.
    Read,
    /// Write it, with its version as a precondition.
    Write(LeaseWrite),
    /// Nothing until then, or until it changes; at the latest.
    WaitUntil(Duration),
    /// Nothing any more: somebody else has had it.
    Stop,
}

/// What a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It waits, with all that it has read at hand.
    Standby,
    /// It holds the Lease and may write.
    Leading,
    /// It has held the Lease, could not renew it in time and may not write. Nobody else has had the Lease
    /// as far as is known, so what this replica knows may still be true.
    Lapsed,
    /// Somebody else has had the Lease meanwhile: what this replica knows is of no use any more.
    Lost,
}

/// One replica's part in the election. Times are of one clock of its machine, which only goes forward.
#[derive(Clone, Debug)]
pub struct Election {
    identity: Arc<str>,
    timing: LeaseTiming,
    record: LeaseRecord,
    /// Whether what is known of the Lease may be wrong.
    is_doubtful: bool,
    tenure: Option<Tenure>,
    is_lost: bool,
}

/// What is known of the Lease.
#[derive(Clone, Debug)]
enum LeaseRecord {
    /// There is none, or nothing was seen yet.
    Absent,
    /// As it was last seen, and when it was first seen so.
    Seen(SeenLease, Duration),
}

/// The time during which a replica holds the Lease without a break.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    transitions: i32,
    /// When the last request that renewed it was sent; `None` where no answer to one came yet.
    renewed: Option<Duration>,
}

impl Election {
    /// A replica that has seen nothing yet. No other, and no earlier process of its own, may have this
    /// identity.
    #[must_use]
    pub fn new(identity: impl Into<Arc<str>>, timing: LeaseTiming) -> Self {
        Self {
            identity: identity.into(),
            timing,
            record: LeaseRecord::Absent,
            is_doubtful: true,
            tenure: None,
            is_lost: false,
        }
    }

    /// Who this replica is.
    #[must_use]
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Who holds the Lease, as far as is known.
    #[must_use]
    pub fn holder(&self) -> Option<&Arc<str>> {
        match &self.record {
            LeaseRecord::Seen(lease, _) => lease.holder.as_ref(),
            LeaseRecord::Absent => None,
        }
    }

    /// Whether somebody else has had the Lease since this replica led.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.is_lost && self.tenure.is_some()
    }

    /// The version of the Lease as it was last seen.
    #[must_use]
    pub fn version(&self) -> Option<&Arc<str>> {
        match &self.record {
            LeaseRecord::Seen(lease, _) => Some(&lease.version),
            LeaseRecord::Absent => None,
        }
    }

    /// What this replica is.
    #[must_use]
    pub fn leadership(&self, now: Duration) -> Leadership {
        if self.is_lost {
            return Leadership::Lost;
        }
        match (self.tenure, self.valid_until()) {
            (_, Some(until)) if now < until => Leadership::Leading,
            (Some(Tenure { renewed, .. }), _) if renewed.is_some() => Leadership::Lapsed,
            _ => Leadership::Standby,
        }
    }

    /// Until when this replica may write; `None` where it may not.
    #[must_use]
    pub fn valid_until(&self) -> Option<Duration> {
        let renewed = self.tenure.filter(|_| !self.is_lost)?.renewed?;
        Some(renewed + self.timing.deadline())
    }

    /// What to do now.
    #[must_use]
    pub fn next(&self, now: Duration) -> LeaseAct {
        if self.is_lost {
            return LeaseAct::Stop;
        }
        if self.is_doubtful {
            return LeaseAct::Read;
        }
        let (lease, seen) = match &self.record {
            LeaseRecord::Absent => return LeaseAct::Write(self.own(0, None)),
            LeaseRecord::Seen(lease, seen) => (lease, *seen),
        };
        let version = Some(Arc::clone(&lease.version));
        if let Some(tenure) = self.tenure {
            let due = tenure.renewed.map(|renewed| renewed + self.timing.period());
            return match due {
                Some(due) if now < due => LeaseAct::WaitUntil(due),
                Some(_) | None => LeaseAct::Write(self.own(tenure.transitions, version)),
            };
        }
        let free = match lease.holder {
            Some(_) => seen + lease.duration.unwrap_or(self.timing.duration),
            None => seen,
        };
        if now < free {
            return LeaseAct::WaitUntil(free);
        }
        LeaseAct::Write(self.own(lease.transitions.saturating_add(1), version))
    }

    /// Takes in what the API shows; `None` where there is no Lease.
    pub fn see(&mut self, lease: Option<SeenLease>, now: Duration) {
        let holder = lease.as_ref().and_then(|lease| lease.holder.as_ref());
        let is_ours = holder == Some(&self.identity);
        let transitions = lease.as_ref().map(|lease| lease.transitions);
        match self.tenure {
            // It went to somebody else and came back, or is somebody else's, or was taken away.
            Some(tenure) if tenure.renewed.is_some() => {
                self.is_lost |= !is_ours || transitions != Some(tenure.transitions);
            }
            // A request of ours was carried out and its answer lost. It counts once the Lease is renewed.
            Some(_) | None => {
                let transitions = transitions.filter(|_| is_ours);
                self.tenure = transitions.map(|transitions| Tenure {
                    transitions,
                    renewed: None,
                });
            }
        }
        self.is_doubtful = false;
        let known = match &self.record {
            LeaseRecord::Seen(known, at) => Some((&known.version, *at)),
            LeaseRecord::Absent => None,
        };
        self.record = match lease {
            None => LeaseRecord::Absent,
            Some(lease) => {
                let at = known.filter(|(version, _)| **version == lease.version);
                LeaseRecord::Seen(lease, at.map_or(now, |(_, at)| at))
            }
        };
    }

    /// Takes in that a write that was sent at this time was carried out, and what stands there now.
    pub fn wrote(&mut self, sent: Duration, lease: SeenLease) {
        self.tenure = (lease.holder.as_ref() == Some(&self.identity)).then_some(Tenure {
            transitions: lease.transitions,
            renewed: Some(sent),
        });
        self.record = LeaseRecord::Seen(lease, sent);
        self.is_doubtful = false;
    }

    /// Takes in that it is not known what became of a write, or that it was refused: only looking tells
    /// what stands there. When it was last seen to change stays known.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// What releases the Lease, where this replica has it. It may not write any more from here on.
    pub fn release(&mut self) -> Option<LeaseWrite> {
        let tenure = self.tenure.take().filter(|_| !self.is_lost)?;
        self.is_lost = true;
        match &self.record {
            LeaseRecord::Seen(lease, _) => Some(LeaseWrite {
                holder: None,
                transitions: tenure.transitions,
                version: Some(Arc::clone(&lease.version)),
            }),
            LeaseRecord::Absent => None,
        }
    }

    fn own(&self, transitions: i32, version: Option<Arc<str>>) -> LeaseWrite {
        LeaseWrite {
            holder: Some(Arc::clone(&self.identity)),
            transitions,
            version,
        }
    }
}

#[cfg(test)]
mod tests;
