//! How are the costs of requests written down? A table `[costs]` of a profile.
//!
//! Source: [IANUS §4.2]: by kind, size, queue depth, window and confidence.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use tandem_drives::spec::{Bytes, Nanos};
use tandem_engine::qos::cost::{CostRow, CostTable, Kind, UNBOUNDED_NS};

/// Rows, windows and confidences at most.
const ROWS_MAX: usize = 1_024;
const COLUMNS_MAX: usize = 64;
/// A request of at most 32 MiB that takes longer than this is none.
const COST_MAX_NS: u64 = 3_600_000_000_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostsFile {
    /// How they were found.
    #[allow(dead_code, reason = "for the reader of the file")]
    source: String,
    range: Bytes,
    windows: Vec<Nanos>,
    /// In percent.
    confidences: Vec<f64>,
    row: Vec<RowFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    does: Does,
    size: Bytes,
    depth: u32,
    mean_ns: i64,
    /// By window, then by confidence; -1: nothing was done in that window.
    cost_ns: Vec<Vec<i64>>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Does {
    RandomRead,
    SequentialRead,
    RandomWrite,
    SequentialWrite,
}

impl Does {
    const NAMED: [(Kind, &'static str); 4] = [
        (Kind { read: true, sequential: false }, "random-read"),
        (Kind { read: true, sequential: true }, "sequential-read"),
        (Kind { read: false, sequential: false }, "random-write"),
        (Kind { read: false, sequential: true }, "sequential-write"),
    ];

    fn kind(self) -> Kind {
        Self::NAMED[self as usize].0
    }
}

fn cost(ns: i64) -> Result<u64, &'static str> {
    match u64::try_from(ns) {
        Ok(ns) if (1..=COST_MAX_NS).contains(&ns) => Ok(ns),
        _ if ns == -1 => Ok(UNBOUNDED_NS),
        _ => Err("has a cost that is not 1 ns to an hour, or -1 for none"),
    }
}

impl CostsFile {
    /// What it says, or what makes no sense.
    pub(super) fn table(&self) -> Result<CostTable, &'static str> {
        let windows_ns: Vec<u64> = self.windows.iter().map(|window| window.0).collect();
        let ppm = |percent: &f64| (percent * 10_000.0).round() as u32;
        let confidences_ppm: Vec<u32> = self.confidences.iter().map(ppm).collect();
        let (windows, confidences) = (windows_ns.len(), confidences_ppm.len());
        if !(1..=COLUMNS_MAX).contains(&windows) || !(1..=COLUMNS_MAX).contains(&confidences) {
            return Err("needs 1 to 64 windows and confidences");
        }
        if windows_ns[0] == 0 || !windows_ns.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err("needs windows that rise");
        }
        let rise = confidences_ppm.windows(2).all(|pair| pair[0] < pair[1]);
        if !rise || confidences_ppm[0] == 0 || confidences_ppm[confidences - 1] > 1_000_000 {
            return Err("needs confidences that rise, above 0 and up to 100");
        }
        if !(1..=ROWS_MAX).contains(&self.row.len()) {
            return Err("needs 1 to 1024 rows");
        }
        let mut rows = Vec::new();
        for row in &self.row {
            let sized = row.cost_ns.len() == windows
                && row.cost_ns.iter().all(|costs| costs.len() == confidences);
            if !sized {
                return Err("has a row without a cost for each window and confidence");
            }
            if !(512..=32 << 20).contains(&row.size.0) || !(1..=1 << 16).contains(&row.depth) {
                return Err("has a row whose size is not 512B to 32MiB, or depth not 1 to 65536");
            }
            let costs: Result<Vec<u64>, _> =
                row.cost_ns.iter().flatten().map(|ns| cost(*ns)).collect();
            rows.push(CostRow {
                kind: row.does.kind(),
                size_bytes: row.size.0,
                depth: row.depth,
                mean_ns: cost(row.mean_ns)?,
                cost_ns: costs?,
            });
        }
        let key = |row: &CostRow| (row.depth, row.kind, row.size_bytes);
        let mut keys: Vec<_> = rows.iter().map(key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("has two rows of one kind, size and depth");
        }
        Ok(CostTable { windows_ns, confidences_ppm, range_bytes: self.range.0, rows })
    }
}

/// The table as a part of a profile.
pub fn text(table: &CostTable) -> String {
    let mut text = String::from("\n[costs]\n");
    let _ = writeln!(text, "source      = \"measured: each kind and size alone, IANUS 4.2\"");
    let _ = writeln!(text, "range       = \"{}B\"", table.range_bytes);
    let windows: Vec<String> =
        table.windows_ns.iter().map(|ns| format!("\"{}ms\"", ns / 1_000_000)).collect();
    let _ = writeln!(text, "windows     = [{}]", windows.join(", "));
    let percent = |ppm: &u32| format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    let confidences: Vec<String> = table.confidences_ppm.iter().map(percent).collect();
    let _ = writeln!(text, "confidences = [{}]", confidences.join(", "));
    let written = |ns: &u64| if *ns == UNBOUNDED_NS { "-1".to_owned() } else { ns.to_string() };
    for row in &table.rows {
        let named = Does::NAMED.iter().find(|named| named.0 == row.kind);
        let (_, name) = named.expect("every kind has a name");
        let _ = writeln!(text, "\n[[costs.row]]\ndoes    = \"{name}\"");
        let _ = writeln!(text, "size    = \"{}B\"\ndepth   = {}", row.size_bytes, row.depth);
        let _ = writeln!(text, "mean_ns = {}", written(&row.mean_ns));
        let lists = row
            .cost_ns
            .chunks(table.confidences_ppm.len())
            .map(|costs| format!("[{}]", costs.iter().map(written).collect::<Vec<_>>().join(", ")));
        let _ = writeln!(text, "cost_ns = [{}]", lists.collect::<Vec<_>>().join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CostTable {
        let row = |kind, cost: u64| CostRow {
            kind,
            size_bytes: 4096,
            depth: 31,
            mean_ns: cost,
            cost_ns: vec![cost, UNBOUNDED_NS, cost, cost + 1],
        };
        CostTable {
            windows_ns: vec![100_000_000, 10_000_000_000],
            confidences_ppm: vec![500_000, 999_900],
            range_bytes: 1 << 30,
            rows: Kind::ALL.into_iter().zip([9, 8, 7, 6]).map(|(k, c)| row(k, c)).collect(),
        }
    }

    fn read(text: &str) -> Result<CostTable, String> {
        #[derive(Deserialize)]
        struct Whole {
            costs: CostsFile,
        }
        let whole: Whole = toml::from_str(text).map_err(|why| why.to_string())?;
        whole.costs.table().map_err(str::to_owned)
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(read(&text(&table())), Ok(table()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let sound = text(&table());
        for (from, to, want) in [
            ("\"100ms\", ", "\"10000ms\", ", "windows that rise"),
            ("[50.0000, ", "[99.9900, ", "confidences that rise"),
            ("[50.0000, ", "[", "a cost for each window"),
            ("depth   = 31", "depth   = 0", "depth not 1"),
            ("\"4096B\"", "\"1B\"", "size is not"),
            ("mean_ns = 9", "mean_ns = 0", "not 1 ns"),
            ("mean_ns = 9", "mean_ns = -2", "not 1 ns"),
            ("\"sequential-read\"", "\"random-read\"", "two rows of one kind"),
            ("\"sequential-read\"", "\"sideways-read\"", "sideways"),
        ] {
            let error = read(&sound.replacen(from, to, 1)).expect_err(from);
            assert!(error.contains(want), "{from}: {error}");
        }
    }
}
