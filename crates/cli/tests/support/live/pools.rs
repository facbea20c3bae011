//! Over which pools does the live arm run? Each seed has one: small drives that are soon full, and volumes
//! of every policy, tier, class and limit.

use super::volume::{BLOCK, Load};
use std::fmt::Write as _;
use tandem_block::Rng;

const MIB: u64 = 1 << 20;
const SECTORS_PER_MIB: u64 = MIB / 512;
/// Bytes of each volume, in MiB.
pub const VOLUME_MIB: u64 = 24;

/// The second drive of a pair.
pub const LEG: &str = "leg-0.img";
/// The folder of what lies in a small file system.
pub const SMALL: &str = "small";

const POLICIES: [&str; 6] = ["ssd-first", "mios-d", "mios-e", "ect", "serw", "mios-f"];
/// Tiers that a volume begins with and is given later.
const TIERS: [&str; 8] = [
    "none",
    "hot-dst",
    "cold-dst",
    "cold-dst-plain",
    "cache-read-only",
    "cache-write-through",
    "cache-write-through-all",
    "cache-write-back",
];
/// Settings of tiers, which all volumes of a pool have alike.
const SETTINGS: [&str; 3] = [
    "extent=16KiB,size=4MiB,collector=lru",
    "extent=4KiB,size=4MiB,collector=lru",
    "extent=64KiB,size=6MiB,collector=lru",
];
const CLASSES: [&str; 5] = ["volatile-ok", "volatile-ok", "volatile-ok", "journaled", "strict"];

/// What kind of drives a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An SSD and a hard drive.
    Plain,
    /// Two of each, and places for more: drives leave and come.
    Many,
    /// The SSD is a mirrored pair.
    Pair,
}

/// What lies behind the drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Files: what was written is there after a kill, flushed or not.
    Files,
    /// Emulated drives: what was not flushed dies with the server, as in a power cut.
    Emulated,
    /// Files in a file system that is too small for them.
    Full,
}

/// A pool, in a configuration.
pub struct PoolPlan {
    pub kind: Kind,
    pub behind: Behind,
    pub text: String,
    pub volumes: Vec<VolumePlan>,
    /// Tiers that its volumes may have, with their settings.
    pub tiers: Vec<String>,
    /// There is a volume of files.
    pub has_files: bool,
}

