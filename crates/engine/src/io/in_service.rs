//! Which drives are in service, and which of them takes what comes next?

use super::DeviceIo;
use crate::bcw::pool::{self, Standing};
use crate::map::objects::BlockRange;
use crate::steer::{Reason, Target};
use tandem_block::DeviceId;

impl DeviceIo {
    /// A policy would have redirected, had a drive been ready: that is demand too.
    pub(crate) fn note_missed(&mut self, reason: Reason, bytes: u64) {
        if matches!(reason, Reason::NotAccepting | Reason::PredictedSlow) {
            let congested = self.shortest_ssd().1 > 0;
            let now = self.now();
            for device in self.drives_mut() {
                if let (Some(bcw), true) = (&mut device.bcw, congested) {
                    bcw.note_demand(now, bytes);
                }
            }
        }
    }

    /// The SSD that a write goes to whose target is `Ssd`: the one that accepted least, and how much.
    #[inline]
    pub(crate) fn shortest_ssd(&self) -> (DeviceId, u32) {
        if let [alone] = self.ssds()[..] {
            let d = &self[alone];
            return (alone, if d.is_faulted() { u32::MAX } else { d.queue.length() });
        }
        self.ssds()
            .iter()
            .filter(|id| self[**id].takes_new())
            .map(|&id| (id, self[id].queue.length()))
            .min_by_key(|&(id, length)| (length, id))
            .unwrap_or((self.ssds()[0], u32::MAX))
    }

    /// The drive that a write is queued at.
    pub(crate) fn device_of(&self, target: Target) -> DeviceId {
        match target {
            Target::Log(device) => {
                assert!(!self[device].is_ssd(), "a log is on a hard drive");
                device
            }
            Target::ThisSsd(device) if self[device].takes_new() => device,
            Target::Ssd | Target::ThisSsd(_) => self.shortest_ssd().0,
        }
    }

    /// Is this the last hard drive that takes writes, while another one is due back? Then what can
    /// wait for that one waits (M12).
    pub(crate) fn is_last_hdd(&self, device: DeviceId) -> bool {
        if self.hdds().len() < 2 {
            return false;
        }
        let drives = self.hdds().iter().filter_map(|&id| {
            let device = &self[id];
            let bcw = device.bcw.as_ref().filter(|_| !device.is_gone())?;
            Some((id, Standing::of(bcw.state())))
        });
        pool::is_last(device, drives)
    }

    /// Hard drives that certainly take the next write before a slow one; a single drive has nobody to
    /// stand in for.
    pub(crate) fn hdds_with_room(&self) -> u32 {
        if self.hdds().len() < 2 {
            return 0;
        }
        let controllers = self.hdds().iter().filter_map(|&id| {
            let device = &self[id];
            device.bcw.as_ref().filter(|_| !device.is_faulted())
        });
        controllers.filter(|bcw| bcw.has_room()).count() as u32
    }

    /// May reads take this drive without keeping users' writes from it?
    pub(crate) fn is_spare(&self, device: DeviceId) -> bool {
        let d = &self[device];
        let is_wanted = d.bcw.as_ref().is_some_and(|bcw| bcw.is_wanted(self.now()));
        d.is_ssd() || !(d.is_faulted() || is_wanted)
    }

    /// The places of the homes on a hard drive.
    pub(crate) fn home_places(&self, device: DeviceId) -> BlockRange {
        let layout = &self[device].layout;
        BlockRange { first: layout.home_first, count: layout.home_blocks }
    }

    /// Places of homes on all other hard drives that take something new.
    pub(crate) fn open_places(&self, device: DeviceId) -> Vec<BlockRange> {
        let others = self.hdds().iter().filter(|&&other| other != device);
        let others = others.filter(|other| self[**other].takes_new());
        others.map(|&other| self.home_places(other)).collect()
    }

    /// Pages in one area.
    pub(crate) fn table_pages(&self) -> u64 {
        self[DeviceId(self.config().metadata_device() as u8)].layout.table_pages()
    }

    /// Drives of the same role that take something new.
    pub(crate) fn others_like(&self, device: DeviceId) -> usize {
        let role = self[device].config.role;
        let others = self
            .drives()
            .iter()
            .filter(|other| other.id != device && other.takes_new() && other.config.role == role);
        others.count()
    }

    /// An SSD that takes what this drive does not take any more.
    pub(crate) fn another_ssd(&self, device: DeviceId) -> Option<DeviceId> {
        if self.no_space.is_some() {
            return None;
        }
        let (other, _) = self.ssds.first().map(|_| self.shortest_ssd())?;
        let takes = other != device && self[other].takes_new();
        takes.then_some(other)
    }
}
