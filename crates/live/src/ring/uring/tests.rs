//! Does the ring move bytes, and give back what was lent to it?

use super::*;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn tag(value: u64) -> Tag {
    Tag { owner: 1, value }
}

fn finish(ring: &mut Ring) -> Finished {
    let mut out = Vec::new();
    for _ in 0..100 {
        ring.poll(&mut out);
        if let Some(done) = out.pop() {
            assert!(out.is_empty(), "one operation, one result");
            return done;
        }
        ring.wait(Some(Duration::from_ms(100)));
    }
    panic!("the operation did not finish in ten seconds");
}

#[test]
fn files_are_written_synced_read_and_punched() {
    for submission in [Submission::Eager, Submission::Batched] {
        let mut ring = Ring::new(submission).unwrap();
        let file = tempfile::tempfile().unwrap();
        let memory = Rc::new(Memory::zeroed(8192));
        memory.write(0, &[9; 8192]);
        ring.write(tag(1), file.as_fd(), 4096, (Rc::clone(&memory), 0, 8192), true);
        let done = finish(&mut ring);
        assert_eq!((done.tag, done.result), (tag(1), 8192));
        ring.sync(tag(2), file.as_fd());
        assert_eq!(finish(&mut ring).result, 0);
        ring.punch_hole(tag(3), file.as_fd(), 4096, 4096);
        assert_eq!(finish(&mut ring).result, 0);
        let pieces = vec![(Rc::clone(&memory), 0, 512), (Rc::clone(&memory), 4096, 512)];
        ring.write_gather(tag(4), file.as_fd(), 0, pieces);
        assert_eq!(finish(&mut ring).result, 1024);
        let read = Rc::new(Memory::zeroed(12288));
        ring.read(tag(5), file.as_fd(), 0, (Rc::clone(&read), 0, 12288));
        assert_eq!(finish(&mut ring).result, 12288);
        let mut bytes = vec![0; 12288];
        read.read(0, &mut bytes);
        assert!(bytes[..1024].iter().chain(&bytes[8192..]).all(|b| *b == 9));
        assert!(bytes[1024..8192].iter().all(|b| *b == 0));
    }
}

#[test]
fn sockets_send_batches_and_receive() {
    let mut ring = Ring::new(Submission::Batched).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let memory = Rc::new(Memory::zeroed(4096));
    memory.write(0, b" world");
    let mut batch = Box::new(Outgoing::new());
    batch.stage(|out| out.extend_from_slice(b"hello"));
    batch.push_shared(Rc::clone(&memory), 0, 6);
    ring.send(tag(1), ours.as_fd(), batch);
    let Finished { back: Back::Batch(batch), result: 11, .. } = finish(&mut ring) else {
        panic!("the batch comes back");
    };
    assert!(batch.is_empty());
    let mut got = [0; 11];
    theirs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello world");

    theirs.write_all(b"abcdef").unwrap();
    ring.receive(tag(2), ours.as_fd(), Box::new(Memory::zeroed(4096)), 10, 4);
    let Finished { back: Back::Buffer(mut buffer), result: 4, .. } = finish(&mut ring) else {
        panic!("the buffer comes back");
    };
    assert_eq!(buffer.bytes_mut(10..14), b"abcd");
    ring.receive_all(tag(3), ours.as_fd(), (Rc::clone(&memory), 0, 4));
    theirs.write_all(b"gh").unwrap();
    assert_eq!(finish(&mut ring).result, 4);
    let mut got = [0; 4];
    memory.read(0, &mut got);
    assert_eq!(&got, b"efgh");
}

#[test]
fn a_ring_dropped_with_work_in_flight_waits_for_it() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut ring = Ring::new(Submission::Batched).unwrap();
    ring.receive(tag(1), ours.as_fd(), Box::new(Memory::zeroed(4096)), 0, 4096);
    ring.submit();
    assert_eq!(ring.in_flight(), 1);
    drop(ring);
}

#[test]
fn an_error_is_an_errno() {
    let mut ring = Ring::new(Submission::Batched).unwrap();
    let (read_only, _keep) = (std::fs::File::open("/dev/null").unwrap(), ());
    ring.write(tag(1), read_only.as_fd(), 0, (Rc::new(Memory::zeroed(512)), 0, 512), false);
    let done = finish(&mut ring);
    assert_eq!(done.outcome().unwrap_err().raw_os_error(), Some(libc::EBADF));
}
