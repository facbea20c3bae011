//! Lagging drives: which drives missed a write, so that their copy of the metadata is not believed?
//!
//! Rule: one place knows what is stale. A drive that is taken out of service lags from then on, and the
//! superblocks of all others say so before anything else is answered. A start believes nothing of its
//! metadata. It is brought level again in the background:
//!
//! ```text
//! start, with a drive that lags ─▶ every write of metadata goes to it, too ─▶ the pages of the map that are in
//! use are copied to it ─▶ a checkpoint with the table of objects ─▶ superblocks say that it is level
//! ```

mod faults;
mod rounds;

pub(crate) use faults::PROBE_AFTER;

use crate::format::pointer::PAGE_BYTES;
use crate::format::superblock::MEMBERS_MAX;
use crate::io::{DeviceIo, News};
use crate::owner::{MetadataIo, Owner};
use crate::pages::Pages;
use crate::port::IoOp;
use tandem_block::{DeviceId, Duration, Instant, IoError, MIB};

/// Bytes that one copy step moves: a checkpoint waits for one step at most.
const STEP_BYTES: u64 = MIB;
/// The pause before superblocks that were not taken are written again (guess).
const RETRY_AFTER: Duration = Duration::from_s(1);

/// Members of the set, as superblocks hold them: bit `i` stands for member `i`. It is compared in every turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Members(u64);

impl Members {
    fn insert(&mut self, device: DeviceId) {
        assert!(usize::from(device.0) < MEMBERS_MAX, "a superblock has a bit for each member");
        self.0 |= 1 << device.0;
    }

    fn remove(&mut self, device: DeviceId) {
        self.0 &= !(1 << device.0);
    }

    fn contains(self, device: DeviceId) -> bool {
        self.0 >> device.0 & 1 == 1
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Bringing the metadata of a drive level.
#[derive(Clone, Copy, Debug)]
struct Levelling {
    /// Which of this life it is: an answer to one that was given up is for nobody.
    number: u64,
    device: DeviceId,
    /// Up to here the area of pages was copied, or is not in use.
    copied_bytes: u64,
    /// So much the next step moves: a page, where more of them could not be read.
    step_bytes: u64,
    under_way: bool,
    /// With a round of checkpoints behind this one all of it is there.
    after_round: u64,
}

/// What is known of drives that lag.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetadataHomes {
    /// Drives are gone: the metadata is read here, and nothing is written anywhere.
    degraded: Option<DeviceId>,
    /// Number of the newest round of superblocks.
    generation: u64,
    /// Compatible features that they name.
    compatible: u64,
    /// The round of superblocks under way: writes that are still out, and which copy they write.
    round: Option<(u32, u8)>,
    /// Which drives lag.
    drives: Members,
    /// … as the superblocks say durably.
    told: Members,
    /// … as the superblocks say that are being written,
    saying: Members,
    /// … and as all drives will have been told then.
    telling: Members,
    /// The round of superblocks under way is one of these.
    is_round: bool,
    /// The round of superblocks that is next has the number that `generation` says.
    has_number: bool,
    /// A drive that nobody can stand in for did not take its superblock in the round under way.
    failed: Option<IoError>,
    /// No round of these begins before that.
    retry_at: Instant,
    /// The number of the last round, if it failed, and who lagged as it said.
    untold: Option<(u64, Members)>,
    /// Levellings begun in this life.
    levellings: u64,
    levelling: Option<Levelling>,
}

impl MetadataHomes {
    /// The only home of a pool that is served read-only, since drives of it are gone.
    pub(crate) fn degraded(&self) -> Option<DeviceId> {
        self.degraded
    }

    /// Is the pool served read-only, since drives of it are gone?
    #[inline]
    pub(crate) fn is_degraded(&self) -> bool {
        self.degraded.is_some()
    }

    /// The metadata is read from this home, and nothing is written anywhere.
    pub(crate) fn degrade_to(&mut self, home: DeviceId) {
        assert!(self.round.is_none(), "a pool that is degraded writes no superblocks");
        self.degraded = Some(home);
    }

