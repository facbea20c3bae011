//! What does a drive hold, and what of it survives a power cut?
//!
//! Source: design decision 4 ("contents change at completion, not at submit"; "`cut(t, rng)` gives
//! what survives"). Contents are apart from behaviour: a model says when, the media says what.
//!
//! The sector's content is a parameter: bytes for an emulated drive, a token for a virtual one, and
//! [`Media::none`] keeps nothing at all. Reading what was never written gives zeroes.
//!
//! How an event loop uses it: at an acknowledgement `apply` (never at submit); when a flush is submitted
//! `mark`, when it is acknowledged `settle_upto`; before a power cut `settle(now)`, and
//! `settle_older_than(drive.volatile_bytes(now))` for what has drained by itself; then `cut` with
//! the writes still in flight, and `drive.power_cycle(now)`.
//!
//! Forks are cheap: durable contents are shared chunks, copied when one side writes.

mod ram;
mod ranges;
mod volatile;

#[cfg(test)]
mod tests;

pub use ram::RamStore;
pub use volatile::{Contents, CutMode, Mark, Piece, Volatile, Write};

use std::sync::Arc;
use tandem_block::{Instant, Rng, SECTOR_BYTES, Ticket};

/// What one sector of 512 bytes holds.
pub trait Sector: Clone + PartialEq {
    /// A sector that was never written.
    fn zero() -> Self;
    /// Damages it: bit `bit` of 4096, modulo what it has.
    fn flip(&mut self, bit: u16);
}

impl Sector for [u8; SECTOR_BYTES as usize] {
    fn zero() -> Self {
        [0; SECTOR_BYTES as usize]
    }

    fn flip(&mut self, bit: u16) {
        self[usize::from(bit / 8) % self.len()] ^= 1 << (bit % 8);
    }
}

impl Sector for u64 {
    fn zero() -> Self {
        0
    }

    fn flip(&mut self, bit: u16) {
        *self ^= 1 << (bit % 64);
    }
}

/// The contents of one drive: what is durable, and what a power cut may still take.
#[derive(Clone, Debug)]
pub struct Media<C> {
    kept: Option<Kept<C>>,
}

#[derive(Clone, Debug)]
struct Kept<C> {
    store: RamStore<C>,
    volatile: Volatile<C>,
}

impl<C: Sector> Media<C> {
    /// Contents in memory, all zeroes.
    pub fn ram() -> Self {
        Media { kept: Some(Kept { store: RamStore::default(), volatile: Volatile::default() }) }
    }

    /// No contents: every operation is free and reads give zeroes.
    pub fn none() -> Self {
        Media { kept: None }
    }

    /// Are contents kept?
    pub fn has_contents(&self) -> bool {
        self.kept.is_some()
    }

    /// A write is acknowledged. `durable_at` is its outcome's: `None` means that only a flush or a
    /// drain settles it.
    ///
    /// # Panics
    /// If `offset_bytes` is no multiple of 512.
    pub fn apply_write(
        &mut self,
        ticket: Ticket,
        offset_bytes: u64,
        contents: Arc<[C]>,
        durable_at: Option<Instant>,
    ) {
        self.apply(Write { ticket, offset_bytes, contents: Contents::Data(contents) }, durable_at);
    }

    /// A TRIM is acknowledged: the range reads as zeroes from now on.
    pub fn trim(
        &mut self,
        ticket: Ticket,
        offset_bytes: u64,
        length_bytes: u64,
        durable_at: Option<Instant>,
    ) {
        let contents = Contents::Zeroes(length_bytes / SECTOR_BYTES);
        self.apply(Write { ticket, offset_bytes, contents }, durable_at);
    }

    /// A write or TRIM is acknowledged.
    pub fn apply(&mut self, write: Write<C>, durable_at: Option<Instant>) {
        if let Some(kept) = &mut self.kept {
            kept.volatile.push(write, durable_at);
        }
    }

    /// A write is acknowledged of which only some sectors are stored (a torn write).
    pub fn apply_torn(&mut self, write: &Write<C>, durable_at: Option<Instant>, rng: &mut Rng) {
        for part in write.torn(rng) {
            self.apply(part, durable_at);
        }
    }

    /// The newest contents from `offset_bytes` on, as a read of a working drive returns them.
    pub fn read(&self, offset_bytes: u64, out: &mut [C]) {
        let first = offset_bytes / SECTOR_BYTES;
        match &self.kept {
            None => out.fill(C::zero()),
            Some(kept) => {
                kept.store.read(first, out);
                kept.volatile.overlay(first, out);
            }
        }
    }

    /// What is durable from `offset_bytes` on, without what was acknowledged since.
    pub fn read_durable(&self, offset_bytes: u64, out: &mut [C]) {
        match &self.kept {
            None => out.fill(C::zero()),
            Some(kept) => kept.store.read(offset_bytes / SECTOR_BYTES, out),
        }
    }

    /// Writes whose time has come are on the medium.
    pub fn settle(&mut self, now: Instant) {
        self.settling(|volatile, sink| volatile.settle_due(now, sink));
    }

    /// Everything acknowledged so far, for a flush that is submitted now.
    pub fn mark(&self) -> Mark {
        self.kept.as_ref().map_or(Mark::default(), |kept| kept.volatile.mark())
    }

    /// A flush has completed: settles what was acknowledged before `mark` was taken.
    pub fn settle_upto(&mut self, mark: Mark) {
        self.settling(|volatile, sink| volatile.settle_upto(mark, sink));
    }

    /// Everything is on the medium.
    pub fn settle_all(&mut self) {
        self.settle_upto(self.mark());
    }

    /// The drive says that only its newest `volatile_bytes` may be lost: older writes that have no
    /// settle time of their own are on the medium.
    pub fn settle_older_than(&mut self, volatile_bytes: u64) {
        self.settling(|volatile, sink| volatile.settle_older_than(volatile_bytes, sink));
    }

    /// The power fails at `now`: what is left is durable, and nothing is pending. `in_flight` are
    /// the writes submitted and not acknowledged, oldest first; they may be there in part.
    pub fn cut(&mut self, now: Instant, rng: &mut Rng, mode: CutMode, in_flight: &[Write<C>]) {
        self.settle(now);
        for write in in_flight {
            self.apply(write.clone(), None);
        }
        self.settling(|volatile, sink| volatile.cut(mode, rng, sink));
    }

    /// Damages one bit of what the sector at `offset_bytes` holds.
    pub fn corrupt(&mut self, offset_bytes: u64, bit: u16) {
        let Some(kept) = &mut self.kept else { return };
        let sector = offset_bytes / SECTOR_BYTES;
        if !kept.volatile.corrupt(sector, bit) {
            let mut content = [C::zero()];
            kept.store.read(sector, &mut content);
            content[0].flip(bit);
            kept.store.write(sector, &content);
        }
    }

    /// Bytes that are not durable.
    pub fn volatile_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.volatile.bytes())
    }

    fn settling(&mut self, act: impl FnOnce(&mut Volatile<C>, &mut dyn FnMut(u64, Piece<'_, C>))) {
        if let Some(Kept { store, volatile }) = &mut self.kept {
            act(volatile, &mut |sector, piece| match piece {
                Piece::Data(contents) => store.write(sector, contents),
                Piece::Zeroes(count) => store.zero(sector, count),
            });
        }
    }
}
