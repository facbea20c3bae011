//! Does NBD work over real sockets, for our client and for those of others?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../../live/tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use support::PassThrough;
use tandem_block::{Duration, ObjectId, Rng};
use tandem_fronts::nbd::{Client, ClientError, Export, NbdConfig, NbdServer, wire};
use tandem_live::listen::{Address, Listener};
use tandem_live::remote_queue::Stopper;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig};

const VOLUME: u64 = 64 << 20;

/// A server of two volumes on a RAM drive, on a thread of its own.
struct Server {
    folder: tempfile::TempDir,
    stopper: Stopper,
    tcp: Address,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(config: EventLoopConfig) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let backing = Backing::Ram { bytes: 2 * VOLUME };
            let devices = Devices::open(vec![DeviceConfig { backing, emulate: None }]).unwrap();
            let mut event_loop = EventLoop::new(config, devices, PassThrough::new(VOLUME)).unwrap();
            let unix = Listener::bind(&Address::Unix(path), false).unwrap();
            let tcp = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).unwrap();
            let address = Address::Tcp(tcp.tcp_address().unwrap());
            let export = |(index, name): (u64, &str)| Export {
                name: name.into(),
                object: ObjectId(index),
                size_bytes: VOLUME,
                read_only: false,
                stream: None,
            };
            let exports = [(0, "vol0"), (1, "vol1")].map(export).to_vec();
            let server = NbdServer::new(NbdConfig::default(), vec![unix, tcp], exports);
            event_loop.add_front(Box::new(server));
            sender.send((event_loop.stopper(), address)).unwrap();
            event_loop.run().unwrap();
        });
        let (stopper, tcp) = receiver.recv().unwrap();
        Server { folder, stopper, tcp, thread: Some(thread) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    fn unix(&self) -> Address {
        Address::Unix(self.path())
    }

    fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.path().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server ended badly");
        assert!(!self.path().exists() || std::thread::panicking(), "the socket stayed behind");
    }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

/// What a client writes it reads, in every size, over both kinds of socket and reply.
#[test]
fn bytes_go_there_and_back() {
    let server = Server::start(EventLoopConfig::default());
    assert_eq!(Client::list(&server.unix()).unwrap(), ["vol0", "vol1"]);
    let clients = [
        Client::connect(&server.unix(), "vol0").unwrap(),
        Client::connect_simple(&server.unix(), "vol1").unwrap(),
        Client::connect(&server.tcp, "vol0").unwrap(),
    ];
    for (index, mut client) in clients.into_iter().enumerate() {
        assert_eq!(client.size_bytes(), VOLUME);
        assert_ne!(client.flags() & wire::can::MULTI_CONN, 0);
        let mut offset = index as u64 * 512;
        for length in [512, 4096, 4096 + 512, 33 << 10, 1 << 20, 32 << 20] {
            let bytes = noise(length as u64, length);
            client.write(offset, &bytes, length == 4096).unwrap();
            let read = client.read(offset, length as u32).unwrap();
            assert!(read == bytes, "client {index}: {length} bytes at {offset} came back changed");
            offset += length as u64;
        }
        client.flush().unwrap();
        client.trim(4096, 4096).unwrap();
        client.zeroes(16384, 8192, true).unwrap();
        assert!(client.read(4096, 4096).unwrap().iter().all(|byte| *byte == 0));
        assert!(client.read(16384, 8192).unwrap().iter().all(|byte| *byte == 0));
        client.disconnect().unwrap();
    }
    let mut client = Client::connect(&server.unix(), "vol0").unwrap();
    let extents = client.block_status(0, 3 << 20).unwrap();
    assert_eq!(
        extents.iter().map(|e| (e.length_bytes >> 20, e.allocated)).collect::<Vec<_>>(),
        [(1, true), (1, false), (1, true)]
    );
    let error = client.read(VOLUME, 512).unwrap_err();
    assert!(matches!(error, ClientError::Errno(22)), "{error}");
    let error = client.zeroes(VOLUME - 512, 1024, false).unwrap_err();
    assert!(matches!(error, ClientError::Errno(28)), "{error}");
}

