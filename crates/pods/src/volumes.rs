//! What is in the volumes of a pod.

pub(crate) mod disk;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, KeyToPath, ObjectFieldSelector, Pod, ProjectedVolumeSource, Secret,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use crate::following::Followed;
use crate::rewrite::{self, Mounts};

/// What a volume holds.
pub(crate) enum VolumeContent {
    /// Files that are kept as they are declared.
    Files(VolumeFiles),
    /// A folder that goes with the pod.
    Empty,
    /// The folder of a claim.
    Claim,
}

/// Files by their path within the volume. No `Debug`: there may be secrets among them.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct VolumeFiles {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Tokens to ask for; their content is not known yet.
    pub(crate) tokens: Vec<ServiceAccountTokenProjection>,
}

/// Why a volume cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VolumeProblem {
    #[error("volume \"{volume}\": configmap \"{name}\" not found")]
    ConfigMap { volume: String, name: String },
    #[error("volume \"{volume}\": secret \"{name}\" not found")]
    Secret { volume: String, name: String },
    #[error("volume \"{volume}\": {object} has no key \"{key}\"")]
    Key {
        volume: String,
        object: String,
        key: String,
    },
    #[error("volume \"{volume}\": \"{path}\" is not a path within it")]
    Path { volume: String, path: String },
    #[error(
        "volume \"{volume}\" is of a kind that this runtime does not have; it has configMap, secret, emptyDir, \
         persistentVolumeClaim and projected"
    )]
    Kind { volume: String },
}

/// Where the objects are that volumes and variables are made of.
#[derive(Clone, Copy)]
pub(crate) struct VolumeSources<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) address: Ipv4Addr,
    pub(crate) config_maps: &'a Followed<ConfigMap>,
    pub(crate) secrets: &'a Followed<Secret>,
}

impl VolumeSources<'_> {
    pub(crate) fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The data of a ConfigMap, if there is one.
    pub(crate) fn config_map(&self, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let found = self.config_maps.get(self.namespace(), name)?;
        let text = found.data.iter().flatten();
        let text = text.map(|(key, value)| (key.clone(), value.clone().into_bytes()));
        let bytes = found.binary_data.iter().flatten();
        Some(text.chain(bytes.map(copied)).collect())
    }

    /// The data of a Secret, if there is one.
    pub(crate) fn secret(&self, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let found = self.secrets.get(self.namespace(), name)?;
        Some(found.data.iter().flatten().map(copied).collect())
    }

    /// A field of the pod, as the downward API knows it.
    pub(crate) fn field(&self, field: &ObjectFieldSelector) -> Option<String> {
        let meta = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let quoted = |path: &str, of: &str| {
            let key = path.strip_prefix(of)?.strip_prefix("['")?;
            key.strip_suffix("']").map(str::to_owned)
        };
        let path = field.field_path.as_str();
        let entry = |from: &Option<BTreeMap<String, String>>, key: String| {
            Some(
                from.as_ref()
                    .and_then(|all| all.get(&key).cloned())
                    .unwrap_or_default(),
            )
        };
        match path {
            "metadata.name" => meta.name.clone(),
            "metadata.namespace" => meta.namespace.clone(),
            "metadata.uid" => meta.uid.clone(),
            "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
            "spec.serviceAccountName" => Some(service_account(self.pod)),
            "status.podIP" | "status.podIPs" => Some(self.address.to_string()),
            "status.hostIP" | "status.hostIPs" => Some(crate::HOST_ADDRESS.to_string()),
            _ => match quoted(path, "metadata.labels") {
                Some(key) => entry(&meta.labels, key),
                None => entry(&meta.annotations, quoted(path, "metadata.annotations")?),
            },
        }
    }
}

/// Who a pod is to the API.
pub(crate) fn service_account(pod: &Pod) -> String {
    let name = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.clone());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".to_owned())
}

