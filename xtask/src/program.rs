//! Running other programs, with a line that the reader can paste to repeat it.

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A program to run, described before it is started so that it can be shown.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    folder: PathBuf,
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Program {
    /// A program by name or path, run in a folder.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Cargo of the pinned toolchain.
    pub(crate) fn cargo<const N: usize>(folder: &Path, args: [&str; N]) -> Self {
        Self::new(folder, "cargo").args(args)
    }

    /// More arguments.
    #[must_use]
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, started by another program that takes it behind these arguments.
    #[must_use]
    pub(crate) fn inside<const N: usize>(mut self, name: &str, args: [&str; N]) -> Self {
        let name = std::mem::replace(&mut self.name, name.to_owned());
        let outer = args.into_iter().map(str::to_owned);
        self.args = outer.chain([name]).chain(self.args).collect();
        self
    }

    /// Runs it on the terminal of the user.
    ///
    /// # Errors
    /// When it cannot be started or ends with a failure; the message has the line to repeat it.
    pub(crate) fn run(&self) -> Result<()> {
        let status = self
            .command()
            .status()
            .with_context(|| format!("cannot start {self}"))?;
        self.verdict(status)
    }

    fn verdict(&self, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        bail!("`{self}` failed ({status})")
    }

    /// Runs it on the terminal of the user, who gets each line of its output as it comes; `look` sees
    /// them too.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub(crate) fn run_seen(&self, mut look: impl FnMut(&str)) -> Result<()> {
        let cannot_start = || format!("cannot start {self}");
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .spawn()
            .with_context(cannot_start)?;
        let output = child.stdout.take().with_context(cannot_start)?;
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("cannot read what `{self}` prints"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            look(&line);
        }
        let status = child.wait().with_context(cannot_start)?;
        self.verdict(status)
    }

    /// Runs it and returns what it printed; its errors go to the terminal.
    pub(crate) fn stdout(&self) -> Result<String> {
        let output = self
            .command()
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {self}"))?;
        self.verdict(output.status)?;
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` printed no UTF-8"))
    }

    /// Runs it and returns what it printed, also where it fails; its errors are dropped.
    pub(crate) fn printed(&self) -> Result<String> {
        let output = self
            .command()
            .output()
            .with_context(|| format!("cannot start {self}"))?;
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` printed no UTF-8"))
    }

    /// Runs it without a word and returns how it ended.
    pub(crate) fn status(&self) -> Result<ExitStatus> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
            .status()
            .with_context(|| format!("cannot start {self}"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.name);
        command
            .current_dir(&self.folder)
            .args(&self.args)
            .stdin(Stdio::null());
        // What cargo set for xtask itself would make the inner cargo build everything anew.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_outer_cargo(name)) {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{value}' ")?;
        }
        f.write_str(&self.name)?;
        for arg in &self.args {
            if arg.contains(' ') {
                write!(f, " '{arg}'")?;
            } else {
                write!(f, " {arg}")?;
            }
        }
        Ok(())
    }
}

/// Builds one binary or example with the features of the whole workspace, so that nothing is compiled
/// a second time with fewer features, and returns its path.
pub(crate) fn build(root: &Path, kind: &str, name: &str) -> Result<PathBuf> {
    let program = Program::cargo(root, ["build", "--workspace", "--quiet"])
        .args([kind, name])
        .args(["--message-format", "json-render-diagnostics"]);
    executable(&program.stdout()?, name)
        .with_context(|| format!("`{program}` made no executable `{name}`"))
}

/// Variables that `cargo run` sets for the program it starts.
fn is_of_outer_cargo(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO"
}

/// The executable called `name` among cargo's JSON messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| {
            message
                .target
                .as_ref()
                .is_some_and(|target| target.name == name)
        })
        .find_map(|message| message.executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_as_one_would_type_it() {
        let program = Program::cargo(Path::new("."), ["doc", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .args(["a b"]);
        assert_eq!(
            program.to_string(),
            "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'a b'"
        );
    }

    #[test]
    fn the_executable_is_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other"}
{"reason":"compiler-artifact","target":{"name":"sim"},"executable":"/t/sim"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "sim"), Some(PathBuf::from("/t/sim")));
        assert_eq!(executable(messages, "none"), None);
    }
}
