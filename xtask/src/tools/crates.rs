//! Programs that are published as crates, built into the cache.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::cache;

/// A program of the crate of the same name.
pub(super) struct CargoBuild {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

impl CargoBuild {
    pub(super) fn target(&self) -> Result<PathBuf> {
        let folder = cache()?.join(format!("{}-{}", self.name, self.version));
        Ok(folder.join(self.name))
    }

    /// Builds into a folder of this process and renames it, so that an interrupted build leaves nothing that
    /// looks done.
    pub(super) fn run(&self) -> Result<()> {
        let target = self.target()?;
        let folder = target
            .parent()
            .context("a cached program lies in a folder")?;
        let scratch = folder.with_extension(format!("building-{}", process::id()));
        fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot create {}", scratch.display()))?;
        eprintln!("building {} {} (once per machine)", self.name, self.version);
        let begun = Instant::now();
        let built = self.build(&scratch);
        if built.is_ok() {
            // Another run may have been faster; its result is as good as ours.
            fs::rename(scratch.join("bin"), folder).ok();
        }
        fs::remove_dir_all(&scratch).ok();
        built?;
        if !target.is_file() {
            bail!("{} is in the way, remove it", folder.display());
        }
        eprintln!("built {} in {} s", self.name, begun.elapsed().as_secs());
        Ok(())
    }

    fn build(&self, scratch: &std::path::Path) -> Result<()> {
        // A build script of bindcar fetches web pages that it serves on demand. The tests do not ask for
        // them, and this machine may not reach where they are.
        let pages = scratch.join("pages.zip");
        let file = (
            "pages/dist/swagger-initializer.js",
            b"// left out\n".as_slice(),
        );
        fs::write(&pages, archive(file.0, file.1))
            .with_context(|| format!("cannot write {}", pages.display()))?;
        let mut url = OsString::from("file://");
        url.push(&pages);
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new("nice")
            .args(["-n", "10"])
            .arg(cargo)
            .args(["install", "--locked", "--quiet", "--jobs", "2"])
            .args(["--version", self.version, self.name])
            .arg("--root")
            .arg(scratch)
            .env("CARGO_TARGET_DIR", scratch.join("target"))
            .env("SWAGGER_UI_DOWNLOAD_URL", url)
            .env_remove("RUSTFLAGS")
            .current_dir(env::temp_dir())
            .stdin(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        if !status.success() {
            bail!(
                "cargo could not install {} {} ({status}); its output is above",
                self.name,
                self.version
            );
        }
        Ok(())
    }
}

/// A ZIP archive of one file, as it is (APPNOTE.TXT section 4.3).
fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or_default();
    let name_length = u16::try_from(name.len()).unwrap_or_default();
    // Version, flags, method (stored), time, date; then what is in it and its name's length.
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
    common.extend(checksum(bytes).to_le_bytes());
    common.extend(length.to_le_bytes());
    common.extend(length.to_le_bytes());
    common.extend(name_length.to_le_bytes());
    common.extend([0, 0]);
    let mut archive = b"PK\x03\x04".to_vec();
    archive.extend(&common);
    archive.extend(name.as_bytes());
    archive.extend(bytes);
    let directory = u32::try_from(archive.len()).unwrap_or_default();
    archive.extend(b"PK\x01\x02\x14\x00");
    archive.extend(&common);
    archive.extend([0; 14]);
    archive.extend(name.as_bytes());
    let directory_length = u32::try_from(archive.len()).unwrap_or_default() - directory;
    archive.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    archive.extend(directory_length.to_le_bytes());
    archive.extend(directory.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

/// CRC-32 as ZIP has it.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & 0_u32.wrapping_sub(sum & 1))
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the algorithm.
    #[test]
    fn the_checksum_is_the_one_of_zip() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn an_archive_has_its_three_parts() {
        let archive = archive("a/b", b"text");
        let at = |mark: &[u8]| {
            let mut windows = archive.windows(4);
            windows.position(|window| window == mark)
        };
        assert_eq!(at(b"PK\x03\x04"), Some(0));
        assert_eq!(at(b"PK\x01\x02"), Some(30 + 3 + 4));
        assert_eq!(at(b"PK\x05\x06"), Some(37 + 46 + 3));
        assert_eq!(archive.len(), 86 + 22);
    }
}
