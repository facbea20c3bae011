//! How do NBD clients come and go? The front end that owns listeners and connections.
//!
//! Whoever comes is accepted, so that nobody can keep others out by being there: among those that have not
//! chosen an export yet the oldest makes way for the newest, and so does one that has chosen one and never
//! used it. Who chooses one is told if there are as many as may be. Nobody waits for a client longer than
//! the configuration says, but one that has nothing to say may stay.

use super::access::{self, Access, Clients};
use super::connection::{Connection, Purpose};
use super::export::Export;
use super::hub::{BUFFER_BYTES, Hub};
use super::wire;
use slab::Slab;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tandem_block::{Duration, Instant, MIB};
use tandem_live::Done;
use tandem_live::front::{Front, FrontContext};
use tandem_live::listen::Listener;
use tandem_live::uring::Finished;
use tandem_live::users::Users;

/// The knobs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdConfig {
    /// Clients of each listening socket that use an export at once. More are refused. Default 100.
    pub connections_max: usize,
    /// How long a client may take to choose an export. Default 10 s.
    pub negotiation_timeout: Duration,
    /// How long a client may stop in the middle of a request, or leave its answers lying. Default 30 s:
    /// longer than a network that loses packets stands still.
    pub stall_timeout: Duration,
    /// Bytes of all connections together: receive buffers, requests under way, answers that were not taken
    /// yet. Default 256 MiB.
    pub memory_bytes: u64,
    /// Send and receive buffer of each socket in bytes, as far as the kernel allows. Default
    /// 512 KiB: larger ones were slower, because their bytes leave the CPU cache (measured).
    pub socket_buffer_bytes: usize,
}

impl Default for NbdConfig {
    fn default() -> Self {
        NbdConfig {
            connections_max: 100,
            negotiation_timeout: Duration::from_s(10),
            stall_timeout: Duration::from_s(30),
            memory_bytes: 256 * MIB,
            socket_buffer_bytes: 512 << 10,
        }
    }
}

/// The least that a connection may always hold, beside its receive buffer.
const OWN_BYTES_MIN: u64 = 128 << 10;
/// Clients of each socket that have not chosen an export yet; with another one the oldest makes way.
const NEGOTIATING_MAX: usize = 32;

impl NbdConfig {
    /// Connections that there can be, of so many listening sockets.
    pub fn clients_max(&self, sockets: usize) -> usize {
        (self.connections_max + NEGOTIATING_MAX) * sockets.max(1)
    }

    /// What `memory_bytes` must be at least for so many listening sockets.
    pub fn memory_least_bytes(&self, sockets: usize) -> u64 {
        self.clients_max(sockets) as u64 * (BUFFER_BYTES as u64 + 2 * OWN_BYTES_MIN)
    }
}

/// Set in the ring tags of accepts.
const ACCEPT_BIT: u64 = 1 << 63;

/// A client that has chosen an export and asked for nothing of it for so long makes way, if there are as
/// many as may be.
const UNUSED_AFTER: Duration = Duration::from_ms(200);
/// How long after a failed accept the next one is tried.
const ACCEPT_RETRY: Duration = Duration::from_ms(500);
/// While the event loop is busy, connections are accepted so often, beyond the first few (guess: coming and
/// going takes some 30 us each time).
const ACCEPT_EVERY: Duration = Duration::from_us(500);
const ACCEPTS_AT_ONCE: u64 = 32;
/// How often clients are looked at that may be too slow.
const WATCH_EVERY: Duration = Duration::from_ms(250);
/// A connection counts as active for so many turns after a request.
const ACTIVE_TURNS: u64 = 16;

/// Serves volumes over NBD.
pub struct NbdServer {
    listeners: Vec<Listener>,
    /// Who may come in through each of them.
    access: Vec<Access>,
    accepting: Vec<bool>,
    exports: Rc<[Export]>,
    connections: Slab<Connection>,
    hub: Hub,
    stopping: bool,
    /// After a failed accept (no descriptors left, say): when to try again.
    retry_at: Option<Instant>,
    /// A busy event loop accepts the next one not before this, less what may come at once.
    accept_at: Instant,
    watch_at: Instant,
    turns: u64,
    /// Who is first in the next turn.
    first: usize,
    /// Places of all connections in the order of this turn; kept to keep its memory.
    order: Vec<usize>,
}

