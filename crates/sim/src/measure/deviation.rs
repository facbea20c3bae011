//! How far is what was measured from what is true?
//!
//! Source: models §5.2 and §6.1: the figures that can be seen from outside, computed from the spec.
//! What a collection of garbage takes is in no spec; there the model's own record of its events is
//! the truth.

use super::{Findings, MeasureSpecError, measure, measure_ssd};
use tandem_block::{BLOCK_BYTES, DriveEventKind, KIB};
use tandem_drives::HddModel;
use tandem_drives::spec::{
    DrainLaw as TrueLaw, DriveSpec, HddSpec, ModelSpec, SlcOverflow, SsdSpec,
};
use tandem_engine::profile::hdd::HddFindings;
use tandem_engine::profile::ssd::SsdCosts;
use tandem_engine::profile::{DrainLaw, latency_ns};

/// One figure of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// What it is.
    pub figure: String,
    /// Its unit: ns, bytes, bytes/s, ppm, or none.
    pub unit: &'static str,
    /// What the spec says.
    pub spec: u64,
    /// What was measured; `None` if it was not found.
    pub measured: Option<u64>,
}

impl Deviation {
    /// Millionths by which the measured one is off; all of it if it was not found.
    pub fn off_ppm(&self) -> u64 {
        let Some(measured) = self.measured else { return 1_000_000 };
        let off = u128::from(self.spec.abs_diff(measured)) * 1_000_000;
        u64::try_from(off / u128::from(self.spec.max(1))).unwrap_or(u64::MAX)
    }
}

/// Measures the drive and compares.
///
/// # Errors
/// If the drive has nothing to measure.
pub fn deviations(spec: &DriveSpec) -> Result<Vec<Deviation>, MeasureSpecError> {
    Ok(compared(spec, &mut |_| {})?.1)
}

