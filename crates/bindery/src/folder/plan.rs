//! What has to be applied, and what is no longer declared, so that the API holds what the folder
//! declares.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Document, FileProblem, ObjectKey};

/// What the folder holds now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Every manifest file.
    pub(crate) files: BTreeMap<String, FileContent>,
    /// Folders below that cannot be read, so that nobody knows what is in them.
    pub(crate) unreadable: BTreeMap<String, FileProblem>,
}

/// What a file declares.
#[derive(Clone, Debug)]
pub(crate) enum FileContent {
    /// These objects; of a file that is being written, those that it declared before.
    Declares(Vec<Arc<Document>>),
    /// It cannot be read or understood.
    Broken(FileProblem),
    /// It is being written, and was never read before.
    Restless,
}

/// What the folder had declared when it was applied last.
pub(crate) type LastApplied = BTreeMap<ObjectKey, Origin>;

/// Where an object came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) file: String,
    pub(crate) hash: String,
    pub(crate) api_version: String,
    /// Whether the object says that no file declares it any longer.
    pub(crate) held: bool,
}

/// What to do; nothing is done yet.
#[derive(Debug, Default)]
pub(crate) struct FolderPlan {
    /// Documents to apply, with their files: definitions first, then namespaces, then the rest.
    pub(crate) apply: Vec<(String, Arc<Document>)>,
    /// Objects that were declared and are not any longer.
    pub(crate) absent: Vec<Absent>,
    /// What the author has to know.
    pub(crate) problems: Vec<FileProblem>,
}

/// An object that was declared and is not any longer.
#[derive(Clone, Debug)]
pub(crate) struct Absent {
    pub(crate) key: ObjectKey,
    pub(crate) origin: Origin,
    pub(crate) way: Disappearance,
}

/// How an object ceased to be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disappearance {
    /// Its file is there and declares other objects.
    LeftFile,
    /// Its file is not there.
    FileGone,
}

impl Scan {
    /// Everything that is declared, file by file.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&String, &Arc<Document>)> {
        self.files.iter().flat_map(|(file, content)| {
            let documents = match content {
                FileContent::Declares(documents) => documents.as_slice(),
                FileContent::Broken(_) | FileContent::Restless => &[],
            };
            documents.iter().map(move |document| (file, document))
        })
    }

    /// Whether some file was never still enough to be read.
    pub(crate) fn is_restless(&self) -> bool {
        let mut contents = self.files.values();
        contents.any(|content| matches!(content, FileContent::Restless))
    }
}

/// Compares what is declared with what was.
///
/// Guarantees: a folder that declares nothing takes nothing away. Neither does a file that declares
/// nothing, is being written or has a problem, nor a folder below that cannot be read. An object stays with
/// the file that has it.
pub(crate) fn plan(scan: &Scan, known: &LastApplied) -> FolderPlan {
    let mut plan = FolderPlan::default();
    plan.problems.extend(scan.unreadable.values().cloned());
    let broken = scan.files.values().filter_map(|content| match content {
        FileContent::Broken(problem) => Some(problem.clone()),
        FileContent::Declares(_) | FileContent::Restless => None,
    });
    plan.problems.extend(broken);
    let declared = declared(scan, known, &mut plan.problems);
    for (key, (file, document)) in &declared {
        let same = known.get(*key).is_some_and(|origin| {
            origin.file == *file && origin.hash == document.hash && !origin.held
        });
        if !same {
            plan.apply.push(((*file).to_owned(), Arc::clone(document)));
        }
    }
    plan.apply
        .sort_by(|(file, a), (other, b)| (rank(a), file, a.line).cmp(&(rank(b), other, b.line)));
    let undeclared = || known.iter().filter(|(key, _)| !declared.contains_key(key));
    for (file, content) in &scan.files {
        if matches!(content, FileContent::Declares(documents) if documents.is_empty()) {
            let kept = undeclared().filter(|(_, origin)| origin.file == *file);
            plan.problems.extend(empty(file, kept.count()));
        }
    }
    let absent = undeclared().filter_map(|(key, origin)| {
        let (key, origin) = (key.clone(), origin.clone());
        let way = way(scan, &origin.file)?;
        Some(Absent { key, origin, way })
    });
    plan.absent = absent.collect();
    if declared.is_empty() && !plan.absent.is_empty() {
        plan.absent.clear();
        if !scan.is_restless() {
            let count = known.len();
            let text =
                format!("the folder declares nothing; its {count} objects are kept as they are");
            plan.problems.push(FileProblem::with_file("", text));
        }
    }
    plan
}

/// A file that declares nothing, where it did before.
fn empty(file: &str, count: usize) -> Option<FileProblem> {
    let s = if count == 1 { "" } else { "s" };
    let text = format!(
        "declares nothing; what it declared before ({count} object{s}) is kept as it is: delete the \
         file to delete that"
    );
    (count > 0).then(|| FileProblem::with_file(file, text))
}

