//! Do clients that stand still, hold much or are too many leave the others alone?
//!
//! Over real sockets, with the least of all minds behind them: what is tested is the front end. Waits are
//! bounded by patience, not by clocks: a slow machine only takes longer.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../../live/tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;
use support::PassThrough;
use tandem_block::{Duration, ObjectId, Rng};
use tandem_fronts::nbd::wire::{self, RequestHeader, command, option};
use tandem_fronts::nbd::{Client, ClientError, Export, NbdConfig, NbdServer};
use tandem_live::listen::{Address, Listener};
use tandem_live::remote_queue::Stopper;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig};

const VOLUME: u64 = 64 << 20;
const MIB: u64 = 1 << 20;
/// Far more than anything here takes.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A server of one volume on a RAM drive, on a thread of its own.
struct Server {
    folder: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(config: NbdConfig) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd.sock");
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let backing = Backing::Ram { bytes: VOLUME };
            let devices = Devices::open(vec![DeviceConfig { backing, emulate: None }]).unwrap();
            let engine = PassThrough::new(VOLUME);
            let mut event_loop =
                EventLoop::new(EventLoopConfig::default(), devices, engine).unwrap();
            let unix = Listener::bind(&Address::Unix(path), false).unwrap();
            let export = Export {
                name: "vol0".into(),
                object: ObjectId(0),
                size_bytes: VOLUME,
                read_only: false,
                stream: None,
            };
            event_loop.add_front(Box::new(NbdServer::new(config, vec![unix], vec![export])));
            sender.send(event_loop.stopper()).unwrap();
            event_loop.run().unwrap();
        });
        Server { folder, stopper: receiver.recv().unwrap(), thread: Some(thread) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    fn address(&self) -> Address {
        Address::Unix(self.path())
    }

    fn client(&self) -> Client {
        Client::connect(&self.address(), "vol0").unwrap()
    }

    /// A connection that has said nothing yet; one that is closed is seen within our patience.
    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection that has chosen the export, with simple replies.
    fn chosen(&self) -> UnixStream {
        let mut stream = self.raw();
        let mut said = 3u32.to_be_bytes().to_vec();
        let mut data = Vec::new();
        wire::write_string(&mut data, "vol0");
        data.extend_from_slice(&0u16.to_be_bytes());
        wire::write_option(&mut said, option::GO, &data);
        stream.write_all(&said).unwrap();
        // greeting; replies with size and block sizes; the end
        let mut heard = vec![0; 18 + (20 + 12) + (20 + 14) + 20];
        stream.read_exact(&mut heard).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server ended badly");
    }
}

/// Little patience, so that it is tried in seconds.
fn hasty() -> NbdConfig {
    NbdConfig {
        negotiation_timeout: Duration::from_ms(600),
        stall_timeout: Duration::from_ms(1500),
        ..NbdConfig::default()
    }
}

/// So little memory that a request of a few megabytes never has it at once: beside the receive buffers of
/// the 36 connections that may come, each of the four that may be served has 144 KiB, and 576 are for all.
fn poor() -> NbdConfig {
    NbdConfig {
        connections_max: 4,
        memory_bytes: 36 * (64 << 10) + (1152 << 10),
        ..NbdConfig::default()
    }
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    RequestHeader { flags: 0, command, cookie: 1, offset, length }.write(&mut bytes);
    bytes
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length / 8).flat_map(|_| rng.bits().to_le_bytes()).collect()
}

/// Reads until the server closes, and says so by panicking if it does not.
fn is_closed(stream: &mut UnixStream) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            // closed with something of ours unread
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("it is not closed: {error}"),
        }
    }
}

