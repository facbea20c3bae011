//! What does the engine know of one drive, and what waits for it?

use crate::bcw::controller::Controller;
use crate::config::{DeviceConfig, Role, WriteCache};
use crate::format::layout::Layout;
use crate::format::superblock::Standing;
use crate::io::flush_costs::FlushCosts;
use crate::io::queue::Queue;
use crate::log::Log;
use crate::map::{Logical, Run};
use crate::port::IoOp;
use crate::qos::delivery::StreamIndex;
use crate::qos::lanes::Lanes;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use tandem_block::{DeviceId, Instant, IoError, PayloadId};

pub use crate::io::queue::Class;
pub use crate::job::{Job, Waiting};

/// Whose request a job belongs to, where streams are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    /// Which stream.
    pub(crate) stream: StreamIndex,
    /// The request begins where its stream's request before it ended.
    pub(crate) sequential: bool,
    /// Bytes of the whole request.
    pub(crate) request_bytes: u64,
}

/// What became of a job that has left its queue.
#[derive(Debug)]
pub(crate) enum Issued {
    /// Its commands are out.
    Sent,
    /// It left without a command: it waits for another drive, or has failed.
    Left,
    /// It must wait for space.
    NoRoom(Waiting),
}

/// Log writes of one hard drive since its last successful flush: its tail (design decision 8).
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Oldest first.
    pub(crate) items: VecDeque<TailItem>,
    /// Writes that ever joined it.
    pub(crate) writes: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// … of those without a copy on an SSD.
    pub(crate) exposed_bytes: u64,
    /// A copy failed since the drive's last flush: a flush is the better way until then.
    pub(crate) copy_failed: bool,
}

/// One log write whose drive has not been flushed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailItem {
    /// Number of the write: a slot may be in a tail twice, since a log is written over.
    pub(crate) write: u64,
    /// First block.
    pub(crate) logical: Logical,
    /// Its log slots.
    pub(crate) run: Run,
    /// The payload, retained.
    pub(crate) payload: PayloadId,
    /// Where in it.
    pub(crate) offset_bytes: u64,
    /// Copied to the SSD already (the slots are found through the map).
    pub(crate) copied: bool,
    /// Its copy stays on the SSD when the drive was flushed.
    pub(crate) stays: bool,
}

/// Flush of a hard drive under way: what it will settle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HddFlush {
    /// Tail items that it covers.
    pub(crate) items: usize,
    /// Home writes that it covers (a count that only rises).
    pub(crate) home_mark: u64,
}

/// What may be asked of a drive, and why no more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Everything.
    #[default]
    Full,
    /// It failed a write or a flush: nothing is written to it any more. What lies there is still read, and
    /// a hard drive without an SSD beside it is still flushed.
    ReadOnly(IoError),
    /// Nothing: it is absent, was removed, or left a command without an answer.
    Out(IoError),
}

/// One drive of the set.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its configuration.
    pub config: DeviceConfig,
    /// Bytes of the drive itself: one that took another's place may have more than the pool uses.
    pub(crate) drive_bytes: u64,
    /// Its layout.
    pub layout: Layout,
    /// What waits, and how much is in flight.
    pub queue: Queue<Job>,
    /// Waiting jobs by stream, where streams are told apart.
    pub streams: Option<Box<Lanes>>,
    /// It is two drives: reads and writes are with different ones.
    pub is_pair: bool,
    /// A write has completed since the last flush was issued.
    pub(crate) dirty: bool,
    /// What may be asked of it.
    pub service: Service,
    /// When it is tried again whether it works, while it is read only, and how often that was in vain.
    pub(crate) probe_at: Instant,
    /// See above.
    pub(crate) probes: u32,
    /// What it is to the pool.
    pub standing: Standing,
    /// A hard drive's log.
    pub(crate) log: Option<Log>,
    /// A hard drive's tail.
    pub tail: Tail,
    /// The flush under way, of a hard drive.
    pub(crate) flushing: Option<HddFlush>,
    /// A commit wants this hard drive flushed as soon as it is free.
    pub(crate) flush_wanted: bool,
    /// Keeps a hard drive's writes fast.
    pub bcw: Option<Controller>,
    /// Home writes completed so far.
    pub(crate) home_writes: u64,
    /// When its controller wants to be asked again.
    pub(crate) ask_at: Instant,
    /// When its last command ended; of hard drives.
    pub(crate) last_end: Instant,
    /// What its flushes cost; of hard drives.
    flush_costs: FlushCosts,
}

impl Device {
    /// A drive with nothing waiting.
    pub(crate) fn new(id: DeviceId, config: DeviceConfig, layout: Layout) -> Self {
        Device {
            id,
            drive_bytes: config.capacity_bytes,
            config,
            layout,
            queue: Queue::default(),
            streams: None,
            is_pair: false,
            dirty: false,
            service: Service::Full,
            probe_at: Instant::ZERO,
            probes: 0,
            standing: Standing::Serves,
            log: None,
            tail: Tail::default(),
            flushing: None,
            flush_wanted: false,
            bcw: None,
            home_writes: 0,
            ask_at: Instant::NEVER,
            last_end: Instant::ZERO,
            flush_costs: FlushCosts::default(),
        }
    }