    /// Number of the newest round of superblocks.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// At a start: the number that the newest superblocks have.
    pub(crate) fn found_generation(&mut self, generation: u64) {
        assert!(generation >= self.generation, "rounds of superblocks have rising numbers");
        self.generation = generation;
    }

    /// … and the compatible features that they name, which all of them name from now on.
    pub(crate) fn found_features(&mut self, compatible: u64) {
        self.compatible |= compatible;
    }

    /// Compatible features of the pool.
    pub(crate) fn compatible_features(&self) -> u64 {
        self.compatible
    }

    /// The next round has a number of its own.
    pub(crate) fn next_generation(&mut self) {
        self.generation += 1;
        self.has_number = true;
    }

    /// The next round repeats the last number.
    pub(crate) fn repeat_generation(&mut self) {
        assert!(self.generation > 0, "a round that is repeated had a number");
        self.generation -= 1;
    }

    /// Are superblocks being written?
    #[inline]
    pub(crate) fn writes_superblocks(&self) -> bool {
        self.round.is_some()
    }

    /// So many superblocks of this copy were sent.
    pub(crate) fn begin_round(&mut self, writes: u32, copy: u8) {
        assert!(
            self.round.is_none_or(|(left, _)| left == 0),
            "the first copies are written before the second ones are sent"
        );
        self.round = Some((writes, copy));
    }

    /// Superblocks are to be written: a round is under way from now on.
    pub(crate) fn ask_for_superblocks(&mut self, clean: bool, io: &mut DeviceIo) {
        assert!(self.round.is_none(), "one round of superblocks at a time");
        assert!(self.degraded.is_none(), "a pool that is degraded writes no superblocks");
        self.round = Some((0, 0));
        self.has_number = false;
        io.tell(News::Superblocks { clean, copy: 0 });
    }

    /// The first copies are about to be written. Both copies say what is known now, under one number.
    ///
    /// A round that was not asked for has the number of before. It may go to one drive alone, so nobody counts
    /// as told by it.
    pub(crate) fn begin_telling(&mut self) {
        if !std::mem::replace(&mut self.has_number, true) {
            let untold = self.untold.take().filter(|_| self.is_round);
            // a round that failed is repeated under its own number: the drive that took none of them must
            // not look as if it had missed a life
            let is_repeated = untold.is_some_and(|untold| untold == (self.generation, self.drives));
            self.generation += u64::from(!is_repeated);
            self.telling = self.drives;
        }
        self.saying = self.drives;
    }

    /// Who lags, as the superblocks that are being written say, in both copies.
    pub(crate) fn said_mask(&self) -> u64 {
        self.saying.0
    }

    /// One of them has ended.
    ///
    /// # Panics
    /// If none was under way.
    pub(crate) fn superblock_ended(&mut self, io: &mut DeviceIo) {
        let (left, copy) = self.round.as_mut().expect("superblocks were being written");
        assert!(*left > 0, "a superblock ends once");
        *left -= 1;
        if *left == 0 {
            io.tell(News::SuperblocksWritten { copy: *copy });
        }
    }

    /// Nothing of the round is under way any more.
    pub(crate) fn end_round(&mut self) {
        assert!(self.round.is_none_or(|(left, _)| left == 0), "each superblock has ended");
        self.round = None;
    }

    /// Does this drive lag?
    #[inline]
    pub(crate) fn contains(&self, device: DeviceId) -> bool {
        self.drives.contains(device)
    }

    /// As superblocks hold it: bit `i` stands for member `i`.
    pub(crate) fn mask(&self) -> u64 {
        self.drives.0
    }

    /// Do the superblocks say who lags?
    pub(crate) fn is_told(&self) -> bool {
        self.drives == self.told
    }

    /// Is a step of the copying under way, for which a checkpoint waits?
    pub(crate) fn is_copying(&self) -> bool {
        self.levelling.is_some_and(|levelling| levelling.under_way)
    }

    /// When the superblocks are told again, if that has failed.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        // else an event that is under way brings it about
        let waits = !self.is_told() && !self.is_round && now < self.retry_at;
        if waits { self.retry_at } else { Instant::NEVER }
    }

