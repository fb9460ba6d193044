//! A copy of the workspace that holds all mutants, and the programs built of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::list::Mutant;
use super::splice::{self, Spliced, What};
use crate::program::Program;

/// Builds in a row that the compiler may find new errors in; each stage of it has its own.
const ROUNDS_MAX: usize = 20;

/// What the copy has at the end of the crate root, for the code that is spliced in.
const SWITCH: &str = include_str!("switch.rs.in");
/// The same in the other crate.
const SWITCH_SHARED: &str = "\n#[doc(hidden)] pub use bindery_core::{MutantSide, mutant_switch};\n";

/// The crates that the tests spend their time in.
const OPTIMISED: [&str; 2] = ["bindery-core", "bindery-sources"];

/// The file with what an earlier build found.
const RECALLED: &str = "unbuilt.tsv";

/// What the compiler says of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unbuilt {
    /// The damaged code does not compile.
    Unviable,
    /// It cannot stand behind the switch.
    LeftOver,
}

/// The copy.
pub(super) struct Copied {
    /// Where the copy and all that is found lies.
    pub(super) scratch: PathBuf,
    folder: PathBuf,
    target: PathBuf,
    /// The files with mutants: their text without them.
    sources: BTreeMap<String, String>,
    /// Names the crates that were copied, tests included.
    pub(super) fingerprint: u64,
    pub(super) unbuilt: BTreeMap<usize, Unbuilt>,
}

/// A program built of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) name: String,
    pub(super) program: PathBuf,
    /// Where it is to be run.
    pub(super) folder: PathBuf,
}

impl Unbuilt {
    const ALL: [Self; 2] = [Self::Unviable, Self::LeftOver];
}

impl fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unviable => "does-not-compile",
            Self::LeftOver => "left-over",
        })
    }
}

