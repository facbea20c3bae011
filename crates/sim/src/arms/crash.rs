//! Which pools are crashed? The arms of power cuts and killed processes.
//!
//! Source: acceptance of the spine, line 6: a power cut at every event of workloads of 200 requests,
//! under every policy, also during recoveries and checkpoints, and workloads of 2,000 sampled.

use super::Arm;
use crate::campaign::{ALWAYS, Campaign};
use crate::coverage::Met;
use crate::pool::SwarmConfig;
use tandem_block::{DurabilityClass, Duration, KIB};
use tandem_engine::qos::ORDERS;

const ALL: &[&str] = &["ssd-first", "mios-d", "mios-e"];
const REDIRECTING: &[&str] = &["mios-d", "mios-e"];
/// What these do to a pool is much like what the others do, so each seed has one of them in turn. Of any three
/// neighbours one redirects much, even on a small pool: a share of three seeds has what a floor wants.
const IN_TURN: &[&str] = &[
    "swr",
    "serw",
    "ziggurat",
    "hdd-only",
    "mios-f",
    "even-split",
    "ssd-only",
    "ect",
    "nhc",
    "most",
];
const REDIRECTING_IN_TURN: &[&str] = &["ect", "hdd-only", "mios-f", "serw", "swr", "ziggurat"];
const EVERY_EVENT: Campaign =
    Campaign { window: ALWAYS, stride: 1, recovery_stride: 150, lives: 1, more_requests: 60 };

/// Every other seed's hard drives flush so slowly that tails are copied instead; without, few are, and
/// how many is a matter of the seed.
fn copying_tails(mut config: SwarmConfig) -> SwarmConfig {
    if config.seed % 2 == 1 {
        config.tuning.flush_ns = 20_000_000;
    }
    config
}

/// Write sizes and alignments in turn: what little a share of three neighbouring seeds runs has all of
/// them, which chance does not see to. Without writes that begin within a block nothing is merged;
/// without long ones tails are short.
fn spread(mut config: SwarmConfig) -> SwarmConfig {
    config.shape.length_bytes_max = [64 * KIB, 256 * KIB, 8 * KIB][(config.seed % 3) as usize];
    aligned_in_turn(config)
}

/// … alignments alone
fn aligned_in_turn(mut config: SwarmConfig) -> SwarmConfig {
    let turn = (config.seed + config.seed / 3) % 3;
    config.shape.unaligned_ppm = [0, 200_000, 700_000][turn as usize];
    config
}

/// One of the classes that promise more than block devices do, in pools that redirect.
fn promising_more(mut config: SwarmConfig) -> SwarmConfig {
    let classes = [DurabilityClass::Journaled, DurabilityClass::Strict, DurabilityClass::Protected];
    config.durability = classes[(config.seed % 3) as usize];
    config
}

/// One of the orders of service that tell streams apart; every policy meets all of them, and every
/// other seed has a pool that is full of writes.
fn in_order(mut config: SwarmConfig) -> SwarmConfig {
    let orders = &ORDERS[1..];
    config.tuning.order = orders[config.seed as usize % orders.len()].name;
    if config.seed % 2 == 1 {
        config.shape.depth = 8;
        config.shape.footprint_bytes = config.shape.volume_bytes;
        config.shape.pause = Duration::from_us(50);
    }
    config
}

