//! When does the write buffer have room, and what in it is not on the flash yet?
//!
//! Source: models §6.1: a buffer of B units as a ring of completion times. Unit j may open when
//! unit j-B is programmed: back-pressure emerges.

/// The ring of program ends, and the unit that is being filled.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    /// When the unit that last used this slot is programmed.
    ends_ns: Vec<u64>,
    slot: usize,
    /// Units programmed so far: the number of the open unit.
    pub(super) unit: u64,
    /// Pages in the open unit.
    pub(super) open_pages: u32,
    unit_pages: u32,
    /// When the open unit may take pages.
    gate_ns: u64,
    /// Latest end of all units that have lost their slot to a newer one.
    evicted_end_ns: u64,
    /// Latest end of all programs.
    pub(super) last_end_ns: u64,
}

impl WriteBuffer {
    pub(super) fn new(units: u32, unit_pages: u32) -> Self {
        WriteBuffer {
            ends_ns: vec![0; units as usize],
            slot: 0,
            unit: 0,
            open_pages: 0,
            unit_pages,
            gate_ns: 0,
            evicted_end_ns: 0,
            last_end_ns: 0,
        }
    }

    /// Takes a page that has arrived at `at_ns`; returns when there was room for it, and whether
    /// the unit is full now.
    #[inline]
    pub(super) fn take(&mut self, at_ns: u64) -> (u64, bool) {
        if self.open_pages == 0 {
            self.gate_ns = self.ends_ns[self.slot];
            self.evicted_end_ns = self.evicted_end_ns.max(self.gate_ns);
        }
        self.open_pages += 1;
        (at_ns.max(self.gate_ns), self.open_pages == self.unit_pages)
    }

    /// Pages missing in the open unit; 0 if none is open.
    pub(super) fn missing_pages(&self) -> u32 {
        if self.open_pages == 0 { 0 } else { self.unit_pages - self.open_pages }
    }

    /// When the open unit may be programmed at the earliest.
    pub(super) fn gate_ns(&self) -> u64 {
        self.gate_ns
    }

    /// The open unit will be programmed at `end_ns`; the next one opens.
    #[inline]
    pub(super) fn programmed(&mut self, end_ns: u64) {
        self.ends_ns[self.slot] = end_ns;
        self.slot += 1;
        if self.slot == self.ends_ns.len() {
            self.slot = 0;
        }
        self.unit += 1;
        self.open_pages = 0;
        self.last_end_ns = self.last_end_ns.max(end_ns);
    }

    /// Is the host unit of this number in the buffer at `now_ns`?
    #[inline]
    pub(super) fn holds(&self, unit: u64, now_ns: u64) -> bool {
        if unit >= self.unit {
            return unit == self.unit;
        }
        let slots = self.ends_ns.len() as u64;
        unit + slots > self.unit && self.ends_ns[(unit % slots) as usize] > now_ns
    }

    /// Pages from the newest back to the oldest that is not on the flash at `now_ns`. All pages
    /// ever written if the backlog is longer than the ring remembers.
    pub(super) fn volatile_pages(&self, now_ns: u64) -> u64 {
        let slots = self.ends_ns.len() as u64;
        let oldest = self.unit.saturating_sub(slots);
        let volatile = if self.evicted_end_ns > now_ns {
            0
        } else {
            (oldest..self.unit).find(|unit| self.holds(*unit, now_ns)).unwrap_or(self.unit)
        };
        (self.unit - volatile) * u64::from(self.unit_pages) + u64::from(self.open_pages)
    }

    /// The power failed: everything in it is gone.
    pub(super) fn reset(&mut self, now_ns: u64) {
        self.ends_ns.fill(now_ns);
        (self.gate_ns, self.evicted_end_ns, self.last_end_ns) = (now_ns, now_ns, now_ns);
    }
}