/// Says a byte now and then until the server closes.
fn says_slowly_until_closed(stream: &mut UnixStream, bytes: &[u8]) {
    let begun = Instant::now();
    for byte in bytes.iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "it is listened to for ever");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn who_does_not_choose_an_export_in_time_is_closed_and_who_did_may_be_silent() {
    let server = Server::start(hasty());
    let mut good = server.client();
    let mut silent = server.raw();
    let mut slow = server.raw();
    let mut option = 3u32.to_be_bytes().to_vec();
    wire::write_option(&mut option, option::INFO, &[0; 4000]);
    says_slowly_until_closed(&mut slow, &option);
    is_closed(&mut silent);
    // longer than any of its timeouts it has said nothing
    std::thread::sleep(std::time::Duration::from_secs(3));
    good.write(0, &[7; 4096], false).unwrap();
    assert_eq!(good.read(0, 4096).unwrap(), [7; 4096]);
}

#[test]
fn who_stops_in_a_request_is_closed_and_who_is_only_slow_is_not() {
    let server = Server::start(hasty());
    let body = [&request(command::WRITE, 0, 32 << 20)[..], &[1; 100]].concat();
    let mut stopped: Vec<UnixStream> = [&body[..], &body[..27], &body[..9]]
        .map(|said| {
            let mut stream = server.chosen();
            stream.write_all(said).unwrap();
            stream
        })
        .into();
    let mut trickles = server.chosen();
    trickles.write_all(&body).unwrap();
    // 128 KiB in less time than it may stand still for: it takes a while, and is served
    let slow = std::thread::spawn({
        let mut stream = server.chosen();
        move || {
            stream.write_all(&request(command::WRITE, 0, 2 << 20)).unwrap();
            for part in noise(5, 2 << 20).chunks(128 << 10) {
                stream.write_all(part).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            let mut answer = [0; wire::SIMPLE_REPLY_BYTES];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer[4..8], [0; 4], "it is served without an error");
        }
    });
    says_slowly_until_closed(&mut trickles, &[1]);
    stopped.iter_mut().for_each(is_closed);
    slow.join().unwrap();
    assert!(server.client().read(0, 2 << 20).unwrap() == noise(5, 2 << 20));
}

#[test]
fn who_leaves_answers_lying_is_closed_and_who_takes_them_slowly_is_not() {
    let server = Server::start(hasty());
    let bytes = noise(9, 4 << 20);
    server.client().write(0, &bytes, false).unwrap();
    let ask = request(command::READ, 0, 4 << 20);
    let mut deaf: Vec<UnixStream> = (0..6)
        .map(|_| {
            let mut stream = server.chosen();
            (0..8).for_each(|_| stream.write_all(&ask).unwrap());
            stream
        })
        .collect();
    let mut slow = server.chosen();
    slow.write_all(&ask).unwrap();
    let mut answer = vec![0; wire::SIMPLE_REPLY_BYTES + bytes.len()];
    for part in answer.chunks_mut(256 << 10) {
        slow.read_exact(part).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    assert!(answer[wire::SIMPLE_REPLY_BYTES..] == bytes);
    // by now the others have been closed with most of what they had asked for unsent
    for stream in &mut deaf {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(all.len() < 8 << 20, "{} bytes were kept for it", all.len());
    }
}

#[test]
fn with_little_memory_large_requests_are_done_in_pieces() {
    let server = Server::start(poor());
    let mut client = server.client();
    for (offset, length) in [(0, 8 << 20), (512, 3 << 20), (4096 + 1536, (1 << 20) + 512)] {
        let bytes = noise(offset + 1, length);
        client.write(offset, &bytes, true).unwrap();
        assert!(client.read(offset, length as u32).unwrap() == bytes, "{length} at {offset}");
    }
    // what is before and behind is as it was
    let first = noise(1, 8 << 20);
    assert!(client.read(0, 512).unwrap() == first[..512]);
    let end = 512 + (3 << 20);
    assert!(client.read(end, 1 << 20).unwrap() == first[end as usize..][..1 << 20]);
    // several at once, of several clients, in pieces between each other
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let base = (20 + number * 10) * MIB;
                for round in 0..3 {
                    for index in 0..4u64 {
                        let bytes = noise(round << 8 | number << 4 | index, 2 << 20);
                        client
                            .begin(command::WRITE, 0, (base + index * 2 * MIB, 2 << 20), &bytes)
                            .unwrap();
                    }
                    (0..4).for_each(|_| assert_eq!(client.finish().unwrap().status, Ok(())));
                    for index in 0..4u64 {
                        let read = client.read(base + index * 2 * MIB, 2 << 20).unwrap();
                        assert!(read == noise(round << 8 | number << 4 | index, 2 << 20));
                    }
                }
            });
        }
    });
    // an answer that has to be in one piece is refused if there can never be memory for it
    let mut simple = Client::connect_simple(&server.address(), "vol0").unwrap();
    let error = simple.read(0, 2 << 20).unwrap_err();
    assert!(matches!(error, ClientError::Errno(wire::error::ENOMEM)), "{error}");
    assert_eq!(simple.read(0, 512).unwrap(), first[..512]);
}

