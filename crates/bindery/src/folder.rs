//! The folder of YAML files that `up` keeps applied.
//!
//! What a file declares is an object that carries the annotation [`FILE`]; that is how a document or
//! a file that is gone is noticed, also if it went while Bindery was not running.
//!
//! What is no longer declared is deleted when that has been so for a while. It must *never* delete a zone
//! that was served: such a zone is kept and marked [`NO_LONGER_DECLARED`].

mod apply;
mod document;
mod keep;
mod leave;
mod plan;
mod remove;
mod scan;
mod tell;
mod watch;

use bindery_sources::meta::NO_LONGER_DECLARED;

pub(crate) use document::FileProblem;
pub(crate) use keep::{FolderReport, Keeper};
pub(crate) use plan::Scan;
pub(crate) use scan::FolderReader;
pub(crate) use tell::{FOLDER, Teller, fetch_problems};
pub(crate) use watch::Changes;

/// The annotation that says which file declares an object, relative to the folder.
pub(crate) const FILE: &str = "bindery.dev/file";

/// The annotation that says what the file declared when it was applied last. While it is the same,
/// what users changed with kubectl is left alone.
pub(crate) const FILE_HASH: &str = "bindery.dev/file-hash";