    /// Is the round of superblocks under way for those that lag alone?
    pub(crate) fn is_round(&self) -> bool {
        self.is_round
    }

    /// Drives that hold the journal: every SSD, or the first hard drive of a pool without.
    pub(crate) fn metadata_homes(&self, io: &DeviceIo) -> Vec<DeviceId> {
        if let Some(home) = self.degraded() {
            return vec![home];
        }
        let all = if io.ssds().is_empty() { &io.hdds()[..1] } else { io.ssds() };
        let serves = |d: &DeviceId| {
            let d = &io[*d];
            !d.is_faulted() && !d.is_gone()
        };
        all.iter().copied().filter(serves).collect()
    }

    /// Could the pool start without this drive: does another one have all of the metadata, if it has?
    pub(crate) fn can_do_without(&self, device: DeviceId, io: &DeviceIo) -> bool {
        !self.metadata_homes(io).contains(&device)
            || self.sound_homes(io).iter().any(|&home| home != device)
    }

    /// The one that is asked first; if none is sound, the one whose death says why.
    pub(crate) fn first_metadata_home(&self, io: &DeviceIo) -> DeviceId {
        let sound = self.sound_homes(io).first().copied();
        sound.unwrap_or(DeviceId(io.config().metadata_device() as u8))
    }

    /// A drive has missed a write, or will.
    pub(crate) fn note_lagging(&mut self, device: DeviceId, io: &DeviceIo) {
        if io.is_fixed() || self.is_degraded() {
            return; // nothing is promised, or nothing is written
        }
        self.drives.insert(device);
        let levelling = &mut self.levelling;
        if levelling.is_some_and(|levelling| levelling.device == device) {
            *levelling = None;
        }
    }

    /// At a start: who lags, as the newest superblock says.
    pub(crate) fn take_lagging(&mut self, mask: u64, io: &DeviceIo) {
        // others are no members
        let known = io.drives().len().min(64) as u32;
        let drives = Members(mask & u64::MAX.checked_shr(64 - known).unwrap_or(0));
        (self.drives, self.told) = (drives, drives);
    }

    /// Homes of the metadata that have all of it.
    pub(crate) fn sound_homes(&self, io: &DeviceIo) -> Vec<DeviceId> {
        let mut homes = self.metadata_homes(io);
        homes.retain(|&home| !self.contains(home));
        homes
    }

    /// A hard drive without metadata of its own is level as soon as it works.
    pub(crate) fn note_hdd_level(&mut self, device: DeviceId, io: &DeviceIo) {
        let keeps = self.metadata_homes(io).contains(&device)
            || io.config().metadata_replica_device() == Some(device);
        if !keeps && !io[device].is_faulted() {
            self.drives.remove(device);
        }
    }

    fn read_page_area(&mut self, levelling: Levelling, area_bytes: u64, io: &mut DeviceIo) {
        let home = self.first_metadata_home(io);
        assert!(home != levelling.device, "a drive that lags is not copied from");
        let layout = &io[home].layout;
        let op = IoOp::ReadMeta {
            offset_bytes: layout.area_offset + levelling.copied_bytes,
            length_bytes: levelling.step_bytes.min(area_bytes - levelling.copied_bytes),
        };
        self.levelling = Some(Levelling { under_way: true, ..levelling });
        io.submit(home, op, Owner::Metadata(MetadataIo::LevelRead(levelling.number)));
    }

