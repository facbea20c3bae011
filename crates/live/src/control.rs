//! How does another process ask a running server how it is, or to stop? One JSON object per line
//! over a Unix socket: `{"verb":"status"}`, `{"verb":"stop"}` or `{"verb":"tier","volume":"vol0",
//! "tier":"hot-dst","settings":{"extent":65536}}`, one line back for each.

mod adding;
mod asking;
mod clients;
mod snapshots;

use crate::device::DeviceConfig;
use crate::engine::Leave;
use crate::front::{Front, FrontContext};
use crate::listen::Listener;
use crate::status::Status;
use crate::uring::Finished;
use crate::users::Users;
pub use adding::{Addition, ask_to_add};
use asking::send;
use clients::{Client, Pace};
use slab::Slab;
pub use snapshots::{Snapshot, ask_for_snapshot};
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use tandem_block::{DeviceId, Instant};
use tandem_engine::{Done, TierConfig};

/// Longest line of a client.
const LINE_BYTES_MAX: usize = 4096;
const ACCEPT: u64 = u64::MAX;
/// What may be asked for, and with which other keys.
const VERBS: [(&str, &[&str]); 11] = [
    ("status", &[]),
    ("stop", &[]),
    ("tier", &["volume", "tier", "settings"]),
    ("replace", &["old", "new", "force"]),
    ("cancel-replace", &[]),
    ("add", &["drive", "role", "bay", "force", "dry_run"]),
    ("drain", &["drive", "dry_run"]),
    ("cancel-drain", &[]),
    ("remove", &["drive"]),
    ("snapshot", &["volume", "name"]),
    ("delete-snapshot", &["volume", "name"]),
];
/// Keys that have another name now: the verb, the key, and what it is called.
const RENAMED: [(&str, &str, &str); 1] = [("add", "place", "bay")];

/// Fills in a part of every status.
pub type Part = Box<dyn Fn(&mut Status)>;

/// The control socket as a front end that sends no requests.
pub struct Control {
    listener: Listener,
    /// Those who know more than the engine.
    parts: Vec<Part>,
    clients: Slab<Client>,
    pace: Pace,
    stopping: bool,
    accepting: bool,
    /// Without one no drive is replaced.
    registrar: Option<Rc<RefCell<dyn Registrar>>>,
    /// Who uses snapshots.
    users: Users,
    /// After a failed accept: when to try again.
    retry_at: Option<Instant>,
}

impl Control {
    /// Answers on this socket.
    pub fn new(listener: Listener) -> Control {
        Control {
            listener,
            parts: Vec::new(),
            registrar: None,
            users: Users::default(),
            clients: Slab::new(),
            pace: Pace::default(),
            stopping: false,
            accepting: false,
            retry_at: None,
        }
    }

    /// Lets drives be replaced, and says who knows them.
    #[must_use]
    pub fn registrar(mut self, registrar: Rc<RefCell<dyn Registrar>>) -> Control {
        self.registrar = Some(registrar);
        self
    }

    /// Keeps snapshots that somebody uses.
    #[must_use]
    pub fn users(mut self, users: Users) -> Control {
        self.users = users;
        self
    }

    /// Adds a part to every status.
    #[must_use]
    pub fn with(mut self, part: Part) -> Control {
        self.parts.push(part);
        self
    }

    /// Answers a line of a client, at once or when the engine has done what it says.
    fn answer(&mut self, key: usize, line: &[u8], context: &mut FrontContext<'_>) {
        let reply = match Asked::parse(line) {
            Ok(Asked::Snapshot(it)) => {
                if self.begin_snapshot(key, &it, context) {
                    return;
                }
                self.refuse_snapshot(&it, context)
            }
            asked => self.reply(asked, context),
        };
        self.say(key, &reply, context);
    }

