//! What are the bytes of NBD? Numbers and layouts only, big-endian throughout.
//!
//! Source: the NBD protocol document, "Values" and "Transmission phase".

/// First bytes of the server: `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Fixed newstyle, and the begin of each option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins each chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags of both sides.
pub mod handshake {
    /// The server speaks fixed newstyle; the client knows it.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeroes after `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Options of the negotiation.
pub mod option {
    /// Choose an export and begin; errors close the connection.
    pub const EXPORT_NAME: u32 = 1;
    /// Give up.
    pub const ABORT: u32 = 2;
    /// Which exports are there?
    pub const LIST: u32 = 3;
    /// From here on TLS.
    pub const STARTTLS: u32 = 5;
    /// What is this export like?
    pub const INFO: u32 = 6;
    /// Choose an export and begin.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata is there?
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Use this metadata.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One information.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The server does not want to.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option is malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Not without TLS.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Types of information.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod can {
    /// The flags mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// Nothing can be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH.
    pub const FLUSH: u16 = 1 << 2;
    /// FUA.
    pub const FUA: u16 = 1 << 3;
    /// TRIM.
    pub const TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Reads in one piece.
    pub const DF: u16 = 1 << 7;
    /// A flush on one connection covers what all connections wrote.
    pub const MULTI_CONN: u16 = 1 << 8;
}

/// Types of requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// Disconnect.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// What lies where?
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1;
    /// Zeroes shall be allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One piece.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeroes only if that is fast.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks.
pub mod chunk {
    /// Nothing more.
    pub const NONE: u16 = 0;
    /// Bytes of a read.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeroes of a read.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// What went wrong.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Flag: the last chunk.
    pub const DONE: u16 = 1;
}

/// Flags of extents in `base:allocation`.
pub mod extent {
    /// Nothing is allocated.
    pub const HOLE: u32 = 1;
    /// It reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// Errors of requests.
pub mod error {
    /// Input/output error.
    pub const EIO: u32 = 5;
    /// It is never written to.
    pub const EPERM: u32 = 1;
    /// The server has no memory for it.
    pub const ENOMEM: u32 = 12;
    /// Invalid argument.
    pub const EINVAL: u32 = 22;
    /// Beyond the end, or the pool is full.
    pub const ENOSPC: u32 = 28;
    /// Not supported.
    pub const ENOTSUP: u32 = 95;
    /// The server is ending.
    pub const ESHUTDOWN: u32 = 108;
}

/// Longest string in bytes, in either direction; none holds a NUL.
pub const STRING_BYTES_MAX: usize = 4096;

/// The metadata context that we have, and its id.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Id of [`BASE_ALLOCATION`] in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Bytes of a request without its data.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a simple reply without its data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk without its data.
pub const CHUNK_BYTES: usize = 20;

/// Takes big-endian numbers from the front of a slice; `None` where it is too short.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// The next 2 bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 4 bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 8 bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length before it; `None` also for one that nobody may send.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        as_string(self.bytes(length)?)
    }

    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// One request as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// See [`flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl RequestHeader {
    /// Reads one; `None` unless `bytes` begins with a whole request.
    pub fn parse(bytes: &[u8]) -> Option<RequestHeader> {
        let mut reader = Reader::new(bytes);
        if reader.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(RequestHeader {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0u8; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// Appends what the server says first.
pub fn write_greeting(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC.to_be_bytes());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    out.extend_from_slice(&flags.to_be_bytes());
}

/// Appends an option with its data.
pub fn write_option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&length32(data.len()).to_be_bytes());
    out.extend_from_slice(data);
}

/// Appends a reply to an option.
pub fn write_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length32(data.len()).to_be_bytes());
    out.extend_from_slice(data);
}

/// Bytes as a string that may be sent: UTF-8, no NUL, not too long.
pub fn as_string(bytes: &[u8]) -> Option<&str> {
    let may = bytes.len() <= STRING_BYTES_MAX && !bytes.contains(&0);
    std::str::from_utf8(bytes).ok().filter(|_| may)
}

/// Appends a reply to an option that says what is wrong: as much of the text as may be sent.
pub fn write_option_error(out: &mut Vec<u8>, option: u32, kind: u32, text: &str) {
    let mut said = String::new();
    for letter in text.chars().filter(|letter| *letter != '\0') {
        if said.len() + letter.len_utf8() > STRING_BYTES_MAX {
            break;
        }
        said.push(letter);
    }
    write_option_reply(out, option, kind, said.as_bytes());
}

/// Appends a string with its length before it.
///
/// # Panics
/// If it must not be sent.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    assert!(as_string(text.as_bytes()).is_some(), "a string is too long or holds a NUL");
    out.extend_from_slice(&length32(text.len()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a simple reply without its data.
pub fn write_simple_reply(out: &mut Vec<u8>, error: u32, cookie: u64) {
    let mut bytes = [0u8; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends the head of a chunk that is the last of its reply; `length` bytes follow.
pub fn write_chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: u32) {
    write_chunk_of(out, chunk::DONE, kind, cookie, length);
}

/// Appends the head of a chunk with these flags; `length` bytes follow.
pub fn write_chunk_of(out: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, length: u32) {
    let mut bytes = [0u8; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&bytes);
}

fn length32(length: usize) -> u32 {
    u32::try_from(length).expect("our own messages are short")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document spells two of the magic numbers in letters.
    #[test]
    fn magic_numbers_are_their_letters() {
        assert_eq!(&MAGIC.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&OPTION_MAGIC.to_be_bytes(), b"IHAVEOPT");
    }

    #[test]
    fn a_request_survives_the_wire_and_nothing_shorter_does() {
        let header =
            RequestHeader { flags: 1, command: 6, cookie: 7 << 40, offset: 1 << 33, length: 512 };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(bytes.len(), REQUEST_BYTES);
        assert_eq!(RequestHeader::parse(&bytes), Some(header));
        for end in 0..REQUEST_BYTES {
            assert_eq!(RequestHeader::parse(&bytes[..end]), None);
        }
        bytes[0] ^= 1;
        assert_eq!(RequestHeader::parse(&bytes), None);
    }

    #[test]
    fn strings_end_where_they_say() {
        let mut bytes = Vec::new();
        write_string(&mut bytes, "vol0");
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.string(), reader.is_empty()), (Some("vol0"), true));
        bytes[3] = 5;
        assert_eq!(Reader::new(&bytes).string(), None);
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xFF]).string(), None, "not UTF-8");
        assert_eq!(Reader::new(&[0, 0, 0, 2, b'a', 0]).string(), None, "a NUL");
        let long = |length: u32| [&length.to_be_bytes()[..], &vec![b'a'; length as usize]].concat();
        assert!(Reader::new(&long(4096)).string().is_some());
        assert_eq!(Reader::new(&long(4097)).string(), None, "too long");
    }

    #[test]
    fn an_error_says_as_much_as_may_be_sent() {
        for (text, want) in [
            ("a\0b".to_owned(), "ab".to_owned()),
            ("x".repeat(5000), "x".repeat(4096)),
            ("é".repeat(3000), "é".repeat(2048)),
            (format!("x{}", "é".repeat(3000)), format!("x{}", "é".repeat(2047))),
        ] {
            let mut out = Vec::new();
            write_option_error(&mut out, 7, reply::ERR_UNKNOWN, &text);
            assert_eq!(&out[20..], want.as_bytes());
            assert_eq!(out[16..20], (want.len() as u32).to_be_bytes());
        }
    }
}
