//! Where does this data belong?
//!
//! A seam: one file per answer. Source: design decision 5; the file migration plugin of [LORIS §III].
//! A tier names the intended place of a write and says whether a read brings data to the SSD. Steering
//! may detour the write, and write-back restores the intention. What hot and cold mean is a collector's
//! affair (`collect/`); which extents the SSD holds, which come and which leave, is kept in `space.rs`
//! for all volumes of a pool together; the moves themselves are in `tiering/` and `migration/`.
//!
//! Most of what was published differs in four answers, so it is a table (`rules.rs`).

pub(crate) mod benefit;
mod classes;
pub mod collect;
pub(crate) mod griffin;
pub(crate) mod log_age;
pub(crate) mod none;
pub(crate) mod presets;
pub(crate) mod rules;
pub mod settings;
pub(crate) mod sieve;
pub(crate) mod space;

pub use classes::Classes;

use crate::map::Logical;
use crate::settings::{Chosen, Registry, Setting};
use tandem_block::RequestType;

/// What a tier sees of a request.
#[derive(Clone, Copy, Debug)]
pub struct TierView {
    /// First block.
    pub logical: Logical,
    /// How many blocks.
    pub(crate) count: u64,
    /// What the bytes are.
    pub(crate) data_type: RequestType,
    /// Does the SSD hold all extents that the request touches? Always false for a tier that has no
    /// share of the SSD ([`Tier::has_share`]).
    pub(crate) held: bool,
}

/// The intended place of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intention {
    /// On an SSD.
    Ssd,
    /// On a hard drive: its log now, its home in time.
    Hdd,
    /// On an SSD and on a hard drive: written to one of them, and then copied to the other.
    Both,
}

/// When does data come to the SSD that a hard drive was read for?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comes {
    /// Never: only writes bring it.
    Never,
    /// As soon as it was read.
    WhenRead,
    /// The hottest, every so often.
    AtIntervals,
    /// What was written to a hard drive's log, when that has aged.
    FromLog,
}

/// What a tier says of data that no request asks for just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// When does it come that was read from a hard drive?
    pub(crate) comes: Comes,
    /// Does what was written to the SSD stay there alone?
    pub(crate) keeps_alone: bool,
}

/// A tiering or caching policy.
pub trait Tier: std::fmt::Debug + Send {
    /// Where does this write belong?
    fn intend(&self, view: &TierView) -> Intention;

    /// Has it a share of the SSD, in which it holds what it chooses? Without one, write-back by the
    /// watermarks is all there is, and nothing below is asked.
    fn has_share(&self) -> bool {
        false
    }

    /// May the extents of this request have a place in that share at all?
    fn admits(&self, _view: &TierView) -> bool {
        true
    }

    /// When does data come that was read from a hard drive?
    fn comes(&self) -> Comes {
        Comes::Never
    }

    /// Does what is written to the SSD stay there alone until its extent leaves (a tier), or is it soon
    /// written home, too (a cache)?
    fn keeps_alone(&self) -> bool {
        false
    }

    /// May the SSD take a write that belongs on a hard drive, while that is busy with reads or moves?
    fn detours(&self) -> bool {
        true
    }

    /// Is a write for an SSD and a hard drive acknowledged only when both have it?
    fn acknowledges_both(&self) -> bool {
        false
    }

    /// What applies to data of its own while no request asks for it.
    fn class(&self) -> Class {
        Class { comes: self.comes(), keeps_alone: self.keeps_alone() }
    }

    /// A copy of itself, so that engines can be cloned.
    fn boxed_clone(&self) -> Box<dyn Tier>;
}

impl Clone for Box<dyn Tier> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A registered tier.
#[derive(Clone, Copy, Debug)]
pub struct TierEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Its settings.
    pub(crate) settings: &'static [Setting],
    /// Defaults of its own.
    pub presets: &'static [(&'static str, u64)],
    /// Makes one.
    pub(crate) build: fn(&TierConfig) -> Box<dyn Tier>,
}

/// Every tier there is.
pub const TIERS: &[TierEntry] = &[
    none::ENTRY,
    rules::HOT_DST,
    rules::COLD_DST_PLAIN,
    rules::COLD_DST,
    rules::CACHE_READ_ONLY,
    rules::CACHE_WRITE_THROUGH,
    rules::CACHE_WRITE_THROUGH_ALL,
    rules::CACHE_WRITE_BACK,
    presets::L2ARC,
    presets::FLASHCACHE,
    presets::FASTCACHE,
    presets::AZOR,
    presets::EDT,
    presets::HYSTOR,
    presets::EASYTIER,
    griffin::ENTRY,
    presets::MOST,
];

/// A registered tier by its place in the registry: for as long as the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TierNumber(u8);

impl TierNumber {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        TIERS[usize::from(self.0)].name
    }
}

/// The tier of this name.
pub(crate) fn number(name: &[u8]) -> Option<TierNumber> {
    let at = TIERS.iter().position(|entry| entry.name.as_bytes() == name)?;
    Some(TierNumber(u8::try_from(at).expect("a handful")))
}

/// The tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers;

impl Registry for Tiers {
    const WHAT: &'static str = "tier";
    const USUAL: &'static str = "none";

    fn names() -> Vec<&'static str> {
        TIERS.iter().map(|entry| entry.name).collect()
    }

    fn settings(name: &str) -> Option<&'static [Setting]> {
        TIERS.iter().find(|entry| entry.name == name).map(|entry| entry.settings)
    }

    fn default(name: &str, setting: &Setting) -> u64 {
        let entry = TIERS.iter().find(|entry| entry.name == name);
        let own =
            entry.and_then(|entry| entry.presets.iter().find(|(own, _)| *own == setting.name));
        own.map_or(setting.default, |(_, value)| *value)
    }
}

/// Which tier a volume has, by its registered name, with settings.
pub type TierConfig = Chosen<Tiers>;

impl TierConfig {
    /// Its registry entry, if there is one.
    pub fn entry(&self) -> Option<&'static TierEntry> {
        TIERS.iter().find(|entry| entry.name == self.name())
    }

    /// The tier itself, if there is one of that name.
    pub(crate) fn build(&self) -> Option<Box<dyn Tier>> {
        self.entry().map(|entry| (entry.build)(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed_and_every_name_is_snake_case() {
        for entry in TIERS {
            let config = TierConfig::named(entry.name);
            for (at, setting) in entry.settings.iter().enumerate() {
                let default = config.get(setting.name);
                assert!(setting.allows(default), "{} {}: {default}", entry.name, setting.name);
                let plain = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(setting.name.chars().all(plain), "{}", setting.name);
                let twice = entry.settings[..at].iter().any(|other| other.name == setting.name);
                assert!(!twice, "{} has {} twice", entry.name, setting.name);
            }
            for (name, _) in entry.presets {
                assert!(entry.settings.iter().any(|s| s.name == *name), "{}: {name}", entry.name);
            }
            assert_eq!(config.build().expect("registered").has_share(), entry.name != "none");
        }
    }

    #[test]
    fn a_preset_is_the_default_and_need_not_be_said() {
        let mut config = TierConfig::named("cache-read-only");
        let preset = config.get("collector");
        assert_ne!(preset, settings::COLLECTOR.default);
        config.set("collector", settings::COLLECTOR.default).expect("a word");
        assert_eq!(config.changed().count(), 1);
        config.set("collector", preset).expect("a word");
        assert_eq!(config, TierConfig::named("cache-read-only"));
    }
}
