//! Do the readers count real traces as others have counted them?
//!
//! The folder with the traces is named by `TANDEM_TRACES`; the traces themselves are not part of the
//! project. The expected numbers were counted by other programs.

use std::path::PathBuf;
use tandem_block::Op;
use tandem_traces::{OpenOptions, Summary, open};

/// One trace and what is in it. Megabytes are 10^6 bytes, times 100 ms, both rounded to nearest in
/// their last place.
struct Expected {
    file: &'static str,
    format: &'static str,
    requests: u64,
    reads: u64,
    writes: u64,
    read_tenth_mb: u64,
    write_tenth_mb: u64,
    duration_tenth_s: u64,
    flushes: u64,
    devices: usize,
    bad_lines: u64,
}

const fn row(
    file: &'static str,
    format: &'static str,
    counts: [u64; 3],
    tenth_mb: [u64; 2],
    duration_tenth_s: u64,
) -> Expected {
    Expected {
        file,
        format,
        requests: counts[0],
        reads: counts[1],
        writes: counts[2],
        read_tenth_mb: tenth_mb[0],
        write_tenth_mb: tenth_mb[1],
        duration_tenth_s,
        flushes: 0,
        devices: 1,
        bad_lines: 0,
    }
}

fn expected() -> [Expected; 11] {
    [
        row("cloudphysics.vscsi.zst", "vscsi", [113_872, 46_974, 66_898], [17_974, 24_086], 72_001),
        row("msr-web0.csv.gz", "msr", [100_000, 61_553, 38_447], [21_314, 3_681], 138_182),
        Expected {
            flushes: 46,
            ..row(
                "hadoop.blkparse.zst",
                "blkparse",
                [137_309, 135_402, 1_907],
                [406_799, 281],
                1_693,
            )
        },
        Expected {
            flushes: 2,
            ..row("hdd-sequential.blkparse.gz", "blkparse", [15_524, 80, 15_444], [100, 633], 94)
        },
        row("pcmark.disksim.gz", "disksim", [56_088, 41_848, 14_240], [32_973, 30_918], 14_663),
        row("ms-dtrs.ssdsim.zst", "mqsim", [127_043, 113_123, 13_920], [64_370, 7_608], 300_000),
        row("msr-20-80.linnos", "linnos", [10_000, 2_020, 7_980], [38, 510], 2_429),
        row("msr-storm.linnos", "linnos", [10_000, 8_316, 1_684], [356, 946], 10),
        Expected {
            devices: 6,
            ..row("websearch.mqsim.gz", "mqsim", [24_783, 24_779, 4], [3_821, 0], 601)
        },
        Expected {
            devices: 16,
            ..row("tpcc.mqsim", "mqsim", [6_999, 4_381, 2_618], [363, 234], 1)
        },
        Expected {
            bad_lines: 4,
            ..row("cheetah.fiu.gz", "fiu", [9_997, 8_896, 1_101], [364, 45], 236)
        },
    ]
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TANDEM_TRACES").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: TANDEM_TRACES does not name the folder of real traces");
    }
    folder
}

fn tenths(value: u64, unit: u64) -> u64 {
    (value * 10 + unit / 2) / unit
}

fn check(want: &Expected, got: &Summary) {
    let file = want.file;
    assert_eq!(
        (got.requests, got.reads, got.writes, got.bad_lines),
        (want.requests, want.reads, want.writes, want.bad_lines),
        "{file}"
    );
    assert_eq!((got.flushes, got.devices.len()), (want.flushes, want.devices), "{file}");
    assert_eq!(tenths(got.read_bytes, 1_000_000), want.read_tenth_mb, "{file}");
    assert_eq!(tenths(got.write_bytes, 1_000_000), want.write_tenth_mb, "{file}");
    assert_eq!(tenths(got.duration.ns, 1_000_000_000), want.duration_tenth_s, "{file}");
    assert_eq!((got.rounded, got.discards), (0, 0), "{file}");
}

#[test]
fn real_traces_are_detected_and_counted() {
    let Some(folder) = folder() else { return };
    for want in expected() {
        let options = OpenOptions { skip_bad: true, ..OpenOptions::default() };
        let mut reader = open(&folder.join(want.file), &options).expect("the trace is there");
        assert_eq!(reader.format().name, want.format, "{}", want.file);
        let mut last = 0;
        for arrival in reader.by_ref() {
            let arrival = arrival.expect("bad lines are skipped");
            assert!(arrival.at.ns >= last, "{}", want.file);
            last = arrival.at.ns;
        }
        check(&want, reader.summary());
    }
}

#[test]
fn bad_lines_are_errors_unless_skipped() {
    let Some(folder) = folder() else { return };
    for want in expected() {
        let reader = open(&folder.join(want.file), &OpenOptions::default()).expect("recognised");
        let error = reader.filter_map(Result::err).next().map(|error| error.to_string());
        match want.bad_lines {
            0 => assert_eq!(error, None, "{}", want.file),
            _ => assert!(error.expect("line 1 is bad").contains("cheetah.fiu.gz, line 1: ")),
        }
    }
}

#[test]
fn the_blkparse_action_can_be_chosen() {
    let Some(folder) = folder() else { return };
    for (file, requests) in [("hadoop.blkparse.zst", 137_358), ("hdd-sequential.blkparse.gz", 170)]
    {
        let options = OpenOptions { blkparse_action: b'D', ..OpenOptions::default() };
        let reader = open(&folder.join(file), &options).expect("recognised");
        let arrivals = reader.map(|arrival| arrival.expect("no bad line"));
        assert_eq!(arrivals.filter(|arrival| arrival.op != Op::Flush).count(), requests, "{file}");
    }
}