    /// What its flushes cost.
    pub(crate) fn flush_costs(&mut self) -> &mut FlushCosts {
        &mut self.flush_costs
    }

    /// Does it take another read, and another command of other kinds? The legs of a pair read and
    /// write apart, so that writes that wait there keep no read waiting here.
    #[inline]
    pub(crate) fn takes(&self) -> (bool, bool) {
        let depth = self.config.depth;
        if self.is_pair {
            let reads = self.queue.reads_in_flight();
            (reads < depth, self.queue.in_flight() - reads < depth)
        } else {
            (self.queue.in_flight() < depth, self.queue.in_flight() < depth)
        }
    }

    /// Does it take another command of this lane, where streams are told apart? Beyond `depth` the
    /// drive, not the order, would decide.
    #[inline]
    pub(crate) fn lane_takes(&self, lane: usize, depth: u32) -> bool {
        let in_flight = match (self.is_pair, lane) {
            (false, _) => self.queue.in_flight(),
            (true, 0) => self.queue.reads_in_flight(),
            (true, _) => self.queue.in_flight() - self.queue.reads_in_flight(),
        };
        in_flight < self.config.depth.min(depth)
    }

    /// May anything new be written to it?
    #[inline]
    pub fn takes_new(&self) -> bool {
        !self.is_faulted() && self.standing == Standing::Serves
    }

    /// Has it failed, or is it absent?
    #[inline]
    pub fn is_faulted(&self) -> bool {
        self.service != Service::Full
    }

    /// Is nothing asked of it any more, no read either?
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        matches!(self.service, Service::Out(_))
    }

    /// Is it read only, and was not tried since?
    pub(crate) fn may_heal_soon(&self) -> bool {
        matches!(self.service, Service::ReadOnly(_)) && self.probes == 0
    }

    /// Does it still take a job like this?
    #[inline]
    pub(crate) fn takes_job(&self, job: &Job) -> bool {
        match self.service {
            Service::Full => true,
            Service::ReadOnly(_) => match job {
                Job::Io(op, _) => op.is_read() || *op == IoOp::Flush,
                Job::Write { .. } | Job::Edge { .. } => false,
            },
            Service::Out(_) => false,
        }
    }

    /// Was it removed?
    pub fn is_gone(&self) -> bool {
        matches!(self.standing, Standing::Gone(_))
    }

    /// Is it an SSD?
    pub fn is_ssd(&self) -> bool {
        self.config.role == Role::Ssd
    }

    /// Is what it acknowledges lost in a power cut until flushed?
    pub(crate) fn is_volatile(&self) -> bool {
        self.config.write_cache == WriteCache::Volatile
    }

    /// Reads that wait or are in flight.
    pub(crate) fn reads(&self) -> u32 {
        let by_stream = self.streams.as_ref().map_or(0, |lanes| lanes.waiting_reads());
        self.queue.jobs(Class::Read).len() as u32 + by_stream + self.queue.reads_in_flight()
    }

    /// Is anything waiting?
    pub(crate) fn has_waiting(&self) -> bool {
        self.queue.is_waited_for() || self.streams.as_ref().is_some_and(|lanes| lanes.has_waiting())
    }
}

/// The drives of a set, by id: there are as many for as long as the engine lives.
#[derive(Clone, Debug)]
pub(crate) struct Drives(Vec<Device>);

impl Drives {
    pub(crate) fn of(drives: Vec<Device>) -> Self {
        assert!(
            drives.iter().enumerate().all(|(index, drive)| usize::from(drive.id.0) == index),
            "drives are listed by their ids"
        );
        Drives(drives)
    }

    pub(crate) fn get(&self, id: DeviceId) -> Option<&Device> {
        self.0.get(usize::from(id.0))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.0.len() as u8).map(DeviceId)
    }

    pub(crate) fn as_slice(&self) -> &[Device] {
        &self.0
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Device> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Device> {
        self.0.iter_mut()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Index<DeviceId> for Drives {
    type Output = Device;

    #[inline]
    fn index(&self, id: DeviceId) -> &Device {
        &self.0[usize::from(id.0)]
    }
}

impl IndexMut<DeviceId> for Drives {
    #[inline]
    fn index_mut(&mut self, id: DeviceId) -> &mut Device {
        &mut self.0[usize::from(id.0)]
    }
}

impl<'a> IntoIterator for &'a Drives {
    type Item = &'a Device;
    type IntoIter = std::slice::Iter<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Drives {
    type Item = &'a mut Device;
    type IntoIter = std::slice::IterMut<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
