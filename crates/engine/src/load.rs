//! What has a drive to do, and for how long already?
//!
//! Kept where it changes, so that steering may look at it for every write: bytes that wait and that
//! are in flight, reads among them, and the oldest read or write in flight. The commands of a drive
//! are a list in order of issue through the slab that holds them.

use crate::config::Role;
use crate::device::Purpose;
use crate::engine::{Engine, IoState};
use crate::port::IoOp;
use crate::steer::rate::Rate;
use tandem_block::{DeviceId, Duration};

/// No command.
pub(crate) const NO_IO: u32 = u32::MAX;
/// Reads of a hard drive are counted over this long.
const READS_WINDOW: Duration = Duration::from_s(1);

/// What one drive has to do.
#[derive(Clone, Debug)]
pub struct Load {
    /// Bytes of jobs that wait.
    pub waiting_bytes: u64,
    /// Bytes of commands in flight.
    pub in_flight_bytes: u64,
    /// Reads in flight.
    pub reads_in_flight: u32,
    /// Users' reads that it was given lately.
    pub reads_lately: Rate,
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            waiting_bytes: 0,
            in_flight_bytes: 0,
            reads_in_flight: 0,
            reads_lately: Rate::new(READS_WINDOW),
            oldest: NO_IO,
            newest: NO_IO,
        }
    }
}

/// A command's place among those of its drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub read: bool,
    /// A read or write; flushes and trims have no usual latency, so they are not in the list.
    pub listed: bool,
    /// Commands before it when it was issued, and bytes in flight with its own.
    pub queue_length: u32,
    pub in_flight_bytes: u64,
    older: u32,
    newer: u32,
}

impl Place {
    pub fn of(op: &IoOp) -> Self {
        let read = matches!(op, IoOp::Read { .. } | IoOp::ReadMeta { .. });
        let listed = !matches!(op, IoOp::Flush | IoOp::Trim { .. });
        Place { read, listed, queue_length: 0, in_flight_bytes: 0, older: NO_IO, newer: NO_IO }
    }
}

impl Engine {
    /// A command has been issued: the newest of its drive.
    #[inline]
    pub(crate) fn list_io(&mut self, key: u32) {
        let io = &mut self.ios[key as usize];
        let device = &mut self.devices[usize::from(io.device.0)];
        let load = &mut device.load;
        load.in_flight_bytes += io.bytes;
        load.reads_in_flight += u32::from(io.place.read);
        if matches!(io.purpose, Purpose::Read(_)) && device.config.role == Role::Hdd {
            load.reads_lately.add(io.issued);
        }
        io.place.queue_length = device.queue_length - 1;
        io.place.in_flight_bytes = load.in_flight_bytes;
        if !io.place.listed {
            return;
        }
        let older = std::mem::replace(&mut load.newest, key);
        io.place.older = older;
        match older {
            NO_IO => load.oldest = key,
            older => self.ios[older as usize].place.newer = key,
        }
    }

    /// A command has ended and left the slab.
    #[inline]
    pub(crate) fn unlist_io(&mut self, io: &IoState) {
        let load = &mut self.devices[usize::from(io.device.0)].load;
        load.in_flight_bytes -= io.bytes;
        load.reads_in_flight -= u32::from(io.place.read);
        if !io.place.listed {
            return;
        }
        let (older, newer) = (io.place.older, io.place.newer);
        if older == NO_IO {
            load.oldest = newer;
        }
        if newer == NO_IO {
            load.newest = older;
        }
        if older != NO_IO {
            self.ios[older as usize].place.newer = newer;
        }
        if newer != NO_IO {
            self.ios[newer as usize].place.older = older;
        }
    }

    /// How long the oldest read or write of a drive has been in flight, in ns.
    #[inline]
    pub(crate) fn oldest_io_ns(&self, device: DeviceId) -> u64 {
        match self.devices[usize::from(device.0)].load.oldest {
            NO_IO => 0,
            key => self.now.since(self.ios[key as usize].issued).ns,
        }
    }
}
