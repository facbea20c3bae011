//! What is under way on the logs of hard drives?

use super::DeviceIo;
use crate::bcw::controller::{Action, Control};
use crate::owner::{LogIo, Owner, RequestIo};
use tandem_block::{BLOCK_BYTES, DeviceId};

impl DeviceIo {
    /// Where users want the drive and their next write would have to leave the stream, padding does so
    /// first: what follows is a stream again.
    pub(crate) fn pads_over_break(&mut self, device: DeviceId) -> Option<Action> {
        let now = self.now();
        let d = &mut self[device];
        let (bcw, log) = (d.bcw.as_mut()?, d.log.as_ref()?);
        let left_bytes = log.slots_before_break() * BLOCK_BYTES;
        let breaks = log.breaks_within(bcw.wanted_bytes().div_ceil(BLOCK_BYTES));
        if breaks { bcw.pad_over_break(now, left_bytes) } else { None }
    }

    /// Must a write leave the stream of a log that is kept fast, everything promised before it counted?
    pub(crate) fn breaks_stream(&self, device: DeviceId, bytes: u64) -> bool {
        let d = &self[device];
        let (Some(bcw), Some(log)) = (&d.bcw, &d.log) else { return false };
        bcw.control() != Control::Bare && log.breaks_within(bytes.div_ceil(BLOCK_BYTES))
    }

    /// Is everything in the tail of a drive on the SSDs, or of no use any more?
    pub(crate) fn is_copied(&self, device: DeviceId) -> bool {
        let items = &self[device].tail.items;
        items.iter().all(|item| item.copied) && self.copies_in_flight(device) == 0
    }

    pub(crate) fn log_write_in_flight(&self, device: DeviceId) -> bool {
        self.flights().iter().any(|(_, io)| {
            io.device == device
                && matches!(
                    io.owner,
                    Owner::Request(RequestIo::Write { .. } | RequestIo::Edge { .. })
                        | Owner::Late(_)
                )
        })
    }

    pub(crate) fn copies_in_flight(&self, device: DeviceId) -> usize {
        let region = self[device].log.as_ref().map(|log| *log.region());
        self.flights()
            .iter()
            .filter(|(_, io)| match &io.owner {
                Owner::Log(LogIo::Copy(copy)) => region.is_some_and(|r| r.contains(copy.log)),
                _ => false,
            })
            .count()
    }
}