    /// A part of the area of pages was read from a home that has all of it.
    pub(crate) fn level_read(
        &mut self,
        number: u64,
        status: Result<(), IoError>,
        bytes: &[u8],
        io: &mut DeviceIo,
    ) {
        let under_way = self.levelling.as_mut();
        let Some(levelling) = under_way.filter(|known| known.number == number) else { return };
        assert!(levelling.under_way, "a step of the copying ends once");
        levelling.under_way = false;
        match status {
            Ok(()) => levelling.step_bytes = STEP_BYTES,
            // it lags until the next start
            Err(IoError::NoAnswer(_) | IoError::Dead(_)) => {
                self.levelling = None;
                return;
            }
            Err(_) if levelling.step_bytes > PAGE_BYTES => {
                levelling.step_bytes = PAGE_BYTES;
                return;
            }
            // the drive that lags has no more than the one which cannot give it
            Err(_) => {
                levelling.copied_bytes += PAGE_BYTES;
                return;
            }
        }
        levelling.under_way = true;
        let (device, at) = (levelling.device, levelling.copied_bytes);
        let layout = &io[device].layout;
        let area_bytes = layout.area_pages * PAGE_BYTES;
        let length_bytes = bytes.len() as u64;
        assert!(length_bytes > 0, "a step of the copying moves some pages");
        assert!(length_bytes.is_multiple_of(PAGE_BYTES), "pages are copied whole");
        assert!(at + length_bytes <= area_bytes, "pages go into the area of pages");
        let offset_bytes = layout.area_offset + at;
        let op = IoOp::WriteMeta { offset_bytes, bytes: bytes.to_vec(), fua: false };
        let number = levelling.number;
        io.submit(device, op, Owner::Metadata(MetadataIo::LevelWrite { number, length_bytes }));
    }

    /// At the end of a start, or when a drive works again: what is missing on drives that lag, and serve, is
    /// to be written. `begun`: the newest round of checkpoints that has begun. True: the table of objects is
    /// due again.
    pub(crate) fn begin_levelling(&mut self, begun: u64, io: &DeviceIo) -> bool {
        if self.drives.is_empty() || self.levelling.is_some() {
            return false;
        }
        for &hdd in io.hdds() {
            self.note_hdd_level(hdd, io);
        }
        let homes = self.metadata_homes(io);
        let next = homes.into_iter().find(|&home| self.contains(home));
        let Some(device) = next else { return false };
        self.levellings += 1;
        self.levelling = Some(Levelling {
            number: self.levellings,
            device,
            copied_bytes: 0,
            step_bytes: STEP_BYTES,
            under_way: false,
            after_round: begun,
        });
        true
    }

    /// Does the copy of a drive that lags wait for a checkpoint after this one?
    pub(crate) fn wants_checkpoint(&self, newest: u64, pages: &Pages) -> bool {
        self.levelling.is_some_and(|levelling| {
            levelling.copied_bytes >= pages.area_pages() * PAGE_BYTES
                && newest <= levelling.after_round
        })
    }

    /// Is a drive being brought level?
    #[inline]
    pub(crate) fn levels(&self) -> bool {
        self.levelling.is_some()
    }

    /// Does a drive lag that nobody brings level?
    #[inline]
    pub(crate) fn waits_for_metadata_replica(&self) -> bool {
        self.levelling.is_none() && !self.drives.is_empty()
    }

    /// This drive has everything that the others have.
    pub(crate) fn note_level(&mut self, device: DeviceId) {
        self.drives.remove(device);
    }

    /// The next step of bringing a drive level. `newest`: the newest durable round of checkpoints; `may_copy`: no checkpoint
    /// waits for pages. Pages that are in use are copied. True: the drive is level, and another one may be next.
    pub(crate) fn advance_levelling(
        &mut self,
        newest: u64,
        may_copy: bool,
        pages: &Pages,
        io: &mut DeviceIo,
    ) -> bool {
        let area_bytes = pages.area_pages() * PAGE_BYTES;
        let Some(levelling) = self.levelling.as_mut().filter(|levelling| !levelling.under_way)
        else {
            return false;
        };
        if may_copy {
            // what no root names is not copied
            let used = pages.next_used(levelling.copied_bytes / PAGE_BYTES);
            levelling.copied_bytes = used.map_or(area_bytes, |page| page * PAGE_BYTES);
        }
        let levelling = *levelling;
        if levelling.copied_bytes < area_bytes {
            if may_copy {
                self.read_page_area(levelling, area_bytes, io);
            }
            return false;
        }
        let is_level = newest > levelling.after_round;
        if is_level {
            assert!(self.contains(levelling.device), "a drive that lags becomes level");
            self.levelling = None;
            self.drives.remove(levelling.device);
        }
        is_level
    }

