//! How long does a pool of ten million map entries take to start again, after a clean stop and after
//! a kill? Prints a table; run it in release. `recovery [ENTRIES]`.
//!
//! Source: acceptance of the spine, "Speed and memory": recovery of 10 million map entries under 5 s. The
//! drives are memory that answers at once, so what is measured is the engine alone; only what the
//! engine itself writes is kept.

use std::collections::{HashMap, VecDeque};
use std::time::Instant as Clock;
use tandem_block::{
    DeviceId, DurabilityClass, Instant, ObjectId, Op, PayloadId, Request, RequestId,
};
use tandem_engine::profile::SsdProfile;
use tandem_engine::{
    Command, DeviceConfig, Engine, EngineConfig, Event, Io, IoOp, Role, SteerConfig, VolumeConfig,
    WriteCache,
};

const GB: u64 = 1_000_000_000;
const PAGE_BYTES: usize = 4096;
/// Blocks of the volume: a power of two, so that an odd step visits each once.
const VOLUME_BLOCKS: u64 = 1 << 24;
/// Requests under way at once.
const DEPTH: usize = 64;

fn main() {
    let entries: u64 =
        std::env::args().nth(1).map_or(10_000_000, |word| word.parse().expect("a number"));
    assert!(entries <= VOLUME_BLOCKS, "at most {VOLUME_BLOCKS} entries");
    let began = Clock::now();
    let mut sim = Simulation::new(config(true));
    sim.start();
    sim.write_blocks(entries);
    println!("{entries} random 4 KiB writes made in {:.1} s", began.elapsed().as_secs_f64());
    let again = |sim: &mut Simulation, how: &str| {
        sim.renew();
        let (began, begun_ns) = (Clock::now(), cpu_ns());
        sim.start();
        let seconds = began.elapsed().as_secs_f64();
        let cpu_s = (cpu_ns() - begun_ns) as f64 / 1e9;
        let found = sim.engine.map().population().dirty_ssd;
        let map_mib = sim.engine.map().memory_bytes() >> 20;
        println!(
            "recovery {how:<17} {seconds:>6.2} s, {cpu_s:.2} s of it on a processor, {found} blocks \
             found, map {map_mib} MiB"
        );
        assert_eq!(found, entries, "what was flushed is there");
    };
    again(&mut sim, "after a kill");
    sim.stop();
    again(&mut sim, "after a clean stop");
}

