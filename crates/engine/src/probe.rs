//! Whether servers answer at all: one question to each, again and again, whatever else is asked of them.
//!
//! Zones are looked at too, but less often the more there are, and not while an update is on its way.

use std::time::Duration;

use bindery_core::{Fault, FaultKind, Name, ServerInfo, zones::Zones};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use crate::servers::{ServerHandle, Servers};

/// A question that is not answered within this time is a fact to tell.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How often a server that answers is asked.
const PAUSE: Duration = Duration::from_secs(1);

/// How often one that does not is asked, so that its return is seen soon.
const PAUSE_SILENT: Duration = Duration::from_millis(250);

/// The questions to all servers of a group.
pub(crate) struct Probes {
    servers: Vec<Asked>,
    running: JoinSet<(ServerInfo, Result<(), Fault>)>,
}

/// One server.
struct Asked {
    handle: ServerHandle,
    /// When it is to be asked again; never while a question is on its way.
    due: Option<Instant>,
    /// When the first question left that was not answered, if the last was not.
    unanswered: Option<Instant>,
    /// When the question left that is on its way.
    sent: Instant,
    /// What was told last; at first nothing.
    told: Option<bool>,
}

impl Probes {
    pub(crate) fn new() -> Self {
        Self {
            servers: Vec::new(),
            running: JoinSet::new(),
        }
    }

    /// Takes in which servers there are. Of one that stays where it is, it stays known how it is.
    pub(crate) fn set_servers(&mut self, servers: &Servers) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.servers);
        let asked = |handle: &ServerHandle| {
            let known = before.iter().position(|one| one.handle.info == handle.info);
            let known = known.map(|at| before.swap_remove(at));
            let asked = known.unwrap_or_else(|| Asked {
                handle: handle.clone(),
                due: Some(now + PAUSE),
                unanswered: None,
                sent: now,
                told: None,
            });
            Asked {
                handle: handle.clone(),
                ..asked
            }
        };
        self.servers = servers.iter().map(asked).collect();
    }

    /// The next server that answers for the first time, stops or resumes, and that it does.
    ///
    /// Cancellation: dropped, nothing is lost; questions on their way go on.
    pub(crate) async fn next(&mut self, zones: &Zones) -> (ServerInfo, Result<(), Fault>) {
        loop {
            let due = self.servers.iter().filter_map(|one| one.due).min();
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(Ok((server, answer))) = self.running.join_next() => {
                    if let Some(news) = self.take(&server, answer) {
                        return (server, news);
                    }
                }
                () = wait => self.ask(&zones.probe().unwrap_or_else(Name::root)),
            }
        }
    }

    /// Asks every server that is due for a zone; any answer will do, so it need not have it.
    fn ask(&mut self, zone: &Name) {
        let now = Instant::now();
        for one in &mut self.servers {
            if one.due.is_none_or(|due| due > now) {
                continue;
            }
            (one.due, one.sent) = (None, now);
            let (handle, zone) = (one.handle.clone(), zone.clone());
            self.running.spawn(async move {
                let answer = question(&handle, &zone).await;
                (handle.info, answer)
            });
        }
    }

    /// Takes an answer in, and says what is to be told.
    fn take(
        &mut self,
        server: &ServerInfo,
        answer: Result<(), Fault>,
    ) -> Option<Result<(), Fault>> {
        // The answer of one that was taken out or moved meanwhile says nothing.
        let mut servers = self.servers.iter_mut();
        let one = servers.find(|one| one.handle.info == *server)?;
        let now = Instant::now();
        let server = &*server.address;
        match answer {
            Ok(()) => {
                one.due = Some(now + PAUSE);
                one.unanswered = None;
                let before = one.told.replace(true);
                if before == Some(false) {
                    tracing::info!(server, "the name server answers again");
                }
                (before != Some(true)).then_some(Ok(()))
            }
            Err(fault) => {
                one.due = Some(now + PAUSE_SILENT);
                let since = *one.unanswered.get_or_insert(one.sent);
                // One that is being started again refuses for a moment.
                if now < since + ANSWER_MAX || one.told.replace(false) == Some(false) {
                    return None;
                }
                tracing::warn!(server, %fault, "the name server does not answer");
                Some(Err(fault))
            }
        }
    }
}

/// Asks one server; any answer will do.
async fn question(handle: &ServerHandle, zone: &Name) -> Result<(), Fault> {
    let address = &handle.info.address;
    match timeout(ANSWER_MAX, handle.server.serial(zone)).await {
        Ok(Err(fault)) if fault.kind.is_silence() => Err(fault),
        Ok(Ok(_) | Err(_)) => Ok(()),
        Err(_) => {
            let message = format!(
                "name server {address} did not answer within {} seconds: see whether it runs and is \
                 not stopped",
                ANSWER_MAX.as_secs()
            );
            Err(Fault::new(FaultKind::Lost, message))
        }
    }
}
