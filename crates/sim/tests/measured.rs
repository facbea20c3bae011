//! Does measuring a modelled drive give back what can be seen of it from outside?
//!
//! Source: models §5.2 and §6.4. Three drives here, of both sorts; the example `deviations` prints
//! all of them in full.

use tandem_block::{DriveOp, IoError, MIB, Rng};
use tandem_drives::spec::{DrainLaw as TrueLaw, DriveSpec, ModelSpec, Sourced, load};
use tandem_drives::{BuildOptions, build};
use tandem_engine::profile::{DrainLaw, Probe, Session, hdd};
use tandem_sim::measure::{Findings, ModelProbe, deviations, hdd_deviations, measure};
use tandem_sim::profiles::{Identity, Measured, ProfileKind, parse, text_of};

/// 5 %.
const OFF_PPM_MAX: u64 = 50_000;

fn spec(name: &str) -> DriveSpec {
    load(name).expect("known")
}

fn hold(name: &str, spec: &DriveSpec, figures: usize) {
    let rows = deviations(spec).expect("a drive with properties");
    assert!(rows.len() >= figures, "{name}: only {} figures", rows.len());
    for row in rows {
        assert!(row.off_ppm() <= OFF_PPM_MAX, "{name}: {row:?} is off by {} ppm", row.off_ppm());
    }
}

/// Collections of 96 ms, with seven writes that the buffer takes between two of them.
#[test]
fn the_510_is_found_within_five_percent() {
    let spec = spec("510").with_capacity_bytes(8_000_000_000).expect("it can be that small");
    hold("510", &spec, 18);
}

#[test]
fn wd40ezrz_is_found_within_five_percent() {
    hold("wd40ezrz", &spec("wd40ezrz"), 35);
}

#[test]
fn x25e_is_found_within_five_percent() {
    let spec = spec("x25e").with_capacity_bytes(4_000_000_000).expect("it can be that small");
    hold("x25e", &spec, 16);
}

/// An SLC cache whose drive programs in step: a full buffer waits for programs of 2 ms, too.
#[test]
fn evo_is_found_within_five_percent() {
    let spec = spec("960evo").with_capacity_bytes(8_000_000_000).expect("it can be that small");
    hold("960evo", &spec, 18);
}

fn changed(change: impl FnOnce(&mut tandem_drives::spec::HddSpec)) -> DriveSpec {
    let mut spec = spec("wd40ezrz");
    let ModelSpec::Hdd(hdd) = &mut spec.model else { panic!("a hard drive") };
    change(hdd);
    spec
}

fn findings(spec: &DriveSpec) -> Box<tandem_engine::profile::hdd::HddFindings> {
    match measure(spec, &mut |_| {}).expect("measured") {
        Findings::Hdd(found) => found,
        Findings::Ssd(_) => panic!("a hard drive"),
    }
}

/// [BCW §3] measures with the write cache on; with it off there is nothing to steer by.
#[test]
fn with_the_write_cache_off_there_is_no_staircase() {
    let off = changed(|hdd| hdd.write_cache = Sourced::of(false, "guess: test"));
    let found = findings(&off);
    assert!(found.none().is_some_and(|why| why.contains("write cache is off")), "{found:?}");
    assert!(found.profile().is_err());
    assert!(!found.mechanics.seeks.is_empty(), "reads are measured all the same");
}

#[test]
fn the_other_drain_laws_are_found() {
    let full = changed(|hdd| hdd.drain = Sourced::of(TrueLaw::WhenFull, "guess: test"));
    let found = findings(&full);
    assert_eq!(found.drain.map(|drain| drain.law), Some(DrainLaw::WhenFull));
    assert!(!found.empties_when_idle());

    let always = changed(|hdd| hdd.drain = Sourced::of(TrueLaw::Continuous, "guess: test"));
    let found = findings(&always);
    let drain = found.drain.expect("there is a staircase");
    assert_eq!(drain.law, DrainLaw::Continuous);
    let rate = drain.bytes_per_s.expect("a rate");
    assert!(rate.abs_diff(180_000_000) <= 9_000_000, "{rate}");
    let steps = &found.staircase.expect("there is one").steps;
    assert!(steps.iter().all(|step| step.write_bytes > 4096), "the platter keeps up with 4 KiB");
    assert!(steps[0].fast_bytes > 2 * MIB, "what leaves meanwhile makes room");
}

/// A host with other things to do: it sees completions late, and wakes late from its rests.
struct BusyHost {
    inner: ModelProbe,
    rng: Rng,
}

