//! What may a crash bring back, and what does it?

use super::plain::{Below, View, may_be};
use super::pool::Fs;
use std::collections::BTreeMap;
use tandem_block::Rng;
use tandem_names::SetAttributes;
use tandem_sim::campaign::MODES;

/// What was met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub steps: u64,
    pub refused: u64,
    pub cuts: u64,
    /// Cuts that left something older than what was seen.
    pub older: u64,
    pub restarts: u64,
    pub crashes: u64,
    pub checkpoints: u64,
    pub commits: u64,
    pub redirected: u64,
    /// Snapshots taken, the batches of all of them, and cuts after which one was not there yet, or still was.
    pub snapshots: u64,
    pub snapshot_batches: u64,
    pub undecided: u64,
}

/// All that a crash may bring back, and how often it is tried.
pub struct Past {
    /// Since the last flush, oldest first; the last one is what is seen, or will be.
    pub views: Vec<View>,
    /// What each snapshot has to show, and those that may be there or not.
    pub kept: BTreeMap<Vec<u8>, Below>,
    pub may: BTreeMap<Vec<u8>, Below>,
    pub stride: u64,
    pub events: u64,
    pub rng: Rng,
    pub counts: Counts,
}

impl Past {
    /// Cuts the power in a fork now and then; the views are those that may be found.
    pub fn event(&mut self, fs: &Fs) {
        self.events += 1;
        if self.events.is_multiple_of(self.stride) {
            self.cut(fs);
        }
    }

    pub fn cut(&mut self, fs: &Fs) -> (Fs, View) {
        self.counts.cuts += 1;
        let mode = MODES[(self.counts.cuts % 3) as usize];
        let mut fork = fs.cut(mode, &mut self.rng);
        let seen = fork.look();
        let seed = fs.config.seed;
        let state = self.views.iter().rposition(|view| view.nodes == seen.nodes);
        let Some(state) = state else {
            panic!(
                "seed {seed}, cut {}: never was so: {seen:?}\n{:?}",
                self.counts.cuts, self.views
            )
        };
        self.counts.older += u64::from(state + 1 < self.views.len());
        for (file, bytes) in &seen.contents {
            for (at, byte) in bytes.iter().enumerate() {
                let may_be = may_be(&self.views, *file, at, *byte, state);
                assert!(may_be, "seed {seed}, {file:?}: byte {at} is {byte}");
            }
        }
        let snapshots = fork.snapshots();
        for (name, below) in &snapshots {
            let should = self.kept.get(name).or_else(|| self.may.get(name));
            assert_eq!(Some(below), should, "seed {seed}: a snapshot shows what it should");
        }
        let is_there = |name: &Vec<u8>| snapshots.contains_key(name);
        assert!(self.kept.keys().all(is_there), "seed {seed}: snapshots stay");
        self.counts.undecided += u64::from(!self.may.is_empty());
        if self.counts.cuts.is_multiple_of(4) {
            assert_growth_is_zeroes(fork.clone(), &seen);
        }
        (fork, seen)
    }
}

/// What a crash left behind the ends of files never shows.
fn assert_growth_is_zeroes(mut fs: Fs, seen: &View) {
    for (file, bytes) in &seen.contents {
        let grown = bytes.len() as u64 + 9000;
        let set = SetAttributes { size_bytes: Some(grown), ..SetAttributes::default() };
        fs.set(*file, &set, 1, &mut |_| {}).expect("it can grow");
        let after = fs.read(*file);
        assert_eq!(after[..bytes.len()], bytes[..], "what was there stays");
        assert!(after[bytes.len()..].iter().all(|byte| *byte == 0), "{file:?} grew over zeroes");
    }
    fs.assert_sound();
}
