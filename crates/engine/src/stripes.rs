//! Which SSD has a block under fixed placement, if the SSDs are striped?
//!
//! Source: [BCW §5.2], the extra SSD: a workload distributed equally. Without a map a block has one
//! place, so the addresses are distributed. What is left at the ends of the drives is filled one
//! drive after the other.

use tandem_block::DeviceId;

/// Bytes on one SSD before the next one's turn: the default chunk of Linux's md (memory).
const UNIT_BYTES: u64 = 512 << 10;

/// SSDs of one size, striped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripes {
    ssds: u64,
    rows: u64,
    end_bytes: u64,
}

impl Stripes {
    /// Over SSDs of these capacities; `None` unless there are several of one size.
    pub(crate) fn over(capacities: &[u64]) -> Option<Self> {
        let capacity = *capacities.first()?;
        let alike = capacities.len() > 1 && capacities.iter().all(|other| *other == capacity);
        let (rows, end_bytes) = (capacity / UNIT_BYTES, capacity % UNIT_BYTES);
        alike.then_some(Stripes { ssds: capacities.len() as u64, rows, end_bytes })
    }

    /// The SSD and the byte on it of a logical byte.
    pub(crate) fn place(self, ssds: &[DeviceId], bytes: u64) -> (DeviceId, u64) {
        assert!(ssds.len() as u64 == self.ssds, "the SSDs are those that were striped");
        let (unit, within) = (bytes / UNIT_BYTES, bytes % UNIT_BYTES);
        if unit < self.ssds * self.rows {
            let row = unit / self.ssds;
            return (ssds[(unit % self.ssds) as usize], row * UNIT_BYTES + within);
        }
        let beyond = bytes - self.ssds * self.rows * UNIT_BYTES;
        assert!(beyond < self.ssds * self.end_bytes, "a byte lies on one of the SSDs");
        let ssd = ssds[(beyond / self.end_bytes) as usize];
        (ssd, self.rows * UNIT_BYTES + beyond % self.end_bytes)
    }

    /// Bytes from a logical byte on that lie on the same SSD side by side.
    pub(crate) fn rest(self, bytes: u64) -> u64 {
        let striped = self.ssds * self.rows * UNIT_BYTES;
        if bytes < striped {
            return UNIT_BYTES - bytes % UNIT_BYTES;
        }
        assert!(bytes - striped < self.ssds * self.end_bytes, "a byte lies on one of the SSDs");
        self.end_bytes - (bytes - striped) % self.end_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every block has a place of its own within its drive, and pieces end where the drive changes.
    #[test]
    fn every_block_has_its_own_place() {
        let (capacity, block) = (3 * UNIT_BYTES + 8192, 4096);
        let ssds = [DeviceId(0), DeviceId(1), DeviceId(2)];
        let stripes = Stripes::over(&[capacity; 3]).expect("three of one size");
        let mut places = BTreeSet::new();
        let mut at = 0;
        while at < 3 * capacity {
            let rest = stripes.rest(at);
            let (device, first) = stripes.place(&ssds, at);
            for offset in (0..rest).step_by(block) {
                assert_eq!(stripes.place(&ssds, at + offset), (device, first + offset));
                assert!(first + offset < capacity);
                assert!(places.insert((device, first + offset)), "{at}");
            }
            at += rest;
        }
        assert_eq!(at, 3 * capacity);
        assert!(Stripes::over(&[capacity]).is_none());
        assert!(Stripes::over(&[capacity, capacity + 1]).is_none());
    }
}
