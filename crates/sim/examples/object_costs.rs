//! What does a file cost? `object_costs [FILES]`: time of a batch, RAM and table bytes of an object and an
//! attribute, and how long a start takes with so many. Prints a line each.
//!
//! Source: requirements L3; docs/DECISIONS.md, "what belongs to whom". A file is made as a file system would:
//! an object, its inode as an attribute, and an entry of a directory, in one batch that need not be
//! durable; every thousandth is followed by a FLUSH.

use std::time::Instant as Clock;
use tandem_block::{
    BLOCK_BYTES, Batch, GIB, MIB, ObjectId, ObjectKind, ObjectOp, Op, Request, RequestId,
};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;
use tandem_sim::Simulation;
use tandem_sim::pool::{SwarmConfig, VOLUME};

const DIRECTORY: ObjectId = ObjectId(2);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let files: u64 = words.first().map_or(100_000, |word| word.parse().expect("a number"));
    let mut config = SwarmConfig::filed(1, "ssd-first", 0);
    config.drives = (1, 1);
    config.sizes = (4 * GIB, 16 * GIB);
    config.tuning.journal_bytes = 64 * MIB;
    config.tuning.object_table_bytes = 64 * MIB;
    config.tuning.log_segment_bytes = 16 * MIB;
    let engine = Engine::new(config.engine(true)).expect("valid");
    let mut sim = Simulation::new(engine, config.drives(), true);
    sim.start().expect("a pool");
    let mut play = Play { sim, number: 0 };
    play.batch(vec![made(DIRECTORY, ObjectKind::Directory)]);
    let mut batches_ns = Vec::new();
    for file in 0..files {
        let object = ObjectId(1000 + file);
        let name = format!("a-file-of-some-name-{file:08}");
        let ops = vec![
            made(object, ObjectKind::Data),
            set(object, b"inode", &[7; 48]),
            set(DIRECTORY, name.as_bytes(), &object.0.to_le_bytes()),
        ];
        batches_ns.push(play.batch(ops));
        if file % 1000 == 999 {
            play.ask(Op::Flush, VOLUME, (0, 0));
        }
    }
    say("batch of an object and two attributes", batches_ns);
    let (table_bytes, table_bytes_max) = play.sim.engine.objects().record_bytes();
    println!("table: {} bytes a file, {table_bytes_max} in all", table_bytes / files);
    let mut resizes_ns = Vec::new();
    for file in 0..files {
        let object = ObjectId(1000 + file);
        resizes_ns.push(play.batch(vec![ObjectOp::Resize { object, size_bytes: BLOCK_BYTES }]));
        play.ask(Op::Write, object, (0, BLOCK_BYTES));
    }
    say("batch of a resize", resizes_ns);
    play.ask(Op::Flush, VOLUME, (0, 0));
    let mut rng = tandem_block::Rng::new(1);
    play.sim.power_cut(config.engine(false), CutMode::KeepAll, &mut rng);
    let began = Clock::now();
    play.sim.start().expect("it comes back");
    println!("start: {} ms of CPU", began.elapsed().as_millis());
    let objects = play.sim.engine.objects();
    assert_eq!(objects.iter().count() as u64, files + 2);
    // the simulation keeps what was written to its drives, so a copy of the objects alone is weighed
    let before = resident_bytes();
    let copy = objects.clone();
    let bytes = resident_bytes().saturating_sub(before);
    println!("RAM: {} bytes a file (object, run, two attributes)", bytes / files);
    assert_eq!(copy.record_bytes(), objects.record_bytes());
}

/// Others use the machine too: the middle says more than the mean.
fn say(what: &str, mut took_ns: Vec<u64>) {
    took_ns.sort_unstable();
    let mean = took_ns.iter().sum::<u64>() / took_ns.len() as u64;
    let at = |percent: usize| took_ns[(took_ns.len() - 1) * percent / 100];
    println!("{what}: {} ns, p99 {} ns, mean {mean} ns", at(50), at(99));
}

struct Play {
    sim: Simulation,
    number: u64,
}

impl Play {
    /// Returns how long it took, in ns.
    fn batch(&mut self, ops: Vec<ObjectOp>) -> u64 {
        self.number += 1;
        let id = RequestId(self.number);
        let batch = Batch { id, ops, durable: false };
        let began = Clock::now();
        self.sim.batch(&batch);
        let took = began.elapsed().as_nanos() as u64;
        self.wait(id);
        took
    }

    fn ask(&mut self, op: Op, object: ObjectId, range: (u64, u64)) {
        self.number += 1;
        let id = RequestId(self.number);
        let mut request = Request::new(id, object, op, range, self.sim.now);
        if op == Op::Write {
            request.payload = self.sim.payload(0..range.1 / 512);
        }
        self.sim.request(&request);
        self.wait(id);
    }

    fn wait(&mut self, id: RequestId) {
        loop {
            let said = self.sim.take_said().done;
            if let Some((done, _)) = said.iter().find(|(done, _)| done.request == id) {
                done.status.expect("no faults");
                return;
            }
            assert!(self.sim.step(), "a request never hangs");
        }
    }
}

fn made(object: ObjectId, kind: ObjectKind) -> ObjectOp {
    ObjectOp::CreateThin { object, kind, volume: VOLUME, owner: 0 }
}

fn set(object: ObjectId, key: &[u8], value: &[u8]) -> ObjectOp {
    ObjectOp::SetAttribute { object, key: key.into(), value: value.into() }
}

/// Of this process, by the kernel's account.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}