/// Every arm of crashes.
pub(super) const ARMS: &[Arm] = &[
    Arm {
        name: "small",
        what: "200 requests, a crash at every event",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                copying_tails(spread(SwarmConfig::tiny(case.seed, case.policy, 200))),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 5_000),
            (Met::InCommit, 1_500),
            (Met::InCheckpoint, 400),
            (Met::InStop, 120),
            (Met::InRecovery, 400),
            (Met::InTailCopy, 30),
            (Met::InHddFlush, 40),
            (Met::Checkpoints, 5),
            (Met::JournalTurns, 1),
            (Met::Merges, 12),
            (Met::Fragments, 5),
            (Met::Redirected, 15),
        ],
        least_in_turn: &[(Met::Crashes, 1_250), (Met::InRecovery, 120), (Met::Redirected, 3)],
    },
    Arm {
        name: "crowded",
        what: "both tiers full, a crash at every event of a window that moves with the seed",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            let first = 400 + case.seed % 12 * 160;
            let campaign = Campaign { window: (first, first + 160), ..EVERY_EVENT };
            let mut config = SwarmConfig::crowded(case.seed, case.policy, 300);
            // writes slow down before the SSDs are full, so many have to come at once to find no room
            config.shape.depth = 16;
            case.crashes(config, campaign)
        },
        least: &[
            (Met::Crashes, 1_600),
            (Met::InWriteBack, 960),
            (Met::InCheckpoint, 256),
            (Met::InRecovery, 96),
            (Met::ShortOfSpace, 384),
            (Met::BothFull, 80),
            (Met::BlocksHome, 9_000),
            (Met::CopiesDropped, 8_000),
            (Met::JournalTurns, 10),
        ],
        least_in_turn: &[
            (Met::Crashes, 500),
            (Met::InWriteBack, 150),
            (Met::ShortOfSpace, 150),
            (Met::BlocksHome, 3_000),
            (Met::Redirected, 5),
        ],
    },
    Arm {
        name: "logged",
        what: "log GC while serving, a crash at every event",
        policies: REDIRECTING,
        in_turn: REDIRECTING_IN_TURN,
        run: |case| {
            case.crashes(
                aligned_in_turn(SwarmConfig::logged(case.seed, case.policy, 200)),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 4_000),
            (Met::InLogGc, 800),
            (Met::InMerge, 50),
            (Met::InTailCopy, 30),
            (Met::InHddFlush, 250),
            (Met::LogGcBytes, 150_000),
            (Met::TailBytes, 250_000),
            (Met::Redirected, 35),
        ],
        least_in_turn: &[
            (Met::Crashes, 1_200),
            (Met::InLogGc, 150),
            (Met::InHddFlush, 80),
            (Met::Redirected, 8),
        ],
    },
    Arm {
        name: "reread",
        what: "reads of redirected data from RAM and from logs, and promotions, a crash at every event",
        policies: REDIRECTING,
        in_turn: REDIRECTING_IN_TURN,
        run: |case| {
            case.crashes(
                aligned_in_turn(SwarmConfig::reread(case.seed, case.policy, 200)),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 2_600),
            (Met::InPromotion, 50),
            (Met::Redirected, 20),
            (Met::ReadBacks, 20),
            (Met::Promoted, 10),
        ],
        least_in_turn: &[(Met::Crashes, 1_000), (Met::Redirected, 5)],
    },
    Arm {
        name: "cycled",
        what: "logs of few segments that are written over while tails are copied, a crash at every event",
        policies: REDIRECTING,
        in_turn: REDIRECTING_IN_TURN,
        run: |case| {
            case.crashes(
                aligned_in_turn(SwarmConfig::cycled(case.seed, case.policy, 200)),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 4_000),
            (Met::InCommit, 300),
            (Met::InTailCopy, 10),
            (Met::InHddFlush, 60),
            (Met::InMerge, 50),
            (Met::Redirected, 70),
            (Met::TailBytes, 20_000),
        ],
        least_in_turn: &[(Met::Crashes, 1_200), (Met::Redirected, 10)],
    },
    Arm {
        name: "late",
        what: "writes that a log takes before an SSD that stalls, a crash at every event",
        policies: &["tandem"],
        in_turn: &[],
        run: |case| case.crashes(SwarmConfig::late(case.seed, case.policy, 300), EVERY_EVENT),
        least: &[
            (Met::Crashes, 1_200),
            (Met::InCommit, 200),
            (Met::Hedged, 2),
            (Met::HedgedSooner, 1),
            (Met::Detours, 3),
            (Met::TakenOver, 10),
        ],
        least_in_turn: &[],
    },
    Arm {
        name: "tiered",
        what: "extents that come to a tier or a cache and leave it, a crash at every event",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                aligned_in_turn(SwarmConfig::tiered(case.seed, case.policy, 200)),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 4_000),
            (Met::InPromoting, 100),
            (Met::InDemoting, 100),
            (Met::Came, 50),
            (Met::Demoted, 20),
            (Met::LeftAsCopies, 20),
        ],
        least_in_turn: &[(Met::Crashes, 1_000)],
    },
    Arm {
        name: "classes",
        what: "journaled, strict and protected volumes, a crash at every event",
        policies: REDIRECTING,
        in_turn: REDIRECTING_IN_TURN,
        run: |case| {
            case.crashes(
                promising_more(aligned_in_turn(SwarmConfig::logged(case.seed, case.policy, 150))),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 2_600),
            (Met::InCommit, 800),
            (Met::InLogGc, 350),
            (Met::InTailCopy, 120),
            (Met::InHddFlush, 150),
            (Met::InRecovery, 180),
            (Met::Redirected, 20),
            (Met::TailBytes, 500_000),
        ],
        least_in_turn: &[(Met::Crashes, 1_000), (Met::InCommit, 300), (Met::Redirected, 1)],
    },
    Arm {
        name: "shared",
        what: "four streams under an order of service in turn, a crash at every event",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                in_order(copying_tails(spread(SwarmConfig::tiny(case.seed, case.policy, 150)))),
                EVERY_EVENT,
            )
        },
        least: &[
            (Met::Crashes, 3_000),
            (Met::InCommit, 900),
            (Met::InCheckpoint, 200),
            (Met::InRecovery, 200),
            (Met::Redirected, 5),
        ],
        least_in_turn: &[(Met::Crashes, 700), (Met::InRecovery, 50)],
    },
    Arm {
        name: "objects",
        what: "files, attributes and batches beside a volume, a crash at every event, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::filed(case.seed, case.policy, 150),
                Campaign { lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 4_000),
            (Met::InCommit, 1_600),
            (Met::InCheckpoint, 600),
            (Met::InRecovery, 150),
            (Met::Batches, 12_000),
            (Met::InPieces, 9_000),
        ],
        least_in_turn: &[(Met::Crashes, 950), (Met::Batches, 2_900), (Met::InPieces, 2_200)],
    },
    Arm {
        name: "cloned",
        what: "clones of files, snapshots of the volume, writes to both, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::cloned(case.seed, case.policy, 100),
                Campaign { stride: 8, recovery_stride: 40, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[(Met::Crashes, 550), (Met::Cloned, 300), (Met::CopiedUp, 50)],
        least_in_turn: &[(Met::Crashes, 140), (Met::Cloned, 70), (Met::CopiedUp, 5)],
    },
    Arm {
        name: "varied",
        what: "files of several tiers, which change, sampled crashes",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                aligned_in_turn(SwarmConfig::varied(case.seed, case.policy, 320)),
                Campaign { stride: 8, recovery_stride: 40, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 700),
            (Met::InPromoting, 15),
            (Met::InDemoting, 100),
            (Met::Came, 10),
            (Met::Demoted, 12),
            (Met::LeftAsCopies, 8),
            (Met::Batches, 90),
        ],
        least_in_turn: &[(Met::Crashes, 150), (Met::Batches, 30)],
    },
    Arm {
        name: "replaced",
        what: "a drive is replaced, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::replaced(case.seed, case.policy, 200),
                Campaign { stride: 37, recovery_stride: 8, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 1_000),
            (Met::InRecovery, 300),
            (Met::InReplacement, 700),
            (Met::InSwitch, 50),
            (Met::Replaced, 50),
            (Met::ReplaceResumed, 100),
            (Met::ReplaceEnded, 1),
            (Met::Doubled, 1_000_000),
        ],
        least_in_turn: &[(Met::Crashes, 250), (Met::Replaced, 10), (Met::ReplaceResumed, 20)],
    },
    Arm {
        name: "drained",
        what: "a drive is drained and removed, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::drained(case.seed, case.policy, 200),
                Campaign { stride: 37, recovery_stride: 8, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 400),
            (Met::InRecovery, 100),
            (Met::InDrain, 100),
            (Met::Removed, 15),
            (Met::Drained, 1_500_000),
        ],
        least_in_turn: &[(Met::Crashes, 100), (Met::InDrain, 20), (Met::Removed, 3)],
    },
    Arm {
        name: "vacated",
        what: "a hard drive is drained and removed, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::vacated(case.seed, case.policy, 300),
                Campaign { stride: 37, recovery_stride: 8, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 1_300),
            (Met::InRecovery, 700),
            (Met::InDrain, 400),
            (Met::Removed, 20),
            (Met::Drained, 15_000_000),
        ],
        least_in_turn: &[
            (Met::Crashes, 350),
            (Met::InDrain, 120),
            (Met::Removed, 10),
            (Met::Drained, 2_000_000),
        ],
    },
    Arm {
        name: "added",
        what: "a drive leaves and another one takes its place, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::added(case.seed, case.policy, 200),
                Campaign { stride: 37, recovery_stride: 8, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 1_000),
            (Met::InRecovery, 10),
            (Met::InDrain, 100),
            (Met::InReplacement, 300),
            (Met::InSwitch, 120),
            (Met::Added, 150),
            (Met::ReplaceEnded, 5),
            (Met::Doubled, 30_000),
        ],
        least_in_turn: &[(Met::Crashes, 250), (Met::InReplacement, 80), (Met::Added, 30)],
    },
    Arm {
        name: "grown",
        what: "a drive comes to a place that was empty from birth, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::grown(case.seed, case.policy, 200),
                Campaign { stride: 23, recovery_stride: 8, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 1_500),
            (Met::InRecovery, 400),
            (Met::InReplacement, 250),
            (Met::InSwitch, 150),
            (Met::Added, 200),
            (Met::ReplaceEnded, 30),
            (Met::Doubled, 80_000),
        ],
        least_in_turn: &[(Met::Crashes, 400), (Met::InReplacement, 80), (Met::Added, 60)],
    },
    Arm {
        name: "paged",
        what: "a cache of 1 % of the pages of checksums, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::paged(case.seed, case.policy, 300),
                Campaign { stride: 29, recovery_stride: 10, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[
            (Met::Crashes, 250),
            (Met::InCheckpoint, 30),
            (Met::InRecovery, 80),
            (Met::PageReads, 4_000),
        ],
        least_in_turn: &[(Met::Crashes, 300), (Met::InRecovery, 100), (Met::PageReads, 3_000)],
    },
    Arm {
        name: "parts",
        what: "an area for the map as small as can be, so that checkpoints take parts, sampled crashes, two lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            case.crashes(
                SwarmConfig::squeezed(case.seed, case.policy, 1_500),
                Campaign { stride: 499, recovery_stride: 40, lives: 2, ..EVERY_EVENT },
            )
        },
        least: &[(Met::Crashes, 20), (Met::InCheckpoint, 1), (Met::CheckpointParts, 5)],
        least_in_turn: &[(Met::Crashes, 20), (Met::InCheckpoint, 1), (Met::CheckpointParts, 5)],
    },
    Arm {
        name: "long",
        what: "2,000 requests, sampled crashes, three lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: |case| {
            let mut config =
                copying_tails(spread(SwarmConfig::tiny(case.seed, case.policy, 2_000)));
            config.tuning.writeback_percent = (40, 10);
            let campaign = Campaign { stride: 151, recovery_stride: 20, lives: 3, ..EVERY_EVENT };
            case.crashes(config, campaign)
        },
        least: &[
            (Met::Crashes, 1_000),
            (Met::InRecovery, 200),
            (Met::InCheckpoint, 70),
            (Met::Checkpoints, 150),
            (Met::JournalTurns, 200),
            (Met::BlocksHome, 2_000),
            (Met::Merges, 1_500),
            (Met::Fragments, 700),
            (Met::TailBytes, 4_000_000),
        ],
        least_in_turn: &[
            (Met::Crashes, 300),
            (Met::InRecovery, 60),
            (Met::BlocksHome, 2_000),
            (Met::Redirected, 10),
        ],
    },
];
