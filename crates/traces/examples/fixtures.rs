//! Where do the fixtures come from? This program writes them all, from one seed each.
//!
//! `cargo run -p tandem-traces --example fixtures` writes small traces in every format to
//! tests/fixtures, and beside each what a reader must make of it (`*.expected`), worked out here
//! from the same rows, not by the readers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use tandem_block::Rng;

/// What a row asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

/// One request, in nanoseconds and bytes.
#[derive(Clone, Copy)]
struct Row {
    time_ns: u64,
    device: u64,
    kind: Kind,
    offset_bytes: u64,
    length_bytes: u64,
    fua: bool,
    flush_before: bool,
}

/// How the rows of one format vary.
struct Plan {
    seed: u64,
    base_ns: u64,
    tick_ns: u64,
    unit_bytes: u64,
    devices: u64,
    kinds: &'static [Kind],
    has_flags: bool,
}

const READS_AND_WRITES: &[Kind] = &[Kind::Read, Kind::Write, Kind::Write];
const PLAIN: Plan = Plan {
    seed: 1,
    base_ns: 0,
    tick_ns: 1_000,
    unit_bytes: 512,
    devices: 3,
    kinds: READS_AND_WRITES,
    has_flags: false,
};
const ROWS: u64 = 60;

fn rows(plan: &Plan) -> Vec<Row> {
    let mut rng = Rng::new(plan.seed);
    let mut ticks = plan.base_ns / plan.tick_ns;
    let mut rows = Vec::new();
    for number in 0..ROWS {
        ticks += rng.below(40_000_000 / plan.tick_ns.min(20_000_000));
        let kind = plan.kinds[rng.below(plan.kinds.len() as u64) as usize];
        let is_flush = kind == Kind::Flush;
        let is_flagged = plan.has_flags && kind == Kind::Write;
        rows.push(Row {
            time_ns: ticks * plan.tick_ns,
            device: (number + rng.below(2)) % plan.devices,
            kind,
            offset_bytes: if is_flush { 0 } else { rng.below(1 << 22) * plan.unit_bytes },
            length_bytes: if is_flush { 0 } else { rng.between(1, 64) * plan.unit_bytes },
            fua: is_flagged && rng.chance_ppm(200_000),
            flush_before: is_flagged && rng.chance_ppm(200_000),
        });
    }
    // one step back in time, which a reader clamps
    rows[20].time_ns = rows[10].time_ns;
    rows
}

/// What a reader must make of the rows.
fn expected(rows: &[Row], bad_lines: u64) -> String {
    let mut out = String::new();
    let mut objects = BTreeMap::new();
    let base_ns = rows[0].time_ns;
    let (mut at_ns, mut clamped, mut requests, mut flushes) = (0, 0, 0, 0);
    for row in rows {
        let fresh = objects.len();
        let object = *objects.entry(row.device).or_insert(fresh);
        clamped += u64::from(row.time_ns < base_ns + at_ns);
        at_ns = at_ns.max(row.time_ns.saturating_sub(base_ns));
        let start = row.offset_bytes / 512 * 512;
        let end = (row.offset_bytes + row.length_bytes).div_ceil(512) * 512;
        let name = match row.kind {
            Kind::Read => "Read",
            Kind::Write => "Write",
            Kind::Flush => "Flush",
            Kind::Discard => "Discard",
            Kind::WriteZeroes => "WriteZeroes",
        };
        if row.flush_before {
            writeln!(out, "{at_ns} {object} Flush 0 0 false").expect("to memory");
        }
        let fua = row.fua;
        writeln!(out, "{at_ns} {object} {name} {start} {} {fua}", end - start).expect("to memory");
        let is_flush = row.kind == Kind::Flush;
        flushes += u64::from(row.flush_before) + u64::from(is_flush);
        requests += u64::from(!is_flush);
    }
    let devices = objects.len();
    writeln!(
        out,
        "requests {requests} flushes {flushes} bad {bad_lines} clamped {clamped} devices {devices}"
    )
    .expect("to memory");
    out
}

/// One line per row.
fn lines(rows: &[Row], line: impl Fn(&Row) -> String) -> Vec<u8> {
    rows.iter().map(|row| line(row) + "\n").collect::<String>().into_bytes()
}

fn letter(row: &Row) -> &'static str {
    if row.kind == Kind::Read { "R" } else { "W" }
}

fn flag(row: &Row) -> u8 {
    u8::from(row.kind == Kind::Read)
}

/// `value` with so many decimals, in units of `unit`.
fn decimals(value: u64, unit: u64, digits: usize) -> String {
    format!("{}.{:0digits$}", value / unit, value % unit * 10u64.pow(digits as u32) / unit)
}

