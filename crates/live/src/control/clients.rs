//! How do clients of the control socket come and go, and how often are they answered?
//!
//! A client has a few seconds for its line, and for taking the answer. If there are as many as may be, the
//! one that has said nothing for longest makes way for whoever comes. They are answered a line at a time,
//! and together have a small part of the event loop's time, however much they ask.

use super::{ACCEPT, Control, LINE_BYTES_MAX, Snapshot};
use crate::buffer::Memory;
use crate::front::FrontContext;
use crate::outgoing::Outgoing;
use crate::uring::{Back, Finished};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use tandem_block::{Duration, Instant};

/// Clients at once.
const CLIENTS_MAX: usize = 64;
/// How long a client may say nothing, or leave its answer lying.
const STALL_MAX: Duration = Duration::from_s(10);
/// How often that is looked at.
const WATCH_EVERY: Duration = Duration::from_ms(250);
/// How long after a failed accept the next one is tried.
const ACCEPT_RETRY: Duration = Duration::from_ms(500);
/// After an answer the next one has to wait for so many times what it took: a tenth of the event loop's time is
/// theirs at most.
const PAUSE_FACTOR: u64 = 9;

/// One client. The ring has its socket, to receive or to send; the engine does something for it; or it
/// waits for its turn.
pub(super) struct Client {
    socket: OwnedFd,
    line: Vec<u8>,
    /// What the engine is doing for it: the answer follows.
    pub awaits: Option<Snapshot>,
    /// When it last said something, or took an answer.
    since: Instant,
    /// It says something next.
    is_heard: bool,
    /// It is to go as soon as the ring lets go of it.
    is_cut: bool,
}

/// Whose turn is it?
#[derive(Default)]
pub(super) struct Pace {
    /// Those who have said a line.
    waiting: VecDeque<usize>,
    not_before: Option<Instant>,
    watched: Option<Instant>,
}

