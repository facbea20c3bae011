//! Can everything that was written be read? A front end that reads all of it once.
//!
//! The engine compares what it reads with the checksums it has, and falls back to another copy
//! where there is one; what is left is an error here, told to the block.

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, DurabilityClass, MIB, ObjectId, Op, PayloadId, StreamId};
use tandem_engine::map::objects::Object;
use tandem_live::front::{Front, FrontContext, FrontRequest};
use tandem_live::uring::Finished;
use tandem_live::{Done, Extent};

/// Reads under way.
const READS_MAX: usize = 16;
/// Bytes of one read.
const READ_BYTES: u64 = MIB;
/// Places that are listed.
const BAD_MAX: usize = 100;

/// A place that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bad {
    /// Position of the volume in the configuration.
    pub volume: usize,
    /// Of a volume of files: the object of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<u64>,
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// What the engine answered.
    pub error: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// By volume: (bytes of data, bytes that cannot be read).
    pub bytes: Vec<(u64, u64)>,
    /// The first places.
    pub bad: Vec<Bad>,
    /// All was read.
    pub finished: bool,
}

/// What is read from beginning to end: a volume of blocks, or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Position of the volume in the configuration.
    pub volume: usize,
    /// What holds the bytes.
    pub object: ObjectId,
    /// How many.
    pub size_bytes: u64,
    /// It is a file.
    pub is_file: bool,
}

/// A range of one of them.
#[derive(Clone, Copy, Debug)]
struct Part {
    whole: usize,
    offset: u64,
    length: u64,
}

/// On stderr, and only on a terminal.
fn bar() -> ProgressBar {
    let template = "{bar:40} {bytes} of {total_bytes} of the volumes, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    ProgressBar::new(0).with_style(style)
}

/// Reads every volume.
pub(super) struct Verify {
    /// The volumes, then all files.
    wholes: Vec<Whole>,
    findings: Rc<RefCell<Findings>>,
    /// How much of all of them was looked at.
    bar: ProgressBar,
    /// To be read first: parts of a read that failed, block by block.
    again: VecDeque<Part>,
    /// Where the walk is: which of them, and byte.
    at: (usize, u64),
    /// Data that was found and not read yet.
    ahead: VecDeque<Part>,
    reading: slab::Slab<Part>,
    /// Turns go by before the engine is ready, too.
    begun: bool,
    stopping: bool,
}

impl Verify {
    /// The volumes of the configuration, in their order.
    pub fn new(volumes: Vec<(ObjectId, u64)>, findings: Rc<RefCell<Findings>>) -> Verify {
        findings.borrow_mut().bytes = vec![(0, 0); volumes.len()];
        let whole =
            |(volume, (object, size_bytes))| Whole { volume, object, size_bytes, is_file: false };
        Verify {
            wholes: volumes.into_iter().enumerate().map(whole).collect(),
            findings,
            bar: bar(),
            again: VecDeque::new(),
            at: (0, 0),
            ahead: VecDeque::new(),
            reading: slab::Slab::new(),
            begun: false,
            stopping: false,
        }
    }

    /// Finds the files of all volumes, and their snapshots.
    fn find_files(&mut self, context: &FrontContext<'_>) {
        let Some(engine) = context.engine() else { return };
        let volumes = self.wholes.clone();
        let is_more = |known: &Object| known.is_thin() || known.is_snapshot;
        for (object, known) in engine.objects().iter().filter(|(_, known)| is_more(known)) {
            if let Some(of) = volumes.iter().find(|volume| volume.object == known.volume) {
                // sizes are to the byte, data is in blocks
                let size_bytes = known.size_bytes.next_multiple_of(BLOCK_BYTES);
                self.wholes.push(Whole { volume: of.volume, object, size_bytes, is_file: true });
            }
        }
        self.bar.set_length(self.wholes.iter().map(|whole| whole.size_bytes).sum());
    }

