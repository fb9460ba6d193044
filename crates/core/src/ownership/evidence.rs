//! What tells which lines an object owns: our memory, its annotation and its status.

/// How far what an object's annotation says is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Not at all: there is none, or its seal is broken.
    Nothing,
    /// It is sealed for this object.
    Own,
    /// It is sealed for an earlier object of the same name, such as one that a backup has.
    Former,
    /// It is of a version of Bindery that did not seal.
    Unsealed,
}

/// What the three of them say of one object, in whatever form lines are kept.
///
/// Why three: an editor that replaces an address everywhere, an older export put back or a tool that prunes
/// annotations changes one of them and must not make a stranger's of our record.
#[derive(Debug)]
pub struct Evidence<'a, T: ?Sized> {
    /// What we remember, unless we have just started.
    pub memory: Option<&'a T>,
    /// What the annotation says.
    pub annotation: &'a T,
    /// How far that is trusted.
    pub trust: Trust,
    /// What the status says was seen in DNS, where it says something.
    pub status: Option<&'a T>,
}

impl<'a, T: ?Sized> Evidence<'a, T> {
    /// What the object owns: all that the first says, and all that the second says beside it.
    ///
    /// Memory goes before the status, because it knows what was let go since. An annotation that is sealed for
    /// the object always adds to them: we write it before anything else knows of a line. One that may be
    /// somebody else's work counts only at a start, when nothing better is known.
    #[must_use]
    pub fn owned(&self) -> (Option<&'a T>, Option<&'a T>) {
        let adds = match (self.trust, self.memory) {
            (Trust::Own, _) | (Trust::Former, None) => true,
            (Trust::Unsealed, None) => self.status.is_none(),
            (Trust::Nothing | Trust::Former | Trust::Unsealed, _) => false,
        };
        let before = self.memory.or(self.status);
        (before, adds.then_some(self.annotation))
    }
}
