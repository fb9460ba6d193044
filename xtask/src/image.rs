//! `cargo xtask image`: an OCI image layout of the binary and Debian's BIND, without a daemon.
//!
//! The same packages and the same binary give the same bytes: entries are sorted, belong to root and have one
//! time, that of the commit or of `SOURCE_DATE_EPOCH`.

mod layout;
mod packages;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::program::Program;
use layout::{Layer, Layout};

/// Whom the processes of the image run as; `deploy/bindery.yaml` names the same.
const USER: &str = "65532";

/// What `image` was told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageOptions {
    /// Where the layout goes; without it into the target folder.
    pub(crate) out: Option<PathBuf>,
    /// The binary; without it the release build.
    pub(crate) binary: Option<PathBuf>,
}

/// Builds the image and says where it is.
///
/// # Errors
/// If the binary cannot be built or a package cannot be had.
pub(crate) fn run(root: &Path, options: &ImageOptions) -> Result<()> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root, &target)?,
    };
    let out = options.out.clone().unwrap_or_else(|| target.join("image"));
    let scratch = target.join(format!("image-scratch-{}", std::process::id()));
    let built = assemble(root, &binary, &scratch, &out);
    // What is left of it is of no use, whatever came of it.
    fs::remove_dir_all(&scratch).ok();
    let digest = built?;
    println!("{} has bindery:{} ({digest})", out.display(), version());
    Ok(())
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn build(root: &Path, target: &Path) -> Result<PathBuf> {
    Program::cargo(root, ["build", "--release", "--package", "bindery"]).run()?;
    Ok(target.join("release/bindery"))
}

fn assemble(root: &Path, binary: &Path, scratch: &Path, out: &Path) -> Result<String> {
    let epoch = epoch(root)?;
    let base = scratch.join("base");
    fs::create_dir_all(&base).with_context(|| format!("cannot make {}", base.display()))?;
    let packages = packages::unpack(&base)?;
    write_accounts(&base)?;
    let own = scratch.join("own");
    let place = own.join("usr/local/bin");
    fs::create_dir_all(&place).context("cannot make the layer of the binary")?;
    let copy = place.join("bindery");
    fs::copy(binary, &copy).with_context(|| format!("cannot read {}", binary.display()))?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    let layout = Layout::new(out)?;
    let layers = [
        Layer::pack(&layout, &base, epoch)?,
        Layer::pack(&layout, &own, epoch)?,
    ];
    let created = layout::time_text(epoch)?;
    let labels = json!({
        "org.opencontainers.image.title": "bindery",
        "org.opencontainers.image.description": "Binds names to addresses for Kubernetes",
        "org.opencontainers.image.version": version(),
        "org.opencontainers.image.url": "https://bindery.dev",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created,
        "dev.bindery.packages": packages.join(" "),
    });
    let config = json!({
        "created": created,
        "architecture": layout::architecture()?,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/usr/local/bin/bindery"],
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|one| &one.diff_id).collect::<Vec<_>>(),
        },
        "history": [
            {"created": created, "created_by": "Debian packages"},
            {"created": created, "created_by": "bindery"},
        ],
    });
    layout.finish(&config, &layers, version())
}

/// The time of everything in the image, in seconds since 1970.
fn epoch(root: &Path) -> Result<u64> {
    let text = match env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => packages::output(
            Command::new("git")
                .args(["-C", &root.display().to_string()])
                .args(["log", "-1", "--format=%ct"]),
        )?,
    };
    let text = text.trim();
    text.parse()
        .with_context(|| format!("{text:?} is no time in seconds"))
}

/// Who there is, and how names are found.
fn write_accounts(base: &Path) -> Result<()> {
    let etc = base.join("etc");
    fs::create_dir_all(&etc)?;
    let passwd = format!("root:x:0:0::/:/sbin/nologin\nbindery:x:{USER}:{USER}::/:/sbin/nologin\n");
    fs::write(etc.join("passwd"), passwd)?;
    fs::write(etc.join("group"), format!("root:x:0:\nbindery:x:{USER}:\n"))?;
    fs::write(etc.join("nsswitch.conf"), "hosts: files dns\n")?;
    Ok(())
}

/// Reads the options of the task.
///
/// # Errors
/// If a word is none of them.
pub(crate) fn options(rest: &[String]) -> Result<ImageOptions> {
    let mut options = ImageOptions::default();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words
                .next()
                .with_context(|| format!("{word} needs a path"))?;
            Ok::<_, anyhow::Error>(Some(PathBuf::from(value)))
        };
        match word.as_str() {
            "--out" => options.out = value()?,
            "--binary" => options.binary = value()?,
            other => bail!("`image` has no option `{other}`; it has --out and --binary"),
        }
    }
    Ok(options)
}
