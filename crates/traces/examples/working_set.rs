//! What does a synthetic workload touch, and how fast is it made? Prints a table.
//!
//! `working_set NAME[:SETTING=VALUE,…] …`: for the phase that prepares and for the one that is measured:
//! requests, bytes, and the *working set*, distinct bytes that were read or written, in blocks of 4 KiB
//! and in whole extents of 32, 64 and 128 KiB, as a tier that moves such extents has to hold them.
//!
//! Source: [LORIS §V] limits the SSD to shares of the working set.

use std::collections::HashSet;
use tandem_block::{Arrival, MIB, Op, RequestType};
use tandem_traces::synth;

const SIZES_KIB: [u64; 4] = [4, 32, 64, 128];

fn main() {
    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  working set in MiB by extents of {:?} KiB",
        "phase", "reads", "MiB", "writes", "MiB", "discards", "metadata", "ns/req", SIZES_KIB
    );
    for spec in std::env::args().skip(1) {
        println!("{spec}");
        let mut workload = match synth::build(&spec, 1) {
            Ok(workload) => workload,
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        };
        let begun = std::time::Instant::now();
        let count = synth::build(&spec, 1).expect("it was made before").count() as u128;
        let each_ns = begun.elapsed().as_nanos() / count.max(1);
        let warm_up = usize::try_from(workload.warm_up_requests()).expect("a count");
        row("warm-up", workload.by_ref().take(warm_up), each_ns);
        row("measured", workload, each_ns);
    }
}

fn row(phase: &str, arrivals: impl Iterator<Item = Arrival>, each_ns: u128) {
    let (mut reads, mut writes, mut discards, mut metadata) = ((0, 0), (0, 0), 0u64, 0u64);
    let mut touched: [HashSet<(u64, u64)>; SIZES_KIB.len()] = Default::default();
    for arrival in arrivals {
        metadata += u64::from(arrival.data_type == RequestType::Metadata);
        match arrival.op {
            Op::Read => reads = (reads.0 + 1, reads.1 + arrival.length_bytes),
            Op::Write => writes = (writes.0 + 1, writes.1 + arrival.length_bytes),
            _ => {
                discards += 1;
                continue;
            }
        }
        let last = arrival.offset_bytes + arrival.length_bytes - 1;
        for (set, size_kib) in touched.iter_mut().zip(SIZES_KIB) {
            let extents = arrival.offset_bytes / (size_kib << 10)..=last / (size_kib << 10);
            set.extend(extents.map(|extent| (arrival.object.0, extent)));
        }
    }
    let sizes = touched.iter().zip(SIZES_KIB).map(|(set, kib)| (set.len() as u64 * kib) >> 10);
    println!(
        "{phase:<10} {:>9} {:>9} {:>9} {:>9} {discards:>9} {metadata:>9} {each_ns:>8}  {:?}",
        reads.0,
        reads.1 / MIB,
        writes.0,
        writes.1 / MIB,
        sizes.collect::<Vec<_>>()
    );
}