/// What a volume of a pod holds; text in it sees the pod through `mounts`.
pub(crate) fn content(
    volume: &Volume,
    sources: &VolumeSources<'_>,
    mounts: &Mounts,
) -> Result<VolumeContent, VolumeProblem> {
    if volume.empty_dir.is_some() {
        return Ok(VolumeContent::Empty);
    }
    if volume.persistent_volume_claim.is_some() {
        return Ok(VolumeContent::Claim);
    }
    let name = &volume.name;
    let mut made = VolumeFiles::default();
    if let Some(source) = &volume.config_map {
        let data = sources.config_map(&source.name);
        let missing = || VolumeProblem::ConfigMap {
            volume: name.clone(),
            name: source.name.clone(),
        };
        let picked = Picked::of(volume, source.items.as_ref(), source.optional);
        picked.put(data, missing, &source.name, &mut made)?;
    } else if let Some(source) = &volume.secret {
        let secret = source.secret_name.clone().unwrap_or_default();
        let missing = || VolumeProblem::Secret {
            volume: name.clone(),
            name: secret.clone(),
        };
        let picked = Picked::of(volume, source.items.as_ref(), source.optional);
        picked.put(sources.secret(&secret), missing, &secret, &mut made)?;
    } else if let Some(projected) = &volume.projected {
        project(volume, projected, sources, &mut made)?;
    } else if let Some(downward) = &volume.downward_api {
        for item in downward.items.iter().flatten() {
            let value = item
                .field_ref
                .as_ref()
                .and_then(|field| sources.field(field));
            made.files
                .insert(item.path.clone(), value.unwrap_or_default().into_bytes());
        }
    } else {
        return Err(VolumeProblem::Kind {
            volume: name.clone(),
        });
    }
    if let Some(path) = made.files.keys().find(|path| !is_inside(path)) {
        return Err(VolumeProblem::Path {
            volume: name.clone(),
            path: path.clone(),
        });
    }
    for bytes in made.files.values_mut() {
        if let Ok(text) = std::str::from_utf8(bytes) {
            *bytes = rewrite::config(&mounts.apply(text), sources.address).into_bytes();
        }
    }
    Ok(VolumeContent::Files(made))
}

fn project(
    volume: &Volume,
    projected: &ProjectedVolumeSource,
    sources: &VolumeSources<'_>,
    made: &mut VolumeFiles,
) -> Result<(), VolumeProblem> {
    for source in projected.sources.iter().flatten() {
        let VolumeProjection {
            config_map,
            secret,
            downward_api,
            service_account_token,
            ..
        } = source;
        if let Some(source) = config_map {
            let missing = || VolumeProblem::ConfigMap {
                volume: volume.name.clone(),
                name: source.name.clone(),
            };
            let picked = Picked::of(volume, source.items.as_ref(), source.optional);
            picked.put(
                sources.config_map(&source.name),
                missing,
                &source.name,
                made,
            )?;
        }
        if let Some(source) = secret {
            let missing = || VolumeProblem::Secret {
                volume: volume.name.clone(),
                name: source.name.clone(),
            };
            let picked = Picked::of(volume, source.items.as_ref(), source.optional);
            picked.put(sources.secret(&source.name), missing, &source.name, made)?;
        }
        for item in downward_api
            .iter()
            .flat_map(|api| api.items.iter().flatten())
        {
            let value = item
                .field_ref
                .as_ref()
                .and_then(|field| sources.field(field));
            made.files
                .insert(item.path.clone(), value.unwrap_or_default().into_bytes());
        }
        made.tokens.extend(service_account_token.clone());
    }
    Ok(())
}

/// Which keys of an object are wanted, and under which path.
struct Picked<'a> {
    volume: &'a str,
    items: Option<&'a Vec<KeyToPath>>,
    is_optional: bool,
}

impl<'a> Picked<'a> {
    fn of(volume: &'a Volume, items: Option<&'a Vec<KeyToPath>>, optional: Option<bool>) -> Self {
        Self {
            volume: &volume.name,
            items,
            is_optional: optional.unwrap_or(false),
        }
    }

    fn put(
        &self,
        data: Option<BTreeMap<String, Vec<u8>>>,
        missing: impl FnOnce() -> VolumeProblem,
        object: &str,
        made: &mut VolumeFiles,
    ) -> Result<(), VolumeProblem> {
        let mut data = match data {
            Some(data) => data,
            None if self.is_optional => return Ok(()),
            None => return Err(missing()),
        };
        let Some(items) = self.items.filter(|items| !items.is_empty()) else {
            made.files.extend(data);
            return Ok(());
        };
        for item in items {
            match data.remove(&item.key) {
                Some(bytes) => drop(made.files.insert(item.path.clone(), bytes)),
                None if self.is_optional => {}
                None => {
                    return Err(VolumeProblem::Key {
                        volume: self.volume.to_owned(),
                        object: object.to_owned(),
                        key: item.key.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a path stays in its volume.
pub(crate) fn is_inside(path: &str) -> bool {
    let mut parts = path.split('/');
    !path.is_empty()
        && parts.all(|part| !matches!(part, "" | "." | "..") && !part.starts_with(".."))
}

fn copied((key, value): (&String, &ByteString)) -> (String, Vec<u8>) {
    (key.clone(), value.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_its_volume() {
        for path in ["", "/x", "..", "a/..", "a//b", "..data", "."] {
            assert!(!is_inside(path), "{path}");
        }
        assert!(is_inside("named.conf") && is_inside("keys/a.key") && is_inside(".hidden"));
    }
}
