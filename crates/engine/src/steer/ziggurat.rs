//! Where does this write go now? To a hard drive if it is large and nobody is likely to wait for it with a FLUSH.
//!
//! Source:  Ziggurat (FAST 2019), which was remembered and not at hand; P19 of the requirements. It predicts
//!          two things of each file. A file is written synchronously if few blocks come between two fsyncs.
//!          Its writes are large if several in a row were. What is large and asynchronous goes to the disk,
//!          everything else to the fast memory.
//! Names:   blocks between two fsyncs → asynchronous, blocks of a large write → size, writes in a row → in_a_row
//! Differs: * its fast memory takes asynchronous writes into the page cache first; here they go to a log at once;
//!          * it predicts by file. Here it is by extent, since a volume is one object and has no files. A FLUSH of
//!            an object counts for all of its extents;
//!          * it counts large writes by what they replace. Here also a write counts that begins where the last one
//!            of its extent ended;
//!          * extents whose numbers are equal modulo the size of the table share a line, which the last one has.
//! Tests:   below, a row per condition.

use super::settings::{Kind, Setting, SteerConfig};
use super::{Decision, PolicyEntry, Reason, Seen, Steer, SteerView};
use crate::bcw::controller::Control;
use tandem_block::{BLOCK_BYTES, Instant, KIB, MIB, ObjectId};

/// Extents that are remembered (guess): 64 GiB of the default size.
const EXTENTS: usize = 1024;
/// Objects whose FLUSHes are told apart (guess). Others share a count, and look more synchronous.
const OBJECTS: usize = 64;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ziggurat",
    summary: "to a hard drive what is large and nobody flushes soon, by predictions for each extent",
    source: "Ziggurat (FAST 2019), from memory",
    needs: (1, 1),
    settings: &[
        Setting::new(
            "asynchronous",
            Kind::Bytes,
            4 * MIB,
            4 * KIB..=1 << 40,
            "an extent of which so much is written between two FLUSHes is asynchronous",
        ),
        Setting::new("size", Kind::Bytes, 64 * KIB, 512..=32 * MIB, "a write of so much is large"),
        Setting::new(
            "in_a_row",
            Kind::Count,
            4,
            0..=255,
            "so many large or sequential writes before one make it large, too",
        ),
        Setting::new(
            "extent",
            Kind::Bytes,
            64 * MIB,
            64 * KIB..=1 << 40,
            "predictions are for so much of a volume",
        ),
    ],
    build: |config, _| Box::new(Ziggurat::new(config)),
};

/// What is known of one extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    number: u64,
    /// Where its last write ended, in blocks.
    end: u64,
    /// Written since the last FLUSH of its object, and before that FLUSH since the one before.
    bytes: u64,
    bytes_before: u64,
    /// FLUSHes of its object when it was last written.
    flushes: u32,
    /// Large or sequential writes in a row.
    in_a_row: u8,
}

#[derive(Clone, Debug)]
struct Ziggurat {
    asynchronous_bytes: u64,
    size_bytes: u64,
    in_a_row: u64,
    extent_blocks: u64,
    extents: Vec<Extent>,
    flushes: [u32; OBJECTS],
}

/// What is predicted of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Predicted {
    large: bool,
    synchronous: bool,
}

impl Ziggurat {
    fn new(config: &SteerConfig) -> Self {
        Ziggurat {
            asynchronous_bytes: config.get("asynchronous"),
            size_bytes: config.get("size"),
            in_a_row: config.get("in_a_row"),
            extent_blocks: config.get("extent").div_ceil(BLOCK_BYTES),
            extents: vec![Extent::default(); EXTENTS],
            flushes: [0; OBJECTS],
        }
    }

    /// Predicts a write from those before it, and learns from it.
    fn predict(&mut self, view: &SteerView<'_>) -> Predicted {
        let number = view.logical / self.extent_blocks;
        let flushes = self.flushes[line(view.object.0, OBJECTS)];
        let extent = &mut self.extents[line(number, EXTENTS)];
        if extent.number != number {
            *extent = Extent { number, flushes, ..Extent::default() };
        }
        if extent.flushes != flushes {
            (extent.bytes_before, extent.bytes) = (extent.bytes, 0);
            extent.flushes = flushes;
        }
        let is_long = view.request_bytes >= self.size_bytes;
        let is_sequential = extent.end != 0 && extent.end == view.logical;
        let predicted = Predicted {
            large: (is_long || is_sequential) && u64::from(extent.in_a_row) >= self.in_a_row,
            synchronous: extent.bytes.max(extent.bytes_before) < self.asynchronous_bytes,
        };
        extent.in_a_row =
            if is_long || is_sequential { extent.in_a_row.saturating_add(1) } else { 0 };
        extent.bytes = extent.bytes.saturating_add(view.request_bytes);
        extent.end = view.logical + view.bytes / BLOCK_BYTES;
        predicted
    }
}

/// The line of a table of so many that something has.
fn line(number: u64, lines: usize) -> usize {
    (number % lines as u64) as usize
}

