//! What do the connections of one NBD server share? Its bounds, its memory, and how many there are.

use super::server::NbdConfig;
use tandem_block::{Duration, Instant};
use tandem_live::budget::Budget;
use tandem_live::buffer::Memory;
use tandem_live::outgoing::Outgoing;

/// Size of a connection's receive buffer: many small requests in one call, and no more, though more may
/// have come: while a call copies and its requests are read, no drive is heard (guess: some 20 us for
/// 64 KiB, and 150 for 512).
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// Receive buffers kept for connections to come.
const BUFFERS_MAX: usize = 32;
/// Batches of replies that have grown, and not beyond this, kept for whoever gathers next.
const BATCHES_MAX: usize = 16;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// A batch that has grown beyond this does not stay with a connection that has nothing to say.
const BATCH_KEPT_BYTES: usize = 4096;
/// Requests that a connection may begin in one turn while it is alone: what one receive brings.
const TURN_ALONE: i64 = 1024;
/// The same of all connections together, if there are others, and of each at least: a client that sends
/// one request at a time is served after so many of another one's (guess: 8 take some 20 us).
const TURN_SHARED: i64 = 128;
const TURN_LEAST: i64 = 8;
/// How often the log tells of clients that were sent away.
const NOTICE_EVERY: Duration = Duration::from_s(10);

/// Connections that came by one listening socket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// Those that have not chosen an export yet.
    pub negotiating: usize,
    /// Those that have.
    pub serving: usize,
}

/// What connections share.
pub(super) struct Hub {
    pub config: NbdConfig,
    pub budget: Budget,
    pub ways: Vec<Way>,
    /// Several connections have asked for something lately.
    pub contended: bool,
    /// Somebody had to wait for memory in this turn.
    pub lacks_memory: bool,
    buffers: Vec<Box<Memory>>,
    #[allow(clippy::vec_box, reason = "a box goes into the ring as it is")]
    batches: Vec<Box<Outgoing>>,
    told: Option<Instant>,
    untold: u64,
}

/// What is left of the bound when every client that may come has its receive buffer.
fn budget(config: &NbdConfig, ways: usize) -> Budget {
    let buffers_bytes = (config.clients_max(ways) * BUFFER_BYTES) as u64;
    let serving_max = config.connections_max * ways.max(1);
    Budget::new(config.memory_bytes.saturating_sub(buffers_bytes), serving_max)
}

impl Hub {
    pub fn new(config: NbdConfig, ways: usize) -> Hub {
        Hub {
            config,
            budget: budget(&config, ways),
            ways: vec![Way::default(); ways],
            contended: false,
            lacks_memory: false,
            buffers: Vec::new(),
            batches: Vec::new(),
            told: None,
            untold: 0,
        }
    }

    /// A receive buffer; `None` if there is no memory for one.
    pub fn buffer(&mut self) -> Option<Box<Memory>> {
        let kept = self.buffers.pop();
        kept.or_else(|| Memory::try_zeroed(BUFFER_BYTES).map(Box::new))
    }

    /// Takes one back.
    pub fn keep_buffer(&mut self, buffer: Box<Memory>) {
        if self.buffers.len() < BUFFERS_MAX {
            self.buffers.push(buffer);
        }
    }

    /// Gives memory of its own to a batch that has none.
    pub fn equip(&mut self, batch: &mut Box<Outgoing>) {
        if batch.kept_bytes() == 0
            && let Some(kept) = self.batches.pop()
        {
            *batch = kept;
        }
    }

    /// Takes the memory of a batch that is empty, if it is much.
    pub fn strip(&mut self, batch: &mut Box<Outgoing>) {
        if batch.kept_bytes() > BATCH_KEPT_BYTES {
            let grown = std::mem::take(batch);
            if self.batches.len() < BATCHES_MAX && grown.kept_bytes() <= BATCH_BYTES_MAX {
                self.batches.push(grown);
            }
        }
    }

    /// So many connections have asked for something lately: how many requests may each begin in a turn?
    pub fn turn(&mut self, active: usize) -> i64 {
        self.contended = active > 1;
        match i64::try_from(active).unwrap_or(i64::MAX) {
            0 | 1 => TURN_ALONE,
            active => (TURN_SHARED / active).max(TURN_LEAST),
        }
    }

    /// Tells the log why a client was sent away, but not of each one if there are many.
    pub fn notice(&mut self, now: Instant, why: &str) {
        if self.told.is_some_and(|told| now.since(told) < NOTICE_EVERY) {
            self.untold += 1;
            return;
        }
        match std::mem::take(&mut self.untold) {
            0 => tracing::warn!("an NBD client was sent away: {why}"),
            more => tracing::warn!("an NBD client was sent away: {why}; {more} others before it"),
        }
        self.told = Some(now);
    }
}
