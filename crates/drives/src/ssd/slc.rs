//! How long does programming take while there is an SLC cache, and after?
//!
//! Source: models §6.1 (pSLC) and §6.2; [BCW Figs 14, 15] for what it does to latency.
//!
//! Divergence from a real drive: the cache is a count of units; it has no place of its own on the
//! flash, and folding in idle time moves nothing in the page map.

use crate::spec::{SlcOverflow, SlcSpec};

/// The SLC cache of a drive.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    size_units: u64,
    pub(super) used_units: u64,
    program_ns: u64,
    overflow: SlcOverflow,
    idle_ns: u64,
    /// Time that folding one unit takes, all dies at work.
    fold_ns: u64,
    native_ns: u64,
    read_ns: u64,
    /// Units folded so far: each is programmed a second time.
    pub(super) folded_units: u64,
    /// Units that were in the cache before the run began. Folding them takes time, but is no
    /// write amplification of the run's own writes.
    old_units: u64,
}

impl SlcCache {
    pub(super) fn new(
        spec: &SlcSpec,
        unit_bytes: u64,
        native_ns: u64,
        read_ns: u64,
        dies: u32,
    ) -> Self {
        SlcCache {
            size_units: spec.size.get().0 / unit_bytes,
            used_units: 0,
            program_ns: spec.program.get().0,
            overflow: spec.overflow.get(),
            idle_ns: spec.idle.get().0,
            fold_ns: ((native_ns + read_ns) / u64::from(dies)).max(1),
            native_ns,
            read_ns,
            folded_units: 0,
            old_units: 0,
        }
    }

    /// Nothing is left of it.
    pub(super) fn fill(&mut self) {
        self.used_units = self.size_units;
        self.old_units = self.size_units;
    }

    /// Takes one unit and says how long programming it takes.
    pub(super) fn program(&mut self) -> u64 {
        if self.used_units < self.size_units {
            self.used_units += 1;
            return self.program_ns;
        }
        match self.overflow {
            SlcOverflow::Direct => self.native_ns,
            SlcOverflow::Fold => {
                self.folded_units += 1;
                self.native_ns + self.read_ns + self.program_ns
            }
        }
    }

    /// The drive was left alone from `last_ns` to `now_ns`: it folds. Returns when it did.
    pub(super) fn fold_idle(&mut self, last_ns: u64, now_ns: u64) -> Option<(u64, u64)> {
        let begin = last_ns + self.idle_ns;
        if self.used_units == 0 || now_ns <= begin {
            return None;
        }
        let folded = ((now_ns - begin) / self.fold_ns).min(self.used_units);
        self.used_units -= folded;
        // the oldest go first
        let old = folded.min(self.old_units);
        self.old_units -= old;
        self.folded_units += folded - old;
        (folded > 0).then_some((begin, begin + folded * self.fold_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, load};

    #[test]
    fn what_was_there_before_is_folded_but_not_counted() {
        let ModelSpec::Ssd(spec) = load("960evo").expect("known").model else { panic!("an SSD") };
        let spec = spec.slc.expect("it has a cache");
        let mut slc = SlcCache::new(&spec, 48 << 10, 2_250_000, 55_000, 16);
        slc.fill();
        let before = slc.used_units;
        let (begin, end) = slc.fold_idle(0, 1_000_000_000).expect("it is idle for a second");
        let folded = (end - begin) / slc.fold_ns;
        assert_eq!((slc.used_units, slc.folded_units), (before - folded, 0));
        slc.program();
        assert!(slc.fold_idle(0, u64::MAX / 2).is_some());
        assert_eq!((slc.used_units, slc.folded_units), (0, 1), "the one that the run wrote");
    }
}
