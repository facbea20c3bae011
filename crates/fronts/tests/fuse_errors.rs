//! Does a client of the files hear what went wrong, by its right name?
//!
//! Source: acceptance of the spine, "The promise": trouble is an error, never silence. On a real mount: an engine
//! that refuses every request with a known error, and the engine over a drive that fails.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use tandem_block::{
    DeviceId, Drive, DriveOp, DriveOpKind, DurabilityClass, Instant, IoError, MIB, ObjectId,
    Outcome, PayloadId, StreamId,
};
use tandem_drives::NullDrive;
use tandem_engine::{
    Command, DeviceConfig, Done, Engine, EngineConfig, Event, Role, ServedFrom, SteerConfig,
    VolumeConfig, WriteCache,
};
use tandem_fronts::fuse::{FuseServer, VolumeFile};
use tandem_live::remote_queue::Stopper;
use tandem_live::status::Status;
use tandem_live::{Backing, Devices, EventLoop, EventLoopConfig, LiveEngine, device};

const VOLUME_BYTES: u64 = 16 * MIB;
const DRIVE_BYTES: u64 = 64 * MIB;

/// The engine, until an error is set: then every request ends with it.
struct Refusing {
    engine: Engine,
    error: Arc<Mutex<Option<IoError>>>,
}

impl LiveEngine for Refusing {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Vec<Command>) {
        let error = *self.error.lock().unwrap();
        if let (Event::Request(request), Some(error)) = (&event, error) {
            if request.payload != PayloadId::NONE {
                out.push(Command::Release(request.payload));
            }
            return out.push(Command::Complete(Done {
                request: request.id,
                status: Err(error),
                payload: PayloadId::NONE,
                skip_bytes: 0,
                wait_ns: 0,
                device_ns: 0,
                served_from: ServedFrom::Ram,
            }));
        }
        self.engine.on(now, event, out);
    }

    fn status(&self, now: Instant) -> Status {
        LiveEngine::status(&self.engine, now)
    }
}

/// Which commands fail.
const NONE: u8 = 0;
const READS: u8 = 1;
const WRITES: u8 = 2;
const FLUSHES: u8 = 3;

/// A drive whose commands fail while a switch says so.
struct Switched {
    inner: NullDrive,
    failing: Arc<AtomicU8>,
}

impl Drive for Switched {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        let kind = match op.kind {
            DriveOpKind::Read => READS,
            DriveOpKind::Flush => FLUSHES,
            _ => WRITES,
        };
        let outcome = self.inner.submit(now, op);
        if self.failing.load(Ordering::SeqCst) == kind {
            return Outcome { status: Err(IoError::Device(DeviceId(0))), ..outcome };
        }
        outcome
    }

    fn volatile_bytes(&mut self, now: Instant) -> u64 {
        self.inner.volatile_bytes(now)
    }

    fn power_cycle(&mut self, now: Instant) {
        self.inner.power_cycle(now);
    }

    fn fork(&self) -> Box<dyn Drive> {
        unreachable!("nobody forks the real event loop")
    }
}

