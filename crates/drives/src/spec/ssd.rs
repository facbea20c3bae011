//! What is true of one SSD? Every parameter of the SSD model.
//!
//! Source: models §4, §6.1 and §6.2.

use super::value::{Bytes, BytesPerSecond, Nanos, Ppm, Sourced};
use serde::Deserialize;
use tandem_block::BLOCK_BYTES;

/// When are lines reclaimed? Counts are lines and pages of this drive and are not scaled with its
/// capacity: what one event costs and how far events lie apart follows from absolute counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GcSpec {
    /// Reclaiming begins at this many free lines.
    pub low_lines: Sourced<u32>,
    /// Victims of one event.
    pub batch_lines: Sourced<u32>,
    /// 0: credit mode, the next event comes after as many host pages as the last one freed.
    /// Otherwise cluster mode: events follow each other until so many lines are free.
    pub high_lines: Sourced<u32>,
    /// Cluster mode: host pages between two events.
    pub gap_pages: Sourced<u32>,
}

/// What happens to writes once the SLC cache is used up?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlcOverflow {
    /// They are programmed directly, in the native mode.
    Direct,
    /// They go through the cache all the same and pay for making room.
    Fold,
}

/// The SLC cache of an SSD (TurboWrite and the like).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcSpec {
    /// Its size in bytes; scaled with the capacity.
    pub size: Sourced<Bytes>,
    /// Programming one unit in SLC mode.
    pub program: Sourced<Nanos>,
    /// What follows when it is used up.
    pub overflow: Sourced<SlcOverflow>,
    /// Quiet time before the drive folds by itself.
    pub idle: Sourced<Nanos>,
}

/// Can a read interrupt a program, an erase or a GC event?
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendSpec {
    /// Longest wait until the die lets the read in.
    pub wait: Sourced<Nanos>,
    /// What the interrupted operation pays for stopping and resuming, beyond the read itself.
    pub cost: Sourced<Nanos>,
    /// How often one program or erase may be interrupted; then the read waits for its end.
    pub limit: Sourced<u32>,
}

/// An SSD.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    /// Usable bytes.
    pub capacity: Sourced<Bytes>,
    /// Flash beyond the usable bytes, as a share of them.
    pub over_provisioning: Sourced<Ppm>,
    /// Units that work in parallel.
    pub dies: Sourced<u32>,
    /// Units of one die that can be read at once; a program or an erase takes the whole die. `None`: 1.
    pub planes: Option<Sourced<u32>>,
    /// Bytes that one die programs at once.
    pub unit: Sourced<Bytes>,
    /// Bytes that one die erases at once.
    pub block: Sourced<Bytes>,
    /// Reading one unit into the die's register. Paper: `tR`.
    pub read: Sourced<Nanos>,
    /// Programming one unit. Paper: `tProg`; an effective value, see models §6.2.
    pub program: Sourced<Nanos>,
    /// Erasing one block. Paper: `tErase`.
    pub erase: Sourced<Nanos>,
    /// Moving one unit between die and controller.
    pub transfer: Sourced<Nanos>,
    /// Rate of the interface.
    pub link: Sourced<BytesPerSecond>,
    /// Do reads and writes share the interface (SATA)?
    pub link_shared: Sourced<bool>,
    /// Over an interface that reads and writes share: does data go in the order of the commands? `None`: it
    /// does. Over any other interface data goes as it is ready.
    pub link_in_order: Option<Sourced<bool>>,
    /// Handling of a read beyond everything else.
    pub read_overhead: Sourced<Nanos>,
    /// Handling of a write beyond everything else.
    pub write_overhead: Sourced<Nanos>,
    /// What one read occupies the controller: the inverse of the rated rate; 0 = no cap.
    pub read_command: Sourced<Nanos>,
    /// What one write occupies the controller.
    pub write_command: Sourced<Nanos>,
    /// Least time between the answers of two writes that follow no stream: the inverse of the rated rate of
    /// random writes. `None`: none.
    pub scattered_write: Option<Sourced<Nanos>>,
    /// Write buffer, in program units.
    pub buffer_units: Sourced<u32>,
    /// What a flush costs beyond programming what is in the buffer.
    pub flush_base: Sourced<Nanos>,
    /// What one TRIM command costs.
    pub trim: Sourced<Nanos>,
    /// Is a write of part of a page answered only when the rest of the page has been read?
    /// `None`: it is not.
    pub part_page_waits: Option<Sourced<bool>>,
    /// Garbage collection.
    pub gc: GcSpec,
    /// `None`: a read waits for whatever the die does.
    pub suspend: Option<SuspendSpec>,
    /// `None`: no SLC cache.
    pub slc: Option<SlcSpec>,
}

