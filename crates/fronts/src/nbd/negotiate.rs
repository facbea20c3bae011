//! What do client and server agree on before the first request?
//!
//! Source: the NBD protocol document, "Fixed newstyle negotiation". Everything here comes from
//! strangers: options are short, few, and answered with an error rather than a guess.

use super::export::{Export, REQUEST_BYTES_MAX, SECTOR_BYTES};
use super::wire::{self, Reader, can, handshake, info, option, reply};
use std::rc::Rc;

/// Longest data of an option: two names of 4096 bytes and a few queries. Longer ones are refused.
const OPTION_DATA_BYTES_MAX: usize = 16 * 1024;
/// Options of one client at most.
const OPTIONS_MAX: u32 = 64;
/// Preferred request: one block of the map.
const PREFERRED_BYTES: u32 = 4096;

/// What the next bytes of a negotiation led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// At least so many bytes are needed.
    Wait(usize),
    /// So many bytes were understood.
    Consumed(usize),
    /// So many bytes were understood, and this export (by position) was chosen.
    Chosen(usize, usize),
    /// So many bytes were understood; what follows is TLS.
    StartTls(usize),
    /// There is nothing more to say.
    Close,
}

/// Where a connection stands with TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// There is none.
    #[default]
    Off,
    /// Who asks for it gets it.
    Offered,
    /// Nothing is answered before it.
    Required,
    /// It is under way.
    Active,
}

/// The state of a negotiation.
#[derive(Debug)]
pub(super) struct Negotiation {
    exports: Rc<[Export]>,
    client_flags: Option<u32>,
    options: u32,
    /// See [`Tls`].
    pub tls: Tls,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// The export for which `base:allocation` was agreed on.
    meta_export: Option<usize>,
    /// So many clients are served where this one came in, and no more may be.
    pub full: Option<usize>,
}

/// What the handling of one option led to.
enum Outcome {
    Next,
    Begin(usize),
    StartTls,
    Close,
}

impl Negotiation {
    pub fn new(exports: Rc<[Export]>) -> Negotiation {
        Negotiation {
            exports,
            client_flags: None,
            options: 0,
            tls: Tls::Off,
            structured: false,
            meta_export: None,
            full: None,
        }
    }

    /// TLS is under way: these are the exports of who has come. What was agreed on before is forgotten, as
    /// the document wants it, since anybody on the way may have said it.
    pub fn secured(&mut self, exports: Rc<[Export]>) {
        let (client_flags, options) = (self.client_flags, self.options);
        *self =
            Negotiation { client_flags, options, tls: Tls::Active, ..Negotiation::new(exports) };
    }

    /// Was `base:allocation` agreed on for this export?
    pub fn has_meta(&self, export: usize) -> bool {
        self.meta_export == Some(export)
    }

