//! Does the null front end ask exactly what it was told, whatever lies below?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../../live/tests/support/mod.rs"]
mod support;

use support::PassThrough;
use tandem_block::{ObjectId, Op};
use tandem_fronts::null::{NullConfig, NullFront};
use tandem_live::uring::Submission;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig};

#[test]
fn every_request_is_done_once_on_ram_and_on_a_file() {
    let size = 4 << 20;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    for (backing, submission) in [
        (Backing::Ram { bytes: size }, Submission::Eager),
        (Backing::Path(file.path().into()), Submission::Eager),
        (Backing::Path(file.path().into()), Submission::Batched),
    ] {
        for (op, random_seed, depth) in [(Op::Write, Some(1), 32), (Op::Read, None, 1)] {
            let backing = backing.clone();
            let devices = Devices::open(vec![DeviceConfig { backing, emulate: None }]).unwrap();
            let config = EventLoopConfig { submission, ..EventLoopConfig::default() };
            let mut event_loop = EventLoop::new(config, devices, PassThrough::new(size)).unwrap();
            let (front, stats) = NullFront::new(NullConfig {
                object: ObjectId(0),
                op,
                fua: false,
                span_bytes: size,
                request_bytes: 8192,
                depth,
                count: 1500,
                random_seed,
            });
            event_loop.add_front(Box::new(front));
            event_loop.run().unwrap();
            let stats = *stats.borrow();
            assert_eq!((stats.done_count, stats.failed_count), (1500, 0));
            assert!(stats.end > stats.begin);
            let sums = &event_loop.engine().sums;
            assert!(sums.iter().all(|sums| sums.len() == 2), "two blocks each");
        }
    }
}
