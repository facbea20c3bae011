//! Which extents does the SSD hold, which are promoted, and which are demoted?
//!
//! Source: [LORIS §III, §IV]; requirements L5 to L19. One account for all volumes whose tier has a share
//! of the SSDs, as the paper's plugins have: what is touched goes to one collector, and the coldest
//! extent leaves, whosever it is. An extent that is held has its whole room reserved, so that what is
//! held always fits. Nothing here reads or writes: the engine asks what to move, and tells what became
//! of it.
//!
//! ```text
//!             read from a hard drive ─▶ waiting ─┐
//!             the hottest, at intervals ─────────┼─▶ held ──▶ demoting ─▶ gone
//!             written to the SSD ────────────────┘   (room: the collector's victim leaves)
//! ```

mod stats;

pub use self::stats::SpaceStats;
use super::benefit::{Benefit, DriveCosts};
use super::collect::{self, CollectConfig, CollectError, Collector, EXTENTS_MAX, Extent, Touch};
use super::settings::{self, AUTO, NEVER, UNBOUNDED};
use super::sieve::Reads;
use super::{Class, Classes, Comes, TierConfig};
use std::collections::{BTreeSet, VecDeque};
use tandem_block::{BLOCK_BYTES, Duration, Instant};

/// Extents that wait to come, at most: what was read last is more likely to be read again than what
/// would wait behind it (guess).
const WAITING_MAX: usize = 1024;
/// Extents that are on their way out, at most: beyond, no other one can come (guess).
const DEMOTING_MAX: usize = 4096;
/// Of what is held, the aggressive cleaner frees this part at once (guess: requirements L21 says only
/// "aggressive").
const AGGRESSIVE_PART: u32 = 8;
/// Of the SSDs' slots, in percent, what a space has unless told otherwise: new versions of blocks lie
/// beside the old ones until they are durable, and so do tail copies (guess).
const AUTO_PERCENT: u64 = 70;

/// Of the hottest, how many are looked at in one step that are not worth their moves (guess).
const UNWORTHY_MAX: usize = 64;

/// How a space is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpaceConfig {
    /// A tier that has a share; of its settings those of the space count.
    pub(crate) tier: TierConfig,
    /// The interval of those that have one.
    pub(crate) interval: Option<Duration>,
    /// The most reads that any volume asks for.
    pub(crate) reads: u8,
}

/// What frees room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleaner {
    Foreground,
    Background,
    Aggressive,
}

/// What became of a purpose for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It was held before.
    Held,
    /// It is held now.
    Taken,
    /// There is no room, or it is colder than what would have to go.
    Refused,
}

/// Who wants an extent to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoomFor {
    /// It is written, and belongs here.
    Write,
    /// A hard drive is read for a user, who may read all of it.
    Read,
    /// It comes by itself.
    Move,
}

/// The account.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    collector: Box<dyn Collector>,
    /// Blocks of an extent, as a power of two.
    shift: u32,
    classes: Classes,
    held: u32,
    held_max: u32,
    /// Extents held of which what was written stays there alone.
    keeping: u32,
    waiting: VecDeque<Extent>,
    is_waiting: BTreeSet<Extent>,
    demoting: BTreeSet<Extent>,
    interval: Option<Duration>,
    interval_due: Instant,
    /// Something was touched since the last one: without, nothing is hotter than it was.
    stirred: bool,
    /// The hottest come, until none is hot enough, or as many did as may.
    interval_open: bool,
    /// Extents that may still come at this interval, and at each.
    moves_left: u64,
    moves_max: u64,
    reads: Reads,
    /// None: nobody asks what a move is worth.
    benefit: Option<Benefit>,
    cleaner: Cleaner,
    /// Extents that left because a write wanted their room, since the cleaner ran last (L18).
    wanted_by_writes: u32,
    stats: SpaceStats,
}

