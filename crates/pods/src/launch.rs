//! What a container is started with: program, arguments and variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, Probe};

use crate::rewrite::{self, Mounts};
use crate::volumes::VolumeSources;

/// Where programs are looked for by those that we run.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs that are run, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// BIND's `named`, if there is one.
    pub named: Option<PathBuf>,
    /// This program.
    pub bindery: Option<PathBuf>,
}

/// What a container is started with. No `Debug`: there may be secrets among its variables.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) folder: Option<String>,
}

/// Why a container is not started, in the kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartRefusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl StartRefusal {
    fn config(message: String) -> Self {
        Self {
            reason: "CreateContainerConfigError",
            message,
        }
    }

    fn create(message: String) -> Self {
        Self {
            reason: "CreateContainerError",
            message,
        }
    }
}

/// What runs in the place of bindcar.
const STAND_IN: [&str; 2] = ["bindery", "sidecar"];

/// What a container is started with, or why not.
pub(crate) fn launch(
    container: &Container,
    programs: &Programs,
    sources: &VolumeSources<'_>,
    mounts: &Mounts,
) -> Result<Launch, StartRefusal> {
    check_probes(container)?;
    let seen = |text: &str| rewrite::hosts(&mounts.apply(text), sources.address);
    let given = variables(container, sources)?;
    let words = container
        .command
        .iter()
        .flatten()
        .chain(container.args.iter().flatten());
    let mut words: Vec<String> = words.map(|word| expanded(word, &given)).collect();
    let image = container.image.as_deref().unwrap_or_default();
    if words.is_empty() && is_bindcar(image) {
        words.extend(STAND_IN.map(str::to_owned));
    }
    if words.is_empty() {
        return Err(StartRefusal::create(format!(
            "container \"{}\" has no command; images are not pulled here, so what {image} would run is not known",
            container.name
        )));
    }
    let program = find(&words.remove(0), programs)?;
    if programs.named.as_ref() == Some(&program) {
        words = without_user(words);
    }
    let mut variables = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    variables.extend(
        given
            .iter()
            .map(|(name, value)| (name.clone(), seen(value))),
    );
    Ok(Launch {
        program,
        arguments: words.iter().map(|word| seen(word)).collect(),
        variables,
        folder: container
            .working_dir
            .as_deref()
            .map(|folder| mounts.apply(folder)),
    })
}

/// Whether an image is that of bindcar, whose API our sidecar has.
fn is_bindcar(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = name.split(['@', ':']).next().unwrap_or_default();
    name == "bindcar"
}

fn find(word: &str, programs: &Programs) -> Result<PathBuf, StartRefusal> {
    let name = word.rsplit('/').next().unwrap_or_default();
    let found = match name {
        "named" => &programs.named,
        "bindery" => &programs.bindery,
        _ => {
            return Err(StartRefusal::create(format!(
                "\"{word}\" is not run here: pods on this node are processes of the machine, and their programs \
                 are named and bindery"
            )));
        }
    };
    found.clone().ok_or_else(|| {
        StartRefusal::create(format!(
            "{name} is not on this machine; install the package bind9"
        ))
    })
}

/// It runs as the user that runs Bindery, who may not be able to become another.
fn without_user(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-u" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept
}

fn check_probes(container: &Container) -> Result<(), StartRefusal> {
    let probes = [
        ("readinessProbe", &container.readiness_probe),
        ("livenessProbe", &container.liveness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    let is_known = |probe: &Probe| match (&probe.http_get, &probe.tcp_socket) {
        (Some(get), _) => get.scheme.as_deref() != Some("HTTPS"),
        (None, tcp) => tcp.is_some(),
    };
    let unknown = probes
        .iter()
        .find(|(_, probe)| probe.as_ref().is_some_and(|it| !is_known(it)));
    match unknown {
        None => Ok(()),
        Some((field, _)) => Err(StartRefusal::create(format!(
            "the {field} of container \"{}\" cannot be run here; httpGet without TLS and tcpSocket can",
            container.name
        ))),
    }
}

/// The variables of a container, each of which may use those before it.
fn variables(
    container: &Container,
    sources: &VolumeSources<'_>,
) -> Result<BTreeMap<String, String>, StartRefusal> {
    let mut made = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let (name, data, optional) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(from), _) => (&from.name, sources.config_map(&from.name), from.optional),
            (None, Some(from)) => (&from.name, sources.secret(&from.name), from.optional),
            (None, None) => continue,
        };
        let data = match data {
            Some(data) => data,
            None if optional == Some(true) => continue,
            None => {
                return Err(StartRefusal::config(format!(
                    "configmap or secret \"{name}\" not found"
                )));
            }
        };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in data {
            let value = String::from_utf8_lossy(&value).into_owned();
            made.insert(format!("{prefix}{key}"), value);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variable, sources, &made)? {
            made.insert(variable.name.clone(), value);
        }
    }
    Ok(made)
}

