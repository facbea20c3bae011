//! Does the record layer hold against clients that are slow, odd or hostile, and does an address list?
//!
//! What clients of others do over TLS is tested with the program (`crates/cli/tests/tls.rs`).

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../../live/tests/support/mod.rs"]
mod support;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use support::PassThrough;
use tandem_block::{ObjectId, Rng};
use tandem_fronts::nbd::wire::{self, option, reply};
use tandem_fronts::nbd::{
    Access, Client, Clients, Export, NbdConfig, NbdServer, TlsMode, TlsServer, parse_addresses,
};
use tandem_live::listen::{Address, Listener};
use tandem_live::remote_queue::Stopper;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig};

const VOLUME: u64 = 8 << 20;

/// A server on a TCP port of its own: one volume, TLS for whoever wants it, or must use it.
struct Server {
    stopper: Stopper,
    address: SocketAddr,
    root: Vec<u8>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(required: bool, allow: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        let own = own.signed_by(&key, &*authority).unwrap();
        std::fs::write(folder.path().join("server-cert.pem"), own.pem()).unwrap();
        std::fs::write(folder.path().join("server-key.pem"), key.serialize_pem()).unwrap();
        let tls = TlsServer::load(folder.path(), false).unwrap();
        let tls = if required { TlsMode::Require(tls) } else { TlsMode::Allow(tls) };
        let addresses = allow.iter().map(|text| parse_addresses(text).unwrap()).collect();
        let access = Access { addresses, tls };
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let backing = Backing::Ram { bytes: VOLUME };
            let devices = Devices::open(vec![DeviceConfig { backing, emulate: None }]).unwrap();
            let engine = PassThrough::new(VOLUME);
            let mut event_loop =
                EventLoop::new(EventLoopConfig::default(), devices, engine).unwrap();
            let tcp = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).unwrap();
            let address = tcp.tcp_address().unwrap();
            let export = Export {
                name: "vol0".into(),
                object: ObjectId(0),
                size_bytes: VOLUME,
                read_only: false,
                stream: None,
            };
            let server = NbdServer::new(NbdConfig::default(), vec![tcp], vec![export]);
            event_loop.add_front(Box::new(server.with_access(vec![access], Clients::default())));
            sender.send((event_loop.stopper(), address)).unwrap();
            event_loop.run().unwrap();
        });
        let (stopper, address) = receiver.recv().unwrap();
        Server { stopper, address, root: authority.pem().into_bytes(), thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        // a server that should have closed is not waited for without an end
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream
    }

    /// Past `STARTTLS`, before the handshake.
    fn about_to(&self) -> TcpStream {
        let mut stream = self.connect();
        assert_eq!(asked(&mut stream, option::STARTTLS, &[]), [reply::ACK]);
        stream
    }

    fn client(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&self.root).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server ended badly");
    }
}

/// Says an option; the types of the replies up to the last one.
fn asked(stream: &mut (impl Read + Write), option: u32, data: &[u8]) -> Vec<u32> {
    let mut bytes = Vec::new();
    wire::write_option(&mut bytes, option, data);
    stream.write_all(&bytes).unwrap();
    stream.flush().unwrap();
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
        let length = u32::from_be_bytes(head[16..].try_into().unwrap());
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        kinds.push(kind);
        if kind == reply::ACK || kind >= 1 << 31 {
            return kinds;
        }
    }
}

fn go() -> Vec<u8> {
    let mut data = Vec::new();
    wire::write_string(&mut data, "vol0");
    data.extend_from_slice(&0u16.to_be_bytes());
    data
}

/// Bytes leave one by one.
struct Trickle(TcpStream);

impl Read for Trickle {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let some = bytes.len().min(7);
        self.0.read(&mut bytes[..some])
    }
}

impl Write for Trickle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::RequestHeader { flags: 0, command, cookie, offset, length }.write(&mut bytes);
    bytes
}

