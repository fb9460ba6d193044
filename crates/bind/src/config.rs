//! The generated named.conf.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bindery_core::named::{OPTIONAL_OPTIONS, OPTIONS, SECONDARY_OPTIONS, logging, option_lines};
use bindery_dns::Key;
use zeroize::Zeroizing;

use super::{Options, listed};
use bindery_dns::local::Replication;

/// The log file, in the folder.
pub(super) const LOG: &str = "named.log";

/// The process id file, in the folder.
pub(super) const PID: &str = "named.pid";

/// The configuration, in the folder.
pub(super) const CONFIG: &str = "named.conf";

/// The name of the list of primaries.
pub(super) const PRIMARIES: &str = "bindery-primaries";

/// The folder of zone files, in the folder.
pub(super) const ZONES: &str = "zones";

/// The list of zones that were added together, in the folder.
pub(super) const LISTED: &str = "zones.conf";

/// Writes the configuration and the folders it needs; `supported` is what `named -C` prints.
pub(super) fn write(
    options: &Options,
    control: SocketAddr,
    control_key: &Key,
    supported: &str,
) -> Result<PathBuf, (PathBuf, io::Error)> {
    for folder in [options.folder.clone(), options.folder.join(ZONES)] {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|error| (folder, error))?;
    }
    // A fresh log, so that an error message quotes this start and not an old one.
    let log = options.folder.join(LOG);
    match fs::rename(&log, options.folder.join("named.log.old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((log, error)),
        Ok(()) | Err(_) => {}
    }
    let path = options.folder.join(CONFIG);
    let text = text(options, control, control_key, supported);
    write_private(&path, text.as_bytes()).map_err(|error| (path.clone(), error))?;
    Ok(path)
}

/// Writes a file that only we can read, whole or not at all, also if power is lost.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // A file left by a crash may have other rights.
    remove_file(&temporary)?;
    create_private(&temporary, bytes)?.sync_all()?;
    fs::rename(&temporary, path)
}

/// Makes a file that only we can read; there must be none yet.
pub(super) fn create_private(path: &Path, bytes: &[u8]) -> io::Result<fs::File> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Removes a file, if there is one.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn text(
    options: &Options,
    control: SocketAddr,
    control_key: &Key,
    supported: &str,
) -> Zeroizing<String> {
    let folder = quoted(&options.folder);
    let key = options.key.name();
    let listen = match options.address {
        SocketAddr::V4(address) => format!(
            "listen-on port {} {};\n\tlisten-on-v6 {{ none; }};",
            address.port(),
            listed((*address.ip()).into())
        ),
        SocketAddr::V6(address) => format!(
            "listen-on {{ none; }};\n\tlisten-on-v6 port {} {};",
            address.port(),
            listed((*address.ip()).into())
        ),
    };
    let (primaries, role) = role(&options.role, &key);
    let known = OPTIONAL_OPTIONS.iter();
    let optional = option_lines(known.filter(|(option, _)| supported.contains(option)));
    Zeroizing::new(format!(
        r#"// Written by Bindery at each start; changes here are lost.
{key_statement}{control_key_statement}
{primaries}controls {{
	inet 127.0.0.1 port {control_port} allow {{ 127.0.0.1; }} keys {{ "{control_key_name}"; }};
}};

options {{
	directory {folder};
	pid-file "{PID}";
	session-keyfile "session.key";
	managed-keys-directory {folder};
	{listen}
	recursion no;
	allow-query {{ any; }};
	allow-query-cache {{ none; }};
	allow-transfer {{ key "{key}"; }};
	allow-update {{ key "{key}"; }};
	dnssec-validation no;
{common}{role}{optional}}};

{logging}
include "{LISTED}";
"#,
        key_statement = *options.key.to_key_file(),
        control_key_statement = *control_key.to_key_file(),
        control_port = control.port(),
        control_key_name = control_key.name(),
        common = option_lines(&OPTIONS),
        logging = logging(&format!("file \"{LOG}\" versions 2 size 10m")),
    ))
}

