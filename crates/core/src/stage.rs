//! The stages of the one path, from an object to its status.
//!
//! This is the only list of them: the architecture page, `bindery explain`, the log and the modules use it.

use std::fmt;

/// A stage of the path that everything takes to a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// An object is seen.
    Object,
    /// What it asks of which zone is decided.
    Claim,
    /// What all objects ask for is merged, zone by zone, and waits there.
    Tracker,
    /// What has to change is found out.
    Plan,
    /// What is not to happen now is taken out of the plan.
    Guard,
    /// What is left is sent as one update.
    Commit,
    /// What was sent is read back, from every server.
    Verify,
    /// What became of each claim is told to whoever listens.
    Receipt,
    /// The object that asked says so.
    Status,
}

impl Stage {
    /// All stages, in the order of the path.
    pub const ALL: [Self; 9] = [
        Self::Object,
        Self::Claim,
        Self::Tracker,
        Self::Plan,
        Self::Guard,
        Self::Commit,
        Self::Verify,
        Self::Receipt,
        Self::Status,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Claim => "claim",
            Self::Tracker => "tracker",
            Self::Plan => "plan",
            Self::Guard => "guard",
            Self::Commit => "commit",
            Self::Verify => "verify",
            Self::Receipt => "receipt",
            Self::Status => "status",
        }
    }

    /// What is true of an object that has passed it, in one line.
    #[must_use]
    pub const fn done_when(self) -> &'static str {
        match self {
            Self::Object => "it exists and is not being deleted",
            Self::Claim => "its spec is valid, and a zone has it",
            Self::Tracker => "it owns what it asks for, nobody came first, and its zone is open",
            Self::Plan => "what has to change is known",
            Self::Guard => "no policy of the zone holds it back",
            Self::Commit => "the leader has acknowledged it",
            Self::Verify => "every server in rotation serves it",
            Self::Receipt => "what became of each claim is known",
            Self::Status => "its own status says so",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_stand_in_order_and_each_has_its_word() {
        assert!(Stage::ALL.is_sorted());
        for word in [Stage::as_str, Stage::done_when] {
            let mut words: Vec<&str> = Stage::ALL.into_iter().map(word).collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), Stage::ALL.len());
        }
        assert_eq!(Stage::Verify.to_string(), "verify");
    }
}