/// The old way to hold memory: announce a lot and send nothing. Whoever needs it gets it back.
#[test]
fn what_is_announced_and_not_sent_is_given_back_to_who_needs_it() {
    let config = NbdConfig { memory_bytes: 96 * MIB, ..NbdConfig::default() };
    let server = Server::start(config);
    let body = [&request(command::WRITE, 0, 32 << 20)[..], &[1; 1]].concat();
    let mut announced: Vec<UnixStream> = (0..20).map(|_| server.chosen()).collect();
    for stream in &mut announced {
        stream.write_all(&body).unwrap();
    }
    // this answer has to be in one piece, for which nearly all of what is for all is needed
    let mut simple = Client::connect_simple(&server.address(), "vol0").unwrap();
    assert_eq!(simple.read(0, 32 << 20).unwrap().len(), 32 << 20);
    // and who had announced it may still send it
    let mut late = announced.swap_remove(3);
    late.write_all(&vec![1; (32 << 20) - 1]).unwrap();
    let mut answer = [0; wire::SIMPLE_REPLY_BYTES];
    late.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0; 4]);
    assert!(simple.read(0, 32 << 20).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn who_is_one_too_many_is_refused_and_who_uses_nothing_makes_way() {
    let server = Server::start(NbdConfig { connections_max: 3, ..NbdConfig::default() });
    let mut used: Vec<Client> = (0..2).map(|_| server.client()).collect();
    for client in &mut used {
        client.flush().unwrap();
    }
    let mut unused = server.chosen();
    // one who has asked for nothing yet may be about to; soon it makes way
    let begun = Instant::now();
    let mut third = loop {
        match Client::connect(&server.address(), "vol0") {
            Ok(client) => break client,
            Err(ClientError::Refused(why)) => assert!(why.contains("3 clients"), "{why}"),
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    is_closed(&mut unused);
    third.flush().unwrap();
    // all are used now: nobody makes way, and all go on
    for _ in 0..20 {
        let refused = Client::connect(&server.address(), "vol0");
        assert!(matches!(refused, Err(ClientError::Refused(_))));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for client in used.iter_mut().chain([&mut third]) {
        client.read(0, 4096).unwrap();
    }
    drop(third);
    let begun = Instant::now();
    while Client::connect(&server.address(), "vol0").is_err() {
        assert!(begun.elapsed() < PATIENCE, "a place is free again");
    }
}

/// However many are silent, the next one is heard.
#[test]
fn silent_connections_make_way_for_whoever_comes() {
    let server = Server::start(NbdConfig::default());
    let mut silent: Vec<UnixStream> = Vec::new();
    for round in 0..4 {
        silent.extend((0..50).map(|_| server.raw()));
        server.client().write(0, &[round; 4096], false).unwrap();
    }
    is_closed(&mut silent[0]);
}
