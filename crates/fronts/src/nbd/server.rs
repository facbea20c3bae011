//! How do NBD clients come and go? The front end that owns listeners and connections.

use super::access::{self, Access, Clients};
use super::connection::{Connection, Purpose, Shared};
use super::export::Export;
use slab::Slab;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tandem_block::{Duration, Instant};
use tandem_live::Done;
use tandem_live::front::{Desk, Front};
use tandem_live::listen::Listener;
use tandem_live::uring::Finished;
use tandem_live::users::Users;

/// The knobs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdConfig {
    /// Connections at once; more wait in the listening socket. Default 64.
    pub connections_max: usize,
    /// Send and receive buffer of each socket in bytes, as far as the kernel allows. Default
    /// 512 KiB: larger ones were slower, because their bytes leave the CPU cache (measured).
    pub socket_buffer_bytes: usize,
}

impl Default for NbdConfig {
    fn default() -> Self {
        NbdConfig { connections_max: 64, socket_buffer_bytes: 512 << 10 }
    }
}

/// Set in the ring tags of accepts.
const ACCEPT_BIT: u64 = 1 << 63;

/// How long after a failed accept the next one is tried.
const ACCEPT_RETRY: Duration = Duration::from_ms(500);

/// Serves volumes over NBD.
pub struct NbdServer {
    config: NbdConfig,
    listeners: Vec<Listener>,
    /// Who may come in through each of them.
    access: Vec<Access>,
    accepting: Vec<bool>,
    exports: Rc<[Export]>,
    shared: Shared,
    connections: Slab<Connection>,
    stopping: bool,
    /// After a failed accept (no descriptors left, say): when to try again.
    retry_at: Option<Instant>,
}

impl NbdServer {
    /// Serves `exports` on sockets that listen already. The empty export name means the first.
    pub fn new(config: NbdConfig, listeners: Vec<Listener>, exports: Vec<Export>) -> NbdServer {
        let accepting = vec![false; listeners.len()];
        NbdServer {
            config,
            access: vec![Access::default(); listeners.len()],
            listeners,
            accepting,
            exports: exports.into(),
            shared: Shared::default(),
            connections: Slab::new(),
            stopping: false,
            retry_at: None,
        }
    }

    /// Says who may come in through which listener, in their order, and use what.
    ///
    /// # Panics
    /// If it is not said of every listener.
    #[must_use]
    pub fn with_access(mut self, access: Vec<Access>, clients: Clients) -> NbdServer {
        assert_eq!(access.len(), self.listeners.len(), "an answer for each listener");
        self.access = access;
        self.shared.clients = Rc::new(clients);
        self
    }

    fn accept(&mut self, desk: &mut Desk<'_>) {
        if self.stopping || self.connections.len() >= self.config.connections_max {
            return;
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            if !self.accepting[index] {
                self.accepting[index] = true;
                desk.ring.accept(desk.tag(ACCEPT_BIT | index as u64), listener.fd());
            }
        }
    }

    /// Who uses snapshots.
    pub fn users(&self) -> Users {
        self.shared.users.clone()
    }

    /// What is offered to a client that comes now: snapshots of what is exported, too.
    fn offered(&self, desk: &Desk<'_>) -> Rc<[Export]> {
        let Some(engine) = desk.engine() else { return Rc::clone(&self.exports) };
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

    fn welcome(&mut self, socket: OwnedFd, listener: usize, desk: &Desk<'_>) {
        use rustix::net::sockopt;
        let peer = access::peer(&socket);
        if !self.access[listener].admits(peer) {
            let peer = peer.map_or_else(String::new, |peer| peer.to_string());
            let what = format!("NBD client {peer} was refused: its address is not in `allow`");
            self.shared.refusals.borrow_mut().warn(desk.now, what);
            return;
        }
        let size = self.config.socket_buffer_bytes;
        // all three are wishes: a Unix socket has no delay, and the kernel caps sizes
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = sockopt::set_socket_send_buffer_size(&socket, size);
        let _ = sockopt::set_socket_recv_buffer_size(&socket, size);
        let exports = self.offered(desk);
        let entry = self.connections.vacant_entry();
        let key = entry.key() as u64;
        let (shared, access) = (self.shared.clone(), &self.access[listener]);
        entry.insert(Connection::new(socket, key, exports, shared, access));
    }

    fn accepted(&mut self, done: &Finished, desk: &mut Desk<'_>) {
        let listener = (done.tag.value & !ACCEPT_BIT) as usize;
        self.accepting[listener] = false;
        match done.accepted() {
            Ok(_) if self.stopping => {}
            Ok(socket) => self.welcome(socket, listener, desk),
            Err(error) => {
                tracing::warn!("an NBD client could not be accepted: {error}; trying again soon");
                self.retry_at = Some(desk.now + ACCEPT_RETRY);
                return;
            }
        }
        self.accept(desk);
    }
}

impl Front for NbdServer {
    fn begin(&mut self, desk: &mut Desk<'_>) {
        self.accept(desk);
    }

    fn finished(&mut self, done: Finished, desk: &mut Desk<'_>) {
        let value = done.tag.value;
        if value & ACCEPT_BIT != 0 {
            self.accepted(&done, desk);
            return;
        }
        let purpose = Purpose::from_number(value & 0xFF);
        self.connections[(value >> 8) as usize].finished(purpose, done, desk);
    }

    fn completed(&mut self, cookie: u64, done: &Done, desk: &mut Desk<'_>) {
        let slot = cookie as u32;
        self.connections[(cookie >> 32) as usize].completed(slot, done, desk);
    }

    fn turn_ends(&mut self, desk: &mut Desk<'_>) {
        let before = self.connections.len();
        self.connections.retain(|_, connection| {
            connection.turn_ends(desk);
            !connection.is_over(desk)
        });
        let retry = self.retry_at.is_some_and(|at| desk.now >= at);
        if self.connections.len() < before || retry {
            self.retry_at = None;
            self.accept(desk);
        }
    }

    fn room(&mut self, desk: &mut Desk<'_>) {
        for (_, connection) in &mut self.connections {
            connection.advance(desk);
        }
    }

    fn has_news(&mut self) -> bool {
        self.connections.iter_mut().any(|(_, connection)| connection.hears())
    }

    fn falls_asleep(&mut self, desk: &mut Desk<'_>) {
        for (_, connection) in &mut self.connections {
            connection.listen(desk);
        }
    }

    fn stop(&mut self, _desk: &mut Desk<'_>) {
        self.stopping = true;
        for (_, connection) in &mut self.connections {
            connection.close();
        }
    }

    fn is_quiet(&self) -> bool {
        self.connections.iter().all(|(_, connection)| connection.is_quiet())
    }
}
