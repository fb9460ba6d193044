//! The first lines of `up`: where everything is, and what to try.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::folder::Scan;
use crate::nameserver::Listening;
use crate::out;

/// Where everything is.
pub(crate) struct Banner {
    pub(crate) folder: PathBuf,
    pub(crate) data: PathBuf,
    /// The URL of the API.
    pub(crate) api: String,
    pub(crate) kubeconfig: PathBuf,
    /// The name servers, each leader first.
    pub(crate) dns: Vec<Listening>,
    pub(crate) dns_what: String,
    pub(crate) metrics: SocketAddr,
}

impl Banner {
    /// Says it, with a name to ask for that the folder declares.
    pub(crate) fn say(&self, scan: &Scan) {
        for line in self.lines(scan) {
            out::say(&line);
        }
    }

    fn lines(&self, scan: &Scan) -> Vec<String> {
        let Self {
            folder,
            data,
            api,
            kubeconfig,
            dns,
            dns_what,
            metrics,
        } = self;
        let version = env!("CARGO_PKG_VERSION");
        let servers = dns.iter().map(|one| {
            let address = one.address;
            let cluster = one.group.name().map(|name| format!("cluster {name}, "));
            let role = (dns.len() > 1).then(|| format!("{}, ", one.role.as_str()));
            let (cluster, role) = (cluster.unwrap_or_default(), role.unwrap_or_default());
            format!("  DNS      {address} ({cluster}{role}{dns_what})")
        });
        let (host, port) = dns.first().map_or_else(
            || ("127.0.0.1".to_owned(), 53),
            |one| (one.address.ip().to_string(), one.address.port()),
        );
        let name = example(scan).unwrap_or_else(|| "www.example.com".to_owned());
        let mut lines = vec![
            format!("Bindery {version} keeps {} applied", folder.display()),
            format!("  API      {api}"),
        ];
        lines.extend(servers);
        lines.extend([
            format!("  metrics  http://{metrics}/metrics"),
            format!("  data     {}", data.display()),
            "Try:".to_owned(),
            format!("  export KUBECONFIG={}", for_shell(kubeconfig)),
            "  kubectl get dnszones,arecords".to_owned(),
            format!("  dig @{host} -p {port} {name}"),
            String::new(),
        ]);
        lines
    }
}

/// A path as a shell reads it.
fn for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if text.bytes().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A name that the folder declares: the first A record in the first zone.
fn example(scan: &Scan) -> Option<String> {
    let first = |kind: &str, field: &str| {
        let mut documents = scan.documents().map(|(_, document)| document);
        let document = documents.find(|document| document.key.kind == kind)?;
        document.value.pointer(field).and_then(Value::as_str)
    };
    let zone = first("DNSZone", "/spec/zoneName")?.trim_end_matches('.');
    match first("ARecord", "/spec/name") {
        None | Some("@" | "") => Some(zone.to_owned()),
        Some(name) if name.ends_with('.') => Some(name.trim_end_matches('.').to_owned()),
        Some(name) => Some(format!("{name}.{zone}")),
    }
}

#[cfg(test)]
mod tests {
    use bindery_core::Group;
    use bindery_core::ServerRole;

    use super::*;
    use crate::folder::FolderReader;

    #[test]
    fn the_first_lines_say_where_and_what_to_try() {
        let folder = tempfile::tempdir().expect("there is room");
        let text = "{apiVersion: v1, kind: DNSZone, metadata: {name: z}, spec: {zoneName: a.test}}\n\
                    ---\n{apiVersion: v1, kind: ARecord, metadata: {name: w}, spec: {name: w}}\n";
        std::fs::write(folder.path().join("a.yaml"), text).expect("it is ours");
        let scan = FolderReader::peek(folder.path().to_owned()).expect("it is there");
        let banner = Banner {
            folder: "zones".into(),
            data: "/data".into(),
            api: "http://127.0.0.1:6430".to_owned(),
            kubeconfig: "/my data/kubeconfig".into(),
            dns: vec![Listening {
                group: Group::UNNAMED,
                address: "[::1]:5300".parse().expect("a fixture is an address"),
                role: ServerRole::Primary,
            }],
            dns_what: "built-in server".to_owned(),
            metrics: ([127, 0, 0, 1], 9970).into(),
        };
        assert_eq!(
            banner.lines(&scan)[1..],
            [
                "  API      http://127.0.0.1:6430",
                "  DNS      [::1]:5300 (built-in server)",
                "  metrics  http://127.0.0.1:9970/metrics",
                "  data     /data",
                "Try:",
                "  export KUBECONFIG='/my data/kubeconfig'",
                "  kubectl get dnszones,arecords",
                "  dig @::1 -p 5300 w.a.test",
                "",
            ]
        );
    }
}
