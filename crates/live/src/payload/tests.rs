//! Do payloads hold what was put into them, and nothing of anybody else?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use super::*;

const ENGINE: PayloadId = PayloadId(PayloadId::ENGINE_BIT | 7);

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

fn contents(payloads: &mut Payloads, id: PayloadId, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    payloads.append_to(id, 0, length, &mut out);
    out
}

/// A store whose pooled buffers are full of old bytes.
fn dirty_store() -> Payloads {
    let mut payloads = Payloads::new(1 << 20);
    let id = payloads.begin(16384, 0).unwrap();
    payloads.fill(id, 0, &[0xEE; 16384]);
    payloads.release(id);
    payloads
}

#[test]
fn checksums_of_a_users_bytes_follow_the_objects_blocks() {
    let mut payloads = Payloads::new(1 << 20);
    let bytes: Vec<u8> = (0..12288u32).map(|i| (i / 7) as u8).collect();
    // begins 512 bytes before a block boundary: whole blocks begin at byte 512
    let id = payloads.begin(bytes.len(), 4096 - 512).unwrap();
    payloads.fill(id, 0, &bytes);
    payloads.seal(id);
    let mut sums = Vec::new();
    payloads.checksums(id, 512, 8192, &mut sums);
    assert_eq!(sums, [crc(&bytes[512..4608]), crc(&bytes[4608..8704])]);
    // another alignment is computed, not confused with the first
    sums.clear();
    payloads.checksums(id, 0, 4096, &mut sums);
    assert_eq!(sums, [crc(&bytes[..4096])]);
}

#[test]
fn a_reserved_buffer_reads_as_zeroes_whatever_it_held_before() {
    let whole: &[&[(u64, u64)]] = &[
        &[],
        &[(0, 512)],
        &[(4096, 8192)],
        &[(8192, 12288), (0, 512)],
        &[(512, 1024), (4096, 4608)],
    ];
    for reads in whole {
        let mut payloads = dirty_store();
        payloads.reserve(ENGINE, 16384);
        let mut want = vec![0u8; 16384];
        for &(start, end) in *reads {
            let length = end - start;
            let memory = payloads.read_begins(ENGINE, start, length);
            memory.write(start as usize, &vec![5; length as usize]);
            want[start as usize..end as usize].fill(5);
        }
        assert_eq!(contents(&mut payloads, ENGINE, 16384), want, "{reads:?}");
    }
}

#[test]
fn a_later_read_does_not_zero_one_in_flight() {
    let mut payloads = dirty_store();
    payloads.reserve(ENGINE, 12288);
    let memory = payloads.read_begins(ENGINE, 8192, 4096);
    memory.write(8192, &[3; 4096]); // has landed, though nobody was told yet
    payloads.read_begins(ENGINE, 0, 512);
    memory.write(0, &[4; 512]);
    let all = contents(&mut payloads, ENGINE, 12288);
    assert!(all[..512].iter().all(|b| *b == 4) && all[512..8192].iter().all(|b| *b == 0));
    assert!(all[8192..].iter().all(|b| *b == 3));
}

#[test]
fn a_failed_read_shows_zeroes() {
    let mut payloads = dirty_store();
    payloads.reserve(ENGINE, 4096);
    payloads.read_begins(ENGINE, 0, 4096);
    payloads.read_failed(ENGINE, 0, 4096);
    assert_eq!(contents(&mut payloads, ENGINE, 4096), vec![0; 4096]);
}

#[test]
fn copies_carry_bytes_and_make_checksums_true_again() {
    let mut payloads = dirty_store();
    let user = payloads.begin(8192, 0).unwrap();
    payloads.fill(user, 0, &[1; 4096]);
    payloads.fill(user, 4096, &[2; 4096]);
    payloads.seal(user);
    payloads.reserve(ENGINE, 12288);
    payloads.copy((user, 0), (ENGINE, 4096), 8192);
    let mut want = [vec![0u8; 4096], vec![1; 4096], vec![2; 4096]].concat();
    let mut sums = Vec::new();
    payloads.checksums(ENGINE, 0, 12288, &mut sums);
    assert_eq!(sums, want.chunks(4096).map(crc).collect::<Vec<_>>());
    // a part-block copy on top
    payloads.copy((user, 4096), (ENGINE, 4096 + 512), 1024);
    want[4608..5632].fill(2);
    sums.clear();
    payloads.checksums(ENGINE, 0, 12288, &mut sums);
    assert_eq!(sums, want.chunks(4096).map(crc).collect::<Vec<_>>());
    assert_eq!(contents(&mut payloads, ENGINE, 12288), want);
    // within one buffer, overlapping
    payloads.copy((ENGINE, 4096), (ENGINE, 4608), 4096);
    want.copy_within(4096..8192, 4608);
    assert_eq!(contents(&mut payloads, ENGINE, 12288), want);
}

#[test]
fn what_is_kept_makes_room_for_what_is_used() {
    let mut payloads = Payloads::new(1 << 20);
    let ids: Vec<PayloadId> = (0..8).map(|_| payloads.begin(64 << 10, 0).unwrap()).collect();
    for id in ids {
        payloads.release(id);
    }
    assert_eq!((payloads.used_bytes(), payloads.pool.free_bytes()), (0, 512 << 10));
    // 512 KiB are kept and 768 needed: what is kept of another size goes, as far as it must
    let large = payloads.begin(512 << 10, 0).unwrap();
    assert_eq!(payloads.pool.free_bytes(), 512 << 10);
    payloads.reserve(ENGINE, 256 << 10);
    assert_eq!(payloads.pool.free_bytes(), 256 << 10);
    payloads.release(large);
    payloads.release(ENGINE);
    assert_eq!(payloads.used_bytes(), 0);
}

#[test]
fn a_request_for_which_there_is_no_memory_gets_none() {
    let mut payloads = Payloads::new(1 << 20);
    assert_eq!(payloads.begin(1 << 60, 0), None);
    assert_eq!(payloads.used_bytes(), 0);
}

#[test]
#[should_panic(expected = "reserved twice")]
fn an_id_is_reserved_once() {
    let mut payloads = Payloads::new(8192);
    payloads.reserve(ENGINE, 512);
    payloads.reserve(ENGINE, 512);
}
