//! Do the workloads have the numbers of the papers, and do mistakes have names?

use super::*;
use tandem_block::{GIB, KIB, Op};

/// What a workload amounts to.
#[derive(Default)]
struct Totals {
    requests: u64,
    writes: u64,
    small_writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    bins: Vec<u64>,
}

fn totals(spec: &str) -> Totals {
    let mut totals = Totals::default();
    let mut last_ns = 0;
    for arrival in build(spec, 1).unwrap() {
        assert!(arrival.at.ns >= last_ns && arrival.at.ns.is_multiple_of(TICK_NS));
        assert!(totals.requests > 0 || arrival.at.ns == 0, "the first arrives at 0");
        assert!(
            arrival.offset_bytes.is_multiple_of(512) && arrival.length_bytes.is_multiple_of(512)
        );
        last_ns = arrival.at.ns;
        totals.requests += 1;
        if arrival.op == Op::Write {
            totals.writes += 1;
            totals.write_bytes += arrival.length_bytes;
            totals.small_writes += u64::from(arrival.length_bytes <= 10 * KIB);
        } else {
            totals.read_bytes += arrival.length_bytes;
        }
        let second = (last_ns / 1_000_000_000) as usize;
        totals.bins.resize(totals.bins.len().max(second + 1), 0);
        totals.bins[second] += 1;
    }
    totals
}

fn within(got: u64, want: u64, percent: u64, what: &str) {
    assert!(got.abs_diff(want) * 100 <= want * percent, "{what}: {got}, not {want}");
}

/// [BCW §2.3]: what is hot is cached by those who ask, so that what they ask a node for is not what it
/// was just told.
#[test]
fn cold_reads_never_meet_a_write() {
    let (mut written_end, mut read_begin, mut reads) = (0, u64::MAX, 0);
    for arrival in build("pangu-c:duration=20s,reads=cold", 1).unwrap() {
        let end = arrival.offset_bytes + arrival.length_bytes;
        match arrival.op {
            Op::Write => written_end = written_end.max(end),
            _ => {
                (read_begin, reads) = (read_begin.min(arrival.offset_bytes), reads + 1);
                assert!(end <= 192 * GIB, "{end}");
            }
        }
    }
    assert!(written_end <= read_begin && reads > 5_000, "{written_end} {read_begin} {reads}");
    let both = |spec: &str| build(spec, 1).unwrap().map(|a| (a.at, a.op)).collect::<Vec<_>>();
    assert_eq!(both("pangu-c:duration=5s,reads=cold"), both("pangu-c:duration=5s"));
}

/// [BCW Table 1], read as `pangu` says.
#[test]
fn pangu_nodes_have_the_bytes_and_rates_of_table_1() {
    for (name, seconds, write_mb, read_mb, mean_per_s, peak_per_s, small_percent) in [
        ("pangu-a", 2700, 18_500, 1_400, 230, 3_400, 75),
        ("pangu-b", 1800, 74_400, 2_000, 2_500, 9_300, 75),
        ("pangu-c", 1800, 10_700, 2_100, 2_700, 9_600, 97),
        ("pangu-d", 1560, 10_100, 1_700, 3_000, 11_100, 97),
    ] {
        let got = totals(name);
        assert_eq!(got.requests, seconds * mean_per_s, "{name}");
        assert_eq!(got.bins.len() as u64, seconds, "{name}");
        assert_eq!(got.bins.iter().max(), Some(&peak_per_s), "{name}");
        within(got.write_bytes, write_mb * 1_000_000, 1, name);
        within(got.read_bytes, read_mb * 1_000_000, 1, name);
        within(got.small_writes * 100, got.writes * small_percent, 1, name);
        let write_percent = got.writes * 100 / got.requests;
        assert!((77..=95).contains(&write_percent), "{name}: {write_percent} %");
    }
}

