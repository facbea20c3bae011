//! Caching or tiering? Four answers make each of the published architectures.
//!
//! Source: [LORIS §II, §IV]; requirements L1, L2, L14 to L19. Where does new data belong, where does a
//! write to data that the SSD holds, when does data come that was read from a hard drive, and does the
//! SSD keep what is written alone?
//!
//! | | new data | writes to what is held | data comes | keeps alone |
//! |---|---|---|---|---|
//! | Hot-DST | hard drive | SSD | when read, or at intervals | yes |
//! | Plain Cold-DST | SSD | SSD | never | yes |
//! | Dynamic Cold-DST | SSD | SSD | when read, or at intervals | yes |
//! | read-only cache | hard drive | hard drive: the copy is invalid | when read, or at intervals | – |
//! | write-through-update | hard drive | both | when read, or at intervals | no |
//! | write-through-all | both | both | when read, or at intervals | no |
//! | write-back | SSD | SSD | when read, or at intervals | no |
//!
//! Differs: extents map independently, so that write-back and write-through-all can be had, which whole
//! files forbade. What came to the SSD and was not written to leaves it without a copy, unless
//! `exclusive` is set. A write for "both" is acknowledged when one of them has it, and the other follows
//! (`migration/copies`), unless `acknowledge` is `both`: then a log takes it, and an SSD a copy at once
//! (`migration/tail`). Hard drives take writes in their logs; with `detours`
//! set to `no` these wait for a drive that is busy, as in the paper.

use super::settings::{
    ACKNOWLEDGE, ALL, COLLECTOR, DETOURS, INTERVAL, NEVER, SIEVE_BYTES, SIEVE_TYPE,
};
use super::{Comes, Intention, Tier, TierConfig, TierEntry, TierView};
use tandem_block::{BLOCK_BYTES, RequestType};

/// A word of `collector`: what caches have unless told otherwise, least recently used.
const LRU: (&str, u64) = (COLLECTOR.name, 3);

/// Registry line.
pub(crate) const HOT_DST: TierEntry = TierEntry {
    name: "hot-dst",
    summary: "a tier that hot data comes to: new data goes to the hard drive",
    source: "LORIS IV-A",
    settings: ALL,
    presets: &[],
    build: |config| Rules::boxed(config, (Intention::Hdd, Intention::Ssd), true, true),
};

/// Registry line.
pub(crate) const COLD_DST_PLAIN: TierEntry = TierEntry {
    name: "cold-dst-plain",
    summary: "a tier that cold data leaves: new data goes to the SSD, nothing comes back",
    source: "LORIS IV-B",
    settings: ALL,
    presets: &[],
    build: |config| Rules::boxed(config, (Intention::Ssd, Intention::Ssd), false, true),
};

/// Registry line.
pub(crate) const COLD_DST: TierEntry = TierEntry {
    name: "cold-dst",
    summary: "a tier that cold data leaves and hot data comes back to",
    source: "LORIS IV-B",
    settings: ALL,
    presets: &[],
    build: |config| Rules::boxed(config, (Intention::Ssd, Intention::Ssd), true, true),
};

/// Registry line.
pub(crate) const CACHE_READ_ONLY: TierEntry = TierEntry {
    name: "cache-read-only",
    summary: "a cache of what is read; a write makes its copy invalid",
    source: "LORIS II-A",
    settings: ALL,
    presets: &[LRU],
    build: |config| Rules::boxed(config, (Intention::Hdd, Intention::Hdd), true, false),
};

/// Registry line.
pub(crate) const CACHE_WRITE_THROUGH: TierEntry = TierEntry {
    name: "cache-write-through",
    summary: "a cache of what is read; a write goes to the copy, too (write-through-update)",
    source: "LORIS II-A",
    settings: ALL,
    presets: &[LRU],
    build: |config| Rules::boxed(config, (Intention::Hdd, Intention::Both), true, false),
};

/// Registry line.
pub(crate) const CACHE_WRITE_THROUGH_ALL: TierEntry = TierEntry {
    name: "cache-write-through-all",
    summary: "a cache of what is read and written; every write goes to both",
    source: "LORIS II-A",
    settings: ALL,
    presets: &[LRU],
    build: |config| Rules::boxed(config, (Intention::Both, Intention::Both), true, false),
};

