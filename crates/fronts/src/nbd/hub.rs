//! What do the connections of one NBD server share? Its bounds, its memory, and how many there are.

use super::access::{Clients, Seldom};
use super::server::NbdConfig;
use super::tls::TLS_BYTES;
use std::rc::Rc;
use tandem_block::Instant;
use tandem_live::budget::Budget;
use tandem_live::buffer::Memory;
use tandem_live::outgoing::Outgoing;
use tandem_live::users::Users;

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
    /// Who uses snapshots.
    pub users: Users,
    /// Who may use which exports.
    pub clients: Rc<Clients>,
    /// Of clients that were turned away, or sent away.
    pub refusals: Seldom,
    #[allow(clippy::vec_box, reason = "a box goes into the ring as it is")]
    buffers: Vec<Box<Memory>>,
    #[allow(clippy::vec_box, reason = "a box goes into the ring as it is")]
    batches: Vec<Box<Outgoing>>,
}

/// What is left of the bound when every client that may come has its receive buffer, and what TLS needs.
fn budget(config: &NbdConfig, ways: usize, tls_bytes: u64) -> Budget {
    let buffers_bytes = (config.clients_max(ways) * BUFFER_BYTES) as u64 + tls_bytes;
    let serving_max = config.connections_max * ways.max(1);
    Budget::new(config.memory_bytes.saturating_sub(buffers_bytes), serving_max)
}

impl Hub {
    pub fn new(config: NbdConfig, ways: usize) -> Hub {
        Hub {
            config,
            budget: budget(&config, ways, 0),
            ways: vec![Way::default(); ways],
            contended: false,
            lacks_memory: false,
            users: Users::default(),
            clients: Rc::default(),
            refusals: Seldom::default(),
            buffers: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Of so many listening sockets this many offer TLS, which has buffers of its own.
    pub fn offers_tls(&mut self, ways: usize) {
        let tls_bytes = (self.config.clients_max(1) * ways * TLS_BYTES) as u64;
        self.budget = budget(&self.config, self.ways.len(), tls_bytes);
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
        self.refusals.warn(now, format_args!("an NBD client was sent away: {why}"));
    }
}