fn csv_formats() {
    let kinds: &[Kind] =
        &[Kind::Read, Kind::Write, Kind::Write, Kind::Flush, Kind::Discard, Kind::WriteZeroes];
    let msr =
        Plan { base_ns: 12_816_637_200_306_162_900, tick_ns: 100, unit_bytes: 100, kinds, ..PLAIN };
    let rows_msr = rows(&msr);
    let text = lines(&rows_msr, |row| {
        let kind = match row.kind {
            Kind::Read => "Read",
            Kind::Write => "Write",
            Kind::Flush => "Flush",
            Kind::Discard => "Discard",
            Kind::WriteZeroes => "WriteZeroes",
        };
        let (time, disk) = (row.time_ns / 100, row.device);
        format!("{time},web,{disk},{kind},{},{},{}", row.offset_bytes, row.length_bytes, 777)
    });
    let header = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n";
    save("msr.csv", &[&header[..], &text, b"\n \n"].concat(), &expected(&rows_msr, 0));

    let rows_alibaba = rows(&Plan { seed: 2, base_ns: 1_577_808_000_000_000_000, ..PLAIN });
    let text = lines(&rows_alibaba, |row| {
        let (time, device) = (row.time_ns / 1000, row.device + 400);
        format!("{device},{},{},{},{time}", letter(row), row.offset_bytes, row.length_bytes)
    });
    save("alibaba.csv.gz", &text, &expected(&rows_alibaba, 0));

    let tencent =
        Plan { seed: 3, base_ns: 1_538_323_200_000_000_000, tick_ns: 1_000_000_000, ..PLAIN };
    let rows_tencent = rows(&tencent);
    let text = lines(&rows_tencent, |row| {
        let (address, sectors) = (row.offset_bytes / 512, row.length_bytes / 512);
        let (time, device) = (row.time_ns / 1_000_000_000, row.device + 1063);
        format!("{time},{address},{sectors},{},{device}", 1 - flag(row))
    });
    save("tencent.csv", &text, &expected(&rows_tencent, 0));

    let rows_spc = rows(&Plan { seed: 4, unit_bytes: 512, ..PLAIN });
    let text = lines(&rows_spc, |row| {
        let time = decimals(row.time_ns, 1_000_000_000, 6);
        let (address, letter) = (row.offset_bytes / 512, letter(row).to_lowercase());
        format!("{},{address},{},{letter},{time}", row.device, row.length_bytes)
    });
    save("spc.spc", &text, &expected(&rows_spc, 0));
}

fn column_formats() {
    let by_sectors = |row: &Row, time: String| {
        let (address, sectors) = (row.offset_bytes / 512, row.length_bytes / 512);
        format!("{time} {} {address} {sectors} {}", row.device, flag(row))
    };
    let rows_disksim = rows(&Plan { seed: 5, tick_ns: 10_000, ..PLAIN });
    let text = lines(&rows_disksim, |row| by_sectors(row, decimals(row.time_ns, 1_000_000, 5)));
    save("disksim.trace", &[&text[..], b"\n"].concat(), &expected(&rows_disksim, 0));

    let rows_mqsim = rows(&Plan { seed: 6, tick_ns: 1000, ..PLAIN });
    let text = lines(&rows_mqsim, |row| by_sectors(row, row.time_ns.to_string()));
    save("mqsim.trace.zst", &text, &expected(&rows_mqsim, 0));

    let rows_linnos = rows(&Plan { seed: 7, ..PLAIN });
    let text = lines(&rows_linnos, |row| {
        let time = decimals(row.time_ns, 1_000_000, 3);
        format!("{time} {} {} {} {}", row.device, row.offset_bytes, row.length_bytes, flag(row))
    });
    save("linnos.trace", &text, &expected(&rows_linnos, 0));

    let rows_fiu = rows(&Plan { seed: 8, base_ns: 89_966_527_950_000, ..PLAIN });
    let text = lines(&rows_fiu, |row| {
        let (address, sectors) = (row.offset_bytes / 512, row.length_bytes / 512);
        let (time, letter, minor) = (row.time_ns, letter(row), row.device);
        format!("{time} 4253 my nfsd {address} {sectors} {letter} 6 {minor} d6bd5b6a24cdf140")
    });
    let junk = b"./header.of.some.archive\0\0\0\0 0644\n30 atime=1410563628.27\n";
    save("fiu.trace.gz", &[&junk[..], &text].concat(), &expected(&rows_fiu, 2));
}

