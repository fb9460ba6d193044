//! `bindery install`: everything that Bindery needs in a cluster, as YAML for `kubectl apply`.
//!
//! Without flags it prints what the folder `deploy/` holds; a flag replaces a line of it.

use anyhow::{Result, bail};

use crate::cli::InstallFlags;

/// Namespace, service account and rights.
const RIGHTS: &str = include_str!("../../../deploy/rbac.yaml");
/// What runs, and what is around it.
const WORKLOAD: &str = include_str!("../../../deploy/bindery.yaml");

/// Where the Secret with the name servers and keys is mounted.
const FOLDER: &str = "/etc/bindery";

/// The manifests.
///
/// # Errors
/// If a value would not stay in its place in YAML.
pub(crate) fn manifests(flags: &InstallFlags) -> Result<String> {
    let definitions = bindery_api::crds_yaml();
    let rights = rights(RIGHTS, &flags.namespace);
    let workload = workload(flags)?;
    Ok(format!("{definitions}---\n{rights}---\n{workload}"))
}

fn rights(text: &str, namespace: &str) -> String {
    text.replace(
        "  name: bindery\n  labels:",
        &format!("  name: {namespace}\n  labels:"),
    )
    .replace("namespace: bindery}", &format!("namespace: {namespace}}}"))
}

fn workload(flags: &InstallFlags) -> Result<String> {
    for value in [&flags.image, &flags.secret] {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._/:@".contains(char);
        if value.is_empty() || !value.chars().all(is_plain) {
            bail!("{value:?} is no name of an image or a secret");
        }
    }
    let mut text = WORKLOAD
        .replace(
            "namespace: bindery\n",
            &format!("namespace: {}\n", flags.namespace),
        )
        .replace(
            "namespace: bindery}",
            &format!("namespace: {}}}", flags.namespace),
        )
        .replace("replicas: 2\n", &format!("replicas: {}\n", flags.replicas))
        .replace(
            "image: bindery:0.1.0\n",
            &format!("image: {}\n", flags.image),
        )
        .replace(
            "secretName: bindery-servers,",
            &format!("secretName: {},", flags.secret),
        );
    if !flags.nameserver.is_empty() {
        text = with_servers(&text, flags)?;
    }
    Ok(text)
}

/// The same with name servers of the command line instead of a file.
fn with_servers(text: &str, flags: &InstallFlags) -> Result<String> {
    let mut lines = Vec::new();
    let mut ports = Vec::new();
    for server in &flags.nameserver {
        crate::address::name_server(server).map_err(anyhow::Error::msg)?;
        lines.push(argument(&format!("--nameserver={server}"))?);
        let port = server.rsplit_once(':').map_or("53", |(_, port)| port);
        let rule = format!("    - {{protocol: TCP, port: {port}}}\n");
        if port != "53" && !ports.contains(&rule) {
            ports.push(rule);
        }
    }
    for key in &flags.tsig_key {
        let flag = match key.split_once('=') {
            Some((cluster, file)) => format!("--tsig-key-file={cluster}={FOLDER}/{file}"),
            None => format!("--tsig-key-file={FOLDER}/{key}"),
        };
        lines.push(argument(&flag)?);
    }
    let file = argument(&format!("--servers={FOLDER}/servers.yaml"))?;
    let dns = "    - {protocol: TCP, port: 53}\n";
    Ok(text
        .replace(&file, &lines.concat())
        .replace(dns, &format!("{dns}{}", ports.concat())))
}

/// One argument of the container.
fn argument(text: &str) -> Result<String> {
    if text
        .chars()
        .any(|char| char.is_control() || "#\"'{}[],&*!|>%`".contains(char))
    {
        // Brackets of IPv6 addresses are the one thing that is quoted.
        let is_quotable = text
            .chars()
            .all(|char| char.is_ascii_graphic() && char != '\'');
        if is_quotable {
            return Ok(format!("        - '{text}'\n"));
        }
        bail!("{text:?} cannot be an argument in a manifest");
    }
    Ok(format!("        - {text}\n"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn printed(line: &str) -> Result<String> {
        let line = format!("bindery install {line}");
        let Command::Install(flags) = Cli::try_parse_from(line.split_whitespace())?.command else {
            unreachable!("the line says install");
        };
        manifests(&flags)
    }

    /// The definitions in `deploy/crds` are compared with those of the code by `cargo xtask crd --check`.
    #[test]
    fn what_is_printed_is_what_deploy_holds() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let mut held = bindery_api::crds_yaml();
        for file in ["rbac.yaml", "bindery.yaml"] {
            held += "---\n";
            held += &fs::read_to_string(deploy.join(file)).expect("it can be read");
        }
        let printed = printed("").expect("nothing is wrong");
        assert!(printed == held, "bindery install prints something else");
    }

    #[test]
    fn the_image_is_the_one_of_this_version() {
        let image = format!("image: bindery:{}\n", env!("CARGO_PKG_VERSION"));
        assert!(printed("").expect("nothing is wrong").contains(&image));
    }

    #[test]
    fn flags_replace_what_they_are_about() {
        let line = "--namespace dns --image registry.example/bindery@sha256:12ab --replicas 3 \
                    --secret ns --nameserver in/192.0.2.53:5353,out/secondary=[2001:db8::1]:53 \
                    --tsig-key in=in.key,out=out.key";
        let text = printed(line).expect("nothing is wrong");
        for wanted in [
            "  name: dns\n  labels:",
            "replicas: 3\n",
            "image: registry.example/bindery@sha256:12ab\n",
            "secretName: ns,",
            "        - --nameserver=in/192.0.2.53:5353\n",
            "        - '--nameserver=out/secondary=[2001:db8::1]:53'\n",
            "        - --tsig-key-file=in=/etc/bindery/in.key\n",
            "    - {protocol: TCP, port: 5353}\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
        for left in ["namespace: bindery", "servers.yaml", "bindery:0.1.0"] {
            assert!(!text.contains(left), "{left:?} is left");
        }
    }

    #[test]
    fn no_value_leaves_its_place() {
        for line in [
            "--image a{b",
            "--secret a,b",
            "--nameserver nonsense",
            "--nameserver a:53 --tsig-key it's",
        ] {
            assert!(printed(line).is_err(), "{line}");
        }
    }
}