    /// The next part to read.
    fn next(&mut self, context: &FrontContext<'_>) -> Option<Part> {
        if let Some(part) = self.again.pop_front() {
            return Some(part);
        }
        while self.ahead.is_empty() {
            self.look_ahead(context)?;
        }
        self.ahead.pop_front()
    }

    /// Asks the map where the next data lies. `None` at the end of the last volume.
    fn look_ahead(&mut self, context: &FrontContext<'_>) -> Option<()> {
        let (whole, from) = self.at;
        let Whole { volume, object, size_bytes: size, .. } = *self.wholes.get(whole)?;
        if from >= size {
            self.at = (whole + 1, 0);
            return Some(());
        }
        let mut extents: Vec<Extent> = Vec::new();
        context.extents(object, (from, size - from), &mut extents);
        let mut at = from;
        for extent in extents {
            let end = (at + extent.length_bytes).min(size);
            if extent.allocated {
                self.findings.borrow_mut().bytes[volume].0 += end - at;
                while at < end {
                    let length = READ_BYTES.min(end - at);
                    self.ahead.push_back(Part { whole, offset: at, length });
                    at += length;
                }
            }
            at = end;
        }
        assert!(at > from, "the map says something of every byte");
        self.bar.inc(at - from);
        self.at = (whole, at);
        Some(())
    }

    fn go_on(&mut self, context: &mut FrontContext<'_>) {
        while self.begun && !self.stopping && self.reading.len() < READS_MAX {
            if !context.has_room(READ_BYTES) {
                return;
            }
            let Some(part) = self.next(context) else { break };
            let front_request = FrontRequest {
                object: self.wholes[part.whole].object,
                op: Op::Read,
                offset_bytes: part.offset,
                length_bytes: part.length,
                fua: false,
                stream: StreamId(0),
                class: DurabilityClass::VolatileOk,
                payload: PayloadId::NONE,
            };
            let key = self.reading.insert(part);
            context.submit(front_request, key as u64);
        }
        if self.begun && self.reading.is_empty() && !self.stopping {
            self.bar.finish_and_clear();
            self.findings.borrow_mut().finished = true;
            context.stop_event_loop();
        }
    }

    fn failed(&mut self, part: Part, error: tandem_block::IoError) {
        if part.length > BLOCK_BYTES {
            let end = part.offset + part.length;
            let blocks = (part.offset..end).step_by(BLOCK_BYTES as usize);
            let piece = |offset| Part { offset, length: BLOCK_BYTES.min(end - offset), ..part };
            self.again.extend(blocks.map(piece));
            return;
        }
        let mut findings = self.findings.borrow_mut();
        let Whole { volume, object, is_file, .. } = self.wholes[part.whole];
        let object = is_file.then_some(object.0);
        findings.bytes[volume].1 += part.length;
        let error = error.to_string();
        if let Some(last) = findings.bad.last_mut()
            && (last.volume, last.object) == (volume, object)
            && last.offset_bytes + last.length_bytes == part.offset
            && last.error == error
        {
            last.length_bytes += part.length;
        } else if findings.bad.len() < BAD_MAX {
            let Part { offset: offset_bytes, length: length_bytes, .. } = part;
            findings.bad.push(Bad { volume, object, offset_bytes, length_bytes, error });
        }
    }
}

impl Front for Verify {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.begun = true;
        self.find_files(context);
        self.go_on(context);
    }

    fn finished(&mut self, _done: Finished, _context: &mut FrontContext<'_>) {}

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        let part = self.reading.remove(cookie as usize);
        context.release(done.payload);
        if let Err(error) = done.status {
            self.failed(part, error);
        }
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        self.go_on(context);
    }

    fn room(&mut self, context: &mut FrontContext<'_>) {
        self.go_on(context);
    }

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.stopping = true;
    }

    fn is_quiet(&self) -> bool {
        self.reading.is_empty()
    }
}