/// … and what was found, of which a profile can be made.
///
/// # Errors
/// If the drive has nothing to measure.
pub fn compared(
    spec: &DriveSpec,
    progress: &mut dyn FnMut(&'static str),
) -> Result<(Findings, Vec<Deviation>), MeasureSpecError> {
    match &spec.model {
        ModelSpec::Ssd(ssd) => {
            let (costs, mut probe) = measure_ssd(spec, progress)?;
            let events: Vec<(u64, u64)> = probe
                .take_events()
                .into_iter()
                .filter(|event| event.kind == DriveEventKind::GarbageCollection)
                .map(|event| (event.start.ns, event.end.since(event.start).ns))
                .collect();
            let rows = of_ssd(ssd, &costs, &events);
            Ok((Findings::Ssd(Box::new(costs)), rows))
        }
        _ => match (measure(spec, progress)?, &spec.model) {
            (Findings::Hdd(found), ModelSpec::Hdd(hdd)) => {
                let rows = hdd_deviations(hdd, &found);
                Ok((Findings::Hdd(found), rows))
            }
            _ => Err(MeasureSpecError::Nothing(spec.name.clone())),
        },
    }
}

/// Collects rows.
#[derive(Default)]
struct Rows(Vec<Deviation>);

impl Rows {
    fn add(&mut self, figure: String, unit: &'static str, spec: u64, measured: Option<u64>) {
        self.0.push(Deviation { figure, unit, spec, measured });
    }
}

/// Compares what was found of a hard drive, whatever it was asked through.
pub fn hdd_deviations(spec: &HddSpec, found: &HddFindings) -> Vec<Deviation> {
    let mut rows = Rows::default();
    let profile = found.profile().ok();
    for size in [4 * KIB, 16 * KIB, 64 * KIB] {
        let kib = size / KIB;
        for (name, truth, profile) in [
            ("L fast", &spec.fast_latency, profile.as_ref().map(|profile| &profile.fast_latency)),
            ("L mid", &spec.mid_latency, profile.as_ref().map(|profile| &profile.mid_latency)),
        ] {
            let measured = profile.map(|profile| latency_ns(profile, size));
            rows.add(
                format!("{name}, {kib} KiB"),
                "ns",
                latency_ns(&truth.value.0, size),
                measured,
            );
        }
    }
    let steps = found.staircase.iter().flat_map(|staircase| &staircase.steps);
    for step in steps {
        let kib = step.write_bytes / KIB;
        let (fast, mid) = (spec.fast_stage.get().0, spec.mid_stage.get().0);
        rows.add(format!("W fast, {kib} KiB"), "bytes", fast, Some(step.fast_bytes));
        rows.add(format!("W mid, {kib} KiB"), "bytes", mid, Some(step.mid_bytes));
    }
    // At larger sizes the platter, not the stall, may be what a slow write waits for.
    let slow = profile.as_ref().map(|profile| profile.slow_latency_ns);
    rows.add("T slow".to_owned(), "ns", spec.slow_stall.get().0, slow);
    of_buffer(spec, found, &mut rows);
    of_mechanics(spec, found, &mut rows);
    rows.0
}

fn of_buffer(spec: &HddSpec, found: &HddFindings, rows: &mut Rows) {
    let law = match spec.drain.get() {
        TrueLaw::Continuous => DrainLaw::Continuous,
        TrueLaw::AfterIdle => DrainLaw::AfterIdle,
        TrueLaw::WhenFull => DrainLaw::WhenFull,
    };
    let outer = spec.rate_outer.get().0;
    let same = found.drain.map(|drain| u64::from(drain.law == law));
    rows.add(format!("drain law {}", law.name()), "", 1, same);
    if law == DrainLaw::AfterIdle {
        let start = found.drain.map(|drain| drain.idle_ns);
        rows.add("drain start".to_owned(), "ns", spec.idle.get().0, start);
    }
    if law != DrainLaw::WhenFull {
        let rate = found.drain.and_then(|drain| drain.bytes_per_s);
        rows.add("drain rate".to_owned(), "bytes/s", outer, rate);
    }
    let base = found.flush.map(|flush| flush.base_ns);
    rows.add("flush, nothing dirty".to_owned(), "ns", spec.flush_base.get().0, base);
    let rate = found.flush.and_then(|flush| flush.bytes_per_s);
    rows.add("flush, dirty bytes".to_owned(), "bytes/s", outer, rate);
}

fn of_mechanics(spec: &HddSpec, found: &HddFindings, rows: &mut Rows) {
    let model = HddModel::new(spec, 1, false);
    let (outer, inner) = (spec.rate_outer.get().0, spec.rate_inner.get().0);
    let capacity = u128::from(spec.capacity.get().0);
    for (offset, rate) in &found.mechanics.regions {
        let percent = u128::from(*offset) * 100 / capacity;
        let lost = u128::from(outer - inner) * u128::from(*offset) / capacity;
        let truth = outer - u64::try_from(lost).expect("no more than the difference");
        rows.add(format!("rate at {percent} %"), "bytes/s", truth, Some(*rate));
    }
    for (distance, reach) in &found.mechanics.seeks {
        let transfer = 4096 * 1_000_000_000 / outer;
        let truth = spec.read_overhead.get().0 + model.seek_ns(0, *distance) + transfer;
        let thousandths = u128::from(*distance) * 1000 / capacity;
        rows.add(format!("seek over {thousandths}/1000"), "ns", truth, Some(*reach));
    }
    let turn = 60_000_000_000 / spec.rpm.get();
    rows.add("turn".to_owned(), "ns", turn, Some(found.mechanics.turn_ns));
}

/// Bytes/s of programs that take so long, all dies at work as far as the buffer feeds them.
fn program_rate(spec: &SsdSpec, program_ns: u64) -> u64 {
    let at_work = u64::from(spec.dies.get().min(spec.buffer_units.get()));
    let unit = at_work * spec.unit.get().0;
    let rate =
        u128::from(unit) * 1_000_000_000 / u128::from((spec.transfer.get().0 + program_ns).max(1));
    u64::try_from(rate).unwrap_or(u64::MAX).min(spec.link.get().0)
}

/// (before the cache is used up, after).
fn rates(spec: &SsdSpec) -> (u64, u64) {
    let native = spec.program.get().0;
    match &spec.slc {
        None => (program_rate(spec, native), program_rate(spec, native)),
        Some(slc) => {
            let fold = match slc.overflow.get() {
                SlcOverflow::Direct => 0,
                SlcOverflow::Fold => spec.read.get().0 + slc.program.get().0,
            };
            (program_rate(spec, slc.program.get().0), program_rate(spec, native + fold))
        }
    }
}

fn ns_of(bytes: u64, bytes_per_s: u64) -> u64 {
    bytes * 1_000_000_000 / bytes_per_s.max(1)
}

fn of_ssd(spec: &SsdSpec, costs: &SsdCosts, events: &[(u64, u64)]) -> Vec<Deviation> {
    let mut rows = Rows::default();
    let (burst, sustained) = rates(spec);
    let transfer = ns_of(BLOCK_BYTES, spec.link.get().0);
    let alone = spec.write_overhead.get().0 + transfer;
    // small writes are measured at random
    let command = spec.write_command.get().0.max(transfer).max(spec.scattered_write_ns());
    let buffer_pages = u64::from(spec.buffer_units.get()) * u64::from(spec.unit_pages());
    for (depth, latency) in &costs.write_latency {
        // a burst is twice the depth: a smaller buffer makes it wait for programs
        if 2 * depth <= buffer_pages / 2 {
            let truth = alone.max(depth * command);
            rows.add(format!("write into the buffer, depth {depth}"), "ns", truth, Some(*latency));
        }
    }
    for (depth, latency) in &costs.sustained_latency {
        let truth = alone.max(depth * command.max(ns_of(BLOCK_BYTES, sustained)));
        rows.add(format!("write sustained, depth {depth}"), "ns", truth, Some(*latency));
    }
    let page = spec.transfer.get().0 / u64::from(spec.unit_pages());
    let read = spec.read_overhead.get().0 + spec.read.get().0 + page + transfer;
    let measured = costs.read_latency.first().map(|point| point.1);
    rows.add("read, depth 1".to_owned(), "ns", read, measured);
    rows.add("rate at first".to_owned(), "bytes/s", burst, costs.burst_bytes_per_s);
    rows.add("rate sustained".to_owned(), "bytes/s", sustained, costs.sustained_bytes_per_s);
    match &spec.slc {
        Some(slc) => rows.add("SLC cache".to_owned(), "bytes", slc.size.get().0, costs.slc_bytes),
        None => {
            let none = u64::from(costs.slc_bytes.is_none());
            rows.add("no SLC cache".to_owned(), "", 1, Some(none));
        }
    }
    rows.add("flush".to_owned(), "ns", spec.flush_base.get().0, costs.flush_ns);
    of_collections(costs, events, &mut rows);
    rows.0
}

fn of_collections(costs: &SsdCosts, events: &[(u64, u64)], rows: &mut Rows) {
    let mut lengths: Vec<u64> = events.iter().map(|event| event.1).collect();
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    rows.add("collection".to_owned(), "ns", median, costs.gc_event_ns);
    // From the beginning of the first to that of the last: whole periods.
    if let (Some(first), Some(last)) = (events.first(), events.last())
        && last.0 > first.0
    {
        let busy: u64 = events[..events.len() - 1].iter().map(|event| event.1).sum();
        let share = u128::from(busy) * 1_000_000 / u128::from(last.0 - first.0);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        rows.add("collecting, share of time".to_owned(), "ppm", share, costs.gc_share_ppm);
    }
}