impl Space {
    /// For SSDs with so many slots, and so many logical blocks in all.
    ///
    /// # Errors
    /// If the space is smaller than an extent, or the collector cannot be made for it.
    pub(crate) fn new(
        config: &SpaceConfig,
        slots: u64,
        blocks: u64,
    ) -> Result<Space, CollectError> {
        let get = |setting: &str| config.tier.get(setting);
        let extent_blocks = get(settings::EXTENT.name) / BLOCK_BYTES;
        assert!(extent_blocks.is_power_of_two(), "checked with the configuration");
        let room = match get(settings::SIZE.name) {
            AUTO => slots * AUTO_PERCENT / 100,
            bytes => (bytes / BLOCK_BYTES).min(slots * 9 / 10),
        };
        let bounded = |extents: u64| u32::try_from(extents).unwrap_or(u32::MAX).min(EXTENTS_MAX);
        let held_max = bounded(room / extent_blocks).min(EXTENTS_MAX / 2);
        // all extents, but no more than eight times what is held (a million at least): the coldest are
        // forgotten
        let all = bounded(blocks.div_ceil(extent_blocks));
        let tracked_max = all.min(held_max.saturating_mul(8).max(1 << 20)).max(held_max + 1);
        let half_life = get(settings::HALF_LIFE.name);
        let collect = CollectConfig {
            epoch: (half_life != NEVER).then(|| Duration::from_ns(half_life)),
            ..CollectConfig::new(held_max, tracked_max)
        };
        let name = settings::collector_name(get(settings::COLLECTOR.name));
        Ok(Space {
            collector: collect::build(name, &collect)?,
            shift: extent_blocks.trailing_zeros(),
            classes: Classes::new(blocks.div_ceil(extent_blocks)),
            held: 0,
            held_max,
            keeping: 0,
            waiting: VecDeque::new(),
            is_waiting: BTreeSet::new(),
            demoting: BTreeSet::new(),
            interval: config.interval,
            interval_due: config
                .interval
                .map_or(Instant::NEVER, |interval| Instant::ZERO + interval),
            stirred: false,
            interval_open: false,
            moves_left: 0,
            moves_max: get(settings::MOVES.name),
            reads: Reads::new(config.reads),
            benefit: match get(settings::PAYS_WITHIN.name) {
                UNBOUNDED => None,
                ns => Some(Benefit::new(Duration::from_ns(ns), blocks.div_ceil(extent_blocks))),
            },
            cleaner: match get(settings::CLEANER.name) {
                1 => Cleaner::Background,
                2 => Cleaner::Aggressive,
                _ => Cleaner::Foreground,
            },
            wanted_by_writes: 0,
            stats: SpaceStats::default(),
        })
    }

    /// What is believed of the drives, if it matters here.
    pub(crate) fn price(&mut self, costs: DriveCosts) {
        if let Some(benefit) = &mut self.benefit {
            benefit.price(costs);
        }
    }

    /// A hard drive is needed for a user's read of these blocks.
    pub(crate) fn note_missed(&mut self, first: u64, end: u64) {
        let shift = self.shift;
        let extents = self.extents(first, end);
        let Some(benefit) = &mut self.benefit else { return };
        for extent in extents {
            let from = first.max(extent.0 << shift);
            let to = end.min((extent.0 + 1) << shift);
            benefit.missed(extent, (to - from) * BLOCK_BYTES);
        }
    }

    /// The extent of a logical block.
    #[inline]
    pub(crate) fn extent_of(&self, block: u64) -> Extent {
        Extent(block >> self.shift)
    }

    /// Its first block, and the one behind its last.
    pub(crate) fn blocks_of(&self, extent: Extent) -> (u64, u64) {
        (extent.0 << self.shift, (extent.0 + 1) << self.shift)
    }

    /// The extents of a range of blocks.
    fn extents(&self, first: u64, end: u64) -> impl Iterator<Item = Extent> + use<> {
        assert!(first < end, "a request touches a block");
        (first >> self.shift..=(end - 1) >> self.shift).map(Extent)
    }

    /// These blocks are of this class from now on; of no tier with a share, if there is none.
    pub(crate) fn classify(&mut self, first: u64, end: u64, class: Option<Class>) {
        for extent in self.extents(first, end) {
            self.note_class(extent, class);
        }
    }