fn kernel_formats() {
    let kinds: &[Kind] = &[Kind::Read, Kind::Write, Kind::Write, Kind::Flush, Kind::Discard];
    let rows_blk = rows(&Plan { seed: 9, kinds, has_flags: true, ..PLAIN });
    let mut text = lines(&rows_blk, |row| {
        let flags = format!("{}{}", if row.fua { "F" } else { "" }, "SM");
        let letters = match row.kind {
            Kind::Read => "RA".to_owned(),
            Kind::Write => format!("{}W{flags}", if row.flush_before { "F" } else { "" }),
            Kind::Discard => "DS".to_owned(),
            Kind::Flush | Kind::WriteZeroes => "FWS".to_owned(),
        };
        let range = match row.kind {
            Kind::Flush => String::new(),
            _ => format!("{} + {} ", row.offset_bytes / 512, row.length_bytes / 512),
        };
        let time = decimals(row.time_ns, 1_000_000_000, 9);
        let line = |action| {
            format!("  8,{}   1       7 {time}  13 {action:>2} {letters} {range}[a]", row.device)
        };
        format!("{}\n{}\n{}", line("Q"), line("D"), line("C"))
    });
    text.extend_from_slice(b"CPU0 (8,0):\n Reads Queued:  12,  48KiB\nTotal (8,0):\nThroughput\n");
    save("blkparse.txt", &text, &expected(&rows_blk, 0));

    let word = |row: &Row| match row.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Flush => "sync",
        Kind::Discard | Kind::WriteZeroes => "trim",
    };
    let rows_three = rows(&Plan { seed: 10, kinds, ..PLAIN });
    let text = lines(&rows_three, |row| {
        let (time, file) = (row.time_ns / 1000, row.device);
        format!("{time} /data/{file} {} {} {}", word(row), row.offset_bytes, row.length_bytes)
    });
    let header = b"fio version 3 iolog\n0 /data/0 add\n0 /data/0 open\n";
    save("fio-3.iolog", &[&header[..], &text].concat(), &expected(&rows_three, 0));

    // version 2 cannot go back in time: its waits are never negative
    let mut rows_two = rows(&Plan { seed: 11, kinds, ..PLAIN });
    rows_two.sort_by_key(|row| row.time_ns);
    let mut text = String::from("fio version 2 iolog\n/data/0 add\n/data/0 open\n");
    let mut last_ns = 0;
    for row in &rows_two {
        let (wait_us, file) = ((row.time_ns - last_ns) / 1000, row.device);
        last_ns = row.time_ns;
        let (word, offset, length) = (word(row), row.offset_bytes, row.length_bytes);
        writeln!(text, "/data/{file} wait {wait_us} 0\n/data/{file} {word} {offset} {length}")
            .expect("to memory");
    }
    save("fio-2.iolog", text.as_bytes(), &expected(&rows_two, 0));
}

fn binary_formats() {
    let kinds: &[Kind] = &[Kind::Read, Kind::Write, Kind::Write, Kind::Flush];
    let one_device = Plan { devices: 1, kinds, ..PLAIN };
    let command = |row: &Row, number: usize| -> u16 {
        let choice = number % 4;
        match row.kind {
            Kind::Read => [0x08, 0x28, 0xa8, 0x88][choice],
            Kind::Write => [0x0a, 0x2a, 0xaa, 0x8a][choice],
            _ => [0x35, 0x91, 0x35, 0x91][choice],
        }
    };
    let rows_one = rows(&Plan { seed: 12, ..one_device });
    let mut one = Vec::new();
    let mut two = Vec::new();
    for (number, row) in rows_one.iter().enumerate() {
        // every tenth command moves no data: INQUIRY
        let inquiry = (number % 10 == 9).then_some(0x12);
        for command in inquiry.into_iter().chain([command(row, number)]) {
            let (serial, length, segments) = (number as u32, row.length_bytes as u32, 1u32);
            let (address, time_us) = (row.offset_bytes / 512, row.time_ns / 1000);
            let words = [serial, length, segments].map(u32::to_le_bytes).concat();
            let places = [address, time_us].map(u64::to_le_bytes).concat();
            one.extend([&words[..], &command.to_le_bytes(), &[0, 1], &places].concat());
            let response = 77u64.to_le_bytes();
            two.extend([&command.to_le_bytes()[..], &[0, 2], &words, &places, &response].concat());
        }
    }
    save("vscsi-1.vscsi.zst", &one, &expected(&rows_one, 0));
    save("vscsi-2.vscsi", &two, &expected(&rows_one, 0));

    let reads: &[Kind] = &[Kind::Read];
    let plan = Plan { seed: 13, tick_ns: 1_000_000_000, kinds: reads, ..one_device };
    let mut rows_oracle = rows(&plan);
    rows_oracle.sort_by_key(|row| row.time_ns);
    let mut bytes = Vec::new();
    for (number, row) in rows_oracle.iter_mut().enumerate() {
        row.offset_bytes = row.offset_bytes / 512 * 4096;
        row.length_bytes -= number as u64 % 5;
        let next = if number % 3 == 0 { -1i64 } else { number as i64 + 5 };
        bytes.extend(((row.time_ns / 1_000_000_000) as u32).to_le_bytes());
        bytes.extend((row.offset_bytes / 4096).to_le_bytes());
        bytes.extend((row.length_bytes as u32).to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    save("oraclegeneral.bin", &bytes, &expected(&rows_oracle, 0));
}

/// Writes a trace, packed as its name says, and what is expected of it.
fn save(name: &str, bytes: &[u8], expected: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let packed = if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    } else if name.ends_with(".zst") {
        zstd::encode_all(bytes, 19).expect("to memory")
    } else {
        bytes.to_vec()
    };
    let stem = name.split('.').next().expect("a name has a first part");
    std::fs::write(folder.join(name), packed).expect("the folder of fixtures is there");
    std::fs::write(folder.join(format!("{stem}.expected")), expected).expect("as above");
}

fn main() {
    csv_formats();
    column_formats();
    kernel_formats();
    binary_formats();
}
