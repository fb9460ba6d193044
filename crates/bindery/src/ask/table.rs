//! Cells that stand under each other.

use crate::live::{Health, Paint};

/// Some words, perhaps in the colour of an object's health.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    health: Option<Health>,
}

impl Cell {
    /// Words without a colour.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            text: clean(&text.into()),
            health: None,
        }
    }

    /// Words in the colour of an object's health.
    pub(super) fn tinted(text: impl Into<String>, health: Health) -> Self {
        Self {
            health: Some(health),
            ..Self::plain(text)
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn painted(&self, paint: Paint) -> String {
        match self.health {
            Some(health) => paint.tint(&self.text, health),
            None => self.text.clone(),
        }
    }
}

/// The rows with their cells under each other, two columns apart.
pub(super) fn aligned(rows: &[Vec<Cell>], paint: Paint) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(Cell::width).max().unwrap_or_default()
        })
        .collect();
    let line = |row: &Vec<Cell>| {
        let mut text = String::new();
        let last = row.iter().rposition(|cell| !cell.text.is_empty());
        for (at, cell) in row.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            text += &cell.painted(paint);
            if Some(at) != last {
                text += &" ".repeat(widths[at] - cell.width() + 2);
            }
        }
        text
    };
    rows.iter().map(line).collect()
}

/// Text without anything that would move the cursor.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_and_nothing_trails() {
        let rows = [
            vec![Cell::plain("a"), Cell::tinted("bad", Health::Failing)],
            vec![Cell::plain("long"), Cell::plain("x\ny"), Cell::plain("")],
        ];
        assert_eq!(aligned(&rows, Paint::Plain), ["a     bad", "long  x y"]);
        let painted = aligned(&rows, Paint::Colours);
        assert_eq!(painted[0], "a     \x1b[31mbad\x1b[0m");
    }
}