    #[inline]
    fn note_class(&mut self, extent: Extent, class: Option<Class>) {
        if !self.classes.note(extent, class) || !self.is_held(extent) {
            return;
        }
        if self.classes.keeps_alone(extent) {
            self.keeping += 1;
        } else {
            assert!(self.keeping > 0, "what is kept alone is counted");
            self.keeping -= 1;
        }
        assert!(self.keeping <= self.held, "only what is held is kept alone");
    }

    /// It is held from now on.
    fn hold(&mut self, extent: Extent) {
        assert!(!self.demoting.contains(&extent), "what leaves is not held");
        self.collector.promoted(extent);
        self.held += 1;
        self.keeping += u32::from(self.classes.keeps_alone(extent));
        assert!(self.keeping <= self.held && self.held <= self.held_max, "what is held fits");
    }

    /// It was held until now.
    fn note_unheld(&mut self, extent: Extent) {
        let kept = u32::from(self.classes.keeps_alone(extent));
        assert!(self.held > 0 && self.keeping >= kept, "what is held is counted");
        self.held -= 1;
        self.keeping -= kept;
        assert!(self.keeping <= self.held, "only what is held is kept alone");
    }

    /// When does this block come, if a hard drive was read for it?
    #[inline]
    pub(crate) fn comes(&self, block: u64) -> Comes {
        self.classes.comes(self.extent_of(block))
    }

    /// Is it held, and does what was written to it stay there alone?
    #[inline]
    pub(crate) fn keeps(&self, block: u64) -> bool {
        let extent = self.extent_of(block);
        self.classes.keeps_alone(extent) && self.is_held(extent)
    }

    /// Extents of which that is so.
    pub(crate) fn keeping(&self) -> u32 {
        self.keeping
    }

    /// A request of this class touches these blocks. Are all their extents held?
    #[inline]
    pub(crate) fn touched(&mut self, now: Instant, first: u64, end: u64, class: Class) -> bool {
        let mut all = true;
        self.stirred = true;
        let shift = self.shift;
        for extent in self.extents(first, end) {
            self.note_class(extent, Some(class));
            let from = first.max(extent.0 << shift);
            let to = end.min((extent.0 + 1) << shift);
            let touch = Touch { extent, bytes: (to - from) * BLOCK_BYTES, now };
            all &= self.collector.touched(&touch);
        }
        all
    }

    /// Is the extent held?
    #[inline]
    pub(crate) fn is_held(&self, extent: Extent) -> bool {
        self.collector.is_held(extent)
    }

    /// A hard drive is read for an extent that may come when it is read. True: there is room for it, and it
    /// comes now; otherwise it does not come, or waits already. `alone` says how many of a range of blocks
    /// lie on the SSD alone.
    pub(crate) fn may_come_at_once(
        &mut self,
        extent: Extent,
        alone: impl Fn((u64, u64)) -> u64,
    ) -> bool {
        if self.is_held(extent) {
            return true; // a part of it is missing
        }
        if self.is_waiting.contains(&extent) {
            return false;
        }
        if !self.reads.may_come(extent) {
            self.stats.sieved_reads += 1;
            return false;
        }
        let taken = self.take_room(extent, RoomFor::Read, &alone) == Claim::Taken;
        self.stats.came += u64::from(taken);
        taken
    }

    /// A hard drive is read for these blocks, of several extents: those that may come wait.
    pub(crate) fn missed(&mut self, first: u64, end: u64) {
        for extent in self.extents(first, end) {
            if self.is_waiting.contains(&extent) {
                continue;
            }
            if !self.is_held(extent) && !self.reads.may_come(extent) {
                self.stats.sieved_reads += 1;
            } else if self.waiting.len() == WAITING_MAX {
                self.stats.forgone += 1;
            } else {
                self.is_waiting.insert(extent);
                self.waiting.push_back(extent);
            }
        }
        assert!(self.waiting.len() == self.is_waiting.len(), "an extent waits once");
    }