impl NbdServer {
    /// Serves `exports` on sockets that listen already. The empty export name means the first.
    ///
    /// # Panics
    /// If the name of an export must not be sent: too long, or with a NUL in it.
    pub fn new(config: NbdConfig, listeners: Vec<Listener>, exports: Vec<Export>) -> NbdServer {
        let may_be_sent = |export: &Export| wire::as_string(export.name.as_bytes()).is_some();
        assert!(exports.iter().all(may_be_sent), "names of exports are checked before");
        let accepting = vec![false; listeners.len()];
        NbdServer {
            hub: Hub::new(config, listeners.len()),
            access: vec![Access::default(); listeners.len()],
            listeners,
            accepting,
            exports: exports.into(),
            connections: Slab::new(),
            stopping: false,
            retry_at: None,
            accept_at: Instant::ZERO,
            watch_at: Instant::ZERO,
            turns: 0,
            first: 0,
            order: Vec::new(),
        }
    }

    /// Says who may come in through which listener, in their order, and use what.
    ///
    /// # Panics
    /// If it is not said of every listener.
    #[must_use]
    pub fn with_access(mut self, access: Vec<Access>, clients: Clients) -> NbdServer {
        assert_eq!(access.len(), self.listeners.len(), "an answer for each listener");
        self.hub.offers_tls(access.iter().filter(|it| it.tls.server().is_some()).count());
        self.access = access;
        self.hub.clients = Rc::new(clients);
        self
    }

    /// Accepts on every socket that has a place for one more, also for one that makes way.
    fn accept(&mut self, context: &mut FrontContext<'_>) {
        if self.stopping || self.retry_at.is_some_and(|at| context.now < at) {
            return;
        }
        self.retry_at = None;
        for (index, listener) in self.listeners.iter().enumerate() {
            // those that were sent away are still counted until the ring lets go of them
            let has_place = self.hub.ways[index].negotiating <= NEGOTIATING_MAX;
            if !self.accepting[index] && has_place {
                self.accepting[index] = true;
                context.ring.accept(context.tag(ACCEPT_BIT | index as u64), listener.fd());
            }
        }
    }

    /// The same while others want to be served: not more often than they can bear.
    fn accept_in_turn(&mut self, context: &mut FrontContext<'_>) {
        if context.now >= self.accept_at && self.accepting.contains(&false) {
            let at_once = Duration::from_ns(ACCEPT_EVERY.ns * ACCEPTS_AT_ONCE);
            let earliest = Instant::from_ns(context.now.ns.saturating_sub(at_once.ns));
            self.accept_at = self.accept_at.max(earliest) + ACCEPT_EVERY;
            self.accept(context);
        }
    }

    /// Who uses snapshots.
    pub fn users(&self) -> Users {
        self.hub.users.clone()
    }

    /// What is offered to a client that comes now: snapshots of what is exported, too.
    fn offered(&self, context: &FrontContext<'_>) -> Rc<[Export]> {
        let Some(engine) = context.engine() else { return Rc::clone(&self.exports) };
        let is_ours = |volume| self.exports.iter().any(|export| export.object == volume);
        let named = engine.objects().named();
        let snapshots = named.filter(|(_, known)| known.is_snapshot && is_ours(known.volume));
        let mut snapshots = snapshots.peekable();
        if snapshots.peek().is_none() {
            return Rc::clone(&self.exports);
        }
        let snapshots = snapshots.map(|(object, known)| Export {
            name: known.name.clone(),
            object,
            size_bytes: known.size_bytes,
            read_only: true,
            stream: None,
        });
        self.exports.iter().cloned().chain(snapshots).collect()
    }

    /// Sends somebody away if there are as many as may be: the oldest of those that have not chosen an
    /// export, and of those that have, the oldest that has never asked for anything of it.
    fn make_way(&mut self, way: usize, context: &FrontContext<'_>) {
        let counts = self.hub.ways[way];
        let ours = || self.connections.iter().filter(|(_, it)| it.way == way && !it.closing);
        let mut leaving = Vec::new();
        if counts.negotiating >= NEGOTIATING_MAX {
            let open = ours().filter(|(_, it)| !it.is_serving);
            leaving.extend(open.min_by_key(|(_, it)| it.accepted).map(|(key, _)| key));
        }
        if counts.serving >= self.hub.config.connections_max {
            let is_old = |at: Instant| context.now.since(at) >= UNUSED_AFTER;
            let unused = ours().filter(|(_, it)| it.is_serving && !it.has_asked);
            let old = unused.filter(|(_, it)| is_old(it.chosen));
            leaving.extend(old.min_by_key(|(_, it)| it.chosen).map(|(key, _)| key));
        }
        for key in leaving {
            self.connections[key].cut();
            self.hub.notice(context.now, "others came, and it had not asked for anything");
        }
    }