/// A fresh pool in RAM, mounted, on a thread of its own.
struct Server {
    folder: tempfile::TempDir,
    stopper: Stopper,
    error: Arc<Mutex<Option<IoError>>>,
    failing: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `None` where there is no FUSE.
    fn start() -> Option<Server> {
        if !Path::new("/dev/fuse").exists() {
            println!("skipped: there is no /dev/fuse here, so errors of files are NOT tested");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("mnt");
        std::fs::create_dir(&point).unwrap();
        let (error, failing) = (Arc::default(), Arc::new(AtomicU8::new(NONE)));
        let (sender, receiver) = mpsc::channel();
        let (told, switch) = (Arc::clone(&error), Arc::clone(&failing));
        let thread = std::thread::spawn(move || {
            let mut event_loop = event_loop(told, switch);
            let size_bytes = VOLUME_BYTES;
            let file = VolumeFile { name: "vol0".into(), object: ObjectId(0), size_bytes };
            let server = FuseServer::mount(&point, vec![file], StreamId(0)).unwrap();
            event_loop.add_front(Box::new(server));
            sender.send(event_loop.stopper()).unwrap();
            event_loop.run().unwrap();
        });
        let stopper = receiver.recv().unwrap();
        Some(Server { folder, stopper, error, failing, thread: Some(thread) })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mnt/vol0")
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *self.error.lock().unwrap() = None;
        self.failing.store(NONE, Ordering::SeqCst);
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

fn event_loop(error: Arc<Mutex<Option<IoError>>>, failing: Arc<AtomicU8>) -> EventLoop<Refusing> {
    let drive = Switched { inner: NullDrive::new(DRIVE_BYTES), failing };
    let config = device::DeviceConfig {
        backing: Backing::Ram { bytes: DRIVE_BYTES },
        emulate: Some(Box::new(drive)),
    };
    let devices = Devices::open(vec![config]).unwrap();
    let drive = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes: DRIVE_BYTES,
        write_cache: WriteCache::Volatile,
        depth: 16,
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = VolumeConfig {
        object: ObjectId(0),
        name: "vol0".into(),
        size_bytes: VOLUME_BYTES,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let engine = Engine::new(EngineConfig::with_drives(vec![drive], vec![volume])).unwrap();
    EventLoop::new(EventLoopConfig::default(), devices, Refusing { engine, error }).unwrap()
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn every_error_reaches_every_call_by_its_name() {
    let Some(server) = Server::start() else { return };
    let file = server.open();
    let durable = |path: &Path| {
        let flags = rustix::fs::OFlags::DSYNC.bits().cast_signed();
        OpenOptions::new().write(true).custom_flags(flags).open(path).unwrap()
    };
    let synced = durable(&server.path());
    file.write_all_at(&[1; 8192], 0).unwrap();
    let id = DeviceId(0);
    for (error, wanted) in [
        (IoError::Device(id), 5), // EIO
        (IoError::Dead(id), 5),
        (IoError::Checksum(id), 5),
        (IoError::NoSpace, 28),  // ENOSPC
        (IoError::ReadOnly, 30), // EROFS
    ] {
        *server.error.lock().unwrap() = Some(error);
        let mut bytes = [0; 4096];
        assert_eq!(errno(file.read_exact_at(&mut bytes, 0)), Some(wanted), "read: {error}");
        assert_eq!(errno(file.write_all_at(&[2; 4096], 0)), Some(wanted), "write: {error}");
        // a part of a sector is read first
        assert_eq!(errno(file.write_all_at(&[2; 5], 3)), Some(wanted), "part: {error}");
        assert_eq!(errno(synced.write_all_at(&[2; 4096], 0)), Some(wanted), "O_DSYNC: {error}");
        assert_eq!(errno(file.sync_all()), Some(wanted), "fsync: {error}");
        assert_eq!(errno(file.sync_data()), Some(wanted), "fdatasync: {error}");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&file, hole, 0, 4096).map_err(std::io::Error::from);
        assert_eq!(errno(punched), Some(wanted), "discard: {error}");
        *server.error.lock().unwrap() = None;
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 4096], "nothing was changed");
        file.sync_all().unwrap();
    }
}

#[test]
fn a_drive_that_cannot_read_is_eio_for_as_long_as_it_cannot() {
    let Some(server) = Server::start() else { return };
    let file = server.open();
    file.write_all_at(&[1; 65536], 0).unwrap();
    file.sync_all().unwrap();
    let mut bytes = [0; 4096];
    server.failing.store(READS, Ordering::SeqCst);
    assert_eq!(errno(file.read_exact_at(&mut bytes, 8192)), Some(5));
    server.failing.store(NONE, Ordering::SeqCst);
    file.read_exact_at(&mut bytes, 8192).unwrap();
    assert_eq!(bytes, [1; 4096]);
}

#[test]
fn a_drive_that_cannot_write_is_eio() {
    let Some(server) = Server::start() else { return };
    let file = server.open();
    file.write_all_at(&[1; 65536], 0).unwrap();
    file.sync_all().unwrap();
    server.failing.store(WRITES, Ordering::SeqCst);
    let wrote = errno(file.write_all_at(&[2; 4096], 0));
    let synced = errno(file.sync_all());
    assert!(wrote == Some(5) || synced == Some(5), "write {wrote:?}, fsync {synced:?}");
    let mut bytes = [0; 4096];
    if file.read_exact_at(&mut bytes, 0).is_ok() {
        assert_eq!(bytes, [1; 4096], "a write that failed is not half there");
    }
}

/// A drive that could not flush once is never believed again.
#[test]
fn a_flush_that_fails_is_eio_and_the_next_one_no_success() {
    let Some(server) = Server::start() else { return };
    let file = server.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    server.failing.store(FLUSHES, Ordering::SeqCst);
    assert_eq!(errno(file.sync_all()), Some(5));
    server.failing.store(NONE, Ordering::SeqCst);
    assert_eq!(errno(file.sync_all()), Some(5), "what was acknowledged before is in doubt");
}
