//! Zone files for `named` and the commands that make it take them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bindery_core::{Name, Record};
use bindery_dns::local::{self, Replication, zone_file_name};

use super::config::{PRIMARIES, ZONES, create_private, remove_file, write_private};

/// Writes the file of a new zone, in place of what is left of an old one of the same name. Nobody reads it
/// before `named` is told of the zone.
pub(super) fn write(
    folder: &Path,
    zone: &Name,
    records: &[Record],
    role: &Replication,
) -> io::Result<()> {
    remove_files(folder, zone)?;
    let mut text = String::from("; Written by Bindery; named rewrites it.\n");
    for record in records {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{record}");
    }
    let file = create_private(&path(folder, zone), text.as_bytes())?;
    match role {
        Replication::Primary { .. } => file.sync_all(),
        // A copy that cannot be read, since power was lost, is fetched.
        Replication::Secondary { .. } => Ok(()),
    }
}

/// Makes an empty file if the zone has none.
pub(super) fn ensure_file(folder: &Path, zone: &Name) -> io::Result<()> {
    let path = path(folder, zone);
    if path.exists() {
        return Ok(());
    }
    write_private(&path, &[])
}

/// Where a zone's file is.
pub(super) fn path(folder: &Path, zone: &Name) -> PathBuf {
    folder.join(ZONES).join(zone_file_name(zone))
}

/// Which files of a zone are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// The changes since the zone's file was written.
    Journal,
    /// That and the zone's file.
    All,
}

/// Puts files of a zone aside, and says where those are that there were.
pub(super) fn put_aside(folder: &Path, zone: &Name, files: Files) -> io::Result<Vec<PathBuf>> {
    let file = zone_file_name(zone);
    let journal = format!("{file}.jnl");
    let names = match files {
        Files::Journal => vec![journal],
        Files::All => vec![journal, file],
    };
    let paths = names.into_iter().map(|name| folder.join(ZONES).join(name));
    let there = paths.filter(|path| fs::symlink_metadata(path).is_ok());
    there.map(|path| local::put_aside(folder, &path)).collect()
}

/// Removes a zone's file and journal.
pub(super) fn remove_files(folder: &Path, zone: &Name) -> io::Result<()> {
    let file = zone_file_name(zone);
    for name in [file.clone(), format!("{file}.jnl")] {
        let path = folder.join(ZONES).join(name);
        // To look is cheap; to remove, even what is not there, keeps everybody else out of the folder.
        if fs::symlink_metadata(&path).is_ok() {
            remove_file(&path)?;
        }
    }
    Ok(())
}

/// How many zones have a file.
pub(super) fn count(folder: &Path) -> usize {
    fs::read_dir(folder.join(ZONES)).map_or(0, |files| {
        let names = files.flatten().map(|file| file.file_name());
        names
            .filter(|name| Path::new(name).extension() == Some("zone".as_ref()))
            .count()
    })
}

/// What the statement of a zone begins with, followed by ` IN `.
pub(super) fn opening(zone: &Name) -> String {
    format!("zone {}", quoted(zone))
}

/// The control command that adds a zone.
pub(super) fn add_command(zone: &Name, role: &Replication, key: &str) -> String {
    format!("add{}", statement(zone, role, key))
}

/// A zone as it stands in a configuration: one whose file is written, or one to be copied.
pub(super) fn statement(zone: &Name, role: &Replication, key: &str) -> String {
    let source = match role {
        Replication::Primary { .. } => format!("type primary; allow-update {{ key \"{key}\"; }};"),
        Replication::Secondary { .. } => {
            format!("type secondary; primaries {{ \"{PRIMARIES}\"; }};")
        }
    };
    format!(
        "{} IN {{ {source} file \"{ZONES}/{}\"; allow-transfer {{ key \"{key}\"; }}; }};",
        opening(zone),
        zone_file_name(zone),
    )
}

/// The same of a primary that signs its zone by a policy. It is signed in place: an update and its signatures
/// are one change with one serial.
pub(super) fn signed_statement(zone: &Name, role: &Replication, key: &str, policy: &str) -> String {
    let plain = statement(zone, role, key);
    let open = plain.strip_suffix(" };").unwrap_or(&plain);
    format!("{open} {} }};", signing(policy))
}

/// The clauses that have a zone signed by a policy.
fn signing(policy: &str) -> String {
    format!("dnssec-policy \"{policy}\"; inline-signing no;")
}

/// Whether a zone is signed by this policy, by what `named` shows of it.
pub(super) fn is_signed_by(shown: &str, policy: &str) -> bool {
    let words: Vec<&str> = shown.split_whitespace().collect();
    words.join(" ").contains(&signing(policy))
}

/// Whether a text can be the name of a policy; nothing else becomes configuration.
pub(super) fn is_policy_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=63).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The control command that changes a zone's statement.
pub(super) fn change_command(statement: &str) -> String {
    format!("mod{statement}")
}

/// The control command that shows a zone's statement.
pub(super) fn show_command(zone: &Name) -> String {
    format!("showzone {}", quoted(zone))
}

/// The control command that has a secondary look for news.
pub(super) fn refresh_command(zone: &Name) -> String {
    format!("refresh {}", quoted(zone))
}

/// The control command that has a zone loaded which is not; it ends when that is done or has failed.
pub(super) fn load_command(zone: &Name) -> String {
    format!("reload {}", quoted(zone))
}

/// The control command that removes a zone.
pub(super) fn remove_command(zone: &Name) -> String {
    format!("delzone -clean {}", quoted(zone))
}

/// A zone's name for `named`, in quotes. What is not plain is given by its number: between quotes `named`
/// reads a backslash as one, and nothing else that ends a word or a line may stand there.
#[must_use]
pub fn quoted(zone: &Name) -> String {
    let mut text = String::from("\"");
    for label in zone.labels() {
        for byte in label {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*' | b'/') {
                text.push(char::from(*byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\{byte:03}");
            }
        }
        text.push('.');
    }
    if zone.is_root() {
        text.push('.');
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_stands_in_the_statement_and_is_found_in_what_named_shows() {
        let zone = Name::parse("example.com").unwrap();
        let role = Replication::default();
        let signed = signed_statement(&zone, &role, "k", "default");
        assert!(
            signed.ends_with(r#" dnssec-policy "default"; inline-signing no; };"#),
            "{signed}"
        );
        assert!(is_signed_by(&signed, "default") && !is_signed_by(&signed, "defaul"));
        assert!(!is_signed_by(&statement(&zone, &role, "k"), "default"));
        assert!(is_policy_name("default") && is_policy_name("my-policy.2"));
        for bad in ["", "a b", "a\"; }", "a;", &"a".repeat(64)] {
            assert!(!is_policy_name(bad), "{bad}");
        }
    }

    #[test]
    fn nothing_in_a_name_gets_out_of_its_quotes() {
        let shown = |text: &str| quoted(&Name::parse(text).unwrap());
        assert_eq!(shown("example.com."), r#""example.com.""#);
        assert_eq!(shown("."), r#"".""#);
        assert_eq!(shown(r"\046.test."), r#""\046.test.""#);
        assert_eq!(
            shown(r#"a\"\;\010 b\\.test."#.replace(' ', r"\032").as_str()),
            r#""a\034\059\010\032b\092.test.""#
        );
    }
}
