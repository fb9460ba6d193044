//! Removals of a zone as they stand in its status.

use std::sync::Arc;

use bindery_api::time_text;
use bindery_core::Moment;
use bindery_core::zones::Noted;
use bindery_sources::Id;
use serde_json::{Value, json};

use crate::state::State;
use crate::status::moment;

/// Removals that are written down, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) at: Moment,
    pub(crate) noted: Arc<Noted>,
}

impl Note {
    /// What a status says, if anything.
    pub(crate) fn read(status: &Value) -> Option<Self> {
        let removals = &status["removals"];
        let marks = |field: &str| {
            let words = removals[field].as_str().unwrap_or_default().split(' ');
            let mut marks: Vec<u64> = words
                .filter_map(|word| u64::from_str_radix(word, 16).ok())
                .collect();
            marks.sort_unstable();
            marks
        };
        let more = removals["more"].as_u64().unwrap_or_default();
        Some(Self {
            at: moment(removals["at"].as_str()?)?,
            noted: Arc::new(Noted {
                number: 0,
                marks: marks("marks"),
                more: usize::try_from(more).unwrap_or(usize::MAX),
                passed: marks("passed"),
            }),
        })
    }

    /// As it stands in a status.
    pub(super) fn status(&self) -> Value {
        let Noted {
            marks,
            more,
            passed,
            number: _,
        } = &*self.noted;
        let text = |marks: &[u64]| {
            let words: Vec<String> = marks.iter().map(|mark| format!("{mark:x}")).collect();
            (!words.is_empty()).then(|| words.join(" "))
        };
        json!({
            "at": time_text(self.at),
            "marks": text(marks),
            "more": (*more > 0).then_some(more),
            "passed": text(passed),
        })
    }

    /// What of it counts in a run that begins now.
    pub(super) fn recalled(&self, now: Moment) -> Arc<Noted> {
        let age = now.0.saturating_sub(self.at.0);
        let horizon = i64::try_from(Noted::HORIZON.as_secs()).unwrap_or(i64::MAX);
        // A clock that went back makes it younger, which is the safe side.
        if age > horizon {
            Arc::default()
        } else {
            Arc::clone(&self.noted)
        }
    }
}

/// What a zone object's status says of removals counts at the first sight of the object; later this run knows
/// better.
pub(crate) fn recall(state: &mut State, object: &Id, note: Option<Note>) {
    let progress = state.zones.entry(Id::clone(object)).or_default();
    if progress.note.is_none() {
        progress.note = note;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_counts_for_a_while() {
        let note = Note {
            at: Moment(1_800_000_000),
            noted: Arc::new(Noted {
                number: 0,
                marks: vec![1, 0xffff_ffff_ffff_ffff],
                more: 3,
                passed: vec![7],
            }),
        };
        let status = json!({ "removals": note.status() });
        assert_eq!(Note::read(&status), Some(note.clone()));
        assert_eq!(Note::read(&json!({})), None);
        assert_eq!(note.recalled(Moment(1_800_000_090)), note.noted);
        assert_eq!(note.recalled(Moment(1_800_000_091)), Arc::default());
        assert_eq!(note.recalled(Moment(0)), note.noted);
    }
}
