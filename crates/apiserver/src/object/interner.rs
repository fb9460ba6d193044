//! Texts that many objects have, kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Texts below this number are not looked through for those that nobody has any longer.
const SWEEP_MIN: usize = 1_000;

/// The texts that objects have in common, such as their labels.
#[derive(Default)]
pub(crate) struct Interner {
    texts: BTreeSet<Arc<str>>,
    /// So many were left when they were last looked through.
    left: usize,
}

impl Interner {
    /// The text, shared with whoever has the same.
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        // Looked through when they have doubled, so a text costs the same however many there are.
        if self.texts.len() >= SWEEP_MIN.max(self.left * 2) {
            self.texts.retain(|one| Arc::strong_count(one) > 1);
            self.left = self.texts.len();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_unused_ones_go() {
        let mut interner = Interner::default();
        let first = interner.share("zone=a");
        assert!(Arc::ptr_eq(&first, &interner.share("zone=a")));
        for number in 0..3 * SWEEP_MIN {
            interner.share(&number.to_string());
        }
        assert!(interner.texts.len() <= SWEEP_MIN + 1);
        assert!(Arc::ptr_eq(&first, &interner.share("zone=a")));
    }
}
