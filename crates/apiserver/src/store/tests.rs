//! A disk that fills up, and one that loses what it was given.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::future::join_all;
use redb::backends::FileBackend;
use redb::{BackendError, Database, StorageBackend};
use serde_json::{Value, json};

use super::disk::{Disk, Folder};
use super::{Durable, Refused, Store};
use crate::tests::{MAPS, call, config_map, next_event, ok, watch};
use crate::{EmbeddedApi, Options, System};

const SOUND: u8 = 0;
/// Nothing can be written.
const FULL: u8 = 1;
/// What is written is there to be read, but the disk does not vouch for it.
const FORGETFUL: u8 = 2;

/// A folder on a disk whose state a test chooses.
struct Frail {
    folder: Folder,
    state: Arc<AtomicU8>,
}

#[derive(Debug)]
struct Backend {
    file: FileBackend,
    state: Arc<AtomicU8>,
}

impl Backend {
    fn check(&self, bad: u8) -> io::Result<()> {
        if self.state.load(Ordering::SeqCst) == bad {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check(FULL)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check(FULL)?;
        self.check(FORGETFUL)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(FULL)?;
        self.file.write(offset, data)
    }

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(from, to)
    }
}

impl Disk for Frail {
    fn folder(&self) -> &Path {
        self.folder.folder()
    }

    fn open(&self) -> Result<Database, redb::Error> {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(self.folder().join("objects.redb"))?;
        let backend = Backend {
            file: FileBackend::new(file)?,
            state: Arc::clone(&self.state),
        };
        Ok(Database::builder().create_with_backend(backend)?)
    }

    fn check_room(&self, len: usize) -> io::Result<()> {
        if self.state.load(Ordering::SeqCst) != SOUND {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.folder.check_room(len)
    }
}

/// An API in `folder`, and the switch of its disk.
fn frail(folder: &Path) -> (EmbeddedApi, Arc<AtomicU8>) {
    let state = Arc::new(AtomicU8::new(SOUND));
    let disk = Frail {
        folder: Folder(folder.to_owned()),
        state: Arc::clone(&state),
    };
    let store = Store::on(Box::new(disk)).unwrap();
    (EmbeddedApi::with_store(store, Arc::new(System)), state)
}

/// Makes the disk sound and waits until the API has noticed.
async fn mend(api: &EmbeddedApi, disk: &AtomicU8) {
    disk.store(SOUND, Ordering::SeqCst);
    let accepted = async {
        while api.refusal().is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await; // pause between polls
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), accepted).await;
    waited.expect("writes are accepted again");
}

