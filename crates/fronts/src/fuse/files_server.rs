//! How does the event loop's own thread serve a volume of files?
//!
//! Source: issue of tiers and caches ("`tandem mount`"). The kernel's messages go to a
//! [`Session`], which is told of what the engine has done; before that the names of the volume are
//! opened, and afterwards closed, so that the next one knows whether it may trust them.
//!
//! ```text
//!   waiting ─▶ opening: format if empty ─▶ "in use", durably ─▶ reap what has no name ─▶ serving
//!                                                                                          │
//!   closed ◀── closing: flush ─▶ "closed cleanly", durably ◀── stop, or unmounted ─────────┘
//! ```

use super::inbox::{self, Inbox};
use super::mount::{self, FuseError, Mount, Reach, TRANSFER_BYTES_MAX};
use super::pool::{FileIds, LivePool, Volume};
use super::tree::Session;
use super::wire;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use tandem_block::{IoError, ObjectId, PayloadId, StreamId};
use tandem_live::Done;
use tandem_live::front::{Front, FrontContext};
use tandem_live::uring::Finished;
use tandem_names::{Caller, Change, NameError, Tree, VolumeMark};

/// Messages understood in one turn; others may want something too.
const MESSAGES_PER_TURN: usize = 64;
/// Calls under way; with so many no more messages are taken.
const CALLS_MAX: usize = 256;
/// What one message may need at most: its bytes as they came, and whole sectors around them.
const MESSAGE_BYTES: u64 = 2 * TRANSFER_BYTES_MAX as u64;
/// Files without a name that go in one batch.
const REAPED_AT_ONCE: usize = 64;
/// The root directory of a new volume.
const ROOT_PERMISSIONS: u32 = 0o755;
/// The cookie of what no call has asked for.
const OWN: u64 = u64::MAX;

/// Why a volume of files could not be served, or not closed cleanly; for whoever started it, when the
/// event loop has ended.
pub type Trouble = Rc<RefCell<Option<String>>>;

/// What becomes of the event loop when somebody unmounts the volume?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtUnmount {
    /// It goes on with its other front ends.
    GoOn,
    /// It ends: there is nothing else to serve.
    End,
}

/// What is under way for the names themselves.
#[derive(Debug)]
enum State {
    /// The engine is not ready.
    Waiting,
    /// The volume is made.
    Formatting,
    /// It is being noted that it is in use.
    Marking(Tree),
    /// Files without a name are removed.
    Reaping(Tree),
    Serving(Box<Session>),
    /// Everything becomes durable.
    Flushing(Tree),
    /// It is being noted that it was closed.
    Closing,
    Closed,
}

/// Serves one volume of files on a mount of its own.
pub struct FilesServer {
    name: String,
    inbox: Inbox,
    volume: Volume,
    state: State,
    at_unmount: AtUnmount,
    trouble: Trouble,
    stopping: bool,
    /// Nothing can be written to the pool.
    read_only: bool,
    /// The ring tells when there is a message.
    watched: bool,
    told_of_end: bool,
    /// Last, so that its descriptor is closed after ours.
    mount: Mount,
}

