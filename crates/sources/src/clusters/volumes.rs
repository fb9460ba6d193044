//! Which volumes an author may give to the pods of a server. Whoever may declare a server must not get at the node
//! through it.

use bindery_api::Bind9InstanceSpec;
use bindery_core::{Problem, Shown};
use serde_json::Value;

/// The sorts of volumes that may be given.
const SORTS: [&str; 4] = ["emptyDir", "configMap", "secret", "persistentVolumeClaim"];
/// The names of our own volumes.
const OURS: [&str; 5] = ["config", "keys", "data", "tmp", "signing-keys"];
/// The folders of our own volumes.
const FOLDERS: [&str; 3] = ["/etc/bind", "/var/cache/bind", "/tmp"];

/// What is wrong with the volumes that a spec gives, by field.
#[must_use]
pub fn volume_problems(spec: &Bind9InstanceSpec) -> Vec<Problem> {
    let volumes = spec.volumes.iter().enumerate().filter_map(|(at, volume)| {
        let wrong = volume_problem(volume)?;
        Some(Problem::invalid(format!("spec.volumes[{at}]"), wrong))
    });
    let mounts = spec.volume_mounts.iter().enumerate();
    let mounts = mounts.filter_map(|(at, mount)| {
        let wrong = mount_problem(mount, &spec.volumes)?;
        Some(Problem::invalid(format!("spec.volumeMounts[{at}]"), wrong))
    });
    volumes.chain(mounts).collect()
}

fn volume_problem(volume: &Value) -> Option<String> {
    let name = volume["name"].as_str().unwrap_or_default();
    if name.is_empty() || OURS.contains(&name) {
        return Some(format!(
            "a volume needs a name other than {}",
            OURS.join(", ")
        ));
    }
    let fields = volume.as_object().into_iter().flatten();
    let sorts: Vec<&String> = fields
        .map(|(field, _)| field)
        .filter(|field| *field != "name")
        .collect();
    match sorts[..] {
        [sort] if SORTS.contains(&sort.as_str()) => None,
        _ => Some(format!(
            "volume {} is of one of these sorts: {}",
            Shown(name),
            SORTS.join(", ")
        )),
    }
}

fn mount_problem(mount: &Value, volumes: &[Value]) -> Option<String> {
    let name = mount["name"].as_str().unwrap_or_default();
    let path = mount["mountPath"].as_str().unwrap_or_default();
    if !volumes.iter().any(|volume| volume["name"] == name) {
        return Some(format!(
            "there is no volume {} in spec.volumes",
            Shown(name)
        ));
    }
    let is_plain =
        path.starts_with('/') && !path.split('/').any(|part| part == ".." || part == ".");
    let is_below = |folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !is_plain || path == "/" || FOLDERS.iter().any(|folder| is_below(folder)) {
        return Some(format!(
            "mountPath {} is no folder of your own: it begins with / and lies outside of {}",
            Shown(path),
            FOLDERS.join(", ")
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(volume: Value, mount: Value) -> Vec<String> {
        let spec = Bind9InstanceSpec {
            volumes: vec![volume],
            volume_mounts: vec![mount],
            ..Bind9InstanceSpec::default()
        };
        volume_problems(&spec)
            .into_iter()
            .map(|one| one.field)
            .collect()
    }

    #[test]
    fn volumes_of_the_namespace_may_be_given() {
        for volume in [
            json!({"name": "v", "emptyDir": {}}),
            json!({"name": "v", "configMap": {"name": "c"}}),
            json!({"name": "v", "secret": {"secretName": "s"}}),
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "p"}}),
        ] {
            let mount = json!({"name": "v", "mountPath": "/data/v"});
            assert_eq!(check(volume, mount), Vec::<String>::new());
        }
    }

    #[test]
    fn nothing_of_the_node_may_be_given() {
        let mount = json!({"name": "v", "mountPath": "/data/v"});
        for volume in [
            json!({"name": "v", "hostPath": {"path": "/"}}),
            json!({"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}),
            json!({"name": "v", "csi": {"driver": "d"}}),
            json!({"name": "v", "nfs": {"server": "s", "path": "/"}}),
            json!({"name": "v"}),
        ] {
            assert_eq!(check(volume, mount.clone()), ["spec.volumes[0]"]);
        }
    }

    #[test]
    fn what_is_ours_is_not_covered() {
        let own = json!({"name": "v", "emptyDir": {}});
        for path in [
            "/etc/bind",
            "/etc/bind/keys/x",
            "/var/cache/bind",
            "/tmp",
            "/",
            "",
            "etc",
            "/data/./other",
        ] {
            let mount = json!({"name": "v", "mountPath": path});
            assert_eq!(
                check(own.clone(), mount),
                ["spec.volumeMounts[0]"],
                "{path}"
            );
        }
        let other = json!({"name": "keys", "mountPath": "/data"});
        assert_eq!(check(own, other), ["spec.volumeMounts[0]"]);
        let fine = json!({"name": "v", "mountPath": "/etc/bindings"});
        assert_eq!(
            check(json!({"name": "v", "emptyDir": {}}), fine),
            Vec::<String>::new()
        );
        let keys = json!({"name": "keys", "emptyDir": {}});
        let mount = json!({"name": "keys", "mountPath": "/data"});
        assert_eq!(check(keys, mount), ["spec.volumes[0]"]);
    }
}
