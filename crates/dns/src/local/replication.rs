//! How the zones of a name server get to others: it is their primary, or a secondary of other servers.

use std::net::SocketAddr;

/// Whether a name server is the primary of all of its zones or a secondary, and whom it talks to for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It takes updates and tells others of them.
    Primary {
        /// Who is told.
        notify: Vec<SocketAddr>,
    },
    /// It takes no updates and copies its zones from primaries.
    Secondary {
        /// Where from; each may have what another does not have yet, so all are asked.
        primaries: Vec<SocketAddr>,
    },
}

impl Replication {
    /// Who is told of changes.
    #[must_use]
    pub fn notify(&self) -> &[SocketAddr] {
        match self {
            Self::Primary { notify } => notify,
            Self::Secondary { .. } => &[],
        }
    }

    /// Where zones are copied from; `None` if they are not.
    #[must_use]
    pub fn primaries(&self) -> Option<&[SocketAddr]> {
        match self {
            Self::Primary { .. } => None,
            Self::Secondary { primaries } => Some(primaries),
        }
    }
}

/// A primary that tells nobody.
impl Default for Replication {
    fn default() -> Self {
        Self::Primary { notify: Vec::new() }
    }
}
