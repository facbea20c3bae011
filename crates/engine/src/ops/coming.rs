//! What steps bring an extent to an SSD?
//!
//! Source: requirements L10, L14, L15; [LORIS §III] locks the file while it moves; here nobody waits.
//!
//! ```text
//! the account names an extent ─▶ its blocks that are not on an SSD are read as a user would read them
//!    ─▶ written to new slots ─▶ of each block that nobody has changed meanwhile, the map names the slot
//! ```
//! A block at home keeps its home: the slot is a copy, and costs nothing when it leaves (an `exclusive`
//! space gives the home up, as the paper's tiers do). A block in a log, or under fragments, is moved.
//! One run of blocks is under way at a time, of 1 MiB at most.

use crate::device::{Class, Job, Purpose};
use crate::engine::Engine;
use crate::map::logical::SSD;
use crate::map::{Entry, Fragment, Logical, Run, Touch};
use crate::mutant::Mutant;
use crate::ordering::TaskId;
use crate::port::{Command, IoOp};
use crate::task::{Task, task_id};
use crate::tier::collect::Extent;
use crate::tier::{Comes, settings as names};
use tandem_block::{
    BLOCK_BYTES, IoError, ObjectId, Op, PayloadId, Request, RequestId, RequestKind,
};

/// Blocks of one run at most: 1 MiB, so that a user waits for one command of that size.
const RUN_BLOCKS_MAX: u32 = 256;

/// A block on its way.
#[derive(Clone, Debug)]
struct Part {
    before: Entry,
    fragments: Vec<Fragment>,
    /// It was written to, or zeroed, since it was read.
    changed: bool,
}

/// A run of blocks on its way to the SSD.
#[derive(Clone, Debug)]
pub(crate) struct Coming {
    extent: Extent,
    first: Logical,
    parts: Vec<Part>,
    /// The read; `None`: it is written.
    reading: Option<TaskId>,
    buffer: PayloadId,
    runs: Vec<(Logical, Run)>,
    outstanding: u32,
}

impl Coming {
    pub fn note_changing(&mut self, first: Logical, end: Logical) {
        let own_end = self.first + self.parts.len() as Logical;
        for block in first.max(self.first)..end.min(own_end) {
            self.parts[(block - self.first) as usize].changed = true;
        }
    }
}

impl Engine {
    /// Is this background read one of a run that comes?
    pub(crate) fn is_coming(&self, id: TaskId) -> bool {
        let coming = self.tiers.as_ref().and_then(|tiers| tiers.coming.as_ref());
        coming.is_some_and(|coming| coming.reading == Some(id))
    }

    pub(super) fn run_coming(&mut self) {
        let now = self.now;
        let tiers = self.tiers.as_mut().expect("asked by the caller");
        if tiers.coming.is_some() || !tiers.space.has_to_come() || !tiers.rate.is_left(now) {
            return;
        }
        let spent = |id: &tandem_block::DeviceId| {
            self.devices[usize::from(id.0)].faulted || self.ssd_writes_are_spent(*id)
        };
        if self.is_short_of_space() || self.ssds.iter().all(spent) {
            return;
        }
        // those that cannot come now, since they are written to, wait for another event
        let mut later = None;
        for _ in 0..8 {
            let tiers = self.tiers.as_mut().expect("asked by the caller");
            let Some(extent) = tiers.space.next_to_come() else { break };
            let (from, to) = tiers.space.blocks_of(extent);
            let to = to.min(self.map.logical().len() as u64);
            let (from, to) = (from as Logical, to as Logical);
            match self.begin_coming(extent, from, to) {
                Begun::Yes => break,
                Begun::Nothing => {}
                Begun::Busy => {
                    later = Some(extent);
                    break;
                }
            }
        }
        if let Some(extent) = later {
            self.tiers.as_mut().expect("asked by the caller").space.come_later(extent);
        }
    }

    /// Begins with the first run of blocks in `from..to` that are not on an SSD.
    fn begin_coming(&mut self, extent: Extent, from: Logical, to: Logical) -> Begun {
        let lacks = |block: Logical| {
            let state = self.map.state(block);
            state != 0 && state & SSD == 0 && self.comes(block) != Comes::Never
        };
        let Some(first) = (from..to).find(|&block| lacks(block)) else { return Begun::Nothing };
        let bound = to.min(first + RUN_BLOCKS_MAX);
        let end = (first..bound).find(|&block| !lacks(block)).unwrap_or(bound);
        if self.ordering.is_held(first, end) {
            return Begun::Busy;
        }
        let part = |block| Part {
            before: self.map.entry(block),
            fragments: self.map.fragments(block).to_vec(),
            changed: false,
        };
        let parts = (first..end).map(part).collect();
        let length_bytes = u64::from(end - first) * BLOCK_BYTES;
        let request = Request {
            kind: RequestKind::Background,
            ..Request::new(
                RequestId(u64::MAX),
                ObjectId(u64::MAX),
                Op::Read,
                (0, length_bytes),
                self.now,
            )
        };
        let id = task_id(self.tasks.insert(Task::new(request, first, end)));
        let tiers = self.tiers.as_mut().expect("asked by the caller");
        tiers.rate.spend(length_bytes);
        tiers.coming = Some(Coming {
            extent,
            first,
            parts,
            reading: Some(id),
            buffer: PayloadId::NONE,
            runs: Vec::new(),
            outstanding: 0,
        });
        self.begin_user_read(id);
        Begun::Yes
    }