    /// Understands the next message, if it is whole.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Progress {
        let mut reader = Reader::new(input);
        if self.client_flags.is_none() {
            let Some(flags) = reader.u32() else { return Progress::Wait(4) };
            let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
            if flags & !known != 0 {
                return Progress::Close; // the document says so
            }
            self.client_flags = Some(flags);
            return Progress::Consumed(4);
        }
        let (Some(magic), Some(option), Some(length)) = (reader.u64(), reader.u32(), reader.u32())
        else {
            return Progress::Wait(wire::OPTION_BYTES);
        };
        let length = length as usize;
        self.options += 1;
        if magic != wire::OPTION_MAGIC || self.options > OPTIONS_MAX {
            return Progress::Close;
        }
        if length > OPTION_DATA_BYTES_MAX {
            wire::write_option_error(out, option, reply::ERR_TOO_BIG, "the option is too long");
            return Progress::Close; // what follows is not worth skipping
        }
        let Some(data) = reader.bytes(length) else {
            self.options -= 1; // it is counted when it is whole
            return Progress::Wait(wire::OPTION_BYTES + length);
        };
        let consumed = wire::OPTION_BYTES + length;
        match self.handle(option, data, out) {
            Outcome::Next => Progress::Consumed(consumed),
            Outcome::Begin(export) => Progress::Chosen(consumed, export),
            Outcome::StartTls => Progress::StartTls(consumed),
            Outcome::Close => Progress::Close,
        }
    }

    fn handle(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Outcome {
        let invalid = |out: &mut Vec<u8>| {
            wire::write_option_error(out, option, reply::ERR_INVALID, "malformed option");
            Outcome::Next
        };
        if self.tls == Tls::Required && !matches!(option, option::STARTTLS | option::ABORT) {
            if option == option::EXPORT_NAME {
                return Outcome::Close; // it knows no errors
            }
            let text = "this server wants TLS: connect as nbds://, with a certificate";
            wire::write_option_error(out, option, reply::ERR_TLS_REQD, text);
            return Outcome::Next;
        }
        match option {
            option::STARTTLS if self.tls == Tls::Off => {
                wire::write_option_error(out, option, reply::ERR_UNSUP, "there is no TLS here");
                Outcome::Next
            }
            option::STARTTLS if data.is_empty() && self.tls != Tls::Active => {
                wire::write_option_reply(out, option, reply::ACK, &[]);
                Outcome::StartTls
            }
            option::STARTTLS => invalid(out),
            option::EXPORT_NAME => self.export_name(data, out),
            option::ABORT => {
                wire::write_option_reply(out, option, reply::ACK, &[]);
                Outcome::Close
            }
            option::LIST if data.is_empty() => {
                for export in self.exports.iter() {
                    let mut entry = Vec::new();
                    wire::write_string(&mut entry, &export.name);
                    wire::write_option_reply(out, option, reply::SERVER, &entry);
                }
                wire::write_option_reply(out, option, reply::ACK, &[]);
                Outcome::Next
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                wire::write_option_reply(out, option, reply::ACK, &[]);
                Outcome::Next
            }
            option::LIST | option::STRUCTURED_REPLY => invalid(out),
            option::INFO | option::GO => {
                self.info(option, data, out).unwrap_or_else(|| invalid(out))
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(option, data, out).unwrap_or_else(|| invalid(out))
            }
            _ => {
                let text = "this option is not supported";
                wire::write_option_error(out, option, reply::ERR_UNSUP, text);
                Outcome::Next
            }
        }
    }

    /// Position of an export; the empty name means the first.
    fn find(&self, name: &str) -> Option<usize> {
        if name.is_empty() && !self.exports.is_empty() {
            return Some(0);
        }
        self.exports.iter().position(|export| export.name == name)
    }

    fn flags(&self, export: usize) -> u16 {
        // one engine serves all connections, so a flush on any of them covers all: MULTI_CONN is
        // the truth
        let written = match self.exports[export].read_only {
            true => can::READ_ONLY,
            false => can::FUA | can::TRIM | can::WRITE_ZEROES,
        };
        let always = can::HAS_FLAGS | can::FLUSH | can::MULTI_CONN | written;
        if self.structured { always | can::DF } else { always }
    }

    /// The old way to begin; it knows no errors but closing.
    fn export_name(&mut self, data: &[u8], out: &mut Vec<u8>) -> Outcome {
        let name = wire::as_string(data);
        let Some(export) = name.and_then(|name| self.find(name)) else { return Outcome::Close };
        if self.full.is_some() {
            return Outcome::Close;
        }
        out.extend_from_slice(&self.exports[export].size_bytes.to_be_bytes());
        out.extend_from_slice(&self.flags(export).to_be_bytes());
        let no_zeroes = u32::from(handshake::NO_ZEROES);
        if self.client_flags.is_some_and(|flags| flags & no_zeroes == 0) {
            out.extend_from_slice(&[0; 124]);
        }
        Outcome::Begin(export)
    }

    /// `INFO` and `GO`; `None` if malformed.
    fn info(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Outcome> {
        let mut reader = Reader::new(data);
        let name = reader.string()?;
        let count = reader.u16()?;
        let mut wants_name = false;
        for _ in 0..count {
            wants_name |= reader.u16()? == info::NAME;
        }
        if !reader.is_empty() {
            return None;
        }
        let Some(export) = self.find(name) else {
            let text = format!("there is no export {}; ask for the list", shown(name));
            wire::write_option_error(out, option, reply::ERR_UNKNOWN, &text);
            return Some(Outcome::Next);
        };
        if let Some(count) = self.full.filter(|_| option == option::GO) {
            let text = format!(
                "this socket serves {count} clients already, and no more; \
                 'connections' in [serve] says how many"
            );
            wire::write_option_error(out, option, reply::ERR_POLICY, &text);
            return Some(Outcome::Next);
        }
        let mut entry = info::EXPORT.to_be_bytes().to_vec();
        entry.extend_from_slice(&self.exports[export].size_bytes.to_be_bytes());
        entry.extend_from_slice(&self.flags(export).to_be_bytes());
        wire::write_option_reply(out, option, reply::INFO, &entry);
        // said unasked too: who does not know it may send requests that we must refuse
        let mut entry = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [SECTOR_BYTES, PREFERRED_BYTES, REQUEST_BYTES_MAX] {
            entry.extend_from_slice(&size.to_be_bytes());
        }
        wire::write_option_reply(out, option, reply::INFO, &entry);
        if wants_name {
            let mut entry = info::NAME.to_be_bytes().to_vec();
            entry.extend_from_slice(self.exports[export].name.as_bytes());
            wire::write_option_reply(out, option, reply::INFO, &entry);
        }
        wire::write_option_reply(out, option, reply::ACK, &[]);
        Some(if option == option::GO { Outcome::Begin(export) } else { Outcome::Next })
    }

    /// `LIST_META_CONTEXT` and `SET_META_CONTEXT`; `None` if malformed.
    fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Outcome> {
        if !self.structured {
            return None;
        }
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.meta_export = None;
        }
        let mut reader = Reader::new(data);
        let name = reader.string()?;
        let count = reader.u32()?;
        let mut wanted = count == 0 && !is_set;
        for _ in 0..count {
            let query = reader.string()?;
            wanted |= query == wire::BASE_ALLOCATION || (query == "base:" && !is_set);
        }
        if !reader.is_empty() {
            return None;
        }
        let Some(export) = self.find(name) else {
            wire::write_option_error(out, option, reply::ERR_UNKNOWN, "there is no such export");
            return Some(Outcome::Next);
        };
        if wanted {
            let id = if is_set { wire::BASE_ALLOCATION_ID } else { 0 };
            let mut entry = id.to_be_bytes().to_vec();
            entry.extend_from_slice(wire::BASE_ALLOCATION.as_bytes());
            wire::write_option_reply(out, option, reply::META_CONTEXT, &entry);
            if is_set {
                self.meta_export = Some(export);
            }
        }
        wire::write_option_reply(out, option, reply::ACK, &[]);
        Some(Outcome::Next)
    }
}

/// A name that somebody sent, as it is said back: in quotes, and not all of a long one.
fn shown(name: &str) -> String {
    const LETTERS_MAX: usize = 200;
    let mut letters = name.chars();
    let first: String = letters.by_ref().take(LETTERS_MAX).collect();
    let rest = if letters.next().is_some() { "..." } else { "" };
    format!("{first:?}{rest}")
}
#[cfg(test)]
#[path = "negotiate/tests.rs"]
mod tests;
