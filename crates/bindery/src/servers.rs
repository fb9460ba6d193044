//! Where name servers come from: flags, and a file that is watched.
//!
//! It must *never* let a mistake in the file take a server away: what cannot be used whole changes nothing.

mod format;
mod keep;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bindery_core::{Group, ServerId, ServerInfo, ServerRole};
use bindery_dns::Key;
use bindery_engine::ports::NameServer;
use bindery_engine::{Fence, ServerHandle, Servers};

use crate::address::Given;
use crate::data::{self, TsigKeys};
use crate::file::{self, Stamp, plain};
use crate::folder::FileProblem;
use format::{FileServer, KeyPlace, KeySource, ServersFile};

pub(crate) use keep::{PROBLEMS, ServersKeeper, ServersReport, read_settled};

/// The longest file of name servers: a thousand servers have 200 KB.
const FILE_LEN_MAX: u64 = 1 << 20;
/// The longest file of a key.
const KEY_LEN_MAX: u64 = 64 << 10;

/// What says which name servers there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSource {
    /// Those of the command line.
    pub(crate) given: Vec<Given>,
    /// Keys of the command line, each as `FILE` or `CLUSTER=FILE`.
    pub(crate) tsig_key_file: Vec<String>,
    /// The file of name servers.
    pub(crate) file: Option<PathBuf>,
}

/// A name server that was found, with its key.
#[derive(Clone)]
pub(crate) struct FoundServer {
    pub(crate) info: ServerInfo,
    pub(crate) key: Key,
}

/// What was found, cluster by cluster; one may have no servers.
pub(crate) type FoundServers = BTreeMap<Group, Vec<FoundServer>>;

/// Files that were read, as they were then; `None` for one that is not there.
pub(crate) type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// One reading of everything.
pub(crate) struct ServersReading {
    pub(crate) found: Result<FoundServers, FileProblem>,
    /// The files that it depends on.
    pub(crate) files: Stamps,
}

impl ServerSource {
    /// Reads everything as it is now.
    pub(crate) fn read(&self) -> ServersReading {
        let mut files: BTreeSet<PathBuf> = self.file.iter().cloned().collect();
        let found = self.find(&mut files);
        let files = stamps(&files);
        ServersReading { found, files }
    }

    fn find(&self, files: &mut BTreeSet<PathBuf>) -> Result<FoundServers, FileProblem> {
        let content = match &self.file {
            Some(path) => parse(path)?,
            None => ServersFile::default(),
        };
        let groups = self.given.iter().map(|one| one.group.clone());
        let groups: BTreeSet<Group> = groups.chain(content.groups.iter().cloned()).collect();
        let is_cluster = |group: &Group| groups.contains(group);
        files.extend(TsigKeys::paths(&self.tsig_key_file, is_cluster));
        let keyed = content.servers.iter().filter_map(|one| one.key.as_ref());
        files.extend(keyed.map(|key| self.beside(key.place.path())));
        let keys = TsigKeys::read(&self.tsig_key_file, is_cluster);
        let keys = keys.map_err(|error| FileProblem::with_file("", format!("{error:#}")))?;
        let mut found: FoundServers = groups
            .into_iter()
            .map(|group| (group, Vec::new()))
            .collect();
        let mut known = Known::default();
        for Given { group, info } in &self.given {
            known
                .add(group, info)
                .map_err(|text| FileProblem::with_file("", text))?;
            let key = keys.of(group).cloned().ok_or_else(|| no_key(group))?;
            let info = info.clone();
            found
                .entry(group.clone())
                .or_default()
                .push(FoundServer { info, key });
        }
        for server in content.servers {
            let (group, info) = (server.group.clone(), server.info.clone());
            let wrong = |text: String| self.wrong(server.line, &server.field, &text);
            known.add(&group, &info).map_err(wrong)?;
            let key = self.key(&server, &keys)?;
            found
                .entry(group)
                .or_default()
                .push(FoundServer { info, key });
        }
        check_primaries(&found)?;
        // With nothing named at all, everything waits on the servers without a name.
        if found.is_empty() {
            found.insert(Group::UNNAMED, Vec::new());
        }
        Ok(found)
    }

    fn key(&self, server: &FileServer, keys: &TsigKeys) -> Result<Key, FileProblem> {
        let Some(KeySource { place, line, field }) = &server.key else {
            let text =
                "no key is for it; add tsigKeyFile here or to its cluster, or give --tsig-key-file";
            let key = keys.of(&server.group).cloned();
            return key.ok_or_else(|| self.wrong(server.line, &server.field, text));
        };
        let path = self.beside(place.path());
        let wrong = |text: String| {
            let text = format!("{}: {text}", path.display());
            self.wrong(*line, field, &text)
        };
        let text = read_whole(&path, KEY_LEN_MAX).map_err(wrong)?;
        let key = match place {
            KeyPlace::Whole(_) => Key::from_key_file(&text),
            KeyPlace::Secret {
                name, algorithm, ..
            } => {
                let algorithm = algorithm.parse();
                algorithm.and_then(|algorithm| Key::from_base64(name, algorithm, text.trim()))
            }
        };
        key.map_err(|problem| wrong(problem.to_string()))
    }

