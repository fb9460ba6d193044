//! The volumes of a pod, kept as they are declared.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    Container, Pod, ServiceAccount, ServiceAccountTokenProjection, Volume,
};
use kube::api::Api;
use tokio::time::Instant;

use super::PodRun;
use crate::claims;
use crate::node::Tokens;
use crate::request::{self, RequestFault, in_time};
use crate::rewrite::{IMAGE_FOLDERS, Mounts};
use crate::volumes::disk::{self, WrittenVolume};
use crate::volumes::{self, VolumeContent, VolumeFiles, is_inside};

/// How often volumes are looked at though nothing changed in the API.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a token is good for where nobody says.
const TOKEN_SECONDS: i64 = 3600;

/// What is known of the volumes of a pod.
#[derive(Default)]
pub(super) struct PodStorage {
    /// The folder of each volume.
    pub(super) folders: BTreeMap<String, PathBuf>,
    written: BTreeMap<String, WrittenVolume>,
    tokens: BTreeMap<(String, String), HeldToken>,
}

/// A token and when another one is asked for. No `Debug`: it is a secret.
#[derive(Clone)]
struct HeldToken {
    token: String,
    renew: Instant,
}

impl PodRun {
    /// Has every volume with its content on disk.
    pub(super) async fn fill_volumes(&self) -> Result<(), String> {
        let pod = self.pod();
        let folders = self.volume_folders(&pod).await?;
        self.storage().folders = folders;
        for folder in self.image_folders().map(|(_, folder)| folder) {
            let made = disk::make_folder(folder.as_ref());
            made.map_err(|error| format!("cannot make {folder}: {error}"))?;
        }
        for volume in volumes_of(&pod) {
            self.fill_volume(&pod, volume).await?;
        }
        Ok(())
    }

    /// Keeps volumes as they are declared, for ever.
    pub(super) async fn keep_volumes(&self) -> Infallible {
        loop {
            self.changed(PERIOD).await;
            let pod = self.pod();
            for volume in volumes_of(&pod) {
                if let Err(why) = self.fill_volume(&pod, volume).await {
                    // What was there stays there, as a kubelet has it.
                    self.tell("Warning", "FailedMount", &why);
                }
            }
        }
    }

    /// The folders of an image of `named`, which are the pod's own.
    pub(super) fn image_folders(&self) -> impl Iterator<Item = (String, String)> {
        IMAGE_FOLDERS.iter().map(|path| {
            let name = path.trim_start_matches('/').replace('/', "-");
            let folder = self.folder.join("image").join(name);
            ((*path).to_owned(), folder.display().to_string())
        })
    }

    async fn volume_folders(&self, pod: &Pod) -> Result<BTreeMap<String, PathBuf>, String> {
        let mut folders = BTreeMap::new();
        for volume in volumes_of(pod) {
            let folder = match &volume.persistent_volume_claim {
                None => self.folder.join("volumes").join(&volume.name),
                Some(source) => {
                    let name = &source.claim_name;
                    let claim = self.ctx.claims.get(&self.key.0, name);
                    let claim = claim.ok_or_else(|| {
                        format!(
                            "volume \"{}\": persistentvolumeclaim \"{name}\" not found",
                            volume.name
                        )
                    })?;
                    let folder = claims::folder(&self.ctx.options.folder, &claim);
                    let bound = claims::bind(&self.ctx.client, &claim, &folder).await;
                    bound.map_err(|fault| fault.chain())?;
                    folder
                }
            };
            folders.insert(volume.name.clone(), folder);
        }
        Ok(folders)
    }

