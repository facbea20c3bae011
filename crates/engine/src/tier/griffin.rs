//! Where does this data belong? On the SSD, but it goes to a log of a hard drive first.
//!
//! Source:  Griffin (FAST 2010), whose abstract was read; P17 of the requirements. A hard drive is the write cache
//!          of an SSD. All writes are appended to its log. The newest version of each block comes to the SSD
//!          when the log has aged, or when too many reads need the log (`log_age.rs`). What is overwritten before
//!          is never written to the SSD.
//! Names:   time between migrations → log_age, share of reads that the log serves → log_reads
//! Differs: * both numbers are guesses, since the paper was not at hand;
//!          * the log is no larger than a log is here. What its cleaning takes from it goes to the homes on the hard
//!            drive, and stays there until it is written again. The paper's SSD is as large as the data; here the coldest
//!            leaves when it is full;
//!          * what comes is read extent by extent, not in the order of the log;
//!          * what was logged before a restart, or before the tier was changed, comes only if it is written again. The rest
//!            goes home when its log is cleaned;
//!          * writes with FUA, and what no log has room for, go to the SSD at once and stay there.

use super::settings::{ALL, COLLECTOR, DETOURS};
use super::{Comes, Intention, Tier, TierEntry, TierView};

/// A word of `collector`: who leaves a full SSD is a matter of how often it was used.
const COUNTS: (&str, u64) = (COLLECTOR.name, 1);
/// A word of `detours`: the SSD takes nothing that the hard drive could take later.
const NO_DETOURS: (&str, u64) = (DETOURS.name, 1);

/// Registry line.
pub(crate) const ENTRY: TierEntry = TierEntry {
    name: "griffin",
    summary: "as Griffin: the hard drive's log takes every write, and they come to the SSD when it has aged",
    source: "Griffin (FAST 2010), requirements P17",
    settings: ALL,
    presets: &[COUNTS, NO_DETOURS],
    build: |config| Box::new(Griffin { detours: config.get(DETOURS.name) == 0 }),
};

#[derive(Clone, Copy, Debug)]
struct Griffin {
    detours: bool,
}

impl Tier for Griffin {
    fn intend(&self, _: &TierView) -> Intention {
        Intention::Hdd
    }

    fn has_share(&self) -> bool {
        true
    }

    fn comes(&self) -> Comes {
        Comes::FromLog
    }

    fn keeps_alone(&self) -> bool {
        true
    }

    fn detours(&self) -> bool {
        self.detours
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use crate::tier::{Comes, Intention, TierConfig, TierView};
    use tandem_block::RequestType;

    #[test]
    fn p17_every_write_is_for_the_log_and_stays_on_the_ssd_once_it_came() {
        let tier = TierConfig::named("griffin").build().expect("registered");
        for (held, count) in [(false, 1), (true, 1), (true, 8192)] {
            let view = TierView { logical: 0, count, data_type: RequestType::Data, held };
            assert_eq!(tier.intend(&view), Intention::Hdd, "{held} {count}");
            assert!(tier.admits(&view));
        }
        assert_eq!((tier.comes(), tier.keeps_alone()), (Comes::FromLog, true));
        assert!(!tier.detours(), "writes wait for the hard drive");
        let patient = TierConfig::named("griffin").with("detours", 0).build().expect("registered");
        assert!(patient.detours());
    }
}
