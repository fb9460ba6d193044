//! The image that `cargo xtask image` builds: the same bytes each time, and one that Debian's `skopeo` reads.
#![expect(
    clippy::disallowed_methods,
    reason = "it is built on the machine as it is"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// A stand-in for the binary, which takes minutes to build for release.
const STAND_IN: &str = "#!/bin/sh\necho bindery\n";

fn build(binary: &Path, out: &Path) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "image"])
        .arg("--binary")
        .arg(binary)
        .arg("--out")
        .arg(out)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .context("cannot start cargo")?;
    let errors = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{errors}");
    Ok(())
}

/// Every file below a folder.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_owned();
                found.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn skopeo(arguments: &[&str]) -> Result<Value> {
    let output = Command::new("skopeo")
        .args(arguments)
        .output()
        .context("skopeo is not installed; run cargo xtask setup")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "skopeo {arguments:?}: {errors}");
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn two_images_of_one_binary_are_the_same_bytes_and_skopeo_reads_them() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let binary = scratch.path().join("stand-in");
    fs::write(&binary, STAND_IN)?;
    let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
    build(&binary, &one)?;
    build(&binary, &other)?;
    let (first, second) = (files(&one)?, files(&other)?);
    ensure!(first == second, "two builds differ");

    let source = format!("oci:{}:{}", one.display(), env!("CARGO_PKG_VERSION"));
    let found = skopeo(&["inspect", &source])?;
    ensure!(
        found["Os"] == "linux" && found["Created"] == "2023-11-14T22:13:20Z",
        "{found}"
    );
    ensure!(
        found["Layers"].as_array().map(Vec::len) == Some(2),
        "{found}"
    );
    let packages = found["Labels"]["dev.bindery.packages"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        packages.contains("bind9_") && packages.contains("libc6_"),
        "{packages}"
    );
    let config = skopeo(&["inspect", "--config", &source])?;
    ensure!(config["config"]["User"] == "65532:65532", "{config}");
    ensure!(
        config["config"]["Entrypoint"][0] == "/usr/local/bin/bindery",
        "{config}"
    );

    // Copying reads every layer and compares its digests.
    let copy = format!("oci:{}:copy", scratch.path().join("copy").display());
    skopeo(&["--insecure-policy", "copy", "--quiet", &source, &copy])?;
    ensure!(skopeo(&["inspect", &copy])?["Digest"] == found["Digest"]);
    unpacked_named_runs(&one, scratch.path())
}

/// The layers hold a `named` that starts with the libraries beside it.
fn unpacked_named_runs(image: &Path, scratch: &Path) -> Result<()> {
    let root = scratch.join("root");
    fs::create_dir(&root)?;
    for (name, bytes) in files(&image.join("blobs/sha256"))? {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let layer = image.join("blobs/sha256").join(name);
            let status = Command::new("tar")
                .arg("-xzf")
                .arg(layer)
                .arg("-C")
                .arg(&root)
                .status()?;
            ensure!(status.success(), "a layer is no archive");
        }
    }
    ensure!(fs::read_to_string(root.join("usr/local/bin/bindery"))? == STAND_IN);
    let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
    let libraries = libraries.map(|folder| root.join(folder).display().to_string());
    let output = Command::new(root.join("lib64/ld-linux-x86-64.so.2"))
        .args(["--inhibit-cache", "--library-path", &libraries.join(":")])
        .arg(root.join("usr/sbin/named"))
        .arg("-v")
        .output()
        .context("there is no loader in the image")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(said.starts_with("BIND 9"), "{said}{errors}");
    Ok(())
}
