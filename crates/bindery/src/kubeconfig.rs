//! The kubeconfig that `up` writes into its data folder, so that `kubectl` needs no flags.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::data;

/// What the only cluster, user and context of the file are called.
const NAME: &str = "bindery";

/// How the API is reached.
pub(crate) struct Access<'a> {
    /// Its URL.
    pub(crate) server: &'a str,
    /// The certificate to trust, in PEM form.
    pub(crate) authority: Option<&'a str>,
    /// What to send with each request.
    pub(crate) token: Option<&'a str>,
}

/// Writes the file, which holds the token, so that nobody else can read it, and says where it is.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn write(folder: &Path, access: &Access<'_>) -> Result<PathBuf> {
    let path = folder.join("kubeconfig");
    data::write_private(&path, content(access).as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    // It is printed, and used from other folders.
    Ok(path.canonicalize().unwrap_or(path))
}

fn content(access: &Access<'_>) -> String {
    // JSON strings are YAML too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let authority = access.authority.map_or_else(String::new, |pem| {
        format!("\n    certificate-authority-data: {}", STANDARD.encode(pem))
    });
    let user = access.token.map_or_else(
        || "{}".to_owned(),
        |token| format!("{{token: {}}}", quoted(token)),
    );
    format!(
        "# Written by bindery up at every start.
apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    server: {server}{authority}
users:
- name: {NAME}
  user: {user}
contexts:
- name: {NAME}
  context: {{cluster: {NAME}, user: {NAME}}}
current-context: {NAME}
",
        server = quoted(access.server)
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kube::config::Kubeconfig;

    use super::*;

    fn read(access: &Access<'_>) -> Kubeconfig {
        Kubeconfig::from_yaml(&content(access)).expect("it is a kubeconfig")
    }

    #[test]
    fn it_says_where_the_api_is_and_whom_to_trust() {
        let plain = read(&Access {
            server: "http://127.0.0.1:6430",
            authority: None,
            token: None,
        });
        let cluster = plain.clusters[0].cluster.as_ref().expect("it is there");
        assert_eq!(cluster.server.as_deref(), Some("http://127.0.0.1:6430"));
        assert_eq!(cluster.certificate_authority_data, None);
        assert_eq!(plain.current_context.as_deref(), Some("bindery"));
        let secure = read(&Access {
            server: "https://[2001:db8::1]:6430",
            authority: Some("-----BEGIN CERTIFICATE-----\n"),
            token: Some("0123456789'\"\\{}#:"),
        });
        let cluster = secure.clusters[0].cluster.as_ref().expect("it is there");
        assert_eq!(
            cluster.certificate_authority_data.as_deref(),
            Some("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==")
        );
    }

    #[test]
    fn nobody_else_can_read_it() {
        let folder = tempfile::tempdir().expect("there is room");
        let access = Access {
            server: "https://192.0.2.1:6430",
            authority: None,
            token: Some("0123456789abcdef"),
        };
        let path = write(folder.path(), &access).expect("it is written");
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        // A file that was opened to all is closed again.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
        write(folder.path(), &access).expect("it is written");
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
