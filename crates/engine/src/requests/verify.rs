//! Which copy of a block is bad? With `verify_copies` a read looks at every place that its blocks have.
//!
//! Source: design decision 7: an entry has one to three places. An ordinary read is content with the
//! first sound one, so a second copy could rot unseen until it is the only one left. What the other
//! places hold is compared and thrown away: it decides nothing about the answer of the read.

use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::map::{Logical, NONE};
use crate::owner::{Ended, Owner, ReadPart, RequestIo};
use crate::policy::Policy;
use crate::port::{Command, IoOp};
use crate::requests::Requests;
use crate::requests::locations::{Locations, Source};
use crate::requests::ordering::TaskId;
use crate::stats::BadPlace;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, IoError};

/// Bad places that are remembered; more are only counted among the errors.
pub(crate) const BAD_PLACES_MAX: usize = 4096;
/// Places of a block at most.
const PLACES_MAX: usize = 3;

impl Policy {
    /// Remembers which blocks of a read are bad on `device`: those whose checksums differ, or all if
    /// there are none.
    pub(crate) fn note_bad(
        &self,
        part: &ReadPart,
        error: IoError,
        ended: Ended<'_>,
        store: &Store,
        volumes: &Volumes,
        io: &mut DeviceIo,
    ) {
        let Ended { device, checksums, .. } = ended;
        if !io.config().verify_copies {
            return;
        }
        for i in 0..part.count {
            let is_sound = matches!(error, IoError::Checksum(_))
                && checksums.get(i as usize) == Some(&part.expected[i as usize]);
            if is_sound {
                continue;
            }
            let (logical, from) = (part.logical + i, part.from);
            let address = if part.slot == NONE {
                volumes.objects.home_of(logical, io).1
            } else {
                store.map.slots().region(part.slot).address(part.slot + i)
            };
            let places = &mut io.stats_mut().bad_places;
            if places.len() < BAD_PLACES_MAX {
                places.insert((device, address), BadPlace { logical, from, error });
            }
        }
    }
}

impl Requests {
    /// Another place was read: it is compared, and nobody waits for its bytes.
    pub(crate) fn copy_read(
        &mut self,
        part: &ReadPart,
        ended: Ended<'_>,
        store: &mut Store,
        volumes: &Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, checksums, .. } = ended;
        assert!(part.into != self[part.task].buffer, "a copy is compared, and never answered");
        io.send(Command::Release(part.into));
        let error = status.err().or_else(|| policy.verify(device, part, checksums, io));
        if let Some(error) = error {
            policy.note_bad(part, error, ended, store, volumes, io);
        }
        self.part_done(part.task, &mut store.map, &mut policy.tiers, io);
    }

    fn read_copy(
        &mut self,
        (id, logical, count): (TaskId, Logical, u64),
        source: Source,
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        assert!(count > 0 && count <= self[id].end - logical, "a copy is of blocks of its read");
        let into = io.name_payload();
        let length_bytes = count * BLOCK_BYTES;
        io.send(Command::Reserve { payload: into, length_bytes });
        self[id].outstanding += 1;
        let part = Locations::of(store, volumes, policy, io).read_part(
            id,
            (logical, count),
            source,
            (into, 0),
        );
        let op =
            IoOp::Read { offset_bytes: source.address, length_bytes, into, into_offset_bytes: 0 };
        let whose = self[id].whose();
        let job = Job::Io(op, Owner::Request(RequestIo::Verify(Box::new(part))));
        io.enqueue(source.device, Class::Read, job, whose);
    }

    /// Reads what `first..end` has in further places than the one that answers the read.
    pub(super) fn read_copies(
        &mut self,
        id: TaskId,
        (first, end): (Logical, Logical),
        store: &Store,
        volumes: &Volumes,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        for nth in 1..PLACES_MAX {
            let mut block = first;
            while block < end {
                let Some(source) = Locations::of(store, volumes, policy, io).nth_source(block, nth)
                else {
                    block += 1;
                    continue;
                };
                let mut count = 1;
                while block + count < end
                    && Locations::of(store, volumes, policy, io)
                        .nth_source(block + count, nth)
                        .is_some_and(|next| source.is_continued_by(next, count))
                {
                    count += 1;
                }
                self.read_copy((id, block, count), source, store, volumes, policy, io);
                block += count;
            }
        }
    }
}
