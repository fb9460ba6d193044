//! Files that cannot be used are put aside and never thrown away: a person may still find something there.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The folder, in the folder of a name server.
const FOLDER: &str = "broken";

/// How many files of one name are kept; the oldest goes.
const KEPT_MAX: usize = 3;

/// Moves a file into the folder of broken ones, and says where it is now. The number behind its name grows
/// with its age.
///
/// # Errors
/// If the folder cannot be made or the file cannot be moved.
pub fn put_aside(folder: &Path, file: &Path) -> io::Result<PathBuf> {
    let broken = folder.join(FOLDER);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&broken)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let place = |age: usize| broken.join(format!("{name}.{age}"));
    for age in (1..KEPT_MAX).rev() {
        match fs::rename(place(age), place(age + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(file, place(1))?;
    Ok(place(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("example.com.zone");
        for content in 0..5 {
            fs::write(&file, content.to_string()).unwrap();
            put_aside(folder.path(), &file).unwrap();
            assert!(!file.exists());
        }
        let mut kept: Vec<String> = fs::read_dir(folder.path().join(FOLDER))
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        kept.sort();
        assert_eq!(kept, ["2", "3", "4"]);
    }
}