/// [BCW Table 1]: with sizes by intensity both of its means hold, the one over requests and the one over time.
#[test]
fn pangu_sizes_by_intensity_have_both_means() {
    // the mean sizes of quiet seconds and of bursts that follow for even rates, in bytes
    for (name, over_requests, over_time, quiet, burst) in [
        ("pangu-a", 32_045, 56_000, 57_700, 8_300),
        ("pangu-b", 16_978, 17_700, 18_400, 16_700),
        ("pangu-c", 2_634, 4_200, 4_800, 1_070),
        ("pangu-d", 2_521, 4_100, 4_700, 950),
    ] {
        for shape in ["", ",bursts=tailed,arrivals=groups,largest=2MiB"] {
            let spec = format!("{name}:sizes=by-intensity{shape}");
            let mut seconds = std::collections::BTreeMap::<u64, (u64, u64)>::new();
            for arrival in build(&spec, 1).unwrap() {
                let second = seconds.entry(arrival.at.ns / 1_000_000_000).or_default();
                *second = (second.0 + 1, second.1 + arrival.length_bytes);
            }
            let sum = |of: &dyn Fn(&(u64, u64)) -> u64| seconds.values().map(of).sum::<u64>();
            let requests = sum(&|second| second.0);
            within(sum(&|second| second.1) / requests, over_requests, 2, &spec);
            let mean_per_s = requests / seconds.len() as u64;
            let of_time = sum(&|second| second.1 / second.0) / seconds.len() as u64;
            within(of_time, over_time, 6, &spec);
            if shape.is_empty() {
                let mean = |bursts: bool| {
                    let of =
                        seconds.values().filter(|second| (second.0 > 2 * mean_per_s) == bursts);
                    let (count, bytes) = of.fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
                    bytes / count
                };
                within(mean(false), quiet, 4, &spec);
                within(mean(true), burst, 6, &spec);
            }
        }
    }
}

#[test]
fn a_short_run_keeps_the_rates_and_the_mean_size() {
    for (spec, mean_bytes) in [
        ("pangu-a:duration=30s", 32_045),
        ("pangu-b:duration=30s", 16_978),
        ("pangu-c:duration=60s,share=50%", 2_634),
        ("pangu-d:share=2%", 2_521),
    ] {
        let got = totals(spec);
        within((got.read_bytes + got.write_bytes) / got.requests, mean_bytes, 2, spec);
        assert!(got.bins.len() > 29 && got.bins.len() < 32, "{spec}");
    }
}

/// [SERW slide "Pangu Workload"], [SERW slide "SSD Written Data Reduction"] and
/// [SERW slide "Motivation"].
#[test]
fn serw_nodes_have_the_decks_bytes_sizes_and_chunks() {
    for (name, write_mb, reads_wanted, writes_by_size, rarely_read, rarely_written) in [
        ("serw-a1", 34_900, 2_400_000, (500_000, 93), 60..=70, (10, 80)),
        ("serw-a2", 26_600, 600_000, (500_000, 93), 60..=70, (10, 80)),
        ("serw-b1", 44_900, 1_128_000, (1_000, 5), 78..=82, (1, 80)),
        ("serw-b2", 46_900, 1_178_000, (1_000, 5), 78..=82, (1, 80)),
    ] {
        let (mut reads, mut writes, mut write_bytes, mut above) = (0u64, 0u64, 0u64, 0u64);
        let mut counts = vec![(0u64, 0u64); 3072];
        for arrival in build(name, 1).unwrap() {
            let chunk = &mut counts[(arrival.offset_bytes / serw::CHUNK_BYTES) as usize];
            if arrival.op == Op::Write {
                chunk.1 += 1;
                writes += 1;
                write_bytes += arrival.length_bytes;
                above += u64::from(arrival.length_bytes > writes_by_size.0);
            } else {
                chunk.0 += 1;
                reads += 1;
            }
        }
        within(write_bytes, write_mb * 1_000_000, 1, name);
        within(above * 100, writes * writes_by_size.1, 1, name);
        within(reads, reads_wanted, 1, name);
        let percent = |of: &dyn Fn(&(u64, u64)) -> bool| {
            counts.iter().filter(|count| of(count)).count() * 100 / counts.len()
        };
        let read = percent(&|count| count.0 < 10);
        assert!(rarely_read.contains(&read), "{name}: {read} % of the chunks are rarely read");
        let written = percent(&|count| count.1 < rarely_written.0);
        assert!(written >= rarely_written.1, "{name}: {written} % are rarely written");
        assert!(written < 90, "{name}: {written} % are rarely written");
    }
}

