//! How does a front end with threads of its own ask the event loop's one thread?
//!
//! Through a bounded queue that the event loop looks at while it spins and is woken for when it sleeps,
//! so at depth 1 a request crosses threads without a sleep (design, "Speed"). Answers are given on
//! the event loop's thread by a closure, so that a reply need not cross back.

use crate::front::{Front, FrontContext, FrontRequest};
use crate::uring::Finished;
use slab::Slab;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use tandem_block::{DurabilityClass, IoError, ObjectId, Op, PayloadId, StreamId};
use tandem_engine::Done;

/// Wakes the event loop from another thread.
#[derive(Debug)]
pub(crate) struct Waker {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Waker> {
        use rustix::event::{EventfdFlags, eventfd};
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { event, asleep: AtomicBool::new(false) })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// The event loop is about to sleep; it looks at its queues once more after this.
    pub(crate) fn falls_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The event loop is awake and looks by itself.
    pub(crate) fn is_awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    pub(crate) fn drain(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.event, &mut count); // empty is fine: nothing to drain
    }

    /// Call after something was left for the event loop.
    pub(crate) fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // the counter cannot overflow: it is drained at every wake
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

/// Stops an event loop from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    pub(crate) waker: Arc<Waker>,
    pub(crate) asked: Arc<AtomicBool>,
}

impl Stopper {
    /// Asks for a clean shutdown and returns at once.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// A read's bytes (empty for everything else), or what went wrong.
pub type Answer<'a> = Result<&'a [u8], IoError>;

/// A request from another thread.
pub struct Ask {
    /// Which volume.
    pub object: ObjectId,
    /// What to do.
    pub op: Op,
    /// First byte, a multiple of 512.
    pub offset_bytes: u64,
    /// How many, a multiple of 512, at most 32 MiB for reads and writes.
    pub length_bytes: u64,
    /// Durable before it is answered.
    pub fua: bool,
    /// A write's bytes, `length_bytes` of them.
    pub data: Vec<u8>,
    /// Called once, on the event loop's thread; must not block.
    pub reply: Box<dyn FnOnce(Answer<'_>) + Send>,
}

struct Shared {
    queue: Mutex<VecDeque<Ask>>,
    length: AtomicUsize,
    room: Condvar,
    closed: AtomicBool,
    capacity: usize,
    waker: Arc<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Ask>> {
        self.queue.lock().expect("nobody panics while holding this lock")
    }
}

/// The outside of the remote queue; clone one for each thread.
#[derive(Clone)]
pub struct RemoteQueue {
    shared: Arc<Shared>,
}

/// How long [`RemoteQueue::ask_and_wait`] spins before it sleeps.
const SPIN: std::time::Duration = std::time::Duration::from_micros(50);

impl RemoteQueue {
    /// Leaves a request; waits while the queue is full. A closed remote queue answers at once.
    pub fn ask(&self, ask: Ask) {
        let mut queue = self.shared.lock();
        while queue.len() >= self.shared.capacity && !self.is_closed() {
            queue = self.shared.room.wait(queue).expect("nobody panics holding this lock");
        }
        if self.is_closed() {
            drop(queue);
            (ask.reply)(Err(IoError::Stopping));
            return;
        }
        queue.push_back(ask);
        self.shared.length.store(queue.len(), Ordering::SeqCst);
        drop(queue);
        self.shared.waker.wake();
    }

    /// Asks, and waits for the answer: spinning first.
    ///
    /// # Errors
    /// What the engine answers, or `Stopping`.
    pub fn ask_and_wait(&self, mut ask: Ask) -> Result<Vec<u8>, IoError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        ask.reply = Box::new(move |answer| {
            // the receiver waits below, so this cannot fail
            let _ = sender.send(answer.map(<[u8]>::to_vec));
        });
        self.ask(ask);
        let begin = std::time::Instant::now();
        while begin.elapsed() < SPIN {
            match receiver.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Disconnected) => return Err(IoError::Stopping),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        receiver.recv().unwrap_or(Err(IoError::Stopping))
    }

    fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::SeqCst)
    }
}

