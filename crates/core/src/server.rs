//! Name servers as data: who a server is, where it listens and what it does.

use std::{fmt, sync::Arc};

/// What a server does for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerRole {
    /// It takes updates.
    Primary,
    /// It fetches the zone from primaries.
    Secondary,
}

impl ServerRole {
    /// The word as it stands in a status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// Who a server is, whatever its address, key and place in a list are.
///
/// Answers carry it, so that an answer never counts for another server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Arc<str>);

impl ServerId {
    /// The server of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Who it is.
    pub id: ServerId,
    /// Where it listens: `192.0.2.1:53`.
    pub address: Arc<str>,
    /// What it does.
    pub role: ServerRole,
}

impl ServerInfo {
    /// A server that has no other name than its address.
    #[must_use]
    pub fn at(address: &str, role: ServerRole) -> Self {
        Self {
            id: ServerId::new(address),
            address: address.into(),
            role,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_by_its_name_and_its_role() {
        let roles = [ServerRole::Primary, ServerRole::Secondary];
        assert_eq!(roles.map(ServerRole::as_str), ["primary", "secondary"]);
        let id = ServerId::new("192.0.2.1:53");
        assert_eq!(
            (id.as_str(), &*id.to_string()),
            ("192.0.2.1:53", "192.0.2.1:53")
        );
    }
}
