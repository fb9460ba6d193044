//! Debian's packages, by their names: downloaded once, unpacked without their scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::layout::sha256;
use crate::tools;

/// What is asked for: `named`, `rndc`, `named-checkconf`, and the certificates and names of services that
/// programs look for.
const WANTED: [&str; 5] = [
    "bind9",
    "bind9-utils",
    "dns-root-data",
    "netbase",
    "ca-certificates",
];

/// Folders that nobody reads in an image.
const LEFT_OUT: [&str; 9] = [
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/info",
    "etc/init.d",
    "etc/apparmor.d",
    "lib/systemd",
    "usr/lib/systemd",
];

/// Unpacks what is wanted, with the libraries that it needs, and returns each package with its version.
pub(super) fn unpack(folder: &Path) -> Result<Vec<String>> {
    let mut unpacked = Vec::new();
    for file in fetch()? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".deb").replace("%3a", ":");
        unpacked.push(name);
        let status = Command::new("dpkg-deb")
            .arg("-x")
            .arg(&file)
            .arg(folder)
            .status();
        let status = status.context("cannot start dpkg-deb")?;
        ensure!(
            status.success(),
            "dpkg-deb cannot unpack {}",
            file.display()
        );
    }
    for left_out in LEFT_OUT {
        fs::remove_dir_all(folder.join(left_out)).ok();
    }
    // `named` is configured by whoever starts it.
    fs::remove_dir_all(folder.join("etc/bind")).ok();
    write_certificates(folder)?;
    unpacked.sort();
    Ok(unpacked)
}

/// The files of what is wanted. A machine whose lists of packages were removed, or are old, gets new ones.
fn fetch() -> Result<Vec<PathBuf>> {
    let cache = cache()?;
    let listed = || closure().and_then(|packages| download(&packages, &cache));
    listed().or_else(|_| {
        let status = Command::new("apt-get").args(["update", "-q"]).status();
        let status = status.context("cannot start apt-get")?;
        ensure!(status.success(), "`apt-get update` failed ({status})");
        listed()
    })
}

/// The one file of certificates that programs read, which a script of the package would make.
fn write_certificates(folder: &Path) -> Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![folder.join("usr/share/ca-certificates")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("no {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut all = String::new();
    for file in files {
        all += &fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    }
    let place = folder.join("etc/ssl/certs");
    fs::create_dir_all(&place)?;
    fs::write(place.join("ca-certificates.crt"), all).context("cannot write the certificates")
}

/// What is wanted and every library below it. What scripts of packages need is left out: none runs.
fn closure() -> Result<BTreeSet<String>> {
    let mut ask = Command::new("apt-cache");
    ask.args(["depends", "--recurse", "--important"])
        .args(WANTED);
    Ok(reached(&dependencies(&output(&mut ask)?)))
}

/// What each package depends on, as `apt-cache` lists it: a package, then a line for each other one.
fn dependencies(listed: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut package = "";
    for line in listed.lines() {
        if !line.starts_with(' ') {
            package = line;
            continue;
        }
        let words = line.trim_start().trim_start_matches('|');
        let needed = words.strip_prefix("Depends: ");
        let needed = needed.or_else(|| words.strip_prefix("PreDepends: "));
        all.entry(package).or_default().extend(needed);
    }
    all
}

fn reached(dependencies: &BTreeMap<&str, Vec<&str>>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut waiting = WANTED.to_vec();
    while let Some(package) = waiting.pop() {
        if known.insert(package.to_owned()) {
            let needed = dependencies.get(package).into_iter().flatten();
            waiting.extend(needed.filter(|one| is_library(one)));
        }
    }
    known
}

/// Libraries, the own ones of BIND among them, but not those that only scripts are made with.
fn is_library(package: &str) -> bool {
    let is_script = package.contains("perl") || package.contains("debconf");
    !is_script && (package.starts_with("lib") || ["bind9-libs", "zlib1g"].contains(&package))
}

/// The files of packages, in the cache from now on.
fn download(packages: &BTreeSet<String>, cache: &Path) -> Result<Vec<PathBuf>> {
    let mut ask = Command::new("apt-get");
    // Elsewhere than in the cache: what is there already would be left out.
    ask.args(["download", "--print-uris"])
        .args(packages)
        .current_dir("/");
    let listed = output(&mut ask)?;
    let mut files = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, _, digest] = words[..] else {
            bail!("apt-get says {line:?}; try `apt-get update`");
        };
        let digest = digest
            .strip_prefix("SHA256:")
            .context("a package has a digest")?;
        files.push((cache.join(name), digest));
    }
    let is_whole = |(file, digest): &(PathBuf, &str)| {
        let found = fs::read(file);
        found.is_ok_and(|bytes| sha256(&bytes) == **digest)
    };
    if !files.iter().all(is_whole) {
        // What is there already and whole is not fetched again.
        let status = Command::new("apt-get")
            .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
            .args(packages)
            .current_dir(cache)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start apt-get")?;
        ensure!(status.success(), "apt-get cannot download the packages");
    }
    if let Some((file, _)) = files.iter().find(|one| !is_whole(one)) {
        bail!("{} is not what apt-get promised", file.display());
    }
    ensure!(
        files.len() == packages.len(),
        "apt-get knows only {} packages",
        files.len()
    );
    let mut files: Vec<PathBuf> = files.into_iter().map(|(file, _)| file).collect();
    files.sort();
    Ok(files)
}

/// Outside the checkout, beside the programs that were built.
fn cache() -> Result<PathBuf> {
    let folder = tools::cache()?.with_file_name("packages");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// What a program prints, which must end well.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    ensure!(output.status.success(), "{name} failed ({})", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_libraries_are_reached_and_what_scripts_need_is_not() {
        let listed = "bind9\n  PreDepends: init-system-helpers\n  Depends: adduser\n |Depends: bind9-libs\n\
                      bind9-libs\n  Depends: libxml2\n    libxml2-alternative\n\
                      libxml2\n  Depends: libicu72\nadduser\n  Depends: libpasswd\n";
        let found = reached(&dependencies(listed));
        for wanted in [
            "bind9",
            "bind9-libs",
            "libxml2",
            "libicu72",
            "ca-certificates",
        ] {
            assert!(found.contains(wanted), "{wanted} is not in {found:?}");
        }
        assert!(
            !found.contains("adduser") && !found.contains("libpasswd"),
            "{found:?}"
        );
    }

    #[test]
    fn only_libraries_are_taken_along() {
        for (package, wanted) in [
            ("libc6", true),
            ("bind9-libs", true),
            ("zlib1g", true),
            ("adduser", false),
            ("debconf", false),
            ("libdebconfclient0", false),
            ("libperl5.36", false),
        ] {
            assert_eq!(is_library(package), wanted, "{package}");
        }
    }
}
