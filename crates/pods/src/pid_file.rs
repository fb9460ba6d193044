//! Pid files: by which a process that outlived us is known for certain.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use bindery_bind::process;
use rustix::process::Pid;

use crate::volumes::disk;

/// How long a process that an earlier run left behind may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Writes down a process: its id, when it was started, and in which run of the machine.
pub(crate) fn write(path: &Path, pid: u32) -> io::Result<()> {
    let begun = begun(pid).ok_or_else(|| io::Error::other("the process has ended"))?;
    disk::write_file(path, format!("{pid} {begun} {}\n", boot()).as_bytes())
}

/// Ends the process of a pid file if it still runs, and forgets it.
pub(crate) async fn end(path: &Path) {
    process::end_found(|| alive(path), PATIENCE).await;
    // One that cannot be removed names a process that is gone.
    let _ = fs::remove_file(path);
}

/// The process of the file, if it is the very one that was written down.
fn alive(path: &Path) -> Option<Pid> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let pid: u32 = words.next()?.parse().ok()?;
    let known: u64 = words.next()?.parse().ok()?;
    let is_ours = words.next()? == boot() && begun(pid)? == known;
    let raw = i32::try_from(pid).ok().filter(|_| is_ours)?;
    Pid::from_raw(raw)
}

/// When a process was started, in ticks since the machine was; none if it is gone or only waits to be reaped.
fn begun(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields 3 and 22 of proc(5).
    let (state, begun) = (fields.first()?, fields.get(19)?);
    (!matches!(*state, "Z" | "X")).then(|| begun.parse().ok())?
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_process_is_found() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("pid");
        let ours = std::process::id();
        write(&path, ours).expect("it is ours");
        assert!(alive(&path).is_some());
        let text = fs::read_to_string(&path).expect("it was written");
        let other = text.replacen(&format!("{ours} "), &format!("{ours} 1"), 1);
        fs::write(&path, other).expect("it is ours");
        assert_eq!(alive(&path), None, "another process has the number now");
        assert_eq!(alive(&folder.path().join("none")), None);
    }
}
