//! What does a command do to what its drive holds, and to its buffer?
//!
//! Contents change at the acknowledgement (design decision 4), with everything that the drive did wrong.

use crate::command::write_of;
use crate::contents::{SimSector, block_checksum};
use crate::simulation::{Flight, Simulation};
use tandem_block::{ContentFaultKind, IoError, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK};
use tandem_drives::media::{Contents, Sector as _, Write};
use tandem_engine::{Event, IoOp};

impl Simulation {
    pub(crate) fn acknowledge_contents(&mut self, flight: &Flight, status: Result<(), IoError>) {
        let mut checksums = Vec::new();
        let mut bytes = Vec::new();
        if status.is_ok() {
            match &flight.io.op {
                IoOp::Read { .. } => checksums = self.read(flight),
                IoOp::ReadMeta { .. } => bytes = self.read_meta(flight),
                IoOp::Write { .. } => checksums = self.write(flight),
                IoOp::WriteMeta { .. } | IoOp::Trim { .. } => {
                    self.write(flight);
                }
                IoOp::Flush => {
                    let media = &mut self.stations[usize::from(flight.io.device.0)].media;
                    if !flight.faults.contains(&ContentFaultKind::FlushIgnored) {
                        media.settle_upto(flight.mark);
                    }
                }
            }
        }
        if status.is_err() && matches!(flight.io.op, IoOp::Write { .. } | IoOp::WriteMeta { .. }) {
            // a write that failed may have stored some of its sectors
            self.write(flight);
        }
        let io = flight.io.id;
        self.tell(Event::Completion {
            io,
            status,
            checksums: &checksums,
            bytes: &bytes,
            took: None,
        });
    }

    /// Where a read comes from, and whether only from what is durable.
    fn source_of(&self, flight: &Flight, offset_bytes: u64) -> (u64, bool) {
        let mut source = (offset_bytes, false);
        for fault in &flight.faults {
            match fault {
                ContentFaultKind::Misdirected { offset_bytes } => source.0 = *offset_bytes,
                ContentFaultKind::Stale => source.1 = true,
                _ => {}
            }
        }
        source
    }

    fn fetch(&self, flight: &Flight, offset_bytes: u64, target: &mut [SimSector]) {
        let media = &self.stations[usize::from(flight.io.device.0)].media;
        let (source, is_durable) = self.source_of(flight, offset_bytes);
        if is_durable {
            media.read_durable(source, target);
        } else {
            media.read(source, target);
        }
        for fault in &flight.faults {
            if let ContentFaultKind::BitFlip { offset_bytes: sector, bit } = fault {
                let index = (sector.saturating_sub(offset_bytes) / SECTOR_BYTES) as usize;
                if let Some(sector) = target.get_mut(index) {
                    sector.flip(*bit);
                }
            }
        }
    }

    fn read(&mut self, flight: &Flight) -> Vec<u32> {
        let IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes } = flight.io.op
        else {
            unreachable!("asked for reads")
        };
        let mut sectors = vec![SimSector::Token(0); (length_bytes / SECTOR_BYTES) as usize];
        self.fetch(flight, offset_bytes, &mut sectors);
        let checksums = sectors.chunks_exact(SECTORS_PER_BLOCK as usize).map(block_checksum);
        let checksums = checksums.collect();
        let buffer = self.payloads.get_mut(&into).expect("the buffer was reserved");
        let at = (into_offset_bytes / SECTOR_BYTES) as usize;
        for (target, found) in buffer[at..].iter_mut().zip(sectors) {
            *target = found;
        }
        checksums
    }

    fn read_meta(&mut self, flight: &Flight) -> Vec<u8> {
        let IoOp::ReadMeta { offset_bytes, length_bytes } = flight.io.op else {
            unreachable!("asked for metadata reads")
        };
        let mut sectors = vec![SimSector::Token(0); (length_bytes / SECTOR_BYTES) as usize];
        self.fetch(flight, offset_bytes, &mut sectors);
        let mut bytes = vec![0; length_bytes as usize];
        for (sector, out) in sectors.iter().zip(bytes.chunks_exact_mut(SECTOR_BYTES as usize)) {
            sector.write_to(out);
        }
        bytes
    }

    /// Stores a write or trim and returns the checksums of its blocks.
    fn write(&mut self, flight: &Flight) -> Vec<u32> {
        let Some(write) = write_of((&flight.io, flight.outcome.ticket), &self.payloads) else {
            return Vec::new();
        };
        let media = &mut self.stations[usize::from(flight.io.device.0)].media;
        let checksums = match &write.contents {
            Contents::Data(sectors) => {
                sectors.chunks_exact(SECTORS_PER_BLOCK as usize).map(block_checksum).collect()
            }
            Contents::Zeroes(_) => Vec::new(),
        };
        let mut stored = flight.outcome.status.is_ok();
        for fault in &flight.faults {
            match fault {
                ContentFaultKind::Lost => stored = false,
                ContentFaultKind::Torn { seed } => {
                    let mut rng = Rng::new(*seed);
                    media.apply_torn(&write, flight.outcome.durable_at, &mut rng);
                    stored = false;
                }
                ContentFaultKind::Misdirected { offset_bytes } => {
                    let elsewhere = Write { offset_bytes: *offset_bytes, ..write.clone() };
                    media.apply(elsewhere, flight.outcome.durable_at);
                    stored = false;
                }
                _ => {}
            }
        }
        if stored {
            media.apply(write, flight.outcome.durable_at);
        }
        for fault in &flight.faults {
            if let ContentFaultKind::BitFlip { offset_bytes, bit } = fault {
                media.corrupt(*offset_bytes, *bit);
            }
        }
        checksums
    }
}
