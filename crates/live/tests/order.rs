//! In which order does an event loop that is late catch up? Drives are heard in the order of their answers, and
//! have their next commands before clients have theirs.
//!
//! Source: design decision 4: an emulated drive stands for a real one, which answers at its own time
//! whatever the host is doing. What is heard in another order is another workload than the one in virtual time.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration as Wall;
use tandem_block::{
    DeviceId, Drive, DriveOp, Duration, Instant, IoError, ObjectId, Op, Outcome, Request, StreamId,
    Ticket,
};
use tandem_live::remote_queue::{Ask, RemoteQueue, Stopper};
use tandem_live::status::Status;
use tandem_live::{
    Backing, Command, DeviceConfig, Devices, Done, Event, EventLoop, EventLoopConfig, Extent, Io,
    IoId, IoOp, LiveEngine, ServedFrom,
};

const SIZE: u64 = 1 << 20;

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// A drive was given a command, and will answer it then.
    Given(&'static str, Instant),
    /// The engine heard of the end of the command with this id.
    Heard(u32),
    /// The client was answered.
    Answered,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// Answers command n after n times its latency.
#[derive(Clone)]
struct Steady {
    name: &'static str,
    latency: Duration,
    commands: u64,
    log: Log,
}

impl Drive for Steady {
    fn capacity_bytes(&self) -> u64 {
        SIZE
    }
    fn submit(&mut self, now: Instant, _op: DriveOp) -> Outcome {
        self.commands += 1;
        let ack_at = now + Duration::from_ns(self.latency.ns * self.commands);
        self.log.lock().unwrap().push(Seen::Given(self.name, ack_at));
        Outcome { ack_at, durable_at: None, status: Ok(()), ticket: Ticket(self.commands) }
    }
    fn volatile_bytes(&mut self, _now: Instant) -> u64 {
        0
    }
    fn power_cycle(&mut self, _now: Instant) {}
    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}

/// Does one thing with a request: `begin`; with the nth answer: `next`.
struct Script {
    begin: fn(&Request, &mut Vec<Command>),
    next: fn(u32, &Request, &mut Vec<Command>),
    request: Option<Request>,
    heard: u32,
    log: Log,
}

impl LiveEngine for Script {
    fn on(&mut self, _now: Instant, event: Event<'_>, out: &mut Vec<Command>) {
        match event {
            Event::Start => out.push(Command::Started(Ok(()))),
            Event::Request(request) => {
                self.request = Some(*request);
                (self.begin)(request, out);
            }
            Event::Completion { io, .. } => {
                self.log.lock().unwrap().push(Seen::Heard(io.0));
                self.heard += 1;
                (self.next)(self.heard, &self.request.unwrap(), out);
            }
            Event::Wake | Event::Batch(_) => {}
            Event::Shutdown => out.push(Command::Stopped),
        }
    }
    fn status(&self, _now: Instant) -> Status {
        Status::default()
    }
    fn extents(&self, _object: ObjectId, _range: (u64, u64), _out: &mut Vec<Extent>) {}
}

fn read(id: u32, device: u8) -> Command {
    let op = IoOp::ReadMeta { offset_bytes: 0, length_bytes: 512 };
    Command::Submit(Io { id: IoId(id), device: DeviceId(device), op })
}

fn answer(request: &Request) -> Command {
    Command::Complete(Done {
        request: request.id,
        status: Ok(()),
        payload: tandem_block::PayloadId::NONE,
        skip_bytes: 0,
        wait_ns: 0,
        device_ns: 0,
        served_from: ServedFrom::Ram,
    })
}

/// An event loop over drives of these latencies, named a, b and so on; its one flush is asked and answered.
fn play(
    latencies: &[Duration],
    begin: fn(&Request, &mut Vec<Command>),
    next: fn(u32, &Request, &mut Vec<Command>),
) -> Vec<Seen> {
    let log = Log::default();
    let names = ["a", "b"];
    let drives: Vec<_> = names.into_iter().zip(latencies.iter().copied()).collect();
    let (sender, receiver) = mpsc::channel::<(RemoteQueue, Stopper)>();
    let told = Arc::clone(&log);
    let thread = std::thread::spawn(move || {
        let config = |(name, latency)| DeviceConfig {
            backing: Backing::Ram { bytes: SIZE },
            emulate: Some(Box::new(Steady { name, latency, commands: 0, log: Arc::clone(&told) })),
        };
        let devices = Devices::open(drives.into_iter().map(config).collect()).unwrap();
        let script = Script { begin, next, request: None, heard: 0, log: Arc::clone(&told) };
        let mut event_loop = EventLoop::new(EventLoopConfig::default(), devices, script).unwrap();
        sender.send((event_loop.add_remote_queue(4, StreamId(1)), event_loop.stopper())).unwrap();
        event_loop.run().unwrap();
    });
    let (remote_queue, stopper) = receiver.recv().unwrap();
    let (answered, wait) = mpsc::channel();
    let told = Arc::clone(&log);
    let reply = Box::new(move |_: Result<&[u8], IoError>| {
        told.lock().unwrap().push(Seen::Answered);
        answered.send(()).unwrap();
    });
    let (object, op, data) = (ObjectId(0), Op::Flush, Vec::new());
    remote_queue.ask(Ask { object, op, offset_bytes: 0, length_bytes: 0, fua: false, data, reply });
    wait.recv_timeout(Wall::from_secs(60)).unwrap();
    stopper.stop();
    thread.join().unwrap();
    log.lock().unwrap().clone()
}

/// The first answer takes so long to take in that all others are there when the second is asked for.
#[test]
fn a_late_event_loop_hears_drives_in_the_order_of_their_answers() {
    let begin = |_: &Request, out: &mut Vec<Command>| {
        out.extend([read(1, 0), read(2, 0), read(3, 1), read(4, 1)]);
    };
    let next = |heard: u32, request: &Request, out: &mut Vec<Command>| {
        if heard == 1 {
            std::thread::sleep(Wall::from_millis(100));
        }
        if heard == 4 {
            out.push(answer(request));
        }
    };
    // a answers after 40 and 80 ms, b after 30 and 60; were this thread held up between the commands, the
    // order were another, so it is taken from what the drives said
    let log = play(&[Duration::from_ms(40), Duration::from_ms(30)], begin, next);
    let given = |seen: &Seen| if let Seen::Given(_, at) = seen { Some(*at) } else { None };
    let mut wanted: Vec<_> = log.iter().filter_map(given).zip(1..).collect();
    wanted.sort_unstable();
    let wanted: Vec<u32> = wanted.into_iter().map(|(_, id)| id).collect();
    let heard = |seen: &Seen| if let Seen::Heard(id) = seen { Some(*id) } else { None };
    let heard: Vec<u32> = log.iter().filter_map(heard).collect();
    assert_eq!(heard, wanted, "{log:?}");
}

/// An engine says whom to answer before it says what to do next: the drive is given it first all the same.
#[test]
fn a_drive_has_its_next_command_before_the_client_has_its_answer() {
    let begin = |_: &Request, out: &mut Vec<Command>| out.push(read(1, 0));
    let next = |heard: u32, request: &Request, out: &mut Vec<Command>| {
        if heard == 1 {
            out.extend([answer(request), read(2, 0)]);
        }
    };
    let log = play(&[Duration::from_us(100)], begin, next);
    let at = |wanted: fn(&Seen) -> bool| log.iter().rposition(wanted);
    let given = at(|seen| matches!(seen, Seen::Given("a", _)));
    let answered = at(|seen| *seen == Seen::Answered);
    assert!(given.is_some() && given < answered, "{log:?}");
}