    /// It was read.
    pub(crate) fn coming_read(&mut self, id: TaskId, payload: PayloadId) {
        let task = self.tasks.remove(id as usize);
        let coming = self.coming_mut();
        coming.reading = None;
        coming.buffer = payload;
        let (first, blocks) = (coming.first, coming.parts.len() as u32);
        if task.status.is_err() || !self.write_coming(first, blocks) {
            self.end_coming();
        }
    }

    fn write_coming(&mut self, first: Logical, blocks: u32) -> bool {
        let mut at = 0;
        while at < blocks {
            let Some(run) = self.map.allocate_ssd(blocks - at) else {
                self.stats.tiers.no_space += 1;
                break;
            };
            let region = *self.map.slots().region(run.slot);
            let coming = self.coming_mut();
            let index = coming.runs.len() as u32;
            coming.runs.push((first + at, run));
            coming.outstanding += 1;
            let op = IoOp::Write {
                offset_bytes: region.address(run.slot),
                length_bytes: u64::from(run.count) * BLOCK_BYTES,
                from: coming.buffer,
                from_offset_bytes: u64::from(at) * BLOCK_BYTES,
                fua: false,
            };
            let purpose = Purpose::ExtentWrite(index);
            self.enqueue(region.device, Class::Background, Job::Io(op, purpose));
            at += run.count;
        }
        at > 0
    }

    /// A part of it was written.
    pub(crate) fn coming_written(
        &mut self,
        index: u32,
        status: Result<(), IoError>,
        checksums: &[u32],
    ) {
        let (logical, run) = self.coming_mut().runs[index as usize];
        for i in 0..run.count {
            let (block, slot) = (logical + i, run.slot + i);
            let checksum = checksums.get(i as usize).copied().unwrap_or(0);
            if status.is_err() || !self.name_what_came(block, slot, checksum) {
                self.map.release_unused(Run { slot, count: 1 });
                self.stats.tiers.changed_blocks += 1;
            }
        }
        let coming = self.coming_mut();
        coming.outstanding -= 1;
        if coming.outstanding == 0 {
            self.end_coming();
        }
    }

    /// Commits by compare. False: the block is another one by now.
    fn name_what_came(&mut self, block: Logical, slot: u32, checksum: u32) -> bool {
        let coming = self.coming_mut();
        let part = coming.parts[(block - coming.first) as usize].clone();
        let is_same = !part.changed
            && self.map.entry(block) == part.before
            && self.map.fragments(block) == part.fragments;
        if !is_same && !self.breaks(Mutant::StaleComing) {
            return false;
        }
        let exclusive = self.space.as_ref().is_some_and(|s| s.tier.get(names::EXCLUSIVE.name) == 1);
        let is_copy = !exclusive && self.map.add_copy_of_home(block, slot, checksum);
        if !is_copy {
            self.map.assign(block, slot, checksum);
        }
        self.map.touch(Touch { logical: block, count: 1 }, slot, false);
        self.commit.note_pending(self.now);
        self.stats.tiers.came_blocks += 1;
        true
    }

    fn end_coming(&mut self) {
        let tiers = self.tiers.as_mut().expect("something was coming");
        let coming = tiers.coming.take().expect("something was coming");
        if coming.buffer != PayloadId::NONE {
            self.out.push(Command::Release(coming.buffer));
        }
        // the rest of the extent, if there was a gap in it
        let tiers = self.tiers.as_ref().expect("something was coming");
        let from = coming.first + coming.parts.len() as Logical;
        let to = tiers.space.blocks_of(coming.extent).1.min(self.map.logical().len() as u64);
        if tiers.space.is_held(coming.extent) && from < to as Logical {
            let _ = self.begin_coming(coming.extent, from, to as Logical);
        }
    }

    fn coming_mut(&mut self) -> &mut Coming {
        let tiers = self.tiers.as_mut().expect("something is coming");
        tiers.coming.as_mut().expect("something is coming")
    }
}

/// What became of a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Yes,
    /// All of it is there.
    Nothing,
    /// It is being written to.
    Busy,
}
