//! The view as lines that fit a terminal.

use std::collections::BTreeMap;

use bindery_api::Role;

use super::row::{Health, ObjectRow, RowKey};
use crate::folder::FolderReport;
use crate::surroundings;

/// Columns below which lines are not wrapped.
const INDENT_MAX: usize = 8;

/// How large the terminal is, and whether it shows colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) paint: Paint,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    /// Colours, unless `NO_COLOR` is set.
    pub(crate) fn of_terminal() -> Self {
        match surroundings::variable("NO_COLOR") {
            Some(_) => Self::Plain,
            None => Self::Colours,
        }
    }

    /// The text in the colour of an object's health.
    pub(crate) fn tint(self, text: &str, health: Health) -> String {
        let colour = match (self, health) {
            (Self::Plain, _) => return text.to_owned(),
            (Self::Colours, Health::Ready) => 32,
            (Self::Colours, Health::Pending) => 33,
            (Self::Colours, Health::Failing) => 31,
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }
}

/// The lines of the view: a summary, objects, and problems of the folder.
pub(crate) fn frame(
    rows: &BTreeMap<RowKey, ObjectRow>,
    news: &FolderReport,
    canvas: Canvas,
) -> Vec<String> {
    // One line stays free for the cursor.
    let height = canvas.height.saturating_sub(1);
    let mut lines = vec![String::new(), cut(&summary(rows, news), canvas.width)];
    // What has to be read in full may take two thirds of the screen.
    let notices = notices(rows, news, (height * 2 / 3).max(1), canvas);
    let room = height.saturating_sub(lines.len() + notices.len());
    lines.extend(objects(rows, room, canvas));
    lines.extend(notices);
    lines.truncate(height);
    lines
}

fn summary(rows: &BTreeMap<RowKey, ObjectRow>, news: &FolderReport) -> String {
    let count = |role: Role| rows.keys().filter(|key| key.role == role).count();
    let bad = rows
        .values()
        .filter(|row| row.health != Health::Ready)
        .count();
    let state = match bad {
        0 => "all ready".to_owned(),
        bad => format!("{bad} not ready"),
    };
    let parts = [
        plural(count(Role::Zone), "zone"),
        plural(count(Role::Record), "record"),
        plural(count(Role::Endpoints), "endpoint"),
        format!("from {}", plural(news.files, "file")),
    ];
    if rows.is_empty() {
        return format!("nothing is declared yet ({})", plural(news.files, "file"));
    }
    format!("{}: {state}", parts.join(", "))
}

fn objects(rows: &BTreeMap<RowKey, ObjectRow>, room: usize, canvas: Canvas) -> Vec<String> {
    let mut shown: Vec<(&RowKey, &ObjectRow)> = rows.iter().collect();
    let all = shown.len();
    let fits = if all <= room {
        all
    } else {
        room.saturating_sub(1)
    };
    if fits < all {
        // What is not well must be seen.
        shown.sort_by_key(|(_, row)| row.health);
        shown.truncate(fits);
        shown.sort_by_key(|(key, _)| *key);
    }
    let width = |of: fn(&RowKey, &ObjectRow) -> usize| {
        shown
            .iter()
            .map(|(key, row)| of(key, row))
            .max()
            .unwrap_or_default()
    };
    let words = width(|_, row| row.word.chars().count());
    let names = width(|key, _| key.text().chars().count());
    let mut lines: Vec<String> = shown
        .iter()
        .map(|(key, row)| {
            let text = format!(
                "  {:words$}  {:names$}  {}",
                row.word,
                key.text(),
                row.detail
            );
            painted(&cut(text.trim_end(), canvas.width), row, canvas.paint)
        })
        .collect();
    if fits < all && room > 0 {
        lines.push(cut(&format!("  … and {} more", all - fits), canvas.width));
    }
    lines
}

/// What is held and what is wrong in the folder, in full.
fn notices(
    rows: &BTreeMap<RowKey, ObjectRow>,
    news: &FolderReport,
    room: usize,
    canvas: Canvas,
) -> Vec<String> {
    let held = rows.iter().filter(|(_, row)| row.held);
    let held = held.map(|(key, row)| (format!("{}: {}", key.text(), row.detail), Health::Pending));
    let problems = news.problems.iter();
    let problems = problems.map(|problem| (problem.to_string(), Health::Failing));
    let texts: Vec<(String, Health)> = held.chain(problems).collect();
    let mut lines = Vec::new();
    for (at, (text, health)) in texts.iter().enumerate() {
        let more = texts.len() - at - 1;
        // A line stays free to say how many do not fit.
        let left = room.saturating_sub(lines.len() + usize::from(more > 0));
        let wrapped = wrapped(text, canvas.width);
        if at > 0 && wrapped.len() > left {
            let text = format!("  … and {} more; `bindery status` tells all", more + 1);
            lines.push(cut(&text, canvas.width));
            break;
        }
        let shown = wrapped.iter().take(left.max(1));
        lines.extend(shown.map(|line| canvas.paint.tint(line, *health)));
    }
    lines
}