async fn listed(api: &EmbeddedApi) -> Value {
    ok(api, "GET", MAPS, &Value::Null).await["items"].take()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let (api, disk) = frail(folder.path());
    let kept = ok(&api, "POST", MAPS, &config_map("kept")).await;
    let version = kept["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = watch(&api, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;

    disk.store(FULL, Ordering::SeqCst);
    let path = format!("{MAPS}/kept");
    let change = json!({"data": {"more": "x"}});
    for (method, path, body) in [
        ("POST", MAPS, &config_map("late")),
        ("PATCH", &path, &change),
        ("DELETE", &path, &Value::Null),
    ] {
        let (code, status) = call(&api, method, path, body).await;
        assert_eq!(
            (code, status["reason"].as_str()),
            (507, Some("InsufficientStorage")),
            "{method}: {status}"
        );
        let message = status["message"].as_str().unwrap();
        let place = folder.path().display().to_string();
        for part in [place.as_str(), "make room", "without a restart"] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert_eq!(call(&api, "GET", "/readyz", &Value::Null).await.0, 500);
    assert_eq!(call(&api, "GET", "/livez", &Value::Null).await.0, 200);
    assert_eq!(listed(&api).await, json!([kept]), "reads go on");

    mend(&api, &disk).await;
    assert_eq!(call(&api, "GET", "/readyz", &Value::Null).await.0, 200);
    assert_eq!(listed(&api).await, json!([kept]));
    let late = ok(&api, "POST", MAPS, &config_map("late")).await;
    let event = next_event(&mut events).await.unwrap();
    assert_eq!(event["object"], late, "watches go on and saw nothing else");
    let served = listed(&api).await;
    drop((api, events));
    let api = EmbeddedApi::open(Options::on_disk(folder.path())).unwrap();
    assert_eq!(listed(&api).await, served, "memory and disk agree");
}

#[tokio::test]
async fn a_write_that_the_disk_does_not_vouch_for_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let (api, disk) = frail(folder.path());
    for name in ["changed", "deleted"] {
        ok(&api, "POST", MAPS, &config_map(name)).await;
    }
    let before = listed(&api).await;
    disk.store(FORGETFUL, Ordering::SeqCst);
    let (path, other) = (format!("{MAPS}/changed"), format!("{MAPS}/deleted"));
    let (new, change) = (config_map("new"), json!({"data": {"more": "x"}}));
    let refused = join_all([
        call(&api, "POST", MAPS, &new),
        call(&api, "PATCH", &path, &change),
        call(&api, "DELETE", &other, &Value::Null),
    ]);
    for (code, status) in refused.await {
        assert_eq!(code, 507, "{status}");
    }
    mend(&api, &disk).await;
    assert_eq!(listed(&api).await, before);
    drop(api);
    let api = EmbeddedApi::open(Options::on_disk(folder.path())).unwrap();
    assert_eq!(listed(&api).await, before);
}

#[tokio::test]
async fn what_follows_from_a_refused_write_is_taken_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let (api, disk) = frail(folder.path());
    let namespace = json!({"metadata": {"name": "team"}});
    ok(&api, "POST", "/api/v1/namespaces", &namespace).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    let owner = ok(&api, "POST", maps, &config_map("owner")).await;
    let mut dependent = config_map("owned");
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    ok(&api, "POST", maps, &dependent).await;
    disk.store(FULL, Ordering::SeqCst);
    let team = "/api/v1/namespaces/team";
    for path in [format!("{maps}/owner"), team.to_owned()] {
        assert_eq!(call(&api, "DELETE", &path, &Value::Null).await.0, 507);
    }
    mend(&api, &disk).await;
    let listed = ok(&api, "GET", maps, &Value::Null).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    // The indexes know the dependent and the namespace's content as before.
    ok(&api, "DELETE", &format!("{maps}/owner"), &Value::Null).await;
    assert_eq!(
        call(&api, "GET", &format!("{maps}/owned"), &Value::Null)
            .await
            .0,
        404
    );
    ok(&api, "DELETE", team, &Value::Null).await;
    assert_eq!(call(&api, "GET", team, &Value::Null).await.0, 404);
}

#[test]
fn a_writer_that_wakes_late_hears_what_became_of_its_own_write() {
    let why = Refused {
        is_full: true,
        message: "full".into(),
    };
    let mut durable = Durable {
        version: 3,
        lost: (0, 0),
        forgotten: 0,
        why: None,
        ended: false,
    };
    assert_eq!(durable.outcome(3), Some(Ok(())));
    assert_eq!(durable.outcome(4), None);
    durable.lose(4, 6, &why);
    durable.version = 9;
    assert_eq!(durable.outcome(3), Some(Ok(())));
    assert_eq!(durable.outcome(5), Some(Err(why.clone())));
    assert_eq!(durable.outcome(7), Some(Ok(())));
    assert_eq!(durable.outcome(10), None);
    durable.lose(10, 10, &why);
    durable.version = 11;
    assert_eq!(durable.outcome(5), Some(Err(why.clone())));
    assert_eq!(durable.outcome(8), Some(Ok(())));
    assert_eq!(durable.outcome(10), Some(Err(why)));
    assert_eq!(durable.outcome(11), Some(Ok(())));
}
