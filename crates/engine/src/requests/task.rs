//! What does the engine remember of one request under way?

use super::ordering::TaskId;
use crate::arena::Arena;
use crate::device::Whose;
use crate::map::Logical;
use crate::port::ServedFrom;
use crate::qos::delivery::{NO_STREAM, StreamIndex};
use crate::steer::{Expected, Reason, Target};
use crate::tier::TierNumber;
use tandem_block::{BLOCK_BYTES, Instant, IoError, ObjectId, PayloadId, Request};

/// A fragment read that is laid over its block when everything has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlay {
    /// Buffer with the fragment's block.
    pub(crate) from: PayloadId,
    /// Which of its sectors count.
    pub(crate) mask: u8,
    /// Where the block begins in the read's buffer.
    pub(crate) at_bytes: u64,
}

/// How often a read looks up once more what another copy must hold (guess: pages of checksums leave RAM as fast
/// as that only where the cache is far too small).
const ROUNDS_MAX: u8 = 8;

/// Does a read begin again, and how often has it?
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Again {
    is_wanted: bool,
    rounds: u8,
}

impl Again {
    /// Has it begun again so often that it ends with an error instead?
    pub(crate) fn is_too_often(self) -> bool {
        self.rounds == ROUNDS_MAX
    }

    /// It shall.
    pub(crate) fn ask(&mut self) {
        assert!(!self.is_too_often(), "a read begins again a few times");
        self.is_wanted = true;
    }

    /// Shall it? Then it does now.
    pub(crate) fn take(&mut self) -> bool {
        self.rounds += u8::from(self.is_wanted);
        std::mem::take(&mut self.is_wanted)
    }

    /// Shall it?
    pub(crate) fn is_wanted(self) -> bool {
        self.is_wanted
    }
}

/// One request under way.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What was asked.
    pub(crate) request: Request,
    /// The volume whose policies apply.
    pub(crate) volume: ObjectId,
    /// The tier that its object has instead of its volume's.
    pub(crate) tier: Option<TierNumber>,
    /// The request that it is a part of.
    pub(crate) parent: Option<TaskId>,
    /// First logical block touched.
    pub(crate) first: Logical,
    /// Behind the last one.
    pub(crate) end: Logical,
    /// Writes ahead of it that overlap.
    pub(crate) blocked_by: u32,
    /// The write that gave its object these blocks has failed: they are not the object's any more.
    pub(crate) blocks_gone: Option<IoError>,
    /// A write that no drive takes: it is not sent out again, whatever its error says.
    pub(crate) is_refused: bool,
    /// Pages of checksums that stay in RAM for it.
    pub(crate) pinned_pages: Vec<u32>,
    /// Device commands (and page loads) it waits for.
    pub(crate) outstanding: u32,
    /// When its first device command went out.
    pub(crate) started: Instant,
    /// When its last device command ended.
    pub(crate) ended: Instant,
    /// The first error it met.
    pub(crate) status: Result<(), IoError>,
    /// A drive left a part of it without an answer.
    pub(crate) unanswered: Option<IoError>,
    /// Its other copy can be read only once more is known: the read begins again.
    pub(crate) again: Again,
    /// The buffer that is written or read into: the user's, or one aligned to blocks.
    pub(crate) buffer: PayloadId,
    /// Where in it the first block lies.
    pub(crate) base_bytes: u64,
    /// Where in the user's payload its bytes begin.
    pub(crate) payload_offset_bytes: u64,
    /// Sectors of the first and last block that the write has; 255 for all.
    pub(crate) masks: (u8, u8),
    /// Where a write goes.
    pub(crate) target: Target,
    /// Why it goes there.
    pub(crate) reason: Reason,
    /// What its policy expected when it decided.
    pub(crate) expected: Expected,
    /// Its first block, as policies are told. Of a request with parts that of a part.
    pub(crate) told_block: Logical,
    /// The tier wants it on an SSD and on a hard drive.
    pub(crate) both: bool,
    /// Slowest place that served a read.
    pub(crate) served_from: ServedFrom,
    /// RAM had a part of what it reads, which a log has as well.
    pub(crate) from_read_back: bool,
    /// A hard drive serves it, although an SSD could.
    pub(crate) offloaded: bool,
    /// Fragments to lay over a read's buffer, oldest first per block.
    pub(crate) overlays: Vec<Overlay>,
    /// The buffer is kept beyond the request: it is in a tail.
    pub(crate) retained: bool,
    /// It left a fragment over a base that it did not write.
    pub(crate) over_base: bool,
    /// Its class forbids to leave it in a buffer alone, and there was no room for a copy.
    pub(crate) exposed: bool,
    /// When it began to wait for space.
    pub(crate) short_of_space_since: Option<Instant>,
    /// It holds its blocks in the ordering.
    pub(crate) holds: bool,
    /// Its user was answered, and who waited for it was not woken yet.
    pub(crate) is_answered: bool,
    /// A tier was told of it.
    pub(crate) noted: bool,
    /// A user's read that reads a whole extent, which comes to a tier; and so many blocks of it lie before
    /// the user's.
    pub(crate) rides: bool,
    /// See above.
    pub(crate) lead_blocks: u64,
    /// Whose it is, where streams are told apart.
    pub(crate) stream: StreamIndex,
    /// It begins where its stream's request before it ended.
    pub(crate) sequential: bool,
}

impl Task {
    /// A request that has just arrived.
    pub(crate) fn new(request: Request, first: Logical, end: Logical) -> Self {
        Task {
            request,
            volume: request.object,
            tier: None,
            parent: None,
            first,
            end,
            blocked_by: 0,
            blocks_gone: None,
            is_refused: false,
            pinned_pages: Vec::new(),
            outstanding: 0,
            started: Instant::NEVER,
            ended: request.arrived,
            status: Ok(()),
            unanswered: None,
            again: Again::default(),
            buffer: request.payload,
            base_bytes: 0,
            payload_offset_bytes: 0,
            masks: (255, 255),
            target: Target::Ssd,
            reason: Reason::Policy,
            expected: Expected::default(),
            told_block: first,
            both: false,
            served_from: ServedFrom::Ram,
            from_read_back: false,
            offloaded: false,
            overlays: Vec::new(),
            retained: false,
            over_base: false,
            exposed: false,
            short_of_space_since: None,
            holds: false,
            is_answered: false,
            noted: false,
            rides: false,
            lead_blocks: 0,
            stream: NO_STREAM,
            sequential: false,
        }
    }

    /// Where in its buffer a block lies.
    pub(crate) fn buffer_offset(&self, block: Logical) -> u64 {
        assert!(self.first <= block && block < self.end, "a buffer has the blocks of its request");
        self.base_bytes + (block - self.first) * BLOCK_BYTES
    }

    /// Whose it is, where streams are told apart.
    pub(crate) fn whose(&self) -> Option<Whose> {
        let request_bytes = self.request.length_bytes;
        (self.stream != NO_STREAM).then_some(Whose {
            stream: self.stream,
            sequential: self.sequential,
            request_bytes,
        })
    }

    /// Blocks touched.
    pub(crate) fn blocks(&self) -> u64 {
        self.end - self.first
    }
}

/// Tasks by id.
pub(crate) type Tasks = Arena<TaskId, Task>;
