//! Asks the sidecar of every pod how it is, again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bindery_core::{Name, Serial};
use bindery_sources::clusters::SidecarView;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store::ObjectPlace;
use super::{SecretText, ServerContext, ServerWork, Sidecar, SidecarAnswer};
use crate::controllers::Handle;

/// How often each is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// After this time a zone whose serial is not known is not served: no pod need wait to hear of it.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// What sidecars said last, by pod.
#[derive(Default)]
pub(super) struct SidecarProbes(Mutex<BTreeMap<ObjectPlace, Probe>>);

/// A pod that is asked.
struct Asked {
    pod: ObjectPlace,
    instance: ObjectPlace,
    sidecar: Arc<dyn Sidecar>,
}

struct Probe {
    instance: ObjectPlace,
    sidecar: Arc<dyn Sidecar>,
    said: SidecarAnswer,
}

impl SidecarProbes {
    /// The pods that are to be asked from now on. What is known of one that stays is kept.
    pub(super) fn set(&self, instance: &ObjectPlace, pods: Vec<(ObjectPlace, Arc<dyn Sidecar>)>) {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before: BTreeMap<ObjectPlace, Probe> = BTreeMap::new();
        let known: Vec<ObjectPlace> = probes
            .iter()
            .filter(|(_, probe)| probe.instance == *instance)
            .map(|(pod, _)| pod.clone())
            .collect();
        for pod in known {
            if let Some(probe) = probes.remove(&pod) {
                before.insert(pod, probe);
            }
        }
        for (pod, sidecar) in pods {
            let known = before.remove(&pod);
            let said = match known {
                Some(known) if Arc::ptr_eq(&known.sidecar, &sidecar) => known.said,
                // It is spoken to in another way; the keys of its server are what they are.
                Some(known) => SidecarAnswer {
                    keys: known.said.keys,
                    signing_keys: known.said.signing_keys,
                    ..SidecarAnswer::default()
                },
                None => SidecarAnswer::default(),
            };
            let probe = Probe {
                instance: instance.clone(),
                sidecar,
                said,
            };
            probes.insert(pod, probe);
        }
    }

    /// What the sidecar of a pod said last.
    pub(super) fn said(&self, pod: &ObjectPlace) -> SidecarView {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        probes
            .get(pod)
            .map(|probe| probe.said.view.clone())
            .unwrap_or_default()
    }

    /// By which the keys that the server of a pod signs zones with are told from others.
    pub(super) fn signing_keys(&self, pod: &ObjectPlace) -> Option<String> {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = &probes.get(pod)?.said;
        let is_fresh = said.view == SidecarView::Answers;
        said.signing_keys.clone().filter(|_| is_fresh)
    }

    /// Those keys; nothing where nobody can be asked.
    pub(super) async fn fetch_signing_keys(
        &self,
        pod: &ObjectPlace,
    ) -> Option<Result<BTreeMap<String, SecretText>, String>> {
        let sidecar = {
            let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&probes.get(pod)?.sidecar)
        };
        Some(sidecar.signing_keys().await)
    }

    /// The fingerprints of the keys that the server of a pod has, as far as its sidecar told.
    pub(super) fn keys(&self, pod: &ObjectPlace) -> Option<Vec<String>> {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        probes.get(pod)?.said.keys.clone()
    }

    /// Whether the sidecar of a pod answers and does not tell which keys its server has.
    pub(super) fn tells_no_keys(&self, pod: &ObjectPlace) -> bool {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = probes.get(pod).map(|probe| &probe.said);
        said.is_some_and(|said| said.keys.is_none() && said.view == SidecarView::Answers)
    }

    fn all(&self) -> Vec<Asked> {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = probes.iter().map(|(pod, probe)| Asked {
            pod: pod.clone(),
            instance: probe.instance.clone(),
            sidecar: Arc::clone(&probe.sidecar),
        });
        all.collect()
    }

    /// Takes in an answer; the instance to look at, where it is news.
    fn take(
        &self,
        pod: &ObjectPlace,
        sidecar: &Arc<dyn Sidecar>,
        mut said: SidecarAnswer,
    ) -> Option<ObjectPlace> {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let probe = probes.get_mut(pod)?;
        if said.view != SidecarView::Answers {
            // What is silent now has the keys that it had.
            said.keys.clone_from(&probe.said.keys);
            said.signing_keys.clone_from(&probe.said.signing_keys);
        }
        if !Arc::ptr_eq(&probe.sidecar, sidecar) || probe.said == said {
            return None;
        }
        probe.said = said;
        Some(probe.instance.clone())
    }
}

/// Asks all of them until `stop`.
///
/// Cancellation: nothing is lost.
pub(super) async fn run(shared: Arc<ServerContext>, stop: CancellationToken) {
    let mut synced: Option<Instant> = None;
    loop {
        if synced.is_none() && shared.zones.get().is_some_and(Handle::is_synced) {
            synced = Some(Instant::now());
        }
        let is_settled = synced.is_some_and(|since| since.elapsed() >= SETTLED_AFTER);
        let ask = async |asked: Asked| {
            let awaited = || awaited(&shared, &asked.instance, is_settled);
            let said = asked.sidecar.ask(&awaited).await;
            (asked.pod, asked.sidecar, said)
        };
        let round = async {
            let mut answers: FuturesUnordered<_> =
                shared.probes.all().into_iter().map(ask).collect();
            while let Some((pod, sidecar, said)) = answers.next().await {
                let news = shared.probes.take(&pod, &sidecar, said);
                shared.touch(news.map(ServerWork::Instance));
            }
            tokio::time::sleep(INTERVAL).await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = round => {}
        }
    }
}

/// The zones that the pods of an instance shall have. One that nobody ever served is not waited for.
fn awaited(
    shared: &ServerContext,
    instance: &ObjectPlace,
    is_settled: bool,
) -> Option<BTreeMap<Name, Serial>> {
    let zones = shared.zones.get()?;
    let groups = shared.fleets().groups_of(instance);
    let serials = zones.serials_on(&groups)?;
    // What nobody has heard of yet is about to be.
    let is_known = is_settled || serials.values().all(Option::is_some);
    let served = serials
        .into_iter()
        .filter_map(|(zone, serial)| Some((zone, serial?)));
    is_known.then(|| served.collect())
}
