//! Readiness that is true: every part opens its own gate, and all must be open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// All gates of this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<Mutex<Vec<Gate>>>);

/// One thing that has to be so before Bindery is ready.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    what: Arc<str>,
    open: Arc<AtomicBool>,
}

impl Readiness {
    /// A new gate, closed. `what` completes the sentence "waiting for …".
    pub(crate) fn gate(&self, what: &str) -> Gate {
        let gate = Gate {
            what: what.into(),
            open: Arc::new(AtomicBool::new(false)),
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(gate.clone());
        gate
    }

    /// What is waited for; empty where Bindery is ready.
    pub(crate) fn waiting(&self) -> Vec<Arc<str>> {
        let gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates
            .iter()
            .filter(|gate| !gate.is_open())
            .map(|gate| Arc::clone(&gate.what))
            .collect()
    }
}

impl Gate {
    /// It is so.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    /// It is no longer so.
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_gate_is_open() {
        let readiness = Readiness::default();
        let (api, dns) = (readiness.gate("the API"), readiness.gate("the name server"));
        api.open();
        assert_eq!(readiness.waiting(), ["the name server".into()]);
        dns.open();
        assert!(readiness.waiting().is_empty());
        api.close();
        assert_eq!(readiness.waiting(), ["the API".into()]);
    }
}