impl FilesServer {
    /// Mounts the volume of this name and object on the directory `point`, for whom `reach` says. Requests wait until the event loop serves. Dropping it unmounts. `ids` are shared by all
    /// such volumes of a pool.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn mount(
        (point, reach): (&Path, Reach),
        (name, root): (&str, ObjectId),
        stream: StreamId,
        ids: &FileIds,
        at_unmount: AtUnmount,
    ) -> Result<FilesServer, FuseError> {
        let (mount, fd) = Mount::of_tree(point, mount::NAME, reach)?;
        Ok(FilesServer {
            name: name.to_owned(),
            inbox: Inbox::new(fd),
            volume: Volume::new(root, stream, ids.clone()),
            state: State::Waiting,
            at_unmount,
            trouble: Trouble::default(),
            stopping: false,
            read_only: false,
            watched: false,
            told_of_end: false,
            mount,
        })
    }

    /// Where it will be told what went wrong with the volume itself.
    pub fn trouble(&self) -> Trouble {
        Rc::clone(&self.trouble)
    }

    /// Asks for changes of the volume itself.
    fn commit(changes: Vec<Change>, context: &mut FrontContext<'_>) {
        let ops = changes.into_iter().map(Change::into_op).collect();
        context.batch(ops, true, OWN);
    }

    /// The volume cannot be served: says why, and ends the event loop.
    fn give_up(&mut self, what: &str, why: impl std::fmt::Display, context: &mut FrontContext<'_>) {
        let text = format!("volume {}: {what}: {why}", self.name);
        tracing::error!("{text}");
        *self.trouble.borrow_mut() = Some(text);
        self.state = State::Closed;
        context.stop_event_loop();
    }

    fn refuse_names(&mut self, error: NameError, context: &mut FrontContext<'_>) {
        self.give_up("its files cannot be opened (see `tandem check`)", error, context);
    }

    fn open(&mut self, context: &mut FrontContext<'_>) {
        let Some(engine) = context.engine() else {
            self.give_up("it cannot be served", "there is no engine", context);
            return;
        };
        self.volume.learn(engine);
        let root = self.volume.root;
        let pool = LivePool { volume: &self.volume, context };
        if VolumeMark::of(&pool, root).is_none() {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            let owner = Caller { uid: uid.as_raw(), gid: gid.as_raw(), now_ns: now_ns() };
            Self::commit(Tree::format(root, ROOT_PERMISSIONS, &owner), context);
            self.state = State::Formatting;
            return;
        }
        match Tree::mount(&pool, root, &[]) {
            Ok((tree, changes)) => {
                self.state = State::Marking(tree);
                Self::commit(changes, context);
            }
            Err(error) => self.refuse_names(error, context),
        }
    }

    fn reap(&mut self, tree: Tree, context: &mut FrontContext<'_>) {
        let pool = LivePool { volume: &self.volume, context };
        match tree.reap(&pool, REAPED_AT_ONCE) {
            Ok(changes) if changes.is_empty() => self.begin_serving(tree, context),
            Ok(changes) => {
                self.state = State::Reaping(tree);
                Self::commit(changes, context);
            }
            Err(error) => self.refuse_names(error, context),
        }
    }

    fn begin_serving(&mut self, tree: Tree, context: &mut FrontContext<'_>) {
        let mut session = Session::new(tree, self.mount.agreed());
        if !self.read_only {
            session.clear_deleted(&mut LivePool { volume: &self.volume, context });
        }
        self.state = State::Serving(Box::new(session));
        self.serve(context);
    }

    /// Something that was asked for the volume itself is done.
    fn own_done(&mut self, status: Result<(), IoError>, context: &mut FrontContext<'_>) {
        let state = std::mem::replace(&mut self.state, State::Closed);
        match (state, status) {
            // it was not served yet, and the next one will find it as a crash would leave it
            (State::Formatting | State::Marking(_) | State::Reaping(_), _) if self.stopping => {}
            (State::Formatting, Ok(())) => self.open(context),
            (State::Marking(tree), Ok(())) | (State::Reaping(tree), Ok(())) => {
                self.reap(tree, context);
            }
            (State::Marking(tree), Err(IoError::ReadOnly)) => {
                self.read_only = true;
                self.begin_serving(tree, context);
            }
            (State::Flushing(tree), Ok(())) => {
                self.state = State::Closing;
                Self::commit(tree.unmount(), context);
            }
            (State::Closing, Ok(())) => {}
            (State::Flushing(_) | State::Closing, Err(error)) => {
                self.give_up("it could not be closed cleanly", error, context);
            }
            (_, Err(error)) => self.give_up("it cannot be served", error, context),
            (state, Ok(())) => unreachable!("nothing was asked for in {state:?}"),
        }
    }

    /// Takes messages until there are none, or no room for what they ask.
    fn serve(&mut self, context: &mut FrontContext<'_>) {
        let mut time_ns = None;
        for _ in 0..MESSAGES_PER_TURN {
            if self.stopping || self.is_full() || !self.inbox.fetch_in_turn() {
                break;
            }
            let State::Serving(session) = &mut self.state else { break };
            // a write, and the sectors at its edges; and what waits for its turn in the session
            if !context.has_room(MESSAGE_BYTES + session.held_bytes()) {
                break;
            }
            let (head, body, total) = self.inbox.message();
            if let Some(unique) = wire::moves_bytes(head)
                && !context.has_memory(MESSAGE_BYTES)
            {
                self.inbox.reply(wire::reply_head(unique, wire::errno::ENOMEM, 0), &[]);
                self.inbox.done();
                continue;
            }
            let mut pool = LivePool { volume: &self.volume, context };
            let time_ns = *time_ns.get_or_insert_with(now_ns);
            if !session.message_parts(head, body, time_ns, &mut pool) {
                tracing::error!("a message of {total} bytes on /dev/fuse makes no sense");
            }
            self.inbox.done();
            self.reply();
        }
        if self.inbox.is_gone() && !self.told_of_end && !self.stopping {
            self.told_of_end = true;
            self.mount.was_unmounted();
            let point = self.mount.point().display();
            match self.at_unmount {
                AtUnmount::GoOn => tracing::warn!(
                    "{point} was unmounted by somebody else; the files of volume {} are served no \
                     more",
                    self.name
                ),
                AtUnmount::End => {
                    tracing::info!("{point} was unmounted");
                    context.stop_event_loop();
                }
            }
        }
        self.close(context);
    }

    /// Are there calls enough, or is there nobody to understand them?
    fn is_full(&self) -> bool {
        match &self.state {
            State::Serving(session) => session.under_way() >= CALLS_MAX,
            _ => true,
        }
    }

    fn reply(&mut self) {
        let State::Serving(session) = &mut self.state else { return };
        for node in session.take_stale() {
            self.inbox.forget_attributes(node);
        }
        for reply in session.take_replies() {
            let (errno, body) = match &reply.result {
                Ok(body) => (0, &body[..]),
                Err(errno) => (*errno, &[][..]),
            };
            self.inbox.reply(wire::reply_head(reply.unique, errno, body.len()), body);
        }
    }

    /// Closes the volume when nobody will ask any more and nothing is under way.
    fn close(&mut self, context: &mut FrontContext<'_>) {
        let State::Serving(session) = &mut self.state else { return };
        if !(self.stopping || self.inbox.is_gone()) {
            return;
        }
        session.leave_off();
        if !session.is_quiet() {
            return;
        }
        let State::Serving(session) = std::mem::replace(&mut self.state, State::Closed) else {
            unreachable!("asked above");
        };
        if !self.read_only {
            self.state = State::Flushing(session.into_tree());
            LivePool { volume: &self.volume, context }.flush(OWN);
        }
    }
}