impl Copied {
    /// Copies what git knows of the workspace, and what is new in it, into a folder of its own.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) fn write(root: &Path, scratch: &Path, mutants: &[Mutant]) -> Result<Self> {
        let folder = scratch.join("tree");
        let damaged: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.file).collect();
        let roots: BTreeSet<String> = damaged.iter().filter_map(|file| crate_root(file)).collect();
        let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
        let listed = Program::new(root, "git").args(arguments).stdout()?;
        let mut sources = BTreeMap::new();
        let mut hasher = DefaultHasher::new();
        let mut known = BTreeSet::new();
        for file in listed.lines().filter(|file| root.join(file).is_file()) {
            let bytes = fs::read(root.join(file)).with_context(|| file.to_owned())?;
            if file.starts_with("crates/") || file.starts_with("Cargo.") {
                (file, &bytes).hash(&mut hasher);
            }
            known.insert(folder.join(file));
            if damaged.contains(file) || roots.contains(file) {
                let text = String::from_utf8(bytes).with_context(|| file.to_owned())?;
                sources.insert(file.to_owned(), text);
            } else {
                write_changed(&folder.join(file), &bytes)?;
            }
        }
        remove_others(&folder, &known)?;
        Ok(Self {
            scratch: scratch.to_owned(),
            folder,
            target: target(root),
            sources,
            fingerprint: hasher.finish(),
            unbuilt: BTreeMap::new(),
        })
    }

    /// Splices the mutants in and takes those out again that do not compile, until it compiles.
    ///
    /// # Errors
    /// When the code does not compile for a reason that is no mutant's.
    pub(super) fn splice(&mut self, mutants: &[Mutant]) -> Result<()> {
        self.recall(mutants);
        for round in 1..=ROUNDS_MAX {
            let spliced = self.write_spliced(mutants)?;
            println!(
                "round {round}: {} mutants do not compile so far",
                self.unbuilt.len()
            );
            let faults = self.check()?;
            self.write_recalled(mutants)?;
            if faults.is_empty() {
                return Ok(());
            }
            let before = self.unbuilt.len();
            for fault in &faults {
                self.blame(fault, &spliced);
            }
            if self.unbuilt.len() == before {
                let told: Vec<_> = faults
                    .iter()
                    .take(3)
                    .map(|fault| &*fault.rendered)
                    .collect();
                bail!(
                    "the code does not compile, and no mutant is why:\n{}",
                    told.join("\n")
                );
            }
        }
        bail!("the code does not compile after {ROUNDS_MAX} rounds")
    }

    /// What an earlier build found of files that are the same, so that it need not find it again.
    fn recall(&mut self, mutants: &[Mutant]) {
        let text = fs::read_to_string(self.scratch.join(RECALLED)).unwrap_or_default();
        let lines: BTreeSet<&str> = text.lines().collect();
        for (at, mutant) in mutants.iter().enumerate() {
            let found = Unbuilt::ALL.into_iter();
            let mut found = found.filter(|found| lines.contains(&*self.line(mutant, *found)));
            if let Some(found) = found.next() {
                self.unbuilt.insert(at + 1, found);
            }
        }
    }

    fn write_recalled(&self, mutants: &[Mutant]) -> Result<()> {
        let lines = self
            .unbuilt
            .iter()
            .map(|(number, found)| self.line(&mutants[number - 1], *found));
        let lines: Vec<String> = lines.collect();
        fs::write(self.scratch.join(RECALLED), lines.join("\n"))
            .context("cannot write what does not compile")
    }

    fn line(&self, mutant: &Mutant, found: Unbuilt) -> String {
        let mut hasher = DefaultHasher::new();
        self.sources.get(&mutant.file).hash(&mut hasher);
        format!("{:016x}\t{found}\t{}", hasher.finish(), mutant.name)
    }

    fn write_spliced(&mut self, mutants: &[Mutant]) -> Result<BTreeMap<String, Spliced>> {
        let mut written = BTreeMap::new();
        for (file, source) in &self.sources {
            let wanted = mutants
                .iter()
                .enumerate()
                .map(|(at, mutant)| (at + 1, mutant));
            let wanted = wanted.filter(|(number, mutant)| {
                mutant.file == *file && !self.unbuilt.contains_key(number)
            });
            let wanted: Vec<_> = wanted.collect();
            let mut spliced = splice::splice(source, &wanted).with_context(|| file.clone())?;
            if crate_root(file).as_ref() == Some(file) {
                let is_first = file.starts_with("crates/core/");
                spliced
                    .text
                    .push_str(if is_first { SWITCH } else { SWITCH_SHARED });
            }
            write_changed(&self.folder.join(file), spliced.text.as_bytes())?;
            let unviable = spliced
                .unviable
                .iter()
                .map(|number| (*number, Unbuilt::Unviable));
            let left_over = spliced
                .left_over
                .iter()
                .map(|number| (*number, Unbuilt::LeftOver));
            self.unbuilt.extend(unviable.chain(left_over));
            written.insert(file.clone(), spliced);
        }
        Ok(written)
    }

    fn blame(&mut self, fault: &Fault, spliced: &BTreeMap<String, Spliced>) {
        for (file, at) in &fault.places {
            let Some(region) = spliced.get(file).and_then(|text| text.blamed(at)) else {
                continue;
            };
            let verdict = match region.what {
                What::Damage => Unbuilt::Unviable,
                What::Switch => Unbuilt::LeftOver,
            };
            for number in &region.mutants {
                self.unbuilt.insert(*number, verdict);
            }
            return;
        }
    }

    /// The errors of the compiler.
    fn check(&self) -> Result<Vec<Fault>> {
        // Built, not checked: the tests need the crates anyway.
        let program = self.cargo([
            "build",
            "--package",
            "bindery-sources",
            "--message-format=json",
        ]);
        let printed = program.printed()?;
        Ok(printed.lines().filter_map(Fault::read).collect())
    }

    /// Builds the tests of a package, or with `--bin sim` another program of it.
    ///
    /// # Errors
    /// When it does not build.
    pub(super) fn build(&self, package: &str, what: &[&str]) -> Result<Vec<Built>> {
        let kind = if what.contains(&"--bin") {
            "build"
        } else {
            "test"
        };
        let no_run: &[&str] = if kind == "test" { &["--no-run"] } else { &[] };
        let program = self
            .cargo([kind, "--message-format=json", "--package", package])
            .args(what.iter().copied())
            .args(no_run.iter().copied());
        // Read and not shown: of the warnings about code that is spliced in there are thousands.
        let printed = program.printed()?;
        let built: Vec<Built> = printed.lines().filter_map(Built::read).collect();
        if built.is_empty() {
            let faults = printed.lines().filter_map(Fault::read);
            let told: Vec<_> = faults.map(|fault| fault.rendered).collect();
            bail!("`{program}` made no program:\n{}", told.join("\n"));
        }
        Ok(built)
    }

    fn cargo<const N: usize>(&self, args: [&str; N]) -> Program {
        // What others wrote is shared with the builds of the checkout, so that it is not built again.
        let program = Program::new(&self.folder, "nice")
            .args(["-n", "5", "cargo"])
            .args(args)
            .args(["--locked"])
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TARGET_DIR", &self.target.to_string_lossy());
        // Optimised a little, since each is run thousands of times; the checks of arithmetic stay.
        OPTIMISED.iter().fold(program, |program, package| {
            let setting = format!("profile.dev.package.{package}.opt-level=1");
            program.args(["--config", &*setting])
        })
    }
}