/// Registry line.
pub(crate) const CACHE_WRITE_BACK: TierEntry = TierEntry {
    name: "cache-write-back",
    summary: "a cache of what is read and written; writes go home by the watermarks",
    source: "LORIS II-A",
    settings: ALL,
    presets: &[LRU],
    build: |config| Rules::boxed(config, (Intention::Ssd, Intention::Ssd), true, false),
};

/// What is a setting's word for `sieve_type`.
const METADATA_ALONE: u64 = 1;
const DATA_ALONE: u64 = 2;

/// One of the architectures.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Where new data belongs.
    new: Intention,
    /// Where a write to what the SSD holds belongs.
    held: Intention,
    comes: Comes,
    keeps_alone: bool,
    /// L11: larger requests have no place on the SSD.
    sieve_bytes: u64,
    /// L12: what may have one.
    sieve_type: u64,
    detours: bool,
    acknowledges_both: bool,
}

impl Rules {
    fn boxed(
        config: &TierConfig,
        (new, held): (Intention, Intention),
        comes: bool,
        keeps_alone: bool,
    ) -> Box<dyn Tier> {
        let comes = match (comes, config.get(INTERVAL.name)) {
            (false, _) => Comes::Never,
            (true, NEVER) => Comes::WhenRead,
            (true, _) => Comes::AtIntervals,
        };
        Box::new(Rules {
            new,
            held,
            comes,
            keeps_alone,
            sieve_bytes: config.get(SIEVE_BYTES.name),
            sieve_type: config.get(SIEVE_TYPE.name),
            detours: config.get(DETOURS.name) == 0,
            acknowledges_both: config.get(ACKNOWLEDGE.name) == 1,
        })
    }
}

impl Tier for Rules {
    fn intend(&self, view: &TierView) -> Intention {
        if view.held { self.held } else { self.new }
    }

    fn has_share(&self) -> bool {
        true
    }

    fn admits(&self, view: &TierView) -> bool {
        let wanted = match self.sieve_type {
            METADATA_ALONE => view.data_type == RequestType::Metadata,
            DATA_ALONE => view.data_type == RequestType::Data,
            _ => true,
        };
        wanted && view.count * BLOCK_BYTES <= self.sieve_bytes
    }

    fn comes(&self) -> Comes {
        self.comes
    }

    fn keeps_alone(&self) -> bool {
        self.keeps_alone
    }

    fn detours(&self) -> bool {
        self.detours
    }

    fn acknowledges_both(&self) -> bool {
        self.acknowledges_both
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(held: bool) -> TierView {
        TierView { logical: 0, count: 1, data_type: RequestType::Data, held }
    }

    /// L1, L2, L14 to L19: the table above, by name.
    #[test]
    fn the_architectures_are_the_papers() {
        use Intention::{Both, Hdd, Ssd};
        for (name, new, held, comes, keeps) in [
            ("hot-dst", Hdd, Ssd, true, true),
            ("cold-dst-plain", Ssd, Ssd, false, true),
            ("cold-dst", Ssd, Ssd, true, true),
            ("cache-read-only", Hdd, Hdd, true, false),
            ("cache-write-through", Hdd, Both, true, false),
            ("cache-write-through-all", Both, Both, true, false),
            ("cache-write-back", Ssd, Ssd, true, false),
        ] {
            let tier = TierConfig::named(name).build().expect(name);
            assert_eq!(
                (tier.intend(&view(false)), tier.intend(&view(true))),
                (new, held),
                "{name}"
            );
            assert_eq!(tier.comes() == Comes::WhenRead, comes, "{name}");
            assert_eq!(tier.keeps_alone(), keeps, "{name}");
            let at_intervals = TierConfig::named(name).with("interval", 5_000_000_000);
            let comes_then = at_intervals.build().expect(name).comes();
            assert_eq!(comes_then == Comes::AtIntervals, comes, "{name}");
        }
    }

    /// L11, L12.
    #[test]
    fn what_is_sieved_has_no_place() {
        let config = TierConfig::named("hot-dst");
        let large = TierView { count: 257, ..view(false) };
        let directory = TierView { data_type: RequestType::Metadata, ..view(false) };
        let tier = config.clone().build().expect("it is there");
        assert!(tier.admits(&view(false)) && tier.admits(&directory) && !tier.admits(&large));
        let tier = config.clone().with("sieve_type", 1).build().expect("it is there");
        assert!(!tier.admits(&view(false)) && tier.admits(&directory));
        let tier = config.with("sieve_type", 2).build().expect("it is there");
        assert!(tier.admits(&view(false)) && !tier.admits(&directory));
    }
}
