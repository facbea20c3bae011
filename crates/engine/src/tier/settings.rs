//! Which settings has a tier?
//!
//! Source: [LORIS §IV]; requirements L7 to L20. Those of the *space* are shared by all volumes of a
//! pool, since they share its SSDs and one collector; the others are each volume's own.

use super::collect::COLLECTORS;
use crate::settings::{Kind, Setting};

/// Said instead of a bound: there is none.
pub const UNBOUNDED: u64 = u64::MAX;
/// Said instead of a time: it does not happen.
pub const NEVER: u64 = u64::MAX;
/// Said instead of a size: a share of what the SSDs have.
pub(crate) const AUTO: u64 = u64::MAX;

/// Of the space: what moves as one.
pub(crate) const EXTENT: Setting = Setting::new(
    "extent",
    Kind::Bytes,
    64 << 10,
    4096..=4 << 20,
    "what moves as one: a power of two; 64 bytes of RAM for each that is tracked",
);

/// Of the space: how much of the SSDs.
pub(crate) const SIZE: Setting = Setting::new(
    "size",
    Kind::Bytes,
    AUTO,
    64 << 10..=1 << 50,
    "room on the SSDs; auto: 70 % of what they have, the rest is for new versions",
)
.words(&[("auto", AUTO)]);

/// Of the space: what is hot.
pub(crate) const COLLECTOR: Setting =
    Setting::new("collector", Kind::Word, 0, 0..=0, "what tells hot from cold").words(&[
        ("inverse-bitmap", 0),
        ("counts", 1),
        ("edt", 2),
        ("lru", 3),
        ("lfu", 4),
        ("arc", 5),
        ("s3-fifo", 6),
        ("sieve", 7),
        ("2q", 8),
    ]);

/// Of the space: aging.
pub(crate) const HALF_LIFE: Setting = Setting::new(
    "half_life",
    Kind::Time,
    NEVER,
    1_000_000_000..=365 * 86_400 * 1_000_000_000,
    "after how long heat is worth half",
)
.words(&[("never", NEVER)]);

/// Of the space: what frees room.
pub(crate) const CLEANER: Setting = Setting::new(
    "cleaner",
    Kind::Word,
    0,
    0..=0,
    "foreground: room is made when it is wanted; background: as much again as was wanted since the last time; aggressive: an eighth",
)
.words(&[("foreground", 0), ("background", 1), ("aggressive", 2)]);

/// Of the space: one place only.
pub(crate) const EXCLUSIVE: Setting = Setting::new(
    "exclusive",
    Kind::Word,
    0,
    0..=0,
    "yes: what comes to the SSD leaves its home, as in the paper, so that all that leaves is written",
)
.words(&[("no", 0), ("yes", 1)]);

/// Of the space: how what was read comes.
pub(crate) const REREAD: Setting = Setting::new(
    "reread",
    Kind::Word,
    0,
    0..=0,
    "yes: what a hard drive was read for is read once more to come to the SSD, as in the paper; no: the read brings it",
)
.words(&[("no", 0), ("yes", 1)]);

/// Of the space: what moves may cost.
pub(crate) const RATE: Setting = Setting::new(
    "move_bytes_per_s",
    Kind::Bytes,
    UNBOUNDED,
    1 << 20..=1 << 40,
    "what comes to the SSD in a second at most",
)
.words(&[("unbounded", UNBOUNDED)]);

/// Of the space: interval-driven policies.
pub(crate) const INTERVAL: Setting = Setting::new(
    "interval",
    Kind::Time,
    NEVER,
    1_000_000..=86_400 * 1_000_000_000,
    "the hottest come every so often, instead of what was just read",
)
.words(&[("never", NEVER)]);

/// Of the space: interval-driven policies, too (requirements B8).
pub(crate) const MOVES: Setting = Setting::new(
    "moves_per_interval",
    Kind::Count,
    UNBOUNDED,
    1..=1 << 32,
    "how many of the hottest come at an interval at most",
)
.words(&[("unbounded", UNBOUNDED)]);