fn value(
    variable: &EnvVar,
    sources: &VolumeSources<'_>,
    made: &BTreeMap<String, String>,
) -> Result<Option<String>, StartRefusal> {
    let Some(from) = &variable.value_from else {
        let text = variable.value.as_deref().unwrap_or_default();
        return Ok(Some(expanded(text, made)));
    };
    let EnvVarSource {
        config_map_key_ref,
        field_ref,
        secret_key_ref,
        ..
    } = from;
    if let Some(field) = field_ref {
        return match sources.field(field) {
            Some(value) => Ok(Some(value)),
            None => Err(StartRefusal::config(format!(
                "the field {} of a pod is not known here",
                field.field_path
            ))),
        };
    }
    let (what, name, key, data, optional) = match (config_map_key_ref, secret_key_ref) {
        (Some(it), _) => (
            "configmap",
            &it.name,
            &it.key,
            sources.config_map(&it.name),
            it.optional,
        ),
        (None, Some(it)) => (
            "secret",
            &it.name,
            &it.key,
            sources.secret(&it.name),
            it.optional,
        ),
        (None, None) => {
            let name = &variable.name;
            return Err(StartRefusal::config(format!(
                "the source of variable {name} is not known here"
            )));
        }
    };
    let is_optional = optional == Some(true);
    match data.map(|mut data| data.remove(key)) {
        Some(Some(value)) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
        Some(None) | None if is_optional => Ok(None),
        Some(None) => {
            let namespace = sources.namespace();
            Err(StartRefusal::config(format!(
                "couldn't find key {key} in {what} {namespace}/{name}"
            )))
        }
        None => Err(StartRefusal::config(format!("{what} \"{name}\" not found"))),
    }
}

/// The text with `$(NAME)` replaced where there is such a variable; `$$` stands for `$`.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        made.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest
            .strip_prefix("$(")
            .and_then(|after| after.split_once(')'));
        if let Some(after) = rest.strip_prefix("$$") {
            made.push('$');
            rest = after;
        } else if let Some((name, after)) = named {
            match variables.get(name) {
                Some(value) => made.push_str(value),
                None => made.push_str(&rest[..name.len() + 3]),
            }
            rest = after;
        } else {
            made.push('$');
            rest = &rest[1..];
        }
    }
    made.push_str(rest);
    made
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::following::Followed;

    /// The arguments and variables of a container, or why it is refused.
    fn check(container: &str) -> Result<String, String> {
        let container: Container = serde_saphyr::from_str(container).expect("it is a container");
        let pod: Pod = serde_saphyr::from_str(
            "{metadata: {name: web-0, namespace: dns, labels: {a: b}}, spec: {containers: []}}",
        )
        .expect("it is a pod");
        let programs = Programs {
            named: Some("/usr/sbin/named".into()),
            bindery: None,
        };
        let sources = VolumeSources {
            pod: &pod,
            address: Ipv4Addr::new(127, 64, 0, 5),
            config_maps: &Followed::new("ConfigMap"),
            secrets: &Followed::new("Secret"),
        };
        let mounts = Mounts::new([("/etc/bind".to_owned(), "/D".to_owned())]);
        let made = launch(&container, &programs, &sources, &mounts)
            .map_err(|refusal| format!("{}: {}", refusal.reason, refusal.message))?;
        let variables = made.variables.iter().filter(|(name, _)| *name != "PATH");
        let variables: Vec<String> = variables.map(|(name, it)| format!("{name}={it}")).collect();
        Ok(format!(
            "{} {}",
            made.arguments.join(" "),
            variables.join(" ")
        ))
    }

    #[test]
    fn arguments_see_the_pod_through_its_mounts() {
        let made =
            check("{name: b, command: [named, -g, -u, bind], args: [-c, /etc/bind/named.conf]}");
        assert_eq!(made.as_deref(), Ok("-g -c /D/named.conf "));
    }

    #[test]
    fn variables_are_literal_or_fields_and_can_be_used() {
        let made = check(
            "{name: b, command: [/usr/sbin/named, '$(IP):$(NO):$$(IP)'], env: [
               {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}},
               {name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}},
               {name: URL, value: 'http://$(IP):80'}, {name: HOST, value: 'localhost:1'}]}",
        );
        let wanted =
            "127.64.0.5:$(NO):$(IP) HOST=127.64.0.5:1 IP=127.64.0.5 L=b URL=http://127.64.0.5:80";
        assert_eq!(made.as_deref(), Ok(wanted));
    }

    #[test]
    fn what_is_not_run_here_is_told() {
        let refused = |container: &str, words: &str| {
            let told = check(container).expect_err(container);
            assert!(told.contains(words), "{told}");
        };
        refused(
            "{name: b, command: [sh, -c, x]}",
            "CreateContainerError: \"sh\" is not run here",
        );
        refused(
            "{name: b, image: 'bind9:1'}",
            "CreateContainerError: container \"b\" has no command",
        );
        refused(
            "{name: b, command: [bindery]}",
            "bindery is not on this machine",
        );
        refused(
            "{name: b, image: 'example.org:5000/team/bindcar-ui:v1'}",
            "CreateContainerError: container \"b\" has no command",
        );
        for image in [
            "bindcar",
            "example.org:5000/team/bindcar:v1",
            "bindcar@sha256:00",
        ] {
            let container = format!("{{name: b, image: '{image}'}}");
            refused(&container, "bindery is not on this machine");
        }
        refused(
            "{name: b, command: [named], readinessProbe: {exec: {command: [x]}}}",
            "the readinessProbe of container \"b\" cannot be run",
        );
        refused(
            "{name: b, command: [named], env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}]}",
            "CreateContainerConfigError: configmap \"m\" not found",
        );
    }
}