fn config(format: bool) -> EngineConfig {
    let device = |role, capacity_bytes, uuid| DeviceConfig {
        role,
        capacity_bytes,
        write_cache: WriteCache::Volatile,
        depth: 32,
        uuid,
        hdd_profile: None,
        ssd_profile: SsdProfile::default(),
    };
    let volume = VolumeConfig {
        object: ObjectId(1),
        name: "vol".into(),
        size_bytes: VOLUME_BLOCKS * 4096,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let drives = vec![device(Role::Ssd, 128 * GB, 1), device(Role::Hdd, 500 * GB, 2)];
    EngineConfig { format, ..EngineConfig::with_drives(drives, vec![volume]) }
}

/// Time that this thread has had a processor; 0 where the kernel does not say.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Drives that answer at once, in order, and keep what the engine writes for itself.
struct Simulation {
    engine: Engine,
    now_ns: u64,
    wake_at: Instant,
    flights: VecDeque<Io>,
    pages: HashMap<(DeviceId, u64), Vec<u8>>,
    commands: Vec<Command>,
    done: usize,
    answered: bool,
    requests: u64,
}

impl Simulation {
    fn new(config: EngineConfig) -> Simulation {
        Simulation {
            engine: Engine::new(config).expect("the drives are large enough"),
            now_ns: 1,
            wake_at: Instant::NEVER,
            flights: VecDeque::new(),
            pages: HashMap::new(),
            commands: Vec::new(),
            done: 0,
            answered: false,
            requests: 0,
        }
    }

    /// The engine is gone; the drives stay.
    fn renew(&mut self) {
        self.flights.clear();
        self.wake_at = Instant::NEVER;
        self.engine = Engine::new(config(false)).expect("it was valid before");
    }

    fn start(&mut self) {
        self.answered = false;
        self.tell(Event::Start);
        while !self.answered {
            self.step();
        }
    }

    fn stop(&mut self) {
        self.answered = false;
        self.tell(Event::Shutdown);
        while !self.answered {
            self.step();
        }
    }

    fn write_blocks(&mut self, count: u64) {
        for index in 0..count {
            let block = index.wrapping_mul(0x9E37_79B9_7F4A_7C15 | 1) % VOLUME_BLOCKS;
            self.request(Op::Write, block * 4096, 4096);
            while self.requests as usize - self.done >= DEPTH {
                self.step();
            }
        }
        self.drain();
        self.request(Op::Flush, 0, 0);
        self.drain();
    }

    fn drain(&mut self) {
        while self.requests as usize > self.done {
            self.step();
        }
    }

    fn request(&mut self, op: Op, offset_bytes: u64, length_bytes: u64) {
        self.requests += 1;
        let now = Instant::from_ns(self.now_ns);
        let object = ObjectId(1);
        let range = (offset_bytes, length_bytes);
        let mut request = Request::new(RequestId(self.requests), object, op, range, now);
        if op == Op::Write {
            request.payload = PayloadId(self.requests);
        }
        self.tell(Event::Request(&request));
    }

    fn step(&mut self) {
        self.now_ns += 100;
        let Some(io) = self.flights.pop_front() else {
            assert_ne!(self.wake_at, Instant::NEVER, "the engine waits for nothing");
            self.now_ns = self.now_ns.max(self.wake_at.ns);
            self.wake_at = Instant::NEVER;
            self.tell(Event::Wake);
            return;
        };
        let mut bytes = Vec::new();
        let mut checksums = Vec::new();
        match io.op {
            IoOp::WriteMeta { offset_bytes, bytes, .. } => {
                for (page, chunk) in (offset_bytes / 4096..).zip(bytes.chunks_exact(PAGE_BYTES)) {
                    self.pages.insert((io.device, page), chunk.to_vec());
                }
            }
            IoOp::ReadMeta { offset_bytes, length_bytes } => {
                for page in offset_bytes / 4096..(offset_bytes + length_bytes) / 4096 {
                    match self.pages.get(&(io.device, page)) {
                        Some(known) => bytes.extend_from_slice(known),
                        None => bytes.resize(bytes.len() + PAGE_BYTES, 0),
                    }
                }
            }
            IoOp::Write { offset_bytes, length_bytes, .. } => {
                // any function of the place will do
                checksums
                    .extend((0..length_bytes / 4096).map(|i| (offset_bytes / 4096 + i) as u32));
            }
            IoOp::Read { .. } => unreachable!("nobody reads data here"),
            IoOp::Flush | IoOp::Trim { .. } => {}
        }
        let event = Event::Completion {
            io: io.id,
            status: Ok(()),
            checksums: &checksums,
            bytes: &bytes,
            took: None,
        };
        self.tell(event);
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut commands = std::mem::take(&mut self.commands);
        self.engine.on(Instant::from_ns(self.now_ns), event, &mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Submit(io) => self.flights.push_back(io),
                Command::Complete(done) => {
                    done.status.expect("nothing fails here");
                    self.done += 1;
                }
                Command::Checksum { .. } => unreachable!("only pairs ask for checksums"),
                Command::Succeed { .. } | Command::LetGo { .. } | Command::Close { .. } => {
                    unreachable!("no drive comes or goes here")
                }
                Command::WakeAt(at) => self.wake_at = at,
                Command::Started(answer) => {
                    answer.expect("the pool is sound");
                    self.answered = true;
                }
                Command::Stopped => self.answered = true,
                Command::Release(_) | Command::Reserve { .. } | Command::Copy { .. } => {}
            }
        }
        self.commands = commands;
    }
}