/// Which file declares which object. Where several do, it is the one that has it already, else the first.
fn declared<'a>(
    scan: &'a Scan,
    known: &LastApplied,
    problems: &mut Vec<FileProblem>,
) -> BTreeMap<&'a ObjectKey, (&'a str, &'a Arc<Document>)> {
    let mut found: BTreeMap<&ObjectKey, (&str, &Arc<Document>)> = BTreeMap::new();
    let mut taken = Vec::new();
    for (file, document) in scan.documents() {
        let key = &document.key;
        let owner = known.get(key).map(|origin| origin.file.as_str());
        match owner.and_then(|owner| Some((owner, scan.files.get(owner)?))) {
            Some((owner, FileContent::Broken(_))) => {
                let text =
                    format!("{key} is declared in {owner}, which has an error: mend that first");
                problems.push(FileProblem::at(file, document.line, text));
                continue;
            }
            Some((_, FileContent::Restless)) => continue,
            Some((_, FileContent::Declares(_))) | None => {}
        }
        let first = found.get(key).map(|(first, _)| *first);
        if first.is_none() || (owner == Some(file) && first != owner) {
            taken.extend(found.insert(key, (file, document)));
        } else {
            taken.push((file, document));
        }
    }
    for (file, document) in taken {
        let Some((first, earlier)) = found.get(&document.key) else {
            continue;
        };
        let text = format!(
            "{} is declared in {first}:{} already; this one is ignored",
            document.key, earlier.line
        );
        problems.push(FileProblem::at(file, document.line, text));
    }
    found
}

