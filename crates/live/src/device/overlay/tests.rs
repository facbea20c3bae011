//! Does the volatile buffer keep what was not flushed, lose nothing that was, and mix up nothing?

use super::*;
use tandem_block::Rng;

fn filled(byte: u8, length: usize) -> Rc<Memory> {
    let memory = Memory::zeroed(length);
    memory.write(0, &vec![byte; length]);
    Rc::new(memory)
}

fn apply(batch: &Batch, backing: &mut [u8]) {
    let mut at = batch.start as usize;
    match &batch.data {
        Some(pieces) => {
            for (memory, from, length) in pieces {
                memory.read(*from, &mut backing[at..at + length]);
                at += length;
            }
        }
        None => backing[at..at + batch.length as usize].fill(0),
    }
}

fn drain(overlay: &mut Overlay, backing: &mut [u8]) {
    while let Some(batch) = overlay.next_batch() {
        apply(&batch, backing);
        overlay.written(&batch.versions);
    }
}

fn read(overlay: &Overlay, backing: &[u8], start: usize, length: usize) -> Vec<u8> {
    let memory = Memory::zeroed(length);
    memory.write(0, &backing[start..start + length]);
    overlay.lay_over(start as u64, length as u64, &memory, 0);
    let mut out = vec![0; length];
    memory.read(0, &mut out);
    out
}

#[test]
fn held_bytes_reach_the_backing_only_when_due() {
    let mut overlay = Overlay::default();
    let mut backing = vec![0u8; 8192];
    let first = overlay.put(0, 512, Some(filled(1, 512)));
    overlay.put(512, 512, Some(filled(2, 512)));
    drain(&mut overlay, &mut backing);
    assert_eq!((backing[0], backing[512], overlay.held_bytes()), (0, 0, 1024));
    overlay.settle_until(first);
    drain(&mut overlay, &mut backing);
    assert_eq!((backing[0], backing[512]), (1, 0));
    assert!(overlay.written_until(first) && !overlay.written_until(overlay.last()));
    overlay.settle_beyond(0);
    drain(&mut overlay, &mut backing);
    assert_eq!((backing[512], overlay.bytes(), overlay.versions.len()), (2, 0, 0));
}

/// FUA may pass older writes, unless it lies over one.
#[test]
fn a_version_passes_older_ones_but_not_those_under_it() {
    let mut overlay = Overlay::default();
    let mut backing = vec![0u8; 8192];
    overlay.put(0, 512, Some(filled(1, 512)));
    overlay.put(4096, 1024, Some(filled(2, 1024)));
    let fua = overlay.put(4608, 512, Some(filled(3, 512)));
    overlay.make_due(fua);
    let first = overlay.next_batch().unwrap();
    assert_eq!((first.start, first.length), (4096, 1024));
    assert!(overlay.next_batch().is_none(), "the upper one waits for the lower");
    apply(&first, &mut backing);
    overlay.written(&first.versions);
    assert!(!overlay.is_written(fua));
    drain(&mut overlay, &mut backing);
    assert!(overlay.is_written(fua));
    assert_eq!((backing[0], backing[4096], backing[4608]), (0, 2, 3));
}

#[test]
fn adjacent_versions_are_written_together() {
    let mut overlay = Overlay::default();
    for index in 0..600u64 {
        overlay.put(index * 4096, 4096, Some(filled(1, 4096)));
    }
    overlay.settle_beyond(0);
    let mut lengths = Vec::new();
    while let Some(batch) = overlay.next_batch() {
        lengths.push(batch.length / 4096);
        overlay.written(&batch.versions);
    }
    assert_eq!(lengths, [256, 256, 88]);
}

/// A read that fetched old bytes from the backing must still find the newer ones over it.
#[test]
fn a_read_under_way_keeps_what_was_written_meanwhile() {
    let mut overlay = Overlay::default();
    let mut backing = vec![0u8; 4096];
    overlay.put(0, 512, Some(filled(7, 512)));
    let number = overlay.read_begins();
    let fetched = backing.clone(); // the ring read this before the drain
    overlay.settle_beyond(0);
    drain(&mut overlay, &mut backing);
    assert_eq!(read(&overlay, &fetched, 0, 512), vec![7; 512]);
    overlay.read_ends(number);
    assert!(overlay.versions.is_empty() && overlay.pieces.is_empty());
    assert_eq!(read(&overlay, &backing, 0, 512), vec![7; 512]);
}

/// Against a plain array: reads see the newest, and after a flush so does the backing.
#[test]
fn random_histories_agree_with_an_array() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut overlay = Overlay::default();
        let size = 64 * 512;
        let (mut backing, mut truth) = (vec![0u8; size], vec![0u8; size]);
        let mut in_flight: Vec<Batch> = Vec::new();
        for step in 0..400u64 {
            let start = rng.below(60) as usize * 512;
            let length = rng.between(1, 4) as usize * 512;
            let byte = (step % 251) as u8 + 1;
            match rng.below(10) {
                0..=4 => {
                    let sequence =
                        overlay.put(start as u64, length as u64, Some(filled(byte, length)));
                    truth[start..start + length].fill(byte);
                    if rng.below(4) == 0 {
                        overlay.make_due(sequence);
                    }
                }
                5 => {
                    overlay.put(start as u64, length as u64, None);
                    truth[start..start + length].fill(0);
                }
                6 => overlay.settle_beyond(rng.below(20) * 512),
                7 => in_flight.extend(overlay.next_batch()),
                _ if in_flight.is_empty() => {}
                _ => {
                    let batch = in_flight.swap_remove(rng.below(in_flight.len() as u64) as usize);
                    apply(&batch, &mut backing);
                    overlay.written(&batch.versions);
                }
            }
            assert_eq!(
                read(&overlay, &backing, start, length),
                truth[start..start + length],
                "seed {seed} step {step}"
            );
        }
        for batch in in_flight {
            apply(&batch, &mut backing);
            overlay.written(&batch.versions);
        }
        overlay.settle_until(overlay.last());
        drain(&mut overlay, &mut backing);
        assert_eq!(backing, truth, "seed {seed}");
        assert_eq!((overlay.bytes(), overlay.held_bytes(), overlay.versions.len()), (0, 0, 0));
    }
}
