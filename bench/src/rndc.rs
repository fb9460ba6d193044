//! BIND's own `rndc`, on a `named` that Bindery started.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

/// The name of the control channel's key in the generated configuration.
const KEY: &str = "bindery-control";
/// Where `named` writes its statistics, in its folder.
const STATISTICS: &str = "named.stats";

/// How one `named` is told something.
pub(crate) struct Rndc {
    folder: PathBuf,
    port: String,
    key_file: PathBuf,
}

impl Rndc {
    /// Reads port and key from the configuration in the folder of a `named`.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let config = folder.join("named.conf");
        let text = std::fs::read_to_string(&config)
            .with_context(|| format!("cannot read {}", config.display()))?;
        let (before, after) = text
            .split_once("controls {")
            .context("there is no control channel")?;
        let port = after
            .split_whitespace()
            .skip_while(|word| *word != "port")
            .nth(1)
            .context("the control channel has no port")?;
        let key = before
            .rfind(&format!("key \"{KEY}\""))
            .and_then(|start| Some(&before[start..start + before[start..].find("};")? + 2]))
            .context("the control channel has no key")?;
        let key_file = folder.join("rndc.key");
        std::fs::write(&key_file, key).context("cannot write the key")?;
        Ok(Self {
            folder: folder.to_owned(),
            port: port.to_owned(),
            key_file,
        })
    }

    /// Makes a primary zone of so many lines, as a user would: writes its file, then tells `named`.
    pub(crate) async fn add_zone(&self, apex: &str, lines: &str) -> Result<()> {
        let file = format!("zones/rndc-{apex}");
        std::fs::write(self.folder.join(&file), lines).context("cannot write a zone")?;
        let config = format!("{{ type primary; file \"{file}\"; }};");
        self.send(&["addzone", apex, &config]).await
    }

    /// How many UPDATE messages `named` has received so far.
    pub(crate) async fn fetch_updates(&self) -> Result<f64> {
        let file = self.folder.join(STATISTICS);
        // It appends; only the last page counts.
        drop(std::fs::remove_file(&file));
        self.send(&["stats"]).await?;
        let text = std::fs::read_to_string(&file).context("there are no statistics")?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_suffix(" UPDATE"));
        let count = line.map(str::parse).transpose();
        Ok(count.context("not a number of updates")?.unwrap_or(0.0))
    }

    async fn send(&self, words: &[&str]) -> Result<()> {
        let output = Command::new("rndc")
            .args(["-s", "127.0.0.1", "-p", &self.port, "-y", KEY, "-k"])
            .arg(&self.key_file)
            .args(words)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot start rndc (Debian: apt install bind9-utils)")?;
        if !output.status.success() {
            bail!("rndc: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
