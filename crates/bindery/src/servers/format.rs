//! The file of name servers: clusters, their servers, and where their keys are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bindery_core::{Group, ServerId, ServerInfo, ServerRole};
use serde::Deserialize;
use serde_saphyr::{Options, Spanned};

use crate::address;
use crate::folder::FileProblem;

/// Servers in one file. Each is asked once a second whether it answers, so this is a thousand small
/// questions a second.
const SERVERS_MAX: usize = 1_000;
/// Nodes that one file may have: a server has about ten.
const NODES_MAX: usize = 100_000;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServersFile {
    /// The clusters that it names, some of which may have no servers.
    pub(super) groups: BTreeSet<Group>,
    /// Their servers, in the order of the file.
    pub(super) servers: Vec<FileServer>,
}

/// A server as the file has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileServer {
    pub(super) group: Group,
    pub(super) info: ServerInfo,
    /// Its key, or that of its cluster, where it has one.
    pub(super) key: Option<KeySource>,
    /// Where it stands in the file.
    pub(super) line: u64,
    /// The path of its fields, as `clusters[0].servers[1]`.
    pub(super) field: String,
}

/// Where a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeySource {
    pub(super) place: KeyPlace,
    pub(super) line: u64,
    pub(super) field: String,
}

/// The file that a key is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// All of it, in BIND's key-file format.
    Whole(PathBuf),
    /// The secret alone, as base64; the name and the algorithm stand beside the path.
    Secret {
        name: String,
        algorithm: String,
        path: PathBuf,
    },
}

