use bindery_core::Record;
use tempfile::TempDir;

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn zone() -> Content {
    let mut content = Content::new(name("example.com."));
    put(
        &mut content,
        "example.com. 60 IN SOA a.example.com. b.example.com. 1 2 3 4 5",
    );
    put(&mut content, "example.com. 60 IN NS a.example.com.");
    content
}

fn put(content: &mut Content, line: &str) -> (Name, RecordType) {
    let record: Record = line.parse().unwrap();
    let key = (record.name.clone(), record.data.rtype());
    let set = RecordSet::new(record.ttl, [record.data]);
    content.put(&key.0, key.1, Some(Arc::new(set)));
    key
}

fn commit(journal: &mut Journal, content: &mut Content, line: &str) {
    let (name, rtype) = put(content, line);
    let apex = content.apex().clone();
    journal
        .commit(&apex, &[(&name, rtype, content.set(&name, rtype))])
        .unwrap();
}

/// All lines of a zone.
fn shown(content: &Content) -> Vec<String> {
    content
        .sets()
        .flat_map(|(name, _, set)| {
            set.data()
                .iter()
                .map(move |data| format!("{name} {} {data}", set.ttl))
        })
        .collect()
}

fn written(folder: &TempDir, commits: u32) -> (PathBuf, Content) {
    let path = folder.path().join("z.zone");
    let mut content = zone();
    let mut journal = Journal::create(&path, &content).unwrap();
    for number in 0..commits {
        let line = format!("w{number}.example.com. 60 IN A 192.0.2.{}", number % 250);
        commit(&mut journal, &mut content, &line);
    }
    (path, content)
}

#[test]
fn a_file_reads_back_as_it_was_written() {
    let folder = TempDir::new().unwrap();
    let (path, mut content) = written(&folder, 5);
    let (mut journal, again, _) = Journal::open(&path).unwrap();
    assert_eq!(shown(&again), shown(&content));

    let gone = name("w1.example.com.");
    content.put(&gone, RecordType::A, None);
    journal
        .commit(content.apex(), &[(&gone, RecordType::A, None)])
        .unwrap();
    let (_, again, _) = Journal::open(&path).unwrap();
    assert_eq!(shown(&again), shown(&content));
}

#[test]
fn a_file_is_for_its_owner_only() {
    let folder = TempDir::new().unwrap();
    let (path, _) = written(&folder, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    // As an older Bindery left it.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Journal::open(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_commit_cut_short_anywhere_leaves_the_ones_before_it() {
    let folder = TempDir::new().unwrap();
    let (path, content) = written(&folder, 3);
    let before = fs::metadata(&path).unwrap().len();
    let (mut journal, mut longer, _) = Journal::open(&path).unwrap();
    commit(
        &mut journal,
        &mut longer,
        "last.example.com. 60 IN TXT \"x\"",
    );
    drop(journal);
    let bytes = fs::read(&path).unwrap();
    for length in usize::try_from(before).unwrap()..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let (mut journal, again, _) = Journal::open(&path).unwrap();
        assert_eq!(shown(&again), shown(&content), "cut to {length}");
        // What comes next is appended behind the last whole commit.
        let mut next = again;
        commit(
            &mut journal,
            &mut next,
            "next.example.com. 60 IN A 192.0.2.9",
        );
        let (_, again, _) = Journal::open(&path).unwrap();
        assert_eq!(shown(&again), shown(&next));
    }
}

#[test]
fn a_tail_of_zeros_is_cut_off() {
    let folder = TempDir::new().unwrap();
    let (path, content) = written(&folder, 2);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    fs::write(&path, &bytes).unwrap();
    let (_, again, _) = Journal::open(&path).unwrap();
    assert_eq!(shown(&again), shown(&content));
}

#[test]
fn a_flipped_byte_in_the_middle_is_reported_and_nothing_is_served() {
    let folder = TempDir::new().unwrap();
    let (path, _) = written(&folder, 3);
    let mut bytes = fs::read(&path).unwrap();
    bytes[MAGIC.len() + FRAME_LEN + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let said = Journal::open(&path).err().unwrap().to_string();
    assert!(said.contains("damaged at byte 16"), "{said}");
}

#[test]
fn a_file_of_another_version_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("z.zone");
    fs::write(&path, "bindery-zone 9\n\0xyz").unwrap();
    assert!(matches!(Journal::open(&path), Err(Damaged::Version { .. })));
    assert_eq!(fs::read(&path).unwrap().len(), 19);
}

#[test]
fn a_long_file_is_written_anew_and_stays_the_same_zone() {
    let folder = TempDir::new().unwrap();
    let (path, mut content) = written(&folder, 0);
    let (mut journal, _, _) = Journal::open(&path).unwrap();
    let long = format!("\"{}\" ", "x".repeat(250)).repeat(20);
    let mut longest = 0;
    for number in 0..300 {
        let line = format!("t.example.com. 60 IN TXT \"{number}\" {long}");
        commit(&mut journal, &mut content, &line);
        longest = longest.max(journal.len);
        journal.rewrite_if_long(&content).unwrap();
    }
    assert!(longest >= REWRITE_LEN_MIN);
    assert!(fs::metadata(&path).unwrap().len() < REWRITE_LEN_MIN);
    let (_, again, _) = Journal::open(&path).unwrap();
    assert_eq!(shown(&again), shown(&content));
}
