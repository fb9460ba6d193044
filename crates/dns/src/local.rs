//! What the name servers of this machine have in common: how zones get from one to another, and their files.

mod broken;
mod replication;
mod zone_file;

pub use broken::put_aside;
pub use replication::Replication;
pub use zone_file::zone_file_name;