impl Steer for Ziggurat {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        let predicted = self.predict(view);
        if !predicted.large {
            return Decision::stay(Reason::SmallWrite);
        }
        if predicted.synchronous {
            return Decision::stay(Reason::Synchronous);
        }
        match view.soonest_hdd() {
            None => Decision::stay(Reason::NotAccepting),
            Some(hdd) => Decision::go(hdd, Reason::LargeWrite),
        }
    }

    fn weighs_time(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(Control::Bare)
    }

    fn learns(&self) -> bool {
        true
    }

    fn observe(&mut self, _: Instant, seen: &Seen) {
        if let &Seen::Flush { object: ObjectId(object) } = seen {
            let flushes = &mut self.flushes[line(object, OBJECTS)];
            *flushes = flushes.wrapping_add(1);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::Target;
    use crate::steer::test_views::{hdd, ssd, view};
    use tandem_block::DeviceId;

    /// What happens to a volume: writes of so many KiB, each behind the last or at one place, and FLUSHes.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Behind(u64),
        Again(u64),
        Flush,
        FlushOfAnother,
    }
    use Event::{Again, Behind, Flush, FlushOfAnother};

    /// The reason of the last write.
    fn last(ziggurat: &mut Ziggurat, events: impl IntoIterator<Item = Event>) -> Reason {
        let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
        let (mut at, mut reason) = (5, Reason::Policy);
        for event in events {
            let now = Instant::from_ns(1);
            let (logical, kib) = match event {
                Behind(kib) => (at, kib),
                Again(kib) => (1000, kib),
                Flush => {
                    ziggurat.observe(now, &Seen::Flush { object: ObjectId(0) });
                    continue;
                }
                FlushOfAnother => {
                    ziggurat.observe(now, &Seen::Flush { object: ObjectId(1) });
                    continue;
                }
            };
            let mut view = view(&ssds, &hdds);
            (view.logical, view.request_bytes, view.bytes) = (logical, kib * KIB, kib * KIB);
            at = logical + view.bytes / BLOCK_BYTES;
            let decision = ziggurat.decide(&view);
            reason = decision.reason;
            let wanted = if reason.redirects() { Target::Log(DeviceId(1)) } else { Target::Ssd };
            assert_eq!(decision.target, wanted);
        }
        reason
    }

    /// 4 MiB between two FLUSHes are asynchronous, 64 KiB are large, after four in a row.
    #[test]
    fn p19_large_asynchronous_writes_go_to_the_hard_drive() {
        let long = [Behind(1024); 5];
        let with = |more: &[Event]| long.iter().chain(more).copied().collect::<Vec<Event>>();
        for (events, want) in [
            (vec![Behind(1024)], Reason::SmallWrite),
            (vec![Behind(1024); 4], Reason::SmallWrite),
            (with(&[]), Reason::LargeWrite),
            // large, but not so much since it began
            (vec![Again(64); 10], Reason::Synchronous),
            (vec![Again(64); 66], Reason::LargeWrite),
            (vec![Again(60); 200], Reason::SmallWrite),
            // small ones are large where one follows the other
            (vec![Behind(4); 1024], Reason::Synchronous),
            (vec![Behind(4); 1030], Reason::LargeWrite),
            (with(&[Again(4)]), Reason::SmallWrite),
            (with(&[Again(4), Again(64)]), Reason::SmallWrite),
            // what was written before the last FLUSH predicts what comes behind it, and no further
            (with(&[Flush, Again(64)]), Reason::LargeWrite),
            (with(&[Flush, Again(64), Flush, Again(64)]), Reason::Synchronous),
            (with(&[Flush, FlushOfAnother, Again(64)]), Reason::LargeWrite),
            ([[Behind(1024), Flush]; 20].concat(), Reason::Synchronous),
        ] {
            let mut ziggurat = Ziggurat::new(&SteerConfig::named("ziggurat"));
            let shown: Vec<Event> = events.iter().take(8).copied().collect();
            assert_eq!(last(&mut ziggurat, events), want, "{shown:?} …");
        }
    }

    #[test]
    fn p19_a_hard_drive_that_takes_nothing_is_left_alone() {
        let mut ziggurat = Ziggurat::new(&SteerConfig::named("ziggurat"));
        assert_eq!(last(&mut ziggurat, [Behind(1024); 5]), Reason::LargeWrite);
        let mut drive = hdd(1);
        drive.accepting = false;
        let (ssds, hdds) = ([ssd(0, 0)], [drive]);
        let mut view = view(&ssds, &hdds);
        view.request_bytes = MIB;
        assert_eq!(ziggurat.decide(&view).reason, Reason::NotAccepting);
    }

    #[test]
    fn p19_extents_are_told_apart_in_bounded_memory() {
        let mut ziggurat = Ziggurat::new(&SteerConfig::named("ziggurat"));
        assert_eq!(last(&mut ziggurat, [Behind(1024); 5]), Reason::LargeWrite);
        let extent_blocks = 64 * MIB / BLOCK_BYTES;
        let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
        for (extent, want) in [
            (1, Reason::SmallWrite),
            (0, Reason::LargeWrite),
            // it has the line of the first one now, which begins anew
            (EXTENTS as u64, Reason::SmallWrite),
            (0, Reason::SmallWrite),
        ] {
            let mut view = view(&ssds, &hdds);
            (view.logical, view.request_bytes) = (extent * extent_blocks, MIB);
            assert_eq!(ziggurat.decide(&view).reason, want, "{extent}");
        }
        assert_eq!(ziggurat.extents.len(), EXTENTS);
    }
}
