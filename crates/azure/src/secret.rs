//! Texts that are never printed.

use std::sync::Arc;

use zeroize::Zeroizing;

/// A password or a token. It has no printed form, and its memory is cleared. Clones are the same.
#[derive(Clone)]
pub struct AzureSecret(Arc<Zeroizing<String>>);

impl AzureSecret {
    /// Hides a text; white space around it is not part of it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::new(Zeroizing::new(text.trim().to_owned())))
    }

    /// The text, for whom it is meant.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}