/// The text in lines of `width` columns, all but the first further to the right.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut lines = Vec::new();
    let mut line = " ".to_owned();
    let mut is_begun = false;
    for word in clean.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if is_begun && line.chars().count() + 1 + word.len() > width {
            lines.push(std::mem::replace(&mut line, "   ".to_owned()));
        }
        // A word that is longer than a line is cut into pieces, so that nothing is lost.
        while line.chars().count() + 1 + word.len() > width && width > INDENT_MAX {
            let rest = word.split_off(width - line.chars().count() - 1);
            let piece: String = word.into_iter().collect();
            lines.push(format!("{line} {piece}"));
            "   ".clone_into(&mut line);
            word = rest;
        }
        line.push(' ');
        line.extend(word);
        is_begun = true;
    }
    lines.push(line);
    lines
}

/// The line with its second word in the colour of the health.
fn painted(line: &str, row: &ObjectRow, paint: Paint) -> String {
    match line.split_once(&*row.word) {
        Some((before, after)) => format!("{before}{}{after}", paint.tint(&row.word, row.health)),
        None => line.to_owned(),
    }
}

fn plural(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// The text cut to `width` columns, without anything that would move the cursor.
fn cut(text: &str, width: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().count() <= width {
        return clean.collect();
    }
    clean.take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use bindery_api::role;
    use bindery_core::Kind;

    use super::*;
    use crate::folder::FileProblem;

    fn rows(text: &str) -> BTreeMap<RowKey, ObjectRow> {
        let rows = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let (kind, name) = words[0].split_once('/').expect("an object is `kind/name`");
            let is_it = |one: &Kind| one.as_str().eq_ignore_ascii_case(kind);
            let kind = Kind::ALL.into_iter().find(is_it).expect("a kind of ours");
            let health = if words[1] == "Ready" {
                Health::Ready
            } else {
                Health::Failing
            };
            let key = RowKey {
                role: role(kind),
                kind,
                namespace: "default".into(),
                name: name.into(),
            };
            let row = ObjectRow {
                health,
                word: words[1].into(),
                detail: words[2..].join(" ").into(),
                held: words[1] == "Held",
            };
            (key, row)
        });
        rows.collect()
    }

    fn check(text: &str, problem: &str, (width, height): (usize, usize)) -> Vec<String> {
        let problems = match problem {
            "" => Vec::new(),
            text => vec![FileProblem::at("a.yaml", 3, text)],
        };
        let news = FolderReport {
            problems,
            mended: Vec::new(),
            files: 2,
            objects: 3,
            published: 3,
            settled: true,
        };
        frame(
            &rows(text),
            &news,
            Canvas {
                width,
                height,
                paint: Paint::Plain,
            },
        )
    }

    const THREE: &str = "dnszone/z Ready example.com\narecord/a Ready x\narecord/b Conflict taken";

    #[test]
    fn zones_come_first_and_columns_stand_under_each_other() {
        assert_eq!(
            check(THREE, "broken", (80, 24)),
            [
                "",
                "1 zone, 2 records, 0 endpoints, from 2 files: 1 not ready",
                "  Ready     dnszone/default/z  example.com",
                "  Ready     arecord/default/a  x",
                "  Conflict  arecord/default/b  taken",
                "  a.yaml:3: broken",
            ]
        );
    }

    #[test]
    fn what_has_to_be_read_is_not_cut() {
        let held = "dnszone/z Held kubectl delete dnszone z -n default lets it go";
        let long = "no kind DNSZoen in bindy.firestoned.io/v1beta1 is known; is its CRD there?";
        assert_eq!(
            check(held, long, (40, 24)),
            [
                "",
                "1 zone, 0 records, 0 endpoints, from 2 …",
                "  Held  dnszone/default/z  kubectl dele…",
                "  dnszone/default/z: kubectl delete",
                "    dnszone z -n default lets it go",
                "  a.yaml:3: no kind DNSZoen in",
                "    bindy.firestoned.io/v1beta1 is",
                "    known; is its CRD there?",
            ]
        );
        let word = "x".repeat(50);
        assert_eq!(
            check("", &word, (40, 24))[2..],
            [
                "  a.yaml:3:".to_owned(),
                format!("    {}", "x".repeat(36)),
                format!("    {}", "x".repeat(14))
            ]
        );
        assert_eq!(
            check(held, long, (40, 8))[2..],
            [
                "  Held  dnszone/default/z  kubectl dele…",
                "  dnszone/default/z: kubectl delete",
                "    dnszone z -n default lets it go",
                "  … and 1 more; `bindery status` tells …",
            ]
        );
    }

    #[test]
    fn a_small_terminal_shows_what_is_not_well() {
        assert_eq!(
            check(THREE, "", (24, 5)),
            [
                "",
                "1 zone, 2 records, 0 en…",
                "  Conflict  arecord/def…",
                "  … and 2 more",
            ]
        );
        for height in 0..6 {
            assert!(
                check(THREE, "broken", (24, height)).len() < height.max(1),
                "{height}"
            );
        }
    }
}
