//! How does one talk to an NBD server? A small blocking client, for tests and the demo.

use super::wire::{
    self, Reader, RequestHeader, chunk, command, flag, handshake, info, option, reply,
};
use std::io::{self, Read as _, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tandem_live::Extent;
use tandem_live::listen::Address;

/// Why a client cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The socket failed.
    #[error("the connection to the NBD server failed: {0}")]
    Io(#[from] io::Error),
    /// The server does not follow the protocol.
    #[error("the NBD server broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server said no during the negotiation.
    #[error("the NBD server refused: {0}")]
    Refused(String),
    /// A request was answered with an error number.
    #[error("the NBD server answered error {0}")]
    Errno(u32),
}

trait Stream: io::Read + Write + Send {
    /// Another handle on the same connection.
    fn again(&self) -> io::Result<Box<dyn Stream>>;
}

impl Stream for UnixStream {
    fn again(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Stream for TcpStream {
    fn again(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

/// An answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// As [`Client::begin`] returned it.
    pub cookie: u64,
    /// An NBD error number if it failed.
    pub status: Result<(), u32>,
    /// The bytes of a read.
    pub data: Vec<u8>,
    /// The extents of a block status.
    pub extents: Vec<Extent>,
}

/// One connection, in the transmission phase.
pub struct Client {
    stream: Box<dyn Stream>,
    size_bytes: u64,
    flags: u16,
    next_cookie: u64,
    /// Answers say themselves how long they are.
    is_structured: bool,
    /// Another handle waits for the answers.
    is_split: bool,
    /// Reads that wait for their answer.
    reads: Vec<Read>,
}

/// Longest read of a client's.
const READ_BYTES_MAX: u32 = 64 << 20;

/// A read under way, with what has come of it.
struct Read {
    cookie: u64,
    offset: u64,
    length: u32,
    data: Vec<u8>,
}

impl Read {
    /// Appends what lies at `offset`, which is behind what has come so far.
    fn append(&mut self, offset: Option<u64>, bytes: &[u8]) -> Outcome<()> {
        let next = self.offset + self.data.len() as u64;
        if offset != Some(next) || self.data.len() + bytes.len() > self.length as usize {
            return Err(ClientError::Protocol("pieces of a read that do not follow each other"));
        }
        self.data.extend_from_slice(bytes);
        Ok(())
    }
}

type Outcome<T> = Result<T, ClientError>;

impl Client {
    /// Connects and chooses an export, with structured replies and block status.
    ///
    /// # Errors
    /// If nobody listens there, or the server refuses.
    pub fn connect(address: &Address, export: &str) -> Outcome<Client> {
        let mut client = Self::greet(address)?;
        client.choose(export)?;
        Ok(client)
    }

    fn choose(&mut self, export: &str) -> Outcome<()> {
        self.option(option::STRUCTURED_REPLY, &[])?;
        self.is_structured = true;
        let mut query = Vec::new();
        wire::write_string(&mut query, export);
        query.extend_from_slice(&1u32.to_be_bytes());
        wire::write_string(&mut query, wire::BASE_ALLOCATION);
        self.option(option::SET_META_CONTEXT, &query)?;
        self.go(export)
    }

    /// Connects and chooses an export, with nothing but simple replies.
    ///
    /// # Errors
    /// If nobody listens there, or the server refuses.
    pub fn connect_simple(address: &Address, export: &str) -> Outcome<Client> {
        let mut client = Self::greet(address)?;
        client.go(export)?;
        Ok(client)
    }

    /// Names of the exports of a server.
    ///
    /// # Errors
    /// If nobody listens there, or the server refuses.
    pub fn list(address: &Address) -> Outcome<Vec<String>> {
        let mut client = Self::greet(address)?;
        let replies = client.option(option::LIST, &[])?;
        let name = |(kind, data): &(u32, Vec<u8>)| {
            (*kind == reply::SERVER).then(|| Reader::new(data).string().map(String::from))?
        };
        let names = replies.iter().filter_map(name).collect();
        client.option(option::ABORT, &[])?;
        Ok(names)
    }

    fn greet(address: &Address) -> Outcome<Client> {
        let stream: Box<dyn Stream> = match address {
            Address::Unix(path) => Box::new(UnixStream::connect(path)?),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Self::over(stream)
    }

    fn over(mut stream: Box<dyn Stream>) -> Outcome<Client> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        let mut reader = Reader::new(&greeting);
        if reader.u64() != Some(wire::MAGIC) || reader.u64() != Some(wire::OPTION_MAGIC) {
            return Err(ClientError::Protocol("its greeting is not that of newstyle NBD"));
        }
        let flags = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        stream.write_all(&flags.to_be_bytes())?;
        Ok(Client::silent(stream))
    }

    /// A handle that has said and heard nothing yet.
    fn silent(stream: Box<dyn Stream>) -> Client {
        Client {
            stream,
            size_bytes: 0,
            flags: 0,
            next_cookie: 1,
            is_structured: false,
            is_split: false,
            reads: Vec::new(),
        }
    }

    /// A second handle on this connection, which waits for the answers to what this one begins: a
    /// client that sends much must read at the same time, or both sides wait for each other.
    ///
    /// # Errors
    /// If the answers do not say how long they are, or the socket has no second handle.
    pub fn answers(&mut self) -> Outcome<Client> {
        if !self.is_structured {
            return Err(ClientError::Protocol("answers of a simple connection need its requests"));
        }
        self.is_split = true;
        let (size_bytes, flags) = (self.size_bytes, self.flags);
        let other = Client::silent(self.stream.again()?);
        Ok(Client { size_bytes, flags, is_structured: true, is_split: true, ..other })
    }

    /// Sends an option; the replies before the final ACK.
    fn option(&mut self, option: u32, data: &[u8]) -> Outcome<Vec<(u32, Vec<u8>)>> {
        let mut out = Vec::new();
        wire::write_option(&mut out, option, data);
        self.stream.write_all(&out)?;
        let mut replies = Vec::new();
        loop {
            let head = self.take(20)?;
            let mut reader = Reader::new(&head);
            let magic = reader.u64();
            let (Some(answered), Some(kind), Some(length)) =
                (reader.u32(), reader.u32(), reader.u32())
            else {
                unreachable!("20 bytes hold 20 bytes");
            };
            if magic != Some(wire::OPTION_REPLY_MAGIC) || answered != option || length > 1 << 16 {
                return Err(ClientError::Protocol("a reply to an option is malformed"));
            }
            let data = self.take(length as usize)?;
            match kind {
                reply::ACK => return Ok(replies),
                _ if kind & (1 << 31) != 0 => {
                    return Err(ClientError::Refused(String::from_utf8_lossy(&data).into_owned()));
                }
                _ => replies.push((kind, data)),
            }
        }
    }

    fn go(&mut self, export: &str) -> Outcome<()> {
        let mut data = Vec::new();
        wire::write_string(&mut data, export);
        data.extend_from_slice(&0u16.to_be_bytes());
        for (kind, data) in self.option(option::GO, &data)? {
            let mut reader = Reader::new(&data);
            if kind == reply::INFO && reader.u16() == Some(info::EXPORT) {
                let missing = ClientError::Protocol("its export has no size");
                let (Some(size), Some(flags)) = (reader.u64(), reader.u16()) else {
                    return Err(missing);
                };
                (self.size_bytes, self.flags) = (size, flags);
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Size of the export in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Transmission flags of the export, see [`wire::can`].
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Sends one request without waiting, so that several are under way; `data` is a write's body.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn begin(
        &mut self,
        command: u16,
        flags: u16,
        range: (u64, u32),
        data: &[u8],
    ) -> Outcome<u64> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut out = Vec::with_capacity(wire::REQUEST_BYTES + data.len());
        RequestHeader { flags, command, cookie, offset: range.0, length: range.1 }.write(&mut out);
        out.extend_from_slice(data);
        if command == command::READ && !self.is_split {
            let (offset, length) = range;
            self.reads.push(Read { cookie, offset, length, data: Vec::new() });
        }
        self.stream.write_all(&out)?;
        Ok(cookie)
    }

    /// Waits for the next answer, in whatever order the server gives them.
    ///
    /// # Errors
    /// If the socket fails or the answer is malformed. An error *in* the answer is in its status.
    pub fn finish(&mut self) -> Outcome<Reply> {
        let head = self.take(16)?;
        let mut reader = Reader::new(&head);
        match reader.u32() {
            Some(wire::SIMPLE_REPLY_MAGIC) => {
                let (Some(error), Some(cookie)) = (reader.u32(), reader.u64()) else {
                    unreachable!("16 bytes hold 16 bytes");
                };
                let data = match self.forget_read(cookie) {
                    Some(read) if error == 0 => self.take(read.length as usize)?,
                    _ => Vec::new(),
                };
                let status = if error == 0 { Ok(()) } else { Err(error) };
                Ok(Reply { cookie, status, data, extents: Vec::new() })
            }
            Some(wire::CHUNK_MAGIC) => self.finish_chunks(head),
            _ => Err(ClientError::Protocol("an answer begins with no known number")),
        }
    }

    /// Chunks until one ends an answer. Those of a read follow each other, as our server sends them.
    fn finish_chunks(&mut self, mut head: Vec<u8>) -> Outcome<Reply> {
        loop {
            let mut reader = Reader::new(&head);
            if reader.u32() != Some(wire::CHUNK_MAGIC) {
                return Err(ClientError::Protocol("an answer is broken off by another one"));
            }
            let (Some(flags), Some(kind), Some(cookie)) =
                (reader.u16(), reader.u16(), reader.u64())
            else {
                unreachable!("16 bytes hold 16 bytes");
            };
            let length = self.take(4)?;
            let length = Reader::new(&length).u32().unwrap_or(0);
            if length > READ_BYTES_MAX {
                return Err(ClientError::Protocol("an oversized chunk"));
            }
            let data = self.take(length as usize)?;
            if flags & chunk::DONE != 0 {
                return self.last_chunk(cookie, kind, data);
            }
            self.further_chunk(cookie, kind, &data)?;
            head = self.take(16)?;
        }
    }

    /// Bytes of a read that is not answered wholly yet.
    fn further_chunk(&mut self, cookie: u64, kind: u16, data: &[u8]) -> Outcome<()> {
        let (chunk::OFFSET_DATA, Some((at, bytes))) = (kind, data.split_at_checked(8)) else {
            return Err(ClientError::Protocol("a chunk that belongs to no read"));
        };
        let at = Reader::new(at).u64();
        let known = self.reads.iter().any(|read| read.cookie == cookie);
        if let (Some(offset), true, false) = (at, self.is_split, known) {
            // the other handle knows how long it is
            self.reads.push(Read { cookie, offset, length: READ_BYTES_MAX, data: Vec::new() });
        }
        let read = self.reads.iter_mut().find(|read| read.cookie == cookie);
        let read = read.ok_or(ClientError::Protocol("a chunk that belongs to no read"))?;
        read.append(at, bytes)
    }

    fn last_chunk(&mut self, cookie: u64, kind: u16, mut data: Vec<u8>) -> Outcome<Reply> {
        let read = self.forget_read(cookie);
        let mut reply = Reply { cookie, status: Ok(()), data: Vec::new(), extents: Vec::new() };
        let mut reader = Reader::new(&data);
        match (kind, read) {
            (chunk::NONE, _) => {}
            (chunk::OFFSET_DATA, Some(mut read)) if data.len() >= 8 && !read.data.is_empty() => {
                read.append(reader.u64(), &data[8..])?;
                reply.data = read.data;
            }
            (chunk::OFFSET_DATA, _) if data.len() >= 8 => reply.data = data.split_off(8),
            (chunk::ERROR, _) => reply.status = Err(reader.u32().unwrap_or(wire::error::EIO)),
            (chunk::BLOCK_STATUS, _) => {
                reader.u32();
                while let (Some(length), Some(flags)) = (reader.u32(), reader.u32()) {
                    let allocated = flags & wire::extent::HOLE == 0;
                    reply.extents.push(Extent { length_bytes: u64::from(length), allocated });
                }
            }
            _ => return Err(ClientError::Protocol("a chunk of unknown type")),
        }
        Ok(reply)
    }

    fn forget_read(&mut self, cookie: u64) -> Option<Read> {
        let position = self.reads.iter().position(|read| read.cookie == cookie)?;
        Some(self.reads.swap_remove(position))
    }

    fn call(&mut self, command: u16, flags: u16, range: (u64, u32), data: &[u8]) -> Outcome<Reply> {
        let cookie = self.begin(command, flags, range, data)?;
        let reply = self.finish()?;
        if reply.cookie != cookie {
            return Err(ClientError::Protocol("an answer to a request that was not sent"));
        }
        match reply.status {
            Ok(()) => Ok(reply),
            Err(error) => Err(ClientError::Errno(error)),
        }
    }

    /// Reads `length` bytes.
    ///
    /// # Errors
    /// If the connection fails or the server answers an error; so with all the others.
    pub fn read(&mut self, offset: u64, length: u32) -> Outcome<Vec<u8>> {
        self.call(command::READ, 0, (offset, length), &[]).map(|reply| reply.data)
    }

    /// Writes; with `fua` it is durable when this returns.
    ///
    /// # Errors
    /// See [`Client::read`].
    ///
    /// # Panics
    /// If `data` has 4 GiB or more.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Outcome<()> {
        let length = u32::try_from(data.len()).expect("a write has less than 4 GiB");
        let flags = if fua { flag::FUA } else { 0 };
        self.call(command::WRITE, flags, (offset, length), data).map(drop)
    }

    /// Makes durable what was acknowledged, on every connection.
    ///
    /// # Errors
    /// See [`Client::read`].
    pub fn flush(&mut self) -> Outcome<()> {
        self.call(command::FLUSH, 0, (0, 0), &[]).map(drop)
    }

    /// Says that a range is not needed any more.
    ///
    /// # Errors
    /// See [`Client::read`].
    pub fn trim(&mut self, offset: u64, length: u32) -> Outcome<()> {
        self.call(command::TRIM, 0, (offset, length), &[]).map(drop)
    }

    /// Writes zeroes.
    ///
    /// # Errors
    /// See [`Client::read`].
    pub fn zeroes(&mut self, offset: u64, length: u32, no_hole: bool) -> Outcome<()> {
        let flags = if no_hole { flag::NO_HOLE } else { 0 };
        self.call(command::WRITE_ZEROES, flags, (offset, length), &[]).map(drop)
    }

    /// What lies in a range.
    ///
    /// # Errors
    /// See [`Client::read`].
    pub fn block_status(&mut self, offset: u64, length: u32) -> Outcome<Vec<Extent>> {
        self.call(command::BLOCK_STATUS, 0, (offset, length), &[]).map(|reply| reply.extents)
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn disconnect(mut self) -> Outcome<()> {
        let goodbye = self.begin(command::DISC, 0, (0, 0), &[]);
        goodbye.map(drop)
    }
}

/// A server that says what a fuzzer gave it, and hears nothing.
struct Script(io::Cursor<Vec<u8>>);

impl io::Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Script {
    fn again(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(Script(self.0.clone())))
    }
}

/// See [`super::fuzz_client`].
pub(super) fn fuzz(bytes: &[u8]) -> Outcome<u64> {
    let mut client = Client::over(Box::new(Script(io::Cursor::new(bytes.to_vec()))))?;
    client.choose("a")?;
    let mut answers = 0;
    for length in [512, 1 << 20] {
        client.begin(command::READ, 0, (0, length), &[])?;
        assert!(client.finish()?.data.len() <= 64 << 20, "more than anybody may send");
        client.begin(command::BLOCK_STATUS, 0, (0, length), &[])?;
        client.finish()?;
        answers += 2;
    }
    Ok(answers)
}
