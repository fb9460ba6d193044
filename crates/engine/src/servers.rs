//! Name servers with the connections to them.

use std::{collections::BTreeMap, sync::Arc};

use bindery_core::{Group, Serial, ServerId, ServerInfo, ServerRole};

use crate::{
    completed::Completed,
    ports::{NameServer, Provider, ZoneHost},
};

/// One name server.
#[derive(Clone)]
pub struct ServerHandle {
    /// Who it is, its address and what it does.
    pub info: ServerInfo,
    /// Where updates go and answers come from.
    pub server: Arc<dyn NameServer>,
    /// Who creates zones, where Bindery manages the server.
    pub host: Option<Arc<dyn ZoneHost>>,
}

impl ServerHandle {
    /// A provider, with what it lacks made up for; versions of zones without serials are counted from
    /// `first`.
    #[must_use]
    pub fn of_provider(info: ServerInfo, provider: Arc<dyn Provider>, first: Serial) -> Self {
        let has_host = provider.hosting().is_some();
        let server = Arc::new(Completed::new(provider, first));
        let host = has_host.then(|| Arc::clone(&server) as Arc<dyn ZoneHost>);
        Self { info, server, host }
    }
}

/// The servers of a group, in the order in which they are named: while nothing else is known, the first
/// primary leads.
#[derive(Clone)]
pub struct Servers(Arc<[ServerHandle]>);

impl Default for Servers {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl FromIterator<ServerHandle> for Servers {
    fn from_iter<I: IntoIterator<Item = ServerHandle>>(servers: I) -> Self {
        Self(servers.into_iter().collect())
    }
}

impl Servers {
    /// A single primary.
    #[must_use]
    pub fn one(
        address: &str,
        server: Arc<dyn NameServer>,
        host: Option<Arc<dyn ZoneHost>>,
    ) -> Self {
        let info = ServerInfo::at(address, ServerRole::Primary);
        let handle = ServerHandle { info, server, host };
        [handle].into_iter().collect()
    }

    /// As the only group, which every zone is on.
    #[must_use]
    pub fn alone(self) -> BTreeMap<Group, Self> {
        BTreeMap::from([(Group::UNNAMED, self)])
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them in their order.
    pub fn iter(&self) -> impl Iterator<Item = &ServerHandle> {
        self.0.iter()
    }

    /// The first that takes updates.
    #[must_use]
    pub fn first_primary(&self) -> Option<&ServerHandle> {
        self.iter().find(|one| one.info.role == ServerRole::Primary)
    }

    pub(crate) fn find(&self, id: &ServerId) -> Option<&ServerHandle> {
        self.iter().find(|one| one.info.id == *id)
    }

    pub(crate) fn infos(&self) -> Vec<ServerInfo> {
        self.iter().map(|one| one.info.clone()).collect()
    }
}