    fn welcome(&mut self, socket: OwnedFd, way: usize, context: &FrontContext<'_>) {
        use rustix::net::sockopt;
        let peer = access::peer(&socket);
        if !self.access[way].admits(peer) {
            let peer = peer.map_or_else(String::new, |peer| peer.to_string());
            let what = format!("NBD client {peer} was refused: its address is not in `allow`");
            self.hub.refusals.warn(context.now, what);
            return;
        }
        self.make_way(way, context);
        let Some(buffer) = self.hub.buffer() else {
            self.hub.notice(context.now, "there is no memory for its receive buffer");
            return;
        };
        let size = self.hub.config.socket_buffer_bytes;
        // the kernel may refuse all three: a Unix socket has no delay, and the kernel caps sizes
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = sockopt::set_socket_send_buffer_size(&socket, size);
        let _ = sockopt::set_socket_recv_buffer_size(&socket, size);
        let offered = (self.offered(context), &self.access[way]);
        let entry = self.connections.vacant_entry();
        let place = (entry.key() as u64, way);
        let shared = (&mut self.hub, context.now);
        entry.insert(Connection::new(socket, place, offered, buffer, shared));
    }

    fn accepted(&mut self, done: &Finished, context: &mut FrontContext<'_>) {
        let way = (done.tag.value & !ACCEPT_BIT) as usize;
        self.accepting[way] = false;
        match done.accepted() {
            Ok(_) if self.stopping => {}
            Ok(socket) => self.welcome(socket, way, context),
            Err(error) => {
                tracing::warn!("an NBD client could not be accepted: {error}; trying again soon");
                self.retry_at = Some(context.now + ACCEPT_RETRY);
            }
        }
    }

    /// Sends away who has been waited for long enough.
    fn watch(&mut self, context: &mut FrontContext<'_>) {
        if context.now < self.watch_at {
            return;
        }
        self.watch_at = context.now + WATCH_EVERY;
        for (_, connection) in &mut self.connections {
            connection.give_up_waiting(&mut self.hub, context);
            connection.check(&mut self.hub, context);
        }
    }

    /// Everybody goes on, each first in turn, and gives back what others lack.
    fn serve_all(&mut self, context: &mut FrontContext<'_>) {
        self.turns += 1;
        let (mut active, mut keys) = (0, std::mem::take(&mut self.order));
        keys.clear();
        for (key, connection) in &mut self.connections {
            if connection.begun > 0 {
                connection.active_turn = self.turns;
            }
            active += usize::from(self.turns - connection.active_turn < ACTIVE_TURNS);
            keys.push(key);
        }
        let credit = self.hub.turn(active);
        let first = keys.partition_point(|key| *key < self.first);
        keys.rotate_left(first);
        self.first = keys.get(1).copied().unwrap_or(0);
        self.hub.lacks_memory = false;
        for key in &keys {
            self.connections[*key].turn_ends(credit, &mut self.hub, context);
        }
        self.order = keys;
        if self.hub.lacks_memory {
            for (_, connection) in &mut self.connections {
                connection.yields(&mut self.hub, context);
            }
        }
    }
}

impl Front for NbdServer {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.accept(context);
    }

    fn finished(&mut self, done: Finished, context: &mut FrontContext<'_>) {
        let value = done.tag.value;
        if value & ACCEPT_BIT != 0 {
            self.accepted(&done, context);
            return;
        }
        let purpose = Purpose::from_number(value & 0xFF);
        let connection = &mut self.connections[(value >> 8) as usize];
        connection.finished(purpose, done, &mut self.hub, context);
    }

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        let connection = &mut self.connections[(cookie >> 32) as usize];
        connection.completed(cookie as u32, done, &mut self.hub, context);
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        self.watch(context);
        self.serve_all(context);
        let hub = &mut self.hub;
        self.connections.retain(|_, connection| !connection.is_over(hub, context));
        self.accept_in_turn(context);
    }

    fn room(&mut self, _context: &mut FrontContext<'_>) {
        // they go on at the end of the turn, each first in turn
    }

    fn has_news(&mut self) -> bool {
        self.connections.iter_mut().any(|(_, connection)| connection.hears())
    }

    fn falls_asleep(&mut self, context: &mut FrontContext<'_>) {
        for (_, connection) in &mut self.connections {
            connection.listen(context);
        }
        self.accept(context);
    }

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.stopping = true;
        for (_, connection) in &mut self.connections {
            connection.close();
        }
    }

    fn is_quiet(&self) -> bool {
        self.connections.iter().all(|(_, connection)| connection.is_quiet())
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.hub.config.memory_bytes)
    }
}