impl KeyPlace {
    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::Whole(path) | Self::Secret { path, .. } => path,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    clusters: Listed<ClusterText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ClusterText {
    name: Option<Spanned<String>>,
    tsig_key_file: Option<Spanned<String>>,
    tsig_key: Option<KeyText>,
    servers: Listed<ServerText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ServerText {
    name: Spanned<String>,
    address: Spanned<String>,
    role: Option<Spanned<String>>,
    tsig_key_file: Option<Spanned<String>>,
    tsig_key: Option<KeyText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct KeyText {
    name: Spanned<String>,
    algorithm: Option<String>,
    secret_file: String,
}

/// A list that must be there: a file that was cut ends behind a word like `servers:`, and means none by it.
type Listed<T> = Spanned<Option<Vec<T>>>;

/// What goes wrong somewhere in the file.
type Wrong = (u64, String, String);

/// Reads the text of a file.
///
/// # Errors
/// The first mistake, with its line and its field.
pub(super) fn parse(file: &str, text: &str) -> Result<ServersFile, FileProblem> {
    if text.lines().all(|line| line.trim().is_empty()) {
        return Err(FileProblem::with_file(file, "is empty"));
    }
    let read = serde_saphyr::from_str_with_options::<FileText>(text, options());
    let clusters = read.map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        let rendered = error.without_snippet().to_string();
        let text = rendered.lines().next().unwrap_or_default();
        let text = text.split_once(" at line ").map_or(text, |(text, _)| text);
        FileProblem::at(file, line, text.to_owned())
    })?;
    let clusters = entries(clusters.clusters, "clusters");
    let content = clusters.and_then(content);
    content.map_err(|(line, field, text)| FileProblem::at(file, line, format!("{field}: {text}")))
}

fn entries<T>(list: Listed<T>, field: &str) -> Result<Vec<T>, Wrong> {
    let line = list.referenced.line();
    let missing = || {
        let text = "nothing stands behind it; write [] where there are none".to_owned();
        (line, field.to_owned(), text)
    };
    list.value.ok_or_else(missing)
}

fn content(clusters: Vec<ClusterText>) -> Result<ServersFile, Wrong> {
    let mut content = ServersFile::default();
    for (index, cluster) in clusters.into_iter().enumerate() {
        add_cluster(&mut content, format!("clusters[{index}]"), cluster)?;
    }
    Ok(content)
}

fn add_cluster(content: &mut ServersFile, field: String, text: ClusterText) -> Result<(), Wrong> {
    let line = text.servers.referenced.line();
    let (group, line) = match &text.name {
        None => (Group::UNNAMED, line),
        Some(name) => {
            let line = name.referenced.line();
            let checked = address::cluster_name(&name.value);
            let checked = checked.map_err(|text| (line, format!("{field}.name"), text));
            (Group::named(checked?), line)
        }
    };
    if !content.groups.insert(group.clone()) {
        let text = format!("{group} stands in the file twice; put its servers into one list");
        return Err((line, format!("{field}.name"), text));
    }
    let common = key(&field, text.tsig_key_file, text.tsig_key)?;
    let place = (group, field, common);
    let before = content.servers.len();
    let servers = entries(text.servers, &format!("{}.servers", place.1))?;
    for (index, server) in servers.into_iter().enumerate() {
        add_server(content, &place, index, server)?;
    }
    let (group, field, _) = place;
    let own = &content.servers[before..];
    if !own.is_empty() && own.iter().all(|one| one.info.role == ServerRole::Secondary) {
        let text = format!(
            "names no primary of {group}, so nobody could take updates; give one of them the role primary"
        );
        return Err((line, format!("{field}.servers"), text));
    }
    Ok(())
}

fn add_server(
    content: &mut ServersFile,
    (group, cluster, common): &(Group, String, Option<KeySource>),
    index: usize,
    text: ServerText,
) -> Result<(), Wrong> {
    let field = format!("{cluster}.servers[{index}]");
    let line = text.name.referenced.line();
    let name = text.name.value;
    if !address::is_label(&name) {
        let text = format!(
            "{name:?} is no name of a server; write up to 63 small letters, digits and '-', as in ns1"
        );
        return Err((line, format!("{field}.name"), text));
    }
    let at = text.address.referenced.line();
    let checked = address::host_and_port(&text.address.value);
    let address = checked.map_err(|text| (at, format!("{field}.address"), text))?;
    let role = match &text.role {
        None => ServerRole::Primary,
        Some(role) => {
            read_role(role).map_err(|(line, text)| (line, format!("{field}.role"), text))?
        }
    };
    let key = key(&field, text.tsig_key_file, text.tsig_key)?;
    if content.servers.len() >= SERVERS_MAX {
        let text = format!("a file may have {SERVERS_MAX} servers");
        return Err((line, field, text));
    }
    content.servers.push(FileServer {
        group: group.clone(),
        info: ServerInfo {
            id: ServerId::new(&name),
            address: address.into(),
            role,
        },
        key: key.or_else(|| common.clone()),
        line,
        field,
    });
    Ok(())
}

fn read_role(role: &Spanned<String>) -> Result<ServerRole, (u64, String)> {
    match &*role.value {
        "primary" => Ok(ServerRole::Primary),
        "secondary" => Ok(ServerRole::Secondary),
        other => {
            let text = format!("{other:?} is no role; write primary or secondary");
            Err((role.referenced.line(), text))
        }
    }
}

fn key(
    field: &str,
    whole: Option<Spanned<String>>,
    secret: Option<KeyText>,
) -> Result<Option<KeySource>, Wrong> {
    match (whole, secret) {
        (None, None) => Ok(None),
        (Some(path), None) => Ok(Some(KeySource {
            line: path.referenced.line(),
            field: format!("{field}.tsigKeyFile"),
            place: KeyPlace::Whole(path.value.into()),
        })),
        (None, Some(key)) => Ok(Some(KeySource {
            line: key.name.referenced.line(),
            field: format!("{field}.tsigKey"),
            place: KeyPlace::Secret {
                name: key.name.value,
                algorithm: key.algorithm.unwrap_or_else(|| "hmac-sha256".to_owned()),
                path: key.secret_file.into(),
            },
        })),
        (Some(path), Some(_)) => {
            let text = "stands beside tsigKey; leave one of the two".to_owned();
            let line = path.referenced.line();
            Err((line, format!("{field}.tsigKeyFile"), text))
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_MAX,
        },
        strict_booleans: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Vec<String>, String> {
        let content = parse("servers.yaml", text).map_err(|problem| problem.to_string())?;
        let line = |one: &FileServer| {
            let FileServer { group, info, .. } = one;
            let key = one.key.as_ref();
            let key = key.map_or_else(String::new, |key| key.place.path().display().to_string());
            let (name, role) = (group.name().unwrap_or("-"), info.role.as_str());
            format!("{name} {} {} {role} {key}", info.id, info.address)
        };
        Ok(content.servers.iter().map(line).collect())
    }

    #[test]
    fn servers_have_a_name_an_address_a_role_and_a_key() {
        let text = "\
# ours
clusters:
- servers:
  - {name: ns1, address: '192.0.2.53:53'}
  tsigKeyFile: common.key
- name: internal
  servers:
  - name: ns1
    address: ns1.example.net:53
    tsigKey: {name: bindery, secretFile: /run/secret}
  - name: ns2
    address: '[2001:db8::53]:53'
    role: secondary
- {name: empty, servers: []}
";
        let wanted = [
            "- ns1 192.0.2.53:53 primary common.key",
            "internal ns1 ns1.example.net:53 primary /run/secret",
            "internal ns2 [2001:db8::53]:53 secondary ",
        ];
        assert_eq!(check(text), Ok(wanted.map(str::to_owned).to_vec()));
        let content = parse("servers.yaml", text).expect("it is right");
        assert!(content.groups.contains(&Group::named("empty")));
        assert_eq!(check("clusters: []"), Ok(Vec::new()));
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_its_field() {
        let server = |more: &str| format!("clusters:\n- servers:\n  - name: a\n    {more}\n");
        for (text, wanted) in [
            (String::new(), "servers.yaml: is empty"),
            ("\n  \n".to_owned(), "servers.yaml: is empty"),
            ("# later\n".to_owned(), "servers.yaml"),
            (
                "clusters:\n".to_owned(),
                "servers.yaml:1: clusters: nothing stands behind it",
            ),
            (
                "clusters:\n- name: a\n  servers:\n".to_owned(),
                "servers.yaml:3: clusters[0].servers: nothing stands behind it",
            ),
            ("clusters: [\n".to_owned(), "servers.yaml:1: "),
            (
                "clusers: []\n".to_owned(),
                "servers.yaml:1: unknown field `clusers`",
            ),
            (
                server("role: primary"),
                "servers.yaml:4: missing field `address`",
            ),
            (
                server("address: 192.0.2.53"),
                "servers.yaml:4: clusters[0].servers[0].address: the port is missing",
            ),
            (
                server("address: ns1:53\n    role: main"),
                "servers.yaml:5: clusters[0].servers[0].role: \"main\" is no role",
            ),
            (
                server("address: ns1:53\n    role: secondary"),
                "servers.yaml:3: clusters[0].servers: names no primary of the servers without",
            ),
            (
                server("adress: ns1:53"),
                "servers.yaml:4: unknown field `adress`",
            ),
            (
                "clusters:\n- name: In\n  servers: []\n".to_owned(),
                "servers.yaml:2: clusters[0].name: \"In\" is no name of a cluster",
            ),
            (
                "clusters:\n- {name: a, servers: []}\n- {name: a, servers: []}\n".to_owned(),
                "servers.yaml:3: clusters[1].name: cluster a stands in the file twice",
            ),
            (
                server(
                    "address: ns1:53\n    tsigKeyFile: a\n    tsigKey: {name: k, secretFile: b}",
                ),
                "servers.yaml:5: clusters[0].servers[0].tsigKeyFile: stands beside tsigKey",
            ),
        ] {
            let message = check(&text).expect_err(&text);
            assert!(message.starts_with(wanted), "{text}\n{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn a_file_may_have_a_hundred_servers_and_not_any_number() {
        let file = |count: usize| {
            let server = |one| format!("  - {{name: s{one}, address: 'ns{one}:53'}}\n");
            let servers: String = (0..count).map(server).collect();
            format!("clusters:\n- servers:\n{servers}")
        };
        assert_eq!(check(&file(100)).map(|found| found.len()), Ok(100));
        let message = check(&file(SERVERS_MAX + 1)).expect_err("it is too much");
        assert!(message.contains("1000 servers"), "{message}");
    }
}