impl BusyHost {
    fn late_ns(&mut self) -> u64 {
        match self.rng.below(50_000) {
            0 => self.rng.between(10_000_000, 40_000_000),
            1..=20 => self.rng.between(1_000_000, 8_000_000),
            21..=1_000 => self.rng.between(5_000, 80_000),
            _ => self.rng.below(1_000),
        }
    }
}

impl Probe for BusyHost {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn rest(&mut self, ns: u64) {
        let late_ns = self.rng.between(50_000, 3_000_000);
        self.inner.rest(ns + late_ns);
    }

    fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, IoError> {
        assert_eq!((depth, ops.len()), (1, 1), "a hard drive is asked for one thing at a time");
        let late_ns = self.late_ns();
        let latency_ns = self.inner.keep(1, ops)?[0];
        self.inner.rest(late_ns);
        Ok(vec![latency_ns + late_ns])
    }
}

/// What a busy host adds does not move the figures: medians, most frequent lengths, and lines that a
/// quarter of their points cannot move.
#[test]
fn a_busy_host_measures_the_same_drive() {
    // a small drive is one on which the streams come to the inner regions
    let small = |name| spec(name).with_capacity_bytes(1 << 30).expect("it can be that small");
    let drives = [spec("wd100efax"), small("wd100efax"), spec("wd40ezrz")];
    for (spec, seed) in drives.into_iter().zip(1..) {
        let name = &spec.name;
        let ModelSpec::Hdd(truth) = &spec.model else { panic!("a hard drive") };
        let inner = ModelProbe::new(build(&spec, BuildOptions::default()).expect("it is one"));
        let mut host = BusyHost { inner, rng: Rng::new(seed) };
        let mut silent = |_| {};
        let found = hdd::measure(&mut Session::new(&mut host, u64::MAX, &mut silent), true);
        let rows = hdd_deviations(truth, &found.expect("measured"));
        assert!(rows.len() >= 34, "{name}: only {} figures", rows.len());
        for row in rows {
            assert!(row.off_ppm() <= OFF_PPM_MAX, "{name}: {row:?}: {} ppm", row.off_ppm());
        }
    }
}

/// A budget that runs out: what was measured is kept, what is missing is said, and the profile that is
/// made of it can be read.
#[test]
fn what_a_small_budget_is_enough_for_is_kept() {
    let spec = spec("wd40ezrz");
    let identity = Identity {
        model: "wd40ezrz".to_owned(),
        serial: String::new(),
        size: tandem_drives::spec::Bytes(spec.capacity_bytes()),
        measured: "2026-03-01".to_owned(),
    };
    let (all, mut before) = (findings(&spec), usize::MAX);
    for (budget_mib, steps, has_drain) in
        [(1, 0, false), (40, 1, false), (300, 4, false), (200_000, 4, true)]
    {
        let model = build(&spec, BuildOptions::default()).expect("a model");
        let mut probe = ModelProbe::new(model);
        let mut progress = |_| {};
        let mut session = Session::new(&mut probe, budget_mib * MIB, &mut progress);
        let found = hdd::measure(&mut session, true).expect("a budget that ends is no error");
        let missing = session.missing().to_vec();
        assert_eq!(missing.is_empty(), has_drain, "{budget_mib}: {missing:?}");
        assert!(missing.len() <= before, "more budget, less missing: {missing:?}");
        before = missing.len();
        assert_eq!(found.mechanics, all.mechanics, "reads cost no budget");
        let staircase = found.staircase.as_ref().expect("writing was allowed");
        assert_eq!((staircase.steps.len(), found.drain.is_some()), (steps, has_drain));
        if let (Some(step), Some(whole)) = (staircase.steps.first(), &all.staircase) {
            assert!(
                step.fast_bytes.abs_diff(whole.steps[0].fast_bytes)
                    < whole.steps[0].fast_bytes / 10
            );
        }
        let findings = Findings::Hdd(Box::new(found));
        let measured = Measured {
            name: "small",
            about: "measured",
            identity: &identity,
            findings: &findings,
            missing: &missing,
        };
        let text = text_of(&measured);
        let profile = parse(&text, "m.toml").unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(matches!(profile.kind, ProfileKind::NoStaircase(_)), steps == 0, "{text}");
        assert_eq!(text.contains("was not measured"), !has_drain, "{text}");
        if steps > 0 && !has_drain {
            assert!(
                text.contains("source = \"guess: the budget of writes was used up\""),
                "{text}"
            );
        }
    }
}
