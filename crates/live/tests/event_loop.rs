//! Does a whole event loop serve, stop and tell how it is?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use support::{FRAGMENTS, PassThrough};
use tandem_block::{Duration, IoError, ObjectId, Op, Rng, StreamId};
use tandem_live::control::{self, Control};
use tandem_live::listen::{Address, Listener};
use tandem_live::remote_queue::{Ask, RemoteQueue, Stopper};
use tandem_live::uring::Submission;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig, EventLoopError};

const SIZE: u64 = 8 << 20;

struct Running {
    remote_queue: RemoteQueue,
    stopper: Stopper,
    socket: PathBuf,
    thread: JoinHandle<Result<Vec<Vec<u32>>, EventLoopError>>,
    _folder: tempfile::TempDir,
}

/// An event loop over one drive on a thread of its own, with a remote queue and a control socket.
fn start(config: EventLoopConfig, file: bool) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let (socket, image) = (folder.path().join("control"), folder.path().join("drive.img"));
    let at = socket.clone();
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let backing = if file {
            std::fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
            Backing::Path(image)
        } else {
            Backing::Ram { bytes: SIZE }
        };
        let devices = Devices::open(vec![DeviceConfig { backing, emulate: None }]).unwrap();
        assert_eq!(devices.capacities(), [SIZE]);
        let mut event_loop = EventLoop::new(config, devices, PassThrough::new(SIZE)).unwrap();
        let listener = Listener::bind(&Address::Unix(at), false).unwrap();
        event_loop.add_front(Box::new(Control::new(listener)));
        let remote_queue = event_loop.add_remote_queue(4, StreamId(1));
        sender.send((remote_queue, event_loop.stopper())).unwrap();
        event_loop.run()?;
        Ok(event_loop.engine().sums.clone())
    });
    let (remote_queue, stopper) = receiver.recv().unwrap();
    Running { remote_queue, stopper, socket, thread, _folder: folder }
}

fn ask(op: Op, offset_bytes: u64, length_bytes: u64, data: Vec<u8>) -> Ask {
    let reply = Box::new(|_: Result<&[u8], IoError>| {});
    Ask { object: ObjectId(0), op, offset_bytes, length_bytes, fua: false, data, reply }
}

/// Threads that write and read blocks of their own, over RAM and a file, spinning or not, eager or
/// batched.
#[test]
fn threads_knock_and_are_served() {
    for (file, spin_us, submission) in [
        (false, 50, Submission::Eager),
        (false, 0, Submission::Batched),
        (true, 0, Submission::Eager),
        (true, 50, Submission::Batched),
    ] {
        let spin = Duration::from_us(spin_us);
        let event_loop =
            start(EventLoopConfig { spin, submission, ..EventLoopConfig::default() }, file);
        std::thread::scope(|scope| {
            for number in 0..4u64 {
                let remote_queue = event_loop.remote_queue.clone();
                scope.spawn(move || knock(&remote_queue, number));
            }
        });
        event_loop.stopper.stop();
        event_loop.thread.join().unwrap().unwrap();
        let late = event_loop.remote_queue.ask_and_wait(ask(Op::Flush, 0, 0, Vec::new()));
        assert_eq!(late, Err(IoError::Stopping), "a stopped event loop answers");
    }
}

fn knock(remote_queue: &RemoteQueue, number: u64) {
    let mut rng = Rng::new(number);
    let mut truth = vec![0u8; 1 << 20];
    for _ in 0..200 {
        let at = rng.below(2000) * 512;
        let length = rng.between(1, 40) * 512;
        let place = number * (1 << 20) + at;
        let range = at as usize..(at + length) as usize;
        if rng.below(2) == 0 {
            let byte = rng.below(256) as u8;
            truth[range].fill(byte);
            let write = ask(Op::Write, place, length, vec![byte; length as usize]);
            assert_eq!(remote_queue.ask_and_wait(write), Ok(Vec::new()));
        } else {
            let read = remote_queue.ask_and_wait(ask(Op::Read, place, length, Vec::new())).unwrap();
            assert!(read == truth[range], "thread {number} read other bytes at {place}");
        }
    }
    assert_eq!(remote_queue.ask_and_wait(ask(Op::Flush, 0, 0, Vec::new())), Ok(Vec::new()));
}

#[test]
fn the_engine_learns_the_checksums_of_what_was_moved() {
    let event_loop = start(EventLoopConfig::default(), true);
    let write = ask(Op::Write, 4096, 8192, [vec![1; 4096], vec![2; 4096]].concat());
    event_loop.remote_queue.ask_and_wait(write).unwrap();
    event_loop.remote_queue.ask_and_wait(ask(Op::Read, 8192, 4096, Vec::new())).unwrap();
    event_loop.stopper.stop();
    let sums = event_loop.thread.join().unwrap().unwrap();
    let [one, two] = [1, 2].map(|byte| crc_fast::crc32_iscsi(&[byte; 4096]));
    assert_eq!(sums, [vec![one, two], vec![two]]);
}

#[test]
fn the_control_socket_tells_and_stops() {
    let event_loop = start(EventLoopConfig::default(), false);
    // the socket exists before the event loop serves; a client then waits for its answer
    let status = control::ask_for_status(&event_loop.socket).unwrap();
    assert_eq!((status.live.requests_in_flight, status.fragments), (0, FRAGMENTS));
    let wrong = control::ask(&event_loop.socket, "dance").unwrap();
    assert!(wrong["error"].as_str().unwrap().contains("verb"), "{wrong}");
    assert_eq!(control::ask(&event_loop.socket, "stop").unwrap()["stopping"], true);
    event_loop.thread.join().unwrap().unwrap();
    assert!(!event_loop.socket.exists());
}

/// Answers are given on the event loop's thread, in the order of completion, without a thread waiting.
#[test]
fn answers_may_be_closures() {
    let event_loop = start(EventLoopConfig::default(), false);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for index in 0..50u64 {
        let seen = Arc::clone(&seen);
        let mut write = ask(Op::Write, index * 512, 512, vec![index as u8; 512]);
        write.reply = Box::new(move |answer| seen.lock().unwrap().push((index, answer.is_ok())));
        event_loop.remote_queue.ask(write);
    }
    let bytes =
        event_loop.remote_queue.ask_and_wait(ask(Op::Read, 49 * 512, 512, Vec::new())).unwrap();
    assert_eq!(bytes, vec![49; 512]);
    let want: Vec<_> = (0..50).map(|index| (index, true)).collect();
    assert_eq!(*seen.lock().unwrap(), want);
    let short = event_loop.remote_queue.ask_and_wait(ask(Op::Write, 0, 1024, vec![0; 512]));
    assert_eq!(short, Err(IoError::Misaligned), "data and length disagree");
    event_loop.stopper.stop();
    event_loop.thread.join().unwrap().unwrap();
}
