//! Which drive is at which place, while drives come and go?
//!
//! The engine names drives by their places, the ring's completions by tags that stay with a drive: what
//! a drive that was let go had under way in the ring (an emulated one writes to its file by itself) comes
//! back to nobody.

use crate::device::Device;

/// A drive at its place.
struct Bay {
    tag: u32,
    device: Box<dyn Device>,
}

/// The drives of an event loop, by place.
pub(crate) struct Drives {
    bays: Vec<Bay>,
    tags: u32,
}

impl Drives {
    /// These, in the order of their places.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Drives {
        let mut drives = Drives { bays: Vec::new(), tags: 0 };
        devices.into_iter().for_each(|device| drives.add(device));
        drives
    }

    /// Adds one behind all others.
    pub fn add(&mut self, device: Box<dyn Device>) {
        self.bays.push(Bay { tag: self.tags, device });
        self.tags += 1;
    }

    /// The drive at a place, and its tag.
    pub fn at(&mut self, place: usize) -> (u32, &mut dyn Device) {
        let bay = &mut self.bays[place];
        (bay.tag, &mut *bay.device)
    }

    /// The place of the drive with this tag, if it is here still.
    pub fn place_of(&self, tag: u32) -> Option<usize> {
        self.bays.iter().position(|bay| bay.tag == tag)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Device> {
        self.bays.iter().map(|bay| &*bay.device)
    }

    /// The last one takes this place; what was there is closed.
    ///
    /// # Panics
    /// If it is the last one itself.
    pub fn succeed(&mut self, place: usize) {
        let bay = self.bays.pop().expect("there is a successor");
        self.bays[place] = bay;
    }

    /// What is at this place is closed, and `empty` stands there.
    pub fn close(&mut self, place: usize, empty: Box<dyn Device>) {
        self.bays[place] = Bay { tag: self.tags, device: empty };
        self.tags += 1;
    }

    /// The last one is closed.
    ///
    /// # Panics
    /// If there is none.
    pub fn let_go(&mut self) {
        self.bays.pop().expect("there is a successor");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Backing, DeviceConfig, open};
    use tandem_block::DeviceId;

    fn ram(bytes: u64) -> Box<dyn Device> {
        let config = DeviceConfig { backing: Backing::Ram { bytes }, emulate: None };
        open(DeviceId(0), config).expect("memory is there")
    }

    #[test]
    fn tags_stay_with_drives() {
        let mut drives = Drives::new(vec![ram(4096), ram(8192)]);
        drives.add(ram(16384));
        drives.succeed(0);
        let sizes: Vec<u64> = drives.iter().map(|device| device.capacity_bytes()).collect();
        assert_eq!(sizes, [16384, 8192]);
        assert_eq!(
            (drives.place_of(2), drives.place_of(1), drives.place_of(0)),
            (Some(0), Some(1), None)
        );
        drives.add(ram(4096));
        assert_eq!(drives.at(2).0, 3, "a tag is used once");
        drives.let_go();
        assert_eq!(drives.bays.len(), 2);
        drives.close(0, ram(4096));
        assert_eq!((drives.bays.len(), drives.at(0).0, drives.place_of(2)), (2, 4, None));
    }
}