#[test]
fn records_may_come_byte_by_byte() {
    let server = Server::start(true, &[]);
    let mut stream = StreamOwned::new(server.client(), Trickle(server.about_to()));
    assert_eq!(asked(&mut stream, option::LIST, &[]), [reply::SERVER, reply::ACK]);
    let kinds = asked(&mut stream, option::GO, &go());
    assert_eq!(kinds.last(), Some(&reply::ACK), "{kinds:?}");
    let mut rng = Rng::new(5);
    let body: Vec<u8> = (0..20_480).map(|_| rng.bits() as u8).collect();
    stream.write_all(&request(wire::command::WRITE, 1, 4096, 20_480)).unwrap();
    stream.write_all(&body).unwrap();
    stream.write_all(&request(wire::command::READ, 2, 4096, 20_480)).unwrap();
    let mut back = vec![0; 16 + 16 + 20_480];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(
        back[..16],
        [&0x6744_6698u32.to_be_bytes()[..], &[0; 4], &1u64.to_be_bytes()].concat()
    );
    assert!(back[32..] == body, "the bytes came back changed");
    println!("measured: {} bytes byte by byte, and back", body.len());
}

/// What comes in plain words behind `STARTTLS` is never obeyed; noise ends one connection alone.
#[test]
fn nothing_plain_is_heard_behind_the_begin_of_tls() {
    let server = Server::start(false, &[]);
    let mut glued = server.connect();
    let mut bytes = Vec::new();
    wire::write_option(&mut bytes, option::STARTTLS, &[]);
    wire::write_option(&mut bytes, option::LIST, &[]);
    glued.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    let _ = glued.read_to_end(&mut answer);
    let name = answer.windows(4).any(|part| part == b"vol0");
    assert!(!name && answer.len() < 64, "{} bytes are answered: {answer:?}", answer.len());
    // somebody on the way says the plain words, and the client goes on as if nothing was
    let mut injected = server.connect();
    injected.write_all(&bytes).unwrap();
    let mut told = [0; 20];
    injected.read_exact(&mut told).unwrap();
    let mut client = server.client();
    let mut socket = &injected;
    assert!(client.complete_io(&mut socket).is_err(), "a handshake is made behind plain words");
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let noise: Vec<u8> = (0..1 << (seed % 18)).map(|_| rng.bits() as u8).collect();
        let mut stranger = server.about_to();
        // the server may close in the middle of it
        let _ = stranger.write_all(&noise);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() < 64, "{} bytes are answered to noise", answer.len());
    }
    // a client that is gone in the middle of its handshake, and one behind it
    for bytes in [5, 100] {
        let mut hello = Vec::new();
        server.client().write_tls(&mut hello).unwrap();
        server.about_to().write_all(&hello[..bytes]).unwrap();
    }
    let mut stream = StreamOwned::new(server.client(), server.about_to());
    assert_eq!(asked(&mut stream, option::LIST, &[]), [reply::SERVER, reply::ACK]);
    drop(stream);
    let mut good = Client::connect(&Address::Tcp(server.address), "vol0").unwrap();
    good.write(0, &[1; 4096], false).unwrap();
    assert_eq!(good.read(0, 4096).unwrap(), vec![1; 4096]);
    println!("measured: 34 hostile connections, then a plain client and one over TLS were served");
}

/// A client that says bye hears it, too.
#[test]
fn a_connection_ends_as_tls_wants_it() {
    let server = Server::start(true, &[]);
    let mut stream = StreamOwned::new(server.client(), server.about_to());
    asked(&mut stream, option::GO, &go());
    stream.write_all(&request(wire::command::READ, 9, 0, 1 << 20)).unwrap();
    stream.write_all(&request(wire::command::DISC, 0, 0, 0)).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap(); // an end without a notice would be an error
    assert_eq!(rest.len(), 16 + (1 << 20), "what was asked before is answered");
}

#[test]
fn who_is_not_listed_is_refused_by_address() {
    let server = Server::start(false, &["127.0.0.2", "127.1.0.0/16"]);
    let from = |address: [u8; 4]| {
        let family = rustix::net::AddressFamily::INET;
        let socket: OwnedFd =
            rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
        rustix::net::connect(&socket, &server.address).unwrap();
        let mut greeting = Vec::new();
        let mut stream = TcpStream::from(socket).take(18);
        let _ = stream.read_to_end(&mut greeting);
        greeting.len()
    };
    let heard = [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3], [127, 1, 2, 3]].map(from);
    println!("measured: bytes of greeting from .0.0.1, .0.0.2, .0.0.3, .1.2.3: {heard:?}");
    assert_eq!(heard, [0, 18, 0, 18]);
}
