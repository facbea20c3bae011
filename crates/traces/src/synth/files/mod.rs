//! What do servers of files ask of a volume? The workloads over which Loris tried its tiers.
//!
//! ```text
//!  script (postmark, filebench, mixed) ─▶ layer (RAM, names, space) ─▶ Read, Write, Discard
//!   first makes the files, then runs
//! ```
//! Source: [LORIS §V] (what they are, sizes and counts, a RAM of 64 MB). Each is a
//! stream for `--closed-loop`: the times only say in which order. What comes before the measured phase
//! is counted by `Workload::warm_up_requests`. FileBench ran for half an hour, so a number of
//! rounds is a guess of ours: about as many as a hard drive alone does in that time.

mod filebench;
mod front;
mod layer;
mod mixed;
mod names;
mod postmark;
mod ram;
mod rotation;
mod sizes;
mod space;
#[cfg(test)]
mod tests;

use super::settings::{Kind, Setting, Settings};
use super::{SynthError, Workload};
pub(super) use filebench::{FILE_SERVER, WEB_SERVER, WEB_SERVER_ZIPF};
use layer::{Knobs, Layer};
pub(super) use mixed::MIXED;
pub(super) use postmark::POSTMARK;
use tandem_block::{Arrival, BLOCK_BYTES, GIB, MIB};

const RAM: Setting = Setting {
    name: "ram",
    default: "64MiB",
    kind: Kind::Bytes { least: MIB, most: 16 * GIB },
    summary: "RAM cache above the volume",
};
const DIRTY: Setting = Setting {
    name: "dirty",
    default: "50%",
    kind: Kind::Share,
    summary: "how much of the RAM may wait to be written; 0% writes through",
};
const ALIGN: Setting = Setting {
    name: "align",
    default: "32KiB",
    kind: Kind::Bytes { least: BLOCK_BYTES, most: MIB },
    summary: "files lie in whole units of this size, a multiple of 4KiB",
};
const REQUEST: Setting = Setting {
    name: "request",
    default: "256KiB",
    kind: Kind::Bytes { least: BLOCK_BYTES, most: MIB },
    summary: "largest request, a multiple of 4KiB; with 4KiB nothing is read ahead",
};
const APPEND_READS: Setting = Setting {
    name: "append_reads",
    default: "yes",
    kind: Kind::Choice(&["no", "yes"]),
    summary: "an append that begins inside a page reads that page first",
};

const ORDER: Setting = Setting {
    name: "order",
    default: "uniform",
    kind: Kind::Choice(&["uniform", "rotation"]),
    summary: "which file is next: any, or one after the other as FileBench does it",
};

/// A setting that counts.
const fn count(name: &'static str, default: &'static str, summary: &'static str) -> Setting {
    Setting { name, default, kind: Kind::Count { least: 1, most: 10_000_000 }, summary }
}

/// A setting that counts files.
const fn files(name: &'static str, default: &'static str, summary: &'static str) -> Setting {
    Setting { name, default, kind: Kind::Count { least: 1, most: 1_000_000 }, summary }
}

/// A setting of bytes of one file.
const fn bytes(name: &'static str, default: &'static str, summary: &'static str) -> Setting {
    Setting { name, default, kind: Kind::Bytes { least: 512, most: 64 * MIB }, summary }
}

/// What somebody does with files.
trait Script: Clone + Send + 'static {
    /// Makes some more of the files; `false`: all are made, and nothing was done.
    fn prepare(&mut self, layer: &mut Layer) -> bool;
    /// Does the next thing of the measured phase; `false`: all is done, and nothing was.
    fn run(&mut self, layer: &mut Layer) -> bool;
}

#[derive(Clone)]
struct Stream<S> {
    layer: Layer,
    script: S,
    is_prepared: bool,
}

impl<S: Script> Iterator for Stream<S> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            if let Some(arrival) = self.layer.pop() {
                return Some(arrival);
            }
            if !self.is_prepared && self.script.prepare(&mut self.layer) {
                continue;
            }
            self.is_prepared = true;
            if !self.script.run(&mut self.layer) {
                return None;
            }
        }
    }
}

/// The layer that these settings ask for, without volumes.
fn layer(settings: &Settings) -> Result<Layer, SynthError> {
    let (unit, request) = (settings.get("align"), settings.get("request"));
    if !unit.is_multiple_of(BLOCK_BYTES) || !request.is_multiple_of(BLOCK_BYTES) {
        return settings.contradiction("align and request are multiples of 4KiB");
    }
    let pages = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES).expect("at most 16 GiB");
    let ram_pages = pages(settings.get("ram")) as usize;
    let dirty_ppm = usize::try_from(settings.get("dirty")).expect("at most a million");
    Ok(Layer::new(Knobs {
        ram_pages,
        dirty_pages: ram_pages * dirty_ppm / 1_000_000,
        unit_pages: pages(unit),
        request_pages: pages(request),
        append_reads: settings.get("append_reads") == 1,
    }))
}

/// The stream, and how much of it makes the files. That phase is made twice, once to be counted.
fn workload(layer: Layer, script: impl Script) -> Workload {
    let stream = Stream { layer, script, is_prepared: false };
    let mut ahead = stream.clone();
    let mut warm_up_requests = 0;
    loop {
        while ahead.layer.pop().is_some() {
            warm_up_requests += 1;
        }
        if !ahead.script.prepare(&mut ahead.layer) {
            return Workload::with_warm_up(stream, warm_up_requests);
        }
    }
}