impl SsdSpec {
    /// Does a write of part of a page wait until the rest of the page has been read?
    pub fn part_pages_wait(&self) -> bool {
        self.part_page_waits.as_ref().is_some_and(Sourced::get)
    }

    /// Does the data of one command wait for that of the command before it?
    pub fn sends_in_order(&self) -> bool {
        self.link_shared.get() && self.link_in_order.as_ref().is_none_or(Sourced::get)
    }

    /// Units of one die that can be read at once.
    pub fn planes(&self) -> u32 {
        self.planes.as_ref().map_or(1, Sourced::get)
    }

    /// Least time between the answers of two writes that follow no stream, in ns; 0: none.
    pub fn scattered_write_ns(&self) -> u64 {
        self.scattered_write.as_ref().map_or(0, |time| time.get().0)
    }

    /// Pages of 4 KiB in one program unit.
    pub fn unit_pages(&self) -> u32 {
        u32::try_from(self.unit.get().0 / BLOCK_BYTES).expect("validated: a unit is at most 1 MiB")
    }

    /// Pages of 4 KiB in one line: one block of every die.
    pub fn line_pages(&self) -> u32 {
        let block = self.block.get().0 / BLOCK_BYTES;
        let pages = block * u64::from(self.dies.get());
        u32::try_from(pages).expect("validated: a line is at most 64 GiB")
    }

    /// Usable pages of 4 KiB.
    pub fn host_pages(&self) -> u32 {
        u32::try_from(self.capacity.get().0 / BLOCK_BYTES).expect("validated: at most 8 TiB")
    }

    /// Lines of the whole drive: usable and over-provisioned space, two frontiers, and the lines
    /// that garbage collection keeps free.
    pub fn line_count(&self) -> u32 {
        let share = 1_000_000 + self.over_provisioning.get().0.unsigned_abs();
        let raw = u64::from(self.host_pages()) * share;
        let lines = raw.div_ceil(u64::from(self.line_pages()) * 1_000_000);
        let kept = self.gc.low_lines.get().max(self.gc.high_lines.get()) + 2;
        u32::try_from(lines).expect("fewer lines than pages") + kept
    }

