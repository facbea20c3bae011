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
    /// Bytes of each second.
    bytes: Vec<u64>,
    /// Writes of each second, and their bytes.
    written: Vec<(u64, u64)>,
    /// Requests that come at the same instant.
    groups: Vec<u64>,
}

impl Totals {
    /// Each second counts the same, whatever comes in it.
    fn mean_over_seconds_bytes(&self) -> u64 {
        let means = self.bytes.iter().zip(&self.bins).filter(|&(_, &requests)| requests > 0);
        let (sum, seconds) = means.fold((0, 0), |(sum, seconds), (bytes, requests)| {
            (sum + bytes * 1000 / requests, seconds + 1)
        });
        sum / seconds / 1000
    }

    /// Mean size of the writes of those seconds whose requests are so many.
    fn mean_write_bytes(&self, is_meant: impl Fn(u64) -> bool) -> u64 {
        let seconds = self.bins.iter().zip(&self.written).filter(|&(&count, _)| is_meant(count));
        let (writes, bytes) = seconds.fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
        bytes / writes
    }
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
        if arrival.at.ns > last_ns || totals.requests == 0 {
            totals.groups.push(0);
        }
        *totals.groups.last_mut().unwrap() += 1;
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
        let seconds = totals.bins.len().max(second + 1);
        totals.bins.resize(seconds, 0);
        totals.bytes.resize(seconds, 0);
        totals.written.resize(seconds, (0, 0));
        totals.bins[second] += 1;
        totals.bytes[second] += arrival.length_bytes;
        if arrival.op == Op::Write {
            let written = &mut totals.written[second];
            *written = (written.0 + 1, written.1 + arrival.length_bytes);
        }
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

/// [BCW Table 1]: bytes over requests, and "Avg. Req. Size" as the mean over seconds. The two means of
/// writes are those that follow from the table by hand.
#[test]
fn pangu_sizes_by_intensity_have_both_means_of_table_1() {
    for (name, write_mb, read_mb, over_seconds, peak, burst_mean, quiet_mean) in [
        ("pangu-a", 18_500, 1_400, 56_000, 3_400, 8_340, 57_740),
        ("pangu-b", 74_400, 2_000, 17_700, 9_300, 16_670, 18_420),
        ("pangu-c", 10_700, 2_100, 4_200, 9_600, 1_073, 4_813),
        ("pangu-d", 10_100, 1_700, 4_100, 11_100, 947, 4_684),
    ] {
        let got = totals(&format!("{name}:sizes=by-intensity"));
        within(got.write_bytes, write_mb * 1_000_000, 1, name);
        within(got.read_bytes, read_mb * 1_000_000, 2, name);
        within(got.mean_over_seconds_bytes(), over_seconds, 2, name);
        let (burst, quiet) =
            (got.mean_write_bytes(|n| n == peak), got.mean_write_bytes(|n| n < peak));
        within(burst, burst_mean, 2, name);
        within(quiet, quiet_mean, 2, name);
        assert!(got.small_writes * 1000 >= got.writes * 749, "{name}: three quarters are small");
    }
}

/// All three settings at once, with the larger requests: nothing of one is lost by another.
#[test]
fn pangu_settings_go_together() {
    for (name, seconds, mean_per_s, peak_per_s, over_requests, over_seconds) in [
        ("pangu-a", 675, 230, 3_400, 32_045, 56_000),
        ("pangu-b", 180, 2_500, 9_300, 16_978, 17_700),
        ("pangu-c", 180, 2_700, 9_600, 2_634, 4_200),
        ("pangu-d", 156, 3_000, 11_100, 2_521, 4_100),
    ] {
        let spec = format!(
            "{name}:duration={seconds}s,sizes=by-intensity,arrivals=groups,bursts=tailed,largest=2MiB"
        );
        let got = totals(&spec);
        assert_eq!(got.requests, seconds * mean_per_s, "{name}");
        assert_eq!(got.bins.iter().max(), Some(&peak_per_s), "{name}");
        let mean = (got.write_bytes + got.read_bytes) / got.requests;
        let seconds_mean = got.mean_over_seconds_bytes();
        let (burst, quiet) =
            (got.mean_write_bytes(|n| n >= mean_per_s), got.mean_write_bytes(|n| n < mean_per_s));
        within(mean, over_requests, 2, name);
        within(seconds_mean, over_seconds, 4, name);
        assert!(burst < quiet, "{name}: {burst} {quiet}");
        within(got.requests * 100 / got.groups.len() as u64, 360, 3, name);
        assert_eq!(got.groups.iter().max(), Some(&24), "{name}");
        let of = |seed| build(&spec, seed).unwrap().take(10_000);
        assert!(of(1).eq(of(1)) && of(1).ne(of(2)), "{name}");
    }
}

/// The settings move nothing but what they are about.
#[test]
fn each_pangu_setting_keeps_the_rest() {
    let of = |spec: &str| build(spec, 1).unwrap().collect::<Vec<_>>();
    let plain = of("pangu-c:duration=8s");
    let sized = of("pangu-c:duration=8s,sizes=by-intensity");
    assert!(plain.iter().zip(&sized).all(|(a, b)| (a.at, a.op) == (b.at, b.op)));
    assert_ne!(plain, sized);
    let kinds = |of: &[Arrival]| of.iter().map(|a| (a.op, a.length_bytes)).collect::<Vec<_>>();
    let grouped = of("pangu-c:duration=8s,arrivals=groups");
    assert_eq!(kinds(&plain), kinds(&grouped));
    let tailed = of("pangu-c:duration=8s,bursts=tailed");
    assert_eq!(kinds(&plain), kinds(&tailed));
    for (setting, default) in [("sizes", "mixed"), ("arrivals", "even"), ("bursts", "exact")] {
        assert_eq!(plain, of(&format!("pangu-c:duration=8s,{setting}={default}")));
    }
}

/// A run without a burst, or with hardly a quiet request, has its bytes nonetheless.
#[test]
fn short_runs_by_intensity_keep_the_mean_size() {
    for (name, seconds, mean_bytes) in [
        ("pangu-a", 1, 32_045),
        ("pangu-a", 15, 32_045),
        ("pangu-a", 30, 32_045),
        ("pangu-b", 1, 16_978),
        ("pangu-b", 4, 16_978),
        ("pangu-c", 4, 2_634),
        ("pangu-c", 30, 2_634),
        ("pangu-d", 7, 2_521),
    ] {
        for bursts in ["exact", "tailed"] {
            let spec = format!("{name}:duration={seconds}s,bursts={bursts},sizes=by-intensity");
            let got = totals(&spec);
            let mean = (got.write_bytes + got.read_bytes) / got.requests;
            // a run of few requests has few of the largest
            let percent = if got.requests < 2_000 { 40 } else { 5 };
            within(mean, mean_bytes, percent, &spec);
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

/// [BCW §2.3], of the same service.
#[test]
fn serw_reads_apart_never_meet_a_write() {
    let made = |spec: &str| build(spec, 1).expect("known").collect::<Vec<_>>();
    for node in ["serw-a1", "serw-b2"] {
        let apart = made(&format!("{node}:duration=20s,places=apart"));
        let half = serw::CHUNK_BYTES / 2;
        for arrival in &apart {
            let begin = arrival.offset_bytes % serw::CHUNK_BYTES;
            let end = begin + arrival.length_bytes;
            let is_in_its_half = match arrival.op {
                Op::Write => begin >= half && end <= 2 * half,
                _ => end <= half,
            };
            assert!(is_in_its_half, "{node}: {begin} to {end}");
        }
        // nothing else is different
        let key = |a: &Arrival| (a.at, a.op, a.length_bytes, a.offset_bytes / serw::CHUNK_BYTES);
        let any = made(&format!("{node}:duration=20s"));
        assert!(apart.iter().map(key).eq(any.iter().map(key)), "{node}");
        assert!(any.iter().any(|a| a.op == Op::Read && a.offset_bytes % serw::CHUNK_BYTES > half));
    }
}

#[test]
fn a_serw_node_may_be_slower_with_another_peak_and_smaller_reads() {
    let node = totals("serw-b1:duration=40s");
    let slower = totals("serw-b1:duration=200s,rate=20,peak=6,reads=small");
    within(slower.requests, node.requests, 2, "the requests stay");
    within(slower.write_bytes, node.write_bytes, 2, "and the bytes that are written");
    let busiest = |totals: &Totals| totals.bins.iter().copied().max().unwrap_or(0);
    let mean_of_200 = slower.requests / 200;
    within(busiest(&node), node.requests / 40 * 3, 2, "three times the mean is the default");
    within(busiest(&slower), mean_of_200 * 6, 2, "six times");
    let mean_read = |totals: &Totals| totals.read_bytes / (totals.requests - totals.writes);
    within(mean_read(&node), 87_030, 2, "sizes and weights of the wide ones");
    within(mean_read(&slower), 28_183, 2, "and of the small ones");
    let tailed = totals("serw-b1:duration=200s,rate=20,peak=6,bursts=tailed");
    within(tailed.requests, slower.requests, 1, "a heavy tail keeps the mean");
    let at_peak = |totals: &Totals| totals.bins.iter().filter(|&&b| b > mean_of_200 * 5).count();
    assert!(at_peak(&tailed) < at_peak(&slower) / 2, "and has fewer seconds near the peak");
    assert!(build("serw-b1:peak=1", 1).is_err() && build("serw-b1:rate=0", 1).is_err());
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
        (
            "pangu-c:group=2,arrivals=groups",
            "pangu-c: arrivals=groups has groups of its own, group is for others",
        ),
    ] {
        let Err(error) = build(spec, 1) else { panic!("{spec} was accepted") };
        assert_eq!(error.to_string(), want);
    }
    assert!(build(" zipf : read-share = 10% , ", 1).is_ok());
}

/// A setting that is new leaves the workloads of before as they were: what is pinned here was made
/// before `arrivals=groups`, `bursts` and `sizes` were there.
#[test]
fn workloads_of_before_are_pinned() {
    for (spec, want) in [
        ("pangu-a:duration=40s", 0x261a_47f3_8fda_d2ad),
        ("pangu-b:duration=4s,arrivals=cascade,largest=2MiB", 0x9652_53af_22ae_5caa),
        ("pangu-c:duration=4s,group=24", 0x8aaa_83f2_d729_d0ea),
        ("pangu-d:duration=5s,reads=cold", 0x77ac_0424_f7ef_ea79),
        ("serw-b1:duration=2s,arrivals=cascade", 0xe96c_b528_298f_9a66),
    ] {
        let numbers = build(spec, 1).unwrap().flat_map(|arrival| {
            let is_write = u64::from(arrival.op == Op::Write);
            [arrival.at.ns, arrival.offset_bytes, arrival.length_bytes, is_write]
        });
        // FNV-1a, over whole numbers
        let digest = numbers.fold(0xcbf2_9ce4_8422_2325, |digest: u64, number| {
            (digest ^ number).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(digest, want, "{spec}: {digest:#018x}");
    }
}
