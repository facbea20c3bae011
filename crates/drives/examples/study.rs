//! What do the models show beside the numbers of their page? Prints every row; run it in release.
//!
//! Source: models §5.3 and §6.3, whose column "model" is printed as `page`.

use tandem_drives::spec::{HddSpec, ModelSpec, Ppm, load};
use tandem_drives::{SsdState, study};

fn main() {
    hdd();
    evo();
    x25e();
    i510();
    amplification();
}

fn wd100efax() -> HddSpec {
    match load("wd100efax").expect("known").model {
        ModelSpec::Hdd(hdd) => hdd,
        _ => unreachable!("it is a hard drive"),
    }
}

fn hdd() {
    let spec = wd100efax();
    println!("WD100EFAX, models 5.3 (page: 70/109/183/207 MB/s)");
    for kib in [4, 16, 64, 128, 1024, 8192, 32768] {
        let row = study::staircase(&spec, kib << 10);
        let means = study::stage_counts(&spec, kib << 10, 50);
        println!("  {kib} KiB: {row:?}, mean counts x1000 with jitter {means:?}");
    }
    println!("Algorithm 1, shares predicted right (paper at 128 KiB: 99.5 / 98.1 / 60.3 %)");
    for kib in [16, 64, 128] {
        let confusion = study::predict(&spec, kib << 10, 100, 1);
        println!("  {kib} KiB: {:?} of {:?}", confusion.recall(), confusion.0);
    }
}

fn evo() {
    println!("960 EVO, 30 GB, SLC full, 16 GB of 32 KiB (page: stable from 100 us)");
    for us in [20, 40, 60, 70, 80, 90, 100, 160, 320] {
        let row = study::evo_intervals(us * 1_000, 16_000_000_000);
        println!("  {row:?}");
    }
}

fn x25e() {
    println!("X25-E random (page: 625 -> 300/s, 9.5 events/s, 55 ms, 52 %, WA 1.79)");
    println!("  {:?}", study::x25e_random());
    println!("X25-E 4 KiB sequential (page: 640..40000, mean 25800, worst 1088/3840/15900/18700)");
    println!("  {:?}", study::x25e_sequential());
}

fn i510() {
    println!("510 reads alone (page: 1103/s): {}", study::i510_reads_alone());
    println!(
        "510 four streams (page: 65-67 MB/s, WA 4.3-4.4, 518 reads/s sd 235 (151..801), 99 writes/s, 91 ms, 503..547)"
    );
    println!("  {:?}", study::i510_four_streams());
}

fn amplification() {
    println!("write amplification, over-provisioning 7/15/28 % (page: 6.69/3.78/2.37)");
    for percent in [7, 15, 28] {
        let share = Ppm(percent * 10_000);
        let long = study::write_amplification(share, SsdState::Fresh);
        let built = study::write_amplification(share, SsdState::Steady);
        println!("  {percent} %: after a long run {long}, as constructed {built} (thousandths)");
    }
}