/// Of the space: tiers that log first (requirements P17).
pub(crate) const LOG_AGE: Setting = Setting::new(
    "log_age",
    Kind::Time,
    900 * 1_000_000_000,
    1_000_000..=86_400 * 1_000_000_000,
    "of griffin: what was logged comes to the SSD after this long",
)
.words(&[("never", NEVER)]);

/// Of the space: tiers that log first, too.
pub(crate) const LOG_READS: Setting = Setting::new(
    "log_reads",
    Kind::Share,
    50_000,
    0..=1_000_000,
    "of griffin: … or when the log serves more than this share of the reads",
);

/// Of the space: what moves has to be worth it (requirements B8).
pub(crate) const PAYS_WITHIN: Setting = Setting::new(
    "pays_within",
    Kind::Time,
    UNBOUNDED,
    1_000_000..=365 * 86_400 * 1_000_000_000,
    "in this time a move must save the drives more than it takes; unbounded: nobody asks",
)
.words(&[("unbounded", UNBOUNDED)]);

/// Of a volume: sieving by reads.
pub(crate) const READS: Setting =
    Setting::new("reads", Kind::Count, 1, 1..=255, "reads of a hard drive before an extent comes");

/// Of a volume: sieving by size.
pub(crate) const SIEVE_BYTES: Setting = Setting::new(
    "sieve_bytes",
    Kind::Bytes,
    1 << 20,
    4096..=32 << 20,
    "larger requests bring nothing to the SSD",
)
.words(&[("unbounded", UNBOUNDED)]);

/// Of a volume: sieving by what the bytes are.
pub(crate) const SIEVE_TYPE: Setting =
    Setting::new("sieve_type", Kind::Word, 0, 0..=0, "what may come to the SSD").words(&[
        ("all", 0),
        ("metadata", 1),
        ("data", 2),
    ]);

/// Of a volume: who waits for a hard drive that is busy.
pub(crate) const DETOURS: Setting = Setting::new(
    "detours",
    Kind::Word,
    0,
    0..=0,
    "no: a write that belongs on a hard drive waits for it, as in the paper; yes: the SSD takes it while the drive is busy, and it is brought there later",
)
.words(&[("yes", 0), ("no", 1)]);

/// Of a volume: what the acknowledgement of a write for two places means.
pub(crate) const ACKNOWLEDGE: Setting = Setting::new(
    "acknowledge",
    Kind::Word,
    0,
    0..=0,
    "a write for an SSD and a hard drive is acknowledged by the first that has it, or when both have, as the paper's write-through",
)
.words(&[("first", 0), ("both", 1)]);

/// All of them.
pub(crate) const ALL: &[Setting] = &[
    EXTENT,
    SIZE,
    COLLECTOR,
    HALF_LIFE,
    CLEANER,
    EXCLUSIVE,
    REREAD,
    RATE,
    INTERVAL,
    MOVES,
    PAYS_WITHIN,
    LOG_AGE,
    LOG_READS,
    READS,
    SIEVE_BYTES,
    SIEVE_TYPE,
    DETOURS,
    ACKNOWLEDGE,
];

/// Those that all volumes of a pool have alike.
pub const OF_THE_SPACE: &[&str] = &[
    EXTENT.name,
    SIZE.name,
    COLLECTOR.name,
    HALF_LIFE.name,
    CLEANER.name,
    EXCLUSIVE.name,
    REREAD.name,
    RATE.name,
    MOVES.name,
    PAYS_WITHIN.name,
    LOG_AGE.name,
    LOG_READS.name,
];

/// The collector's name that a value stands for.
pub(crate) fn collector_name(value: u64) -> &'static str {
    COLLECTORS[usize::try_from(value).expect("a word of the setting")].name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collector_has_its_word() {
        let words: Vec<&str> = COLLECTOR.words.iter().map(|(word, _)| *word).collect();
        let names: Vec<&str> = COLLECTORS.iter().map(|entry| entry.name).collect();
        assert_eq!(words, names);
        for (word, value) in COLLECTOR.words {
            assert_eq!(collector_name(*value), *word);
        }
    }
}
