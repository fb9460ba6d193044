//! What has to be applied and deleted so that the API holds what the folder declares.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Document, Key, Problem};

/// What the folder holds now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Every manifest file; one that cannot be read or understood is a problem.
    pub(crate) files: BTreeMap<String, Result<Vec<Arc<Document>>, Problem>>,
    /// Folders below that cannot be read, so that nobody knows what is in them.
    pub(crate) unreadable: BTreeMap<String, Problem>,
}

/// What the folder had declared when it was applied last.
pub(crate) type Known = BTreeMap<Key, Origin>;

/// Where an object came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) file: String,
    pub(crate) hash: String,
    pub(crate) api_version: String,
}

/// What to do; nothing is done yet.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Documents to apply, with their files: definitions first, then namespaces, then the rest.
    pub(crate) apply: Vec<(String, Arc<Document>)>,
    /// Objects to delete.
    pub(crate) delete: Vec<(Key, Origin)>,
    /// What the author has to know.
    pub(crate) problems: Vec<Problem>,
}

/// Compares what is declared with what was.
///
/// Guarantees: a folder that declares nothing deletes nothing, and neither does a file or a folder
/// below that cannot be read.
pub(crate) fn plan(scan: &Scan, known: &Known) -> Plan {
    let mut plan = Plan::default();
    let mut declared: BTreeMap<&Key, (&str, &Arc<Document>)> = BTreeMap::new();
    plan.problems.extend(scan.unreadable.values().cloned());
    for (file, content) in &scan.files {
        match content {
            Err(problem) => plan.problems.push(problem.clone()),
            Ok(documents) => {
                for document in documents {
                    declare(&mut declared, &mut plan.problems, file, document);
                }
            }
        }
    }
    for (key, (file, document)) in &declared {
        let same = known
            .get(*key)
            .is_some_and(|origin| origin.file == *file && origin.hash == document.hash);
        if !same {
            plan.apply.push(((*file).to_owned(), Arc::clone(document)));
        }
    }
    plan.apply
        .sort_by(|(file, a), (other, b)| (rank(a), file, a.line).cmp(&(rank(b), other, b.line)));
    let gone = known
        .iter()
        .filter(|(key, origin)| !declared.contains_key(key) && is_readable(scan, &origin.file));
    if !declared.is_empty() {
        plan.delete = gone
            .map(|(key, origin)| (key.clone(), origin.clone()))
            .collect();
    } else if !known.is_empty() && plan.problems.is_empty() {
        let count = known.len();
        let text = format!("the folder declares nothing; its {count} objects are kept as they are");
        plan.problems.push(Problem::with_file("", text));
    }
    plan
}

fn declare<'a>(
    declared: &mut BTreeMap<&'a Key, (&'a str, &'a Arc<Document>)>,
    problems: &mut Vec<Problem>,
    file: &'a str,
    document: &'a Arc<Document>,
) {
    if let Some((first, earlier)) = declared.get(&document.key) {
        let text = format!(
            "{} is declared in {first}:{} already; this one is ignored",
            document.key, earlier.line
        );
        problems.push(Problem::at(file, document.line, text));
        return;
    }
    declared.insert(&document.key, (file, document));
}

/// Whether it is known what `file` declares now, be it that the file is gone.
fn is_readable(scan: &Scan, file: &str) -> bool {
    let broken = matches!(scan.files.get(file), Some(Err(_)));
    let hidden = scan.unreadable.keys().any(|folder| {
        file.strip_prefix(folder.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    });
    !broken && !hidden
}

/// Kinds and namespaces have to exist before the objects in them.
fn rank(document: &Document) -> u8 {
    match (document.key.group.as_str(), document.key.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::documents;
    use super::*;

    /// A folder from lines `file: kind/name=value …`; `file: !` is a broken file, and
    /// `folder/: !` an unreadable folder.
    fn folder(text: &str) -> Scan {
        let mut scan = Scan::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (file, rest) = line.split_once(':').expect("a line is `file: objects`");
            let (file, rest) = (file.trim(), rest.trim());
            let broken = Problem::at(file, 3, "broken");
            if let (Some(folder), "!") = (file.strip_suffix('/'), rest) {
                scan.unreadable.insert(folder.to_owned(), broken);
            } else if rest == "!" {
                scan.files.insert(file.to_owned(), Err(broken));
            } else {
                let yaml: Vec<_> = rest.split_whitespace().map(manifest).collect();
                let found = documents("a.yaml", &yaml.join("\n---\n")).expect("it is YAML");
                scan.files.insert(file.to_owned(), Ok(found));
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
    fn applied(text: &str) -> Known {
        let plan = plan(&folder(text), &Known::new());
        let known = plan.apply.into_iter().map(|(file, document)| {
            let origin = Origin {
                file,
                hash: document.hash.clone(),
                api_version: document.api_version.clone(),
            };
            (document.key.clone(), origin)
        });
        known.collect()
    }

    /// The plan from one folder to the next, as `+file object`, `-object` and `!problem`.
    fn check(before: &str, after: &str) -> Vec<String> {
        let plan = plan(&folder(after), &applied(before));
        let apply = plan
            .apply
            .iter()
            .map(|(file, one)| format!("+{file} {}", one.key));
        let delete = plan.delete.iter().map(|(key, _)| format!("-{key}"));
        let problems = plan.problems.iter().map(|problem| format!("!{problem}"));
        apply.chain(delete).chain(problems).collect()
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
    fn a_document_or_file_that_is_gone_deletes_its_objects() {
        assert_eq!(check("a: A/x A/y", "a: A/x"), ["-A default/y"]);
        assert_eq!(check("a: A/x\nb: A/y", "a: A/x"), ["-A default/y"]);
    }

    #[test]
    fn an_emptied_folder_deletes_nothing() {
        let kept = ["!the folder declares nothing; its 2 objects are kept as they are"];
        assert_eq!(check("a: A/x\nb: A/y", ""), kept);
        assert_eq!(check("a: A/x\nb: A/y", "a:"), kept);
    }

    #[test]
    fn a_broken_file_keeps_its_objects_and_the_others_work() {
        assert_eq!(
            check("a: A/x\nb: A/y\nc: A/z", "a: !\nb: A/y=2"),
            ["+b A default/y", "-A default/z", "!a:3: broken"]
        );
    }

    #[test]
    fn an_unreadable_folder_keeps_its_objects() {
        assert_eq!(
            check("sub/a: A/x\nsubs/a: A/y\nb: A/z", "sub/: !\nb: A/z"),
            ["-A default/y", "!sub/:3: broken"]
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