/// What a role needs: a list of primaries before the options, and lines among them.
///
/// Zones refer to the list by its name, so that primaries may have moved at the next start.
fn role(role: &Replication, key: &str) -> (String, String) {
    match role {
        Replication::Primary { notify } if notify.is_empty() => {
            (String::new(), "\tnotify no;\n".to_owned())
        }
        Replication::Primary { notify } => {
            let list = signed(notify, key);
            let lines = format!("\tnotify explicit;\n\talso-notify {{ {list} }};\n");
            (String::new(), lines)
        }
        Replication::Secondary { primaries } => {
            let list = signed(primaries, key);
            let list = format!("primaries \"{PRIMARIES}\" {{ {list} }};\n");
            let common = option_lines(&SECONDARY_OPTIONS);
            let lines = format!("\tallow-notify {{ key \"{key}\"; }};\n{common}");
            (list, lines)
        }
    }
}

/// Servers as a list in named.conf, each to be spoken to with the key.
fn signed(servers: &[SocketAddr], key: &str) -> String {
    let list: Vec<String> = servers
        .iter()
        .map(|server| format!("{} port {} key \"{key}\";", server.ip(), server.port()))
        .collect();
    list.join(" ")
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn configured(address: &str, role: Replication) -> Zeroizing<String> {
        let options = Options {
            program: "named".into(),
            folder: "/var/lib/bind\"ery".into(),
            address: address.parse().unwrap(),
            key: Key::generate("bindery", [1; 32]).unwrap(),
            role,
            clock: Arc::new(|| 0),
            random: Arc::new(|| [0; 32]),
        };
        let control = Key::generate("control", [2; 32]).unwrap();
        text(
            &options,
            "127.0.0.1:953".parse().unwrap(),
            &control,
            "max-records-per-type 100;",
        )
    }

    #[test]
    fn it_listens_where_it_is_told_and_nowhere_else() {
        let four = configured("127.0.0.2:5300", Replication::default());
        assert!(
            four.contains("listen-on port 5300 { 127.0.0.2; };"),
            "{}",
            *four
        );
        assert!(four.contains("listen-on-v6 { none; };"));
        let six = configured("[::1]:5300", Replication::default());
        assert!(six.contains("listen-on-v6 port 5300 { ::1; };"), "{}", *six);
        assert!(six.contains("listen-on { none; };"));
        // An address of zeros means all, which BIND has a word for.
        let all = configured("0.0.0.0:5300", Replication::default());
        assert!(all.contains("listen-on port 5300 { any; };"), "{}", *all);
    }

    #[test]
    fn options_of_newer_versions_are_left_out_where_unknown() {
        let text = configured("127.0.0.1:53", Replication::default());
        assert!(text.contains("max-records-per-type 0;"));
        assert!(!text.contains("lock-file"));
    }

    #[test]
    fn secondaries_are_told_and_paths_are_quoted() {
        let notify = servers();
        let text = configured("127.0.0.1:53", Replication::Primary { notify });
        let told = r#"also-notify { 192.0.2.1 port 53 key "bindery"; 2001:db8::1 port 5353 key "bindery"; };"#;
        assert!(text.contains(told), "{}", *text);
        assert!(text.contains(r#"directory "/var/lib/bind\"ery";"#));
    }

    #[test]
    fn a_secondary_knows_its_primaries_by_a_name() {
        let primaries = servers();
        let text = configured("127.0.0.1:53", Replication::Secondary { primaries });
        let list = r#"primaries "bindery-primaries" { 192.0.2.1 port 53 key "bindery"; 2001:db8::1 port 5353 key "bindery"; };"#;
        assert!(text.contains(list), "{}", *text);
        assert!(text.contains(r#"allow-notify { key "bindery"; };"#));
        assert!(!text.contains("also-notify"));
    }

    fn servers() -> Vec<SocketAddr> {
        ["192.0.2.1:53", "[2001:db8::1]:5353"]
            .map(|address| address.parse().unwrap())
            .to_vec()
    }
}
