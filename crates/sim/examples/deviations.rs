//! How far is the measured profile of each modelled drive from its spec?
//!
//! `cargo run --release -p tandem-sim --example deviations [NAME…]` prints a table for all drives,
//! or for the named ones.

use tandem_drives::spec::{DriveKind, SPECS};
use tandem_sim::measure::deviations;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    println!("{:13} {:29} {:>16} {:>16} {:>7}", "drive", "figure", "spec", "measured", "off by");
    for known in SPECS.iter().filter(|known| known.kind != DriveKind::Null) {
        if !names.is_empty() && names.iter().all(|name| name != known.name) {
            continue;
        }
        let rows = deviations(&known.spec()).expect("a drive with properties");
        for row in rows {
            let measured = row.measured.map_or("not found".to_owned(), |value| value.to_string());
            let (spec, off) = (format!("{} {}", row.spec, row.unit), row.off_ppm());
            let off = format!("{}.{} %", off / 10_000, off / 1_000 % 10);
            println!("{:13} {:29} {spec:>16} {measured:>16} {off:>7}", known.name, row.figure);
        }
    }
}