    /// These blocks are to be written to the SSD: takes room for all of their extents. False: for some
    /// there is none, and they belong on a hard drive.
    pub(crate) fn claim(&mut self, first: u64, end: u64) -> bool {
        let mut all = true;
        for extent in self.extents(first, end) {
            match self.take_room(extent, RoomFor::Write, &|_| 0) {
                Claim::Taken => self.stats.claimed += 1,
                Claim::Held => {}
                Claim::Refused => all = false,
            }
        }
        all
    }

    /// Makes room for an extent, if it has none.
    fn take_room(
        &mut self,
        extent: Extent,
        purpose: RoomFor,
        alone: &impl Fn((u64, u64)) -> u64,
    ) -> Claim {
        let for_write = purpose == RoomFor::Write;
        if self.is_held(extent) {
            return Claim::Held;
        }
        // what is written is new, and belongs here whatever its heat; what is read has to be hotter than
        // what it would drive out (L9)
        if !for_write && !self.collector.qualifies(extent) {
            self.stats.unqualified += 1;
            return Claim::Refused;
        }
        if !for_write && !self.pays(extent, purpose == RoomFor::Read, alone) {
            self.stats.unpaid += 1;
            return Claim::Refused;
        }
        if self.held >= self.held_max {
            if !self.let_go(Some(extent)) {
                self.stats.full += 1;
                return Claim::Refused;
            }
            if for_write {
                self.wanted_by_writes += 1;
                self.clean_ahead();
            }
        }
        self.demoting.remove(&extent);
        self.hold(extent);
        Claim::Taken
    }

    /// Is the extent worth its move, and that of the one that has to leave for it?
    fn pays(&mut self, extent: Extent, rides: bool, alone: &impl Fn((u64, u64)) -> u64) -> bool {
        let Some(benefit) = &self.benefit else { return true };
        let is_full = self.held >= self.held_max;
        let victim = if is_full { self.collector.victim(Some(extent)) } else { None };
        let home_blocks = victim.map_or(0, |victim| alone(self.blocks_of(victim)));
        benefit.pays(extent, self.extent_blocks(), rides, home_blocks)
    }

    /// Lets the extent go that the collector can best do without. False: there is none, or too many are
    /// on their way out.
    fn let_go(&mut self, comes: Option<Extent>) -> bool {
        if self.demoting.len() >= DEMOTING_MAX {
            return false;
        }
        let Some(victim) = self.collector.victim(comes) else { return false };
        self.give_up(victim);
        self.stats.left += 1;
        true
    }

    fn give_up(&mut self, extent: Extent) {
        assert!(self.is_held(extent), "only what is held is given up");
        self.collector.demoted(extent);
        self.note_unheld(extent);
        let begins = self.demoting.insert(extent);
        assert!(begins, "what was held did not leave yet");
    }

    /// L18: a write had to wait for room, so more is made at once.
    fn clean_ahead(&mut self) {
        let more = match self.cleaner {
            Cleaner::Foreground => return,
            Cleaner::Background => std::mem::take(&mut self.wanted_by_writes),
            Cleaner::Aggressive => self.held_max / AGGRESSIVE_PART,
        };
        for _ in 0..more.min(self.held.saturating_sub(1)) {
            if !self.let_go(None) {
                return;
            }
            self.stats.cleaned += 1;
        }
    }

    /// The next extent that is to come; its room is taken. `alone` says how many of a range of blocks lie on
    /// the SSD alone.
    pub(crate) fn next_to_come(&mut self, alone: impl Fn((u64, u64)) -> u64) -> Option<Extent> {
        while let Some(extent) = self.waiting.pop_front() {
            let was_waiting = self.is_waiting.remove(&extent);
            assert!(was_waiting, "an extent waits once");
            match self.take_room(extent, RoomFor::Move, &alone) {
                Claim::Taken => {
                    self.stats.came += 1;
                    return Some(extent);
                }
                // a part of it is missing: it was written elsewhere, or given up when space was short
                Claim::Held => return Some(extent),
                Claim::Refused => {}
            }
        }
        if !self.interval_open {
            return None;
        }
        for _ in 0..UNWORTHY_MAX {
            let unpaid = self.stats.unpaid;
            let Some(extent) = self.collector.hottest() else { break };
            if self.take_room(extent, RoomFor::Move, &alone) == Claim::Taken {
                self.stats.came += 1;
                assert!(self.moves_left > 0, "no more come at an interval than may");
                self.moves_left -= 1;
                self.interval_open = self.moves_left > 0;
                return Some(extent);
            }
            if self.stats.unpaid == unpaid {
                break;
            }
            // it begins anew: as the hottest it would stand before all others for ever
            self.collector.removed(extent);
        }
        self.interval_open = false;
        None
    }

