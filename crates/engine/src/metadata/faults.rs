//! A drive that failed a write, or a flush, is taken out of service here.
//!
//! Such a drive is read only from then on, and its copy of the metadata lags. Both are true at once. Everybody
//! else is told between two steps. The last home of the metadata stays in service: nobody can stand in for it,
//! and its commands are tried again.

use super::MetadataHomes;
use crate::device::Service;
use crate::io::{DeviceIo, News};
use tandem_block::{DeviceId, Duration, IoError};

/// The pause before a drive that failed is tried again; it doubles with each try in vain, up to 64 times
/// this (guess).
pub(crate) const PROBE_AFTER: Duration = Duration::from_s(5);

impl MetadataHomes {
    /// A drive failed a write, or a flush: it is read only from now on.
    pub(crate) fn fault(&mut self, device: DeviceId, error: IoError, io: &mut DeviceIo) {
        if !io[device].is_faulted() && self.sound_homes(io) != [device] {
            self.take_out(device, Service::ReadOnly(error), io);
        }
    }

    /// A command to the drive has ended: if it failed, so has the drive.
    pub(crate) fn fault_if(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        io: &mut DeviceIo,
    ) {
        if let Err(error) = status {
            self.fault(device, error, io);
        }
    }

    /// # Panics
    /// If it shall be in full service.
    pub(crate) fn take_out(&mut self, device: DeviceId, service: Service, io: &mut DeviceIo) {
        assert!(service != Service::Full, "a drive is taken out of service for a reason");
        if io[device].is_out() || io[device].service == service {
            return;
        }
        // nobody has more than the last home of the metadata, so it does not lag, whatever becomes of it
        let is_last = self.sound_homes(io) == [device];
        let now = io.now();
        let d = &mut io[device];
        let first = !d.is_faulted();
        d.service = service;
        if first {
            d.flush_wanted = false;
            d.probe_at = now + Duration::from_ns(PROBE_AFTER.ns << d.probes.min(6));
            if let Some(bcw) = &mut d.bcw {
                bcw.fault();
            }
            io.stats_mut().faulted_drives += 1;
            if !is_last {
                self.note_lagging(device, io);
            }
        }
        io.tell(News::TakenOut { device, service, first });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;

    fn news(io: &mut DeviceIo) -> Option<(DeviceId, bool)> {
        io.next_news().map(|news| match news {
            News::TakenOut { device, first, .. } => (device, first),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_drive_that_failed_is_out_of_service_and_lags_at_once() {
        let (mut io, mut homes) = (drives(2, 1), MetadataHomes::default());
        let [ssd, last, hdd] = [DeviceId(0), DeviceId(1), DeviceId(2)];
        homes.fault(ssd, IoError::Device(ssd), &mut io);
        assert!(io[ssd].is_faulted() && !io[ssd].is_out() && homes.contains(ssd));
        assert_eq!(news(&mut io), Some((ssd, true)), "everybody else is told later");
        homes.fault(ssd, IoError::Device(ssd), &mut io);
        assert_eq!(news(&mut io), None, "once");
        // it gives no answer any more, either
        homes.take_out(ssd, Service::Out(IoError::NoAnswer(ssd)), &mut io);
        assert!(io[ssd].is_out());
        assert_eq!(news(&mut io), Some((ssd, false)));
        homes.fault_if(hdd, Ok(()), &mut io);
        homes.fault_if(hdd, Err(IoError::Device(hdd)), &mut io);
        assert_eq!(news(&mut io), Some((hdd, true)));
        assert_eq!(io.stats().faulted_drives, 2);
        // nobody can stand in for the last home of the metadata
        homes.fault(last, IoError::Device(last), &mut io);
        assert!(!io[last].is_faulted() && !homes.contains(last));
        assert_eq!(news(&mut io), None);
        // but nothing more is asked of one that gives no answer; it does not lag: nobody has more
        homes.take_out(last, Service::Out(IoError::NoAnswer(last)), &mut io);
        assert!(io[last].is_out() && !homes.contains(last));
    }

    #[test]
    #[should_panic(expected = "for a reason")]
    fn a_drive_is_not_taken_out_into_full_service() {
        let (mut io, mut homes) = (drives(2, 0), MetadataHomes::default());
        homes.take_out(DeviceId(0), Service::Full, &mut io);
    }
}