impl Pace {
    /// Does anybody wait for an answer?
    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Control {
    pub(super) fn accept(&mut self, context: &mut FrontContext<'_>) {
        // those that make way are still counted until the ring lets go of them
        if !self.accepting && !self.stopping && self.clients.len() <= 2 * CLIENTS_MAX {
            self.accepting = true;
            context.ring.accept(context.tag(ACCEPT), self.listener.fd());
        }
    }

    pub(super) fn accepted(&mut self, done: &Finished, context: &mut FrontContext<'_>) {
        self.accepting = false;
        match done.accepted() {
            Ok(socket) => {
                if self.clients.len() >= CLIENTS_MAX && !self.make_way() {
                    refuse(&socket);
                    self.accept(context);
                    return;
                }
                let (line, since) = (Vec::new(), context.now);
                let (awaits, is_heard, is_cut) = (None, true, false);
                let client = Client { socket, line, awaits, since, is_heard, is_cut };
                let key = self.clients.insert(client);
                self.receive(key, context);
                self.accept(context);
            }
            Err(error) => {
                tracing::warn!("a control client could not be accepted: {error}");
                self.retry_at = Some(context.now + ACCEPT_RETRY);
            }
        }
    }

    /// Sends away who has said nothing for longest; false if all are being answered.
    fn make_way(&mut self) -> bool {
        let silent = self.clients.iter_mut().map(|(_, client)| client);
        let silent = silent.filter(|client| client.is_heard && !client.is_cut);
        let oldest = silent.min_by_key(|client| client.since);
        oldest.map(Client::cut).is_some()
    }

    /// Sends away who has been waited for long enough.
    pub(super) fn watch(&mut self, context: &FrontContext<'_>) {
        if self.pace.watched.is_some_and(|at| context.now.since(at) < WATCH_EVERY) {
            return;
        }
        self.pace.watched = Some(context.now);
        let waiting = &self.pace.waiting;
        for (key, client) in &mut self.clients {
            let is_late = context.now.since(client.since) >= STALL_MAX;
            if is_late && client.awaits.is_none() && !client.is_cut && !waiting.contains(&key) {
                client.cut();
            }
        }
    }

    fn receive(&mut self, key: usize, context: &mut FrontContext<'_>) {
        let tag = context.tag(key as u64);
        let client = &mut self.clients[key];
        client.is_heard = true;
        let buffer = Box::new(Memory::zeroed(LINE_BYTES_MAX));
        context.ring.receive(tag, client.socket.as_fd(), buffer, 0, LINE_BYTES_MAX);
    }

    /// Something was received from a client, or sent to it.
    pub(super) fn moved(&mut self, key: usize, done: Finished, context: &mut FrontContext<'_>) {
        let count = done.outcome().unwrap_or(0);
        let client = &mut self.clients[key];
        if count == 0 || client.is_cut {
            self.drop_client(key, context);
            return;
        }
        client.is_heard = false;
        match done.back {
            Back::Buffer(mut buffer) => {
                client.line.extend_from_slice(buffer.bytes_mut(0..count));
                // a byte now and then is no line
                if client.has_line() {
                    client.since = context.now;
                }
                self.go_on(key, context);
            }
            Back::Batch(batch) if batch.is_empty() => {
                client.since = context.now;
                self.go_on(key, context);
            }
            Back::Batch(batch) => {
                let tag = context.tag(key as u64);
                context.ring.send(tag, client.socket.as_fd(), batch);
            }
            Back::Nothing => self.drop_client(key, context),
        }
    }

    /// The next line of a client waits for its turn; or it has to say more first.
    fn go_on(&mut self, key: usize, context: &mut FrontContext<'_>) {
        let client = &self.clients[key];
        if client.has_line() {
            self.pace.waiting.push_back(key);
            self.answer_in_turn(context);
        } else if client.line.len() >= LINE_BYTES_MAX {
            self.drop_client(key, context); // it talks nonsense without end
        } else {
            self.receive(key, context);
        }
    }

    /// Answers whoever has waited longest, if it is time for another answer.
    pub(super) fn answer_in_turn(&mut self, context: &mut FrontContext<'_>) {
        if self.pace.not_before.is_some_and(|at| context.now < at) {
            return;
        }
        let Some(key) = self.pace.waiting.pop_front() else { return };
        let Some(line) = self.clients[key].next_line() else { return };
        let began = std::time::Instant::now();
        self.answer(key, &line, context);
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let pause = Duration::from_ns(took_ns.saturating_mul(PAUSE_FACTOR));
        self.pace.not_before = Some(context.now + pause.min(STALL_MAX));
    }

    /// Sends an answer.
    pub(super) fn say(
        &mut self,
        key: usize,
        reply: &serde_json::Value,
        context: &mut FrontContext<'_>,
    ) {
        let mut batch = Outgoing::new();
        batch.stage(|out| {
            out.extend_from_slice(reply.to_string().as_bytes());
            out.push(b'\n');
        });
        let tag = context.tag(key as u64);
        let client = &mut self.clients[key];
        client.since = context.now;
        context.ring.send(tag, client.socket.as_fd(), Box::new(batch));
    }

    fn drop_client(&mut self, key: usize, context: &mut FrontContext<'_>) {
        self.clients.remove(key);
        self.accept(context);
    }
}

impl Client {
    fn has_line(&self) -> bool {
        self.line.contains(&b'\n')
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.line.iter().position(|byte| *byte == b'\n')?;
        Some(self.line.drain(..=end).collect())
    }

    fn cut(&mut self) {
        self.is_cut = true;
        // what the ring does with it ends by that
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Tells a client for which there is no room, and lets it go.
fn refuse(socket: &OwnedFd) {
    let why = format!(
        "all {CLIENTS_MAX} control connections are taken: end some of the programs that hold them (`ss -xp` \
         lists them), or try again"
    );
    let line = format!("{}\n", serde_json::json!({ "error": why, "busy": true }));
    // whoever does not take it is not waited for
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    let _ = rustix::net::send(socket, line.as_bytes(), flags);
}