/// Many requests under way on several connections, with little memory: everyone is served.
#[test]
fn back_pressure_delays_but_loses_nothing() {
    let config = EventLoopConfig {
        front_bytes_max: 256 << 10,
        requests_max: 8,
        spin: Duration::ZERO,
        ..EventLoopConfig::default()
    };
    let server = Server::start(config);
    let one = |number: u64| {
        let mut client = Client::connect(&server.unix(), "vol0").unwrap();
        let base = number * (16 << 20);
        let mut want = std::collections::HashMap::new();
        for round in 0..8u64 {
            for index in 0..16u64 {
                let length = if index % 5 == 0 { 200 << 10 } else { 4096 };
                let bytes = noise(round << 32 | index << 16 | number, length);
                let at = base + index * (256 << 10);
                client.begin(1, 0, (at, length as u32), &bytes).unwrap();
                want.insert(at, bytes);
            }
            for _ in 0..16 {
                assert_eq!(client.finish().unwrap().status, Ok(()));
            }
        }
        for (at, bytes) in want {
            assert!(client.read(at, bytes.len() as u32).unwrap() == bytes);
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        for number in 0..4 {
            scope.spawn(move || one(number));
        }
    });
}

/// Who breaks the protocol loses his connection; others notice nothing.
#[test]
fn a_stranger_cannot_hurt_the_server() {
    let server = Server::start(EventLoopConfig::default());
    let mut good = Client::connect(&server.unix(), "vol0").unwrap();
    good.write(0, &[1; 4096], false).unwrap();
    for seed in 0..40 {
        let mut stranger = UnixStream::connect(server.path()).unwrap();
        let length = if seed % 2 == 0 { 100 } else { 100_000 };
        // the server may close in the middle of it
        let _ = stranger.write_all(&noise(seed, length));
        let mut answer = Vec::new();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"NBDMAGIC"));
    }
    // in the middle of a body, and in the middle of an answer
    for _ in 0..8 {
        let mut client = Client::connect(&server.unix(), "vol0").unwrap();
        client.begin(1, 0, (0, 1 << 20), &[9; 1000]).unwrap();
        drop(client);
        let mut client = Client::connect(&server.unix(), "vol0").unwrap();
        for _ in 0..4 {
            client.begin(0, 0, (0, 8 << 20), &[]).unwrap();
        }
        drop(client);
    }
    let mut client = Client::connect(&server.unix(), "vol0").unwrap();
    client.begin(1, 0, (0, u32::MAX - 511), &[0; 512]).unwrap();
    assert!(client.finish().is_err(), "an oversized write ends the connection");
    assert_eq!(good.read(0, 4096).unwrap(), vec![1; 4096]);
    good.disconnect().unwrap();
}

fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn needs_nbdinfo_it_sees_what_we_can() {
    if !installed("nbdinfo") {
        return;
    }
    let server = Server::start(EventLoopConfig::default());
    let seen = run("nbdinfo", &[&server.uri("vol1")]);
    for line in [
        "can_flush: true",
        "can_fua: true",
        "can_trim: true",
        "can_zero: true",
        "can_multi_conn: true",
        "can_df: true",
        "can_fast_zero: false",
        "block_size_minimum: 512",
        "base:allocation",
        "is_read_only: false",
    ] {
        assert!(seen.contains(line), "{line} is missing in\n{seen}");
    }
    let list = run("nbdinfo", &["--list", &server.uri("")]);
    assert!(list.contains("export=\"vol0\"") && list.contains("export=\"vol1\""), "{list}");
    let map = run("nbdinfo", &["--map", &server.uri("vol0")]);
    assert!(map.contains("hole"), "{map}");
}

#[test]
fn needs_nbdcopy_it_copies_both_ways() {
    if !installed("nbdcopy") {
        return;
    }
    let server = Server::start(EventLoopConfig::default());
    let (from, into) = (server.folder.path().join("from"), server.folder.path().join("into"));
    let bytes = noise(3, VOLUME as usize);
    std::fs::write(&from, &bytes).unwrap();
    run("nbdcopy", &["--flush", text(&from), &server.uri("vol1")]);
    // our test engine calls every second MiB a hole, so the copy back must not ask
    run("nbdcopy", &["--allocated", "--no-extents", &server.uri("vol1"), text(&into)]);
    assert!(std::fs::read(&into).unwrap() == bytes, "nbdcopy brought back other bytes");
}
