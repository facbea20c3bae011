//! Are all items of the papers in experiments/, each with a relation?

use super::experiment::Experiment;
use std::path::{Path, PathBuf};

/// The items that experiments/ must hold, each for itself: of the papers, and of the drives outside them
/// (requirements; experiments/README.md).
const ITEMS: &[&str] = &[
    "M2.table1.a",
    "M2.table1.b",
    "M2.table1.c",
    "M2.table1.d",
    "M3.writes",
    "M3.p99",
    "M3.queue",
    "S2.read",
    "S4.a1",
    "S4.a2",
    "S4.b1",
    "S4.b2",
    "S4.quiet",
    "S7.b1",
    "S7.b2",
    "M4.4k",
    "M4.16k",
    "M4.64k",
    "M4.count",
    "M9",
    "M17",
    "M34.fig7.a",
    "M34.fig7.b",
    "M34.fig7.c",
    "M34.fig7.d",
    "M34.fig8.a",
    "M34.fig8.b",
    "M34.fig8.c",
    "M34.fig8.d",
    "M35.fig9.a",
    "M35.fig9.b",
    "M35.fig9.c",
    "M35.fig9.d",
    "M36.table3.a",
    "M36.table3.b",
    "M36.table3.c",
    "M36.table3.d",
    "M37.fig10.a",
    "M37.fig10.b",
    "M37.fig10.c",
    "M37.fig10.d",
    "M38.fig11.a",
    "M38.fig11.b",
    "M38.fig11.c",
    "M38.fig11.d",
    "M39.fig12.a",
    "M39.fig12.b",
    "M39.fig12.c",
    "M39.fig12.d",
    "M40.fig13",
    "M40.table4",
    "M41.fig14.a",
    "M41.fig14.b",
    "M41.split",
    "M42.table5.a",
    "M42.table5.b",
    "M42.table5.c",
    "M42.table5.d",
    "M43.a",
    "M43.b",
    "M43.c",
    "M43.d",
    "M44.fig15.blocked",
    "M44.fig15.between",
    "M44.fig15.stable",
    "S6.low",
    "S6.mid",
    "S6.high",
    "S6.text",
    "S13.a1",
    "S13.a2",
    "S13.b1",
    "S13.b2",
    "S13.text",
    "S14.a1",
    "S14.a2",
    "S14.b1",
    "S14.b2",
    "S15.a1",
    "S15.a2",
    "S15.b1",
    "S15.b2",
    "S16.l",
    "S16.i",
    "I2.a",
    "I3.fig1",
    "I3.fig2",
    "I3.fig3",
    "I3.fig4",
    "I3.fig5",
    "I4.fig6",
    "I4.fig7",
    "I4.fig13",
    "I5",
    "I6",
    "I7",
    "I8",
    "I9.fig8",
    "I9.fig9",
    "I9.fig10",
    "I10.fig11",
    "I10.fig12",
    "I12",
    "I11",
    "I13",
    "I14",
    "I15.throttled",
    "I15.cache",
    "I15.mean",
    "I15.enough",
    "I16.risk",
    "I16.synchronous",
    "I17",
    "I18",
    "I18.guaranteed",
    "I18.misses",
    "I19.fig15a",
    "I19.fig15b",
    "I19.fig16",
    "I19.one",
    "I20.fig17",
    "I20.fig18",
    "I20.a",
    "I20.twice",
    "I20.stable",
    "I20.isolation",
    "I20.less-often",
    "I21.fig19a",
    "I21.fig19b",
    "I21.other",
    "L24.fig2",
    "L24.fig3",
    "L24.fig4",
    "L24.fig5",
    "L28.fig2",
    "L28.fig3",
    "L28.fig4",
    "L28.fig5",
    "L25.fig6",
    "L25.fig7",
    "L25.fig8",
    "L25.fig9",
    "L25.aggressive",
    "L28.fig6",
    "L28.fig7",
    "L28.fig8",
    "L28.fig9",
    "L26.fig10",
    "L26.fig11",
    "L26.fig12",
    "L26.fig13",
    "L21.write-back",
    "L28.fig10",
    "L28.fig11",
    "L28.fig12",
    "L28.fig13",
    "L27.cold",
    "L27.caching",
    "L27.type",
    "L28.fig14",
    "B10.reads",
    "B10.writes",
    "B10.ssd",
    "B10.promises",
    "drives.960evo",
    "drives.660p",
    "drives.sm961",
    "drives.x25e",
    "drives.510",
    "drives.vertex3",
    "drives.hdd",
    "disksim.cheetah9lp",
    "disksim.barracuda",
    "disksim.c3323a",
];

/// Relations when the list was committed, before any policy was run: it never gets shorter.
const RELATIONS_LEAST: usize = 576;

pub(super) fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let entries = std::fs::read_dir(folder).expect("there is a folder of experiments");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    // a sweep has goals, and no relations
    files.retain(|path| {
        !path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("own-"))
    });
    files.sort();
    files
}

#[test]
fn every_item_has_a_relation_and_every_file_is_sound() {
    let mut items: Vec<String> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for path in files() {
        let experiment = Experiment::read(&path).unwrap_or_else(|fault| panic!("{fault}"));
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert_eq!(experiment.name, stem, "a file is called as its experiment");
        assert_eq!(experiment.missing().count(), 0, "{stem}: an item without a relation");
        items.extend(experiment.items.iter().cloned());
        ids.extend(experiment.relations.iter().map(|relation| relation.id.clone()));
    }
    for item in ITEMS {
        assert!(items.iter().any(|known| known == item), "no file declares {item}");
    }
    let count = ids.len();
    assert!(count >= RELATIONS_LEAST, "{count} relations: the list got shorter");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id names one relation");
}