/// How an object of `file` that is not declared ceased to be; `None` where the file takes nothing away.
fn way(scan: &Scan, file: &str) -> Option<Disappearance> {
    let hidden = scan.unreadable.keys().any(|folder| {
        file.strip_prefix(folder.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    });
    match scan.files.get(file) {
        None => (!hidden).then_some(Disappearance::FileGone),
        Some(FileContent::Declares(documents)) => {
            (!documents.is_empty()).then_some(Disappearance::LeftFile)
        }
        Some(FileContent::Broken(_) | FileContent::Restless) => None,
    }
}

/// Kinds and namespaces have to exist before the objects in them, servers before what they serve and pools
/// before who has addresses of them: a zone would else wait, or be served elsewhere meanwhile.
fn rank(document: &Document) -> u8 {
    match (document.key.group.as_str(), document.key.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        ("bindy.firestoned.io", kind) if kind.contains("Bind9") => 2,
        ("bindery.dev", "AddressPool") => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::documents;
    use super::*;

    /// A folder from lines `file: kind/name=value …`; `file: !` is a broken file, `file: ~` one that is
    /// being written, and `folder/: !` an unreadable folder.
    fn folder(text: &str) -> Scan {
        let mut scan = Scan::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (file, rest) = line.split_once(':').expect("a line is `file: objects`");
            let (file, rest) = (file.trim(), rest.trim());
            let broken = FileProblem::at(file, 3, "broken");
            if let (Some(folder), "!") = (file.strip_suffix('/'), rest) {
                scan.unreadable.insert(folder.to_owned(), broken);
            } else if rest == "!" {
                scan.files
                    .insert(file.to_owned(), FileContent::Broken(broken));
            } else if rest == "~" {
                scan.files.insert(file.to_owned(), FileContent::Restless);
            } else {
                let yaml: Vec<_> = rest.split_whitespace().map(manifest).collect();
                let found = documents("a.yaml", &yaml.join("\n---\n")).expect("it is YAML");
                scan.files
                    .insert(file.to_owned(), FileContent::Declares(found));
            }
        }
        scan
    }

    fn manifest(word: &str) -> String {
        let (object, value) = word.split_once('=').unwrap_or((word, ""));
        let (kind, name) = object.split_once('/').expect("an object is `kind/name`");
        let api = if kind == "CustomResourceDefinition" {
            "apiextensions.k8s.io/v1"
        } else {
            "v1"
        };
        format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: {name}}}, x: '{value}'}}")
    }

    /// What is known after `text` was applied.
    fn applied(text: &str) -> LastApplied {
        let plan = plan(&folder(text), &LastApplied::new());
        let known = plan.apply.into_iter().map(|(file, document)| {
            let origin = Origin {
                file,
                hash: document.hash.clone(),
                api_version: document.api_version.clone(),
                held: false,
            };
            (document.key.clone(), origin)
        });
        known.collect()
    }

    /// The plan from one folder to the next, as `+file object`, `-object` and `!problem`.
    fn check(before: &str, after: &str) -> Vec<String> {
        shown(after, &applied(before))
    }

    fn shown(after: &str, known: &LastApplied) -> Vec<String> {
        let plan = plan(&folder(after), known);
        let apply = plan
            .apply
            .iter()
            .map(|(file, one)| format!("+{file} {}", one.key));
        let absent = plan
            .absent
            .iter()
            .map(|absent| format!("-{} {:?}", absent.key, absent.way));
        let problems = plan.problems.iter().map(|problem| format!("!{problem}"));
        apply.chain(absent).chain(problems).collect()
    }

    #[test]
    fn only_what_changed_is_applied() {
        assert_eq!(
            check("a: A/x=1 A/y=1", "a: A/x=2 A/y=1\nb: A/z"),
            ["+a A default/x", "+b A default/z"]
        );
        assert!(check("a: A/x=1", "a: A/x=1").is_empty());
    }

    #[test]
    fn a_document_or_file_that_is_gone_leaves_its_objects_undeclared() {
        assert_eq!(check("a: A/x A/y", "a: A/x"), ["-A default/y LeftFile"]);
        assert_eq!(check("a: A/x\nb: A/y", "a: A/x"), ["-A default/y FileGone"]);
    }

    #[test]
    fn an_emptied_folder_deletes_nothing() {
        let kept = "!the folder declares nothing; its 2 objects are kept as they are";
        assert_eq!(check("a: A/x\nb: A/y", ""), [kept]);
        let empty = "!a: declares nothing; what it declared before (1 object) is kept as it is: \
                     delete the file to delete that";
        assert_eq!(check("a: A/x\nb: A/y", "a:"), [empty, kept]);
    }

    #[test]
    fn a_file_that_declares_nothing_takes_nothing_away() {
        let told = "!a: declares nothing; what it declared before (2 objects) is kept as it is: \
                    delete the file to delete that";
        assert_eq!(check("a: A/x A/y\nb: A/z", "a:\nb: A/z"), [told]);
        assert_eq!(
            check("a: A/x\nb: A/z", "a:\nb: A/z A/x"),
            ["+b A default/x"],
            "it was moved to another file"
        );
        assert!(check("b: A/z", "a:\nb: A/z").is_empty());
    }

    #[test]
    fn a_file_that_is_being_written_takes_nothing_away() {
        assert!(check("a: A/x\nb: A/z", "a: ~\nb: A/z").is_empty());
        assert!(check("a: A/x\nb: A/z", "a: ~").is_empty());
        assert!(check("a: A/x", "a: ~\nb: A/x=2").is_empty());
    }

    #[test]
    fn an_object_that_says_it_is_not_declared_is_applied_again() {
        let mut known = applied("a: A/x\nb: A/y");
        for origin in known.values_mut() {
            origin.held = origin.file == "a";
        }
        assert_eq!(shown("a: A/x\nb: A/y", &known), ["+a A default/x"]);
    }

    #[test]
    fn a_broken_file_keeps_its_objects_and_the_others_work() {
        assert_eq!(
            check("a: A/x\nb: A/y\nc: A/z", "a: !\nb: A/y=2"),
            ["+b A default/y", "-A default/z FileGone", "!a:3: broken"]
        );
    }

    #[test]
    fn an_unreadable_folder_keeps_its_objects() {
        assert_eq!(
            check("sub/a: A/x\nsubs/a: A/y\nb: A/z", "sub/: !\nb: A/z"),
            ["-A default/y FileGone", "!sub/:3: broken"]
        );
    }

    #[test]
    fn a_renamed_file_is_applied_and_not_deleted() {
        assert_eq!(check("a: A/x", "b: A/x"), ["+b A default/x"]);
    }

    #[test]
    fn kinds_and_namespaces_come_first() {
        assert_eq!(
            check("", "a: A/x\nb: Namespace/n\nc: CustomResourceDefinition/c"),
            [
                "+c CustomResourceDefinition default/c",
                "+b Namespace default/n",
                "+a A default/x"
            ]
        );
    }

    #[test]
    fn an_object_stays_with_the_file_that_has_it() {
        assert_eq!(
            check("b: A/x=2", "a: A/x=1\nb: A/x=2"),
            ["!a:1: A default/x is declared in b:1 already; this one is ignored"]
        );
        assert_eq!(
            check("b: A/x=2", "a: A/x=1\nb: A/x=3\nc: A/x=1"),
            [
                "+b A default/x",
                "!a:1: A default/x is declared in b:1 already; this one is ignored",
                "!c:1: A default/x is declared in b:1 already; this one is ignored"
            ]
        );
        assert_eq!(
            check("b: A/x=2", "a: A/x=1\nb: !"),
            [
                "!b:3: broken",
                "!a:1: A default/x is declared in b, which has an error: mend that first"
            ]
        );
        assert_eq!(
            check("b: A/x=2 A/y", "a: A/x=1\nb: A/y"),
            ["+a A default/x"]
        );
    }

    #[test]
    fn an_object_declared_twice_is_told_and_the_first_counts() {
        assert_eq!(
            check("", "a: A/x=1\nb: A/x=2"),
            [
                "+a A default/x",
                "!b:1: A default/x is declared in a:1 already; this one is ignored"
            ]
        );
    }
}
