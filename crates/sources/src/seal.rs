//! The seal on the lines that an object is said to have in DNS: for which object Bindery wrote them.
//!
//! It is a check value and no secret: it shows what was edited or copied by mistake. Who means to take over
//! a record of somebody else has an annotation for that.

use bindery_core::ObjectRef;

/// What begins the last line; a comment in a zone file, and too short for a record.
const SEAL: &str = "; of ";

/// What a text is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened<'a> {
    /// Written for this object.
    Own(&'a str),
    /// Written for an earlier object of the same kind, namespace and name, as in a restored backup.
    Former(&'a str),
    /// Written by a version that did not seal, or by somebody else.
    Unsealed(&'a str),
    /// Edited, or written for another object.
    Broken,
}

/// These lines with a seal.
pub(crate) fn seal(object: &ObjectRef, lines: &str) -> String {
    let uid = object.uid.to_string();
    let check = check(object, &uid, lines);
    format!("{lines}\n{SEAL}{uid} {check:016x}")
}

/// What stands for these lines of this object.
pub(crate) fn check_text(object: &ObjectRef, lines: &str) -> String {
    let uid = object.uid.to_string();
    format!("{:016x}", check(object, &uid, lines))
}

/// The lines of a text, and what they are worth.
pub(crate) fn open<'a>(object: &ObjectRef, text: &'a str) -> Opened<'a> {
    let text = text.trim_end();
    let (lines, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let Some(sealed) = last.strip_prefix(SEAL) else {
        return Opened::Unsealed(text);
    };
    let parts = sealed.split_once(' ');
    let parts = parts.and_then(|(uid, check)| Some((uid, u64::from_str_radix(check, 16).ok()?)));
    match parts {
        Some((uid, sum)) if sum == check(object, uid, lines) => {
            if uid == object.uid.to_string() {
                Opened::Own(lines)
            } else {
                Opened::Former(lines)
            }
        }
        Some(_) | None => Opened::Broken,
    }
}

/// FNV-1a, which is the same in every version.
fn check(object: &ObjectRef, uid: &str, lines: &str) -> u64 {
    let parts = [
        object.kind.as_str(),
        &object.namespace,
        &object.name,
        uid,
        lines,
    ];
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use bindery_core::Kind;

    use super::*;

    fn object(name: &str, uid: &str) -> ObjectRef {
        ObjectRef {
            kind: Kind::ARecord,
            namespace: "default".into(),
            name: name.into(),
            uid: uid.into(),
        }
    }

    #[test]
    fn a_text_is_worth_something_to_the_object_that_it_was_written_for() {
        let lines = "a.example.com. 60 IN A 192.0.2.1\nb.example.com. 60 IN A 192.0.2.1";
        let sealed = seal(&object("a", "1"), lines);
        assert_eq!(open(&object("a", "1"), &sealed), Opened::Own(lines));
        assert_eq!(
            open(&object("a", "1"), &format!("{sealed}\n")),
            Opened::Own(lines)
        );
        assert_eq!(open(&object("a", "2"), &sealed), Opened::Former(lines));
        assert_eq!(open(&object("b", "1"), &sealed), Opened::Broken);
        let edited = sealed.replace("192.0.2.1", "192.0.2.2");
        assert_eq!(open(&object("a", "1"), &edited), Opened::Broken);
        assert_eq!(open(&object("a", "1"), lines), Opened::Unsealed(lines));
        let renamed = sealed.replace("; of 1 ", "; of 2 ");
        assert_eq!(open(&object("a", "2"), &renamed), Opened::Broken);
        assert_eq!(open(&object("a", "1"), "; of 1"), Opened::Broken);
        assert_eq!(open(&object("a", "1"), ""), Opened::Unsealed(""));
    }
}