impl Front for FilesServer {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.open(context);
    }

    fn finished(&mut self, _done: Finished, context: &mut FrontContext<'_>) {
        self.watched = false;
        self.serve(context);
    }

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        if cookie == OWN {
            self.own_done(done.status, context);
            return;
        }
        let tag = cookie as usize;
        let State::Serving(session) = &mut self.state else {
            unreachable!("a volume is closed when nothing is under way");
        };
        if done.payload == PayloadId::NONE {
            let result = done.status.map(|()| Vec::new()).map_err(IoError::errno);
            let mut pool = LivePool { volume: &self.volume, context };
            session.answered(tag, result, &mut pool);
        } else if let Some(sent) = session.read_answer(tag).filter(|_| done.status.is_ok()) {
            // from the engine's memory
            let head = wire::reply_head(sent.unique, 0, sent.length);
            let bytes = (done.payload, done.skip_bytes + sent.skip as u64, sent.length as u64);
            inbox::report(context.payloads.write_out(self.inbox.fd(), &head, bytes));
            context.release(done.payload);
            let mut pool = LivePool { volume: &self.volume, context };
            session.read_sent(tag, &mut pool);
        } else {
            let mut bytes = Vec::new();
            let length = session.expects_bytes(tag) as u64;
            context.payloads.append_to(done.payload, done.skip_bytes, length, &mut bytes);
            context.release(done.payload);
            let result = done.status.map(|()| bytes).map_err(IoError::errno);
            let mut pool = LivePool { volume: &self.volume, context };
            session.answered(tag, result, &mut pool);
        }
        self.reply();
        self.close(context);
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        self.serve(context);
    }

    fn room(&mut self, context: &mut FrontContext<'_>) {
        self.serve(context);
    }

    fn stop(&mut self, context: &mut FrontContext<'_>) {
        self.stopping = true;
        self.close(context);
    }

    fn is_quiet(&self) -> bool {
        !matches!(&self.state, State::Serving(session) if !session.is_quiet())
    }

    fn is_durable(&self) -> bool {
        matches!(self.state, State::Waiting | State::Closed)
    }

    fn has_news(&mut self) -> bool {
        if self.is_full() {
            return false;
        }
        self.inbox.fetch() || (self.inbox.is_gone() && !self.told_of_end)
    }

    fn falls_asleep(&mut self, context: &mut FrontContext<'_>) {
        let is_serving = matches!(self.state, State::Serving(_));
        let inbox = &mut self.inbox;
        if is_serving && !self.watched && !inbox.is_gone() {
            self.watched = true;
            let tag = context.tag(0);
            context.ring.readable(tag, inbox.fd());
        }
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