    /// It cannot come now: it waits behind the others.
    pub(crate) fn come_later(&mut self, extent: Extent) {
        if self.waiting.len() == WAITING_MAX {
            self.stats.forgone += 1;
        } else if self.is_waiting.insert(extent) {
            self.waiting.push_back(extent);
        }
    }

    /// Does anything want to come?
    #[inline]
    pub(crate) fn has_to_come(&self) -> bool {
        self.interval_open || !self.waiting.is_empty()
    }

    /// Time passes.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if let Some(benefit) = &mut self.benefit {
            benefit.advance(now);
        }
        if self.stirred
            && now >= self.interval_due
            && let Some(interval) = self.interval
        {
            self.interval_open = true;
            self.moves_left = self.moves_max;
            self.stirred = false;
            self.interval_due = now + interval;
        }
    }

    /// When the next interval ends, if anything may have become hotter in it.
    pub(crate) fn due(&self) -> Instant {
        if self.stirred { self.interval_due } else { Instant::NEVER }
    }

    /// Extents that are on their way out, from this one on.
    pub(crate) fn demoting_from(&self, from: Extent) -> impl Iterator<Item = Extent> + '_ {
        self.demoting.range(from..).copied()
    }

    /// How many there are.
    pub(crate) fn demoting(&self) -> usize {
        self.demoting.len()
    }

    /// Is half as much on its way out as may be? Beyond all of it writes find no room.
    pub(crate) fn much_is_demoting(&self) -> bool {
        self.demoting.len() >= DEMOTING_MAX / 2
    }

    /// An extent has left.
    pub(crate) fn gone(&mut self, extent: Extent) {
        let was_leaving = self.demoting.remove(&extent);
        assert!(was_leaving, "only what leaves has left");
    }

    /// A block of it is on the SSD although it is not held: it is to be brought away. False: too many are.
    pub(crate) fn bring_away(&mut self, extent: Extent) -> bool {
        if self.is_held(extent) || self.demoting.len() >= 2 * DEMOTING_MAX {
            return self.is_held(extent);
        }
        self.demoting.insert(extent);
        true
    }

    /// The SSD was found to have blocks of this extent at start. False: there is no room for it.
    pub(crate) fn found(&mut self, extent: Extent) -> bool {
        if self.is_held(extent) {
            return true;
        }
        if self.held == self.held_max {
            return false;
        }
        self.hold(extent);
        true
    }

    /// These blocks belong to nobody any more.
    pub(crate) fn removed(&mut self, first: u64, end: u64) {
        for extent in self.extents(first, end) {
            let (from, to) = self.blocks_of(extent);
            let is_whole = from >= first && to <= end;
            if is_whole {
                if self.is_held(extent) {
                    self.note_unheld(extent);
                }
                self.collector.removed(extent);
                self.demoting.remove(&extent);
            }
        }
    }

    /// Extents held, and how many may be.
    pub(crate) fn held(&self) -> (u32, u32) {
        (self.held, self.held_max)
    }

    /// Blocks of an extent.
    pub(crate) fn extent_blocks(&self) -> u64 {
        1 << self.shift
    }

    /// Counters.
    pub(crate) fn stats(&self) -> SpaceStats {
        self.stats
    }

    /// What the collector takes, the classes, and what is remembered of reads.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let benefit = self.benefit.as_ref().map_or(0, Benefit::memory_bytes);
        self.collector.memory().bytes + self.classes.bytes() + benefit
    }
}

#[cfg(test)]
mod tests;