    /// Pages were written to the drive that lags. What was copied last is flushed by a round of checkpoints
    /// behind `begun`.
    pub(crate) fn level_written(&mut self, number: u64, length_bytes: u64, begun: u64) {
        let under_way = self.levelling.as_mut();
        let Some(levelling) = under_way.filter(|known| known.number == number) else { return };
        assert!(levelling.under_way, "a step of the copying ends once");
        assert!(length_bytes <= STEP_BYTES, "a checkpoint waits for one step at most");
        levelling.under_way = false;
        levelling.copied_bytes += length_bytes;
        levelling.after_round = begun;
    }

    /// May a round of superblocks begin that says who lags?
    pub(crate) fn may_tell(&self, now: Instant) -> bool {
        !self.is_told() && self.round.is_none() && now >= self.retry_at
    }

    /// A round of superblocks begins that says who lags.
    pub(crate) fn tell(&mut self) {
        self.is_round = true;
    }

    /// A drive that nobody can stand in for did not take its superblock.
    pub(crate) fn superblock_failed(&mut self, error: IoError) {
        self.failed = Some(error);
    }

    /// A round of superblocks has ended, one of these or another one.
    ///
    /// # Errors
    /// If a drive did not take its superblock: the round is repeated later.
    pub(crate) fn told(&mut self, now: Instant) -> Result<(), IoError> {
        assert!(
            self.round.is_none_or(|(left, _)| left == 0),
            "a round has told of drives when each superblock has ended"
        );
        self.is_round = false;
        let telling = std::mem::take(&mut self.telling);
        match self.failed.take() {
            None => {
                self.told = telling;
                Ok(())
            }
            Some(error) => {
                self.retry_at = now + RETRY_AFTER;
                self.untold = Some((self.generation, telling));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::{MAP_TABLE, leaves_of};
    use crate::io::fixture::drives;
    use crate::pages::Counts;

    /// An area in which pages 0 and 1 are in use.
    fn pages() -> Pages {
        let mut pages = Pages::new(7, MAP_TABLE, leaves_of(2), 200);
        pages.begin();
        for leaf in 0..2 {
            pages
                .write(leaf, vec![1; PAGE_BYTES as usize], Counts::default())
                .expect("there is room");
        }
        pages
    }

    /// Pages that cannot be read do not keep a drive from becoming level: nobody else has them either.
    #[test]
    fn levelling_passes_by_what_cannot_be_read() {
        let (a, b) = (DeviceId(0), DeviceId(1));
        // (how reads end, bytes that each asks for, is it still under way)
        let bad = Err(IoError::Device(a));
        let (all, page) = (200 * PAGE_BYTES, PAGE_BYTES);
        for (reads, asked, goes_on) in [
            (&[Ok(())][..], &[all][..], true),
            (&[bad, Ok(()), Ok(())], &[all, page, all - page], true),
            (&[bad, bad, bad, Ok(())], &[all, page, page], true),
            (&[bad, Err(IoError::NoAnswer(a))], &[all, page], false),
        ] {
            let (mut io, mut homes, pages) = (drives(2, 1), MetadataHomes::default(), pages());
            for id in [a, b] {
                io[id].layout.area_pages = 200;
            }
            homes.note_lagging(b, &io);
            assert!(homes.begin_levelling(4, &io));
            let mut found = Vec::new();
            let mut reads = reads.iter();
            loop {
                assert!(
                    !homes.advance_levelling(4, true, &pages, &mut io),
                    "a checkpoint is missing"
                );
                let Some(levelling) = homes.levelling.filter(|levelling| levelling.under_way)
                else {
                    break;
                };
                let length_bytes = levelling.step_bytes.min(all - levelling.copied_bytes);
                found.push(length_bytes);
                let status = *reads.next().expect("no more is read");
                let bytes = vec![0; length_bytes as usize];
                homes.level_read(levelling.number, status, &bytes, &mut io);
                if status.is_ok() {
                    homes.level_written(levelling.number, length_bytes, 4);
                }
            }
            assert_eq!((&found[..], homes.levels()), (asked, goes_on));
            assert_eq!(homes.advance_levelling(5, true, &pages, &mut io), goes_on, "level, or not");
            assert_eq!(homes.contains(b), !goes_on);
        }
    }
}
