//! Readiness that is true: every part opens its own gate, and all must be open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All gates of this process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Gates>>);

#[derive(Default)]
struct Gates {
    gates: Vec<Gate>,
    questions: Vec<Question>,
}

/// What is waited for now, where that is found out by asking.
type Question = Box<dyn Fn() -> Vec<Arc<str>> + Send>;

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
        self.lock().gates.push(gate.clone());
        gate
    }

    /// Asks this whenever somebody wants to know; what it returns completes "waiting for …".
    pub(crate) fn ask(&self, question: impl Fn() -> Vec<Arc<str>> + Send + 'static) {
        self.lock().questions.push(Box::new(question));
    }

    /// What is waited for; empty where Bindery is ready.
    pub(crate) fn waiting(&self) -> Vec<Arc<str>> {
        let all = self.lock();
        let closed = all.gates.iter().filter(|gate| !gate.is_open());
        let closed = closed.map(|gate| Arc::clone(&gate.what));
        let asked = all.questions.iter().flat_map(|question| question());
        closed.chain(asked).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Gates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// It is so.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
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
        readiness.ask(|| vec!["the Moon".into()]);
        assert_eq!(readiness.waiting(), ["the Moon".into()]);
    }
}
