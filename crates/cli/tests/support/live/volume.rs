//! How do several clients use a volume at once? Connections with many requests in flight, random from a
//! seed; every answer is compared with what the history of the volume allows.

use super::history::{Flush, History, Kind, Look, Shown};
use super::pattern::{self, Found, Place, SECTOR};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tandem_block::Rng;
use tandem_fronts::nbd::{Client, ClientError, Reply, wire};
use tandem_live::listen::Address;

/// Sectors of a block.
pub const BLOCK: u64 = 8;
/// Sectors that are read at once when a whole volume is.
const PIECE: u64 = 512;
/// How long a connection waits for a request to send before it looks whether it shall stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is asked of a volume.
#[derive(Clone, Debug)]
pub struct Load {
    /// Connections, and requests in flight of all of them together.
    pub connections: usize,
    pub depth: usize,
    /// Longest request in blocks.
    pub blocks_max: u64,
    /// Requests that begin and end within blocks, in ppm.
    pub unaligned_ppm: u64,
    /// The part of the volume, in sectors, that most requests go to.
    pub hot: (u64, u64),
    /// … and how many of them, in ppm.
    pub hot_ppm: u64,
    /// Kinds, in ppm of all: the rest are writes.
    pub read_ppm: u64,
    pub zero_ppm: u64,
    pub trim_ppm: u64,
    pub flush_ppm: u64,
    /// Writes with FUA, in ppm of the writes.
    pub fua_ppm: u64,
    /// Errors that requests may end with.
    pub may_fail: bool,
}

/// What was done to a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub zeroes: u64,
    pub trims: u64,
    pub flushes: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Sectors that were compared.
    pub compared: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        let Counts { reads, writes, zeroes, trims, flushes, errors, compared } = other;
        self.reads += reads;
        self.writes += writes;
        self.zeroes += zeroes;
        self.trims += trims;
        self.flushes += flushes;
        self.errors += errors;
        self.compared += compared;
    }
}

/// A volume and all that is known of it, which survives the server.
pub struct Volume {
    pub name: String,
    pub number: u64,
    pub run: u64,
    pub load: Load,
    /// Blocks that are only ever written whole must be whole after a crash.
    is_whole: bool,
    state: Mutex<State>,
    room: Condvar,
    /// A snapshot of it was asked for.
    has_shared: AtomicBool,
    /// The first thing that was wrong. Nothing is asked any more then.
    pub trouble: Mutex<Option<String>>,
}

struct State {
    history: History,
    in_flight: usize,
    counts: Counts,
}

/// When the server was last heard, in ms since the beginning, and how much it still has to say.
pub struct Pulse {
    began: Instant,
    heard_ms: AtomicU64,
    in_flight: AtomicU64,
}

impl Pulse {
    pub fn new() -> Pulse {
        let (heard_ms, in_flight) = (AtomicU64::new(0), AtomicU64::new(0));
        Pulse { began: Instant::now(), heard_ms, in_flight }
    }

