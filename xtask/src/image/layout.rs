//! The files of an OCI image layout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A layout that is being written.
pub(super) struct Layout {
    folder: PathBuf,
}

/// A layer of the layout.
pub(super) struct Layer {
    descriptor: Value,
    /// The digest of what it is before it is compressed.
    pub(super) diff_id: String,
}

impl Layout {
    /// An empty layout in the place of whatever was there.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        if folder.exists() {
            // Nothing but a layout is taken away.
            ensure!(
                folder.join("oci-layout").is_file(),
                "{} is there and no image; remove it",
                folder.display()
            );
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot replace {}", folder.display()))?;
        }
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot make {}", blobs.display()))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Writes what names everything else, and returns the digest of the image.
    pub(super) fn finish(&self, config: &Value, layers: &[Layer], tag: &str) -> Result<String> {
        let config = self.blob(CONFIG, &serde_json::to_vec(config)?)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers.iter().map(|one| &one.descriptor).collect::<Vec<_>>(),
        });
        let mut manifest = self.blob(MANIFEST, &serde_json::to_vec(&manifest)?)?;
        let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        self.write("index.json", &serde_json::to_vec(&index)?)?;
        self.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(digest)
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = sha256(bytes);
        self.write(&format!("blobs/sha256/{digest}"), bytes)?;
        let digest = format!("sha256:{digest}");
        Ok(json!({"mediaType": media_type, "digest": digest, "size": bytes.len()}))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Layer {
    /// Packs a folder: entries sorted, owned by root, with one time; neither name nor time in the compressed
    /// head.
    pub(super) fn pack(layout: &Layout, folder: &Path, epoch: u64) -> Result<Self> {
        let archive = run(Command::new("tar")
            .args([
                "--format=gnu",
                "--sort=name",
                "--numeric-owner",
                "--owner=0",
                "--group=0",
            ])
            // Whatever the umask of whoever builds it is.
            .arg("--mode=u+rwX,go+rX,go-w")
            .arg(format!("--mtime=@{epoch}"))
            .args(["-c", "-f", "-", "-C"])
            .arg(folder)
            .arg("."))?;
        let file = layout.folder.join("layer.tar");
        fs::write(&file, &archive).context("cannot write a layer")?;
        let input = fs::File::open(&file).context("cannot read a layer")?;
        let compressed = run(Command::new("gzip").args(["-n", "-6", "-c"]).stdin(input));
        fs::remove_file(&file).ok();
        Ok(Self {
            descriptor: layout.blob(LAYER, &compressed?)?,
            diff_id: format!("sha256:{}", sha256(&archive)),
        })
    }
}

/// The digest of bytes, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        for digit in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

/// A time as the configuration has it.
pub(super) fn time_text(epoch: u64) -> Result<String> {
    let text = run(Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"])
        .arg(format!("@{epoch}")))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// The architecture of this machine, in the words of OCI.
pub(super) fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no image is built on {other}"),
    }
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().display().to_string();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    ensure!(output.status.success(), "{name} failed ({})", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
