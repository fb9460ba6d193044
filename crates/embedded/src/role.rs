//! What a local name server is to others: the source of its zones, or a follower of the source.

use std::net::SocketAddr;

/// The role of a name server, for all of its zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
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

impl Role {
    /// Who is told of changes.
    pub(crate) fn notify(&self) -> &[SocketAddr] {
        match self {
            Self::Primary { notify } => notify,
            Self::Secondary { .. } => &[],
        }
    }

    /// Where zones are copied from; `None` if they are not.
    pub(crate) fn primaries(&self) -> Option<&[SocketAddr]> {
        match self {
            Self::Primary { .. } => None,
            Self::Secondary { primaries } => Some(primaries),
        }
    }
}

/// A primary that tells nobody.
impl Default for Role {
    fn default() -> Self {
        Self::Primary { notify: Vec::new() }
    }
}
