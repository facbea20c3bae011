//! How fast are traces decoded and workloads made?
//!
//! `cargo bench -p tandem-traces` prints the median of five runs for each; a first argument picks
//! those whose name contains it. Input lies in memory, decompression is not measured but for the
//! last rows.

use std::io::Cursor;
use std::time::Instant;
use tandem_block::{Op, Rng, Zipf};
use tandem_traces::{OpenOptions, open_reader, synth, write::write_msr};

const REQUESTS: u64 = 1_000_000;
const RUNS: usize = 5;

/// Times `work`, which returns how many items it did, and prints items per second.
fn measure(name: &str, work: impl Fn() -> u64) {
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    if wanted.is_some_and(|word| !name.contains(&word)) {
        return;
    }
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let count = work();
            count as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:<28} {:8.2} million/s", rates[RUNS / 2]);
}

fn decode(bytes: &[u8], format: &str) -> u64 {
    let options = OpenOptions { format: Some(format.to_owned()), ..OpenOptions::default() };
    let source = Cursor::new(bytes.to_vec());
    let reader = open_reader("bench", source, &options).expect("a good trace");
    let mut sum = 0u64;
    let mut count = 0;
    for arrival in reader {
        sum = sum.wrapping_add(arrival.expect("a good line").offset_bytes);
        count += 1;
    }
    std::hint::black_box(sum);
    count
}

fn text(line: impl Fn(&mut String, u64, &tandem_block::Arrival)) -> Vec<u8> {
    let mut out = String::new();
    let spec = format!("zipf:requests={REQUESTS},footprint=64GiB");
    for (number, arrival) in synth::build(&spec, 1).expect("a good spec").enumerate() {
        line(&mut out, number as u64, &arrival);
    }
    out.into_bytes()
}

fn main() {
    use std::fmt::Write as _;
    let workload = || synth::build(&format!("zipf:requests={REQUESTS}"), 1).expect("a good spec");
    let mut msr = Vec::new();
    write_msr(workload(), &mut msr).expect("to memory");
    // real times have 18 digits and real lines a response time
    let msr_real = text(|out, _, a| {
        let time = 128_166_372_003_061_629 + a.at.ns / 100;
        let kind = if a.op == Op::Read { "Read" } else { "Write" };
        writeln!(out, "{time},usr,0,{kind},{},{},41286", a.offset_bytes, a.length_bytes)
            .expect("to memory");
    });
    let columns = text(|out, _, a| {
        let flag = u8::from(a.op == Op::Read);
        writeln!(out, "{} 0 {} 8 {flag}", a.at.ns, a.offset_bytes / 512).expect("to memory");
    });
    let blkparse = text(|out, number, a| {
        let (s, ns) = (a.at.ns / 1_000_000_000, a.at.ns % 1_000_000_000);
        let address = a.offset_bytes / 512;
        writeln!(
            out,
            "  8,16   8 {number:8} {s:5}.{ns:09} 13213  Q  WS {address} + 8 [kworker/u81:0]"
        )
        .expect("to memory");
    });
    let mut vscsi = Vec::new();
    for arrival in workload() {
        vscsi.extend([0, 0, 0, 0, 0, 16, 0, 0, 1, 0, 0, 0, 0x2a, 0, 0, 1]);
        vscsi.extend((arrival.offset_bytes / 512).to_le_bytes());
        vscsi.extend((arrival.at.ns / 1000).to_le_bytes());
    }
    let packed = zstd::encode_all(&msr_real[..], 3).expect("to memory");
    let mut gzip = flate2::read::GzEncoder::new(&msr_real[..], flate2::Compression::default());
    let mut gzipped = Vec::new();
    std::io::copy(&mut gzip, &mut gzipped).expect("to memory");

    measure("decode msr, our own", || decode(&msr, "msr"));
    measure("decode msr", || decode(&msr_real, "msr"));
    measure("decode mqsim", || decode(&columns, "mqsim"));
    measure("decode blkparse", || decode(&blkparse, "blkparse"));
    measure("decode vscsi", || decode(&vscsi, "vscsi"));
    measure("decode msr, zstd", || decode(&packed, "msr"));
    measure("decode msr, gzip", || decode(&gzipped, "msr"));
    measure("make zipf", || workload().count() as u64);
    measure("make pangu-c", || synth::build("pangu-c", 1).expect("a good spec").count() as u64);
    let zipf = Zipf::new(1 << 24, 900_000);
    measure("draw zipf", || {
        let mut rng = Rng::new(1);
        std::hint::black_box((0..REQUESTS).fold(0, |sum: u64, _| sum ^ zipf.draw(&mut rng)));
        REQUESTS
    });
}
