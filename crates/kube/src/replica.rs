//! This process among others that watch the same objects: only the one that was elected works.

use bindery_engine::Fence;
use tokio_util::sync::CancellationToken;

/// What a process knows of its part. Clones are the same part.
#[derive(Clone, Default)]
pub struct Replica {
    /// What every write passes.
    pub fence: Fence,
    /// Cancelled once this process was elected for the first time; from then on it works.
    pub elected: CancellationToken,
}

impl Replica {
    /// A process without others.
    #[must_use]
    pub fn alone() -> Self {
        let alone = Self::default();
        alone.elected.cancel();
        alone
    }

    /// One that waits to be elected, behind this fence.
    #[must_use]
    pub fn standby(fence: Fence) -> Self {
        Self {
            fence,
            elected: CancellationToken::new(),
        }
    }

    /// Whether it has not been elected yet: it keeps what it reads at hand and writes nothing.
    pub(crate) fn stands_by(&self) -> bool {
        !self.elected.is_cancelled()
    }
}
