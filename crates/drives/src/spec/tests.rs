//! Are all specs complete, and are bad ones refused by name?

use super::*;

#[test]
fn every_built_in_spec_parses_and_agrees_with_its_entry() {
    for known in SPECS {
        let spec = DriveSpec::parse(known.text(), known.name);
        let spec = spec.unwrap_or_else(|why| panic!("{}: {why}", known.name));
        assert_eq!(spec.name, known.name);
        assert_eq!((spec.kind(), spec.about.as_str()), (known.kind, known.about));
        assert_eq!(load(known.name).map(|loaded| loaded == spec).ok(), Some(true));
    }
}

/// M5: the five drives of [BCW §3], with the DRAM and the part of it that writes may fill.
#[test]
fn m5_five_hard_drives_have_the_buffers_of_the_paper() {
    for (name, dram_mib, buffer_mib) in [
        ("wd100efax", 256, 16),
        ("wd8004fryz", 256, 4),
        ("wd40ezrz", 64, 2),
        ("st8000dm0004", 256, 16),
        ("st4000dm004", 256, 4), // 64 in the paper, 256 on retail pages
    ] {
        let spec = load(name).expect(name);
        let ModelSpec::Hdd(hdd) = spec.model else { panic!("{name} is a hard drive") };
        let found = (hdd.dram.get().0 >> 20, hdd.fast_stage.get().0 >> 20);
        assert_eq!(found, (dram_mib, buffer_mib), "{name}");
        assert_eq!(hdd.smr.is_some(), name == "st4000dm004", "{name}: one of them is SMR");
    }
}

#[test]
fn every_spec_file_is_registered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/specs");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("the specs are beside the source") {
        let name = entry.expect("readable").file_name().into_string().expect("UTF-8");
        let name = name.trim_end_matches(".toml").to_owned();
        assert!(SPECS.iter().any(|known| known.name == name), "{name} is not in SPECS");
        files += 1;
    }
    assert_eq!(files, SPECS.len());
}

/// What is wrong, and what the error must name.
#[test]
fn bad_specs_are_refused_by_key() {
    let good = SPECS.iter().find(|known| known.name == "wd100efax").expect("known").text();
    for (from, to, named) in [
        ("rpm ", "rmp ", "rmp"),
        ("value = 5400, source = \"memory: sold as 5400 rpm class\"", "value = 5400", "source"),
        ("\"memory: sold as 5400 rpm class\"", "\"heard somewhere\"", "rpm"),
        ("value = 5400", "value = 0", "rpm"),
        ("\"9ms\"", "\"9\"", "9"),
        ("\"210MB/s\"", "\"20MB/s\"", "rate_outer"),
        ("\"16MiB\"", "\"16KiB\"", "fast_stage"),
        ("[\"16KiB\", \"66us\"]", "[\"4KiB\", \"66us\"]", "sizes must rise"),
        ("[hdd]", "[disk]", "disk"),
        ("\"50ms\"", "\"99999999s\"", "idle"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from} is in the spec");
        let why = DriveSpec::parse(&text, "test").expect_err(from).to_string();
        assert!(why.contains(named), "{from}: {why}");
    }
}

#[test]
fn bad_ssd_specs_are_refused_by_key() {
    let good = SPECS.iter().find(|known| known.name == "960evo").expect("known").text();
    for (from, to, named) in [
        ("value = 16, source", "value = 4294967295, source", "dies"),
        ("low_lines   = { value = 3", "low_lines   = { value = 4294967295", "gc.low_lines"),
        ("\"3MiB\"", "\"16777215TiB\"", "block"),
        ("\"3MiB\"", "\"50KiB\"", "block"),
        ("\"48KiB\"", "\"0B\"", "unit"),
        ("\"8%\"", "\"-8%\"", "over_provisioning"),
        ("\"250GB\"", "\"12GB\"", "slc"),
        ("\"250GB\"", "\"9TiB\"", "capacity"),
        ("\"5ms\"", "\"5000s\"", "erase"),
        ("low_lines ", "low_line ", "low_line"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from} is in the spec");
        let why = DriveSpec::parse(&text, "test").expect_err(from).to_string();
        assert!(why.contains(named), "{from}: {why}");
    }
}

#[test]
fn an_unknown_name_tells_the_nearest() {
    for (asked, nearest) in [("960eve", "960evo"), ("WD100EFX", "wd100efax"), ("nul", "null")] {
        let why = load(asked).expect_err("unknown").to_string();
        assert!(why.contains(&format!("`{nearest}`")), "{why}");
    }
    let why = load("/does/not/exist.toml").expect_err("no such file").to_string();
    assert!(why.contains("/does/not/exist.toml"), "{why}");
}

#[test]
fn capacity_scales_lines_and_slc_but_not_thresholds() {
    let spec = load("960evo").expect("known");
    let small = spec.clone().with_capacity_bytes(25_000_000_000).expect("a tenth is possible");
    let (ModelSpec::Ssd(large), ModelSpec::Ssd(small)) = (spec.model, small.model) else {
        panic!("both are SSDs");
    };
    assert_eq!(small.slc.as_ref().map(|slc| slc.size.get().0), Some(1_300_000_000));
    assert_eq!(small.gc, large.gc);
    assert!(large.line_count().abs_diff(small.line_count() * 10) < 60);
    assert!(load("960evo").expect("known").with_capacity_bytes(1000).is_err());
}

/// Specs come from strangers: whatever passes validation can be built and used.
#[test]
fn extreme_but_valid_values_do_not_panic() {
    use crate::{BuildOptions, SsdState, build};
    use tandem_block::{DriveOp, DriveOpKind, Instant};
    let text = |name: &str| SPECS.iter().find(|known| known.name == name).expect("known").text();
    for (name, from, to) in [
        ("wd100efax", "\"18ms\"", "\"1s\""),
        ("wd100efax", "[\"64KiB\", \"180us\"]", "[\"17KiB\", \"100s\"]"),
        ("wd100efax", "\"10TB\"", "\"1MiB\""),
        ("960evo", "\"250GB\"", "\"13GB\""),
        ("960evo", "\"8%\"", "\"0%\""),
        ("x25e", "value = 20,", "value = 1,"),
    ] {
        let edited = text(name).replacen(from, to, 1);
        assert_ne!(edited, text(name), "{from} is in the spec");
        let spec = DriveSpec::parse(&edited, "test").expect(to);
        let options = BuildOptions { ssd_state: SsdState::SlcFull, ..BuildOptions::default() };
        let mut drive = build(&spec, options).expect("it was validated");
        let (mut now, length_bytes) = (Instant::ZERO, 1 << 19);
        for index in 0..2_000u64 {
            let kind = [DriveOpKind::Write { fua: false }, DriveOpKind::Read][index as usize % 2];
            let places = drive.capacity_bytes() / length_bytes;
            let offset_bytes = index / 2 % places * length_bytes;
            now = drive.submit(now, DriveOp { kind, offset_bytes, length_bytes }).ack_at;
        }
    }
}
