//! Asks the sidecar of every pod how it is, again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bindery_sources::clusters::SidecarView;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::store::ObjectPlace;
use super::{SecretText, ServerContext, ServerWork, Sidecar, SidecarAnswer};

/// How often each is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// What sidecars said last, by pod.
#[derive(Default)]
pub(super) struct SidecarProbes(Mutex<BTreeMap<ObjectPlace, Probe>>);

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

    fn all(&self) -> Vec<(ObjectPlace, Arc<dyn Sidecar>)> {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = probes.iter();
        all.map(|(pod, probe)| (pod.clone(), Arc::clone(&probe.sidecar)))
            .collect()
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
    loop {
        let round = async {
            let asked = shared
                .probes
                .all()
                .into_iter()
                .map(|(pod, sidecar)| async move {
                    let said = sidecar.ask().await;
                    (pod, sidecar, said)
                });
            let mut answers: FuturesUnordered<_> = asked.collect();
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