    /// The first key whose value makes no sense, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let capacity = self.capacity.get().0;
        let (unit, block) = (self.unit.get().0, self.block.get().0);
        let dies = u64::from(self.dies.get());
        let gc = &self.gc;
        let rules: [(&'static str, bool, &'static str); 15] = [
            ("capacity", (1 << 20..=8 << 40).contains(&capacity), "must be 1MiB to 8TiB"),
            (
                "over_provisioning",
                (0..=4_000_000).contains(&self.over_provisioning.get().0),
                "must be 0% to 400%",
            ),
            ("dies", (1..=1024).contains(&dies), "must be 1 to 1024"),
            ("planes", (1..=64).contains(&self.planes()), "must be 1 to 64"),
            (
                "unit",
                (BLOCK_BYTES..=1 << 20).contains(&unit) && unit.is_multiple_of(BLOCK_BYTES),
                "must be a multiple of 4KiB up to 1MiB",
            ),
            (
                "block",
                block <= 64 << 20 && block >= unit && block.is_multiple_of(unit.max(1)),
                "must be a multiple of unit up to 64MiB",
            ),
            (
                "block",
                (block / BLOCK_BYTES).saturating_mul(dies).is_multiple_of(64),
                "times dies must be a multiple of 64 pages of 4KiB",
            ),
            ("link", self.link.get().0 >= 1_000_000, "must be at least 1MB/s"),
            (
                "buffer_units",
                (1..=1 << 20).contains(&self.buffer_units.get()),
                "must be 1 to 1048576",
            ),
            ("gc.low_lines", (2..=1 << 16).contains(&gc.low_lines.get()), "must be 2 to 65536"),
            ("gc.batch_lines", (1..=1 << 16).contains(&gc.batch_lines.get()), "must be 1 to 65536"),
            (
                "gc.high_lines",
                gc.high_lines.get() == 0
                    || (gc.low_lines.get().saturating_add(1)..=1 << 16)
                        .contains(&gc.high_lines.get()),
                "must be 0 or above low_lines, at most 65536",
            ),
            (
                "gc.gap_pages",
                u64::from(gc.gap_pages.get()) <= (block / BLOCK_BYTES).saturating_mul(dies),
                "must be at most one line",
            ),
            (
                "slc",
                self.slc.as_ref().is_none_or(|slc| slc.size.get().0 <= capacity),
                "size is above capacity",
            ),
            (
                "suspend",
                self.suspend.as_ref().is_none_or(|suspend| suspend.limit.get() > 0),
                "limit must be above 0",
            ),
        ];
        rules
            .into_iter()
            .find(|rule| !rule.1)
            .map(|rule| (rule.0, rule.2))
            .or_else(|| self.endless().map(|key| (key, "must be at most 100s")))
            .or_else(|| {
                let pages = u64::from(self.line_count()) * u64::from(self.line_pages());
                let why = "with over_provisioning is too large: 2^32 pages of 4KiB";
                (pages >= u64::from(u32::MAX)).then_some(("capacity", why))
            })
    }

    /// The first time that is too long.
    fn endless(&self) -> Option<&'static str> {
        let suspend = self.suspend.as_ref();
        let slc = self.slc.as_ref();
        [
            ("read", self.read.get()),
            ("program", self.program.get()),
            ("erase", self.erase.get()),
            ("transfer", self.transfer.get()),
            ("read_overhead", self.read_overhead.get()),
            ("write_overhead", self.write_overhead.get()),
            ("read_command", self.read_command.get()),
            ("write_command", self.write_command.get()),
            ("scattered_write", Nanos(self.scattered_write_ns())),
            ("flush_base", self.flush_base.get()),
            ("trim", self.trim.get()),
            ("suspend.wait", suspend.map_or(Nanos(0), |suspend| suspend.wait.get())),
            ("suspend.cost", suspend.map_or(Nanos(0), |suspend| suspend.cost.get())),
            ("slc.program", slc.map_or(Nanos(0), |slc| slc.program.get())),
            ("slc.idle", slc.map_or(Nanos(0), |slc| slc.idle.get())),
        ]
        .into_iter()
        .find(|time| time.1 > Nanos::MAX)
        .map(|time| time.0)
    }

    /// The first key whose source is not one of the known words.
    pub(super) fn unsourced(&self) -> Option<&'static str> {
        let gc = &self.gc;
        let waits_known =
            self.part_page_waits.as_ref().is_none_or(|waits| waits.has_known_source());
        let order_known = self.link_in_order.as_ref().is_none_or(|order| order.has_known_source());
        let scattered_known =
            self.scattered_write.as_ref().is_none_or(|time| time.has_known_source());
        let gc_known = gc.low_lines.has_known_source()
            && gc.batch_lines.has_known_source()
            && gc.high_lines.has_known_source()
            && gc.gap_pages.has_known_source();
        let planes_known = self.planes.as_ref().is_none_or(Sourced::has_known_source);
        let suspend_known = self.suspend.as_ref().is_none_or(|suspend| {
            suspend.wait.has_known_source()
                && suspend.cost.has_known_source()
                && suspend.limit.has_known_source()
        });
        let slc_known = self.slc.as_ref().is_none_or(|slc| {
            slc.size.has_known_source()
                && slc.program.has_known_source()
                && slc.overflow.has_known_source()
                && slc.idle.has_known_source()
        });
        [
            ("capacity", self.capacity.has_known_source()),
            ("over_provisioning", self.over_provisioning.has_known_source()),
            ("dies", self.dies.has_known_source()),
            ("planes", planes_known),
            ("unit", self.unit.has_known_source()),
            ("block", self.block.has_known_source()),
            ("read", self.read.has_known_source()),
            ("program", self.program.has_known_source()),
            ("erase", self.erase.has_known_source()),
            ("transfer", self.transfer.has_known_source()),
            ("link", self.link.has_known_source()),
            ("link_shared", self.link_shared.has_known_source()),
            ("link_in_order", order_known),
            ("read_overhead", self.read_overhead.has_known_source()),
            ("write_overhead", self.write_overhead.has_known_source()),
            ("read_command", self.read_command.has_known_source()),
            ("write_command", self.write_command.has_known_source()),
            ("scattered_write", scattered_known),
            ("buffer_units", self.buffer_units.has_known_source()),
            ("flush_base", self.flush_base.has_known_source()),
            ("trim", self.trim.has_known_source()),
            ("part_page_waits", waits_known),
            ("gc", gc_known),
            ("suspend", suspend_known),
            ("slc", slc_known),
        ]
        .into_iter()
        .find(|key| !key.1)
        .map(|key| key.0)
    }
}
