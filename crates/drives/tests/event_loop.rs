//! Do drive, faults and media together keep the promise of a flush, and does a lie show?
//!
//! Source: design, "The promise", and decision 4. The smallest event loop: commands in flight are applied
//! when their acknowledgement comes due, and the power fails at a random time.

use std::collections::BTreeMap;
use tandem_block::{
    ContentFaultKind, DeviceId, Drive, DriveOp, DriveOpKind, Instant, Outcome, Rng,
};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty};
use tandem_drives::media::{Contents, CutMode, Mark, Media, Write};
use tandem_drives::spec::{KnownSpec, SPECS};
use tandem_drives::{BuildOptions, build};

const SECTORS: u64 = 4_000;

/// A command in flight: its outcome, and what it will do.
enum InFlight {
    Write(Write<u64>),
    Flush(Mark, Vec<u64>),
}

struct EventLoop {
    drive: Box<dyn Drive>,
    media: Media<u64>,
    /// By acknowledgement time and ticket.
    in_flight: BTreeMap<(Instant, u64), (Outcome, InFlight)>,
    ignored_flushes: Vec<u64>,
    /// Per sector the newest acknowledged version, and the newest that a flush has promised.
    acknowledged: Vec<u64>,
    promised: Vec<u64>,
    /// Per sector the newest version ever submitted.
    submitted: Vec<u64>,
}

impl EventLoop {
    fn new(drive: Box<dyn Drive>) -> Self {
        let none = vec![0; SECTORS as usize];
        EventLoop {
            drive,
            media: Media::ram(),
            in_flight: BTreeMap::new(),
            ignored_flushes: Vec::new(),
            acknowledged: none.clone(),
            promised: none.clone(),
            submitted: none,
        }
    }

    fn submit(&mut self, now: Instant, op: DriveOp, version: u64) {
        let outcome = self.drive.submit(now, op);
        for fault in self.drive.take_content_faults() {
            assert_eq!(fault.kind, ContentFaultKind::FlushIgnored);
            self.ignored_flushes.push(fault.ticket.0);
        }
        let what = if op.kind == DriveOpKind::Flush {
            InFlight::Flush(self.media.mark(), self.acknowledged.clone())
        } else {
            let first = op.offset_bytes / 512;
            let count = op.length_bytes / 512;
            self.submitted[first as usize..(first + count) as usize].fill(version);
            let contents = Contents::Data(vec![version; count as usize].into());
            let offset_bytes = op.offset_bytes;
            InFlight::Write(Write { ticket: outcome.ticket, offset_bytes, contents })
        };
        self.in_flight.insert((outcome.ack_at, outcome.ticket.0), (outcome, what));
    }

    /// Everything due by `now` is acknowledged.
    fn advance(&mut self, now: Instant) {
        while let Some(entry) = self.in_flight.first_entry()
            && entry.key().0 <= now
        {
            let (outcome, what) = entry.remove();
            assert_eq!(self.drive.ticket_ack(&outcome), (outcome.ack_at, Ok(())));
            match what {
                InFlight::Write(write) => {
                    let Contents::Data(data) = &write.contents else { continue };
                    let first = (write.offset_bytes / 512) as usize;
                    self.acknowledged[first..first + data.len()].clone_from_slice(data);
                    self.media.apply(write, outcome.durable_at);
                }
                InFlight::Flush(mark, state) => {
                    if !self.ignored_flushes.contains(&outcome.ticket.0) {
                        self.media.settle_upto(mark);
                    }
                    self.promised = state;
                }
            }
        }
        self.media.settle(now);
    }

    /// The power fails. Returns how many promised sectors are lost.
    fn cut(mut self, now: Instant, rng: &mut Rng, mode: CutMode) -> usize {
        self.advance(now);
        self.media.settle_older_than(self.drive.volatile_bytes(now));
        let in_flight: Vec<Write<u64>> = std::mem::take(&mut self.in_flight)
            .into_values()
            .filter_map(|(_, what)| match what {
                InFlight::Write(write) => Some(write),
                InFlight::Flush(..) => None,
            })
            .collect();
        self.media.cut(now, rng, mode, &in_flight);
        self.drive.power_cycle(now);
        let mut after = vec![0; SECTORS as usize];
        self.media.read(0, &mut after);
        let sectors = after.iter().zip(&self.promised).zip(&self.submitted);
        for ((found, _), submitted) in sectors.clone() {
            assert!(found <= submitted, "a version that was never written");
        }
        sectors.filter(|((found, promised), _)| found < promised).count()
    }
}

/// One run at depth 1 per place (no two writes of the same sectors in flight), cut at the end.
fn lost_after_cut(drive: Box<dyn Drive>, seed: u64, mode: CutMode) -> usize {
    let mut rng = Rng::new(seed);
    let mut event_loop = EventLoop::new(drive);
    let mut now = Instant::ZERO;
    for version in 1..=rng.between(50, 400) {
        now = Instant::from_ns(now.ns + rng.below(400_000));
        event_loop.advance(now);
        let (kind, length) = match rng.below(30) {
            0 => (DriveOpKind::Flush, 0),
            1 => (DriveOpKind::Write { fua: true }, rng.between(1, 40)),
            _ => (DriveOpKind::Write { fua: false }, rng.between(1, 40)),
        };
        let sector = if length == 0 { 0 } else { rng.below(SECTORS - length) };
        let range = (sector * 512, (sector + length) * 512);
        let overlaps = event_loop.in_flight.values().any(|(_, what)| match what {
            InFlight::Write(Write { offset_bytes, contents: Contents::Data(data), .. }) => {
                *offset_bytes < range.1 && range.0 < offset_bytes + data.len() as u64 * 512
            }
            _ => false,
        });
        if !overlaps {
            let op = DriveOp { kind, offset_bytes: range.0, length_bytes: length * 512 };
            event_loop.submit(now, op, version);
        }
    }
    let wait = if rng.below(2) == 0 { rng.below(300_000_000) } else { rng.below(1_000_000) };
    event_loop.cut(Instant::from_ns(now.ns + wait), &mut rng, mode)
}

fn drive(known: &KnownSpec) -> Box<dyn Drive> {
    let options = BuildOptions { capacity_bytes: Some(1 << 30), ..BuildOptions::default() };
    build(&known.spec(), options).expect("possible")
}

#[test]
fn what_a_flush_promised_survives_every_cut() {
    for known in SPECS {
        let original = drive(known);
        for seed in 0..12 {
            for mode in [CutMode::KeepAll, CutMode::DropAll, CutMode::RandomSubset] {
                let lost = lost_after_cut(original.fork(), seed, mode);
                assert_eq!(lost, 0, "{} seed {seed} {mode:?}", known.name);
            }
        }
    }
}

/// The same check must fail for a drive that lies about its flushes, or it proves nothing.
#[test]
fn a_drive_that_lies_about_flushes_is_caught() {
    let names = ["wd100efax", "960evo"];
    for known in SPECS.iter().filter(|known| names.contains(&known.name)) {
        let lie = FaultScript::of([FaultRule::by_chance(Fault::IgnoreFlush, 1_000_000)]);
        let original = Faulty::new(drive(known), DeviceId(0), lie, 1);
        let lost: usize =
            (0..12).map(|seed| lost_after_cut(original.fork(), seed, CutMode::DropAll)).sum();
        assert!(lost > 0, "{}", known.name);
    }
}
