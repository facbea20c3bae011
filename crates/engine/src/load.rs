//! What has a drive to do, and for how long already?
//!
//! Kept where it changes, so that steering may look at it for every write: bytes that wait and that
//! are in flight, reads among them, and the oldest read or write in flight. The commands of a drive
//! are a list in order of issue through the slab that holds them.

use crate::config::Role;
use crate::device::Purpose;
use crate::engine::{Engine, IoState};
use crate::port::{IoId, IoOp};
use crate::steer::rate::Rate;
use tandem_block::{DeviceId, Duration};

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
    pub(crate) oldest: Option<IoId>,
    pub(crate) newest: Option<IoId>,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            waiting_bytes: 0,
            in_flight_bytes: 0,
            reads_in_flight: 0,
            reads_lately: Rate::new(READS_WINDOW),
            oldest: None,
            newest: None,
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
    older: Option<IoId>,
    newer: Option<IoId>,
}

impl Place {
    pub fn of(op: &IoOp) -> Self {
        let read = matches!(op, IoOp::Read { .. } | IoOp::ReadMeta { .. });
        let listed = !matches!(op, IoOp::Flush | IoOp::Trim { .. });
        Place { read, listed, queue_length: 0, in_flight_bytes: 0, older: None, newer: None }
    }
}

impl Engine {
    /// A command has been issued: the newest of its drive.
    #[inline]
    pub(crate) fn list_io(&mut self, key: IoId) {
        let io = &mut self.ios[key];
        let device = &mut self.devices[io.device];
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
        let older = load.newest.replace(key);
        io.place.older = older;
        match older {
            None => load.oldest = Some(key),
            Some(older) => self.ios[older].place.newer = Some(key),
        }
    }

    /// A command has ended and left the slab.
    #[inline]
    pub(crate) fn unlist_io(&mut self, io: &IoState) {
        let load = &mut self.devices[io.device].load;
        load.in_flight_bytes -= io.bytes;
        load.reads_in_flight -= u32::from(io.place.read);
        if !io.place.listed {
            return;
        }
        let (older, newer) = (io.place.older, io.place.newer);
        match older {
            None => load.oldest = newer,
            Some(older) => self.ios[older].place.newer = newer,
        }
        match newer {
            None => load.newest = older,
            Some(newer) => self.ios[newer].place.older = older,
        }
    }

    /// How long the oldest read or write of a drive has been in flight, in ns.
    #[inline]
    pub(crate) fn oldest_io_ns(&self, device: DeviceId) -> u64 {
        match self.devices[device].load.oldest {
            None => 0,
            Some(key) => self.now.since(self.ios[key].issued).ns,
        }
    }
}
