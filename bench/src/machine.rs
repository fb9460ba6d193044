//! What the numbers were taken on.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::figures::{Times, milliseconds};

/// Appends that are made durable to see what one costs here.
const SYNCS: usize = 50;

/// Lines that describe the machine: processor, system, disk, and the programs we stand beside.
pub(crate) fn describe(folder: &Path) -> Result<Vec<String>> {
    let cores = std::thread::available_parallelism().context("cannot count the cores")?;
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([':', '\t', ' '])
        });
    Ok(vec![
        format!("{cores} cores, {model}"),
        first_line("uname", &["-srm"]),
        first_line("named", &["-v"]),
        format!(
            "{} on {}, one durable append p50 {}",
            folder.display(),
            file_system(folder),
            milliseconds(sync_cost(folder)?.p50())
        ),
        format!("load before the start {}", load()),
    ])
}

/// The load average of the last minute.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// Resident memory of a process in MiB, as the kernel counts it.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

/// The most resident memory that a process ever had, in MiB.
pub(crate) fn highest_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmHWM:")
}

fn status_mib(pid: u32, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let text = line.context("the kernel does not tell resident memory")?;
    let kibibytes: f64 = text
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .context("resident memory is not a number")?;
    Ok(kibibytes / 1024.0)
}

/// Seconds of processor time that a process has used.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    /// Clock ticks in a second; Linux shows processor time in these on every architecture.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    // The program's name, in brackets, may hold blanks; the counting starts after it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// The child of `parent` whose program is called `name`.
pub(crate) fn child_of(parent: u32, name: &str) -> Option<u32> {
    let is_it = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let its_parent: Option<u32> = after.split_whitespace().nth(1)?.parse().ok();
        let its_name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (its_parent == Some(parent) && its_name.trim() == name).then_some(pid)
    };
    fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find_map(is_it)
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return format!("{program}: not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().unwrap_or_default().to_owned()
}

/// The type of the file system under `folder`: the mount with the longest matching path.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn sync_cost(folder: &Path) -> Result<Times> {
    let scratch = tempfile::tempdir_in(folder).context("cannot make a folder")?;
    let mut file = File::create(scratch.path().join("appends")).context("cannot make a file")?;
    let mut times = Times::default();
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[0; 4096]).context("cannot write")?;
        file.sync_data().context("cannot make it durable")?;
        times.push(start.elapsed());
    }
    Ok(times)
}