/// One of its volumes.
pub struct VolumePlan {
    pub name: String,
    pub is_strict: bool,
    pub load: Load,
    /// In a line, for people.
    pub what: String,
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// The drives of each kind: role, name and MiB.
fn drives(kind: Kind, behind: Behind) -> Vec<(&'static str, &'static str, u64)> {
    // an emulated SSD wants room for its blocks
    let ssd = if behind == Behind::Emulated { 640 } else { 32 };
    match kind {
        Kind::Plain | Kind::Pair => vec![("ssd", "ssd-0.img", ssd), ("hdd", "hdd-0.img", 512)],
        Kind::Many => vec![
            ("ssd", "ssd-0.img", ssd),
            ("ssd", "ssd-1.img", ssd),
            ("hdd", "hdd-0.img", 256),
            ("hdd", "hdd-1.img", 256),
        ],
    }
}

impl PoolPlan {
    /// The pool of a seed.
    pub fn new(kind: Kind, behind: Behind, has_files: bool, rng: &mut Rng) -> PoolPlan {
        let mut text = String::from("[pool]\nname = \"live\"\n");
        for (role, name, mib) in drives(kind, behind) {
            let is_small = behind == Behind::Full && role == "hdd";
            let folder = if is_small { format!("{SMALL}/") } else { String::new() };
            let _ = write!(
                text,
                "[[device]]\nrole = \"{role}\"\npath = \"{folder}{name}\"\nsize = \"{mib}MiB\"\n"
            );
            let model = if role == "ssd" { "960evo" } else { "wd100efax" };
            let _ = writeln!(text, "profile = \"{model}\"");
            if behind == Behind::Emulated {
                let _ = writeln!(text, "emulate = \"{model}\"");
            }
            if kind == Kind::Pair && role == "ssd" {
                let times = "period = '150ms', idle = '10ms', cache = '64MiB'";
                let _ = writeln!(text, "pair = {{ leg = '{LEG}', {times} }}");
            }
        }
        if kind == Kind::Many {
            for (role, mib) in [("ssd", 32), ("hdd", 128)] {
                let spare = format!("[[device]]\nrole = \"{role}\"\npath = \"bay:{mib}MiB\"\n");
                // places stand behind all drives of their role
                let at = if role == "ssd" { text.find("[[device]]\nrole = \"hdd\"") } else { None };
                text.insert_str(at.unwrap_or(text.len()), &spare);
            }
        }
        let settings = pick(rng, &SETTINGS);
        let with_settings = |name: &str| match name {
            "none" => name.to_owned(),
            _ => format!("{name}:{settings}"),
        };
        let tiers: Vec<String> = TIERS.into_iter().map(with_settings).collect();
        let mut volumes = Vec::new();
        for number in 0..3 {
            let tier = if rng.below(2) == 0 { 0 } else { rng.below(tiers.len() as u64) as usize };
            let plan = volume(number, (kind, behind), &tiers[tier], rng, &mut text);
            volumes.push(plan);
        }
        if has_files {
            let policy = pick(rng, &POLICIES);
            let tier = &tiers[rng.below(tiers.len() as u64) as usize];
            let _ = writeln!(
                text,
                "[[volume]]\nname = \"files\"\nfiles = true\nmount = \"mnt\"\n\
                 steer = {{ policy = \"{policy}\" }}"
            );
            if tier != "none" {
                let _ = writeln!(text, "tier = {}", as_table(tier));
            }
        }
        text.push_str("[serve]\nnbd = [\"unix:tandem.sock\"]\n");
        PoolPlan { kind, behind, text, volumes, tiers, has_files }
    }
}

fn volume(
    number: usize,
    (kind, behind): (Kind, Behind),
    tier: &str,
    rng: &mut Rng,
    text: &mut String,
) -> VolumePlan {
    let name = format!("vol{number}");
    let (policy, class) = (pick(rng, &POLICIES), pick(rng, &CLASSES));
    // a volume of every other pool is slow to be served: what it waits for may change meanwhile
    let is_limited = number == 2 && kind != Kind::Many && rng.below(2) == 0;
    let _ = write!(
        text,
        "[[volume]]\nname = \"{name}\"\nsize = \"{VOLUME_MIB}MiB\"\n\
         steer = {{ policy = \"{policy}\" }}\ndurability = \"{class}\"\n"
    );
    if tier != "none" {
        let _ = writeln!(text, "tier = {}", as_table(tier));
    }
    if is_limited {
        text.push_str("limit = \"200/s\"\n");
    }
    let sectors = VOLUME_MIB * SECTORS_PER_MIB;
    let part = sectors / 16;
    let hot = rng.below(16) * part;
    let load = Load {
        connections: rng.between(1, 3) as usize,
        depth: pick(rng, &[4, 8, 16, 32, 48]),
        blocks_max: pick(rng, &[1, 4, 16, 64]),
        unaligned_ppm: pick(rng, &[0, 0, 200_000]),
        hot: (hot, hot + part),
        hot_ppm: 600_000,
        read_ppm: pick(rng, &[150_000, 300_000, 600_000]),
        zero_ppm: 40_000,
        trim_ppm: 40_000,
        flush_ppm: pick(rng, &[0, 5_000, 40_000]),
        fua_ppm: pick(rng, &[0, 20_000, 200_000]),
        may_fail: behind == Behind::Full,
    };
    assert!(load.blocks_max * BLOCK < part, "a request fits in the hot part");
    let limit = if is_limited { ", limit 200/s" } else { "" };
    let what = format!(
        "{policy}, {class}, tier {tier}{limit}, {} connections, depth {}, up to {} blocks, {} % \
         part blocks",
        load.connections,
        load.depth,
        load.blocks_max,
        load.unaligned_ppm / 10_000
    );
    VolumePlan { name, is_strict: class == "strict", load, what }
}

/// `hot-dst:size=4MiB` as the configuration spells it: `{ policy = "hot-dst", size = "4MiB" }`.
fn as_table(tier: &str) -> String {
    let (name, settings) = tier.split_once(':').unwrap_or((tier, ""));
    let mut text = format!("{{ policy = \"{name}\"");
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').expect("settings have values");
        let _ = write!(text, ", {key} = \"{value}\"");
    }
    text.push_str(" }");
    text
}
