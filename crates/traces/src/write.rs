//! How does a workload become a file that Tandem and others can read?
//!
//! As MSR Cambridge CSV: one line per request, the object as the disk number, times on its grid of
//! 100 ns (later digits are dropped), streams left out, and the type of what is written with FUA.
//! What `synth` makes reads back identical.
//!
//! A file begins with the time of its first request and numbers objects as they appear, so arrivals
//! that begin at 0 and number their objects so come back as they were.

use std::io::{self, Write};
use tandem_block::{Arrival, Op, RequestType};

/// The host of every line; host and disk number name the device.
const HOST: &str = "tandem";
/// A Windows file time counts these.
const TICK_NS: u64 = 100;

/// Writes arrivals as MSR CSV and returns how many. `out` is best buffered.
///
/// # Errors
/// What `out` answers; what was written before stays.
pub fn write_msr(
    arrivals: impl IntoIterator<Item = Arrival>,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut count = 0;
    for arrival in arrivals {
        let is_metadata = arrival.data_type == RequestType::Metadata;
        let kind = match arrival.op {
            Op::Read if is_metadata => "ReadMetadata",
            Op::Read => "Read",
            Op::Write if is_metadata && !arrival.fua => "WriteMetadata",
            Op::Write if arrival.fua => "WriteFua",
            Op::Write => "Write",
            Op::Flush => "Flush",
            Op::Discard => "Discard",
            Op::WriteZeroes => "WriteZeroes",
        };
        writeln!(
            out,
            "{},{HOST},{},{kind},{},{},0",
            arrival.at.ns / TICK_NS,
            arrival.object.0,
            arrival.offset_bytes,
            arrival.length_bytes
        )?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, open_reader, synth};
    use tandem_block::{Instant, ObjectId, StreamId};

    fn round_trip(arrivals: &[Arrival]) -> Vec<Arrival> {
        let mut file = Vec::new();
        let written = write_msr(arrivals.iter().copied(), &mut file).unwrap();
        assert_eq!(written, arrivals.len() as u64);
        let reader = open_reader("t", io::Cursor::new(file), &OpenOptions::default()).unwrap();
        assert_eq!(reader.format().name, "msr");
        reader.map(Result::unwrap).collect()
    }

    #[test]
    fn every_workload_reads_back_identical() {
        for generator in synth::GENERATORS {
            let arrivals: Vec<_> = synth::build(generator.name, 3).unwrap().take(5_000).collect();
            assert!(round_trip(&arrivals) == arrivals, "{}", generator.name);
        }
    }

    #[test]
    fn every_operation_reads_back_identical() {
        let arrivals: Vec<_> =
            [Op::Write, Op::Flush, Op::Read, Op::Discard, Op::WriteZeroes, Op::Write]
                .into_iter()
                .enumerate()
                .map(|(number, op)| Arrival {
                    at: Instant::from_ns(number as u64 * 100),
                    object: ObjectId(number as u64 % 2),
                    op,
                    offset_bytes: if op == Op::Flush { 0 } else { 512 },
                    length_bytes: if op == Op::Flush { 0 } else { 1024 },
                    fua: number == 5,
                    stream: StreamId(0),
                    data_type: RequestType::Data,
                })
                .collect();
        assert_eq!(round_trip(&arrivals), arrivals);
    }
}
