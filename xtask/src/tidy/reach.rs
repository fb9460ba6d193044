//! Every Rust file is part of some crate: a file that nobody declares is not compiled, so not checked.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};

/// Rust files that no crate root reaches through `mod` declarations.
pub(super) fn orphans(tree: &Tree) -> Vec<Finding> {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut waiting: Vec<&File> = tree.rust().filter(|file| is_root(&file.path)).collect();
    while let Some(file) = waiting.pop() {
        if reached.insert(file.path.clone()) {
            waiting.extend(declared(file).iter().filter_map(|path| tree.file(path)));
        }
    }
    tree.rust()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| Finding::failure(&file.path, 1, "no `mod` declaration reaches this file"))
        .collect()
}

/// Whether cargo finds the file without a `mod` declaration.
fn is_root(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else {
        return path == "build.rs";
    };
    let last = folder.rsplit('/').next().unwrap_or(folder);
    match name {
        "lib.rs" | "build.rs" => true,
        "main.rs" => last == "src" || is_target_folder(parent(folder)),
        _ => is_target_folder(folder),
    }
}

/// Folders whose files are roots of their own: `src/bin`, and `tests`, `examples`, `benches` of a crate.
fn is_target_folder(folder: &str) -> bool {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    match last {
        "bin" => folder.ends_with("src/bin"),
        "tests" | "examples" | "benches" => !folder.contains("/src/"),
        _ => false,
    }
}

fn parent(folder: &str) -> &str {
    folder.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The paths that a file's `mod` declarations may mean.
fn declared(file: &File) -> Vec<String> {
    let mut paths = Vec::new();
    let folder = parent(&file.path);
    let own = if is_root(&file.path) {
        folder.to_owned()
    } else {
        file.path.trim_end_matches(".rs").to_owned()
    };
    let mut above = "";
    for (_, line) in file.lines() {
        let line = line.trim();
        if let Some(name) = module(line) {
            let explicit = above
                .strip_prefix("#[path = \"")
                .and_then(|rest| rest.strip_suffix("\"]"));
            match explicit {
                Some(path) => paths.push(normal(&format!("{folder}/{path}"))),
                None => paths.push(format!("{own}/{name}.rs")),
            }
        }
        above = line;
    }
    paths
}

/// The name in `mod name;`, with any visibility.
fn module(line: &str) -> Option<&str> {
    let rest = line.strip_suffix(';')?;
    let rest = match rest.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => rest,
    };
    let name = rest.trim_start().strip_prefix("mod ")?;
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_')
        .then_some(name)
}

/// Resolves `.` and `..` in a path.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn a_file_that_nobody_declares_is_an_orphan() {
        let files = [
            ("crates/a/src/lib.rs", "pub mod one;\n"),
            ("crates/a/src/one.rs", "pub(crate) mod deep;\n"),
            ("crates/a/src/one/deep.rs", ""),
            ("crates/a/src/two.rs", ""),
        ];
        assert_eq!(
            check(orphans, &files),
            "crates/a/src/two.rs:1: no `mod` declaration reaches this file"
        );
    }

    #[test]
    fn binaries_examples_and_test_folders_are_roots() {
        let files = [
            ("crates/a/src/bin/sim.rs", ""),
            ("crates/a/examples/generate.rs", ""),
            ("crates/a/tests/it/main.rs", "mod battery;\n"),
            ("crates/a/tests/it/battery.rs", ""),
            ("tests/e2e/tests/quickstart.rs", ""),
            (
                "crates/a/src/main.rs",
                "#[path = \"../other/file.rs\"]\nmod file;\n",
            ),
            ("crates/a/other/file.rs", ""),
        ];
        assert_eq!(check(orphans, &files), "");
    }
}
