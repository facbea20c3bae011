//! How does a table look to people? Aligned, with units, no wider than it must be.

/// Which side a column leans to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under a line of headings.
#[derive(Clone, Debug)]
pub struct Table {
    sides: Vec<Side>,
    groups: Vec<(String, usize)>,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns by heading: those that begin with `<` hold words, the others numbers.
    pub fn new(headings: &[&str]) -> Table {
        let side = |heading: &&str| if heading.starts_with('<') { Side::Left } else { Side::Right };
        Table {
            sides: headings.iter().map(side).collect(),
            groups: Vec::new(),
            headings: headings.iter().map(|h| h.trim_start_matches('<').to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// A heading over each group of columns: (text, number of columns).
    pub fn groups(mut self, groups: &[(&str, usize)]) -> Table {
        self.groups = groups.iter().map(|(text, columns)| ((*text).to_owned(), *columns)).collect();
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "a cell for every column");
        self.rows.push(cells);
    }

    /// As text, each line indented by two spaces.
    pub fn render(&self) -> String {
        let mut widths: Vec<usize> = self.headings.iter().map(|text| width(text)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        let mut text = String::new();
        if !self.groups.is_empty() {
            self.render_groups(&widths, &mut text);
        }
        self.render_row(&self.headings, &widths, &mut text);
        for row in &self.rows {
            self.render_row(row, &widths, &mut text);
        }
        text
    }

    fn render_row(&self, cells: &[String], widths: &[usize], text: &mut String) {
        let start = text.len();
        for (index, cell) in cells.iter().enumerate() {
            text.push_str("  ");
            // a group begins with a wider gap
            if self.begins_group(index) {
                text.push_str("  ");
            }
            let gap = " ".repeat(widths[index] - width(cell));
            match self.sides[index] {
                Side::Left => text.extend([cell, gap.as_str()]),
                Side::Right => text.extend([gap.as_str(), cell]),
            }
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    }

    fn render_groups(&self, widths: &[usize], text: &mut String) {
        let start = text.len();
        let mut index = 0;
        for (group, columns) in &self.groups {
            text.push_str(if self.begins_group(index) { "    " } else { "  " });
            let room: usize =
                widths[index..index + columns].iter().sum::<usize>() + 2 * (columns - 1);
            let lead = if group.is_empty() { String::new() } else { format!("{group} ") };
            text.push_str(&lead);
            let fill = if group.is_empty() { " " } else { "─" };
            text.push_str(&fill.repeat(room.saturating_sub(width(&lead))));
            index += columns;
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    }

    fn begins_group(&self, column: usize) -> bool {
        let mut first = 0;
        self.groups.iter().any(|(_, columns)| {
            let begins = first == column && first > 0;
            first += columns;
            begins
        })
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Bytes for people: three digits or so, in the largest binary unit that keeps one before the point.
pub fn bytes(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes} B"),
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            if tenths >= 1000 {
                format!("{} {unit}", tenths / 10)
            } else {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            }
        }
    }
}

/// A drive's capacity as its vendor writes it, in powers of ten.
pub fn capacity(bytes: u64) -> String {
    let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((name, unit)) => {
            let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
            let part = if tenths.is_multiple_of(10) || tenths >= 1000 {
                String::new()
            } else {
                format!(".{}", tenths % 10)
            };
            format!("{}{part} {name}", tenths / 10)
        }
    }
}

/// A share in millionths as a percentage.
pub fn percent(ppm: u64) -> String {
    match ppm {
        0 => "0 %".into(),
        1..100_000 => format!("{}.{:02} %", ppm / 10_000, ppm % 10_000 / 100),
        _ => format!("{}.{} %", ppm / 10_000, ppm % 10_000 / 1_000),
    }
}

/// A count with a gap every three digits.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Wraps words at `columns` and indents every line but the first.
pub fn wrap(text: &str, columns: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut at = indent;
    for word in text.split_whitespace() {
        if at > indent && at + 1 + width(word) > columns {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            at = indent;
        } else if at > indent {
            wrapped.push(' ');
            at += 1;
        }
        wrapped.push_str(word);
        at += width(word);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (value, want) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (250_000_000_000, "232 GiB")]
        {
            assert_eq!(bytes(value), want);
        }
        for (value, want) in [
            (249_999_998_976, "250 GB"),
            (10_000_000_000_000, "10 TB"),
            (1_500_000_000_000, "1.5 TB"),
            (2 << 30, "2.1 GB"),
            (4096, "4096 B"),
        ] {
            assert_eq!(capacity(value), want);
        }
        for (ppm, want) in [
            (0, "0 %"),
            (123, "0.01 %"),
            (23_400, "2.34 %"),
            (999_000, "99.9 %"),
            (1_000_000, "100.0 %"),
        ] {
            assert_eq!(percent(ppm), want);
        }
        for (value, want) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(count(value), want);
        }
        assert_eq!(wrap("one two three four", 11, 2), "one two\n  three\n  four");
    }

    #[test]
    fn columns_are_aligned_under_their_groups() {
        let mut table = Table::new(&["<name", "mean", "max", "mean"]).groups(&[
            ("", 1),
            ("writes", 2),
            ("reads", 1),
        ]);
        table.row(vec!["a".into(), "1 us".into(), "100 us".into(), "3 ms".into()]);
        table.row(vec!["long".into(), "10 us".into(), "1 us".into(), "".into()]);
        let want = "          writes ──────    reads\n\
                    \x20 name     mean     max    mean\n\
                    \x20 a        1 us  100 us    3 ms\n\
                    \x20 long    10 us    1 us\n";
        assert_eq!(table.render().replace(' ', "."), want.replace(' ', "."));
    }
}