    /// A request is handed in.
    pub fn asked(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// It was answered.
    pub fn answered(&self) {
        self.beat();
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn beat(&self) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    /// How long requests have been in flight without any answer.
    pub fn silent(&self) -> Duration {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.beat();
        }
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(heard)
    }
}

/// A request in flight.
enum Open {
    Change { kind: Kind, number: u64, fua: bool },
    Read { look: Look, first: u64, count: u64 },
    Flush(Flush),
}

/// The half of a connection that asks.
struct Sender {
    client: Client,
    number: usize,
    rng: Rng,
    cookie: u64,
    open: Arc<Mutex<BTreeMap<u64, Open>>>,
}

impl Volume {
    pub fn new(
        name: &str,
        (run, number): (u64, u64),
        sectors: u64,
        is_strict: bool,
        load: Load,
    ) -> Volume {
        let history = History::new(sectors, is_strict);
        let state = State { history, in_flight: 0, counts: Counts::default() };
        Volume {
            name: name.to_owned(),
            number,
            run,
            is_whole: load.unaligned_ppm == 0,
            load,
            state: Mutex::new(state),
            room: Condvar::new(),
            has_shared: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Was something wrong?
    pub fn has_trouble(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes what is wrong, if nothing was before.
    pub fn complain(&self, what: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert(what);
    }

    fn place(&self, sector: u64) -> Place {
        Place { run: self.run, volume: self.number, sector }
    }

    /// Uses the volume over all its connections until it shall stop, something is wrong, or the server
    /// is gone.
    ///
    /// # Errors
    /// If a connection cannot be made.
    pub fn work(
        &self,
        socket: &Path,
        rng: &mut Rng,
        stop: &AtomicBool,
        pulse: &Pulse,
    ) -> Result<(), String> {
        let mut connections = Vec::new();
        for number in 0..self.load.connections {
            let mut client = connect(socket, &self.name)?;
            let answers = client.answers().map_err(|error| error.to_string())?;
            let (rng, open) = (rng.split(number as u64), Arc::default());
            connections.push((Sender { client, number, rng, cookie: 0, open }, answers));
        }
        std::thread::scope(|scope| {
            for (mut sender, mut answers) in connections {
                let (number, open) = (sender.number, Arc::clone(&sender.open));
                scope.spawn(move || {
                    while self.send(&mut sender, stop, pulse).is_ok() {
                        if stop.load(Ordering::Relaxed) || self.has_trouble() {
                            break;
                        }
                    }
                    // the server answers what is in flight, and then says goodbye
                    let _ = sender.client.disconnect();
                });
                scope.spawn(move || {
                    while let Ok(reply) = answers.finish() {
                        self.receive(&reply, number, &open, pulse);
                    }
                });
            }
        });
        Ok(())
    }

    /// Waits for room and hands in one request. Notes it before it is sent, since it may be carried out
    /// while it is noted.
    fn send(
        &self,
        sender: &mut Sender,
        stop: &AtomicBool,
        pulse: &Pulse,
    ) -> Result<(), ClientError> {
        let mut state = self.state();
        while state.in_flight >= self.load.depth {
            let waited = self.room.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let (load, rng) = (&self.load, &mut sender.rng);
        let mut roll = rng.below(1_000_000);
        let mut is = |ppm: u64| {
            let hit = roll < ppm;
            roll = roll.wrapping_sub(ppm);
            hit
        };
        let (is_flush, is_read) = (is(load.flush_ppm), is(load.read_ppm));
        let (is_zero, is_trim) = (is(load.zero_ppm), is(load.trim_ppm));
        let (first, count) = self.range(rng, state.history.sectors());
        let (command, flags, range, begun) = if is_flush {
            (wire::command::FLUSH, 0, (0, 0), Open::Flush(state.history.begin_flush()))
        } else if is_read {
            let look = state.history.begin_look();
            (wire::command::READ, 0, (first, count), Open::Read { look, first, count })
        } else {
            let (command, kind) = match (is_zero, is_trim) {
                (true, _) => (wire::command::WRITE_ZEROES, Kind::Zero),
                (_, true) => (wire::command::TRIM, Kind::Trim),
                _ => (wire::command::WRITE, Kind::Write),
            };
            let fua = rng.chance_ppm(load.fua_ppm);
            let number = state.history.issue(kind, first, count, sender.number);
            let flags = if fua { wire::flag::FUA } else { 0 };
            (command, flags, (first, count), Open::Change { kind, number, fua })
        };
        state.in_flight += 1;
        drop(state);
        pulse.asked();
        let data = match &begun {
            Open::Change { kind: Kind::Write, number, .. } => self.filled(first, count, *number),
            _ => Vec::new(),
        };
        // it may be answered before it is known that it was sent
        sender.cookie += 1;
        sender.open.lock().unwrap_or_else(PoisonError::into_inner).insert(sender.cookie, begun);
        let range = (range.0 * SECTOR as u64, (range.1 * SECTOR as u64) as u32);
        let cookie = sender.client.begin(command, flags, range, &data)?;
        assert_eq!(cookie, sender.cookie, "the client numbers its requests from 1 on");
        Ok(())
    }

    fn filled(&self, first: u64, count: u64, version: u64) -> Vec<u8> {
        let mut data = vec![0; count as usize * SECTOR];
        for (bytes, sector) in data.chunks_exact_mut(SECTOR).zip(first..) {
            pattern::fill(bytes, self.place(sector), version);
        }
        data
    }

    /// First sector and count of the next request: mostly in the hot part.
    fn range(&self, rng: &mut Rng, sectors: u64) -> (u64, u64) {
        let load = &self.load;
        let grain = if rng.chance_ppm(load.unaligned_ppm) { 1 } else { BLOCK };
        let (from, to) = if rng.chance_ppm(load.hot_ppm) { load.hot } else { (0, sectors) };
        let longest = (load.blocks_max * BLOCK).min(to - from) / grain;
        // as many short ones as long ones, whatever the longest is
        let longest = longest >> rng.below(u64::from(longest.max(1).ilog2()) + 1);
        let count = rng.between(1, longest.max(1)) * grain;
        let first = from + rng.below((to - from - count) / grain + 1) * grain;
        (first, count)
    }

    fn receive(
        &self,
        reply: &Reply,
        connection: usize,
        open: &Mutex<BTreeMap<u64, Open>>,
        pulse: &Pulse,
    ) {
        let mut opened = open.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = opened.remove(&reply.cookie);
        drop(opened);
        pulse.answered();
        let mut state = self.state();
        state.in_flight -= 1;
        let ok = reply.status.is_ok();
        if let Err(error) = reply.status {
            state.counts.errors += 1;
            let is_read = matches!(begun, Some(Open::Read { .. }));
            if !self.may_fail(error, is_read) {
                let what = if is_read { "a read" } else { "a request" };
                self.complain(format!("{}: {what} was answered with error {error}", self.name));
            }
        }
        match begun {
            None => self.complain(format!("{}: an answer to nothing", self.name)),
            Some(Open::Flush(flush)) if ok => {
                state.history.flushed(flush);
                state.counts.flushes += 1;
            }
            Some(Open::Flush(_)) => {}
            Some(Open::Change { kind, number, fua }) => {
                state.history.answer(number, ok, fua);
                let counts = &mut state.counts;
                match kind {
                    Kind::Write => counts.writes += 1,
                    Kind::Zero => counts.zeroes += 1,
                    Kind::Trim => counts.trims += 1,
                }
            }
            Some(Open::Read { look, first, count }) => {
                state.counts.reads += 1;
                if ok {
                    state.counts.compared += count;
                    let wrong = self.compare(&state.history, look, first, &reply.data);
                    if let Some(wrong) = wrong {
                        self.complain(format!("read on connection {connection}: {wrong}"));
                    }
                }
                state.history.end_look(look);
            }
        }
        drop(state);
        self.room.notify_all();
    }

    /// What is written to a volume that has or had snapshots goes elsewhere, for which there may be no
    /// room; and a server that ends says so.
    fn may_fail(&self, error: u32, is_read: bool) -> bool {
        let is_full = error == wire::error::ENOSPC && !is_read;
        let has_shared = self.has_shared.load(Ordering::Relaxed);
        self.load.may_fail || error == wire::error::ESHUTDOWN || is_full && has_shared
    }

    /// What of a read that is answered now is wrong: the first such sector.
    fn compare(&self, history: &History, look: Look, first: u64, data: &[u8]) -> Option<String> {
        data.chunks_exact(SECTOR).zip(first..).find_map(|(bytes, sector)| {
            let found = pattern::read(bytes, self.place(sector));
            let may = shown(&found).is_some_and(|shown| history.may_show(look, sector, shown));
            (!may).then(|| {
                let possible = history.possible(look, sector);
                self.describe(history, sector, &found, &possible)
            })
        })
    }

    fn describe(
        &self,
        history: &History,
        sector: u64,
        found: &Found,
        possible: &[Shown],
    ) -> String {
        let block = sector / BLOCK;
        let mut text = format!(
            "volume {} block {block} (offset {}), sector {sector}: found {found}, possible are \
             {possible:?}\n    what was done to the block:\n",
            self.name,
            block * BLOCK * SECTOR as u64,
        );
        let _ = write!(text, "{}", history.tell(block * BLOCK, BLOCK));
        text
    }

    /// The server is gone.
    pub fn crashed(&self) {
        let mut state = self.state();
        state.history.crashed();
        state.in_flight = 0;
    }

    /// The server has ended cleanly.
    pub fn stopped(&self) {
        let mut state = self.state();
        state.history.stopped();
        state.in_flight = 0;
    }

    /// Reads all of it after a start, and compares it with what the end of the server may have left. What
    /// is found is what must be there from now on.
    ///
    /// # Errors
    /// What is wrong with it; or that it cannot be read.
    pub fn verify(&self, socket: &Path) -> Result<(), String> {
        let mut client = connect(socket, &self.name)?;
        let mut state = self.state();
        let sectors = state.history.sectors();
        for first in (0..sectors).step_by(PIECE as usize) {
            let count = PIECE.min(sectors - first);
            let data = read(&mut client, first, count)
                .map_err(|error| format!("volume {} sector {first}: {error}", self.name))?;
            state.counts.compared += count;
            self.verify_whole(&data, first)?;
            for (bytes, sector) in data.chunks_exact(SECTOR).zip(first..) {
                self.verify_sector(&mut state.history, sector, bytes)?;
            }
        }
        let _ = client.disconnect();
        Ok(())
    }

    fn verify_sector(
        &self,
        history: &mut History,
        sector: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let found = pattern::read(bytes, self.place(sector));
        let shown = shown(&found);
        let may = |shown: &Shown| history.may_be_found(sector, *shown);
        let Some(shown) = shown.filter(may) else {
            let possible = history.possible_after_crash(sector);
            let text = self.describe(history, sector, &found, &possible);
            return Err(format!("after the end of a server: {text}"));
        };
        history.found(sector, shown);
        Ok(())
    }

    /// Takes note of a snapshot that is made now: what is seen until it is made may be in it.
    pub fn begin_snapshot(&self) -> Look {
        self.has_shared.store(true, Ordering::Relaxed);
        self.state().history.begin_look()
    }

    /// What each sector of a snapshot may show that was just made; nothing if none was.
    pub fn end_snapshot(&self, look: Look, is_made: bool) -> Option<Vec<Vec<Shown>>> {
        let mut state = self.state();
        let all = 0..state.history.sectors();
        let shown =
            is_made.then(|| all.map(|sector| state.history.possible(look, sector)).collect());
        state.history.end_look(look);
        shown
    }

    /// Compares a piece of a snapshot with what it may show, which is what it shows from then on.
    ///
    /// # Errors
    /// What is wrong, or why it cannot be read.
    pub fn check_snapshot(
        &self,
        client: &mut Client,
        name: &str,
        may_show: &mut [Vec<Shown>],
        first: u64,
    ) -> Result<(), SnapshotTrouble> {
        let count = PIECE.min(may_show.len() as u64 - first);
        let data = read(client, first, count).map_err(SnapshotTrouble::Unreadable)?;
        for (bytes, sector) in data.chunks_exact(SECTOR).zip(first..) {
            let found = pattern::read(bytes, self.place(sector));
            let possible = &mut may_show[sector as usize];
            match shown(&found).filter(|shown| possible.contains(shown)) {
                Some(shown) => *possible = vec![shown],
                None => {
                    let text = self.describe(&self.state().history, sector, &found, possible);
                    return Err(SnapshotTrouble::Wrong(format!("snapshot {name}: {text}")));
                }
            }
        }
        Ok(())
    }

    /// Blocks that were only written whole must be whole: each of one version.
    ///
    /// # Errors
    /// The first that is not.
    fn verify_whole(&self, data: &[u8], first: u64) -> Result<(), String> {
        if !self.is_whole {
            return Ok(());
        }
        let blocks = data.chunks_exact(SECTOR * BLOCK as usize);
        for (bytes, block) in blocks.zip(first / BLOCK..) {
            let versions: Vec<Found> = bytes
                .chunks_exact(SECTOR)
                .zip(block * BLOCK..)
                .map(|(bytes, sector)| pattern::read(bytes, self.place(sector)))
                .collect();
            if versions.iter().any(|version| *version != versions[0]) {
                let told = versions.iter().map(Found::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!("volume {} block {block} is torn: {told}", self.name));
            }
        }
        Ok(())
    }
}

/// Why a piece of a snapshot was not as it should be.
pub enum SnapshotTrouble {
    /// The server could not be asked, which may be because it is gone.
    Unreadable(String),
    /// It showed what it must not.
    Wrong(String),
}

/// Nothing if what is found is what the volume may never show.
fn shown(found: &Found) -> Option<Shown> {
    match found {
        Found::Zero => Some(Shown::Zero),
        Found::Version(version) => Some(Shown::Version(*version)),
        Found::Elsewhere(..) | Found::Garbage(_) => None,
    }
}

/// Connects to an export.
///
/// # Errors
/// If it is refused.
pub fn connect(socket: &Path, export: &str) -> Result<Client, String> {
    let address = Address::Unix(socket.to_owned());
    Client::connect(&address, export).map_err(|error| format!("{export}: {error}"))
}

fn read(client: &mut Client, first: u64, count: u64) -> Result<Vec<u8>, String> {
    let (offset, length) = (first * SECTOR as u64, count * SECTOR as u64);
    let data = client.read(offset, length as u32).map_err(|error| error.to_string())?;
    if data.len() as u64 == length {
        return Ok(data);
    }
    Err(format!("{} bytes instead of {length}", data.len()))
}