    /// The answer to one line.
    fn reply(
        &self,
        asked: Result<Asked, String>,
        context: &mut FrontContext<'_>,
    ) -> serde_json::Value {
        match asked {
            Ok(Asked::Snapshot(_)) => unreachable!("answered when it is done"),
            Ok(Asked::Status) => {
                let mut status = context.status();
                self.parts.iter().for_each(|part| part(&mut status));
                let told = serde_json::to_value(status);
                told.unwrap_or_else(|why| serde_json::json!({ "error": why.to_string() }))
            }
            Ok(Asked::Stop) => {
                context.stop_event_loop();
                serde_json::json!({ "stopping": true })
            }
            Ok(Asked::Tier { volume, tier }) => match context.set_tier(&volume, *tier) {
                Ok(()) => serde_json::json!({ "volume": volume, "changed": true }),
                Err(error) => serde_json::json!({ "error": error }),
            },
            Ok(Asked::Replace { old, new, force }) => {
                match self.replace(&old, &new, force, context) {
                    Ok(()) => serde_json::json!({ "replacing": old, "by": new }),
                    Err(error) => serde_json::json!({ "error": error }),
                }
            }
            Ok(Asked::CancelReplace) => match context.cancel_replace() {
                Ok(()) => serde_json::json!({ "cancelled": true }),
                Err(error) => serde_json::json!({ "error": error }),
            },
            Ok(Asked::Add(it)) => {
                self.add(&it, context).unwrap_or_else(|error| serde_json::json!({ "error": error }))
            }
            Ok(Asked::Drain { drive, dry_run }) => match self.drain(&drive, dry_run, context) {
                Ok(bytes) => serde_json::json!({ "draining": drive, "bytes": bytes }),
                Err(error) => serde_json::json!({ "error": error }),
            },
            Ok(Asked::CancelDrain) => match context.change_members(Leave::Cancel) {
                Ok(()) => serde_json::json!({ "cancelled": true }),
                Err(error) => serde_json::json!({ "error": error }),
            },
            Ok(Asked::Remove { drive }) => {
                let device = self.device(&drive);
                match device.and_then(|device| context.change_members(Leave::Remove(device))) {
                    Ok(()) => serde_json::json!({ "removing": drive }),
                    Err(error) => serde_json::json!({ "error": error }),
                }
            }
            Err(error) => serde_json::json!({ "error": error }),
        }
    }

    /// Hands a snapshot to the engine; false if it cannot be.
    fn begin_snapshot(
        &mut self,
        key: usize,
        it: &Snapshot,
        context: &mut FrontContext<'_>,
    ) -> bool {
        let op = context.engine().map(|engine| it.op(engine, &self.users));
        let Some(Ok(op)) = op.filter(|_| !self.stopping) else { return false };
        context.batch(vec![op], true, key as u64);
        self.clients[key].awaits = Some(it.clone());
        true
    }

    fn refuse_snapshot(&self, it: &Snapshot, context: &FrontContext<'_>) -> serde_json::Value {
        let why = match context.engine().map(|engine| it.op(engine, &self.users)) {
            Some(Err(why)) => why,
            _ => "the server is stopping".into(),
        };
        serde_json::json!({ "error": why })
    }

    fn device(&self, drive: &str) -> Result<DeviceId, String> {
        let registrar = self.registrar.as_ref().ok_or("this pool's drives cannot leave it")?;
        registrar.borrow().device(drive)
    }

    /// Returns how many bytes have to move.
    fn drain(
        &self,
        drive: &str,
        dry_run: bool,
        context: &mut FrontContext<'_>,
    ) -> Result<u64, String> {
        let device = self.device(drive)?;
        let bytes = context.can_drain(device)?;
        if !dry_run {
            context.change_members(Leave::Drain(device))?;
        }
        Ok(bytes)
    }

    fn replace(
        &self,
        old: &str,
        new: &str,
        force: bool,
        context: &mut FrontContext<'_>,
    ) -> Result<(), String> {
        let registrar = self.registrar.as_ref().ok_or("this pool's drives cannot be replaced")?;
        let prepared = registrar.borrow().prepare(old, new, force)?;
        self.begin_replace(prepared, new, context)
    }
}

/// Who knows what a configuration calls drives, and keeps it true to them.
pub trait Registrar {
    /// The drive that is called `old`, and how to open the one called `new`, with an id that no drive
    /// had before.
    ///
    /// # Errors
    /// If there is no such drive, or the new one must not be used, in words.
    fn prepare(&self, old: &str, new: &str, force: bool) -> Result<Prepared, String>;

    /// How to open the drive called `new` for the place of this one.
    ///
    /// # Errors
    /// If it must not be used, in words.
    fn prepare_for(&self, device: DeviceId, new: &str, force: bool) -> Result<Prepared, String>;

    /// The places that are empty, with what they are called: those for drives of this role, and the one
    /// that is called so, where that is said.
    ///
    /// # Errors
    /// If there is none, or it has to be said which role, in words.
    fn places(
        &self,
        role: Option<&str>,
        named: Option<&str>,
    ) -> Result<Vec<(DeviceId, String)>, String>;

    /// What a drive is that shall come.
    ///
    /// # Errors
    /// If it cannot be read, in words.
    fn look_at(&self, new: &str) -> Result<Looked, String>;

    /// Which drive this is.
    ///
    /// # Errors
    /// If there is no such drive, or none that can leave, in words.
    fn device(&self, drive: &str) -> Result<DeviceId, String>;

