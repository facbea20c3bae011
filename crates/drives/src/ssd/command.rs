//! How long do controller and link take for one command?
//!
//! Source: models §6.1 (overheads, links, per-command occupancy).
//!
//! Over PCIe data goes as it is ready: the link is counted when a command is taken, so that a read
//! that waits for its die does not keep the link from others. Over SATA data goes in the order of
//! the commands: so the 510 serves 508 reads/s beside 98 writes/s, where [IANUS Fig. 9] measured
//! 525; with data out of order it would be 624. A spec may say that data goes as it is ready over SATA
//! too, as native command queueing allows (`link_in_order`).

use crate::rate::NsPerByte;
use crate::spec::SsdSpec;

/// Controller and link of one SSD.
#[derive(Clone, Debug)]
pub(super) struct CommandPath {
    rate: NsPerByte,
    shared: bool,
    in_order: bool,
    read_overhead_ns: u64,
    write_overhead_ns: u64,
    read_command_ns: u64,
    write_command_ns: u64,
    controller_free_ns: u64,
    read_link_free_ns: u64,
    write_link_free_ns: u64,
}

impl CommandPath {
    pub(super) fn new(spec: &SsdSpec) -> Self {
        CommandPath {
            rate: NsPerByte::from_rate(spec.link.get().0),
            shared: spec.link_shared.get(),
            in_order: spec.sends_in_order(),
            read_overhead_ns: spec.read_overhead.get().0,
            write_overhead_ns: spec.write_overhead.get().0,
            read_command_ns: spec.read_command.get().0,
            write_command_ns: spec.write_command.get().0,
            controller_free_ns: 0,
            read_link_free_ns: 0,
            write_link_free_ns: 0,
        }
    }

    /// A write of `bytes` taken at `now_ns`: when its data has arrived.
    #[inline]
    pub(super) fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let start = now_ns.max(self.controller_free_ns);
        self.controller_free_ns = start + self.write_command_ns;
        let begin = (start + self.write_overhead_ns).max(self.write_link_free_ns);
        self.write_link_free_ns = begin + self.rate.time_ns(bytes);
        self.write_link_free_ns
    }

    /// A read taken at `now_ns`: when the dies may begin.
    #[inline]
    pub(super) fn read(&mut self, now_ns: u64) -> u64 {
        let start = now_ns.max(self.controller_free_ns);
        self.controller_free_ns = start + self.read_command_ns;
        start + self.read_overhead_ns
    }

    /// A read whose dies began at `begun_ns` and had its `bytes` at `ready_ns`: when the host has
    /// them.
    #[inline]
    pub(super) fn deliver(&mut self, begun_ns: u64, ready_ns: u64, bytes: u64) -> u64 {
        let transfer_ns = self.rate.time_ns(bytes);
        if self.in_order {
            self.write_link_free_ns = ready_ns.max(self.write_link_free_ns) + transfer_ns;
            return self.write_link_free_ns;
        }
        let link_free_ns =
            if self.shared { &mut self.write_link_free_ns } else { &mut self.read_link_free_ns };
        *link_free_ns = begun_ns.max(*link_free_ns) + transfer_ns;
        (*link_free_ns).max(ready_ns + transfer_ns)
    }

    /// A command without data taken at `now_ns`: when it begins.
    pub(super) fn plain(&mut self, now_ns: u64) -> u64 {
        now_ns.max(self.controller_free_ns)
    }

    /// The power failed.
    pub(super) fn reset(&mut self, now_ns: u64) {
        self.controller_free_ns = now_ns;
        self.read_link_free_ns = now_ns;
        self.write_link_free_ns = now_ns;
    }
}
