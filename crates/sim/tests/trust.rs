//! Do seven ways to lose, mix up or hang stay mended, that were found from outside?
//!
//! Each test replays runs of the swarm that found the bug in the engine of before (commit 7e05906), with all
//! that is looked at in such a run: contents, tables, answers, and that everything ends.

use tandem_sim::arms::Case;

fn is_sound(lines: &[&str]) {
    for line in lines {
        let case: Case = line.parse().expect("a line of the swarm");
        case.run().unwrap_or_else(|failure| panic!("{line}: {failure:.400}"));
    }
}

/// The base of a write of a part of a block waited behind a limit, and its slot was given to another volume.
/// Seen: the audit found a slot that a read named, and that was free.
#[test]
fn a_base_is_not_another_volumes() {
    is_sound(&["service/ssd-first/1", "faulted/mios-d/14", "faulted/ssd-first/73"]);
}

/// A home was noted for a slot that held a newer version by then, and after a crash a block was older than
/// what FLUSH had promised. Seen: a block that is at home, and whose home has other contents.
#[test]
fn a_home_counts_for_the_version_that_was_copied() {
    is_sound(&["service/ssd-first/7", "service/mios-e/0"]);
}

/// The same in plain service: reads came from the older home for ever, when the copy was dropped as clean.
#[test]
fn an_acknowledged_block_never_reads_its_older_version() {
    is_sound(&["faulted/mios-d/6", "faulted/mios-d/22"]);
}

/// After one write error on the journal of one of two SSDs its free space still counted, and writes waited for
/// ever. Seen: requests without an answer 120 s of virtual time after the last fault.
#[test]
fn writes_go_on_after_an_error_on_one_of_two_journals() {
    is_sound(&["metadata/mios-e/62", "metadata/ssd-first/99", "metadata/mios-d/88"]);
}

/// After such an error and a restart the old page of home checksums was believed. Seen: reads of a sound hard
/// drive with wrong checksums.
#[test]
fn intact_data_is_readable_after_an_ssd_missed_writes() {
    is_sound(&["metadata/mios-d/1", "faulted/mios-d/120", "nth/mios-d/51", "twice/ssd-first/12"]);
}

/// A pool of hard drives alone never answered FLUSH again after one error.
#[test]
fn hard_drives_alone_end_every_flush() {
    is_sound(&["faulted/ssd-first/21", "faulted/ssd-first/22", "faulted/ssd-first/45"]);
}

/// An older image of the only SSD was served as current.
#[test]
fn an_ssd_that_was_rolled_back_is_refused() {
    is_sound(&["rolled/ssd-first/26", "rolled/ssd-first/38", "rolled/ssd-first/43"]);
}

/// A drive failed while a write waited in its queue. The write went into the queue of another drive, which had
/// been asked before in the same turn, and nothing else was under way. Seen: the write waits for ever.
#[test]
fn a_write_that_goes_to_a_drive_that_was_asked_before_is_sent() {
    is_sound(&["nth/ssd-first/3200037"]);
}

/// Found with those seven: one read error of a page of home checksums replaced it by zeroes; FLUSH was answered
/// well after a commit was dropped; writes waited for a hard drive that had failed.
#[test]
fn what_the_new_arms_found_beside_them_stays_mended() {
    is_sound(&["twice/mios-d/36", "worn/ssd-first/16", "worn/ssd-first/31", "faulted/mios-d/39"]);
}

/// A read that met a damaged copy took the next one as it was by then, under fragments of before: a block of
/// two writes' halves.
#[test]
fn a_read_that_meets_damage_is_of_one_version() {
    is_sound(&["rolled/ssd-first/100141", "stuck/mios-d/100035", "stuck/mios-d/100047"]);
}

/// A part of a block was zeroed on a hard drive without a volatile cache, and no record ever said so.
#[test]
fn a_zeroed_part_is_durable_on_drives_that_need_no_flush() {
    is_sound(&["worn/ssd-first/100008", "rolled/ssd-first/100048"]);
}

/// The edges of a zeroing went to another SSD as if they were whole blocks.
#[test]
fn edges_of_a_zeroing_stay_edges_when_a_drive_goes_silent() {
    is_sound(&["stuck/ssd-first/100002"]);
}

