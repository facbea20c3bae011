//! What was wanted, what was measured, and is that enough? One line of a table.

/// One line.
#[derive(Clone, Debug)]
pub struct Row {
    /// What must hold.
    pub wanted: String,
    /// What was measured.
    pub measured: String,
    /// Does it hold? `None`: it is printed for information and nothing is wanted.
    pub holds: Option<bool>,
}

impl Row {
    /// A row.
    pub fn new(wanted: impl Into<String>, measured: impl Into<String>, holds: bool) -> Self {
        Row { wanted: wanted.into(), measured: measured.into(), holds: Some(holds) }
    }

    /// A row that nothing is wanted of.
    pub fn info(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Row { wanted: what.into(), measured: measured.into(), holds: None }
    }

    /// What nobody has built a measurement for: it fails.
    pub fn not_built(wanted: impl Into<String>) -> Self {
        Row::new(wanted, "not built yet", false)
    }

    /// What could not be measured: it fails.
    pub fn broken(wanted: impl Into<String>, error: &anyhow::Error) -> Self {
        Row::new(wanted, format!("{error:#}"), false)
    }

    /// Shows it at once: a line that takes an hour must not lose all when it is stopped.
    pub fn shown(self) -> Self {
        eprintln!("{} {}: {}", self.verdict(), self.wanted, self.measured);
        self
    }

    fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "ok",
            Some(false) => "FAIL",
            None => "-",
        }
    }

    /// Did it fail?
    pub fn fails(&self) -> bool {
        self.holds == Some(false)
    }
}

/// Prints a table with a name before each row. False if one fails.
pub fn print_table(first: &str, rows: &[(String, Row)]) -> bool {
    println!("| {first} | wanted | measured | verdict |\n|---|---|---|---|");
    for (name, row) in rows {
        let verdict = row.verdict();
        let plain = |text: &str| text.replace('|', "/").replace('\n', " ");
        println!("| {name} | {} | {} | {verdict} |", plain(&row.wanted), plain(&row.measured));
    }
    let failed = rows.iter().filter(|(_, row)| row.fails()).count();
    println!("\n{} rows, {failed} fail", rows.len());
    failed == 0
}
