//! A real control plane on loopback: etcd, kube-apiserver and, once asked, kube-controller-manager.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::http::{Call, Http};
use crate::process::{ServerProcess, free_port};
use crate::program::ControlPlane;

/// A cold start on two busy cores takes a quarter of this.
const START_PATIENCE: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// What stands before the point in the DER form of a P-256 public key (RFC 5480 section 2).
const P256_PUBLIC_KEY_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const ADMIN_TOKEN: &str = "battery-admin";

/// How many events a watch may lag behind before etcd has compacted them away.
pub const COMPACTION_INTERVAL: Duration = Duration::from_secs(10);

/// A running control plane; dropping it stops every process and removes its folder.
pub struct Kubernetes {
    // Order matters: fields are dropped from first to last, etcd after its client.
    controller_manager: Option<ServerProcess>,
    apiserver: ServerProcess,
    etcd: ServerProcess,
    folder: TempDir,
    programs: ControlPlane,
    url: String,
    http: Http,
}

impl Kubernetes {
    /// Starts etcd and the API server and waits until it is ready.
    ///
    /// # Errors
    /// When a program is missing or does not come up; the end of its log is part of the message.
    pub async fn start() -> Result<Self> {
        let programs = ControlPlane::find()?;
        let folder = tempfile::tempdir().context("cannot create a scratch folder")?;
        let (client, peer, port) = (free_port()?, free_port()?, free_port()?);
        write_signing_key(folder.path())?;
        let tokens = format!("{ADMIN_TOKEN},admin,admin-uid,\"system:masters\"\n");
        fs::write(folder.path().join("tokens.csv"), tokens).context("cannot write the tokens")?;
        let etcd = start_etcd(&programs, folder.path(), client, peer)?;
        let apiserver = start_apiserver(&programs, folder.path(), client, port)?;
        let url = format!("https://127.0.0.1:{port}");
        let http = Http::connect(&url, Some(ADMIN_TOKEN))?;
        let mut plane = Self {
            controller_manager: None,
            apiserver,
            etcd,
            folder,
            programs,
            url,
            http,
        };
        plane.wait_until_ready().await?;
        fs::write(plane.kubeconfig(), plane.kubeconfig_for(ADMIN_TOKEN))
            .context("cannot write kubeconfig")?;
        Ok(plane)
    }

    /// Starts garbage collection and the namespace controller. Custom kinds that exist now are
    /// collected at once; those that come later only after the controller's next look at discovery.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_controllers(&mut self) -> Result<()> {
        let log = self.folder.path().join("controller-manager.log");
        let mut command = Command::new(&self.programs.controller_manager);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!(
                "--service-account-private-key-file={}",
                self.folder.path().join("sa.key").display()
            ))
            .args([
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                "--secure-port=0",
            ])
            .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
            .arg("--controllers=*,-nodelifecycle");
        self.controller_manager = Some(ServerProcess::start(&mut command, &log)?);
        Ok(())
    }

    /// A client with every right.
    #[must_use]
    pub fn http(&self) -> Http {
        self.http.clone()
    }

    /// Where the API server listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig with every right.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            for server in [&mut self.etcd, &mut self.apiserver] {
                ensure!(
                    !server.has_ended(),
                    "a server ended at once:\n{}",
                    server.log_tail()
                );
            }
            let probe = self.http.send(Call::new(Method::GET, "/readyz")).await;
            if probe.is_ok_and(|answer| answer.code == 200) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "kube-apiserver is not ready:\n{}",
                    self.apiserver.log_tail()
                );
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The text of a kubeconfig of whoever has a token.
    #[must_use]
    pub fn kubeconfig_for(&self, token: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
             clusters:\n- name: real\n  cluster: {{server: \"{}\", insecure-skip-tls-verify: true}}\n\
             users:\n- name: admin\n  user: {{token: {token}}}\n\
             contexts:\n- name: real\n  context: {{cluster: real, user: admin}}\n",
            self.url
        )
    }
}

fn start_etcd(
    programs: &ControlPlane,
    folder: &Path,
    client: u16,
    peer: u16,
) -> Result<ServerProcess> {
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let mut command = Command::new(&programs.etcd);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")])
        // The data is thrown away at the end, so durability would only cost time.
        .arg("--unsafe-no-fsync");
    ServerProcess::start(&mut command, &folder.join("etcd.log"))
}

fn start_apiserver(
    programs: &ControlPlane,
    folder: &Path,
    etcd: u16,
    port: u16,
) -> Result<ServerProcess> {
    let key = folder.join("sa.key");
    let mut command = Command::new(&programs.apiserver);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--cert-dir={}", folder.join("certs").display()))
        .arg(format!(
            "--service-account-key-file={}",
            folder.join("sa.pub").display()
        ))
        .arg(format!(
            "--service-account-signing-key-file={}",
            key.display()
        ))
        .arg(format!(
            "--token-auth-file={}",
            folder.join("tokens.csv").display()
        ))
        .arg(format!(
            "--etcd-compaction-interval={}s",
            COMPACTION_INTERVAL.as_secs()
        ))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .args([
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
        ])
        .arg("--service-account-issuer=https://kubernetes.default.svc");
    ServerProcess::start(&mut command, &folder.join("apiserver.log"))
}

/// Writes a throw-away key pair in PEM with which the API server signs service-account tokens.
fn write_signing_key(folder: &Path) -> Result<()> {
    let document =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
            .map_err(|_| anyhow!("no randomness for a key"))?;
    let pair = EcdsaKeyPair::from_pkcs8(
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        document.as_ref(),
        &SystemRandom::new(),
    )
    .map_err(|fault| anyhow!("our own key is refused: {fault}"))?;
    let public = [&P256_PUBLIC_KEY_HEAD[..], pair.public_key().as_ref()].concat();
    fs::write(folder.join("sa.key"), pem("PRIVATE KEY", document.as_ref()))
        .context("cannot write the key")?;
    fs::write(folder.join("sa.pub"), pem("PUBLIC KEY", &public)).context("cannot write the key")
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}
