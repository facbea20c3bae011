//! TLS of one NBD connection. Where does the record layer sit? Between the socket's bytes and the session.
//!
//! ```text
//!   socket ⇄ [ records: bytes of the socket ⇄ bytes of NBD ] ⇄ session
//! ```
//!
//! It comes into being with `STARTTLS`; a connection without TLS has none and goes past it. All of the
//! protocol is the rustls library's. Bodies of large writes and reads are copied once more than without
//! TLS: they have to be decrypted and encrypted in any case.
//!
//! Sessions are not resumed: a client's certificate is looked at each time.

mod files;
mod names;

pub use files::TlsError;

use rustls::ServerConnection;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use tandem_live::buffer::Memory;
use tandem_live::outgoing::Outgoing;

/// Bytes of the socket that are received at once: some records of 16 KiB.
const CIPHER_BYTES: usize = 64 * 1024;
/// What a connection with TLS holds beside what every connection holds: that, a record that is opened and
/// one that is sealed (guess: each twice, as it grows).
pub(super) const TLS_BYTES: usize = CIPHER_BYTES + 4 * RECORD_BYTES;
/// A full record: with so many bytes gathered they are sealed.
pub(super) const RECORD_BYTES: usize = 16 * 1024;

/// Certificates and rules of a server, for all connections.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<rustls::ServerConfig>,
    verifies_clients: bool,
}

impl TlsServer {
    /// Must every client show a certificate of our authority?
    pub fn verifies_clients(&self) -> bool {
        self.verifies_clients
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsServer").field("verifies_clients", &self.verifies_clients).finish()
    }
}

/// What came of opening records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// So many bytes of NBD.
    Bytes(usize),
    /// More bytes of the socket are needed.
    Nothing,
    /// The client has closed its side.
    Ended,
}

/// The records of one connection.
pub(super) struct Records {
    tls: ServerConnection,
    /// What came from the socket; `None` while the ring has it.
    cipher: Option<Box<Memory>>,
    /// Received and not opened yet.
    start: usize,
    end: usize,
    /// What is to be sealed.
    plain: Vec<u8>,
    has_greeted: bool,
    has_said_bye: bool,
}

impl Records {
    /// The begin of a handshake; `received` came behind the client's last plain message.
    ///
    /// # Errors
    /// If the library refuses its configuration, or more was received than a client may send by then.
    pub fn new(server: &TlsServer, received: &[u8]) -> Result<Records, String> {
        let tls =
            ServerConnection::new(Arc::clone(&server.config)).map_err(|why| why.to_string())?;
        let cipher = Memory::try_zeroed(CIPHER_BYTES).map(Box::new);
        let mut cipher = cipher.ok_or("there is no memory for it")?;
        if received.len() > CIPHER_BYTES {
            return Err("too much was sent before the handshake".into());
        }
        cipher.bytes_mut(0..received.len()).copy_from_slice(received);
        Ok(Records {
            tls,
            cipher: Some(cipher),
            start: 0,
            end: received.len(),
            plain: Vec::new(),
            has_greeted: false,
            has_said_bye: false,
        })
    }

    /// Is a receive for it under way?
    pub fn is_receiving(&self) -> bool {
        self.cipher.is_none()
    }

    /// Has something been received that is no whole record yet?
    pub fn is_mid_record(&self) -> bool {
        self.end > self.start
    }

    /// Room behind what was received, for a plain call.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.compact();
        let end = self.end;
        self.cipher.as_mut().map(|cipher| cipher.bytes_mut(end..CIPHER_BYTES))
    }

    /// So many bytes came into [`Records::room`].
    pub fn received(&mut self, count: usize) {
        self.end += count;
    }

    /// The memory, for the ring, with where to receive and how much.
    pub fn lend(&mut self) -> Option<(Box<Memory>, usize, usize)> {
        self.compact();
        Some((self.cipher.take()?, self.end, CIPHER_BYTES - self.end))
    }

    /// The ring gives it back.
    pub fn give_back(&mut self, cipher: Box<Memory>) {
        self.cipher = Some(cipher);
    }

    fn compact(&mut self) {
        let Some(cipher) = &mut self.cipher else { return };
        if self.start > 0 {
            cipher.bytes_mut(0..self.end).copy_within(self.start.., 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Opens what was received into `plain`, which has room. What the library wants to answer to it
    /// follows with [`Records::flush`].
    ///
    /// # Errors
    /// Why this client is none, in words.
    pub fn open(&mut self, plain: &mut [u8]) -> Result<Opened, String> {
        assert!(!plain.is_empty(), "records are opened into some room");
        loop {
            match self.tls.reader().read(plain) {
                Ok(0) => return Ok(Opened::Ended),
                Ok(count) => return Ok(Opened::Bytes(count)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why.to_string()),
            }
            let Some(cipher) = &mut self.cipher else { return Ok(Opened::Nothing) };
            if self.start == self.end {
                return Ok(Opened::Nothing);
            }
            let mut received = &cipher.bytes_mut(self.start..self.end)[..];
            match self.tls.read_tls(&mut received) {
                Ok(count) if count > 0 => self.start += count,
                Ok(_) => return Err("its records make no sense".into()),
                Err(why) => return Err(why.to_string()),
            }
            self.tls.process_new_packets().map_err(|why| why.to_string())?;
        }
    }

    /// True once, when the handshake is over.
    pub fn is_greeted(&mut self) -> bool {
        let is_over = !self.tls.is_handshaking();
        is_over && !std::mem::replace(&mut self.has_greeted, is_over)
    }

    /// The names in the client's certificate; none if it showed none.
    pub fn names(&self) -> Vec<String> {
        let shown = self.tls.peer_certificates().and_then(<[_]>::first);
        shown.map_or_else(Vec::new, |certificate| names::of(certificate))
    }

    /// Lets `write` append bytes of NBD; they are sealed when there is a record of them.
    pub fn stage<R>(&mut self, batch: &mut Outgoing, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let result = write(&mut self.plain);
        if self.plain.len() >= RECORD_BYTES {
            self.seal(batch);
        }
        result
    }

    /// Seals what is there.
    pub fn seal(&mut self, batch: &mut Outgoing) {
        let mut rest = &self.plain[..];
        while !rest.is_empty() {
            match self.tls.writer().write(rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                // the keys are used up, which no connection lives to see: nothing more can be said
                _ => break,
            }
            batch.stage(|out| drain(&mut self.tls, out));
        }
        self.plain.clear();
        self.flush(batch);
    }

    /// Is everything sealed?
    pub fn is_sealed(&self) -> bool {
        self.plain.is_empty()
    }

    /// Appends what the protocol itself has to say.
    pub fn flush(&mut self, batch: &mut Outgoing) {
        if self.tls.wants_write() {
            batch.stage(|out| drain(&mut self.tls, out));
        }
    }

    /// Says that nothing more comes; false if that was said.
    pub fn say_bye(&mut self, batch: &mut Outgoing) -> bool {
        if std::mem::replace(&mut self.has_said_bye, true) {
            return false;
        }
        self.tls.send_close_notify();
        self.flush(batch);
        true
    }
}

fn drain(tls: &mut ServerConnection, out: &mut Vec<u8>) {
    // memory takes everything
    while tls.wants_write() && tls.write_tls(out).is_ok_and(|count| count > 0) {}
}
