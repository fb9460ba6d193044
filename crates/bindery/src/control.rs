//! Engine and controllers, the same for `up` and `run`.

use bindery_core::zones::Limits;
use bindery_engine::supervisor::Supervisor;
use bindery_engine::{Engine, Servers};
use kube::Client;

use crate::metrics::Readiness;

/// What the controllers work on.
pub(crate) struct Wanted<'a> {
    /// The Kubernetes API.
    pub(crate) client: Client,
    /// The name server.
    pub(crate) servers: Servers,
    /// Where the name server is, as statuses name it.
    pub(crate) address: String,
    pub(crate) readiness: &'a Readiness,
}

/// What runs.
pub(crate) struct Control {
    pub(crate) engine: Engine,
}

/// Starts engine and controllers as tasks of `work`.
pub(crate) fn start(wanted: Wanted<'_>, work: &mut Supervisor) -> Control {
    let Wanted {
        client,
        servers,
        address,
        readiness,
    } = wanted;
    let (engine, running) = Engine::start(servers, Limits::default(), work.stop_token());
    work.spawn("engine", running);
    Control { engine }
}