/// An error of the compiler.
struct Fault {
    rendered: String,
    /// Files and bytes, those that the error is about first.
    places: Vec<(String, Range<usize>)>,
}

impl Fault {
    /// Reads a line of cargo's messages.
    fn read(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            message: Message,
        }
        #[derive(Deserialize)]
        struct Message {
            level: String,
            rendered: String,
            spans: Vec<Span>,
        }
        let message = serde_json::from_str::<Line>(line).ok()?.message;
        if message.level != "error" {
            return None;
        }
        let mut spans = message.spans;
        spans.sort_by_key(|span| !span.is_primary);
        Some(Self {
            rendered: message.rendered,
            places: spans.into_iter().flat_map(Span::places).collect(),
        })
    }
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

impl Span {
    /// Its place, and that of the macro it is in.
    fn places(self) -> Vec<(String, Range<usize>)> {
        let mut places = vec![(self.file_name, self.byte_start..self.byte_end)];
        places.extend(
            self.expansion
                .into_iter()
                .flat_map(|outer| outer.span.places()),
        );
        places
    }
}

impl Built {
    /// Reads a line of cargo's messages.
    fn read(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Artifact {
            executable: Option<PathBuf>,
            manifest_path: PathBuf,
            target: Target,
        }
        #[derive(Deserialize)]
        struct Target {
            name: String,
        }
        let artifact: Artifact = serde_json::from_str(line).ok()?;
        Some(Self {
            name: artifact.target.name,
            program: artifact.executable?,
            folder: artifact.manifest_path.parent()?.to_owned(),
        })
    }
}

/// Where cargo builds the checkout.
pub(super) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The root of the crate that a file belongs to.
fn crate_root(file: &str) -> Option<String> {
    let (folder, _) = file.split_once("/src/")?;
    Some(format!("{folder}/src/lib.rs"))
}

/// Writes a file where it differs: cargo builds anew what is newer.
fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if fs::read(path).is_ok_and(|now| now == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    fs::write(path, bytes).with_context(cannot)
}

/// Removes files of an older copy.
fn remove_others(folder: &Path, known: &BTreeSet<PathBuf>) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) {
            fs::remove_file(&path).with_context(cannot)?;
        }
    }
    Ok(())
}