/// [SERW slide "Motivation"]: reads of some intensity, writes at an interval, or none.
#[test]
fn mixed_has_its_reads_and_its_writes() {
    let arrivals: Vec<_> = build("mixed:read_rate=5000,write_interval=10ms", 1).unwrap().collect();
    let writes: Vec<_> = arrivals.iter().filter(|a| a.op == Op::Write).collect();
    within((arrivals.len() - writes.len()) as u64, 50_000, 2, "reads");
    assert_eq!(writes.len(), 999);
    for (number, write) in writes.iter().enumerate() {
        assert_eq!(write.at.ns, (number as u64 + 1) * 10_000_000);
        assert_eq!(write.length_bytes, 64 * KIB);
    }
    let alone = totals("mixed:read_rate=5000,writes=no");
    assert_eq!(alone.writes, 0);
    within(alone.requests, 50_000, 2, "reads alone");
}

#[test]
fn interval_is_as_regular_as_in_figure_15() {
    let arrivals: Vec<_> =
        build("interval:interval=20us,total=1MiB,footprint=512KiB", 1).unwrap().collect();
    assert_eq!(arrivals.len(), 32);
    for (number, arrival) in arrivals.iter().enumerate() {
        let number = number as u64;
        assert_eq!(arrival.at.ns, number * 20_000);
        assert_eq!(
            (arrival.offset_bytes, arrival.length_bytes),
            (number % 16 * 32 * KIB, 32 * KIB)
        );
        assert_eq!(arrival.op, Op::Write);
    }
}

#[test]
fn zipf_and_uniform_keep_their_settings() {
    let got = totals("zipf:theta=0.9,read_share=30%,requests=100000,rate=5000");
    assert_eq!(got.requests, 100_000);
    within(got.writes, 70_000, 1, "writes");
    within(got.bins.len() as u64, 20, 5, "seconds");
    let mut hits = std::collections::BTreeMap::<u64, u64>::new();
    for arrival in build("zipf:footprint=1GiB,theta=0.99", 1).unwrap() {
        assert!(arrival.offset_bytes + arrival.length_bytes <= GIB);
        *hits.entry(arrival.offset_bytes).or_default() += 1;
    }
    // 1 / H(2^18, 0.99) = 7.3 % of the requests go to the most popular block
    within(*hits.values().max().unwrap(), 7_300, 5, "the hottest block");
    let got = totals("uniform:requests=10,gaps=fixed,rate=1000,footprint=4KiB");
    assert_eq!((got.writes, got.write_bytes), (10, 40_960));
}

#[test]
fn a_seed_names_a_workload() {
    for generator in GENERATORS {
        let is_long = generator.name.starts_with("pangu") || generator.name.starts_with("serw");
        let spec = if is_long {
            format!("{}:duration=2s", generator.name)
        } else {
            generator.name.to_owned()
        };
        let take = |seed| build(&spec, seed).unwrap().take(500).collect::<Vec<_>>();
        assert_eq!(take(1), take(1), "{spec}");
        assert_eq!(take(1) == take(2), generator.name == "interval", "{spec}");
    }
}

#[test]
fn mistakes_are_named() {
    for (spec, want) in [
        ("zip", "no workload is called \"zip\"; did you mean \"zipf\"?"),
        ("pangu", "no workload is called \"pangu\"; did you mean \"pangu-a\"?"),
        ("zipf:thetta=1", "zipf has no setting \"thetta\"; did you mean \"theta\"?"),
        ("zipf:theta", "zipf: \"theta\" is not of the form setting=value"),
        ("zipf:theta=1,theta=1", "zipf: theta is set twice"),
        (
            "zipf:size=100",
            "zipf: size=\"100\" is not a multiple of 512 bytes from 512B to 64MiB, written like 4KiB",
        ),
        (
            "interval:interval=5",
            "interval: interval=\"5\" is not a time from 100 ns to 3600 s, written like 100us",
        ),
        ("zipf:footprint=512B", "zipf: the footprint is smaller than one request"),
        ("pangu-c:share=0.01%", "pangu-c: share x duration is less than one second"),
    ] {
        let Err(error) = build(spec, 1) else { panic!("{spec} was accepted") };
        assert_eq!(error.to_string(), want);
    }
    assert!(build(" zipf : read-share = 10% , ", 1).is_ok());
}