    async fn fill_volume(&self, pod: &Pod, volume: &Volume) -> Result<(), String> {
        let Some(folder) = self.storage().folders.get(&volume.name).cloned() else {
            return Ok(());
        };
        let mounts = self.all_mounts(pod);
        let content = volumes::content(volume, &self.sources_of(pod), &mounts);
        let fault = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
        match content.map_err(|problem| problem.to_string())? {
            VolumeContent::Empty | VolumeContent::Claim => {
                if !folder.is_dir() {
                    disk::make_folder(&folder).map_err(fault)?;
                    self.lost.send_modify(|count| *count += 1);
                }
            }
            VolumeContent::Files(mut files) => {
                self.put_tokens(pod, &mut files).await?;
                let is_current = |written: &WrittenVolume| written.is_current(&folder, &files);
                let is_current = self
                    .storage()
                    .written
                    .get(&volume.name)
                    .is_some_and(is_current);
                if !is_current {
                    let written = disk::write_files(&folder, &files).map_err(fault)?;
                    self.storage().written.insert(volume.name.clone(), written);
                }
            }
        }
        Ok(())
    }

    /// What the containers see, all together: a file does not know who reads it.
    fn all_mounts(&self, pod: &Pod) -> Mounts {
        let folders = self.storage().folders.clone();
        let spec = pod.spec.iter();
        let containers = spec.flat_map(|spec| {
            spec.containers
                .iter()
                .chain(spec.init_containers.iter().flatten())
        });
        let pairs: Vec<(String, String)> = containers
            .flat_map(|container| mounted(container, &folders))
            .collect();
        Mounts::new(pairs.into_iter().chain(self.image_folders()))
    }

    async fn put_tokens(&self, pod: &Pod, files: &mut VolumeFiles) -> Result<(), String> {
        for wanted in std::mem::take(&mut files.tokens) {
            let key = (
                wanted.audience.clone().unwrap_or_default(),
                wanted.path.clone(),
            );
            let held = self.storage().tokens.get(&key).cloned();
            let held = match held.filter(|held| held.renew > Instant::now()) {
                Some(held) => held,
                None => self
                    .token(pod, &wanted)
                    .await
                    .map_err(|fault| fault.chain())?,
            };
            files
                .files
                .insert(wanted.path.clone(), held.token.clone().into_bytes());
            self.storage().tokens.insert(key, held);
        }
        Ok(())
    }

    async fn token(
        &self,
        pod: &Pod,
        wanted: &ServiceAccountTokenProjection,
    ) -> Result<HeldToken, RequestFault> {
        let seconds = wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS).max(600);
        // Four fifths of its life, as a kubelet has it.
        let life = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()) / 5 * 4;
        let renew = Instant::now() + life;
        if self.ctx.options.tokens == Tokens::Random {
            let bytes = (self.ctx.options.random)();
            let token = bytes.iter().fold(String::new(), |mut text, byte| {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            });
            return Ok(HeldToken { token, renew });
        }
        let account = volumes::service_account(pod);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(wanted.audience.iter().cloned().collect()),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(self.key.1.clone()),
                    uid: Some(self.uid.clone()),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.ctx.client.clone(), &self.key.0);
        let object = format!("token of ServiceAccount {}/{account}", self.key.0);
        let params = request::post();
        let asking = api.create_token_request(&account, &params, &request);
        let made = in_time(&object, asking, |source| RequestFault::Create {
            object: object.clone(),
            source,
        });
        let status = made.await?.status;
        let token = status.and_then(|status| status.token).unwrap_or_default();
        Ok(HeldToken { token, renew })
    }
}

/// The paths of a container's mounts with their folders.
pub(super) fn mounted(
    container: &Container,
    folders: &BTreeMap<String, PathBuf>,
) -> impl Iterator<Item = (String, String)> {
    container
        .volume_mounts
        .iter()
        .flatten()
        .filter_map(|mount| {
            let folder = folders.get(&mount.name)?;
            let folder = match mount.sub_path.as_deref().filter(|path| is_inside(path)) {
                Some(path) => folder.join(path),
                None => folder.clone(),
            };
            Some((mount.mount_path.clone(), folder.display().to_string()))
        })
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
}