    /// The replacement has begun.
    ///
    /// # Errors
    /// What could not be noted.
    fn begun(&mut self, device: DeviceId, new: &str) -> Result<(), String>;
}

/// What a drive is that shall come.
pub struct Looked {
    /// Its size.
    pub bytes: u64,
    /// What is known to lie on it.
    pub holds: Vec<String>,
}

/// A drive that may take another one's place.
pub struct Prepared {
    /// Whose place.
    pub device: DeviceId,
    /// How to open it.
    pub config: DeviceConfig,
    /// Its id.
    pub uuid: u128,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// How are you?
    Status,
    /// Settle everything and stop.
    Stop,
    /// Give a volume another tier.
    Tier {
        /// Its name.
        volume: String,
        /// The tier with its settings.
        tier: Box<TierConfig>,
    },
    /// Replace a drive.
    Replace {
        /// Its path as the configuration has it.
        old: String,
        /// The new drive's.
        new: String,
        /// Whatever the new drive holds.
        force: bool,
    },
    /// End the replacement under way.
    CancelReplace,
    /// A drive comes.
    Add(Addition),
    /// Move everything off a drive.
    Drain {
        /// Its path as the configuration has it.
        drive: String,
        /// Only say whether that could be, and how much it is.
        dry_run: bool,
    },
    /// The drive that is drained stays.
    CancelDrain,
    /// A drive that was drained is none of the pool any more.
    Remove {
        /// Its path as the configuration has it.
        drive: String,
    },
    /// Take a snapshot, or delete one.
    Snapshot(Snapshot),
}

impl Asked {
    /// Reads one line.
    ///
    /// # Errors
    /// What is wrong with it, in words for the client.
    pub fn parse(line: &[u8]) -> Result<Asked, String> {
        let request: serde_json::Value =
            serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let verb = request.get("verb").and_then(serde_json::Value::as_str);
        refuse_unknown_keys(&request, verb)?;
        match verb {
            Some("status") => Ok(Asked::Status),
            Some("stop") => Ok(Asked::Stop),
            Some("tier") => Asked::tier(&request),
            Some("replace") => Asked::replace(&request),
            Some("cancel-replace") => Ok(Asked::CancelReplace),
            Some("add") => Addition::parse(&request),
            Some("drain") => {
                let dry_run = flag(&request, "dry_run")?;
                Ok(Asked::Drain { drive: text(&request, "drive")?, dry_run })
            }
            Some("cancel-drain") => Ok(Asked::CancelDrain),
            Some("snapshot") => Snapshot::parse(&request, false),
            Some("delete-snapshot") => Snapshot::parse(&request, true),
            Some("remove") => Ok(Asked::Remove { drive: text(&request, "drive")? }),
            _ => {
                let names = VERBS.map(|(name, _)| name);
                Err(format!("'verb' must be one of {}", names.join(", ")))
            }
        }
    }

    fn replace(request: &serde_json::Value) -> Result<Asked, String> {
        let force = flag(request, "force")?;
        Ok(Asked::Replace { old: text(request, "old")?, new: text(request, "new")?, force })
    }

    fn tier(request: &serde_json::Value) -> Result<Asked, String> {
        let text = |name: &str| {
            let value = request.get(name).and_then(serde_json::Value::as_str);
            value.ok_or_else(|| format!("{name:?} must be a string"))
        };
        let (volume, mut tier) = (text("volume")?.to_owned(), TierConfig::named(text("tier")?));
        if tier.entry().is_none() {
            return Err(format!("there is no tier called {:?}", tier.name()));
        }
        let empty = serde_json::Map::new();
        let settings = match request.get("settings") {
            None => &empty,
            Some(settings) => settings.as_object().ok_or("\"settings\" must be an object")?,
        };
        for (name, value) in settings {
            let value = value.as_u64().ok_or_else(|| format!("{name} must be a whole number"))?;
            tier.set(name, value).map_err(|error| error.to_string())?;
        }
        Ok(Asked::Tier { volume, tier: Box::new(tier) })
    }
}

/// A key that nobody knows may be what matters most to who sent it, so nothing is done without it.
///
/// # Errors
/// Which one it is, and those that there are.
fn refuse_unknown_keys(request: &serde_json::Value, verb: Option<&str>) -> Result<(), String> {
    let known = verb.and_then(|verb| VERBS.into_iter().find(|&(name, _)| name == verb));
    let (Some((verb, known)), Some(keys)) = (known, request.as_object()) else { return Ok(()) };
    let is_known = |key: &str| key == "verb" || known.contains(&key);
    let Some(key) = keys.keys().find(|key| !is_known(key)) else { return Ok(()) };
    if let Some((_, _, new)) = RENAMED.iter().find(|&&(of, old, _)| of == verb && old == key) {
        return Err(format!("the key \"{key}\" of the verb \"{verb}\" is now called \"{new}\""));
    }
    let there_are = match known {
        [] => "it has no other keys".to_owned(),
        _ => format!("its keys are {}", known.join(", ")),
    };
    Err(format!("the verb \"{verb}\" does not know the key \"{key}\": {there_are}"))
}

