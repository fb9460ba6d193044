//! What the process finds around it: the time of day and of the machine, its variables and its command line. Nothing else reads
//! them, so that a run can be repeated.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the port through which they come in"
)]

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The time of day, as it has passed since 1970.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Time since the machine was started, also while it sleeps or this process is stopped.
pub(crate) fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}

/// A variable of the environment, unless it is missing or empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Where files go that nobody needs for long.
pub(crate) fn scratch_folder() -> PathBuf {
    env::temp_dir()
}

/// The file of this program.
pub(crate) fn program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// The command line, the name of the program first.
pub(crate) fn command_line() -> Vec<OsString> {
    env::args_os().collect()
}
