//! What the controllers of name servers need of the world: pods over DNS and HTTP, `named-checkconf`, keys.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bindery_apiserver::System;
use bindery_bind::{ConfigCheck, find_checkconf};
use bindery_dns::{Algorithm, Key, KeyProblem, Server};
use bindery_engine::ports::{NameServer, ZoneHost};
use bindery_kube::{
    AwaitedZones, KeyText, PodAccess, PodKey, PodPlace, PodPorts, SecretText, Sidecar,
    SidecarAnswer, Verdict,
};
use bindery_sidecar::{
    ClientToken, PodZones, SidecarClient, SidecarClientOptions, SidecarHost, ZonePeers,
};
use bindery_sources::clusters::{
    ConfigFiles, DNS_PORT, KEY_NAME, KeySlot, SidecarView, TRANSFER_KEY,
};
use futures::future::BoxFuture;
use zeroize::Zeroizing;

/// How long a sidecar may take to say how it is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Pods that are reached over the network.
pub(crate) struct NetworkPods {
    check: Option<ConfigCheck>,
    /// Which zones each pod shall have, whatever clusters it is in.
    zones: Mutex<BTreeMap<String, PodZones>>,
}

impl NetworkPods {
    /// Configurations are checked in this folder, where there is a program to do it.
    pub(crate) fn new(scratch: PathBuf) -> Self {
        if let Err(error) = fs::create_dir_all(&scratch) {
            let folder = scratch.display();
            tracing::warn!(%folder, %error, "the folder in which configurations are checked cannot be made");
        }
        let check = find_checkconf().map(|program| ConfigCheck { program, scratch });
        if check.is_none() {
            tracing::warn!(
                "named-checkconf is not installed: configurations of clusters are not checked before they are \
                 rolled out; install the package bind9-utils"
            );
        }
        Self {
            check,
            zones: Mutex::default(),
        }
    }

    fn zones_of(&self, pod: &str) -> PodZones {
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        zones.entry(pod.to_owned()).or_default().clone()
    }
}

impl PodPorts for NetworkPods {
    fn check<'a>(&'a self, files: &'a ConfigFiles) -> BoxFuture<'a, Result<Verdict, String>> {
        Box::pin(async move {
            let Some(check) = &self.check else {
                return Ok(Verdict::Accepted);
            };
            // Where somebody gives named.conf, the pod will tell.
            if !files.contains_key("named.conf") || !files.contains_key("named.conf.options") {
                return Ok(Verdict::Accepted);
            }
            let keys = [
                (KeySlot::Current.file_name(), KEY_NAME.to_owned()),
                (KeySlot::Transfer.file_name(), TRANSFER_KEY.to_owned()),
            ];
            match check.check(files, &keys.into()).await {
                Ok(()) => Ok(Verdict::Accepted),
                Err(fault) if fault.is_authors() => Ok(Verdict::Refused(fault.to_string())),
                Err(fault) => Err(fault.to_string()),
            }
        })
    }

    fn make_key(&self, name: &str, algorithm: &str) -> Result<PodKey, String> {
        let algorithm: Algorithm = algorithm
            .parse()
            .map_err(|problem: KeyProblem| problem.to_string())?;
        let key = Key::new(name, algorithm, System::secret().to_vec());
        let key = key.map_err(|problem| problem.to_string())?;
        let file = key.to_key_file();
        let secret = file.split('"').nth(3).unwrap_or_default();
        Ok(PodKey {
            name: key.name(),
            algorithm: key.algorithm().to_string(),
            secret: SecretText::new(secret.to_owned()),
        })
    }

    fn key_file(&self, key: &PodKey) -> Result<KeyText, String> {
        let key = read_key(key)?;
        Ok(KeyText {
            file: SecretText::new(key.to_key_file().to_string()),
            fingerprint: key.fingerprint(),
        })
    }

    fn make_token(&self) -> SecretText {
        SecretText::new(BASE64.encode(System::secret()))
    }

    fn open(&self, place: &PodPlace) -> Result<PodAccess, String> {
        let key = read_key(&place.key)?;
        let token = Arc::new(Zeroizing::new(place.token.expose().to_owned()));
        let address = format!("http://{}:{}", place.ip, place.sidecar_port);
        let options = SidecarClientOptions::new(address, ClientToken::Fixed(token));
        let short = SidecarClientOptions {
            request_timeout: ANSWER_MAX,
            token: options.token.clone(),
            address: options.address.clone(),
            authority: None,
            connect_timeout: ANSWER_MAX,
        };
        let open = |options| SidecarClient::new(options).map_err(|error| error.to_string());
        let peers = ZonePeers {
            primaries: place.primaries.clone(),
            notify: place.notify.clone(),
            update_key: place.zone_key.clone(),
            takes_addresses: place.takes_addresses,
            default_policy: place.default_policy.map(str::to_owned),
        };
        let host = Arc::new(SidecarHost::new(
            open(options)?,
            open(short)?,
            peers,
            self.zones_of(&place.pod),
        ));
        let server: Arc<dyn NameServer> =
            Arc::new(Server::new(format!("{}:{DNS_PORT}", place.ip), Some(key)));
        Ok(PodAccess {
            server,
            host: Arc::clone(&host) as Arc<dyn ZoneHost>,
            sidecar: Arc::new(PodSidecar {
                pod: place.pod.rsplit('/').next().unwrap_or_default().to_owned(),
                host,
            }),
        })
    }
}

fn read_key(key: &PodKey) -> Result<Key, String> {
    let text = format!(
        "key \"{}\" {{ algorithm {}; secret \"{}\"; }};",
        key.name,
        key.algorithm,
        key.secret.expose()
    );
    let text = Zeroizing::new(text);
    Key::from_key_file(&text).map_err(|problem| problem.to_string())
}

/// The sidecar of a pod.
struct PodSidecar {
    pod: String,
    host: Arc<SidecarHost>,
}

impl Sidecar for PodSidecar {
    fn ask<'a>(&'a self, awaited: AwaitedZones<'a>) -> BoxFuture<'a, SidecarAnswer> {
        Box::pin(async move {
            match self.host.tend(awaited).await {
                Ok(status) => SidecarAnswer {
                    view: SidecarView::Answers,
                    keys: status.keys,
                    signing_keys: status.signing_keys,
                },
                Err(fault) => {
                    let message = fault.message(&self.pod);
                    let words = message.strip_prefix(&format!("Pod {} ", self.pod));
                    let words = words.unwrap_or(&message).to_owned();
                    SidecarAnswer {
                        view: SidecarView::Fails(fault.reason(), words),
                        keys: None,
                        signing_keys: None,
                    }
                }
            }
        })
    }

    fn signing_keys(&self) -> BoxFuture<'_, Result<BTreeMap<String, SecretText>, String>> {
        Box::pin(async move {
            let fetched = self.host.signing_keys().await;
            let files = fetched
                .map_err(|fault| fault.message(&self.pod))?
                .into_files();
            let hide = |text: Zeroizing<String>| SecretText::new(text.to_string());
            Ok(files
                .into_iter()
                .map(|(name, text)| (name, hide(text)))
                .collect())
        })
    }
}
