//! What may an operator set of our own policy?

use crate::steer::settings::{Kind, Setting};

/// Words of `detour`.
pub(super) const OFF: u64 = 0;
pub(super) const ON: u64 = 1;
pub(super) const ALWAYS: u64 = 2;
/// Words of `without`. What reads of redirected data will cost, and those that wait behind it.
pub(super) const NOTHING: u64 = 0;
pub(super) const READS: u64 = 1;
pub(super) const READERS: u64 = 2;
/// That an SSD stalls, and that some requests may be late and no more.
pub(super) const STALLS: u64 = 3;
pub(super) const TAILS: u64 = 4;
/// A hard drive's slow writes, where the SSD would take longer, and what an SSD was spared.
pub(super) const SLOW: u64 = 5;
pub(super) const SPARED: u64 = 6;

/// All of them.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "slowdown",
        Kind::Factor,
        1_050_000,
        1_000_000..=100_000_000,
        "how many times as long as on the SSD alone requests may take on average",
    ),
    Setting::new(
        "hedge",
        Kind::Share,
        10_000,
        0..=1_000_000,
        "of all writes so many may be sent to a log as well, where an SSD is overdue with them",
    ),
    Setting::new(
        "detour",
        Kind::Word,
        ON,
        0..=2,
        "may a write go to a log and follow to its SSD when that has time",
    )
    .words(&[("off", OFF), ("on", ON), ("always", ALWAYS)]),
    Setting::new(
        "without",
        Kind::Word,
        NOTHING,
        0..=6,
        "for comparisons: a part that is left out of what is expected",
    )
    .words(&[
        ("nothing", NOTHING),
        ("reads", READS),
        ("readers", READERS),
        ("stalls", STALLS),
        ("tails", TAILS),
        ("slow", SLOW),
        ("spared", SPARED),
    ]),
];
