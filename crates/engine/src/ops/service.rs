//! Taking drives out of service: what the error of a drive means for everybody else.
//!
//! Rule: one place knows who is affected when a drive fails a write or a flush. Such a drive is read only
//! from then on: its free space does not count, its copy of the metadata lags (`lagging`), writes that wait
//! for it go elsewhere or fail by name, and what lies there is still read. The last home of the metadata
//! stays in service: nobody can stand in for it, and its commands are tried again (`commit`).

use crate::device::Service;
use crate::engine::Engine;
use tandem_block::{DeviceId, IoError};

impl Engine {
    /// A drive failed a write, or a flush: it is read only from now on.
    pub(crate) fn fault(&mut self, device: DeviceId, error: IoError) {
        if !self.devices[usize::from(device.0)].is_faulted() && self.sound_homes() != [device] {
            self.take_out(device, Service::ReadOnly(error));
        }
    }

    fn take_out(&mut self, device: DeviceId, service: Service) {
        let d = &mut self.devices[usize::from(device.0)];
        if d.is_out() || d.service == service {
            return;
        }
        let was_faulted = d.is_faulted();
        d.service = service;
        if was_faulted {
            return; // everybody knows already
        }
        d.flush_wanted = false;
        self.stats.faulted_drives += 1;
        self.note_lagging(device);
        let d = &mut self.devices[usize::from(device.0)];
        if d.is_ssd() {
            self.close_failed_ssd(device);
        } else {
            if let Some(bcw) = &mut d.bcw {
                bcw.fault();
            }
            self.rescue_wanted = true;
            self.lose_homed(device);
            self.lose_follower(device);
        }
        let (Service::ReadOnly(error) | Service::Out(error)) = service else {
            unreachable!("a drive is taken out of service for a reason");
        };
        if self.sound_homes().is_empty() && !self.is_fixed() {
            self.commit.break_off(error);
        }
    }

    /// Drives that have left a command without an answer for too long: nothing is asked of them any more,
    /// and who waits for them is told.
    pub(crate) fn abandon_overdue(&mut self) {
        for drive in self.deadlines.overdue(self.now) {
            let error = IoError::NoAnswer(drive);
            self.stats.silent_drives += 1;
            // a pair, or a replacement, does without one of its drives
            let device = self.devices.get(usize::from(drive.0)).filter(|device| !device.is_pair);
            if device.is_some() && self.is_serving() {
                self.take_out(drive, Service::Out(error));
            }
            for io in self.deadlines.abandon(drive) {
                self.hear((io, None), Err(error), &[], &[]);
            }
        }
    }

    /// Has a drive left a command without an answer for more than half of its deadline?
    pub fn is_slow(&self, drive: DeviceId) -> bool {
        self.deadlines.is_slow(drive)
    }

    /// Commands that were abandoned, and that their drives have not answered since.
    pub fn abandoned_commands(&self) -> usize {
        self.deadlines.abandoned()
    }

    /// Nothing new goes to an SSD that failed, so its free slots are no room for anybody.
    fn close_failed_ssd(&mut self, device: DeviceId) {
        let ssd = self.ssds.iter().position(|&id| id == device).expect("an SSD");
        let has_other = self.ssds.iter().any(|id| self.devices[usize::from(id.0)].takes_new());
        if has_other && !self.is_fixed() && self.is_serving() {
            self.map.close_ssd(ssd, true);
            self.fit_objects();
            self.share_anew();
        }
    }

    /// Why a drive is out of service, if it is.
    pub fn fault_of(&self, device: DeviceId) -> Option<IoError> {
        match self.devices[usize::from(device.0)].service {
            Service::Full => None,
            Service::ReadOnly(error) | Service::Out(error) => Some(error),
        }
    }
}