/// Three waits without an end: a limited client on an SSD that is read only; the log of the only hard drive,
/// which gives no answer; and a batch that was answered while its FLUSH was under way.
#[test]
fn nobody_waits_for_what_cannot_come() {
    is_sound(&["faulted/mios-e/100041", "stuck/ssd-first/100017", "stuck/ssd-first/100004"]);
    is_sound(&["stuck/ssd-first/100044", "faulted/mios-d/100017"]);
}

/// A page of home checksums could not be read for a user. A checkpoint that needed it soon after waited for the
/// next try, and nothing woke it. Seen: requests that hang behind a commit.
#[test]
fn a_checkpoint_that_waits_for_a_page_goes_on() {
    is_sound(&["faulted/mios-d/700036", "faulted/serw/700036"]);
    // and a copy of the metadata that waited for one, while the pool was stopped
    is_sound(&["faulted/mios-d/130", "faulted/mios-e/130"]);
}

/// A read that waited for a snapshot was refused when a flush of the SSD failed, though it needs no record.
/// Seen: a read that fails by a fault of another kind.
#[test]
fn reads_go_on_where_nothing_can_be_recorded() {
    is_sound(&["twice/ssd-first/17"]);
}

/// Places that could be used again waited for a flush of a hard drive, and nobody asked for one, since all
/// waited for room. Seen: requests that hang after another hard drive went silent.
#[test]
fn room_that_only_a_flush_makes_is_made() {
    is_sound(&["stuck/ssd-first/111"]);
    // which was asked for again and again where nothing can be recorded
    is_sound(&["twice/ssd-first/140"]);
}

/// A read that waited for a write to shared blocks failed with it, though the old blocks were readable. Seen: a
/// read that fails by the fault of a write. The first mend forgot the failure when another task got the write's
/// number. Seen: zeroes.
#[test]
fn reads_behind_a_write_that_fails_find_what_was() {
    is_sound(&["worn/mios-e/69", "worn/ssd-first/7"]);
}

/// Damaged blocks filled the log of the only hard drive. Seen: "no space left" in a pool that is not full; the
/// drive is to be named.
#[test]
fn damage_that_takes_all_room_is_named() {
    is_sound(&["twice/ssd-first/700144"]);
}

/// An extent that left its tier had a block whose rest lies on a drive without an answer. It was read again and
/// again, and writes that waited for room never failed.
#[test]
fn what_cannot_be_read_does_not_keep_writes_waiting() {
    is_sound(&["stuck/mios-e/800248", "stuck/mios-d/800248", "stuck/ssd-only/800248"]);
}

/// Writes failed for room by the name of a drive that gave no answer, and a read in the same queue with them. It
/// took that as its own drive's silence and began again, for ever.
#[test]
fn a_read_that_is_not_sent_does_not_begin_again() {
    is_sound(&["stuck/even-split/800177"]);
}

/// A copy on an SSD could not be read and was dropped before its home was tried, whose checksum was not in memory:
/// zero was taken for it. Seen: sound homes that are called damaged.
#[test]
fn a_home_is_read_only_with_its_checksum() {
    is_sound(&["worn/mios-d/900118", "worn/mios-e/900312"]);
}

/// A zeroing with FUA of what was a hole in memory already was answered at once, though no record said so yet.
/// Seen: after a flush that failed and a restart, the block of before.
#[test]
fn zeroing_a_hole_waits_for_the_record_of_the_hole() {
    is_sound(&["faulted/ssd-first/900077"]);
}

/// Only clean copies with fragments over them were left on a full SSD, a log held blocks whose homes were on a drive
/// without an answer, and what a discard had left was in no record. Seen: writes that wait for ever.
#[test]
fn writes_fail_by_name_where_no_copy_can_go() {
    is_sound(&["stuck/ssd-first/900533"]);
    // and who came behind them was not looked at again
    is_sound(&["stuck/mios-e/1000211", "stuck/mios-d/1000211"]);
}

/// A write failed with the copy of a shared block that an earlier write had asked for.
#[test]
fn a_write_fails_with_the_copy_that_it_waits_for() {
    is_sound(&["twice/mios-e/900162"]);
}