    /// A path as the file means it: relative to the folder that the file is in.
    fn beside(&self, path: &Path) -> PathBuf {
        let folder = self.file.as_deref().and_then(Path::parent);
        folder.map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    fn wrong(&self, line: u64, field: &str, text: &str) -> FileProblem {
        let file = self.file.as_deref().unwrap_or_else(|| Path::new(""));
        FileProblem::at(
            &file.display().to_string(),
            line,
            format!("{field}: {text}"),
        )
    }
}

impl ServersReading {
    /// Tells of keys that everybody can read.
    pub(crate) fn warn(&self, source: &ServerSource) {
        let keys = self.files.keys();
        for path in keys.filter(|path| source.file.as_ref() != Some(*path)) {
            data::warn_if_open(path);
        }
    }
}

fn parse(path: &Path) -> Result<ServersFile, FileProblem> {
    let shown = path.display().to_string();
    let problem = |text: String| FileProblem::with_file(&shown, text);
    let text = read_whole(path, FILE_LEN_MAX).map_err(problem)?;
    format::parse(&shown, text.trim_start_matches('\u{feff}'))
}

/// Names and addresses that were seen.
#[derive(Default)]
struct Known {
    ids: BTreeSet<(Group, ServerId)>,
    addresses: BTreeSet<Arc<str>>,
}

impl Known {
    fn add(&mut self, group: &Group, info: &ServerInfo) -> Result<(), String> {
        if !self.addresses.insert(Arc::clone(&info.address)) {
            let address = &info.address;
            return Err(format!(
                "{address} is named twice; a server has one role in one cluster"
            ));
        }
        if !self.ids.insert((group.clone(), info.id.clone())) {
            let id = &info.id;
            return Err(format!(
                "{id} is named twice in {group}; each server has a name of its own"
            ));
        }
        Ok(())
    }
}

/// Those that take updates are needed wherever there are servers at all.
fn check_primaries(found: &FoundServers) -> Result<(), FileProblem> {
    let is_lacking = |servers: &Vec<FoundServer>| {
        !servers.is_empty()
            && !servers
                .iter()
                .any(|one| one.info.role == ServerRole::Primary)
    };
    let Some((group, _)) = found.iter().find(|(_, servers)| is_lacking(servers)) else {
        return Ok(());
    };
    let cluster = group
        .name()
        .map_or_else(String::new, |name| format!("{name}/"));
    let text = format!(
        "--nameserver names no primary of {group}, so nobody could take updates; add \
         {cluster}primary=HOST:PORT"
    );
    Err(FileProblem::with_file("", text))
}

fn no_key(group: &Group) -> FileProblem {
    let cluster = group
        .name()
        .map_or_else(String::new, |name| format!("{name}="));
    let text = format!("no --tsig-key-file is for {group}; add --tsig-key-file {cluster}FILE");
    FileProblem::with_file("", text)
}

/// The text of a file that must be one, and stay the same while it is read.
fn read_whole(path: &Path, len_max: u64) -> Result<String, String> {
    let metadata = fs::metadata(path);
    let metadata = metadata.map_err(|error| format!("cannot be read: {}", plain(&error)))?;
    if !metadata.is_file() {
        return Err("is no file but a folder, a pipe, a socket or a device".to_owned());
    }
    if metadata.len() > len_max {
        let len = metadata.len();
        return Err(format!("has {len} bytes, it may have {len_max}"));
    }
    match file::read_text(path, Stamp::of(&metadata), len_max) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err("is being written".to_owned()),
        Err(error) => Err(format!("cannot be read: {}", plain(&error))),
    }
}

/// How files are now.
fn stamps<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Stamps {
    let stamp = |path: &PathBuf| {
        let found = fs::metadata(path).ok();
        (path.clone(), found.map(|found| Stamp::of(&found)))
    };
    files.into_iter().map(stamp).collect()
}

/// Connections to servers, kept while a server has the same address and key.
pub(crate) struct Connections {
    kept: BTreeMap<(Group, ServerId), (FoundServer, Arc<dyn NameServer>)>,
    /// What every write passes.
    fence: Fence,
}

impl Connections {
    /// None yet.
    pub(crate) fn behind(fence: Fence) -> Self {
        Self {
            kept: BTreeMap::new(),
            fence,
        }
    }

    /// The servers with their connections.
    pub(crate) fn open(&mut self, found: &FoundServers) -> BTreeMap<Group, Servers> {
        let mut before = std::mem::take(&mut self.kept);
        let mut groups = BTreeMap::new();
        for (group, servers) in found {
            let handles = servers.iter().map(|one| {
                let place = (group.clone(), one.info.id.clone());
                let known = before.remove(&place);
                let known = known.filter(|(known, _)| {
                    known.info.address == one.info.address && known.key == one.key
                });
                let server = known.map_or_else(|| connect(one, &self.fence), |(_, server)| server);
                self.kept.insert(place, (one.clone(), Arc::clone(&server)));
                ServerHandle {
                    info: one.info.clone(),
                    server,
                    host: None,
                }
            });
            groups.insert(group.clone(), handles.collect());
        }
        groups
    }
}

fn connect(found: &FoundServer, fence: &Fence) -> Arc<dyn NameServer> {
    let key = Some(found.key.clone());
    let server = bindery_dns::Server::new(&*found.info.address, key);
    Arc::new(server.with_fence(fence.clone()))
}

#[cfg(test)]
mod tests;
