//! How many nanoseconds does one modelled command cost? Prints a table; run it in release.
//!
//! Source: models §1 (anchors: 163 to 200 ns per 4 KiB random write under garbage collection).

use std::time::Instant as Clock;
use tandem_block::{Drive, DriveOp, DriveOpKind, Instant, KIB, Rng};
use tandem_drives::spec::{DriveSpec, ModelSpec, load};
use tandem_drives::{HddModel, SsdModel, SsdState};

fn main() {
    for (name, bytes) in [("960evo", 32_000_000_000), ("960evo", 250_000_000_000)] {
        let spec = load(name).expect("known").with_capacity_bytes(bytes).expect("possible");
        ssd(&spec, bytes);
    }
    hdd();
}

fn ssd(spec: &DriveSpec, bytes: u64) {
    let ModelSpec::Ssd(ssd) = &spec.model else { return };
    let start = Clock::now();
    let mut drive = SsdModel::new(ssd, SsdState::Steady, 1, false);
    let name = &spec.name;
    println!("{name} {} GB: built steady in {:?}", bytes / 1_000_000_000, start.elapsed());
    let blocks = drive.capacity_bytes() / 4096;
    let mut rng = Rng::new(5);
    let mut now = Instant::ZERO;
    for (what, write_percent) in [("writes", 100), ("70/30", 70), ("reads", 0)] {
        let count = 5_000_000u64;
        let before = drive.flash_pages();
        let start = Clock::now();
        for _ in 0..count {
            let offset_bytes = rng.below(blocks) * 4096;
            let write = rng.below(100) < write_percent;
            let kind = if write { DriveOpKind::Write { fua: false } } else { DriveOpKind::Read };
            let op = DriveOp { kind, offset_bytes, length_bytes: 4096 };
            let ack = drive.submit(now, op).ack_at;
            now = if write { ack } else { Instant::from_ns(ack.ns.min(now.ns + 20_000)) };
        }
        let each = start.elapsed().as_nanos() / u128::from(count);
        let after = drive.flash_pages();
        let amplification = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
        println!("  4 KiB random {what}: {each} ns each, write amplification {amplification:.2}");
    }
}

fn hdd() {
    let spec = load("wd100efax").expect("known");
    let ModelSpec::Hdd(hdd) = &spec.model else { return };
    let mut drive = HddModel::new(hdd, 1, false);
    let mut now = Instant::ZERO;
    let count = 10_000_000u64;
    for (what, kind) in [
        ("sequential writes", DriveOpKind::Write { fua: false }),
        ("random reads", DriveOpKind::Read),
    ] {
        let mut rng = Rng::new(9);
        let start = Clock::now();
        for index in 0..count {
            let block = if kind == DriveOpKind::Read { rng.below(2_400_000_000) } else { index };
            let op = DriveOp { kind, offset_bytes: block * 4 * KIB, length_bytes: 4 * KIB };
            now = drive.submit(now, op).ack_at;
        }
        let each = start.elapsed().as_nanos() / u128::from(count);
        println!("{} 4 KiB {what}: {each} ns each", spec.name);
    }
}