fn text(request: &serde_json::Value, name: &str) -> Result<String, String> {
    let value = request.get(name).and_then(serde_json::Value::as_str);
    value.map(str::to_owned).ok_or_else(|| format!("{name:?} must be a string"))
}

fn flag(request: &serde_json::Value, name: &str) -> Result<bool, String> {
    match request.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| format!("{name:?} must be true or false")),
    }
}

impl Front for Control {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.accept(context);
    }

    fn finished(&mut self, done: Finished, context: &mut FrontContext<'_>) {
        if done.tag.value == ACCEPT {
            self.accepted(&done, context);
        } else {
            self.moved(done.tag.value as usize, done, context);
        }
    }

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        let key = cookie as usize;
        let Some(it) = self.clients[key].awaits.take() else { return };
        self.say(key, &it.answer(done.status), context);
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        if self.retry_at.is_some_and(|at| context.now >= at) {
            self.retry_at = None;
            self.accept(context);
        }
        self.answer_in_turn(context);
        self.watch(context);
    }

    fn has_news(&mut self) -> bool {
        self.pace.is_awaited()
    }

    fn room(&mut self, _context: &mut FrontContext<'_>) {}

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.stopping = true;
    }

    fn is_quiet(&self) -> bool {
        self.clients.iter().all(|(_, client)| client.awaits.is_none())
    }
}

/// Asks a running server; for the other side of the socket.
///
/// # Errors
/// If nobody answers there, or not in JSON.
pub fn ask(socket: &Path, verb: &str) -> io::Result<serde_json::Value> {
    send(socket, &serde_json::json!({ "verb": verb }))
}

/// Asks a running server how it is.
///
/// # Errors
/// As `ask`, and an answer that is no status.
pub fn ask_for_status(socket: &Path) -> io::Result<Status> {
    let answer = ask(socket, "status")?;
    match answer["error"].as_str() {
        Some(why) => Err(io::Error::other(why)),
        None => Ok(serde_json::from_value(answer)?),
    }
}

/// Asks a running server to give a volume another tier.
///
/// # Errors
/// As `ask`; what the server refuses is in its answer, under `error`.
pub fn ask_for_tier(
    socket: &Path,
    volume: &str,
    tier: &TierConfig,
) -> io::Result<serde_json::Value> {
    let settings: serde_json::Map<_, _> =
        tier.changed().map(|(setting, value)| (setting.name.to_owned(), value.into())).collect();
    let asked = serde_json::json!({
        "verb": "tier", "volume": volume, "tier": tier.name(), "settings": settings,
    });
    send(socket, &asked)
}

/// Asks the server behind this socket to replace a drive.
///
/// # Errors
/// If nobody listens or answers.
pub fn ask_to_replace(
    socket: &Path,
    (old, new): (&str, &str),
    force: bool,
) -> io::Result<serde_json::Value> {
    let asked = serde_json::json!({ "verb": "replace", "old": old, "new": new, "force": force });
    send(socket, &asked)
}

/// Asks the server behind this socket to end the replacement under way.
///
/// # Errors
/// If nobody listens or answers.
pub fn ask_to_cancel_replace(socket: &Path) -> io::Result<serde_json::Value> {
    send(socket, &serde_json::json!({ "verb": "cancel-replace" }))
}

/// Asks the server behind this socket to move everything off a drive, or whether it could.
///
/// # Errors
/// If nobody listens or answers.
pub fn ask_to_drain(socket: &Path, drive: &str, dry_run: bool) -> io::Result<serde_json::Value> {
    send(socket, &serde_json::json!({ "verb": "drain", "drive": drive, "dry_run": dry_run }))
}

/// Asks the server behind this socket to keep the drive that it drains.
///
/// # Errors
/// If nobody listens or answers.
pub fn ask_to_cancel_drain(socket: &Path) -> io::Result<serde_json::Value> {
    send(socket, &serde_json::json!({ "verb": "cancel-drain" }))
}

/// Asks the server behind this socket to remove a drive that was drained.
///
/// # Errors
/// If nobody listens or answers.
pub fn ask_to_remove(socket: &Path, drive: &str) -> io::Result<serde_json::Value> {
    send(socket, &serde_json::json!({ "verb": "remove", "drive": drive }))
}
