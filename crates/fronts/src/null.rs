//! What is the least a front end can be? One that asks itself, to measure everything below it, and
//! to be copied when another is written.
//!
//! It keeps a fixed number of equal requests under way until it has sent enough of them, and then
//! stops the event loop.

use std::cell::RefCell;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, DurabilityClass, Instant, ObjectId, Op, PayloadId, Rng, StreamId};
use tandem_live::Done;
use tandem_live::front::{Front, FrontContext, FrontRequest};
use tandem_live::uring::Finished;

/// What a null front end asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Which volume.
    pub object: ObjectId,
    /// `Op::Read`, `Op::Write` or `Op::WriteZeroes`.
    pub op: Op,
    /// Is every request durable before it is answered?
    pub fua: bool,
    /// Bytes of the volume to be used, from its beginning; a multiple of the request.
    pub span_bytes: u64,
    /// Bytes of each request, a multiple of 4096, at most 32 MiB.
    pub request_bytes: u64,
    /// Requests under way at once.
    pub depth: u64,
    /// Requests in all.
    pub count: u64,
    /// Random places, by this seed; `None`: one after the other.
    pub random_seed: Option<u64>,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullStats {
    /// When the first request was sent.
    pub begin: Instant,
    /// When the last one was done.
    pub end: Instant,
    /// Requests done.
    pub done_count: u64,
    /// Requests that failed.
    pub failed_count: u64,
}

/// The front end.
pub struct NullFront {
    config: NullConfig,
    stats: Rc<RefCell<NullStats>>,
    rng: Rng,
    bytes: Vec<u8>,
    sent: u64,
}

impl NullFront {
    /// A front end, and where its result will be.
    ///
    /// # Panics
    /// If the sizes do not fit each other.
    pub fn new(config: NullConfig) -> (NullFront, Rc<RefCell<NullStats>>) {
        let known = matches!(config.op, Op::Read | Op::Write | Op::WriteZeroes);
        assert!(known, "it reads or writes");
        assert!(config.depth > 0 && config.request_bytes > 0, "it asks for something");
        assert!(config.request_bytes.is_multiple_of(BLOCK_BYTES), "it asks for whole blocks");
        assert!(config.span_bytes >= config.request_bytes, "one request fits the span");
        let stats = Rc::new(RefCell::new(NullStats::default()));
        let mut rng = Rng::new(config.random_seed.unwrap_or(0));
        let bytes = (0..config.request_bytes).map(|_| rng.bits() as u8).collect();
        (NullFront { config, stats: Rc::clone(&stats), rng, bytes, sent: 0 }, stats)
    }

    fn send(&mut self, context: &mut FrontContext<'_>) {
        let NullConfig { request_bytes, span_bytes, depth, count, .. } = self.config;
        while self.sent < count && self.sent - self.stats.borrow().done_count < depth {
            if !context.has_room(request_bytes) {
                return;
            }
            let places = span_bytes / request_bytes;
            let place = match self.config.random_seed {
                Some(_) => self.rng.below(places),
                None => self.sent % places,
            };
            let offset_bytes = place * request_bytes;
            let payload = match self.config.op {
                Op::Write => {
                    let payload = context.payloads.begin(self.bytes.len(), offset_bytes);
                    let payload = payload.expect("memory for a few requests");
                    context.payloads.fill(payload, 0, &self.bytes);
                    context.payloads.seal(payload);
                    payload
                }
                _ => PayloadId::NONE,
            };
            let front_request = FrontRequest {
                object: self.config.object,
                op: self.config.op,
                offset_bytes,
                length_bytes: request_bytes,
                fua: self.config.fua,
                stream: StreamId(0),
                class: DurabilityClass::VolatileOk,
                payload,
            };
            context.submit(front_request, self.sent);
            self.sent += 1;
        }
    }
}

impl Front for NullFront {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.stats.borrow_mut().begin = context.now;
        self.send(context);
    }

    fn finished(&mut self, _done: Finished, _context: &mut FrontContext<'_>) {}

    fn completed(&mut self, _cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        context.release(done.payload);
        {
            let mut stats = self.stats.borrow_mut();
            stats.done_count += 1;
            stats.failed_count += u64::from(done.status.is_err());
            stats.end = context.now;
            if stats.done_count == self.config.count {
                context.stop_event_loop();
            }
        }
        self.send(context);
    }

    fn turn_ends(&mut self, _context: &mut FrontContext<'_>) {}

    fn room(&mut self, context: &mut FrontContext<'_>) {
        self.send(context);
    }

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.config.count = self.sent;
    }

    fn is_quiet(&self) -> bool {
        true
    }
}
