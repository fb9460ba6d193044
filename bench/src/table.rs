//! The table that the benchmark prints.

/// Begins a peer's figure that was taken elsewhere, at another time.
pub(crate) const RECORDED: &str = "recorded, not run here:";

/// One line: what was measured, beside its peer and its budget.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    measured: String,
    peer: String,
    ratio: String,
    budget: String,
    holds: Option<bool>,
}

impl Row {
    /// A line without peer and budget.
    pub(crate) fn new(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            measured: measured.into(),
            peer: String::new(),
            ratio: String::new(),
            budget: String::new(),
            holds: None,
        }
    }

    /// Beside a peer.
    pub(crate) fn beside(self, peer: impl Into<String>, ratio: impl Into<String>) -> Self {
        Self {
            peer: peer.into(),
            ratio: ratio.into(),
            ..self
        }
    }

    /// Beside a budget that holds.
    pub(crate) fn within(self, budget: impl Into<String>) -> Self {
        Self {
            budget: budget.into(),
            holds: Some(true),
            ..self
        }
    }

    /// Beside a budget that does not hold.
    pub(crate) fn beyond(self, budget: impl Into<String>) -> Self {
        Self {
            holds: Some(false),
            ..self.within(budget)
        }
    }

    /// Beside a budget: `spent` is how much of it was used, 1 being all.
    pub(crate) fn budget(self, budget: impl Into<String>, spent: f64) -> Self {
        if spent <= 1.0 {
            self.within(budget)
        } else {
            self.beyond(budget)
        }
    }

    fn cells(&self) -> [String; 6] {
        let holds = match self.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        [
            self.what.clone(),
            self.measured.clone(),
            self.peer.clone(),
            self.ratio.clone(),
            self.budget.clone(),
            holds.to_owned(),
        ]
    }
}

/// The lines as a Markdown table whose columns line up.
pub(crate) fn render(title: &str, rows: &[Row]) -> String {
    let head = [
        title,
        "measured",
        if rows.iter().any(|row| row.peer.starts_with(RECORDED)) {
            "peer, same run unless recorded"
        } else {
            "peer, same run"
        },
        "ratio",
        "budget",
        "holds",
    ];
    let head = head.map(str::to_owned);
    let lines: Vec<[String; 6]> = std::iter::once(head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths);
        text.extend(cells.map(|(cell, width)| format!("| {cell:width$} ")));
        text.push_str("|\n");
        if number == 0 {
            text.extend(widths.map(|width| format!("|{}", "-".repeat(width + 2))));
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_figure_is_told_apart() {
        let recorded = [Row::new("one", "1 ms").beside(format!("{RECORDED} 2 ms"), "0.50")];
        assert!(render("what", &recorded).contains("peer, same run unless recorded |"));
        let measured = [Row::new("one", "1 ms").beside("2 ms", "0.50")];
        assert!(render("what", &measured).contains("peer, same run |"));
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            Row::new("short", "1 ms").budget("2 ms", 0.5),
            Row::new("a longer one", "3 ms").beside("nsupdate 6 ms", "0.50"),
        ];
        let text = render("what", &rows);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 4);
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }
}
