//! Claims: folders that live as long as the objects that claim them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch};
use serde_json::json;

use crate::following::{Followed, key};
use crate::request::{self, FaultClass, RequestFault, in_time};
use crate::volumes::disk;

/// Where the folders are, in the data folder. No namespace begins with a dot.
const FOLDER: &str = ".claims";

/// The folder of a claim.
pub(crate) fn folder(root: &Path, claim: &PersistentVolumeClaim) -> PathBuf {
    let (namespace, name) = key(claim);
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    root.join(FOLDER)
        .join(namespace)
        .join(format!("{name}.{uid}"))
}

/// Says that a claim is bound. Where volumes are objects, one is made for it, and Kubernetes binds the two.
///
/// Cancellation: what was written stays; the next call goes on.
pub(crate) async fn bind(
    client: &Client,
    claim: &PersistentVolumeClaim,
    folder: &Path,
) -> Result<(), RequestFault> {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase == Some("Bound") {
        return Ok(());
    }
    let volume = volume(claim, folder);
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let object = format!("PersistentVolume {}", volume_name(claim));
    let params = request::post();
    let made = in_time(&object, api.create(&params, &volume), |source| {
        RequestFault::Create {
            object: object.clone(),
            source,
        }
    })
    .await;
    match made.map_err(|fault| (fault.class(), fault)) {
        Ok(_) | Err((FaultClass::Conflict, _)) => Ok(()),
        Err((FaultClass::Missing, _)) => write_bound(client, claim).await,
        Err((_, fault)) => Err(fault),
    }
}

/// Removes the folders of claims that are gone, but for those that a pod still uses.
pub(crate) async fn sweep(
    client: &Client,
    root: &Path,
    claims: &Followed<PersistentVolumeClaim>,
    used: &BTreeSet<PathBuf>,
) {
    if !claims.is_synced() {
        return;
    }
    let known: BTreeSet<PathBuf> = claims
        .all()
        .iter()
        .map(|claim| folder(root, claim))
        .collect();
    let Ok(found) = folders(root) else { return };
    for gone in found
        .difference(&known)
        .filter(|gone| !used.contains(*gone))
    {
        if let Err(error) = disk::remove(gone) {
            tracing::warn!(folder = %gone.display(), %error, "the folder of a claim cannot be removed");
            continue;
        }
        let name = gone
            .file_name()
            .and_then(|name| name.to_str()?.rsplit_once('.'));
        if let Some((_, uid)) = name {
            let api: Api<PersistentVolume> = Api::all(client.clone());
            // There may be none; and one that stays is only a name.
            let _ = api
                .delete(&format!("bindery-{uid}"), &DeleteParams::default())
                .await;
        }
    }
}

fn folders(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for namespace in fs::read_dir(root.join(FOLDER))?.flatten() {
        for claim in fs::read_dir(namespace.path())?.flatten() {
            found.insert(claim.path());
        }
    }
    Ok(found)
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!(
        "bindery-{}",
        claim.metadata.uid.as_deref().unwrap_or_default()
    )
}

fn volume(claim: &PersistentVolumeClaim, folder: &Path) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(volume_name(claim)),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|resources| resources.requests),
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
                ..ObjectReference::default()
            }),
            host_path: Some(HostPathVolumeSource {
                path: folder.display().to_string(),
                type_: None,
            }),
            persistent_volume_reclaim_policy: Some("Retain".to_owned()),
            storage_class_name: spec.storage_class_name,
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

async fn write_bound(client: &Client, claim: &PersistentVolumeClaim) -> Result<(), RequestFault> {
    let (namespace, name) = key(claim);
    let spec = claim.spec.clone().unwrap_or_default();
    let body = json!({
        "metadata": {"uid": claim.metadata.uid},
        "status": {
            "phase": "Bound",
            "accessModes": spec.access_modes,
            "capacity": spec.resources.and_then(|resources| resources.requests),
        },
    });
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let object = format!("PersistentVolumeClaim {namespace}/{name}");
    let (params, patch) = (request::patch(), Patch::Merge(&body));
    let writing = api.patch_status(&name, &params, &patch);
    in_time(&object, writing, |source| RequestFault::Write {
        object: object.clone(),
        source,
    })
    .await?;
    Ok(())
}