/// The inside of the remote queue: a front end like any other.
pub(crate) struct RemoteQueueFront {
    shared: Arc<Shared>,
    waiting: Slab<Ask>,
    bytes: Vec<u8>,
    stream: StreamId,
}

/// Makes both sides. At most `capacity` requests wait in between.
pub(crate) fn remote_queue(
    capacity: usize,
    stream: StreamId,
    waker: Arc<Waker>,
) -> (RemoteQueue, RemoteQueueFront) {
    assert!(capacity > 0, "a remote queue lets something through");
    let shared = Arc::new(Shared {
        queue: Mutex::new(VecDeque::with_capacity(capacity)),
        length: AtomicUsize::new(0),
        room: Condvar::new(),
        closed: AtomicBool::new(false),
        capacity,
        waker,
    });
    let front = RemoteQueueFront {
        shared: Arc::clone(&shared),
        waiting: Slab::new(),
        bytes: Vec::new(),
        stream,
    };
    (RemoteQueue { shared }, front)
}

impl RemoteQueueFront {
    fn let_in(&mut self, context: &mut FrontContext<'_>) {
        while self.has_news() {
            let mut queue = self.shared.lock();
            let Some(length) = queue.front().map(|ask| ask.length_bytes) else { return };
            if !context.has_room(length) {
                return;
            }
            let ask = queue.pop_front().expect("its front was seen above");
            self.shared.length.store(queue.len(), Ordering::SeqCst);
            drop(queue);
            self.shared.room.notify_one();
            self.submit(ask, context);
        }
    }

    fn submit(&mut self, mut ask: Ask, context: &mut FrontContext<'_>) {
        let mut payload = PayloadId::NONE;
        if ask.op == Op::Write {
            let data = std::mem::take(&mut ask.data);
            if data.len() as u64 != ask.length_bytes || data.is_empty() {
                (ask.reply)(Err(IoError::Misaligned));
                return;
            }
            let Some(begun) = context.payloads.begin(data.len(), ask.offset_bytes) else {
                (ask.reply)(Err(IoError::NoMemory));
                return;
            };
            payload = begun;
            context.payloads.fill(payload, 0, &data);
            context.payloads.seal(payload);
        }
        if ask.op == Op::Read && !context.has_memory(ask.length_bytes) {
            (ask.reply)(Err(IoError::NoMemory));
            return;
        }
        let front_request = FrontRequest {
            object: ask.object,
            op: ask.op,
            offset_bytes: ask.offset_bytes,
            length_bytes: ask.length_bytes,
            fua: ask.fua,
            stream: self.stream,
            class: DurabilityClass::VolatileOk,
            payload,
        };
        let cookie = self.waiting.insert(ask);
        context.submit(front_request, cookie as u64);
    }
}

impl Front for RemoteQueueFront {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.let_in(context);
    }

    fn finished(&mut self, _done: Finished, _context: &mut FrontContext<'_>) {}

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        let ask = self.waiting.remove(cookie as usize);
        self.bytes.clear();
        if ask.op == Op::Read && done.status.is_ok() {
            let (at, length) = (done.skip_bytes, ask.length_bytes);
            context.payloads.append_to(done.payload, at, length, &mut self.bytes);
        }
        context.release(done.payload);
        (ask.reply)(done.status.map(|()| &self.bytes[..]));
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        self.let_in(context);
    }

    fn room(&mut self, context: &mut FrontContext<'_>) {
        self.let_in(context);
    }

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.close();
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }

    fn has_news(&mut self) -> bool {
        self.shared.length.load(Ordering::Relaxed) > 0
    }
}

impl RemoteQueueFront {
    /// Lets nobody in any more and answers those that wait.
    fn close(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let left = std::mem::take(&mut *self.shared.lock());
        self.shared.length.store(0, Ordering::SeqCst);
        self.shared.room.notify_all();
        for ask in left {
            (ask.reply)(Err(IoError::Stopping));
        }
    }
}

impl Drop for RemoteQueueFront {
    fn drop(&mut self) {
        self.close();
        for ask in self.waiting.drain() {
            (ask.reply)(Err(IoError::Stopping));
        }
    }
}
